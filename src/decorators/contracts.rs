//! The contracts of a tenant, with every method forwarded through the hook.

use std::{ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    AppendEvents, AppendPending, AppendedEvents, AppendedInputs, BranchPoint, ByteStream, ClaimOutbox, ClaimRef,
    ClaimRequest, ClaimedOutbox, Claims, Commit, CommitCoordinator, ContextRequest, DeleteRequest, Deletion,
    DeliverLive, Dispatch, DispatchClaim, DispatchCounts, DispatchId, DispatchQuery, Document, DocumentQuery,
    DocumentRef, DocumentStore, Enqueued, Entry, EntryId, EntryQuery, Event, EventFilter, EventId, EventQuery,
    EventReader, EventRetention, EventStore, EventSubscriber, EventWriter, Expect, ExtendOutbox, InstanceId, Interrupt,
    Interrupted, Leaf, LiveChannel, LiveDelivery, LiveReceiver, LiveTarget, LogReader, MailboxConsumer,
    MailboxMaintenance, MailboxProducer, MailboxReader, MailboxStore, NewDispatch, NewThread, ObjectKey, ObjectStore,
    ObjectUpload, OutboxCounts, OutboxFilter, OutboxId, OutboxQuery, OutboxRow, OutboxStatus, OutboxStore, Page,
    PageRequest, PendingInput, PendingQueue, PendingStore, PendingUpdate, Progress, PruneRequest, Pruned, Purge,
    PurgeOutbox, Purged, ReadyThread, Receipt, Reclaimed, RedactEvent, Reorder, Requeue, RequeueOutbox, Requeued,
    Result, Run, RunFilter, RunId, RunQuery, RunReader, Scope, ScopeInfo, SettleOutbox, Settled, Settlement, Snapshot,
    StoredObject, Subscribe, Subscription, TenantStores, Thread, ThreadAdmin, ThreadContext, ThreadFilter, ThreadId,
    ThreadPatch, ThreadQuery, ThreadReader, ThreadRunStore, Timestamp, TrimRequest, Trimmed, WaitResult, WakeUps,
    WriteDocuments, WrittenDocuments,
    records::{RecordList, RecordPort, RecordQuery, StoredRecord, WriteHold},
};

use super::forward::{Decorated, Hook, Method, Request, forward};

/// Returns the handles of a tenant, with each contract that the store has decorated.
pub(super) fn decorate<H: Hook>(stores: TenantStores, hook: &H) -> TenantStores {
    // A test compares the contracts of a store that has all of them.
    let mut decorated = TenantStores::default();
    decorated.threads = stores.threads.map(|inner| with_hook(hook, inner) as _);
    decorated.pending = stores.pending.map(|inner| with_hook(hook, inner) as _);
    decorated.events = stores.events.map(|inner| with_hook(hook, inner) as _);
    decorated.outbox = stores.outbox.map(|inner| with_hook(hook, inner) as _);
    decorated.documents = stores.documents.map(|inner| with_hook(hook, inner) as _);
    decorated.objects = stores.objects.map(|inner| with_hook(hook, inner) as _);
    decorated.commits = stores.commits.map(|inner| with_hook(hook, inner) as _);
    decorated.mailbox = stores.mailbox.map(|inner| with_hook(hook, inner) as _);
    decorated.live = stores.live.map(|inner| with_hook(hook, inner) as _);
    decorated.wake_ups = stores.wake_ups.map(|inner| with_hook(hook, inner) as _);
    decorated.records = stores.records.map(|inner| with_hook(hook, inner) as _);
    decorated
}

fn with_hook<H: Hook, S: ?Sized>(hook: &H, inner: Arc<S>) -> Arc<Decorated<H, S>> {
    Arc::new(Decorated::new(hook.clone(), inner))
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<H: Hook> CommitCoordinator for Decorated<H, dyn CommitCoordinator> {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        self.hook.check(Request::Commit(&commit))?;
        let method = Method { contract: "commits", name: "commit" };
        self.hook.around(method, commit, |commit| self.inner.commit(commit)).await
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        with_hook(&self.hook, self.inner.threads())
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        with_hook(&self.hook, self.inner.pending())
    }

    fn events(&self) -> Arc<dyn EventStore> {
        with_hook(&self.hook, self.inner.events())
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        with_hook(&self.hook, self.inner.outbox())
    }

    fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        self.inner.documents().map(|inner| with_hook(&self.hook, inner) as _)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl<H: Hook> RecordPort for Decorated<H, dyn RecordPort> {
    fn holds(&self, list: RecordList) -> bool {
        self.inner.holds(list)
    }

    async fn hold_writes(&self) -> Result<WriteHold> {
        let method = Method { contract: "records", name: "hold_writes" };
        self.hook.around(method, (), |()| self.inner.hold_writes()).await
    }

    async fn dump_records(&self, query: &RecordQuery) -> Result<Vec<StoredRecord>> {
        let method = Method { contract: "records", name: "dump_records" };
        self.hook.around(method, query, |query| self.inner.dump_records(query)).await
    }

    async fn restore_records(&self, records: Vec<StoredRecord>) -> Result<()> {
        let method = Method { contract: "records", name: "restore_records" };
        self.hook.around(method, records, |records| self.inner.restore_records(records)).await
    }
}

forward! {
    ThreadReader of dyn ThreadRunStore, "threads" {
        load_thread(id: &ThreadId) -> Option<Thread>;
        list_threads(query: ThreadQuery) -> Page<Thread>;
        count_threads(filter: &ThreadFilter) -> u64;
        validate_parent(thread: &ThreadId, parent: &ThreadId) -> ();
    }
    ThreadAdmin of dyn ThreadRunStore, "threads" {
        create_thread(thread: NewThread) -> Thread, checks Request::NewThread(&thread);
        update_thread(id: &ThreadId, patch: ThreadPatch, expect: Expect) -> Thread, checks Request::ThreadPatch(&patch);
        delete_thread(id: &ThreadId, request: DeleteRequest) -> Deletion;
        prune_threads(request: PruneRequest) -> Pruned;
        purge_deleted(progress: &dyn Progress) -> u64;
        reset_fence(id: &ThreadId) -> ();
    }
    LogReader of dyn ThreadRunStore, "threads" {
        load_entry(thread: &ThreadId, entry: &EntryId) -> Option<Arc<Entry>>;
        list_entries(thread: &ThreadId, query: EntryQuery) -> Page<Arc<Entry>>;
        list_leaves(thread: &ThreadId, page: PageRequest) -> Page<Leaf>;
        list_branch_points(thread: &ThreadId, page: PageRequest) -> Page<BranchPoint>;
        list_snapshots(thread: &ThreadId, page: PageRequest) -> Page<Snapshot>;
        load_context(thread: &ThreadId, request: ContextRequest) -> ThreadContext;
    }
    RunReader of dyn ThreadRunStore, "threads" {
        load_run(id: &RunId) -> Option<Run>;
        list_runs(query: RunQuery) -> Page<Run>;
        count_runs(filter: &RunFilter) -> u64;
    }
    PendingStore of dyn PendingStore, "pending" {
        append_pending(request: AppendPending) -> AppendedInputs, checks Request::Inputs(&request);
        load_queue(thread: &ThreadId) -> PendingQueue;
        update_pending(request: PendingUpdate) -> PendingInput, checks Request::InputUpdate(&request);
        retract_pending(thread: &ThreadId, id: &EntryId) -> PendingInput;
        reorder_pending(request: Reorder) -> u64;
        list_threads_with_pending(page: PageRequest) -> Page<ThreadId>;
    }
    EventWriter of dyn EventStore, "events" {
        append_events(request: AppendEvents) -> AppendedEvents, checks Request::Events(&request);
    }
    EventReader of dyn EventStore, "events" {
        load_event(id: &EventId) -> Option<Event>;
        list_events(query: EventQuery) -> Page<Event>;
        count_events(scope: &Scope, filter: &EventFilter) -> u64;
        load_scope(scope: &Scope) -> ScopeInfo;
    }
    EventSubscriber of dyn EventStore, "events" {
        subscribe(request: Subscribe) -> Subscription;
    }
    EventRetention of dyn EventStore, "events" {
        trim_events(request: TrimRequest) -> Trimmed;
        redact_events(requests: Vec<RedactEvent>) -> u64;
    }
    OutboxStore of dyn OutboxStore, "outbox" {
        claim_outbox(request: ClaimOutbox) -> ClaimedOutbox;
        extend_outbox(request: ExtendOutbox) -> Timestamp;
        settle_outbox(requests: Vec<SettleOutbox>) -> Vec<Result<OutboxStatus>>;
        load_outbox(id: &OutboxId) -> Option<OutboxRow>;
        list_outbox(query: OutboxQuery) -> Page<OutboxRow>;
        count_outbox(filter: &OutboxFilter) -> OutboxCounts;
        requeue_outbox(request: RequeueOutbox) -> Vec<Requeued>;
        purge_outbox(request: PurgeOutbox) -> u64;
    }
    DocumentStore of dyn DocumentStore, "documents" {
        load_documents(documents: &[DocumentRef]) -> Vec<Option<Document>>;
        list_documents(query: DocumentQuery) -> Page<Document>;
        write_documents(request: WriteDocuments) -> WrittenDocuments, checks Request::Documents(&request);
    }
    ObjectStore of dyn ObjectStore, "objects" {
        begin_upload() -> Box<dyn ObjectUpload>, checks Request::Upload, then upload;
        open_object(key: &ObjectKey, part: Range<u64>) -> Option<ByteStream>;
        delete_objects(keys: &[ObjectKey]) -> ();
        list_objects(page: PageRequest) -> Page<StoredObject>;
        discard_uploads(begun_before: Timestamp) -> u64;
    }
    MailboxProducer of dyn MailboxStore, "mailbox" {
        enqueue(dispatches: Vec<NewDispatch>) -> Vec<Result<Enqueued>>, checks Request::Dispatches(&dispatches);
        cancel(id: &DispatchId) -> Dispatch;
        interrupt(request: Interrupt) -> Interrupted;
    }
    MailboxConsumer of dyn MailboxStore, "mailbox" {
        claim(request: ClaimRequest) -> Claims;
        extend(claim: &ClaimRef, by: Duration) -> DispatchClaim;
        start(claim: &ClaimRef, instance: InstanceId) -> DispatchClaim;
        settle(settlements: Vec<(ClaimRef, Settlement)>) -> Vec<Result<Settled>>;
    }
    MailboxReader of dyn MailboxStore, "mailbox" {
        load_dispatch(id: &DispatchId) -> Option<Dispatch>;
        list_dispatches(query: DispatchQuery) -> Page<Dispatch>;
        count_dispatches(thread: Option<&ThreadId>) -> DispatchCounts;
        list_ready_threads(page: PageRequest) -> Page<ReadyThread>;
        load_epoch(thread: &ThreadId) -> u64;
    }
    MailboxMaintenance of dyn MailboxStore, "mailbox" {
        reclaim(limit: u32) -> Reclaimed;
        purge(request: Purge) -> Purged;
        requeue(request: Requeue) -> Vec<(DispatchId, Result<Dispatch>)>;
    }
    LiveChannel of dyn LiveChannel, "live" {
        open_live(target: LiveTarget) -> LiveReceiver;
        deliver(request: DeliverLive) -> LiveDelivery;
    }
    WakeUps of dyn WakeUps, "wake_ups" {
        wait(timeout: Duration) -> WaitResult;
    }
}
