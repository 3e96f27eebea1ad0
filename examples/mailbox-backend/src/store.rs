//! Opens a store and its tenants, and closes the store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use store_core::{
    Capabilities, Clock, CursorKey, CursorScope, Detail, Direction, Error, EventDelivery, Limits, Page, PageRequest,
    Progress, ReclaimedSpace, Result, Store, StoreIdentity, Survives, SystemClock, TenantId, TenantStores, UuidSource,
    commit::DecisionContext,
    health::{ClockReading, StoreHealth},
    inspect::Inspector,
};

use crate::{data::TenantData, mailbox::MapTenant, page::ListRequest};

/// A store of mailboxes and documents. It exists as long as the process has a handle of it.
#[derive(Debug, Clone)]
pub struct MapStore {
    shared: Arc<Shared>,
}

/// The data that all handles of a store share.
#[derive(Debug)]
pub(crate) struct Shared {
    clock: Arc<dyn Clock>,
    limits: Limits,
    capabilities: Capabilities,
    pub(crate) cursor_key: CursorKey,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_closed: bool,
    tenants: BTreeMap<TenantId, TenantData>,
    last_incarnation: u64,
    /// The greatest revision that a document of a deleted tenant had.
    last_revision: u64,
}

impl State {
    fn check_open(&self) -> Result<()> {
        if self.is_closed { Err(Error::closed()) } else { Ok(()) }
    }
}

impl MapStore {
    /// Opens a new, empty store. A limit above that of the contract is lowered to it.
    ///
    /// # Errors
    /// `Unavailable` if the system returns no random bytes for the key that authenticates cursors.
    pub fn open(clock: Arc<dyn Clock>, limits: &Limits) -> Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|e| Error::unavailable("random bytes are not available").with_source(e))?;
        let limits = limits.at_most(&Limits::default());
        let capabilities =
            Capabilities::new(Survives::Nothing, limits.record_bytes).with_event_delivery(EventDelivery::Push);
        let (cursor_key, state) = (CursorKey::new(key), Mutex::default());
        Ok(Self { shared: Arc::new(Shared { clock, limits, capabilities, cursor_key, state }) })
    }
}

impl Shared {
    // Rules decide before anything is written, and writing cannot panic. So the data is complete even if the lock is
    // poisoned.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls a function with the data of a tenant, while no other call has access to it.
    ///
    /// A handle belongs to one incarnation of its tenant. The handle of a tenant that was deleted is closed, even if
    /// the name of the tenant is used again.
    pub(crate) fn with_data<T>(
        &self,
        tenant: &TenantId,
        incarnation: u64,
        call: impl FnOnce(&mut TenantData, DecisionContext<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut state = self.lock();
        let data = state.tenants.get_mut(tenant).filter(|data| data.incarnation == incarnation);
        let data = data.ok_or_else(Error::closed)?;
        // The time is asked for while the lock is held, so that a later call never has an earlier time.
        let now = self.clock.now();
        call(data, DecisionContext::new(now, &self.limits, &UuidSource))
    }
}

#[async_trait]
impl Store for MapStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let mut state = self.shared.lock();
        state.check_open()?;
        // The new incarnation is greater than that of any earlier mailbox, including those of an earlier store (MB-25).
        let next_incarnation = self.shared.clock.now().as_millis().max(state.last_incarnation + 1);
        let last_revision = state.last_revision;
        let new_data =
            || TenantData::new(tenant.clone(), self.shared.cursor_key.clone(), next_incarnation, last_revision);
        let incarnation = state.tenants.entry(tenant.clone()).or_insert_with(new_data).incarnation;
        state.last_incarnation = state.last_incarnation.max(incarnation);
        let handle = MapTenant::new(Arc::clone(&self.shared), tenant.clone(), incarnation);
        let mut stores = TenantStores::default().with_mailbox(Arc::new(handle.clone()));
        stores.documents = Some(Arc::new(handle.clone()));
        stores.events = Some(Arc::new(handle));
        Ok(stores)
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        let state = self.shared.lock();
        state.check_open()?;
        // The list belongs to no tenant, but a scope must name one.
        let scope = CursorScope::new(&TenantId::default_tenant(), "list_tenants", "");
        let list = ListRequest { scope, direction: Direction::Forward, page };
        let non_empty = state.tenants.iter().filter(|(_, data)| !data.is_empty());
        list.build_page(&self.shared.cursor_key, non_empty.map(|(name, _)| ((0, 0, name.to_string()), 0, name.clone())))
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        let mut state = self.shared.lock();
        state.check_open()?;
        if let Some(deleted) = state.tenants.remove(tenant) {
            state.last_revision = state.last_revision.max(deleted.documents.last_revision);
        }
        Ok(())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    fn identity(&self) -> Option<StoreIdentity> {
        Some(self.shared.cursor_key.identity("map"))
    }

    async fn health(&self) -> Result<StoreHealth> {
        self.shared.lock().check_open()?;
        let asked_at = SystemClock.now();
        let clock = ClockReading::new(asked_at, self.shared.clock.now(), SystemClock.now());
        Ok(StoreHealth::new().with("library", env!("CARGO_PKG_VERSION")).with_clock(clock))
    }

    /// Refuses the call, because nothing in memory survives a power cut.
    async fn sync(&self) -> Result<()> {
        self.shared.lock().check_open()?;
        Err(Error::new(Detail::Unsupported { operation: "sync" }))
    }

    async fn reclaim_space(&self, _progress: &dyn Progress) -> Result<ReclaimedSpace> {
        // A removal lets go of the memory.
        self.shared.lock().check_open()?;
        Ok(ReclaimedSpace::default())
    }

    async fn close(&self) -> Result<()> {
        let mut state = self.shared.lock();
        state.is_closed = true;
        // Every handle looks for its tenant in the map. It no longer finds it, and returns `Closed`.
        state.tenants.clear();
        Ok(())
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        None
    }
}
