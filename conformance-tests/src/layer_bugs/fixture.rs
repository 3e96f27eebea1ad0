//! The fixture that opens the model with a planted bug of a layer.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    Capabilities, DeleteDocuments, DocumentQuery, DocumentStoreExt, IgnoreProgress, Limits, Page, PageRequest, Result,
    Store, TenantId, TenantStores,
};

use super::{
    bug::LayerBug,
    document::{FaultyCommits, FaultyDocuments},
};
use crate::{
    case::{Contract, Need, Status, run_case},
    fixture::{Fixture, Gap, OpenedStore, UnmetReason},
    model::ModelFixture,
};

/// Opens models whose documents have a planted bug of a layer.
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
            LayerBug::ReopenForgetsProfiles => Some("agentstore.profiles"),
            LayerBug::ReopenForgetsDefinitions => Some("agentstore.registry.definitions"),
            _ => None,
        };
        if let Some(documents) = reopened.store.tenant(&TenantId::default_tenant())?.documents
            && let Some(collection) = forgotten
        {
            let all = DeleteDocuments::new(DocumentQuery::new(collection.parse()?));
            documents.delete_documents(all, &IgnoreProgress).await?;
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

    async fn sync(&self) -> Result<()> {
        self.store.sync().await
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

/// Runs the case `name` on models with this planted bug, or without a bug. Returns how the case ended, or none if there
/// is no such case.
pub async fn run_case_with_layer_bug(name: &str, bug: Option<LayerBug>) -> Option<Status> {
    let fixture: Arc<dyn Fixture> = match bug {
        Some(bug) => Arc::new(LayerBugFixture::new(bug)),
        None => Arc::new(ModelFixture { bug: None }),
    };
    let case = Contract::DocumentStore.cases().find(|case| case.name == name)?;
    Some(run_case(Contract::DocumentStore, case, &fixture).await)
}
