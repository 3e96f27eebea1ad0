//! Cases about listing dispatches, counting them, and listing ready threads.

use std::time::Duration;

use store_core::{
    Direction, DispatchCounts, DispatchFilter, DispatchOrder, DispatchQuery, DispatchStatus, ErrorKind, PageRequest,
    Settlement,
};

use super::helpers::{
    LEASE, MILLISECOND, ack, claim_request, counts_in_status_order, delayed_dispatch, enqueue_all, expect_next_claim,
    filter_of_thread_t, interrupt_thread_t, keyed_dispatch, list_ids, list_ids_in_order, mailbox, new_dispatch, settle,
};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    given::{id, read_all_pages},
    log::writer::join,
};

/// Creates a dispatch in each status. In the thread `t`, `q` is queued, `c` is claimed, `a` is acked, `x` is cancelled,
/// `s` is superseded, and `d` is a dead letter. In the thread `u`, `u` is queued.
async fn create_one_of_each_status(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "s")]).await?;
    interrupt_thread_t(given).await?;
    for (name, settlement) in [
        ("a", ack()),
        ("x", Settlement::Cancel { reason: "no".to_owned() }),
        ("d", Settlement::DeadLetter { error: "bad".to_owned() }),
    ] {
        given.advance(MILLISECOND).await;
        enqueue_all(given, [new_dispatch("t", name)]).await?;
        let claimed = expect_next_claim(given, name).await?;
        given.advance(MILLISECOND).await;
        settle(given, &claimed, settlement).await?;
    }
    enqueue_all(given, [keyed_dispatch("t", "c", "k")]).await?;
    expect_next_claim(given, "c").await?;
    given.advance(MILLISECOND).await;
    enqueue_all(given, [new_dispatch("t", "q"), new_dispatch("u", "u")]).await.map(drop)
}

/// Dispatches can be filtered by thread, run, statuses, worker, epoch and dedupe key. If several of these are given, a
/// dispatch must match all of them.
pub(super) async fn dispatches_are_filtered_by_all_given_fields(given: &Given) -> Verdict {
    use DispatchStatus::{Acked, Claimed, DeadLetter, Queued, Superseded};
    create_one_of_each_status(given).await?;
    let no_filter = DispatchFilter::default;
    let filter_with = |change: fn(&mut DispatchFilter)| {
        let mut filter = DispatchFilter::default();
        change(&mut filter);
        filter
    };
    for (filter, wanted) in [
        (no_filter(), "s a x d c q u"),
        (filter_of_thread_t(), "s a x d c q"),
        (no_filter().in_status([Queued]), "q u"),
        (filter_of_thread_t().in_status([Queued]), "q"),
        (no_filter().in_status([Superseded]), "s"),
        (no_filter().in_status([Acked, DeadLetter, Claimed, Acked]), "a d c"),
        (no_filter().in_status([]), ""),
        (filter_with(|filter| filter.run = Some(id("r"))), "s a x d c q u"),
        (filter_with(|filter| filter.run = Some(id("other"))), ""),
        (filter_with(|filter| filter.worker = Some(id("w"))), "c"),
        (filter_with(|filter| filter.worker = Some(id("v"))), ""),
        (filter_with(|filter| filter.epoch = Some(0)), "s u"),
        (filter_with(|filter| filter.dedupe_key = Some(id("k"))), "c"),
        (DispatchFilter::of_thread(id("unknown")), ""),
    ] {
        let found = list_ids_in_order(given, filter.clone(), DispatchOrder::Creation).await?;
        expect_eq(found, wanted).map_err(|failure| failure.about(format!("{filter:?}")))?;
        let query = DispatchQuery::new(filter.clone()).ordered(DispatchOrder::Creation, Direction::Backward);
        let found = list_ids(given, query).await?.split(' ').rev().collect::<Vec<_>>().join(" ");
        expect_eq(found, wanted).map_err(|failure| failure.about(format!("{filter:?} backwards")))?;
    }
    Ok(())
}

/// A list in the order [`DispatchOrder::End`] contains only finished dispatches, including superseded ones, in the
/// order in which they ended. A backward list has the reverse order of a forward list.
pub(super) async fn dispatches_are_ordered_by_creation_or_end(given: &Given) -> Verdict {
    create_one_of_each_status(given).await?;
    enqueue_all(given, [new_dispatch("u", "v"), new_dispatch("u", "w")]).await?;
    mailbox(given)?.interrupt(store_core::Interrupt::new(id("u"))).await?;
    for (order, wanted) in [(DispatchOrder::Creation, "s a x d c q u v w"), (DispatchOrder::End, "s a x d u v w")] {
        expect_eq(list_ids_in_order(given, DispatchFilter::default(), order).await?, wanted)?;
        let query = DispatchQuery::default().ordered(order, Direction::Backward);
        let reversed = wanted.split(' ').rev().collect::<Vec<_>>().join(" ");
        expect_eq(list_ids(given, query).await?, reversed)?;
    }
    expect_eq(list_ids_in_order(given, filter_of_thread_t(), DispatchOrder::End).await?, "s a x d")
}

/// Dispatches that ended at the same time are listed by id, regardless of their threads and of whether an interrupt or
/// a settlement ended them.
pub(super) async fn dispatches_that_ended_at_the_same_time_are_ordered_by_id(given: &Given) -> Verdict {
    let store = &mailbox(given)?;
    enqueue_all(given, [new_dispatch("w", "b")]).await?;
    let held_claim = expect_next_claim(given, "b").await?;
    let queued = [("t", "c"), ("u", "a"), ("v", "g"), ("t", "h"), ("u", "i"), ("v", "d"), ("t", "e"), ("u", "f")];
    enqueue_all(given, queued.map(|(thread, name)| new_dispatch(thread, name))).await?;
    settle(given, &held_claim, ack()).await?;
    for thread in ["t", "u", "v"] {
        store.interrupt(store_core::Interrupt::new(id(thread))).await?;
    }
    let query = DispatchQuery::default().ordered(DispatchOrder::End, Direction::Forward);
    let mut dispatches = store.list_dispatches(query.clone()).await?.items;
    dispatches.sort_by(|a, b| (a.finished_at, &a.id).cmp(&(b.finished_at, &b.id)));
    let names: Vec<_> = dispatches.iter().map(|dispatch| dispatch.id.as_str()).collect();
    expect_eq(names.len(), 9)?;
    expect_eq(list_ids(given, query).await?, names.join(" "))?;
    let query = DispatchQuery::default().ordered(DispatchOrder::End, Direction::Backward);
    expect_eq(list_ids(given, query).await?, names.iter().rev().copied().collect::<Vec<_>>().join(" "))
}

/// Only the dispatches of one thread can be listed in the order of claims. The list has all queued dispatches of the
/// thread, whether they are due or not, ordered by priority and number.
pub(super) async fn only_dispatches_of_one_thread_can_be_listed_in_claim_order(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "old")]).await?;
    interrupt_thread_t(given).await?;
    enqueue_all(
        given,
        [
            new_dispatch("t", "c"),
            delayed_dispatch("t", "b", LEASE).with_priority(1),
            new_dispatch("t", "d"),
            new_dispatch("u", "x"),
        ],
    )
    .await?;
    enqueue_all(given, [new_dispatch("t", "a").with_priority(0)]).await?;
    let store = mailbox(given)?;
    let query = |direction| DispatchQuery::new(filter_of_thread_t()).ordered(DispatchOrder::Claim, direction);
    expect_eq(list_ids(given, query(Direction::Forward)).await?, "a b c d")?;
    expect_eq(list_ids(given, query(Direction::Backward)).await?, "d c b a")?;
    let of_all_threads = DispatchQuery::default().ordered(DispatchOrder::Claim, Direction::Forward);
    expect_kind(store.list_dispatches(of_all_threads).await, ErrorKind::Invalid)?;
    expect_eq(store.load_dispatch(&id("unknown")).await?, None)
}

/// The numbers of dispatches in each status are exact, for a thread and for a tenant, even after an interrupt.
pub(super) async fn counts_are_exact(given: &Given) -> Verdict {
    create_one_of_each_status(given).await?;
    let store = mailbox(given)?;
    super::helpers::expect_counts_in_status_order(given, [1, 1, 1, 1, 1, 1]).await?;
    expect_eq(counts_in_status_order(&store.count_dispatches(None).await?), [2, 1, 1, 1, 1, 1])?;
    expect_eq(store.count_dispatches(Some(&id("unknown"))).await?, DispatchCounts::default())?;
    store.interrupt(store_core::Interrupt::new(id("u"))).await?;
    expect_eq(counts_in_status_order(&store.count_dispatches(None).await?), [1, 1, 1, 1, 2, 1])?;
    expect_eq(store.count_dispatches(None).await?.total(), 7)
}

/// The ready threads are those from which a claim would now return a dispatch.
pub(super) async fn ready_threads_are_those_that_a_claim_takes(given: &Given) -> Verdict {
    let store = &mailbox(given)?;
    let ready_dispatch_ids = || async {
        let list = |page| store.list_ready_threads(page);
        let ready_threads = read_all_pages(PageRequest::first(1), list).await?;
        Ok::<_, crate::Failure>(join(ready_threads.iter().map(|ready| ready.next.as_str())))
    };
    expect_eq(ready_dispatch_ids().await?, "")?;
    enqueue_all(given, [new_dispatch("a", "a1"), new_dispatch("a", "a2"), new_dispatch("b", "b1").with_priority(1)])
        .await?;
    enqueue_all(given, [delayed_dispatch("c", "c1", LEASE), new_dispatch("e", "e1").with_max_attempts(1)]).await?;
    given.advance(Duration::from_secs(1)).await;
    expect_eq(ready_dispatch_ids().await?, "b1 a1 e1")?;
    store.claim(claim_request().up_to(3)).await?;
    expect_eq(ready_dispatch_ids().await?, "")?;
    given.advance(LEASE).await;
    expect_eq(ready_dispatch_ids().await?, "c1 a1 b1")?;
    // A thread whose dispatch was released is listed once, even after the time at which the lease would have expired.
    let claimed_dispatches = store.claim(claim_request().of_thread(id("a"))).await?.claimed;
    settle(given, expect_some(claimed_dispatches.first(), "dispatch")?, Settlement::Release).await?;
    given.advance(LEASE).await;
    expect_eq(ready_dispatch_ids().await?, "c1 a1 b1")?;
    let claims = store.claim(claim_request().up_to(9)).await?;
    let mut claimed: Vec<_> = claims.claimed.iter().map(|claimed| claimed.dispatch.id.as_str()).collect();
    claimed.sort_unstable();
    expect_eq(claimed.join(" "), "a1 b1 c1")
}
