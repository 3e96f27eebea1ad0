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

fn enqueue(map: &mut InMemoryMailbox) -> Result<Enqueued> {
    let new = NewDispatch::new(thread(), RunId::new("r").unwrap());
    let new = new.with_dedupe_key(DedupeKey::new("key").unwrap());
    with_context(|decision_context| map.apply_decision(|view| mailbox::enqueue(view, &new, decision_context)))
}

fn claim(map: &mut InMemoryMailbox) -> Result<Claims> {
    let request = ClaimRequest::new(WorkerId::new("w").unwrap(), Duration::from_secs(60));
    with_context(|decision_context| {
        map.promote_due_of(&thread(), decision_context.now);
        map.apply_decision(|view| mailbox::claim(view, &thread(), SingleClaim::of(&request)?, decision_context))
    })
}

/// Returns a mailbox that is rebuilt from the record of the thread and the last record of each dispatch.
fn rebuild(map: &InMemoryMailbox) -> InMemoryMailbox {
    let mut rebuilt = InMemoryMailbox::new(map.claim_incarnation());
    let mut plan = MailboxPlan::new(thread(), map.mailbox(&thread()).unwrap().unwrap());
    plan.dispatches = map.rows.values().cloned().collect();
    rebuilt.apply(plan);
    rebuilt
}

#[test]
fn a_dedupe_key_is_in_use_until_its_dispatch_ends_even_if_only_the_claim_was_read() {
    let mut map = InMemoryMailbox::new(1);
    enqueue(&mut map).unwrap();
    let held = claim(&mut map).unwrap().claimed.remove(0);
    for map in [&mut rebuild(&map), &mut map] {
        assert_eq!(enqueue(map).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    let mut map = rebuild(&map);
    let ack = Settlement::Ack { result: None };
    with_context(|decision_context| {
        map.apply_decision(|view| mailbox::settle(view, &held.claim(), &ack, decision_context))
    })
    .unwrap();
    for map in [&mut rebuild(&map), &mut map] {
        enqueue(map).unwrap();
    }
}

#[test]
fn no_decision_is_made_about_an_unreadable_thread() {
    let mut map = InMemoryMailbox::new(1);
    enqueue(&mut map).unwrap();
    map.promote_due(Timestamp::from_millis(1).unwrap());
    assert_eq!(map.ready_threads(None).count(), 1);
    map.mark_unreadable(&thread(), "line 7".to_owned());
    assert_eq!((map.ready_threads(None).count(), map.next_claim(Timestamp::MAX)), (0, None));
    assert_eq!(claim(&mut map).unwrap_err().kind(), ErrorKind::Corrupt);
    let unreadable: Vec<_> = map.unreadable().into_iter().map(|of| (of.thread, of.error.to_string())).collect();
    assert_eq!(unreadable.len(), 1);
    assert!(unreadable.iter().all(|(of, why)| *of == thread() && why.contains("line 7")), "{unreadable:?}");
    let record = map.recovered_record(&thread(), 3, Timestamp::from_millis(1).unwrap());
    map.mark_readable(&thread());
    map.apply(MailboxPlan::new(thread(), record));
    assert!(map.unreadable().is_empty());
    let claimed = claim(&mut map).unwrap().claimed;
    assert_eq!(claimed.iter().map(|held| held.number.counter).collect::<Vec<_>>(), [4]);
}

/// The record of a thread may name a claimed dispatch although the record of the claim cannot be read.
#[test]
fn a_thread_continues_without_a_claim_that_cannot_be_read() {
    let (mut complete_map, mut map) = (InMemoryMailbox::new(1), InMemoryMailbox::new(1));
    enqueue(&mut complete_map).unwrap();
    complete_map.promote_due(Timestamp::from_millis(1).unwrap());
    claim(&mut complete_map).unwrap();
    let claimed = complete_map.recovered_record(&thread(), 1, Timestamp::MIN);
    assert!(claimed.running.is_some());
    assert_eq!((claimed.counts.queued, claimed.counts.claimed), (0, 1));
    enqueue(&mut map).unwrap();
    map.apply(MailboxPlan::new(thread(), claimed));
    let free = map.recovered_record(&thread(), 1, Timestamp::from_millis(7).unwrap());
    assert_eq!((free.running, free.free_since), (None, Timestamp::from_millis(7).unwrap()));
    assert_eq!((free.counts.queued, free.counts.claimed), (1, 0));
}

/// If the clock goes back, dispatches that were due are not available any more.
#[test]
fn availability_follows_the_clock_forward_and_back() {
    let time = |millis| Timestamp::from_millis(millis).unwrap();
    let mut map = InMemoryMailbox::new(1);
    let new = NewDispatch::new(thread(), RunId::new("r").unwrap()).available(When::At(time(5)));
    with_context(|decision_context| map.apply_decision(|view| mailbox::enqueue(view, &new, decision_context))).unwrap();
    for (now, ready) in [(5, 1), (4, 0), (6, 1), (6, 1), (3, 0)] {
        map.promote_due(time(now));
        assert_eq!(map.ready_threads(None).count(), ready, "at {now}");
    }
}

#[test]
fn dispatches_are_listed_after_any_position() {
    let mut map = InMemoryMailbox::new(1);
    for _ in 0..3 {
        let new = NewDispatch::new(thread(), RunId::new("r").unwrap());
        with_context(|decision_context| map.apply_decision(|view| mailbox::enqueue(view, &new, decision_context)))
            .unwrap();
    }
    let listed = |map: &InMemoryMailbox, after| -> Vec<_> {
        map.dispatches(after).map(|(at, stored)| (at, stored.body.id.clone())).collect()
    };
    let all = listed(&map, None);
    assert_eq!(all.len(), 3);
    assert_eq!(listed(&map, all.first().cloned()).as_slice(), all.get(1..).unwrap());
}

#[test]
fn a_recount_keeps_counters_of_a_newer_release() {
    let counts = DispatchCounts::read(r#"{"queued":7,"parked":1}"#).unwrap();
    let record = StoredMailboxThread { counts, ..StoredMailboxThread::default() };
    let counted = record.count([(DispatchStatus::Claimed, 0, 2)]);
    assert_eq!(counted.encode(), r#"{"claimed":2,"parked":1}"#);
}

/// Returns the number of items on a page of the map if each dispatch has this payload, and `other_bytes` bytes were
/// read for it in addition.
fn items_per_page(payload: &Json, other_bytes: u64) -> usize {
    let mut map = InMemoryMailbox::new(1);
    for _ in 0..3 {
        let new = NewDispatch::new(thread(), RunId::new("r").unwrap()).with_payload(payload.clone());
        with_context(|decision_context| map.apply_decision(|view| mailbox::enqueue(view, &new, decision_context)))
            .unwrap();
    }
    let mut page = PageBuilder::new(9);
    map.list(&DispatchQuery::default(), None, &mut page, |dispatch| (dispatch, other_bytes)).unwrap();
    page.finish(|_| Cursor::from_text("c")).items.len()
}

#[test]
fn the_size_of_a_page_counts_payloads_and_other_bytes_read() {
    let large = Json::parse(&format!("\"{}\"", "x".repeat(40 << 20))).unwrap();
    assert_eq!(items_per_page(&Json::null(), 0), 3);
    assert_eq!(items_per_page(&large, 0), 2);
    assert_eq!(items_per_page(&Json::null(), 40 << 20), 2);
}
