//! Every call of the contracts, as a future that has not been polled yet. Some cases check that a closed store refuses
//! each of these calls. Other cases drop each call after a number of polls.

use std::{future::Future, pin::Pin, time::Duration};

use store_core::{
    AppendEvents, AppendPending, ClaimNumber, ClaimOutbox, ClaimRef, ClaimRequest, ClaimToken, Commit,
    CommitCoordinator, ContextRequest, DeleteRequest, DeliverLive, DispatchQuery, DocumentChange, DocumentKey,
    DocumentQuery, DocumentStore, EntryId, EntryQuery, EventFilter, EventId, EventQuery, EventStore, Expect,
    ExtendOutbox, IgnoreProgress, Interrupt, Json, KeySegment, LiveChannel, LiveCommand, LiveTarget, MailboxStore,
    Message, NewDispatch, NewEvent, NewInput, NewThread, OutboxFilter, OutboxQuery, OutboxSettlement, OutboxStore,
    PageRequest, PendingStore, PendingUpdate, PruneRequest, Purge, PurgeOutbox, RedactEvent, Reorder, Requeue,
    RequeueOutbox, Result, RunChange, RunFilter, RunQuery, RunStatus, Scope, SettleOutbox, Settlement, StateChange,
    StateOp, Subscribe, SubscriptionStart, ThreadFilter, ThreadId, ThreadPatch, ThreadQuery, ThreadRunStore, Timestamp,
    TrimBefore, TrimRequest, WriteDocuments,
};

use crate::given::{id, keyed_commit_with_message, message_entry};

/// The future of a call, which has not been polled yet.
pub(crate) type Call<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// Calls, each with the name of its method.
pub(crate) type Calls<'a> = Vec<(&'static str, Call<'a>)>;

/// Boxes the future of a call. The boxed future drops the answer of the call, but returns its error.
pub(crate) fn call<'a, T: 'a>(call: impl Future<Output = Result<T>> + Send + 'a) -> Call<'a> {
    Box::pin(async move { call.await.map(drop) })
}

/// Calls that read threads, their logs and runs.
pub(crate) fn read_calls<'a>(threads: &'a dyn ThreadRunStore, thread: &'a ThreadId) -> Calls<'a> {
    let page = PageRequest::default;
    vec![
        ("load_thread", call(threads.load_thread(thread))),
        ("list_threads", call(threads.list_threads(ThreadQuery::default()))),
        ("count_threads", call(async { threads.count_threads(&ThreadFilter::default()).await })),
        ("validate_parent", call(async { threads.validate_parent(thread, &id("u")).await })),
        ("load_entry", call(async { threads.load_entry(thread, &id("e")).await })),
        ("list_entries", call(threads.list_entries(thread, EntryQuery::all()))),
        ("list_leaves", call(threads.list_leaves(thread, page()))),
        ("list_branch_points", call(threads.list_branch_points(thread, page()))),
        ("list_snapshots", call(threads.list_snapshots(thread, page()))),
        ("load_context", call(threads.load_context(thread, ContextRequest::head()))),
        ("load_run", call(async { threads.load_run(&id("r")).await })),
        ("list_runs", call(threads.list_runs(RunQuery::default()))),
        ("count_runs", call(async { threads.count_runs(&RunFilter::default()).await })),
    ]
}

/// Calls that write threads, purge deleted threads, and commit.
pub(crate) fn write_calls<'a>(
    threads: &'a dyn ThreadRunStore,
    commits: &'a dyn CommitCoordinator,
    thread: &'a ThreadId,
) -> Calls<'a> {
    let new_id = id(&format!("{thread} new"));
    let prune = PruneRequest { idle: Duration::ZERO, limit: 1, dry_run: true };
    let title = ThreadPatch::default().with_title("dropped");
    vec![
        ("create_thread", call(threads.create_thread(NewThread::new(new_id)))),
        ("update_thread", call(threads.update_thread(thread, title, Expect::Any))),
        ("delete_thread", call(threads.delete_thread(thread, DeleteRequest::default()))),
        ("prune_threads", call(threads.prune_threads(prune))),
        ("purge_deleted", call(threads.purge_deleted(&IgnoreProgress))),
        ("reset_fence", call(threads.reset_fence(thread))),
        ("commit", call(commits.commit(keyed_commit(thread)))),
        ("commit of nothing", call(commits.commit(Commit::new(thread.clone())))),
    ]
}

/// A commit that has a key, two entries, a run, a change of the state and an event.
pub(crate) fn keyed_commit(thread: &ThreadId) -> Commit {
    let (key, run) = (format!("{thread} dropped"), RunChange::new(id(&format!("{thread} r")), RunStatus::Running));
    let event = NewEvent::new(id("dropped"), [Scope::Thread(thread.clone())]);
    keyed_commit_with_message(thread, &key, "one")
        .entry(message_entry("two"))
        .with_run(run.with_agent(id("agent")))
        .with_state(StateChange::new().with("n", StateOp::Add(1)))
        .with_events(AppendEvents::new([event]))
}

/// A request to append the inputs `c` and `d`.
pub(crate) fn append_pending_request(thread: &ThreadId) -> AppendPending {
    let input = |name: &str| NewInput::message(Message::user(name)).with_id(id(name));
    AppendPending::new(thread.clone(), [input("c"), input("d")])
}

/// Calls on the pending input of a thread. They succeed if its queue is at `revision` and has the inputs `a` and `b`.
pub(crate) fn pending_calls<'a>(pending: &'a dyn PendingStore, thread: &'a ThreadId, revision: u64) -> Calls<'a> {
    let [a, b]: [EntryId; 2] = [id("a"), id("b")];
    let update = PendingUpdate::new(thread.clone(), a.clone()).with_message(Message::user("dropped"));
    let page = PageRequest::default();
    vec![
        ("append_pending", call(pending.append_pending(append_pending_request(thread)))),
        ("load_queue", call(pending.load_queue(thread))),
        ("update_pending", call(pending.update_pending(update))),
        ("retract_pending", call(async { pending.retract_pending(thread, &id("a")).await })),
        ("reorder_pending", call(pending.reorder_pending(Reorder::new(thread.clone(), revision, vec![b, a])))),
        ("list_threads_with_pending", call(pending.list_threads_with_pending(page))),
    ]
}

/// A request to append two events, each in the scopes of the thread and of its run. The request has a key.
pub(crate) fn append_events_request(thread: &ThreadId) -> AppendEvents {
    let (scope, run) = (Scope::Thread(thread.clone()), Scope::Run(id(&format!("{thread} r"))));
    let event = |kind: &str| NewEvent::new(id(kind), [scope.clone(), run.clone()]);
    AppendEvents::new([event("one"), event("two")]).with_key(id("w"), id(&format!("{thread} dropped")))
}

/// A request to trim all events of a thread.
pub(crate) fn trim_request(thread: &ThreadId) -> TrimRequest {
    TrimRequest::new(Scope::Thread(thread.clone()), TrimBefore::Time(Timestamp::MAX))
}

/// Calls on the events of a thread and of its run. `event` is the event whose content one of them removes.
pub(crate) fn event_calls<'a>(events: &'a dyn EventStore, thread: &'a ThreadId, event: &EventId) -> Calls<'a> {
    let scope = Scope::Thread(thread.clone());
    let (counted_scope, loaded_scope) = (scope.clone(), scope.clone());
    let redact = RedactEvent::new(event.clone());
    vec![
        ("append_events", call(events.append_events(append_events_request(thread)))),
        ("load_event", call(async { events.load_event(&id("e")).await })),
        ("list_events", call(events.list_events(EventQuery::new(scope.clone())))),
        ("count_events", call(async move { events.count_events(&counted_scope, &EventFilter::default()).await })),
        ("load_scope", call(async move { events.load_scope(&loaded_scope).await })),
        ("subscribe", call(events.subscribe(Subscribe::new(scope, SubscriptionStart::First)))),
        ("trim_events", call(events.trim_events(trim_request(thread)))),
        ("redact_events", call(events.redact_events(vec![redact]))),
    ]
}

/// Calls on the outbox. Those that name a row name one that does not exist.
pub(crate) fn outbox_calls<'a>(outbox: &'a dyn OutboxStore) -> Calls<'a> {
    let (row, token) = (|| id("row"), || ClaimToken::new("token"));
    let claim = ClaimOutbox::new(id("lane"), id("worker"), 1);
    let extend = ExtendOutbox::new(row(), token(), Duration::from_secs(1));
    let settle = SettleOutbox::new(row(), token(), OutboxSettlement::Delivered);
    vec![
        ("claim_outbox", call(outbox.claim_outbox(claim))),
        ("extend_outbox", call(outbox.extend_outbox(extend))),
        ("settle_outbox", call(outbox.settle_outbox(vec![settle]))),
        ("load_outbox", call(async move { outbox.load_outbox(&row()).await })),
        ("list_outbox", call(outbox.list_outbox(OutboxQuery::default()))),
        ("count_outbox", call(async { outbox.count_outbox(&OutboxFilter::default()).await })),
        ("requeue_outbox", call(outbox.requeue_outbox(RequeueOutbox::oldest(1)))),
        ("purge_outbox", call(outbox.purge_outbox(PurgeOutbox::new(Timestamp::MIN)))),
    ]
}

/// Calls on documents of the tenant.
pub(crate) fn document_calls(documents: &dyn DocumentStore) -> Calls<'_> {
    let key = || DocumentKey::new(id("collection"), [KeySegment::Number(1)]).expect("a valid key");
    let put = DocumentChange::put(key(), Json::null());
    vec![
        ("load_documents", call(async move { documents.load_documents(&[key().into()]).await })),
        ("list_documents", call(documents.list_documents(DocumentQuery::new(id("collection"))))),
        ("write_documents", call(documents.write_documents(WriteDocuments::new([put])))),
    ]
}

/// Calls on the live channel, for a target that no receiver has open.
pub(crate) fn live_calls(live: &dyn LiveChannel) -> Calls<'_> {
    let number = ClaimNumber { incarnation: 1, counter: 1 };
    let target = || LiveTarget::new(id("t"), id("r"), id("d"), number);
    vec![
        ("open_live", call(live.open_live(target()))),
        ("deliver", call(live.deliver(DeliverLive::new(target(), LiveCommand::Cancel)))),
    ]
}

/// Calls on the mailbox, about one thread. Those that name a dispatch name one that does not exist.
pub(crate) fn mailbox_calls<'a>(mailbox: &'a dyn MailboxStore, thread: &'a ThreadId) -> Calls<'a> {
    let claim = || ClaimRef::new(id("d"), ClaimToken::new("token"));
    let lease = Duration::from_secs(1);
    vec![
        ("enqueue", call(mailbox.enqueue(vec![NewDispatch::new(thread.clone(), id("r"))]))),
        ("cancel", call(async move { mailbox.cancel(&id("d")).await })),
        ("interrupt", call(mailbox.interrupt(Interrupt::new(thread.clone())))),
        ("claim", call(mailbox.claim(ClaimRequest::new(id("w"), lease)))),
        ("extend", call(async move { mailbox.extend(&claim(), lease).await })),
        ("start", call(async move { mailbox.start(&claim(), id("i")).await })),
        ("settle", call(mailbox.settle(vec![(claim(), Settlement::Release)]))),
        ("load_dispatch", call(async move { mailbox.load_dispatch(&id("d")).await })),
        ("list_dispatches", call(mailbox.list_dispatches(DispatchQuery::default()))),
        ("count_dispatches", call(mailbox.count_dispatches(None))),
        ("list_ready_threads", call(mailbox.list_ready_threads(PageRequest::default()))),
        ("load_epoch", call(mailbox.load_epoch(thread))),
        ("reclaim", call(mailbox.reclaim(1))),
        ("purge", call(mailbox.purge(Purge::new(Timestamp::MAX)))),
        ("requeue", call(mailbox.requeue(Requeue::ids([id("d")])))),
    ]
}
