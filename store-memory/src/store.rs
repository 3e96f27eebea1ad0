//! Opening and closing a store, and its tenants.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use async_trait::async_trait;
use store_core::{
    Capabilities, CursorKey, CursorScope, Detail, Error, EventDelivery, Page, PageBuilder, PageRequest, Position,
    Result, Store, Survives, TenantId, TenantStores, inspect::Inspector,
};

use crate::{
    commit::MemoryCommits,
    config::MemoryConfig,
    locks::Lock,
    mailbox::MemoryMailbox,
    tenant::{Common, Tenant},
};

/// An in-memory store. It exists as long as the process holds a handle to it.
///
/// Each opening creates a separate store. Handles are cheap to clone (PR-7).
#[derive(Debug, Clone)]
pub struct MemoryStore {
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    common: Arc<Common>,
    capabilities: Capabilities,
    tenants: Lock<Tenants>,
}

#[derive(Debug, Default)]
struct Tenants {
    by_name: BTreeMap<TenantId, Arc<Tenant>>,
    closed: bool,
}

impl MemoryStore {
    /// Opens a new, empty store.
    ///
    /// # Errors
    /// `Unavailable` if the system provides no random bytes for the key that seals cursors.
    pub fn open(config: MemoryConfig) -> Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|e| Error::unavailable("random bytes are not available").with_source(e))?;
        let capabilities =
            Capabilities::new(Survives::Nothing, config.limits.record_bytes).delivering(EventDelivery::Push).fencing();
        let common = Arc::new(Common { config, cursors: CursorKey::new(key), incarnations: Lock::default() });
        Ok(Self { state: Arc::new(State { common, capabilities, tenants: Lock::default() }) })
    }

    /// Returns the tenants that hold data, by name.
    pub(crate) fn tenants(&self) -> Result<Vec<Arc<Tenant>>> {
        let tenants = self.state.tenants.lock();
        tenants.check_open()?;
        Ok(tenants.by_name.values().filter(|tenant| !tenant.is_empty()).map(Arc::clone).collect())
    }
}

impl Tenants {
    fn check_open(&self) -> Result<()> {
        if self.closed { Err(Error::closed()) } else { Ok(()) }
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let mut tenants = self.state.tenants.lock();
        tenants.check_open()?;
        let new = || Arc::new(Tenant::new(tenant.clone(), Arc::clone(&self.state.common)));
        let tenant = tenants.by_name.entry(tenant.clone()).or_insert_with(new);
        let stores = TenantStores::of_threads(Arc::new(MemoryCommits::new(Arc::clone(tenant))));
        let (live, mailbox) = (Arc::clone(&tenant.live), Arc::new(MemoryMailbox::new(Arc::clone(tenant))));
        let wake_ups = Arc::clone(&mailbox);
        Ok(stores.with_mailbox(mailbox).with_wake_ups(wake_ups).with_live(live))
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        // The list belongs to the store. A cursor scope needs a tenant, so the default tenant is used.
        let scope = CursorScope::new(&TenantId::default_tenant(), "list_tenants", "");
        let key = &self.state.common.cursors;
        let tenants = self.state.tenants.lock();
        tenants.check_open()?;
        let mut found = PageBuilder::new(page.checked_limit()?);
        let after = Position::open(key, &scope, page.cursor.as_ref())?;
        let after = after.map(|after| TenantId::new(&after.id)).transpose()?;
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        for (name, tenant) in tenants.by_name.range(range) {
            let item = (!tenant.is_empty()).then(|| name.clone());
            if !found.offer(Position::new(0, name.as_str()), 0, item) {
                break;
            }
        }
        Ok(found.finish(|at| at.seal(key, &scope)))
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        let removed = {
            let mut tenants = self.state.tenants.lock();
            tenants.check_open()?;
            let removed = tenants.by_name.remove(tenant);
            if let Some(tenant) = &removed {
                tenant.close();
            }
            removed
        };
        if let Some(tenant) = removed {
            tenant.clear();
        }
        Ok(())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.state.capabilities
    }

    /// Returns `Unsupported`: nothing in memory survives a loss of power.
    async fn sync(&self) -> Result<()> {
        self.state.tenants.lock().check_open()?;
        Err(Error::new(Detail::Unsupported { operation: "sync" }))
    }

    async fn close(&self) -> Result<()> {
        let mut tenants = self.state.tenants.lock();
        tenants.closed = true;
        for tenant in std::mem::take(&mut tenants.by_name).into_values() {
            tenant.close();
        }
        Ok(())
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}
