//! A closed store, as a placeholder for a store whose handles were all dropped.

use async_trait::async_trait;
use store_core::{
    Capabilities, Error, Page, PageRequest, Progress, ReclaimedSpace, Result, Store, StoreIdentity, Survives, TenantId,
    TenantStores, health::StoreHealth, inspect::Inspector,
};

/// A store that is already closed. A fixture may close the store that it gets before it opens the store again, so
/// `close` succeeds here, and does nothing.
pub(crate) struct ClosedStore(Capabilities);

impl ClosedStore {
    pub(crate) const fn new() -> Self {
        Self(Capabilities::new(Survives::Nothing, 0))
    }
}

#[async_trait]
impl Store for ClosedStore {
    fn tenant(&self, _tenant: &TenantId) -> Result<TenantStores> {
        Err(Error::closed())
    }

    async fn list_tenants(&self, _page: PageRequest) -> Result<Page<TenantId>> {
        Err(Error::closed())
    }

    async fn delete_tenant(&self, _tenant: &TenantId) -> Result<()> {
        Err(Error::closed())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.0
    }

    fn identity(&self) -> Option<StoreIdentity> {
        None
    }

    async fn health(&self) -> Result<StoreHealth> {
        Err(Error::closed())
    }

    async fn sync(&self) -> Result<()> {
        Err(Error::closed())
    }

    async fn reclaim_space(&self, _progress: &dyn Progress) -> Result<ReclaimedSpace> {
        Err(Error::closed())
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        None
    }
}
