//! The model as a store, with all data behind one lock.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use store_core::{
    Capabilities, CursorKey, CursorScope, Error, EventDelivery, IdSource, Limits, ManualClock, Page, PageRequest,
    Result, Store, Survives, TenantId, TenantStores, Uuids, inspect::Inspector,
};

use super::{
    bug::Bug,
    handle::{Handle, yield_to_others},
    live::LiveState,
    page::{Cursors, Walk},
    world::World,
};

/// What all handles of a model share. A store that is opened again shares it with the earlier one.
pub(super) struct Shared {
    pub(super) clock: ManualClock,
    pub(super) limits: Limits,
    pub(super) ids: Uuids,
    pub(super) bug: Option<Bug>,
    pub(super) cursors: Cursors,
    world: Mutex<World>,
    wires: Mutex<LiveState>,
}

impl Shared {
    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wires(&self) -> MutexGuard<'_, LiveState> {
        self.wires.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The model: a store that is simple enough to be obviously correct.
///
/// Its data is in maps and lists behind one lock, and it implements every rule as the contract words it. It need not be
/// fast.
pub struct ModelStore {
    pub(super) shared: Arc<Shared>,
    capabilities: Capabilities,
    closed: Arc<AtomicBool>,
}

impl fmt::Debug for ModelStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelStore").field("bug", &self.shared.bug).finish_non_exhaustive()
    }
}

impl Drop for ModelStore {
    fn drop(&mut self) {
        if self.shared.bug == Some(Bug::HandlesEndWithTheStore) {
            self.closed.store(true, Ordering::SeqCst);
        }
    }
}

impl ModelStore {
    /// Makes an empty store with these limits, and with the planted bug `bug` if one is given.
    #[must_use]
    pub fn new(limits: Limits, clock: ManualClock, bug: Option<Bug>) -> Self {
        let mut key = [0; 32];
        for (byte, random) in key.iter_mut().zip(Uuids.next_id().into_bytes().into_iter().rev()) {
            *byte = random;
        }
        let cursors = Cursors::new(CursorKey::new(key));
        let (world, wires) = (Mutex::default(), Mutex::default());
        Self::over(Arc::new(Shared { clock, limits, ids: Uuids, bug, cursors, world, wires }))
    }

    fn over(shared: Arc<Shared>) -> Self {
        let capabilities = Self::capabilities_with(&shared.limits);
        Self { shared, capabilities, closed: Arc::default() }
    }

    /// Returns the capabilities of a model with these limits. Its data survives a reopen, because the suite closes and
    /// opens the model in the same process.
    #[must_use]
    pub const fn capabilities_with(limits: &Limits) -> Capabilities {
        Capabilities::new(Survives::Process, limits.record_bytes).delivering(EventDelivery::Push).fencing()
    }

    /// Returns a store with the same data, as if this one were closed and opened again.
    #[must_use]
    pub fn reopened(&self) -> Self {
        if self.shared.bug == Some(Bug::ReopenForgetsKeys) {
            let mut world = self.shared.world();
            let slots = world.tenants.values_mut().flat_map(|tenant| tenant.threads.values_mut());
            slots.for_each(|slot| slot.keys.clear());
        }
        Self::over(Arc::clone(&self.shared))
    }

    /// Returns the clock that the store decides by.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.shared.clock
    }

    fn check_open(&self) -> Result<()> {
        let closed = self.closed.load(Ordering::SeqCst) && self.shared.bug != Some(Bug::ClosedAnswers);
        if closed { Err(Error::closed()) } else { Ok(()) }
    }
}

#[async_trait]
impl Store for ModelStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        self.check_open()?;
        let deletions = self.shared.world().deletions.get(tenant).copied().unwrap_or_default();
        let (shared, closed) = (Arc::clone(&self.shared), Arc::clone(&self.closed));
        let handle = Arc::new(Handle { shared, closed, tenant: tenant.clone(), deletions });
        let (commits, mailbox, live) = (Arc::clone(&handle), Arc::clone(&handle), Arc::clone(&handle));
        Ok(TenantStores::of_threads(commits).with_mailbox(mailbox).with_live(live).with_wake_ups(handle))
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        self.check_open()?;
        let world = self.shared.world();
        let scope = CursorScope::new(&TenantId::default_tenant(), "tenants", "");
        let walk = Walk::open(scope, &page, (&self.shared.cursors, self.shared.bug))?;
        let is_held = |tenant: &super::world::Tenant| {
            let around = !tenant.outbox.is_empty() || !tenant.mail.is_empty();
            around || !tenant.threads.is_empty() || !tenant.events.is_empty()
        };
        let held = world.tenants.iter().filter(|(_, tenant)| is_held(tenant));
        Ok(walk.page(held.map(|(name, _)| ((0, name.to_string()), name.clone())).collect(), false, 0))
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.check_open()?;
        if self.shared.bug == Some(Bug::DeletionNotGoneOnWith) {
            let deletions = self.shared.world().deletions.insert(tenant.clone(), 1);
            if deletions.is_some() {
                return Ok(());
            }
            yield_to_others().await;
            self.shared.world().tenants.remove(tenant);
            return Ok(());
        }
        let mut world = self.shared.world();
        *world.deletions.entry(tenant.clone()).or_default() += 1;
        let gone = world.tenants.remove(tenant);
        world.before.remove(tenant);
        if self.shared.bug == Some(Bug::DeletedTenantReturns) {
            world.before.extend(gone.map(|gone| (tenant.clone(), gone)));
        }
        Ok(())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn sync(&self) -> Result<()> {
        self.check_open()?;
        Err(Error::new(store_core::Detail::Unsupported { operation: "sync" }))
    }

    async fn close(&self) -> Result<()> {
        self.closed.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        None
    }
}
