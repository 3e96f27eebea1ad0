//! Every call of the contracts, as a future that has not been polled yet. Some cases check that a closed store refuses
//! each of these calls. Other cases drop each call after a number of polls.

use std::{future::Future, pin::Pin, time::Duration};

use store_core::{
    AppendEvents, AppendPending, ClaimNumber, ClaimOutbox, ClaimRef, ClaimRequest, ClaimToken, Commit,
    CommitCoordinator, ContextRequest, DeleteRequest, DeliverLive, DispatchQuery, EntryId, EntryQuery, EventFilter,
    EventQuery, EventStore, Expect, ExtendOutbox, IgnoreProgress, Interrupt, LiveChannel, LiveCommand, LiveTarget,
    MailboxStore, Message, NewDispatch, NewEvent, NewInput, NewThread, OutboxFilter, OutboxQuery, OutboxSettlement,
    OutboxStore, PageRequest, PendingStore, PendingUpdate, PruneRequest, Purge, PurgeOutbox, Reorder, Requeue,
    RequeueOutbox, Result, RunChange, RunFilter, RunQuery, RunStatus, Scope, SettleOutbox, Settlement, StateChange,
    StateOp, Subscribe, SubscriptionStart, ThreadFilter, ThreadId, ThreadPatch, ThreadQuery, ThreadRunStore, Timestamp,
    TrimBefore, TrimRequest,
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
pub(crate) fn read_calls<'a>(threads: &'a dyn ThreadRunStore, t: &'a ThreadId) -> Calls<'a> {
    let page = PageRequest::default;
    vec![
        ("load_thread", call(threads.load_thread(t))),
        ("list_threads", call(threads.list_threads(ThreadQuery::default()))),
        ("count_threads", call(async { threads.count_threads(&ThreadFilter::default()).await })),
        ("validate_parent", call(async { threads.validate_parent(t, &id("u")).await })),
        ("load_entry", call(async { threads.load_entry(t, &id("e")).await })),
        ("list_entries", call(threads.list_entries(t, EntryQuery::all()))),
        ("list_leaves", call(threads.list_leaves(t, page()))),
        ("list_branch_points", call(threads.list_branch_points(t, page()))),
        ("list_snapshots", call(threads.list_snapshots(t, page()))),
        ("load_context", call(threads.load_context(t, ContextRequest::head()))),
        ("load_run", call(async { threads.load_run(&id("r")).await })),
        ("list_runs", call(threads.list_runs(RunQuery::default()))),
        ("count_runs", call(async { threads.count_runs(&RunFilter::default()).await })),
    ]
}

/// Calls that write threads, purge deleted threads, and commit.
pub(crate) fn write_calls<'a>(
    threads: &'a dyn ThreadRunStore,
    commits: &'a dyn CommitCoordinator,
    t: &'a ThreadId,
) -> Calls<'a> {
    let new_id = id(&format!("{t} new"));
    let prune = PruneRequest { idle: Duration::ZERO, limit: 1, dry_run: true };
    let title = ThreadPatch::default().with_title("dropped");
    vec![
        ("create_thread", call(threads.create_thread(NewThread::new(new_id)))),
        ("update_thread", call(threads.update_thread(t, title, Expect::Any))),
        ("delete_thread", call(threads.delete_thread(t, DeleteRequest::default()))),
        ("prune_threads", call(threads.prune_threads(prune))),
        ("purge_deleted", call(threads.purge_deleted(&IgnoreProgress))),
        ("reset_fence", call(threads.reset_fence(t))),
        ("commit", call(commits.commit(keyed_commit(t)))),
        ("commit of nothing", call(commits.commit(Commit::new(t.clone())))),
    ]
}

/// A commit that has a key, two entries, a run, a change of the state and an event.
pub(crate) fn keyed_commit(t: &ThreadId) -> Commit {
    let (key, run) = (format!("{t} dropped"), RunChange::new(id(&format!("{t} r")), RunStatus::Running));
    let event = NewEvent::new(id("dropped"), [Scope::Thread(t.clone())]);
    keyed_commit_with_message(t, &key, "one")
        .entry(message_entry("two"))
        .with_run(run.with_agent(id("agent")))
        .with_state(StateChange::new().with("n", StateOp::Add(1)))
        .with_events(AppendEvents::new([event]))
}

/// A request to append the inputs `c` and `d`.
pub(crate) fn append_pending_request(t: &ThreadId) -> AppendPending {
    let input = |name: &str| NewInput::message(Message::user(name)).with_id(id(name));
    AppendPending::new(t.clone(), [input("c"), input("d")])
}

/// Calls on the pending input of a thread. Its queue is at `revision` and holds the inputs `a` and `b`.
pub(crate) fn pending_calls<'a>(pending: &'a dyn PendingStore, t: &'a ThreadId, revision: u64) -> Calls<'a> {
    let [a, b]: [EntryId; 2] = [id("a"), id("b")];
    let update = PendingUpdate::new(t.clone(), a.clone()).with_message(Message::user("dropped"));
    let page = PageRequest::default();
    vec![
        ("append_pending", call(pending.append_pending(append_pending_request(t)))),
        ("load_queue", call(pending.load_queue(t))),
        ("update_pending", call(pending.update_pending(update))),
        ("retract_pending", call(async { pending.retract_pending(t, &id("a")).await })),
        ("reorder_pending", call(pending.reorder_pending(Reorder::new(t.clone(), revision, vec![b, a])))),
        ("list_threads_with_pending", call(pending.list_threads_with_pending(page))),
    ]
}

/// A request to append two events, each in the scopes of the thread and of its run. The request has a key.
pub(crate) fn append_events_request(t: &ThreadId) -> AppendEvents {
    let (scope, run) = (Scope::Thread(t.clone()), Scope::Run(id(&format!("{t} r"))));
    let event = |kind: &str| NewEvent::new(id(kind), [scope.clone(), run.clone()]);
    AppendEvents::new([event("one"), event("two")]).with_key(id("w"), id(&format!("{t} dropped")))
}

/// A request to trim all events of a thread.
pub(crate) fn trim_request(t: &ThreadId) -> TrimRequest {
    TrimRequest::new(Scope::Thread(t.clone()), TrimBefore::Time(Timestamp::MAX))
}

/// Calls on the events of a thread and of its run.
pub(crate) fn event_calls<'a>(events: &'a dyn EventStore, t: &'a ThreadId) -> Calls<'a> {
    let scope = Scope::Thread(t.clone());
    let (counted, loaded) = (scope.clone(), scope.clone());
    vec![
        ("append_events", call(events.append_events(append_events_request(t)))),
        ("load_event", call(async { events.load_event(&id("e")).await })),
        ("list_events", call(events.list_events(EventQuery::new(scope.clone())))),
        ("count_events", call(async move { events.count_events(&counted, &EventFilter::default()).await })),
        ("load_scope", call(async move { events.load_scope(&loaded).await })),
        ("subscribe", call(events.subscribe(Subscribe::new(scope, SubscriptionStart::First)))),
        ("trim_events", call(events.trim_events(trim_request(t)))),
    ]
}

/// Calls on the outbox. None of them finds a row.
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

/// Calls on the live channel, for a target that no receiver has open.
pub(crate) fn live_calls(live: &dyn LiveChannel) -> Calls<'_> {
    let number = ClaimNumber { incarnation: 1, counter: 1 };
    let target = || LiveTarget::new(id("t"), id("r"), id("d"), number);
    vec![
        ("open_live", call(live.open_live(target()))),
        ("deliver", call(live.deliver(DeliverLive::new(target(), LiveCommand::Cancel)))),
    ]
}

/// Calls on the mailbox, about the thread `t`. None of them finds a dispatch.
pub(crate) fn mailbox_calls<'a>(mailbox: &'a dyn MailboxStore, t: &'a ThreadId) -> Calls<'a> {
    let claim = || ClaimRef::new(id("d"), ClaimToken::new("token"));
    let lease = Duration::from_secs(1);
    vec![
        ("enqueue", call(mailbox.enqueue(vec![NewDispatch::new(t.clone(), id("r"))]))),
        ("cancel", call(async move { mailbox.cancel(&id("d")).await })),
        ("interrupt", call(mailbox.interrupt(Interrupt::new(t.clone())))),
        ("claim", call(mailbox.claim(ClaimRequest::new(id("w"), lease)))),
        ("extend", call(async move { mailbox.extend(&claim(), lease).await })),
        ("start", call(async move { mailbox.start(&claim(), id("i")).await })),
        ("settle", call(mailbox.settle(vec![(claim(), Settlement::Release)]))),
        ("load_dispatch", call(async move { mailbox.load_dispatch(&id("d")).await })),
        ("list_dispatches", call(mailbox.list_dispatches(DispatchQuery::default()))),
        ("count_dispatches", call(mailbox.count_dispatches(None))),
        ("list_ready_threads", call(mailbox.list_ready_threads(PageRequest::default()))),
        ("load_epoch", call(mailbox.load_epoch(t))),
        ("reclaim", call(mailbox.reclaim(1))),
        ("purge", call(mailbox.purge(Purge::new(Timestamp::MAX)))),
        ("requeue", call(mailbox.requeue(Requeue::ids([id("d")])))),
    ]
}
