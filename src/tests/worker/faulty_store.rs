//! A store that makes calls of a real store fail, or loses their answers.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use store_core::{
    Capabilities, ClaimOutbox, ClaimRef, ClaimRequest, ClaimedOutbox, Claims, Commit, CommitCoordinator, Dispatch,
    DispatchClaim, DispatchCounts, DispatchId, DispatchQuery, DocumentStore, Enqueued, Error, EventStore, ExtendOutbox,
    InstanceId, Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, MailboxReader,
    MailboxStore, NewDispatch, OutboxCounts, OutboxFilter, OutboxId, OutboxQuery, OutboxRow, OutboxStatus, OutboxStore,
    Page, PageRequest, PendingStore, Progress, Purge, PurgeOutbox, Purged, ReadyThread, Receipt, Reclaimed,
    ReclaimedSpace, Requeue, RequeueOutbox, Requeued, Result, SettleOutbox, Settled, Settlement, Store, StoreIdentity,
    TenantId, TenantStores, ThreadId, ThreadRunStore, Timestamp, health::StoreHealth, inspect::Inspector,
};

use super::test_bed::TestBed;
use crate::Stores;

/// What goes wrong in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The call takes effect, but its answer is lost.
    LostAnswer,
    /// The call has no effect, but its outcome is reported as unknown.
    LostCall,
    /// The store is unavailable. The call certainly has no effect.
    Unavailable,
    /// The stored data cannot be read.
    Corrupt,
}

/// For each kind of call: the faults of the next calls, in order.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) settle: Mutex<VecDeque<Fault>>,
    pub(super) extend: Mutex<VecDeque<Fault>>,
    pub(super) claim: Mutex<VecDeque<Fault>>,
    pub(super) claim_outbox: Mutex<VecDeque<Fault>>,
    pub(super) load: Mutex<VecDeque<Fault>>,
    pub(super) commit: Mutex<VecDeque<Fault>>,
    pub(super) settle_outbox: Mutex<VecDeque<Fault>>,
}

/// A real store whose calls have faults, or whose wake-ups are removed.
#[derive(Clone)]
pub(super) struct FaultyStore {
    inner: Arc<dyn Store>,
    faults: Arc<Faults>,
    has_wake_ups: bool,
}

impl FaultyStore {
    /// Returns the stores of a bed with these faults.
    pub(super) fn with_faults(bed: &TestBed, faults: &Arc<Faults>) -> Stores {
        let inner = bed.stores.clone().into_store();
        Stores::new(Arc::new(Self { inner, faults: Arc::clone(faults), has_wake_ups: true }))
    }

    /// Returns the stores of a bed without wake-ups.
    pub(super) fn without_wake_ups(bed: &TestBed) -> Stores {
        Stores::new(Arc::new(Self {
            inner: bed.stores.clone().into_store(),
            faults: Arc::default(),
            has_wake_ups: false,
        }))
    }
}

/// Makes the call with the next fault of its kind, if there is one.
async fn call_with_fault<T>(
    faults: &Mutex<VecDeque<Fault>>,
    call: impl Future<Output = Result<T>> + Send,
) -> Result<T> {
    let fault = faults.lock().unwrap().pop_front();
    match fault {
        None => call.await,
        Some(Fault::LostAnswer) => {
            call.await?;
            Err(Error::commit_unknown(None))
        }
        Some(Fault::LostCall) => Err(Error::commit_unknown(None)),
        Some(Fault::Unavailable) => Err(Error::unavailable("the store does not answer")),
        Some(Fault::Corrupt) => Err(Error::corrupt("a log")),
    }
}

#[async_trait]
impl Store for FaultyStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let mut stores = self.inner.tenant(tenant)?;
        let faults = &self.faults;
        stores.mailbox = stores.mailbox.map(|inner| Arc::new(FaultyMailbox { inner, faults: Arc::clone(faults) }) as _);
        stores.commits = stores.commits.map(|inner| Arc::new(FaultyCommits { inner, faults: Arc::clone(faults) }) as _);
        stores.wake_ups = stores.wake_ups.filter(|_| self.has_wake_ups);
        Ok(stores)
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        self.inner.list_tenants(page).await
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.inner.delete_tenant(tenant).await
    }

    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn identity(&self) -> Option<StoreIdentity> {
        self.inner.identity()
    }

    async fn health(&self) -> Result<StoreHealth> {
        self.inner.health().await
    }

    async fn sync(&self) -> Result<()> {
        self.inner.sync().await
    }

    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.inner.reclaim_space(progress).await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        self.inner.inspector()
    }
}

struct FaultyCommits {
    inner: Arc<dyn CommitCoordinator>,
    faults: Arc<Faults>,
}

#[async_trait]
impl CommitCoordinator for FaultyCommits {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        call_with_fault(&self.faults.commit, self.inner.commit(commit)).await
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
        Arc::new(FaultyOutbox { inner: self.inner.outbox(), faults: Arc::clone(&self.faults) })
    }

    fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        self.inner.documents()
    }
}

struct FaultyOutbox {
    inner: Arc<dyn OutboxStore>,
    faults: Arc<Faults>,
}

#[async_trait]
impl OutboxStore for FaultyOutbox {
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<ClaimedOutbox> {
        call_with_fault(&self.faults.claim_outbox, self.inner.claim_outbox(request)).await
    }

    async fn extend_outbox(&self, request: ExtendOutbox) -> Result<Timestamp> {
        self.inner.extend_outbox(request).await
    }

    async fn settle_outbox(&self, requests: Vec<SettleOutbox>) -> Result<Vec<Result<OutboxStatus>>> {
        call_with_fault(&self.faults.settle_outbox, self.inner.settle_outbox(requests)).await
    }

    async fn load_outbox(&self, id: &OutboxId) -> Result<Option<OutboxRow>> {
        self.inner.load_outbox(id).await
    }

    async fn list_outbox(&self, query: OutboxQuery) -> Result<Page<OutboxRow>> {
        self.inner.list_outbox(query).await
    }

    async fn count_outbox(&self, filter: &OutboxFilter) -> Result<OutboxCounts> {
        self.inner.count_outbox(filter).await
    }

    async fn requeue_outbox(&self, request: RequeueOutbox) -> Result<Vec<Requeued>> {
        self.inner.requeue_outbox(request).await
    }

    async fn purge_outbox(&self, request: PurgeOutbox) -> Result<u64> {
        self.inner.purge_outbox(request).await
    }
}

struct FaultyMailbox {
    inner: Arc<dyn MailboxStore>,
    faults: Arc<Faults>,
}

#[async_trait]
impl MailboxProducer for FaultyMailbox {
    async fn enqueue(&self, dispatches: Vec<NewDispatch>) -> Result<Vec<Result<Enqueued>>> {
        self.inner.enqueue(dispatches).await
    }

    async fn cancel(&self, id: &DispatchId) -> Result<Dispatch> {
        self.inner.cancel(id).await
    }

    async fn interrupt(&self, request: Interrupt) -> Result<Interrupted> {
        self.inner.interrupt(request).await
    }
}

#[async_trait]
impl MailboxConsumer for FaultyMailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        call_with_fault(&self.faults.claim, self.inner.claim(request)).await
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        call_with_fault(&self.faults.extend, self.inner.extend(claim, by)).await
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        self.inner.start(claim, instance).await
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        call_with_fault(&self.faults.settle, self.inner.settle(settlements)).await
    }
}

#[async_trait]
impl MailboxReader for FaultyMailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        call_with_fault(&self.faults.load, self.inner.load_dispatch(id)).await
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        self.inner.list_dispatches(query).await
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        self.inner.count_dispatches(thread).await
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        self.inner.list_ready_threads(page).await
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        self.inner.load_epoch(thread).await
    }
}

#[async_trait]
impl MailboxMaintenance for FaultyMailbox {
    async fn reclaim(&self, limit: u32) -> Result<Reclaimed> {
        self.inner.reclaim(limit).await
    }

    async fn purge(&self, request: Purge) -> Result<Purged> {
        self.inner.purge(request).await
    }

    async fn requeue(&self, request: Requeue) -> Result<Vec<(DispatchId, Result<Dispatch>)>> {
        self.inner.requeue(request).await
    }
}
