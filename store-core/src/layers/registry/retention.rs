//! Removing versions that nothing needs, beside runs that pin them.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::{
    keys::{self, Collection},
    manifest::{PurgeVersions, PurgedVersions},
    record::{DefinitionRef, DefinitionState, VersionRef},
    store::{RegistryLayer, RegistryRetention},
};
use crate::{
    document::{Document, DocumentChange, DocumentExpect, DocumentQuery, WriteDocuments},
    error::{Error, ErrorKind, Result},
    json::Json,
    limits::length,
    page::{MAX_PAGE, PageRequest},
    run::{RunPhase, RunReader},
};

/// The pins of a version.
#[derive(Default)]
struct Pins {
    /// Whether a run pins it that is not done.
    is_needed: bool,
    /// The pins of runs that are done, or whose threads were deleted.
    finished: Vec<Document>,
}

impl RegistryLayer {
    async fn list_all(&self, query: DocumentQuery) -> Result<Vec<Document>> {
        let (mut found, mut next) = (Vec::new(), Some(PageRequest::first(MAX_PAGE)));
        while let Some(request) = next.take() {
            let page = self.store.documents.list_documents(query.clone().with_page(request)).await?;
            found.extend(page.items);
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
        Ok(found)
    }

    /// Returns the versions of a definition that nothing in the registry needs.
    async fn unneeded_versions(&self, definition: &DefinitionRef, keep_newest: u64) -> Result<Vec<VersionRef>> {
        let Some(found) = self.load_one(keys::definition(definition)?).await? else { return Ok(Vec::new()) };
        let current = keys::decode::<DefinitionState>(&found)?.current;
        let mut spared = BTreeSet::from([current]);
        for collection in [Collection::Published, Collection::Protected] {
            for document in self.list_all(collection.of_definition(definition)?).await? {
                spared.insert(keys::version_of(&document)?.version);
            }
        }
        let versions = self.list_all(Collection::Versions.of_definition(definition)?).await?;
        let versions = versions.iter().map(keys::version_of).collect::<Result<Vec<_>>>()?;
        let old = length(versions.len()).saturating_sub(keep_newest);
        let old_versions = versions.into_iter().zip(0..old).map(|(version, _)| version);
        Ok(old_versions.filter(|version| !spared.contains(&version.version)).collect())
    }

    async fn load_pins(&self, version: &VersionRef, runs: &dyn RunReader) -> Result<Pins> {
        let mut pins = Pins::default();
        for pin in self.list_all(keys::pins_of(version)?).await? {
            // The commit that pins also writes the run. So a run that does not exist was deleted with its thread.
            let run = runs.load_run(&keys::run_of(&pin)?).await?;
            if run.is_none_or(|run| run.status.phase() == RunPhase::Done) {
                pins.finished.push(pin);
            } else {
                pins.is_needed = true;
            }
        }
        Ok(pins)
    }

    /// Marks a version, and returns the revision of the mark. From now on nothing can pin, protect or publish it.
    ///
    /// Returns none if the version was published or protected since it was found, or does not exist any more.
    async fn mark(&self, version: &VersionRef) -> Result<Option<u64>> {
        let changes = [
            DocumentChange::put(Collection::Marks.of_version(version)?, Json::parse("{}")?),
            DocumentChange::check(Collection::Versions.of_version(version)?, DocumentExpect::Present),
            DocumentChange::check(Collection::Published.of_version(version)?, DocumentExpect::Absent),
            DocumentChange::check(Collection::Protected.of_version(version)?, DocumentExpect::Absent),
        ];
        match self.store.documents.write_documents(WriteDocuments::new(changes)).await {
            Ok(written) => Ok(written.revision),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes a version unless a run pins it. Returns whether it was removed.
    ///
    /// The pins are read after the mark was written. A pin that was written before the mark is therefore seen here, and
    /// one that comes later is refused.
    async fn remove_unless_pinned(&self, version: &VersionRef, runs: &dyn RunReader) -> Result<bool> {
        let Some(revision) = self.mark(version).await? else { return Ok(false) };
        let pins = self.load_pins(version, runs).await?;
        let mark = DocumentChange::delete(Collection::Marks.of_version(version)?);
        // If another purge has marked the version again, that one decides.
        let mut changes = vec![mark.expecting(DocumentExpect::Revision(revision))];
        if !pins.is_needed {
            changes.push(DocumentChange::delete(Collection::Versions.of_version(version)?));
            changes.extend(pins.finished.iter().map(|pin| DocumentChange::delete(pin.to_ref())));
        }
        match self.store.documents.write_documents(WriteDocuments::new(changes)).await {
            Ok(_) => Ok(!pins.is_needed),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn purge_definition(
        &self,
        definition: &DefinitionRef,
        request: &PurgeVersions,
        runs: &dyn RunReader,
    ) -> Result<Vec<VersionRef>> {
        let mut purged = Vec::new();
        for version in self.unneeded_versions(definition, request.keep_newest).await? {
            let is_removed = if request.dry_run {
                !self.load_pins(&version, runs).await?.is_needed
            } else {
                self.remove_unless_pinned(&version, runs).await?
            };
            purged.extend(is_removed.then_some(version));
        }
        Ok(purged)
    }
}

#[async_trait]
impl RegistryRetention for RegistryLayer {
    async fn protect_version(&self, version: &VersionRef) -> Result<()> {
        let document = Collection::Versions.of_version(version)?;
        if self.load_one(document.clone()).await?.is_none() {
            return Err(Error::not_found("version", version.to_string()));
        }
        let changes = [
            DocumentChange::put(Collection::Protected.of_version(version)?, Json::parse("{}")?),
            DocumentChange::check(document, DocumentExpect::Present),
            DocumentChange::check(Collection::Marks.of_version(version)?, DocumentExpect::Absent),
        ];
        self.store.documents.write_documents(WriteDocuments::new(changes)).await.map(drop)
    }

    async fn unprotect_version(&self, version: &VersionRef) -> Result<()> {
        let change = DocumentChange::delete(Collection::Protected.of_version(version)?);
        self.store.documents.write_documents(WriteDocuments::new([change])).await.map(drop)
    }

    async fn purge_versions(&self, request: PurgeVersions, runs: &dyn RunReader) -> Result<PurgedVersions> {
        let mut purged = PurgedVersions::default();
        if let Some(definition) = &request.definition {
            purged.versions = self.purge_definition(definition, &request, runs).await?;
            return Ok(purged);
        }
        let (query, mut next) = (keys::definitions(None)?, Some(PageRequest::first(MAX_PAGE)));
        while let Some(page) = next.take() {
            let page = self.store.documents.list_documents(query.clone().with_page(page)).await?;
            for document in &page.items {
                let definition = keys::definition_of(document)?;
                purged.versions.extend(self.purge_definition(&definition, &request, runs).await?);
            }
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
        Ok(purged)
    }
}
