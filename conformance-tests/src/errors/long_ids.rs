//! Refusals of requests whose ids and names have the largest length that is allowed.

use store_core::{
    AppendEvents, AppendPending, ClaimRef, ClaimToken, Commit, DeleteRequest, Error, Expect, InputRef, Json, Message,
    NewDispatch, NewEvent, NewInput, NewOutboxRow, NewThread, OutboxSettlement, PendingUpdate, RequeueOutbox, Scope,
    SettleOutbox, Settlement, StateChange, StateOp, TenantStores, ThreadFields, ThreadPatch,
};

use super::document_refusals;
use crate::{
    case::Contract,
    check::Failure,
    given::{id, keyed_commit_with_message, message_entry},
};

/// Makes calls that are all refused, with `longest_id` as an id or name. Returns their errors, each of which is about
/// that id or name.
pub(super) async fn refusals_with_long_ids(
    contract: Contract,
    stores: &TenantStores,
    longest_id: &str,
) -> Result<Vec<(&'static str, Error)>, Failure> {
    let results = match contract {
        Contract::ThreadRunStore => refused_thread_calls(stores, longest_id).await,
        Contract::CommitCoordinator => refused_commit_calls(stores, longest_id).await,
        Contract::PendingStore => refused_pending_calls(stores, longest_id).await,
        Contract::EventStore => refused_event_calls(stores, longest_id).await,
        Contract::MailboxStore | Contract::LiveChannel => refused_mailbox_calls(stores, longest_id).await,
        Contract::OutboxStore => refused_outbox_calls(stores, longest_id).await,
        Contract::DocumentStore | Contract::ObjectStore => {
            document_refusals::refused_calls_with_long_ids(stores, longest_id).await
        }
    };
    let error_of = |(call, result): (&'static str, store_core::Result<()>)| match result {
        Ok(()) => Err(Failure::new(format!("{call}: the call is not refused"))),
        Err(error) => Ok((call, error)),
    };
    results.into_iter().map(error_of).collect()
}

async fn refused_thread_calls(stores: &TenantStores, longest_id: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let Some(threads) = &stores.threads else { return Vec::new() };
    let mut fields_with_parent = ThreadFields::default();
    fields_with_parent.parent_thread_id = Some(id(longest_id));
    vec![
        ("long id: delete", threads.delete_thread(&id(longest_id), DeleteRequest::default()).await.map(drop)),
        (
            "long id: update",
            threads.update_thread(&id(longest_id), ThreadPatch::default(), Expect::Any).await.map(drop),
        ),
        (
            "long parent",
            threads.create_thread(NewThread::new(id("new")).with_fields(fields_with_parent)).await.map(drop),
        ),
    ]
}

async fn refused_commit_calls(stores: &TenantStores, longest_id: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let Some(commits) = &stores.commits else { return Vec::new() };
    let long_key = longest_id.repeat(100);
    let commit_of_state = |change| Commit::new(id("long")).with_state(change);
    let _prepared = commits.commit(commit_of_state(StateChange::new().set(&long_key, Json::null()))).await;
    let _prepared = commits.commit(keyed_commit_with_message(&id("long"), longest_id, "x")).await;
    let mut results = Vec::new();
    for (call, commit) in [
        ("long state key", commit_of_state(StateChange::new().with(&long_key, StateOp::Add(1)))),
        ("long state key twice", commit_of_state(StateChange::new().set(&long_key, Json::null()).remove(&long_key))),
        ("long commit key", keyed_commit_with_message(&id("long"), longest_id, "y")),
        (
            "long entry parent",
            keyed_commit_with_message(&id("long"), "k", "y").entry(message_entry("x").below(id(longest_id))),
        ),
    ] {
        results.push((call, commits.commit(commit).await.map(drop)));
    }
    results
}

async fn refused_pending_calls(stores: &TenantStores, longest_id: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let (Some(pending), Some(commits)) = (&stores.pending, &stores.commits) else { return Vec::new() };
    let input = |text: &str| NewInput::message(Message::user(text)).with_id(id(longest_id));
    let _prepared = pending.append_pending(AppendPending::new(id("long"), [input("x")])).await;
    let append = AppendPending::new(id("long"), [input("y")]);
    let stale_update = PendingUpdate::new(id("long"), id(longest_id)).expecting(77).with_message(Message::user("y"));
    let consume = Commit::new(id("long")).with_key(id("consume")).consuming([InputRef::new(id(longest_id), 77)]);
    vec![
        ("long input", pending.append_pending(append).await.map(drop)),
        ("long input: update", pending.update_pending(stale_update).await.map(drop)),
        ("long input: retract", pending.retract_pending(&id("unknown"), &id(longest_id)).await.map(drop)),
        ("long input: consume", commits.commit(consume).await.map(drop)),
    ]
}

async fn refused_event_calls(stores: &TenantStores, longest_id: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let Some(events) = &stores.events else { return Vec::new() };
    let new_event = |kind: &str| NewEvent::new(id(kind), [Scope::Thread(id(longest_id))]);
    let keyed_append = |kind: &str| AppendEvents::new([new_event(kind)]).with_key(id(longest_id), id(longest_id));
    let _prepared = events.append_events(keyed_append("x")).await;
    let append_with_wrong_count = AppendEvents::new([new_event("x")]).expecting(Scope::Thread(id(longest_id)), 77);
    vec![
        ("long event key", events.append_events(keyed_append("y")).await.map(drop)),
        ("long scope", events.append_events(append_with_wrong_count).await.map(drop)),
    ]
}

async fn refused_mailbox_calls(stores: &TenantStores, longest_id: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let Some(mailbox) = &stores.mailbox else { return Vec::new() };
    let new_dispatch = || NewDispatch::new(id(longest_id), id(longest_id)).with_id(id(longest_id));
    let _prepared = mailbox.enqueue(vec![new_dispatch()]).await;
    let second_answers = mailbox.enqueue(vec![new_dispatch().with_priority(1)]).await;
    let claim = ClaimRef::new(id(longest_id), ClaimToken::new(longest_id));
    let settled = mailbox.settle(vec![(claim.clone(), Settlement::Release)]).await;
    vec![
        ("long dispatch", second_answers.and_then(|mut answers| answers.remove(0)).map(drop)),
        ("long dispatch: cancel", mailbox.cancel(&id(&longest_id.to_uppercase())).await.map(drop)),
        ("long claim: start", mailbox.start(&claim, id(longest_id)).await.map(drop)),
        ("long claim: settle", settled.and_then(|mut answers| answers.remove(0)).map(drop)),
    ]
}

async fn refused_outbox_calls(stores: &TenantStores, longest_id: &str) -> Vec<(&'static str, store_core::Result<()>)> {
    let (Some(outbox), Some(commits)) = (&stores.outbox, &stores.commits) else { return Vec::new() };
    let commit_with_row = |max_attempts| {
        let row = NewOutboxRow::new(id(longest_id), id(longest_id), Json::null()).with_dedupe_key(id(longest_id));
        Commit::new(id(longest_id)).with_outbox([row.with_max_attempts(max_attempts)])
    };
    let _prepared = commits.commit(commit_with_row(1)).await;
    let settle = SettleOutbox::new(id(longest_id), ClaimToken::new(longest_id), OutboxSettlement::Delivered);
    let settled = outbox.settle_outbox(vec![settle]).await.and_then(|answers| answers.into_iter().collect());
    let requeued = outbox.requeue_outbox(RequeueOutbox::ids([id(longest_id)])).await;
    let requeued = requeued.and_then(|answers| answers.into_iter().try_for_each(|answer| answer.outcome));
    vec![
        ("long key of a row", commits.commit(commit_with_row(2)).await.map(drop)),
        ("long row: settle", settled.map(|_: Vec<_>| ())),
        ("long row: requeue", requeued),
    ]
}
