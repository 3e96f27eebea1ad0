//! The contracts of the registry, and reading it.

use std::fmt;

use async_trait::async_trait;
use futures_util::StreamExt;

use super::{
    keys::{self, Collection, Loaded},
    manifest::{Manifest, ManifestChoice, PurgeVersions, PurgedVersions, RegistryChange, RegistryFact, RegistryStream},
    record::{
        Definition, DefinitionRef, DefinitionState, DefinitionVersion, NewVersion, Publication, PublishAll,
        PublishedVersion, RollbackPublication, VersionRef,
    },
    rules,
};
use crate::{
    codec::Codec,
    document::{Document, DocumentQuery, DocumentRef},
    error::{Error, Result},
    event::{Event, EventFilter, Subscribe, SubscriptionStart},
    id::{DefinitionKind, EventKind},
    layers::LayerStore,
    log::Direction,
    page::{Page, PageRequest},
    run::RunReader,
};

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
    /// - Of several callers each gets a version, and no two contents get the same one (RG-4).
    ///
    /// # Errors
    /// `Invalid` for schema version 0 and for a value that has no hash (RG-3); `InvalidTransition` if the definition is
    /// archived. After an `Unknown` outcome, repeat the call: if the current version has the content, it is kept.
    async fn publish(&self, version: NewVersion) -> Result<PublishedVersion>;

    /// Publishes the content of an older version as the next version, which notes where it comes from (RG-5).
    ///
    /// # Errors
    /// `NotFound` for an unknown version; otherwise as [`publish`](Self::publish).
    async fn rollback(&self, to: &VersionRef) -> Result<PublishedVersion>;

    /// Archives a definition: nothing of it can be published any more. Returns whether it was not archived (RG-5).
    ///
    /// # Errors
    /// `NotFound` for an unknown definition. The call may be repeated.
    async fn archive(&self, definition: &DefinitionRef) -> Result<bool>;

    /// Takes a definition out of the archive. Returns whether it was archived (RG-5).
    ///
    /// # Errors
    /// `NotFound` for an unknown definition. The call may be repeated.
    async fn unarchive(&self, definition: &DefinitionRef) -> Result<bool>;

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
    /// pins which is not done, protected ones, and the newest ones (RG-11).
    ///
    /// # Guarantees
    /// - A commit that pins a version at the same time either succeeds, and the version stays, or is refused with
    ///   `Conflict`.
    ///
    /// # Errors
    /// Any error of reading and writing. Versions that were removed before stay removed; the call may be repeated.
    async fn purge_versions(&self, request: PurgeVersions, runs: &dyn RunReader) -> Result<PurgedVersions>;
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

    /// Loads documents as of one moment.
    pub(super) async fn load(&self, documents: &[DocumentRef]) -> Result<Loaded> {
        Ok(self.store.documents.load_documents(documents).await?.into_iter().flatten().collect())
    }

    /// Loads one document.
    pub(super) async fn load_one(&self, document: DocumentRef) -> Result<Option<Document>> {
        Ok(self.store.documents.load_documents(&[document]).await?.pop().flatten())
    }

    async fn list<T>(&self, query: DocumentQuery, read: impl Fn(Document) -> Result<T> + Send) -> Result<Page<T>> {
        let page = self.store.documents.list_documents(query).await?;
        Ok(Page { items: page.items.into_iter().map(read).collect::<Result<_>>()?, next: page.next })
    }

    async fn load_publication(&self, choice: &ManifestChoice) -> Result<Option<Publication>> {
        let number_document = match choice {
            ManifestChoice::Latest => keys::latest()?,
            ManifestChoice::Publication(id) => keys::publication_id(id)?,
            ManifestChoice::Snapshot(number) => {
                return self.load_one(keys::publication(*number)?).await?.map(publication_of).transpose();
            }
        };
        let Some(found) = self.load_one(number_document).await? else { return Ok(None) };
        let snapshot = keys::decode::<rules::SnapshotNumber>(&found)?.snapshot;
        let publication = self.load_one(keys::publication(snapshot)?).await?;
        let missing = || Error::corrupt(format!("publication {snapshot}: it does not exist"));
        publication_of(publication.ok_or_else(missing)?).map(Some)
    }
}

fn definition_of(document: Document) -> Result<Definition> {
    let DefinitionState { current, hash, archived, .. } = keys::decode(&document)?;
    let name = keys::definition_of(&document)?;
    Ok(Definition { name, current, hash, archived, created_at: document.created_at, updated_at: document.updated_at })
}

pub(super) fn version_of(document: Document) -> Result<DefinitionVersion> {
    let name = keys::version_of(&document)?;
    Ok(DefinitionVersion { name, content: keys::decode(&document)?, created_at: document.created_at })
}

fn publication_of(document: Document) -> Result<Publication> {
    let snapshot = keys::snapshot_of(&document)?;
    Ok(Publication { snapshot, content: keys::decode(&document)?, published_at: document.created_at })
}

/// Reads an event of the feed.
fn change_of(event: &Event) -> Result<RegistryChange> {
    let damaged = || Error::corrupt(format!("event {}: it is not what the registry writes", event.id));
    let payload = event.payload.as_ref().ok_or_else(damaged)?.as_str();
    let definition = || DefinitionRef::read(payload).map_err(|e| damaged().with_source(e));
    let fact = match event.kind.as_str() {
        rules::PUBLISHED => {
            let fact = rules::PublishedFact::read(payload).map_err(|e| damaged().with_source(e))?;
            RegistryFact::Published { snapshot: fact.snapshot, id: fact.publication }
        }
        rules::ARCHIVED => RegistryFact::Archived(definition()?),
        rules::UNARCHIVED => RegistryFact::Unarchived(definition()?),
        _ => return Err(damaged()),
    };
    let cursor = event.cursor(&keys::feed()?).cloned().ok_or_else(damaged)?;
    Ok(RegistryChange { fact, at: event.created_at, cursor })
}

#[async_trait]
impl RegistryReader for RegistryLayer {
    async fn load_definition(&self, definition: &DefinitionRef) -> Result<Option<Definition>> {
        self.load_one(keys::definition(definition)?).await?.map(definition_of).transpose()
    }

    async fn list_definitions(&self, kind: Option<&DefinitionKind>, page: PageRequest) -> Result<Page<Definition>> {
        self.list(keys::definitions(kind)?.with_page(page), definition_of).await
    }

    async fn load_version(&self, version: &VersionRef) -> Result<Option<DefinitionVersion>> {
        self.load_one(Collection::Versions.of_version(version)?).await?.map(version_of).transpose()
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
        let query = Collection::Versions.of_definition(definition)?.with_direction(Direction::Backward);
        self.list(query.with_page(page), version_of).await
    }

    async fn load_manifest(&self, choice: &ManifestChoice) -> Result<Option<Manifest>> {
        let Some(publication) = self.load_publication(choice).await? else { return Ok(None) };
        let names: Vec<_> = publication.content.entries.iter().map(super::PublicationEntry::name).collect();
        let documents: Vec<_> =
            names.iter().map(|name| Collection::Versions.of_version(name)).collect::<Result<_>>()?;
        let stored = self.store.documents.load_documents(&documents).await?;
        let mut versions = Vec::with_capacity(names.len());
        for ((name, entry), document) in names.into_iter().zip(&publication.content.entries).zip(stored) {
            let created_at = document.as_ref().map(|document| document.created_at);
            let content = document.as_ref().map(keys::decode).transpose()?;
            let content = rules::check_entry(entry, content)?;
            versions.extend(created_at.map(|created_at| DefinitionVersion { name, content, created_at }));
        }
        Ok(Some(Manifest { publication, versions }))
    }

    async fn list_publications(&self, page: PageRequest) -> Result<Page<Publication>> {
        let query = keys::publications()?.with_direction(Direction::Backward);
        self.list(query.with_page(page), publication_of).await
    }

    async fn subscribe_publications(&self, start: SubscriptionStart) -> Result<RegistryStream> {
        let kinds = [rules::PUBLISHED, rules::ARCHIVED, rules::UNARCHIVED].map(EventKind::new);
        let kinds = Some(kinds.into_iter().collect::<Result<_>>()?);
        let request = Subscribe::new(keys::feed()?, start).with_filter(EventFilter { kinds, ..EventFilter::default() });
        let subscription = self.store.events.subscribe(request).await?;
        Ok(Box::pin(subscription.events.map(|event| change_of(&event?))))
    }
}

impl fmt::Debug for RegistryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryLayer").finish_non_exhaustive()
    }
}
