//! Writing the registry: versions, publications, rollbacks, archivals.

use async_trait::async_trait;

use super::{
    keys::{Loaded, VERSIONS},
    record::{DefinitionRef, Publication, PublicationContent, VersionContent, VersionRef},
    request::{ManifestChoice, NewVersion, PublishAll, PublishedVersion, RollbackPublication},
    rules::{self, Plan},
    store::{RegistryLayer, RegistryReader, RegistryWriter},
};
use crate::{
    codec::Codec,
    document::{DocumentRef, WriteDocuments},
    error::{Error, Result},
    id::EventId,
    layers::{
        audit::{AuditLog, NewAudit},
        plan_and_write, write_of,
    },
};

impl RegistryLayer {
    /// Loads the documents, and the definitions of new versions; for audit records also the current versions.
    async fn load_for(
        &self,
        versions: &[NewVersion],
        mut documents: Vec<DocumentRef>,
        audited: bool,
    ) -> Result<Loaded> {
        for new in versions {
            documents.push(new.definition.document()?);
        }
        let mut loaded = self.load(&documents).await?;
        let mut current = Vec::new();
        for new in versions.iter().filter(|new| audited || new.audit.is_some()) {
            if let Some((state, _)) = loaded.state(&new.definition)? {
                current.push(new.definition.clone().at(state.current).in_collection(VERSIONS)?);
            }
        }
        if !current.is_empty() {
            loaded.0.extend(self.load(&current).await?.0);
        }
        Ok(loaded)
    }

    async fn plan_version(&self, new: &NewVersion) -> Result<(PublishedVersion, Option<WriteDocuments>)> {
        let loaded = self.load_for(std::slice::from_ref(new), Vec::new(), false).await?;
        let mut plan = Plan::default();
        let published = plan.add_version(new, new.audit.as_ref(), &loaded)?;
        let write = published.created.then(|| write_of(plan.changes, plan.events));
        Ok((published, write))
    }

    async fn plan_publication(
        &self,
        request: &PublishAll,
    ) -> Result<((u64, PublicationContent), Option<WriteDocuments>)> {
        let latest = self.load_latest().await?.map_or(0, |latest| latest.snapshot);
        let documents = rules::documents_of_publication(request)?;
        let loaded = self.load_for(&request.versions, documents, request.audit.is_some()).await?;
        let (snapshot, content, plan) = rules::plan_publication(request, latest, &loaded)?;
        Ok(((snapshot, content), Some(write_of(plan.changes, plan.events))))
    }

    async fn set_archived(&self, definition: &DefinitionRef, archived: bool, audit: Option<NewAudit>) -> Result<bool> {
        let plan = || async {
            let loaded = self.load(&[definition.document()?]).await?;
            let plan = rules::plan_archival(definition, archived, audit.as_ref(), &loaded)?;
            Ok(((), (!plan.changes.is_empty()).then(|| write_of(plan.changes, plan.events))))
        };
        Ok(plan_and_write(&*self.store.documents, plan).await?.1.is_some())
    }
}

#[async_trait]
impl RegistryWriter for RegistryLayer {
    async fn publish(&self, version: NewVersion) -> Result<PublishedVersion> {
        Ok(plan_and_write(&*self.store.documents, || self.plan_version(&version)).await?.0)
    }

    async fn rollback(&self, to: &VersionRef, audit: Option<NewAudit>) -> Result<PublishedVersion> {
        let found = self.load_version(to).await?.ok_or_else(|| Error::not_found("version", to.to_string()))?;
        self.publish(NewVersion { audit, ..NewVersion::copy_of(&found) }).await
    }

    async fn restore_version(
        &self,
        definition: &DefinitionRef,
        from: EventId,
        audit: NewAudit,
    ) -> Result<PublishedVersion> {
        let value = AuditLog::new(self.store.clone()).value_to_restore(&from, &definition.resource()?).await?;
        let content = VersionContent::read(value.as_str()).map_err(|source| {
            Error::invalid_transition("audit record", &from, "archival", "restored").with_source(source)
        })?;
        let VersionContent { schema_version, value, metadata, .. } = content;
        let new = NewVersion::new(definition.clone(), value).audited(audit.restoring(from));
        self.publish(NewVersion { schema_version, metadata, ..new }).await
    }

    async fn archive(&self, definition: &DefinitionRef, audit: Option<NewAudit>) -> Result<bool> {
        self.set_archived(definition, true, audit).await
    }

    async fn unarchive(&self, definition: &DefinitionRef, audit: Option<NewAudit>) -> Result<bool> {
        self.set_archived(definition, false, audit).await
    }

    async fn publish_all(&self, request: PublishAll) -> Result<Publication> {
        let planned = plan_and_write(&*self.store.documents, || self.plan_publication(&request)).await?;
        let ((snapshot, content), written) = planned;
        let published_at = written.map(|written| written.time).unwrap_or_default();
        Ok(Publication { snapshot, content, published_at })
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
