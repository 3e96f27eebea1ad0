//! Documents and commits with a planted bug.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    AppendEvents, Commit, CommitCoordinator, Document, DocumentChange, DocumentExpect, DocumentOp, DocumentQuery,
    DocumentRef, DocumentStore, EventStore, EventVisibility, Json, NewEvent, OutboxStore, Page, PendingStore, Receipt,
    Result, Scope, ThreadRunStore, WriteDocuments, WrittenDocuments,
};

use super::{
    bug::LayerBug,
    effect_documents::{self, is_checked_early, is_effect},
    effects::{change_changes, change_events, change_loaded, change_query, collection, other_loaded},
    trace_documents::{self, is_of_trace},
};

/// Documents that a layer with a planted bug reads and writes.
pub(super) struct FaultyDocuments {
    pub(super) documents: Arc<dyn DocumentStore>,
    pub(super) events: Arc<dyn EventStore>,
    pub(super) bug: LayerBug,
}

impl FaultyDocuments {
    /// Returns any value of a profile.
    async fn load_any_value(&self) -> Result<Option<Document>> {
        let query = DocumentQuery::new("layer.profiles".parse()?);
        Ok(self.documents.list_documents(query).await?.items.pop())
    }

    /// Appends the audit records of a write in a step of their own.
    async fn append_audits(&self, request: &mut WriteDocuments) -> Result<()> {
        let Some(append) = request.events.take() else { return Ok(()) };
        let is_audit = |draft: &NewEvent| draft.visibility == EventVisibility::Audit;
        let (audits, others): (Vec<_>, Vec<_>) = append.drafts.into_iter().partition(is_audit);
        if !audits.is_empty() {
            self.events.append_events(AppendEvents::new(audits)).await?;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        request.events = (!others.is_empty()).then(|| AppendEvents::new(others));
        Ok(())
    }

    async fn append_to_feed(&self) -> Result<()> {
        let fact = NewEvent::new("registry.published".parse()?, [Scope::Topic("layer.registry".parse()?)]);
        let fact = fact.with_payload(Json::parse(r#"{"snapshot":1,"publication":"early"}"#)?);
        self.events.append_events(AppendEvents::new([fact])).await.map(drop)
    }

    /// Puts the hash of the first version into the state of a definition.
    async fn compare_with_first_version(&self, changes: &mut [DocumentChange]) -> Result<()> {
        for change in changes.iter_mut().filter(|change| collection(&change.document.key) == "definitions") {
            let found = self.documents.load_documents(std::slice::from_ref(&change.document)).await?.pop().flatten();
            let (Some(found), DocumentOp::Put(value)) = (found, &mut change.op) else { continue };
            let hash = |text: &str| text.split('"').find(|part| part.starts_with("sha256-jcs:")).map(str::to_owned);
            if let (Some(old), Some(new)) = (hash(found.value.as_str()), hash(value.as_str())) {
                *value = Json::parse(&value.as_str().replace(&new, &old))?;
            }
        }
        Ok(())
    }

    /// Checks the expectations, waits, and writes without them.
    async fn write_with_early_check(&self, mut request: WriteDocuments) -> Result<WrittenDocuments> {
        let names: Vec<_> = request.changes.iter().map(|change| change.document.clone()).collect();
        let found = self.documents.load_documents(&names).await?;
        let mut checked = request.changes.iter().zip(&found);
        if !checked.all(|(change, found)| change.expect.holds(found.as_ref().map(|found| found.revision))) {
            return self.documents.write_documents(request).await;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        request.changes.retain(|change| change.op != DocumentOp::Keep);
        request.changes.iter_mut().for_each(|change| change.expect = DocumentExpect::Any);
        self.documents.write_documents(request).await
    }

    async fn delay(&self, request: &WriteDocuments) {
        let deletes_a_version = request
            .changes
            .iter()
            .any(|change| change.op == DocumentOp::Delete && collection(&change.document.key) == "versions");
        let pause = match self.bug {
            // Longer than the commit that pins waits.
            LayerBug::PinsUnguarded if deletes_a_version => 40,
            LayerBug::VersionsUnguarded
            | LayerBug::PublicationsUnguarded
            | LayerBug::ProfileOperationUnguarded
            | LayerBug::ReplayUnguarded
            | LayerBug::CheckpointUnguarded => 4,
            _ => match trace_documents::pause(self.bug, &request.changes) {
                Some(pause) => pause,
                None => return,
            },
        };
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

#[async_trait]
impl DocumentStore for FaultyDocuments {
    async fn load_documents(&self, wanted: &[DocumentRef]) -> Result<Vec<Option<Document>>> {
        if wanted.iter().any(is_effect) {
            return effect_documents::load(self.bug, &*self.documents, wanted).await;
        }
        if wanted.iter().any(is_of_trace) {
            return trace_documents::load(self.bug, &*self.documents, wanted).await;
        }
        let names: Vec<_> = wanted.iter().map(|document| other_loaded(self.bug, document)).collect();
        let mut found = self.documents.load_documents(&names).await?;
        for document in found.iter_mut().flatten() {
            change_loaded(self.bug, document);
        }
        let of_profiles = wanted.first().is_some_and(|document| collection(&document.key) == "profiles");
        match self.bug {
            LayerBug::ProfileMissingValueInvented if of_profiles => {
                for missing in found.iter_mut().filter(|found| found.is_none()) {
                    *missing = self.load_any_value().await?;
                }
            }
            LayerBug::ProfileOperationsForgetTheValue if of_profiles => found.fill(None),
            LayerBug::FeedBeforeTheDecision
                if wanted.iter().any(|document| collection(&document.key) == "publication_ids") =>
            {
                self.append_to_feed().await?;
            }
            _ => {}
        }
        Ok(found)
    }

    async fn list_documents(&self, mut query: DocumentQuery) -> Result<Page<Document>> {
        change_query(self.bug, &mut query);
        self.documents.list_documents(query).await
    }

    async fn write_documents(&self, mut request: WriteDocuments) -> Result<WrittenDocuments> {
        let of_profiles = request.changes.first().is_some_and(|change| collection(&change.document.key) == "profiles");
        change_changes(self.bug, &mut request.changes);
        change_events(self.bug, &mut request);
        if self.bug == LayerBug::ComparedWithTheFirstVersion {
            self.compare_with_first_version(&mut request.changes).await?;
        }
        if matches!(self.bug, LayerBug::ProfileAuditInAStepOfItsOwn | LayerBug::RegistryAuditInAStepOfItsOwn) {
            self.append_audits(&mut request).await?;
        }
        self.delay(&request).await;
        if is_checked_early(self.bug, &request.changes) {
            return self.write_with_early_check(request).await;
        }
        match self.bug {
            LayerBug::DatasetUnguarded | LayerBug::ResultUnguarded => {
                return self.write_with_early_check(request).await;
            }
            LayerBug::ProfileCheckedEarly if of_profiles => return self.write_with_early_check(request).await,
            LayerBug::SnapshotCheckedEarly if !of_profiles => return self.write_with_early_check(request).await,
            LayerBug::ProfileRefusedChangeStays if of_profiles => {
                let first = request.changes.first().cloned();
                let written = self.documents.write_documents(request).await;
                if let (Err(_), Some(first)) = (&written, first) {
                    let change = first.expecting(DocumentExpect::Any);
                    self.documents.write_documents(WriteDocuments::new([change])).await?;
                }
                return written;
            }
            LayerBug::ProfileRevisionStartsAgain if of_profiles => {
                let names: Vec<_> = request.changes.iter().map(|change| change.document.clone()).collect();
                let is_new = self.documents.load_documents(&names).await?.iter().any(Option::is_none);
                let mut written = self.documents.write_documents(request).await?;
                written.revision = written.revision.map(|revision| if is_new { 1 } else { revision });
                return Ok(written);
            }
            _ => {}
        }
        self.documents.write_documents(request).await
    }
}

/// Commits whose documents are those of a layer with a planted bug.
pub(super) struct FaultyCommits {
    pub(super) commits: Arc<dyn CommitCoordinator>,
    pub(super) documents: Arc<FaultyDocuments>,
    pub(super) bug: LayerBug,
}

impl FaultyCommits {
    /// Changes what happens to the outcome of an effect that a commit carries.
    async fn change_outcome(&self, commit: &mut Commit) -> Result<()> {
        match self.bug {
            LayerBug::EffectNotCommitted => commit.documents.clear(),
            LayerBug::EffectEndedBeforeTheCommit => {
                let changes = std::mem::take(&mut commit.documents);
                self.documents.documents.write_documents(WriteDocuments::new(changes)).await?;
            }
            LayerBug::EffectCommitUnguarded => {
                commit.documents.iter_mut().for_each(|change| change.expect = DocumentExpect::Any);
            }
            _ => {}
        }
        Ok(())
    }
}

#[async_trait]
impl CommitCoordinator for FaultyCommits {
    async fn commit(&self, mut commit: Commit) -> Result<Receipt> {
        change_changes(self.bug, &mut commit.documents);
        if commit.documents.iter().any(|change| is_effect(&change.document)) {
            self.change_outcome(&mut commit).await?;
        }
        if self.bug == LayerBug::PinsUnguarded && !commit.documents.is_empty() {
            // Meanwhile a purge has read the pins.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        match self.bug {
            LayerBug::ReplayOfACommitForgotten => {
                if let Some(append) = &mut commit.events {
                    append.drafts.retain(|draft| draft.kind.as_str() != "replay.record");
                }
            }
            LayerBug::CheckpointRemovedEarly if !commit.documents.is_empty() => {
                let removals = commit.documents.iter().filter(|change| change.op == DocumentOp::Delete).cloned();
                self.documents.write_documents(WriteDocuments::new(removals)).await?;
            }
            _ => {}
        }
        self.commits.commit(commit).await
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        self.commits.threads()
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        self.commits.pending()
    }

    fn events(&self) -> Arc<dyn EventStore> {
        self.commits.events()
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        self.commits.outbox()
    }

    fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        let documents: Arc<dyn DocumentStore> = Arc::<FaultyDocuments>::clone(&self.documents);
        Some(documents)
    }
}
