//! The contracts of the registry, and reading it.

use std::{fmt, pin::Pin};

use async_trait::async_trait;
use futures_core::Stream;
use futures_util::StreamExt;

use super::{
    keys::{self, DEFINITIONS, Loaded, PUBLICATIONS, VERSIONS, decode, query},
    record::{Definition, DefinitionRef, DefinitionVersion, Manifest, Publication, RegistryChange, VersionRef},
    request::{
        ManifestChoice, NewVersion, PublishAll, PublishedVersion, PurgeVersions, PurgedVersions, RollbackPublication,
    },
    rules::check_entry,
};
use crate::{
    document::{Document, DocumentQuery, DocumentRef, KeySegment},
    error::{Error, Result},
    event::{Subscribe, SubscriptionStart},
    ext::DocumentStoreExt,
    id::{CollectionId, DefinitionKind, EventId},
    layers::{LayerStore, audit::NewAudit, load_in_parts, until_error},
    log::Direction,
    page::{Page, PageRequest},
    progress::Progress,
    run::RunReader,
};

/// A stream of what happened in the registry. It does not end, except after an error.
pub type RegistryStream = Pin<Box<dyn Stream<Item = Result<RegistryChange>> + Send>>;

/// Reads the registry.
#[async_trait]
pub trait RegistryReader: Send + Sync {
    /// Loads a definition, or none if it is unknown.
    ///
    /// # Errors
    /// Any error of reading documents.
    async fn load_definition(&self, definition: &DefinitionRef) -> Result<Option<Definition>>;

    /// Lists the definitions, of one kind or of all, in the order of kind and id, in pages.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list.
    async fn list_definitions(&self, kind: Option<&DefinitionKind>, page: PageRequest) -> Result<Page<Definition>>;

    /// Lists the kinds that have definitions, in the order of their bytes: the first `limit` ones, or those after the
    /// kind `after` (RG-14).
    ///
    /// # Guarantees
    /// - The call reads one definition of each kind, however many it has (RG-14,
    ///   `registry::kinds_are_listed_once_in_order`).
    ///
    /// # Errors
    /// `Invalid` for a limit of 0 or more than 1,000; any error of reading.
    async fn list_kinds(&self, after: Option<&DefinitionKind>, limit: u32) -> Result<Vec<DefinitionKind>>;

    /// Loads a version, also one of an archived definition. Returns none if it is unknown (RG-2).
    ///
    /// # Errors
    /// Any error of reading documents.
    async fn load_version(&self, version: &VersionRef) -> Result<Option<DefinitionVersion>>;

    /// Loads the current version of a definition, also of an archived one. Returns none if it is unknown (RG-2).
    ///
    /// # Errors
    /// `Corrupt` if the version is missing; any error of reading documents.
    async fn load_current(&self, definition: &DefinitionRef) -> Result<Option<DefinitionVersion>>;

    /// Lists the versions of a definition, newest first, in pages (RG-2).
    ///
    /// # Errors
    /// As [`list_definitions`](Self::list_definitions).
    async fn list_versions(&self, definition: &DefinitionRef, page: PageRequest) -> Result<Page<DefinitionVersion>>;

    /// Loads the versions of a publication with their contents. Returns none if there is no such publication (RG-9).
    ///
    /// # Errors
    /// `Corrupt` if a version is missing or has another content. No other version is taken instead.
    async fn load_manifest(&self, choice: &ManifestChoice) -> Result<Option<Manifest>>;

    /// Lists the publications, newest first, in pages (RG-13).
    ///
    /// # Errors
    /// As [`list_definitions`](Self::list_definitions).
    async fn list_publications(&self, page: PageRequest) -> Result<Page<Publication>>;

    /// Subscribes to publications and archivals: each comes once, in order, also those of other processes (RG-12).
    ///
    /// # Errors
    /// As [`subscribe`](crate::EventSubscriber::subscribe).
    async fn subscribe_publications(&self, start: SubscriptionStart) -> Result<RegistryStream>;
}

/// Writes the registry.
#[async_trait]
pub trait RegistryWriter: Send + Sync {
    /// Publishes the next version of a definition. If its current version has the same content, nothing is written
    /// (RG-1).
    ///
    /// # Guarantees
    /// - Of several callers each gets a version, and no two contents get the same one (RG-4). Only
    ///   one that 100 others have overtaken is refused with `Conflict`.
    ///
    /// # Errors
    /// `Invalid` for schema version 0 and for a value that has no hash (RG-3); `InvalidTransition` if the definition is
    /// archived. After an `Unknown` outcome, repeat the call: if the current version has the content, it is kept.
    async fn publish(&self, version: NewVersion) -> Result<PublishedVersion>;

    /// Publishes the content of an older version as the next version, which notes where it comes from (RG-5).
    ///
    /// # Errors
    /// `NotFound` for an unknown version; otherwise as [`publish`](Self::publish).
    async fn rollback(&self, to: &VersionRef, audit: Option<NewAudit>) -> Result<PublishedVersion>;

    /// Publishes a content again that an audit record contains (AU-6).
    ///
    /// # Errors
    /// `NotFound` if there is no such audit record; `Invalid` if it is about something else; `InvalidTransition` if it
    /// is a restart or about an archival ([`archive`](Self::archive) and [`unarchive`](Self::unarchive) undo each
    /// other), or if its value is missing or hidden; otherwise as [`publish`](Self::publish).
    async fn restore_version(
        &self,
        definition: &DefinitionRef,
        from: EventId,
        audit: NewAudit,
    ) -> Result<PublishedVersion>;

    /// Archives a definition: nothing of it can be published any more. Returns whether it was not archived (RG-5).
    ///
    /// # Errors
    /// `NotFound` for an unknown definition. The call may be repeated.
    async fn archive(&self, definition: &DefinitionRef, audit: Option<NewAudit>) -> Result<bool>;

    /// Takes a definition out of the archive. Returns whether it was archived (RG-5).
    ///
    /// # Errors
    /// `NotFound` for an unknown definition. The call may be repeated.
    async fn unarchive(&self, definition: &DefinitionRef, audit: Option<NewAudit>) -> Result<bool>;

    /// Publishes several versions together, with the next snapshot number (RG-6, RG-7).
    ///
    /// # Errors
    /// All or nothing, in this order: `Invalid` for no version and for a definition that is named twice;
    /// `AlreadyExists` if the id is in use; `Conflict` if the latest snapshot is not the expected one (RG-8), or if a
    /// purge is about to remove a version; `NotFound` for an unknown existing version; `InvalidTransition` if a
    /// definition is archived. `LimitExceeded` for more versions than one write of documents can hold, about 240.
    ///
    /// After an `Unknown` outcome, load the manifest of the id.
    async fn publish_all(&self, request: PublishAll) -> Result<Publication>;

    /// Publishes the contents of an earlier publication again: as new versions where the current ones differ, and as
    /// one publication (RG-13).
    ///
    /// # Errors
    /// `Invalid` if the request names versions; `NotFound` for an unknown snapshot; otherwise as
    /// [`publish_all`](Self::publish_all).
    async fn rollback_publication(&self, request: RollbackPublication) -> Result<Publication>;
}

/// Removes versions that nothing needs.
#[async_trait]
pub trait RegistryRetention: Send + Sync {
    /// Protects a version: no purge removes it.
    ///
    /// # Errors
    /// `NotFound` for an unknown version; `Conflict` if a purge is about to remove it.
    async fn protect_version(&self, version: &VersionRef) -> Result<()>;

    /// Takes the protection of a version away, if it has one.
    ///
    /// # Errors
    /// Any error of writing documents. The call may be repeated.
    async fn unprotect_version(&self, version: &VersionRef) -> Result<()>;

    /// Removes versions, except the current one of each definition, all published ones, those that a run of `runs`
    /// pins which is not done, protected ones, and the newest ones (RG-11). It may be stopped between two versions.
    ///
    /// # Guarantees
    /// - A commit that pins a version at the same time either succeeds, and the version stays, or is refused with
    ///   `Conflict`.
    ///
    /// # Errors
    /// Any error of reading and writing. Versions that were removed before stay removed; the call may be repeated.
    async fn purge_versions(
        &self,
        request: PurgeVersions,
        runs: &dyn RunReader,
        progress: &dyn Progress,
    ) -> Result<PurgedVersions>;
}

/// All contracts of the registry.
pub trait RegistryStore: RegistryReader + RegistryWriter + RegistryRetention {}

impl<S: RegistryReader + RegistryWriter + RegistryRetention + ?Sized> RegistryStore for S {}

/// The registry of a tenant, kept as documents and as events of a topic.
#[derive(Clone)]
pub struct RegistryLayer {
    pub(super) store: LayerStore,
}

impl RegistryLayer {
    /// Makes the registry over a store.
    #[must_use]
    pub const fn new(store: LayerStore) -> Self {
        Self { store }
    }

    /// Loads documents.
    pub(super) async fn load(&self, documents: &[DocumentRef]) -> Result<Loaded> {
        let found = load_in_parts(&*self.store.documents, documents).await?;
        Ok(Loaded(found.into_iter().flatten().map(|document| (document.to_ref(), document)).collect()))
    }

    async fn load_as<T>(&self, document: DocumentRef, read: fn(&Document) -> Result<T>) -> Result<Option<T>> {
        self.store.documents.load_document(&document).await?.as_ref().map(read).transpose()
    }

    async fn list_as<T>(&self, query: DocumentQuery, read: fn(&Document) -> Result<T>) -> Result<Page<T>> {
        let page = self.store.documents.list_documents(query).await?;
        Ok(Page { items: page.items.iter().map(read).collect::<Result<_>>()?, next: page.next })
    }

    /// Loads the publication with the highest snapshot number.
    pub(super) async fn load_latest(&self) -> Result<Option<Publication>> {
        Ok(self.list_publications(PageRequest::first(1)).await?.items.pop())
    }

    pub(in crate::layers) async fn load_publication(&self, choice: &ManifestChoice) -> Result<Option<Publication>> {
        let snapshot = match choice {
            ManifestChoice::Latest => return self.load_latest().await,
            ManifestChoice::Publication(id) => {
                let Some(snapshot) = self.load_as(keys::publication_id(id)?, decode).await? else { return Ok(None) };
                snapshot
            }
            ManifestChoice::Snapshot(snapshot) => *snapshot,
        };
        self.load_as(keys::publication(snapshot)?, Publication::from_document).await
    }
}

#[async_trait]
impl RegistryReader for RegistryLayer {
    async fn load_definition(&self, definition: &DefinitionRef) -> Result<Option<Definition>> {
        self.load_as(definition.document()?, Definition::from_document).await
    }

    async fn list_definitions(&self, kind: Option<&DefinitionKind>, page: PageRequest) -> Result<Page<Definition>> {
        let prefix = kind.map(KeySegment::id).transpose()?.into_iter().collect();
        self.list_as(query(DEFINITIONS, prefix)?.with_page(page), Definition::from_document).await
    }

    async fn list_kinds(&self, after: Option<&DefinitionKind>, limit: u32) -> Result<Vec<DefinitionKind>> {
        let after = after.map(KeySegment::id).transpose()?.map(|segment| vec![segment]);
        self.store.list_prefixes(CollectionId::new(DEFINITIONS)?, after, limit, keys::kind_of).await
    }

    async fn load_version(&self, version: &VersionRef) -> Result<Option<DefinitionVersion>> {
        self.load_as(version.in_collection(VERSIONS)?, DefinitionVersion::from_document).await
    }

    async fn load_current(&self, definition: &DefinitionRef) -> Result<Option<DefinitionVersion>> {
        let mut missing = None;
        loop {
            let Some(found) = self.load_definition(definition).await? else { return Ok(None) };
            let name = found.name.at(found.current);
            if let Some(version) = self.load_version(&name).await? {
                return Ok(Some(version));
            }
            // A purge may have removed it, but only if there is a newer version by now.
            if missing.as_ref() == Some(&name) {
                return Err(Error::corrupt(format!("version {name}: it is the current one, but does not exist")));
            }
            missing = Some(name);
        }
    }

    async fn list_versions(&self, definition: &DefinitionRef, page: PageRequest) -> Result<Page<DefinitionVersion>> {
        let query = query(VERSIONS, definition.segments()?)?.with_direction(Direction::Backward).with_page(page);
        self.list_as(query, DefinitionVersion::from_document).await
    }

    async fn load_manifest(&self, choice: &ManifestChoice) -> Result<Option<Manifest>> {
        let Some(publication) = self.load_publication(choice).await? else { return Ok(None) };
        let entries = &publication.content.entries;
        let names = entries.iter().map(|entry| entry.name().in_collection(VERSIONS)).collect::<Result<Vec<_>>>()?;
        let stored = load_in_parts(&*self.store.documents, &names).await?;
        let versions = entries.iter().zip(&stored).map(|(entry, stored)| check_entry(entry, stored.as_ref()));
        let versions = versions.collect::<Result<_>>()?;
        Ok(Some(Manifest { publication, versions }))
    }

    async fn list_publications(&self, page: PageRequest) -> Result<Page<Publication>> {
        let query = query(PUBLICATIONS, Vec::new())?.with_direction(Direction::Backward).with_page(page);
        self.list_as(query, Publication::from_document).await
    }

    async fn subscribe_publications(&self, start: SubscriptionStart) -> Result<RegistryStream> {
        let subscription = self.store.events.subscribe(Subscribe::new(keys::feed()?, start)).await?;
        Ok(Box::pin(until_error(subscription.events.map(|event| RegistryChange::from_event(&event?)))))
    }
}

impl fmt::Debug for RegistryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryLayer").finish_non_exhaustive()
    }
}
