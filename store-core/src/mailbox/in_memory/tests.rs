//! Tests of a mailbox in memory, some of them with a mailbox that is rebuilt from the last record of each dispatch.

use std::time::Duration;

use super::InMemoryMailbox;
use crate::{
    ClaimRequest, Cursor, DedupeKey, DispatchCounts, DispatchQuery, DispatchStatus, ErrorKind, Json, NewDispatch,
    PageBuilder, Result, RunId, Settlement, ThreadId, Timestamp, When, WorkerId,
    codec::Codec,
    commit::DecisionContext,
    id::UuidSource,
    limits::Limits,
    mailbox::{self, Claims, Enqueued, MailboxPlan, MailboxView, SingleClaim, StoredMailboxThread},
};

fn thread() -> ThreadId {
    ThreadId::new("t").unwrap()
}

/// Calls `call` with the time, limits and ids of a decision at millisecond 1.
fn with_context<T>(call: impl FnOnce(DecisionContext<'_>) -> T) -> T {
    let (limits, ids) = (Limits::default(), UuidSource);
    call(DecisionContext::new(Timestamp::from_millis(1).unwrap(), &limits, &ids))
}

fn enqueue(in_memory: &mut InMemoryMailbox) -> Result<Enqueued> {
    let draft = NewDispatch::new(thread(), RunId::new("r").unwrap());
    let draft = draft.with_dedupe_key(DedupeKey::new("key").unwrap());
    with_context(|decision_context| in_memory.apply_decision(|view| mailbox::enqueue(view, &draft, decision_context)))
}

fn claim(in_memory: &mut InMemoryMailbox) -> Result<Claims> {
    let request = ClaimRequest::new(WorkerId::new("w").unwrap(), Duration::from_secs(60));
    with_context(|decision_context| {
        in_memory.promote_due_of(&thread(), decision_context.now);
        in_memory.apply_decision(|view| mailbox::claim(view, &thread(), SingleClaim::of(&request)?, decision_context))
    })
}

/// Returns a mailbox that is rebuilt from the record of the thread and the last record of each dispatch.
fn rebuild(in_memory: &InMemoryMailbox) -> InMemoryMailbox {
    let mut rebuilt = InMemoryMailbox::new(in_memory.claim_incarnation());
    let mut plan = MailboxPlan::new(thread(), in_memory.mailbox(&thread()).unwrap().unwrap());
    plan.dispatches = in_memory.dispatches_by_id.values().cloned().collect();
    rebuilt.apply(plan);
    rebuilt
}

#[test]
fn a_rebuilt_mailbox_knows_the_dedupe_key_of_a_claimed_dispatch() {
    let mut in_memory = InMemoryMailbox::new(1);
    enqueue(&mut in_memory).unwrap();
    let claimed_dispatch = claim(&mut in_memory).unwrap().claimed.remove(0);
    for in_memory in [&mut rebuild(&in_memory), &mut in_memory] {
        assert_eq!(enqueue(in_memory).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    let mut in_memory = rebuild(&in_memory);
    let ack = Settlement::Ack { result: None };
    with_context(|decision_context| {
        in_memory.apply_decision(|view| mailbox::settle(view, &claimed_dispatch.claim(), &ack, decision_context))
    })
    .unwrap();
    for in_memory in [&mut rebuild(&in_memory), &mut in_memory] {
        enqueue(in_memory).unwrap();
    }
}

#[test]
fn no_decision_is_made_about_an_unreadable_thread() {
    let mut in_memory = InMemoryMailbox::new(1);
    enqueue(&mut in_memory).unwrap();
    in_memory.promote_due(Timestamp::from_millis(1).unwrap());
    assert_eq!(in_memory.ready_threads(None).count(), 1);
    in_memory.mark_unreadable(&thread(), "line 7".to_owned());
    assert_eq!((in_memory.ready_threads(None).count(), in_memory.next_claim(Timestamp::MAX)), (0, None));
    assert_eq!(claim(&mut in_memory).unwrap_err().kind(), ErrorKind::Corrupt);
    let unreadable: Vec<_> = in_memory
        .unreadable()
        .into_iter()
        .map(|unreadable_thread| (unreadable_thread.thread, unreadable_thread.error.to_string()))
        .collect();
    assert_eq!(unreadable.len(), 1);
    assert!(unreadable.iter().all(|(id, error)| *id == thread() && error.contains("line 7")), "{unreadable:?}");
    let record = in_memory.recovered_record(&thread(), 3, Timestamp::from_millis(1).unwrap());
    in_memory.mark_readable(&thread());
    in_memory.apply(MailboxPlan::new(thread(), record));
    assert!(in_memory.unreadable().is_empty());
    let claimed_dispatches = claim(&mut in_memory).unwrap().claimed;
    assert_eq!(
        claimed_dispatches.iter().map(|claimed_dispatch| claimed_dispatch.number.counter).collect::<Vec<_>>(),
        [4]
    );
}

/// The record of a thread may name a claimed dispatch although the record of the claim cannot be read.
#[test]
fn a_thread_continues_without_a_claim_that_cannot_be_read() {
    let (mut complete, mut in_memory) = (InMemoryMailbox::new(1), InMemoryMailbox::new(1));
    enqueue(&mut complete).unwrap();
    complete.promote_due(Timestamp::from_millis(1).unwrap());
    claim(&mut complete).unwrap();
    let claimed_record = complete.recovered_record(&thread(), 1, Timestamp::MIN);
    assert!(claimed_record.running.is_some());
    assert_eq!((claimed_record.counts.queued, claimed_record.counts.claimed), (0, 1));
    enqueue(&mut in_memory).unwrap();
    in_memory.apply(MailboxPlan::new(thread(), claimed_record));
    let free_record = in_memory.recovered_record(&thread(), 1, Timestamp::from_millis(7).unwrap());
    assert_eq!((free_record.running, free_record.free_since), (None, Timestamp::from_millis(7).unwrap()));
    assert_eq!((free_record.counts.queued, free_record.counts.claimed), (1, 0));
}

/// If the clock goes back, dispatches that were due are not available any more.
#[test]
fn availability_follows_the_clock_forward_and_back() {
    let time = |millis| Timestamp::from_millis(millis).unwrap();
    let mut in_memory = InMemoryMailbox::new(1);
    let draft = NewDispatch::new(thread(), RunId::new("r").unwrap()).available(When::At(time(5)));
    with_context(|decision_context| in_memory.apply_decision(|view| mailbox::enqueue(view, &draft, decision_context)))
        .unwrap();
    for (now, ready_count) in [(5, 1), (4, 0), (6, 1), (6, 1), (3, 0)] {
        in_memory.promote_due(time(now));
        assert_eq!(in_memory.ready_threads(None).count(), ready_count, "at {now}");
    }
}

#[test]
fn dispatches_are_listed_after_any_position() {
    let mut in_memory = InMemoryMailbox::new(1);
    for _ in 0..3 {
        let draft = NewDispatch::new(thread(), RunId::new("r").unwrap());
        with_context(|decision_context| {
            in_memory.apply_decision(|view| mailbox::enqueue(view, &draft, decision_context))
        })
        .unwrap();
    }
    let list_dispatches = |in_memory: &InMemoryMailbox, after| -> Vec<_> {
        in_memory.dispatches(after).map(|(created_at, stored)| (created_at, stored.body.id.clone())).collect()
    };
    let all_dispatches = list_dispatches(&in_memory, None);
    assert_eq!(all_dispatches.len(), 3);
    assert_eq!(
        list_dispatches(&in_memory, all_dispatches.first().cloned()).as_slice(),
        all_dispatches.get(1..).unwrap()
    );
}

#[test]
fn a_recount_keeps_counters_of_a_newer_release() {
    let counts = DispatchCounts::read(r#"{"queued":7,"parked":1}"#).unwrap();
    let record = StoredMailboxThread { counts, ..StoredMailboxThread::default() };
    let counted = record.count([(DispatchStatus::Claimed, 0, 2)]);
    assert_eq!(counted.encode(), r#"{"claimed":2,"parked":1}"#);
}

/// Returns the number of items on a page of the mailbox if each dispatch has this payload, and if `other_bytes` more
/// bytes were read for each.
fn items_per_page(payload: &Json, other_bytes: u64) -> usize {
    let mut in_memory = InMemoryMailbox::new(1);
    for _ in 0..3 {
        let draft = NewDispatch::new(thread(), RunId::new("r").unwrap()).with_payload(payload.clone());
        with_context(|decision_context| {
            in_memory.apply_decision(|view| mailbox::enqueue(view, &draft, decision_context))
        })
        .unwrap();
    }
    let mut page = PageBuilder::new(9);
    in_memory.list(&DispatchQuery::default(), None, &mut page, |dispatch| (dispatch, other_bytes)).unwrap();
    page.finish(|_| Cursor::from_text("c")).items.len()
}

#[test]
fn the_size_of_a_page_counts_payloads_and_other_bytes_read() {
    let large_payload = Json::parse(&format!("\"{}\"", "x".repeat(40 << 20))).unwrap();
    assert_eq!(items_per_page(&Json::null(), 0), 3);
    assert_eq!(items_per_page(&large_payload, 0), 2);
    assert_eq!(items_per_page(&Json::null(), 40 << 20), 2);
}
