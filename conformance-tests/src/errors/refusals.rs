//! Calls that are refused. Each contract has one call for each reason for a refusal.

use std::time::Duration;

use store_core::{
    AppendEvents, AppendPending, ChildStrategy, ClaimNumber, ClaimOutbox, ClaimRef, ClaimRequest, ClaimToken, Commit,
    CommitCoordinator, ContextRequest, Cursor, Decision, DecisionAction, DeleteRequest, Direction, DispatchOrder,
    DispatchQuery, Enqueued, EntryQuery, Error, EventQuery, Expect, ExtendOutbox, Fence, InputRef, Json, Label,
    Message, NewDispatch, NewEntry, NewEvent, NewInput, NewOutboxRow, NewThread, OutboxQuery, OutboxSettlement,
    PageRequest, PendingUpdate, PruneRequest, Purge, PurgeOutbox, Reorder, Requeue, RequeueOutbox, Result, Role,
    RunChange, RunOutcome, RunStatus, Scope, SettleOutbox, Settlement, StateChange, StateOp, Subscribe,
    SubscriptionStart, TenantStores, ThreadFields, ThreadId, ThreadPatch, ThreadQuery, ThreadRunStore, Timestamp,
    TrimBefore, TrimRequest, Version,
};

use super::document_refusals;
use crate::{
    case::Contract,
    check::Failure,
    given::{commit_with_message, id, keyed_commit_with_message, message_entry},
};

/// The name of a call, and the error that it ended with.
pub(crate) type RefusedCall = (&'static str, Error);

/// A secret that is part of the content of requests. No error may show it.
pub(crate) const SECRET: &str = "canary-secret-42";

/// Prepares the records that the calls are about, then makes every call that must be refused. None of these calls
/// changes anything.
pub(crate) async fn create_records_and_make_refused_calls(
    contract: Contract,
    stores: &TenantStores,
) -> std::result::Result<Vec<RefusedCall>, Failure> {
    create_sample_records(stores).await?;
    make_refused_calls(contract, stores).await
}

/// Creates the records that the refused calls are about, for each contract that the store has. The threads are
/// `parent`, its child `child`, the deleted thread `gone`, and `t`, which has a log. The runs are `done` and `running`.
/// The inputs are `i`, which is pending, and `consumed`, which a commit consumed. There are also an outbox row and the
/// dispatches `queued` and `cancelled`.
pub(crate) async fn create_sample_records(stores: &TenantStores) -> std::result::Result<(), Failure> {
    if let (Some(threads), Some(commits)) = (&stores.threads, &stores.commits) {
        create_sample_threads(&**threads, &**commits).await?;
        if stores.outbox.is_some() {
            let row = NewOutboxRow::new(id("lane"), id("target"), Json::of(SECRET)?).with_dedupe_key(id("taken"));
            let _receipt = commits.commit(Commit::new(id("t")).with_outbox([row])).await?;
        }
    }
    if let Some(mailbox) = &stores.mailbox {
        let new_dispatch = |name: &str| NewDispatch::new(id("t"), id("r")).with_id(id(name)).with_payload(Json::null());
        let queued_dispatch = new_dispatch("queued").with_dedupe_key(id("dedupe")).with_payload(Json::of(SECRET)?);
        for answer in mailbox.enqueue(vec![queued_dispatch, new_dispatch("cancelled")]).await? {
            answer?;
        }
        mailbox.cancel(&id("cancelled")).await?;
    }
    Ok(())
}

async fn create_sample_threads(
    threads: &dyn ThreadRunStore,
    commits: &dyn CommitCoordinator,
) -> std::result::Result<(), Failure> {
    threads.create_thread(NewThread::new(id("parent"))).await?;
    threads.create_thread(NewThread::new(id("child")).with_fields(fields_with_parent("parent"))).await?;
    threads.create_thread(NewThread::new(id("gone"))).await?;
    threads.delete_thread(&id("gone"), DeleteRequest::default()).await?;
    let running_run = RunChange::new(id("running"), RunStatus::Running).with_agent(id("agent"));
    let done_run = RunChange::new(id("done"), RunStatus::done(RunOutcome::NaturalEnd)).with_agent(id("agent"));
    for commit in [
        keyed_commit_with_message(&id("t"), "key", SECRET).with_run(running_run),
        Commit::new(id("t")).with_run(done_run),
        Commit::new(id("t")).entry(message_entry("x").with_id(id("e"))).with_key(id("key-2")),
        Commit::new(id("t")).with_state(StateChange::new().set("text", Json::of(SECRET)?)).fenced(fence_of_claim(9)),
    ] {
        let _receipt = commits.commit(commit).await?;
    }
    let inputs = AppendPending::new(id("t"), [input_with_id("i"), input_with_id("consumed")]);
    commits.pending().append_pending(inputs).await?;
    let _receipt = commits.commit(commit_consuming("taken", "consumed", 1)).await?;
    Ok(())
}

fn input_with_id(name: &str) -> NewInput {
    NewInput::message(Message::user(SECRET)).with_id(id(name))
}

fn commit_consuming(key: &str, name: &str, revision: u64) -> Commit {
    Commit::new(id("t")).with_key(id(key)).consuming([InputRef::new(id(name), revision)])
}

fn fields_with_parent(parent: &str) -> ThreadFields {
    let mut fields = ThreadFields::default();
    fields.parent_thread_id = Some(id(parent));
    fields
}

fn fence_of_claim(counter: u64) -> Fence {
    Fence::new(id("dispatch"), ClaimToken::new(SECRET), 1, ClaimNumber { incarnation: 0, counter })
}

/// Makes every call of a contract that must be refused, after [`create_sample_records`] created the records.
pub(crate) async fn make_refused_calls(
    contract: Contract,
    stores: &TenantStores,
) -> std::result::Result<Vec<RefusedCall>, Failure> {
    let results = match contract {
        Contract::ThreadRunStore => refused_thread_calls(stores).await,
        Contract::CommitCoordinator => refused_commit_calls(stores).await,
        Contract::PendingStore => refused_pending_calls(stores).await,
        Contract::EventStore => refused_event_calls(stores).await,
        Contract::MailboxStore | Contract::LiveChannel => refused_mailbox_calls(stores).await,
        Contract::OutboxStore => refused_outbox_calls(stores).await,
        Contract::DocumentStore | Contract::ObjectStore => document_refusals::refused_document_calls(stores).await,
    };
    results
        .into_iter()
        .map(|(call, result)| match result {
            Ok(()) => Err(Failure::new(format!("`{call}` was not refused"))),
            Err(error) => Ok((call, error)),
        })
        .collect()
}

async fn refused_thread_calls(stores: &TenantStores) -> Vec<(&'static str, Result<()>)> {
    let Some(threads) = &stores.threads else { return Vec::new() };
    let mut future_thread = NewThread::new(id("new"));
    future_thread.at = Some(Timestamp::MAX);
    let mut thread_with_long_title = NewThread::new(id("new"));
    thread_with_long_title.fields.title = Some(SECRET.repeat(100));
    let title_patch = || ThreadPatch::default().with_title(SECRET);
    let stale_guard = Expect::Version(Version::new(77, 1, 0));
    let delete = |children, expect| DeleteRequest { children, expect };
    let reject = delete(ChildStrategy::Reject, Expect::Any);
    let forged_cursor = PageRequest::first(2).after(Cursor::from_text("forged"));
    let patch_that_makes_a_cycle = ThreadPatch::default().with_parent(Some(id("child")));
    let prune = PruneRequest { idle: Duration::ZERO, limit: 0, dry_run: false };
    let thread: ThreadId = id("t");
    vec![
        ("create: taken", threads.create_thread(NewThread::new(thread.clone())).await.map(drop)),
        (
            "create: parent",
            threads.create_thread(NewThread::new(id("new")).with_fields(fields_with_parent("no"))).await.map(drop),
        ),
        ("create: time", threads.create_thread(future_thread).await.map(drop)),
        ("create: title", threads.create_thread(thread_with_long_title).await.map(drop)),
        ("update: unknown", threads.update_thread(&id("unknown"), title_patch(), Expect::Any).await.map(drop)),
        ("update: stale", threads.update_thread(&thread, title_patch(), stale_guard).await.map(drop)),
        ("update: cycle", threads.update_thread(&id("parent"), patch_that_makes_a_cycle, Expect::Any).await.map(drop)),
        ("delete: unknown", threads.delete_thread(&id("unknown"), DeleteRequest::default()).await.map(drop)),
        ("delete: children", threads.delete_thread(&id("parent"), reject).await.map(drop)),
        ("delete: stale", threads.delete_thread(&thread, delete(ChildStrategy::Detach, stale_guard)).await.map(drop)),
        ("prune: limit", threads.prune_threads(prune).await.map(drop)),
        ("validate_parent", threads.validate_parent(&id("parent"), &id("child")).await),
        ("list: cursor", threads.list_threads(ThreadQuery::default().with_page(forged_cursor.clone())).await.map(drop)),
        (
            "list: limit",
            threads.list_entries(&thread, EntryQuery::all().with_page(PageRequest::first(0))).await.map(drop),
        ),
        ("entries: cursor", threads.list_entries(&thread, EntryQuery::all().with_page(forged_cursor)).await.map(drop)),
        ("context: thread", threads.load_context(&id("unknown"), ContextRequest::head()).await.map(drop)),
        ("context: entry", threads.load_context(&thread, ContextRequest::at(id("unknown"))).await.map(drop)),
    ]
}

async fn refused_commit_calls(stores: &TenantStores) -> Vec<(&'static str, Result<()>)> {
    let Some(commits) = &stores.commits else { return Vec::new() };
    let mut results = Vec::new();
    for (call, commit) in refused_commits() {
        results.push((call, commits.commit(commit).await.map(drop)));
    }
    results
}

async fn refused_pending_calls(stores: &TenantStores) -> Vec<(&'static str, Result<()>)> {
    let (Some(pending), Some(commits)) = (&stores.pending, &stores.commits) else { return Vec::new() };
    let thread: ThreadId = id("t");
    let append = |inputs: Vec<NewInput>| pending.append_pending(AppendPending::new(id("t"), inputs));
    let update = |name: &str| PendingUpdate::new(id("t"), id(name)).with_message(Message::user("other"));
    let consume = |name: &str, revision| commits.commit(commit_consuming("k", name, revision));
    let decision = Decision::new(id("running"), SECRET, DecisionAction::Resume);
    let tool_message = NewInput::message(Message::new(Role::Tool, vec![]));
    let forged_cursor = PageRequest::first(2).after(Cursor::from_text("forged"));
    vec![
        ("append: nothing", append(vec![]).await.map(drop)),
        ("append: message", append(vec![tool_message]).await.map(drop)),
        ("append: pending", append(vec![NewInput::message(Message::user("other")).with_id(id("i"))]).await.map(drop)),
        ("append: consumed", append(vec![input_with_id("consumed")]).await.map(drop)),
        (
            "append: deleted",
            pending.append_pending(AppendPending::new(id("gone"), [input_with_id("x")])).await.map(drop),
        ),
        ("append: decision", append(vec![NewInput::decision(decision)]).await.map(drop)),
        ("update: unknown", pending.update_pending(update("unknown")).await.map(drop)),
        ("update: consumed", pending.update_pending(update("consumed")).await.map(drop)),
        ("update: stale", pending.update_pending(update("i").expecting(77)).await.map(drop)),
        ("retract: unknown", pending.retract_pending(&thread, &id("unknown")).await.map(drop)),
        ("retract: consumed", pending.retract_pending(&thread, &id("consumed")).await.map(drop)),
        ("reorder: stale", pending.reorder_pending(Reorder::new(thread.clone(), 77, vec![])).await.map(drop)),
        ("reorder: missing", pending.reorder_pending(Reorder::new(thread.clone(), 2, vec![])).await.map(drop)),
        ("reorder: unknown", pending.reorder_pending(Reorder::new(id("no"), 0, vec![])).await.map(drop)),
        ("consume: unknown", consume("unknown", 1).await.map(drop)),
        ("consume: consumed", consume("consumed", 1).await.map(drop)),
        ("consume: stale", consume("i", 77).await.map(drop)),
        (
            "entry: pending id",
            commits
                .commit(keyed_commit_with_message(&thread, "k", "x").entry(message_entry("x").with_id(id("i"))))
                .await
                .map(drop),
        ),
        ("list: cursor", pending.list_threads_with_pending(forged_cursor).await.map(drop)),
        ("list: limit", pending.list_threads_with_pending(PageRequest::first(0)).await.map(drop)),
    ]
}

async fn refused_event_calls(stores: &TenantStores) -> Vec<(&'static str, Result<()>)> {
    let (Some(events), Some(commits)) = (&stores.events, &stores.commits) else { return Vec::new() };
    let scope = || Scope::Thread(id("t"));
    let new_event = || NewEvent::new(id("kind"), [scope()]);
    let with_secret = |draft: NewEvent| Json::of(SECRET).map(|payload| draft.with_payload(payload));
    let (Ok(event_with_secret), Ok(event_without_scope)) =
        (with_secret(new_event()), with_secret(NewEvent::new(id("kind"), [])))
    else {
        return Vec::new();
    };
    let append_request = |drafts: Vec<NewEvent>| AppendEvents::new(drafts);
    let mut fenced_append = append_request(vec![event_with_secret.clone()]);
    fenced_append.fence = Some(fence_of_claim(3));
    let mut append_without_writer = append_request(vec![event_with_secret.clone()]).with_key(id("w"), id("k"));
    append_without_writer.writer = None;
    let forged_cursor = Cursor::from_text("forged");
    let list_query = |page| EventQuery::new(scope()).with_page(page);
    let trim = TrimRequest::new(scope(), TrimBefore::Cursor(forged_cursor.clone()));
    let subscribe = Subscribe::new(scope(), SubscriptionStart::After(forged_cursor.clone()));
    let event_of_another_thread = NewEvent::new(id("kind"), [Scope::Thread(id("child"))]);
    let commit = keyed_commit_with_message(&id("t"), "new-key", SECRET)
        .with_events(append_request(vec![event_of_another_thread]));
    vec![
        ("append: nothing", events.append_events(append_request(vec![])).await.map(drop)),
        ("append: scope", events.append_events(append_request(vec![event_without_scope])).await.map(drop)),
        ("append: writer", events.append_events(append_without_writer).await.map(drop)),
        (
            "append: counter",
            events.append_events(append_request(vec![event_with_secret]).expecting(scope(), 77)).await.map(drop),
        ),
        ("append: fence", events.append_events(fenced_append).await.map(drop)),
        ("list: limit", events.list_events(list_query(PageRequest::first(0))).await.map(drop)),
        ("list: cursor", events.list_events(list_query(PageRequest::first(2).after(forged_cursor))).await.map(drop)),
        ("trim: cursor", events.trim_events(trim).await.map(drop)),
        ("subscribe: cursor", events.subscribe(subscribe).await.map(drop)),
        ("commit: scope", commits.commit(commit).await.map(drop)),
    ]
}

async fn refused_outbox_calls(stores: &TenantStores) -> Vec<(&'static str, Result<()>)> {
    let (Some(outbox), Some(commits)) = (&stores.outbox, &stores.commits) else { return Vec::new() };
    let row = |text: &str| Json::of(&text).map(|payload| NewOutboxRow::new(id("lane"), id("target"), payload));
    let (Ok(row_with_secret), Ok(other_row)) = (row(SECRET), row("other")) else { return Vec::new() };
    let commit_with_row = |row: NewOutboxRow| keyed_commit_with_message(&id("t"), "new-key", SECRET).with_outbox([row]);
    let claim = |limit| ClaimOutbox::new(id("lane"), id("worker"), limit);
    let token = || ClaimToken::new(SECRET);
    let list_query = |page| OutboxQuery::default().with_page(page);
    let forged_cursor = PageRequest::first(2).after(Cursor::from_text("forged"));
    let settle = SettleOutbox::new(id("unknown"), token(), OutboxSettlement::Delivered);
    let settle_answers = outbox.settle_outbox(vec![settle]).await.and_then(|answers| answers.into_iter().collect());
    let extend = |lease| outbox.extend_outbox(ExtendOutbox::new(id("unknown"), token(), lease));
    let requeue_answers = outbox.requeue_outbox(RequeueOutbox::ids([id("unknown")])).await;
    let requeue_answers = requeue_answers.and_then(|answers| answers.into_iter().try_for_each(|answer| answer.outcome));
    let purge = PurgeOutbox::new(Timestamp::MIN).with_limit(0);
    vec![
        ("commit: row", commits.commit(commit_with_row(row_with_secret.with_max_attempts(0))).await.map(drop)),
        (
            "commit: key of a row",
            commits.commit(commit_with_row(other_row.with_dedupe_key(id("taken")))).await.map(drop),
        ),
        ("claim: limit", outbox.claim_outbox(claim(0)).await.map(drop)),
        ("claim: lease", outbox.claim_outbox(claim(1).with_lease(Duration::MAX)).await.map(drop)),
        ("settle: token", settle_answers.map(|_: Vec<_>| ())),
        ("extend: token", extend(Duration::from_secs(1)).await.map(drop)),
        ("extend: lease", extend(Duration::ZERO).await.map(drop)),
        ("requeue: unknown", requeue_answers),
        ("purge: limit", outbox.purge_outbox(purge).await.map(drop)),
        ("list: limit", outbox.list_outbox(list_query(PageRequest::first(0))).await.map(drop)),
        ("list: cursor", outbox.list_outbox(list_query(forged_cursor)).await.map(drop)),
    ]
}

/// One commit for each reason for a refusal.
fn refused_commits() -> Vec<(&'static str, Commit)> {
    let thread: ThreadId = id("t");
    let commit_with_entry =
        |entry: NewEntry| Commit::new(id("t")).with_key(id("new-key")).entry(message_entry(SECRET)).entry(entry);
    let commit_with_state_op =
        |op| Commit::new(id("t")).with_state(StateChange::new().set("other", Json::null()).with("text", op));
    let run = |name: &str| RunChange::new(id(name), RunStatus::Running);
    let wrong_version = Expect::Version(Version::new(77, 1, 0));
    let change_with_repeated_key = StateChange::new().set(SECRET.repeat(20), Json::null()).remove(SECRET.repeat(20));
    let mut run_with_wrong_range = run("running");
    run_with_wrong_range.input = vec![store_core::EntryRange { from: 1, to: 99 }];
    vec![
        ("nothing", Commit::new(thread.clone())),
        ("no guard", commit_with_message(&thread, Expect::Any, SECRET)),
        ("message", commit_with_entry(NewEntry::new(Message::new(Role::Tool, vec![])))),
        ("state twice", Commit::new(thread.clone()).with_state(change_with_repeated_key)),
        ("deleted", keyed_commit_with_message(&id("gone"), "k", SECRET)),
        ("key", keyed_commit_with_message(&thread, "key", "other content")),
        ("fence", commit_with_entry(message_entry("x")).fenced(fence_of_claim(3))),
        ("version", commit_with_message(&thread, wrong_version, SECRET)),
        ("absent", commit_with_message(&thread, Expect::Absent, SECRET)),
        (
            "state revision",
            Commit::new(thread.clone()).with_state(StateChange::new().set("k", Json::null()).expecting(99)),
        ),
        ("run transition", commit_with_entry(message_entry("x")).with_run(run("done"))),
        ("run agent", commit_with_entry(message_entry("x")).with_run(run("running").with_agent(id("another")))),
        ("run range", commit_with_entry(message_entry("x")).with_run(run_with_wrong_range)),
        ("new run without agent", commit_with_entry(message_entry("x")).with_run(run("new"))),
        ("run elsewhere", Commit::new(id("child")).with_run(run("running"))),
        ("entry taken", commit_with_entry(message_entry("x").with_id(id("e")))),
        ("entry parent", commit_with_entry(message_entry("x").below(id("unknown")))),
        ("label target", commit_with_entry(NewEntry::new(Label::new(id("unknown"), Some(SECRET.to_owned()))))),
        ("time", commit_with_entry(message_entry("x")).at(Timestamp::MAX)),
        ("state type", commit_with_state_op(StateOp::Add(1))),
        (
            "parent",
            Commit::new(id("new"))
                .expecting(Expect::Absent)
                .entry(message_entry("x"))
                .creating(fields_with_parent("unknown")),
        ),
        ("unknown", commit_with_message(&id("new"), wrong_version, SECRET)),
    ]
}

async fn refused_mailbox_calls(stores: &TenantStores) -> Vec<(&'static str, Result<()>)> {
    let Some(mailbox) = &stores.mailbox else { return Vec::new() };
    let new_dispatch = |name: &str| NewDispatch::new(id("t"), id("r")).with_id(id(name)).with_payload(Json::null());
    let first_answer =
        |answers: Result<Vec<Result<Enqueued>>>| answers.and_then(|mut answers| answers.remove(0)).map(drop);
    let forged_cursor = PageRequest::first(2).after(Cursor::from_text("forged"));
    let claim = ClaimRef::new(id("queued"), ClaimToken::new(SECRET));
    let lease = Duration::from_secs(1);
    let claim_without_lease = ClaimRequest::new(id("w"), Duration::ZERO);
    let query_in_claim_order = DispatchQuery::default().ordered(DispatchOrder::Claim, Direction::Forward);
    let dead_letter = Settlement::DeadLetter { error: SECRET.to_owned() };
    let settle_answers = mailbox.settle(vec![(claim.clone(), dead_letter)]).await;
    let requeue_answers = mailbox.requeue(Requeue::ids([id("queued")])).await;
    let mut purge_of_nothing = Purge::new(Timestamp::MAX);
    purge_of_nothing.limit = 0;
    vec![
        ("enqueue: taken", first_answer(mailbox.enqueue(vec![new_dispatch("queued")]).await)),
        (
            "enqueue: key",
            first_answer(mailbox.enqueue(vec![new_dispatch("other").with_dedupe_key(id("dedupe"))]).await),
        ),
        ("enqueue: attempts", first_answer(mailbox.enqueue(vec![new_dispatch("other").with_max_attempts(0)]).await)),
        ("enqueue: many", mailbox.enqueue(vec![new_dispatch("other"); 1_001]).await.map(drop)),
        ("cancel: unknown", mailbox.cancel(&id("unknown")).await.map(drop)),
        ("cancel: finished", mailbox.cancel(&id("cancelled")).await.map(drop)),
        ("claim: lease", mailbox.claim(claim_without_lease).await.map(drop)),
        ("claim: limit", mailbox.claim(ClaimRequest::new(id("w"), lease).up_to(0)).await.map(drop)),
        ("extend: lost", mailbox.extend(&claim, lease).await.map(drop)),
        ("extend: lease", mailbox.extend(&claim, Duration::ZERO).await.map(drop)),
        ("start: lost", mailbox.start(&claim, id("i")).await.map(drop)),
        ("settle: lost", settle_answers.and_then(|mut answers| answers.remove(0)).map(drop)),
        (
            "list: cursor",
            mailbox.list_dispatches(DispatchQuery::default().with_page(forged_cursor.clone())).await.map(drop),
        ),
        ("list: order", mailbox.list_dispatches(query_in_claim_order).await.map(drop)),
        ("ready: cursor", mailbox.list_ready_threads(forged_cursor).await.map(drop)),
        ("ready: limit", mailbox.list_ready_threads(PageRequest::first(0)).await.map(drop)),
        ("reclaim: limit", mailbox.reclaim(0).await.map(drop)),
        ("purge: limit", mailbox.purge(purge_of_nothing).await.map(drop)),
        ("requeue: queued", requeue_answers.and_then(|mut answers| answers.remove(0).1).map(drop)),
    ]
}
