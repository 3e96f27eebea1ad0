//! Writing the registry: publications, rollbacks, archivals.

use async_trait::async_trait;

use super::{
    keys::{self, Collection},
    manifest::ManifestChoice,
    record::{DefinitionRef, NewVersion, Publication, PublishAll, PublishedVersion, RollbackPublication, VersionRef},
    rules::{self, PlannedPublication},
    store::{RegistryLayer, RegistryReader, RegistryWriter},
};
use crate::{
    document::WriteDocuments,
    error::{Error, Result},
    event::AppendEvents,
    layers::{Attempt, repeat_if_overtaken},
};

impl RegistryLayer {
    async fn try_publish(&self, version: &NewVersion) -> Result<Attempt<PublishedVersion>> {
        let loaded = self.load(&[keys::definition(&version.definition)?]).await?;
        let planned = rules::plan_version(version, &loaded)?;
        if !planned.published.created {
            return Ok(Attempt::Done(planned.published));
        }
        let written = self.store.documents.write_documents(WriteDocuments::new(planned.changes)).await;
        Ok(Attempt::of(written)?.map(|_| planned.published))
    }

    async fn try_publish_all(&self, request: &PublishAll) -> Result<Attempt<Publication>> {
        let loaded = self.load(&rules::documents_of_publication(request)?).await?;
        let PlannedPublication { snapshot, content, changes, event } = rules::plan_publication(request, &loaded)?;
        let write = WriteDocuments::new(changes).with_events(AppendEvents::new([event]));
        let written = Attempt::of(self.store.documents.write_documents(write).await)?;
        Ok(written.map(|written| Publication { snapshot, content, published_at: written.time }))
    }

    async fn set_archived(&self, definition: &DefinitionRef, archived: bool) -> Result<bool> {
        repeat_if_overtaken(|| async {
            let loaded = self.load(&[keys::definition(definition)?]).await?;
            let Some((change, event)) = rules::plan_archival(definition, archived, &loaded)? else {
                return Ok(Attempt::Done(false));
            };
            let write = WriteDocuments::new([change]).with_events(AppendEvents::new([event]));
            Ok(Attempt::of(self.store.documents.write_documents(write).await)?.map(|_| true))
        })
        .await
    }
}

#[async_trait]
impl RegistryWriter for RegistryLayer {
    async fn publish(&self, version: NewVersion) -> Result<PublishedVersion> {
        repeat_if_overtaken(|| self.try_publish(&version)).await
    }

    async fn rollback(&self, to: &VersionRef) -> Result<PublishedVersion> {
        let found = self.load_one(Collection::Versions.of_version(to)?).await?;
        let found = found.ok_or_else(|| Error::not_found("version", to.to_string()))?;
        self.publish(NewVersion::copy_of(&super::store::version_of(found)?)).await
    }

    async fn archive(&self, definition: &DefinitionRef) -> Result<bool> {
        self.set_archived(definition, true).await
    }

    async fn unarchive(&self, definition: &DefinitionRef) -> Result<bool> {
        self.set_archived(definition, false).await
    }

    async fn publish_all(&self, request: PublishAll) -> Result<Publication> {
        repeat_if_overtaken(|| self.try_publish_all(&request)).await
    }

    async fn rollback_publication(&self, request: RollbackPublication) -> Result<Publication> {
        let RollbackPublication { to, mut publication } = request;
        if !publication.versions.is_empty() || !publication.existing.is_empty() {
            return Err(Error::invalid("rollback", "it names versions besides those of the snapshot"));
        }
        let manifest = self.load_manifest(&ManifestChoice::Snapshot(to)).await?;
        let manifest = manifest.ok_or_else(|| Error::not_found("publication", to.to_string()))?;
        publication.versions = manifest.versions.iter().map(NewVersion::copy_of).collect();
        publication.rollback_of = Some(to);
        self.publish_all(publication).await
    }
}
