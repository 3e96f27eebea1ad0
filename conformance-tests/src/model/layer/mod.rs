//! Layers with planted bugs, over a model without a bug.

mod audit;
mod bug;
mod config;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    Capabilities, Limits, Result, Store, TenantStores,
    layers::{
        LayerStore,
        audit::{AuditLog, AuditStore},
        config::{ConfigLayer, ConfigStore},
    },
};

pub use self::bug::LayerBug;
use self::{audit::BuggyAudit, config::BuggyConfig};
use super::ModelFixture;
use crate::{
    case::Need,
    fixture::{Fixture, Gap, OpenedStore, UnmetReason},
};

/// Opens models without a bug, and puts layers with a planted bug over them.
#[derive(Debug, Clone, Copy)]
pub struct LayerFixture {
    bug: LayerBug,
    model: ModelFixture,
}

impl LayerFixture {
    /// Returns a fixture whose layers have this planted bug.
    #[must_use]
    pub const fn with_bug(bug: LayerBug) -> Self {
        Self { bug, model: ModelFixture { bug: None } }
    }
}

#[async_trait]
impl Fixture for LayerFixture {
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
        self.model.open(limits).await
    }

    async fn reopen(&self, opened: OpenedStore) -> Result<OpenedStore> {
        self.model.reopen(opened).await
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        self.model.open_second_time(opened).await
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
}
