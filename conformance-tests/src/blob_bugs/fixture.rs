//! The fixture that opens the model with a planted bug of objects or of blobs.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    BlobOptions, BlobStore, Capabilities, Clock, Commit, CommitCoordinator, DeleteDocuments, DocumentChange,
    DocumentQuery, DocumentStore, DocumentStoreExt, EventStore, IgnoreProgress, Limits, OutboxStore, Page, PageRequest,
    PendingStore, Progress, Receipt, ReclaimedSpace, Result, Store, StoreIdentity, TenantId, TenantStores,
    ThreadRunStore, WriteDocuments, WrittenDocuments,
    health::StoreHealth,
    inspect::{Inspection, Inspector},
    layers::blob::{BlobLayer, with_blobs},
};

use super::{
    blobs::{BuggyBlobs, far_ahead},
    bug::BlobBug,
    objects::FaultyObjects,
};
use crate::{
    case::Need,
    fixture::{Fixture, Gap, OpenedStore, UnmetReason},
    model::ModelFixture,
};

/// Opens models with a planted bug of objects or of blobs.
#[derive(Debug, Clone, Copy)]
pub struct BlobBugFixture {
    model: ModelFixture,
    bug: BlobBug,
}

impl BlobBugFixture {
    /// Returns a fixture that opens models with this planted bug.
    #[must_use]
    pub const fn new(bug: BlobBug) -> Self {
        Self { model: ModelFixture { bug: None }, bug }
    }

    fn with_bug(self, mut opened: OpenedStore) -> OpenedStore {
        opened.store = Arc::new(FaultyStore { store: opened.store, bug: self.bug });
        opened
    }

    /// Forgets what a reopen forgets.
    async fn forget(self, stores: &TenantStores) -> Result<()> {
        if let (BlobBug::ReopenForgetsBlobs, Some(documents)) = (self.bug, &stores.documents) {
            let blobs = DeleteDocuments::new(DocumentQuery::new("layer.blobs".parse()?));
            documents.delete_documents(blobs, &IgnoreProgress).await?;
        }
        let forgets_objects = matches!(self.bug, BlobBug::ReopenForgetsObjects | BlobBug::DropForgetsObjects);
        if let (true, Some(objects)) = (forgets_objects, &stores.objects) {
            let listed = objects.list_objects(PageRequest::first(1_000)).await?.items;
            objects.delete_objects(&listed.into_iter().map(|object| object.key).collect::<Vec<_>>()).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Fixture for BlobBugFixture {
    fn name(&self) -> String {
        format!("model, {:?}", self.bug)
    }

    fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        self.model.why_unmet(need)
    }

    fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        Ok(self.with_bug(self.model.open(limits).await?))
    }

    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        let reopened = self.model.reopen(opened).await?;
        self.forget(&reopened.store.tenant(&TenantId::default_tenant())?).await?;
        Ok(self.with_bug(reopened))
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        let store = self.model.open_second_time(opened).await?;
        Ok(Arc::new(FaultyStore { store, bug: self.bug }))
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        self.model.advance(opened, by).await;
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        self.model.set_back(opened, by).await;
    }

    async fn damage(&self, opened: OpenedStore, seed: u64) -> Result<OpenedStore> {
        self.model.damage(opened, seed).await
    }

    fn blobs(&self, stores: &TenantStores, clock: Arc<dyn Clock>) -> Result<Arc<dyn BlobStore>> {
        let later = BlobLayer::new(stores, far_ahead(&*clock))?;
        let blobs = BlobLayer::new(stores, clock)?;
        let Some(objects) = stores.objects.clone() else { return Ok(Arc::new(blobs)) };
        Ok(Arc::new(BuggyBlobs { blobs, later, objects, bug: self.bug }))
    }

    fn with_blobs(&self, stores: TenantStores, options: BlobOptions, clock: Arc<dyn Clock>) -> Result<TenantStores> {
        let raw = stores.clone();
        let options = match self.bug {
            BlobBug::NothingIsMoved => options.moving_above(None),
            BlobBug::MovesAlways => options.moving_above(Some(100)),
            _ => options,
        };
        if self.bug == BlobBug::NoHashIsAccepted {
            return Ok(raw);
        }
        let mut stores = with_blobs(stores, options, clock)?;
        if self.bug.reads_what_is_stored() {
            (stores.threads, stores.pending) = (raw.threads, raw.pending);
        }
        Ok(stores)
    }
}

/// A store with a planted bug of objects or of blobs.
struct FaultyStore {
    store: Arc<dyn Store>,
    bug: BlobBug,
}

#[async_trait]
impl Store for FaultyStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let default_tenant = TenantId::default_tenant();
        let tenant = if self.bug == BlobBug::BlobsAreShared { &default_tenant } else { tenant };
        let mut stores = self.store.tenant(tenant)?;
        if matches!(self.bug, BlobBug::ObjectsAreShared | BlobBug::ObjectsOutliveTheirTenant) {
            stores.objects = self.store.tenant(&default_tenant)?.objects;
        }
        let (bug, buffer) = (self.bug, Arc::default());
        stores.objects = stores.objects.map(|objects| Arc::new(FaultyObjects { objects, bug, buffer }) as _);
        if bug.forgets_references()
            && let (Some(documents), Some(commits)) = (stores.documents.take(), stores.commits.take())
        {
            stores.documents = Some(Arc::new(WithoutReferences { inner: documents }));
            stores.commits = Some(Arc::new(WithoutReferences { inner: commits }));
        }
        Ok(stores)
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        self.store.list_tenants(page).await
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        if matches!(self.bug, BlobBug::DeletedTenantKeepsBlobs | BlobBug::BlobsAreShared) {
            return Ok(());
        }
        self.store.delete_tenant(tenant).await
    }

    fn capabilities(&self) -> &Capabilities {
        self.store.capabilities()
    }

    fn identity(&self) -> Option<StoreIdentity> {
        self.store.identity()
    }

    async fn health(&self) -> Result<StoreHealth> {
        self.store.health().await
    }

    async fn sync(&self) -> Result<()> {
        self.store.sync().await
    }

    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.store.reclaim_space(progress).await
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        // The model has none.
        match self.bug {
            BlobBug::VerifyFindsNothing | BlobBug::VerifyNotesNothing => Some(self),
            _ => self.store.inspector(),
        }
    }
}

/// An inspector that finds nothing.
#[async_trait]
impl Inspector for FaultyStore {
    async fn verify(&self, _progress: &dyn Progress) -> Result<Inspection> {
        Ok(Inspection::default())
    }

    async fn repair(&self, _dry_run: bool, progress: &dyn Progress) -> Result<Inspection> {
        self.verify(progress).await
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").field("bug", &self.bug).finish_non_exhaustive()
    }
}

/// Documents or commits that forget how threads refer to blobs.
struct WithoutReferences<T: ?Sized> {
    inner: Arc<T>,
}

/// Whether a change is one with which a thread refers to a blob.
fn is_reference(change: &DocumentChange) -> bool {
    let is_check = matches!(change.op, store_core::DocumentOp::Keep);
    match change.document.key.collection().as_str() {
        "layer.blobs" | "layer.blobs.marks" => is_check,
        "layer.blobs.references" | "layer.blobs.referrers" => true,
        _ => false,
    }
}

#[async_trait]
impl DocumentStore for WithoutReferences<dyn DocumentStore> {
    async fn load_documents(&self, documents: &[store_core::DocumentRef]) -> Result<Vec<Option<store_core::Document>>> {
        self.inner.load_documents(documents).await
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<store_core::Document>> {
        self.inner.list_documents(query).await
    }

    async fn write_documents(&self, mut request: WriteDocuments) -> Result<WrittenDocuments> {
        if request.changes.iter().all(is_reference) && !request.changes.is_empty() {
            // A write of nothing is refused.
            let key = store_core::DocumentKey::new("forgotten".parse()?, [store_core::KeySegment::Number(0)])?;
            request.changes = vec![DocumentChange::delete(key)];
        }
        self.inner.write_documents(request).await
    }
}

#[async_trait]
impl CommitCoordinator for WithoutReferences<dyn CommitCoordinator> {
    async fn commit(&self, mut commit: Commit) -> Result<Receipt> {
        commit.documents.retain(|change| !is_reference(change));
        self.inner.commit(commit).await
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        self.inner.threads()
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        self.inner.pending()
    }

    fn events(&self) -> Arc<dyn EventStore> {
        self.inner.events()
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        self.inner.outbox()
    }

    fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        self.inner.documents()
    }
}
