//! Opening and closing a store, and its tenants.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use async_trait::async_trait;
use store_core::{
    Capabilities, Clock, CursorKey, CursorScope, Detail, Error, EventDelivery, Page, PageBuilder, PageRequest,
    Position, Progress, ReclaimedSpace, Result, Store, StoreIdentity, Survives, SystemClock, TenantId, TenantStores,
    health::{ClockReading, Finding, StoreHealth},
    inspect::Inspector,
};

use crate::{
    commit::MemoryCommits,
    config::MemoryConfig,
    locks::Lock,
    mailbox::MemoryMailbox,
    objects::MemoryObjects,
    records::MemoryRecords,
    tenant::{SharedState, Tenant},
};

/// An in-memory store. It exists as long as the process holds a handle to it.
///
/// Each opening creates a separate store. Handles are cheap to clone (PR-7).
#[derive(Debug, Clone)]
pub struct MemoryStore {
    state: Arc<StoreState>,
}

#[derive(Debug)]
struct StoreState {
    shared: Arc<SharedState>,
    capabilities: Capabilities,
    tenants: Lock<TenantMap>,
}

#[derive(Debug, Default)]
struct TenantMap {
    by_name: BTreeMap<TenantId, Arc<Tenant>>,
    is_closed: bool,
}

impl MemoryStore {
    /// Opens a new, empty store.
    ///
    /// # Errors
    /// `Unavailable` if the system provides no random bytes for the key that authenticates cursors.
    pub fn open(config: MemoryConfig) -> Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|e| Error::unavailable("random bytes are not available").with_source(e))?;
        let capabilities = Capabilities::new(Survives::Nothing, config.limits.record_bytes)
            .with_event_delivery(EventDelivery::Push)
            .with_fencing();
        let shared = Arc::new(SharedState {
            config,
            cursor_key: CursorKey::new(key),
            newest_incarnation: Lock::default(),
            newest_document_revision: Lock::default(),
            attached_buffer: Lock::default(),
        });
        Ok(Self { state: Arc::new(StoreState { shared, capabilities, tenants: Lock::default() }) })
    }

    /// Returns what all tenants share.
    pub(crate) fn shared(&self) -> Result<&SharedState> {
        self.state.tenants.lock().check_open()?;
        Ok(&self.state.shared)
    }

    /// Returns a tenant, which is created if it does not exist.
    pub(crate) fn open_tenant(&self, name: &TenantId) -> Result<Arc<Tenant>> {
        let mut tenants = self.state.tenants.lock();
        tenants.check_open()?;
        let new_tenant = || Arc::new(Tenant::new(name.clone(), Arc::clone(&self.state.shared)));
        Ok(Arc::clone(tenants.by_name.entry(name.clone()).or_insert_with(new_tenant)))
    }

    /// Closes a tenant and removes its data.
    pub(crate) fn remove_tenant(&self, name: &TenantId) -> Result<()> {
        let removed_tenant = {
            let mut tenants = self.state.tenants.lock();
            tenants.check_open()?;
            let removed_tenant = tenants.by_name.remove(name);
            if let Some(tenant) = &removed_tenant {
                tenant.close();
            }
            removed_tenant
        };
        if let Some(tenant) = removed_tenant {
            tenant.clear();
        }
        Ok(())
    }

    /// Returns the tenants that hold data, in the order of their names.
    pub(crate) fn tenants(&self) -> Result<Vec<Arc<Tenant>>> {
        let tenants = self.state.tenants.lock();
        tenants.check_open()?;
        Ok(tenants.by_name.values().filter(|tenant| !tenant.is_empty()).map(Arc::clone).collect())
    }
}

impl TenantMap {
    fn check_open(&self) -> Result<()> {
        if self.is_closed { Err(Error::closed()) } else { Ok(()) }
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let tenant = self.open_tenant(tenant)?;
        let stores = TenantStores::from_coordinator(Arc::new(MemoryCommits::new(Arc::clone(&tenant))));
        let (live, mailbox) = (Arc::clone(&tenant.live_hub), Arc::new(MemoryMailbox::new(Arc::clone(&tenant))));
        let wake_ups = Arc::clone(&mailbox);
        let objects = Arc::new(MemoryObjects::new(Arc::clone(&tenant)));
        let stores = stores.with_records(Arc::new(MemoryRecords::new(tenant)));
        Ok(stores.with_objects(objects).with_mailbox(mailbox).with_wake_ups(wake_ups).with_live(live))
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        // The list belongs to the store. A cursor scope needs a tenant, so the default tenant is used.
        let scope = CursorScope::new(&TenantId::default_tenant(), "list_tenants", "");
        let key = &self.state.shared.cursor_key;
        let tenants = self.state.tenants.lock();
        tenants.check_open()?;
        let mut page_builder = PageBuilder::new(page.checked_limit()?);
        let after = Position::from_cursor(key, &scope, page.cursor.as_ref())?;
        let after = after.map(|after| TenantId::new(&after.id)).transpose()?;
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        for (name, tenant) in tenants.by_name.range(range) {
            let item = (!tenant.is_empty()).then(|| name.clone());
            if !page_builder.offer(Position::new(0, name.as_str()), 0, item) {
                break;
            }
        }
        Ok(page_builder.finish(|position| position.to_cursor(key, &scope)))
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.remove_tenant(tenant)
    }

    fn capabilities(&self) -> &Capabilities {
        &self.state.capabilities
    }

    fn identity(&self) -> Option<StoreIdentity> {
        Some(self.state.shared.cursor_key.identity("memory"))
    }

    async fn health(&self) -> Result<StoreHealth> {
        self.state.tenants.lock().check_open()?;
        let asked_at = SystemClock.now();
        let clock = ClockReading::new(asked_at, self.state.shared.config.clock.now(), SystemClock.now());
        Ok(StoreHealth::new().with("library", env!("CARGO_PKG_VERSION")).with_clock(clock).finding(Finding::note(
            "durability",
            "everything is in the memory of this process and ends with it",
            "open `file:PATH` or a server for data that is to be kept",
        )))
    }

    /// Returns `Unsupported`: nothing in memory survives a loss of power.
    async fn sync(&self) -> Result<()> {
        self.state.tenants.lock().check_open()?;
        Err(Error::new(Detail::Unsupported { operation: "sync" }))
    }

    async fn reclaim_space(&self, _progress: &dyn Progress) -> Result<ReclaimedSpace> {
        // A removal lets go of the memory.
        self.state.tenants.lock().check_open()?;
        Ok(ReclaimedSpace::default())
    }

    async fn close(&self) -> Result<()> {
        let mut tenants = self.state.tenants.lock();
        tenants.is_closed = true;
        for tenant in std::mem::take(&mut tenants.by_name).into_values() {
            tenant.close();
        }
        Ok(())
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}
