//! Removing versions that nothing needs, beside runs that pin them.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::{
    keys::{self, DEFINITIONS, Holder, MARKS, PINS, VERSIONS},
    record::{Definition, DefinitionRef, VersionRef},
    request::{PurgeVersions, PurgedVersions},
    store::{RegistryLayer, RegistryReader, RegistryRetention},
};
use crate::{
    document::{DeleteDocuments, DocumentChange, DocumentExpect, WriteDocuments},
    error::{Error, ErrorKind, Result},
    ext::DocumentStoreExt,
    json::Json,
    limits::length,
    page::{MAX_PAGE, PageRequest},
    progress::{IgnoreProgress, Progress},
    run::{RunPhase, RunReader},
};

impl RegistryLayer {
    /// Writes changes. Returns the revision, or none if an expectation does not hold.
    async fn try_write(&self, changes: impl IntoIterator<Item = DocumentChange>) -> Result<Option<u64>> {
        match self.store.documents.write_documents(WriteDocuments::new(changes)).await {
            Ok(written) => Ok(Some(written.revision.unwrap_or_default())),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether something pins a version: a publication, a protection, or a run that is not done. Removes the
    /// pins of runs that are done, unless it is a dry run, so that no later purge looks at them.
    async fn is_needed(&self, version: &VersionRef, runs: &dyn RunReader, dry_run: bool) -> Result<bool> {
        let (query, mut next) = (keys::query(PINS, version.segments()?)?, Some(PageRequest::first(MAX_PAGE)));
        while let Some(request) = next.take() {
            let page = self.store.documents.list_documents(query.clone().with_page(request)).await?;
            for pin in &page.items {
                let Holder::Run(run) = Holder::from_pin(pin)? else { return Ok(true) };
                // The commit that pins also writes the run. So a run that does not exist was deleted with its thread.
                if runs.load_run(&run).await?.is_some_and(|run| run.status.phase() != RunPhase::Done) {
                    return Ok(true);
                }
                if !dry_run {
                    let expect = DocumentExpect::Revision(pin.revision);
                    self.try_write([DocumentChange::delete(pin.to_ref()).expecting(expect)]).await?;
                }
            }
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
        Ok(false)
    }

    /// Removes a version unless something needs it. Returns whether it was removed.
    ///
    /// It is marked first, and from then on nothing can pin it. The pins are read after that: one that came before the
    /// mark is seen, and one that comes later is refused.
    async fn remove_unless_needed(&self, version: &VersionRef, runs: &dyn RunReader) -> Result<bool> {
        let (document, mark) = (version.in_collection(VERSIONS)?, version.in_collection(MARKS)?);
        let exists = DocumentChange::check(document.clone(), DocumentExpect::Present);
        let marked = self.try_write([DocumentChange::put(mark.clone(), Json::parse("{}")?), exists]).await?;
        let Some(revision) = marked else { return Ok(false) };
        // If another purge has marked the version again, that one decides.
        let unmark = DocumentChange::delete(mark).expecting(DocumentExpect::Revision(revision));
        if self.is_needed(version, runs, false).await? {
            self.try_write([unmark]).await?;
            return Ok(false);
        }
        let pins = DeleteDocuments::new(keys::query(PINS, version.segments()?)?);
        self.store.documents.delete_documents(pins, &IgnoreProgress).await?;
        Ok(self.try_write([unmark, DocumentChange::delete(document)]).await?.is_some())
    }

    /// Removes versions of a definition, and adds them to `purged`, which says whether it was stopped.
    async fn purge_definition(
        &self,
        definition: &Definition,
        request: &PurgeVersions,
        (runs, progress): (&dyn RunReader, &dyn Progress),
        purged: &mut PurgedVersions,
    ) -> Result<()> {
        let list = async |collection| {
            let query = keys::query(collection, definition.name.segments()?)?;
            self.store.list_all(query, VersionRef::from_document).await
        };
        let (versions, marked) = (list(VERSIONS).await?, list(MARKS).await?);
        let old = length(versions.len()).saturating_sub(request.keep_newest);
        // The current version has only ever grown: what was listed after the definition was loaded may be newer.
        let old = versions.into_iter().zip(0..old).map(|(version, _)| version);
        let old: BTreeSet<_> = old.filter(|version| version.version < definition.current).collect();
        // A version that a stopped purge has marked must lose its mark if it stays.
        for version in marked.iter().filter(|_| !request.dry_run) {
            if !old.contains(version) {
                self.try_write([DocumentChange::delete(version.in_collection(MARKS)?)]).await?;
            }
        }
        for version in old {
            let must_decide = !request.dry_run && marked.contains(&version);
            let is_free = must_decide || !self.is_needed(&version, runs, request.dry_run).await?;
            if is_free && (request.dry_run || self.remove_unless_needed(&version, runs).await?) {
                purged.versions.push(version);
            }
            purged.stopped = !progress.advance(length(purged.versions.len()), None);
            if purged.stopped {
                break;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl RegistryRetention for RegistryLayer {
    async fn protect_version(&self, version: &VersionRef) -> Result<()> {
        let write = WriteDocuments::new(Holder::Protection.pin_changes(version)?);
        match self.store.documents.write_documents(write).await {
            Err(error) if error.kind() == ErrorKind::Conflict && self.load_version(version).await?.is_none() => {
                Err(Error::not_found("version", version.to_string()))
            }
            written => written.map(drop),
        }
    }

    async fn unprotect_version(&self, version: &VersionRef) -> Result<()> {
        let change = DocumentChange::delete(Holder::Protection.pin(version)?);
        self.store.documents.write_documents(WriteDocuments::new([change])).await.map(drop)
    }

    async fn purge_versions(
        &self,
        request: PurgeVersions,
        runs: &dyn RunReader,
        progress: &dyn Progress,
    ) -> Result<PurgedVersions> {
        let prefix = request.definition.as_ref().map(DefinitionRef::segments).transpose()?.unwrap_or_default();
        let mut purged = PurgedVersions::default();
        for definition in self.store.list_all(keys::query(DEFINITIONS, prefix)?, Definition::from_document).await? {
            self.purge_definition(&definition, &request, (runs, progress), &mut purged).await?;
            if purged.stopped {
                break;
            }
        }
        Ok(purged)
    }
}
