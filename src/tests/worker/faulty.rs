//! A store that loses answers, wrapped around a real one.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use store_core::{
    Capabilities, ClaimOutbox, ClaimRef, ClaimRequest, ClaimedOutbox, Claims, Commit, CommitCoordinator, Dispatch,
    DispatchClaim, DispatchCounts, DispatchId, DispatchQuery, Enqueued, Error, EventStore, ExtendOutbox, InstanceId,
    Interrupt, Interrupted, MailboxConsumer, MailboxMaintenance, MailboxProducer, MailboxReader, MailboxStore,
    NewDispatch, OutboxCounts, OutboxFilter, OutboxId, OutboxQuery, OutboxRow, OutboxStatus, OutboxStore, Page,
    PageRequest, PendingStore, Purge, PurgeOutbox, Purged, ReadyThread, Receipt, Reclaimed, Requeue, RequeueOutbox,
    Requeued, Result, SettleOutbox, Settled, Settlement, Store, TenantId, TenantStores, ThreadId, ThreadRunStore,
    Timestamp, inspect::Inspector,
};

use super::bed::TestBed;
use crate::Stores;

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// The call takes effect, but its answer is lost.
    LostAnswer,
    /// The call has no effect, but its outcome is reported as unknown.
    LostCall,
    /// The store is unavailable. The call certainly has no effect.
    Away,
    /// The stored data cannot be read.
    Damaged,
}

/// The faults of the next calls of each kind.
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

/// A store with faults, or without wake-ups.
#[derive(Clone)]
pub(super) struct Faulty {
    inner: Arc<dyn Store>,
    faults: Arc<Faults>,
    wakes: bool,
}

impl Faulty {
    /// Returns the stores of a bed with these faults.
    pub(super) fn over(bed: &TestBed, faults: &Arc<Faults>) -> Stores {
        let inner = bed.stores.clone().into_store();
        Stores::new(Arc::new(Self { inner, faults: Arc::clone(faults), wakes: true }))
    }

    /// Returns the stores of a bed without wake-ups.
    pub(super) fn silent(bed: &TestBed) -> Stores {
        Stores::new(Arc::new(Self { inner: bed.stores.clone().into_store(), faults: Arc::default(), wakes: false }))
    }
}

/// Makes the call with the next fault of its kind, if there is one.
async fn faulty<T>(faults: &Mutex<VecDeque<Fault>>, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
    let fault = faults.lock().unwrap().pop_front();
    match fault {
        None => call.await,
        Some(Fault::LostAnswer) => {
            call.await?;
            Err(Error::commit_unknown(None))
        }
        Some(Fault::LostCall) => Err(Error::commit_unknown(None)),
        Some(Fault::Away) => Err(Error::unavailable("the store does not answer")),
        Some(Fault::Damaged) => Err(Error::corrupt("a log")),
    }
}

#[async_trait]
impl Store for Faulty {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let mut stores = self.inner.tenant(tenant)?;
        let faults = &self.faults;
        stores.mailbox = stores.mailbox.map(|inner| Arc::new(Mailbox { inner, faults: Arc::clone(faults) }) as _);
        stores.commits = stores.commits.map(|inner| Arc::new(Commits { inner, faults: Arc::clone(faults) }) as _);
        stores.wake_ups = stores.wake_ups.filter(|_| self.wakes);
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

    async fn sync(&self) -> Result<()> {
        self.inner.sync().await
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        self.inner.inspector()
    }
}

struct Commits {
    inner: Arc<dyn CommitCoordinator>,
    faults: Arc<Faults>,
}

#[async_trait]
impl CommitCoordinator for Commits {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        faulty(&self.faults.commit, self.inner.commit(commit)).await
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
        Arc::new(Outbox { inner: self.inner.outbox(), faults: Arc::clone(&self.faults) })
    }
}

struct Outbox {
    inner: Arc<dyn OutboxStore>,
    faults: Arc<Faults>,
}

#[async_trait]
impl OutboxStore for Outbox {
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<ClaimedOutbox> {
        faulty(&self.faults.claim_outbox, self.inner.claim_outbox(request)).await
    }

    async fn extend_outbox(&self, request: ExtendOutbox) -> Result<Timestamp> {
        self.inner.extend_outbox(request).await
    }

    async fn settle_outbox(&self, requests: Vec<SettleOutbox>) -> Result<Vec<Result<OutboxStatus>>> {
        faulty(&self.faults.settle_outbox, self.inner.settle_outbox(requests)).await
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

struct Mailbox {
    inner: Arc<dyn MailboxStore>,
    faults: Arc<Faults>,
}

#[async_trait]
impl MailboxProducer for Mailbox {
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
impl MailboxConsumer for Mailbox {
    async fn claim(&self, request: ClaimRequest) -> Result<Claims> {
        faulty(&self.faults.claim, self.inner.claim(request)).await
    }

    async fn extend(&self, claim: &ClaimRef, by: Duration) -> Result<DispatchClaim> {
        faulty(&self.faults.extend, self.inner.extend(claim, by)).await
    }

    async fn start(&self, claim: &ClaimRef, instance: InstanceId) -> Result<DispatchClaim> {
        self.inner.start(claim, instance).await
    }

    async fn settle(&self, settlements: Vec<(ClaimRef, Settlement)>) -> Result<Vec<Result<Settled>>> {
        faulty(&self.faults.settle, self.inner.settle(settlements)).await
    }
}

#[async_trait]
impl MailboxReader for Mailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        faulty(&self.faults.load, self.inner.load_dispatch(id)).await
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
impl MailboxMaintenance for Mailbox {
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
