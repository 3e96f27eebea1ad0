//! The fixture that opens the model with a planted bug of a layer.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    Capabilities, Clock, DeleteDocuments, DeleteRequest, DocumentQuery, DocumentScope, DocumentStoreExt,
    IgnoreProgress, Limits, NewThread, Page, PageRequest, Progress, ReclaimedSpace, Result, Store, StoreIdentity,
    TenantId, TenantStores,
    health::StoreHealth,
    layers::{
        LayerStore,
        audit::{AuditLog, AuditStore},
        config::{ConfigLayer, ConfigStore},
        dataset::{DatasetLayer, DatasetStore},
        effect::{EffectLayer, EffectStore},
        erasure::ErasureStore,
        evaluation::{EvaluationLayer, EvaluationStore},
        replay::ReplayStore,
        stream_checkpoint::StreamCheckpointStore,
        trace::TraceStore,
    },
    thread::ThreadFields,
};

use super::{
    audit::BuggyAudit,
    bug::LayerBug,
    config::BuggyConfig,
    dataset::BuggyDatasets,
    document::{FaultyCommits, FaultyDocuments},
    effect_store::BuggyEffects,
    erasure::BuggyErasure,
    evaluation::BuggyEvaluations,
    replay::BuggyReplay,
    stream_checkpoint::BuggyStreamCheckpoints,
    trace_store::BuggyTraces,
};
use crate::{
    case::Need,
    fixture::{Fixture, Gap, OpenedStore, UnmetReason},
    model::ModelFixture,
};

/// Opens models with a planted bug of a layer.
#[derive(Debug, Clone, Copy)]
pub struct LayerBugFixture {
    model: ModelFixture,
    bug: LayerBug,
}

impl LayerBugFixture {
    /// Returns a fixture that opens models with this planted bug.
    #[must_use]
    pub const fn new(bug: LayerBug) -> Self {
        Self { model: ModelFixture { bug: None }, bug }
    }

    fn with_bug(self, mut opened: OpenedStore) -> OpenedStore {
        opened.store = Arc::new(FaultyStore { store: opened.store, bug: self.bug });
        opened
    }
}

#[async_trait]
impl Fixture for LayerBugFixture {
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
        let forgotten = match self.bug {
            LayerBug::ReopenForgetsEffects => Some(("layer.effects.order", None)),
            LayerBug::ReopenForgetsProfiles => Some(("layer.profiles", None)),
            LayerBug::ReopenForgetsDefinitions => Some(("layer.registry.definitions", None)),
            LayerBug::ReopenForgetsCases => Some(("layer.datasets.cases", None)),
            LayerBug::ReopenForgetsResults => Some(("layer.evaluations.results", None)),
            LayerBug::ReopenForgetsReplay => Some(("layer.replay.records", None)),
            LayerBug::ReopenForgetsSpans => Some(("layer.traces.spans", Some("t"))),
            LayerBug::ReopenForgetsCheckpoints => Some(("layer.stream_checkpoints", Some("t"))),
            _ => None,
        };
        if let Some(documents) = reopened.store.tenant(&TenantId::default_tenant())?.documents
            && let Some((collection, thread)) = forgotten
        {
            let mut query = DocumentQuery::new(collection.parse()?);
            if let Some(thread) = thread {
                query = query.in_scope(DocumentScope::Thread(thread.parse()?));
            }
            documents.delete_documents(DeleteDocuments::new(query), &IgnoreProgress).await?;
        }
        let threads = reopened.store.tenant(&TenantId::default_tenant())?.threads;
        if let (LayerBug::ErasureUndoneByReopen, Some(threads)) = (self.bug, threads) {
            let mut fields = ThreadFields::default();
            fields.title = Some("Qz7RxV2mKp9LwTtD4sHb-title".to_owned());
            let _thread = threads.create_thread(NewThread::new("ada-1".parse()?).with_fields(fields)).await?;
        }
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

    fn config(&self, stores: &TenantStores) -> Result<Arc<dyn ConfigStore>> {
        let layers = LayerStore::new(stores)?;
        let (inner, audit) = (ConfigLayer::new(layers.clone()), AuditLog::new(layers));
        Ok(Arc::new(BuggyConfig::new(inner, audit, self.bug)))
    }

    fn audit(&self, stores: &TenantStores) -> Result<Arc<dyn AuditStore>> {
        let layers = LayerStore::new(stores)?;
        Ok(Arc::new(BuggyAudit::new(AuditLog::new(layers.clone()), layers, self.bug)))
    }

    fn replay(&self, stores: &TenantStores, clock: Arc<dyn Clock>) -> Result<Arc<dyn ReplayStore>> {
        Ok(Arc::new(BuggyReplay::new(LayerStore::new(stores)?, clock, self.bug)))
    }

    fn stream_checkpoints(&self, stores: &TenantStores) -> Result<Arc<dyn StreamCheckpointStore>> {
        Ok(Arc::new(BuggyStreamCheckpoints::new(stores.clone(), self.bug)?))
    }

    fn effects(&self, stores: &TenantStores) -> Result<Arc<dyn EffectStore>> {
        Ok(Arc::new(BuggyEffects::new(EffectLayer::new(LayerStore::new(stores)?), self.bug)))
    }

    fn traces(&self, stores: &TenantStores) -> Result<Arc<dyn TraceStore>> {
        Ok(Arc::new(BuggyTraces::new(stores.clone(), self.bug)?))
    }

    fn datasets(&self, stores: &TenantStores) -> Result<Arc<dyn DatasetStore>> {
        let inner = DatasetLayer::new(LayerStore::new(stores)?);
        Ok(Arc::new(BuggyDatasets::new(inner, stores.clone(), self.bug)))
    }

    fn evaluations(&self, stores: &TenantStores) -> Result<Arc<dyn EvaluationStore>> {
        let inner = EvaluationLayer::new(LayerStore::new(stores)?);
        Ok(Arc::new(BuggyEvaluations::new(inner, LayerStore::new(stores)?, self.bug)))
    }

    fn erasure(&self, stores: &TenantStores) -> Result<Arc<dyn ErasureStore>> {
        Ok(Arc::new(BuggyErasure::new(stores.clone(), self.bug)?))
    }
}

/// A store whose documents have a planted bug of a layer.
struct FaultyStore {
    store: Arc<dyn Store>,
    bug: LayerBug,
}

#[async_trait]
impl Store for FaultyStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let mut stores = self.store.tenant(tenant)?;
        let parts = (stores.documents.take(), stores.events.clone(), stores.commits.take());
        if let (Some(documents), Some(events), Some(commits)) = parts {
            let documents = Arc::new(FaultyDocuments { documents, events, bug: self.bug });
            let faulty = FaultyCommits { commits, documents: Arc::clone(&documents), bug: self.bug };
            stores.documents = Some(documents);
            stores.commits = Some(Arc::new(faulty));
        }
        Ok(stores)
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        self.store.list_tenants(page).await
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
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
        let threads = self.store.tenant(&TenantId::default_tenant())?.threads;
        if let (LayerBug::ReclaimTakesAThread, Some(threads)) = (self.bug, threads) {
            threads.delete_thread(&"bob-1-child".parse()?, DeleteRequest::default()).await?;
        }
        self.store.reclaim_space(progress).await
    }

    async fn close(&self) -> Result<()> {
        self.store.close().await
    }

    fn inspector(&self) -> Option<&dyn store_core::inspect::Inspector> {
        self.store.inspector()
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").field("bug", &self.bug).finish_non_exhaustive()
    }
}
