//! Refusals of requests whose ids and names have the largest length that is allowed.

use store_core::{
    AppendEvents, AppendPending, ClaimRef, ClaimToken, Commit, DeleteRequest, Error, Expect, InputRef, Json, Message,
    NewDispatch, NewEvent, NewInput, NewOutboxRow, NewThread, OutboxSettlement, PendingUpdate, RequeueOutbox, Scope,
    SettleOutbox, Settlement, StateChange, StateOp, TenantStores, ThreadFields, ThreadPatch,
};

use crate::{
    case::Contract,
    check::Failure,
    given::{id, keyed_commit_with_message, message_entry},
};

/// Makes calls with `long` as an id or name, which are all refused, and returns their errors. Each error is about that
/// id or name.
pub(super) async fn refusals_with_long_ids(
    contract: Contract,
    stores: &TenantStores,
    long: &str,
) -> Result<Vec<(&'static str, Error)>, Failure> {
    let results = match contract {
        Contract::ThreadRunStore => refused_thread_calls(stores, long).await,
        Contract::CommitCoordinator => refused_commit_calls(stores, long).await,
        Contract::PendingStore => refused_pending_calls(stores, long).await,
        Contract::EventStore => refused_event_calls(stores, long).await,
        Contract::MailboxStore | Contract::LiveChannel => refused_mailbox_calls(stores, long).await,
        Contract::OutboxStore => refused_outbox_calls(stores, long).await,
    };
    let error_of = |(call, result): (&'static str, store_core::Result<()>)| match result {
        Ok(()) => Err(Failure::new(format!("{call}: the call is not refused"))),
        Err(error) => Ok((call, error)),
    };
    results.into_iter().map(error_of).collect()
}

async fn refused_thread_calls(stores: &TenantStores, long: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let Some(threads) = &stores.threads else { return Vec::new() };
    let mut fields_with_parent = ThreadFields::default();
    fields_with_parent.parent_thread_id = Some(id(long));
    vec![
        ("long id: delete", threads.delete_thread(&id(long), DeleteRequest::default()).await.map(drop)),
        ("long id: update", threads.update_thread(&id(long), ThreadPatch::default(), Expect::Any).await.map(drop)),
        (
            "long parent",
            threads.create_thread(NewThread::new(id("new")).with_fields(fields_with_parent)).await.map(drop),
        ),
    ]
}

async fn refused_commit_calls(stores: &TenantStores, long: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let Some(commits) = &stores.commits else { return Vec::new() };
    let long_key = long.repeat(100);
    let state = |change| Commit::new(id("long")).with_state(change);
    let _prepared = commits.commit(state(StateChange::new().set(&long_key, Json::null()))).await;
    let _prepared = commits.commit(keyed_commit_with_message(&id("long"), long, "x")).await;
    let mut results = Vec::new();
    for (call, commit) in [
        ("long state key", state(StateChange::new().with(&long_key, StateOp::Add(1)))),
        ("long state key twice", state(StateChange::new().set(&long_key, Json::null()).remove(&long_key))),
        ("long commit key", keyed_commit_with_message(&id("long"), long, "y")),
        (
            "long entry parent",
            keyed_commit_with_message(&id("long"), "k", "y").entry(message_entry("x").below(id(long))),
        ),
    ] {
        results.push((call, commits.commit(commit).await.map(drop)));
    }
    results
}

async fn refused_pending_calls(stores: &TenantStores, long: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let (Some(pending), Some(commits)) = (&stores.pending, &stores.commits) else { return Vec::new() };
    let input = |text: &str| NewInput::message(Message::user(text)).with_id(id(long));
    let _prepared = pending.append_pending(AppendPending::new(id("long"), [input("x")])).await;
    let append = AppendPending::new(id("long"), [input("y")]);
    let stale_update = PendingUpdate::new(id("long"), id(long)).expecting(77).with_message(Message::user("y"));
    let consume = Commit::new(id("long")).with_key(id("consume")).consuming([InputRef::new(id(long), 77)]);
    vec![
        ("long input", pending.append_pending(append).await.map(drop)),
        ("long input: update", pending.update_pending(stale_update).await.map(drop)),
        ("long input: retract", pending.retract_pending(&id("unknown"), &id(long)).await.map(drop)),
        ("long input: consume", commits.commit(consume).await.map(drop)),
    ]
}

async fn refused_event_calls(stores: &TenantStores, long: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let Some(events) = &stores.events else { return Vec::new() };
    let new_event = |kind: &str| NewEvent::new(id(kind), [Scope::Thread(id(long))]);
    let keyed = |kind: &str| AppendEvents::new([new_event(kind)]).with_key(id(long), id(long));
    let _prepared = events.append_events(keyed("x")).await;
    let append_with_wrong_count = AppendEvents::new([new_event("x")]).expecting(Scope::Thread(id(long)), 77);
    vec![
        ("long event key", events.append_events(keyed("y")).await.map(drop)),
        ("long scope", events.append_events(append_with_wrong_count).await.map(drop)),
    ]
}

async fn refused_mailbox_calls(stores: &TenantStores, long: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let Some(mailbox) = &stores.mailbox else { return Vec::new() };
    let new_dispatch = || NewDispatch::new(id(long), id(long)).with_id(id(long));
    let _prepared = mailbox.enqueue(vec![new_dispatch()]).await;
    let again = mailbox.enqueue(vec![new_dispatch().with_priority(1)]).await;
    let claim = ClaimRef::new(id(long), ClaimToken::new(long));
    let settled = mailbox.settle(vec![(claim.clone(), Settlement::Release)]).await;
    vec![
        ("long dispatch", again.and_then(|mut answers| answers.remove(0)).map(drop)),
        ("long dispatch: cancel", mailbox.cancel(&id(&long.to_uppercase())).await.map(drop)),
        ("long claim: start", mailbox.start(&claim, id(long)).await.map(drop)),
        ("long claim: settle", settled.and_then(|mut answers| answers.remove(0)).map(drop)),
    ]
}

async fn refused_outbox_calls(stores: &TenantStores, long: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let (Some(outbox), Some(commits)) = (&stores.outbox, &stores.commits) else { return Vec::new() };
    let commit_with_row = |max_attempts| {
        let row = NewOutboxRow::new(id(long), id(long), Json::null()).with_dedupe_key(id(long));
        Commit::new(id(long)).with_outbox([row.with_max_attempts(max_attempts)])
    };
    let _prepared = commits.commit(commit_with_row(1)).await;
    let settle = SettleOutbox::new(id(long), ClaimToken::new(long), OutboxSettlement::Delivered);
    let settled = outbox.settle_outbox(vec![settle]).await.and_then(|answers| answers.into_iter().collect());
    let requeued = outbox.requeue_outbox(RequeueOutbox::ids([id(long)])).await;
    let requeued = requeued.and_then(|answers| answers.into_iter().try_for_each(|answer| answer.outcome));
    vec![
        ("long key of a row", commits.commit(commit_with_row(2)).await.map(drop)),
        ("long row: settle", settled.map(|_: Vec<_>| ())),
        ("long row: requeue", requeued),
    ]
}
