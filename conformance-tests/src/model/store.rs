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
    Capabilities, Clock as _, CursorKey, CursorScope, Direction, Error, EventDelivery, IdSource, Limits, ManualClock,
    Page, PageRequest, Progress, ReclaimedSpace, Result, Store, StoreIdentity, Survives, SystemClock, TenantId,
    TenantStores, UuidSource,
    health::{ClockReading, StoreHealth},
    inspect::Inspector,
};

use super::{
    bug::Bug,
    handle::{TenantHandle, yield_to_others},
    live::LiveState,
    model_data::ModelData,
    page::{CursorTable, PageReader},
};

/// The data that all handles of a model share. The store that [`ModelStore::reopened`] returns shares it, too.
pub(super) struct SharedModel {
    pub(super) clock: ManualClock,
    pub(super) limits: Limits,
    pub(super) id_source: UuidSource,
    pub(super) bug: Option<Bug>,
    pub(super) cursors: CursorTable,
    model_data: Mutex<ModelData>,
    live_state: Mutex<LiveState>,
}

impl SharedModel {
    pub(super) fn model_data(&self) -> MutexGuard<'_, ModelData> {
        self.model_data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn live_state(&self) -> MutexGuard<'_, LiveState> {
        self.live_state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The model: a store that is simple enough to be obviously correct.
///
/// Its data is in maps and lists behind one lock, and it implements every rule as the contract words it. It need not be
/// fast.
pub struct ModelStore {
    pub(super) shared: Arc<SharedModel>,
    capabilities: Capabilities,
    is_closed: Arc<AtomicBool>,
}

impl fmt::Debug for ModelStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelStore").field("bug", &self.shared.bug).finish_non_exhaustive()
    }
}

impl Drop for ModelStore {
    fn drop(&mut self) {
        if self.shared.bug == Some(Bug::HandlesEndWithTheStore) {
            self.is_closed.store(true, Ordering::SeqCst);
        }
    }
}

impl ModelStore {
    /// Makes an empty store with these limits, and with the planted bug `bug` if one is given.
    #[must_use]
    pub fn new(limits: Limits, clock: ManualClock, bug: Option<Bug>) -> Self {
        let mut key = [0; 32];
        for (byte, random_byte) in key.iter_mut().zip(UuidSource.next_id().into_bytes().into_iter().rev()) {
            *byte = random_byte;
        }
        let cursors = CursorTable::new(CursorKey::new(key));
        let (model_data, live_state) = (Mutex::default(), Mutex::default());
        Self::with_shared(Arc::new(SharedModel {
            clock,
            limits,
            id_source: UuidSource,
            bug,
            cursors,
            model_data,
            live_state,
        }))
    }

    fn with_shared(shared: Arc<SharedModel>) -> Self {
        let capabilities = Self::capabilities_with(&shared.limits);
        Self { shared, capabilities, is_closed: Arc::default() }
    }

    /// Returns the capabilities of a model with these limits. Its data survives a reopen, because the suite closes and
    /// opens the model in the same process.
    #[must_use]
    pub const fn capabilities_with(limits: &Limits) -> Capabilities {
        Capabilities::new(Survives::Process, limits.record_bytes)
            .with_event_delivery(EventDelivery::Push)
            .with_fencing()
    }

    /// Returns a store with the same data, as if this store were closed and opened again.
    #[must_use]
    pub fn reopened(&self) -> Self {
        if self.shared.bug == Some(Bug::ReopenForgetsKeys) {
            let mut model_data = self.shared.model_data();
            let all_thread_data = model_data.tenants.values_mut().flat_map(|tenant| tenant.threads.values_mut());
            all_thread_data.for_each(|thread_data| thread_data.keyed_commits.clear());
        }
        for tenant in self.shared.model_data().tenants.values_mut() {
            match self.shared.bug {
                Some(Bug::ReopenForgetsDocuments) => tenant.documents.documents.clear(),
                Some(Bug::ReopenResetsRevisions) => tenant.documents.last_revision = 0,
                Some(Bug::ReopenForgetsTopics) => tenant.events.forget_topics(),
                _ => {}
            }
        }
        Self::with_shared(Arc::clone(&self.shared))
    }

    /// Returns the clock that the store decides by.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.shared.clock
    }

    fn check_open(&self) -> Result<()> {
        let is_closed = self.is_closed.load(Ordering::SeqCst) && self.shared.bug != Some(Bug::ClosedStoreUsable);
        if is_closed { Err(Error::closed()) } else { Ok(()) }
    }
}

#[async_trait]
impl Store for ModelStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        self.check_open()?;
        let deletions = self.shared.model_data().deletions.get(tenant).copied().unwrap_or_default();
        let (shared, is_closed) = (Arc::clone(&self.shared), Arc::clone(&self.is_closed));
        let handle = Arc::new(TenantHandle { shared, is_closed, tenant: tenant.clone(), deletions });
        let stores = TenantStores::from_coordinator(Arc::<TenantHandle>::clone(&handle));
        let (objects, mailbox, live) = (Arc::clone(&handle), Arc::clone(&handle), Arc::clone(&handle));
        Ok(stores.with_objects(objects).with_mailbox(mailbox).with_live(live).with_wake_ups(handle))
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        self.check_open()?;
        let model_data = self.shared.model_data();
        let scope = CursorScope::new(&TenantId::default_tenant(), "tenants", "");
        let page_reader = PageReader::open(scope, &page, (&self.shared.cursors, self.shared.bug))?;
        let has_data = |tenant: &super::model_data::TenantData| {
            let has_deliveries = !tenant.outbox.is_empty() || !tenant.mailbox.is_empty();
            let has_documents =
                !tenant.documents.documents.is_empty() && self.shared.bug != Some(Bug::TenantOfDocumentsUnlisted);
            has_deliveries || has_documents || !tenant.threads.is_empty() || !tenant.events.is_empty()
        };
        let tenants_with_data = model_data.tenants.iter().filter(|(_, tenant)| has_data(tenant));
        Ok(page_reader.page(
            tenants_with_data.map(|(name, _)| ((0, name.to_string()), name.clone())).collect(),
            Direction::Forward,
        ))
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.check_open()?;
        if self.shared.bug == Some(Bug::RepeatedDeletionDoesNothing) {
            let deletions = self.shared.model_data().deletions.insert(tenant.clone(), 1);
            if deletions.is_some() {
                return Ok(());
            }
            yield_to_others().await;
            self.shared.model_data().tenants.remove(tenant);
            return Ok(());
        }
        let mut model_data = self.shared.model_data();
        *model_data.deletions.entry(tenant.clone()).or_default() += 1;
        let deleted_data = model_data.tenants.remove(tenant);
        model_data.previous_tenants.remove(tenant);
        if self.shared.bug == Some(Bug::DeletedTenantReturns) {
            model_data.previous_tenants.extend(deleted_data.map(|deleted_data| (tenant.clone(), deleted_data)));
        }
        Ok(())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn identity(&self) -> Option<StoreIdentity> {
        let key = self.shared.cursors.key();
        Some(match self.shared.bug {
            Some(Bug::IdentityOfTheBackend) => CursorKey::new([0; 32]).identity("model"),
            Some(Bug::IdentityOfTheOpening) => key.identity(&format!("{:p}", Arc::as_ptr(&self.is_closed))),
            _ => key.identity("model"),
        })
    }

    async fn health(&self) -> Result<StoreHealth> {
        if self.shared.bug != Some(Bug::HealthOfAClosedStore) {
            self.check_open()?;
        }
        let asked_at = SystemClock.now();
        let store_time = if self.shared.bug == Some(Bug::HealthOfTheHost) { asked_at } else { self.shared.clock.now() };
        let clock = ClockReading::new(asked_at, store_time, SystemClock.now());
        Ok(StoreHealth::new().with("library", env!("CARGO_PKG_VERSION")).with_clock(clock))
    }

    async fn sync(&self) -> Result<()> {
        self.check_open()?;
        Err(Error::new(store_core::Detail::Unsupported { operation: "sync" }))
    }

    async fn reclaim_space(&self, _progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.check_open()?;
        Ok(ReclaimedSpace::default())
    }

    async fn close(&self) -> Result<()> {
        self.is_closed.store(true, Ordering::SeqCst);
        Ok(())
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        None
    }
}
