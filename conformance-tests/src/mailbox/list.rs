//! Cases of lists of dispatches, counts, and lists of ready threads.

use std::time::Duration;

use store_core::{
    Direction, DispatchCounts, DispatchFilter, DispatchOrder, DispatchQuery, DispatchStatus, ErrorKind, PageRequest,
    Settlement,
};

use super::draft::{
    LEASE, TICK, ack, claim, in_order, interrupt, keyed, later, listed, mailbox, numbers, of_t, put, request, settle,
    work,
};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    given::{id, walk},
    log::writer::join,
};

/// Creates a dispatch in each status. In the thread `t`, `q` is queued, `c` is claimed, `a` is acked, `x` is cancelled,
/// `s` is superseded, and `d` is a dead letter. In the thread `u`, `u` is queued.
async fn some_of_each(given: &Given) -> Verdict {
    put(given, [work("t", "s")]).await?;
    interrupt(given).await?;
    for (name, settlement) in [
        ("a", ack()),
        ("x", Settlement::Cancel { reason: "no".to_owned() }),
        ("d", Settlement::DeadLetter { error: "bad".to_owned() }),
    ] {
        given.advance(TICK).await;
        put(given, [work("t", name)]).await?;
        let claimed = claim(given, name).await?;
        given.advance(TICK).await;
        settle(given, &claimed, settlement).await?;
    }
    put(given, [keyed("t", "c", "k")]).await?;
    claim(given, "c").await?;
    given.advance(TICK).await;
    put(given, [work("t", "q"), work("u", "u")]).await.map(drop)
}

/// Dispatches can be filtered by thread, run, statuses, worker, epoch and dedupe key. If several of these are given, a
/// dispatch must match all of them.
pub(super) async fn dispatches_are_filtered_by_all_given_fields(given: &Given) -> Verdict {
    use DispatchStatus::{Acked, Claimed, DeadLetter, Queued, Superseded};
    some_of_each(given).await?;
    let any = DispatchFilter::default;
    let with = |change: fn(&mut DispatchFilter)| {
        let mut filter = DispatchFilter::default();
        change(&mut filter);
        filter
    };
    for (filter, wanted) in [
        (any(), "s a x d c q u"),
        (of_t(), "s a x d c q"),
        (any().in_status([Queued]), "q u"),
        (of_t().in_status([Queued]), "q"),
        (any().in_status([Superseded]), "s"),
        (any().in_status([Acked, DeadLetter, Claimed, Acked]), "a d c"),
        (any().in_status([]), ""),
        (with(|filter| filter.run = Some(id("r"))), "s a x d c q u"),
        (with(|filter| filter.run = Some(id("other"))), ""),
        (with(|filter| filter.worker = Some(id("w"))), "c"),
        (with(|filter| filter.worker = Some(id("v"))), ""),
        (with(|filter| filter.epoch = Some(0)), "s u"),
        (with(|filter| filter.dedupe_key = Some(id("k"))), "c"),
        (DispatchFilter::of_thread(id("unknown")), ""),
    ] {
        let found = in_order(given, filter.clone(), DispatchOrder::Creation).await?;
        expect_eq(found, wanted).map_err(|failure| failure.about(format!("{filter:?}")))?;
        let query = DispatchQuery::new(filter.clone()).ordered(DispatchOrder::Creation, Direction::Backward);
        let found = listed(given, query).await?.split(' ').rev().collect::<Vec<_>>().join(" ");
        expect_eq(found, wanted).map_err(|failure| failure.about(format!("{filter:?} backwards")))?;
    }
    Ok(())
}

/// In the order of ends, a list has only finished dispatches, including superseded ones, in the order in which they
/// ended. A backward list has the reverse order of a forward list.
pub(super) async fn dispatches_are_ordered_by_creation_or_end(given: &Given) -> Verdict {
    some_of_each(given).await?;
    put(given, [work("u", "v"), work("u", "w")]).await?;
    mailbox(given)?.interrupt(store_core::Interrupt::new(id("u"))).await?;
    for (order, wanted) in [(DispatchOrder::Creation, "s a x d c q u v w"), (DispatchOrder::End, "s a x d u v w")] {
        expect_eq(in_order(given, DispatchFilter::default(), order).await?, wanted)?;
        let query = DispatchQuery::default().ordered(order, Direction::Backward);
        let back = wanted.split(' ').rev().collect::<Vec<_>>().join(" ");
        expect_eq(listed(given, query).await?, back)?;
    }
    expect_eq(in_order(given, of_t(), DispatchOrder::End).await?, "s a x d")
}

/// Dispatches that ended at the same time are listed by id, across threads, and whether an interrupt or a settlement
/// ended them.
pub(super) async fn dispatches_that_ended_at_the_same_time_are_ordered_by_id(given: &Given) -> Verdict {
    let store = &mailbox(given)?;
    put(given, [work("w", "b")]).await?;
    let held = claim(given, "b").await?;
    let ended = [("t", "c"), ("u", "a"), ("v", "g"), ("t", "h"), ("u", "i"), ("v", "d"), ("t", "e"), ("u", "f")];
    put(given, ended.map(|(thread, name)| work(thread, name))).await?;
    settle(given, &held, ack()).await?;
    for thread in ["t", "u", "v"] {
        store.interrupt(store_core::Interrupt::new(id(thread))).await?;
    }
    let query = DispatchQuery::default().ordered(DispatchOrder::End, Direction::Forward);
    let mut all = store.list_dispatches(query.clone()).await?.items;
    all.sort_by(|a, b| (a.finished_at, &a.id).cmp(&(b.finished_at, &b.id)));
    let names: Vec<_> = all.iter().map(|dispatch| dispatch.id.as_str()).collect();
    expect_eq(names.len(), 9)?;
    expect_eq(listed(given, query).await?, names.join(" "))?;
    let query = DispatchQuery::default().ordered(DispatchOrder::End, Direction::Backward);
    expect_eq(listed(given, query).await?, names.iter().rev().copied().collect::<Vec<_>>().join(" "))
}

/// Only the dispatches of one thread can be listed in the order of claims. The list has the queued dispatches, due or
/// not, ordered by priority and number.
pub(super) async fn the_order_of_claims_exists_only_within_a_thread(given: &Given) -> Verdict {
    put(given, [work("t", "old")]).await?;
    interrupt(given).await?;
    put(given, [work("t", "c"), later("t", "b", LEASE).with_priority(1), work("t", "d"), work("u", "x")]).await?;
    put(given, [work("t", "a").with_priority(0)]).await?;
    let store = mailbox(given)?;
    let query = |direction| DispatchQuery::new(of_t()).ordered(DispatchOrder::Claim, direction);
    expect_eq(listed(given, query(Direction::Forward)).await?, "a b c d")?;
    expect_eq(listed(given, query(Direction::Backward)).await?, "d c b a")?;
    let everywhere = DispatchQuery::default().ordered(DispatchOrder::Claim, Direction::Forward);
    expect_kind(store.list_dispatches(everywhere).await, ErrorKind::Invalid)?;
    expect_eq(store.load_dispatch(&id("unknown")).await?, None)
}

/// The counts by status of a thread and of a tenant are exact, also after an interrupt.
pub(super) async fn counts_are_exact(given: &Given) -> Verdict {
    some_of_each(given).await?;
    let store = mailbox(given)?;
    super::draft::expect_counts(given, [1, 1, 1, 1, 1, 1]).await?;
    expect_eq(numbers(&store.count_dispatches(None).await?), [2, 1, 1, 1, 1, 1])?;
    expect_eq(store.count_dispatches(Some(&id("unknown"))).await?, DispatchCounts::default())?;
    store.interrupt(store_core::Interrupt::new(id("u"))).await?;
    expect_eq(numbers(&store.count_dispatches(None).await?), [1, 1, 1, 1, 2, 1])?;
    expect_eq(store.count_dispatches(None).await?.total(), 7)
}

/// The ready threads are those of which a claim would now return a dispatch.
pub(super) async fn ready_threads_are_those_that_a_claim_takes(given: &Given) -> Verdict {
    let store = &mailbox(given)?;
    let ready = || async {
        let page = |page| store.list_ready_threads(page);
        let all = walk(PageRequest::first(1), page).await?;
        Ok::<_, crate::Failure>(join(all.iter().map(|ready| ready.next.as_str())))
    };
    expect_eq(ready().await?, "")?;
    put(given, [work("a", "a1"), work("a", "a2"), work("b", "b1").with_priority(1)]).await?;
    put(given, [later("c", "c1", LEASE), work("e", "e1").with_max_attempts(1)]).await?;
    given.advance(Duration::from_secs(1)).await;
    expect_eq(ready().await?, "b1 a1 e1")?;
    store.claim(request().up_to(3)).await?;
    expect_eq(ready().await?, "")?;
    given.advance(LEASE).await;
    expect_eq(ready().await?, "c1 a1 b1")?;
    // A thread whose dispatch was released is listed once, also after the time at which the lease would have expired.
    let held = store.claim(request().of_thread(id("a"))).await?.claimed;
    settle(given, expect_some(held.first(), "dispatch")?, Settlement::Release).await?;
    given.advance(LEASE).await;
    expect_eq(ready().await?, "c1 a1 b1")?;
    let claims = store.claim(request().up_to(9)).await?;
    let mut given_out: Vec<_> = claims.claimed.iter().map(|claimed| claimed.dispatch.id.as_str()).collect();
    given_out.sort_unstable();
    expect_eq(given_out.join(" "), "a1 b1 c1")
}
