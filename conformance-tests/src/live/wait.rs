//! Waits for work.

use std::{collections::BTreeSet, time::Duration};

use store_core::{Interrupt, Requeue, Settlement, WaitResult};

use super::helpers::{DEADLINE, SHORT_PAUSE, begin_wait, expect_woken, wake_ups};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq},
    given::{id, keyed_commit_with_message},
    mailbox::helpers::{
        LEASE, MILLISECOND, ack, claim_next, claim_request, delayed_dispatch, enqueue_all, enqueue_and_claim,
        expect_next_claim, interrupt_thread_t, mailbox, new_dispatch, retry, settle, try_settle,
    },
};

const MINUTE: Duration = Duration::from_secs(60);

/// All waiting workers are woken when a dispatch is enqueued, and when a dead letter is requeued. A wait ends at once
/// if a dispatch can already be claimed.
pub(super) async fn new_work_wakes_waiting_workers(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    let waits = [begin_wait(given).await?, begin_wait(given).await?, begin_wait(given).await?];
    enqueue_all(given, [new_dispatch("t", "a")]).await?;
    for task in waits {
        expect_woken(task).await?;
    }
    expect_eq(wake_ups(given)?.wait(DEADLINE).await?, WaitResult::Woken)?;
    let claimed = expect_next_claim(given, "a").await?;
    settle(given, &claimed, Settlement::DeadLetter { error: "bad".to_owned() }).await?;
    let task = begin_wait(given).await?;
    for (_, requeued) in store.requeue(Requeue::ids([id("a")])).await? {
        requeued?;
    }
    expect_woken(task).await?;
    expect_next_claim(given, "a").await.map(drop)
}

/// A waiting worker is woken when the claim of a thread with queued dispatches ends, no matter how it ends.
pub(super) async fn the_end_of_a_claim_wakes_waiting_workers(given: &Given) -> Verdict {
    for (name, settlement) in [
        ("a", Settlement::Release),
        ("b", retry(Duration::ZERO)),
        ("c", ack()),
        ("d", Settlement::Cancel { reason: "no".to_owned() }),
    ] {
        let claimed = enqueue_and_claim(given, name).await?;
        enqueue_all(given, [new_dispatch("t", &format!("{name} then"))]).await?;
        let task = begin_wait(given).await?;
        settle(given, &claimed, settlement).await?;
        expect_woken(task).await.map_err(|failure| failure.about(name))?;
        while let Some(next) = claim_next(given).await? {
            settle(given, &next, ack()).await?;
        }
    }
    // The first refused write after an interrupt supersedes the claimed dispatch, so that the next one can be claimed.
    let interrupted_claim = enqueue_and_claim(given, "e").await?;
    interrupt_thread_t(given).await?;
    enqueue_all(given, [new_dispatch("t", "f")]).await?;
    let task = begin_wait(given).await?;
    expect(try_settle(given, &interrupted_claim, ack()).await?.is_err(), "a stale claim was settled")?;
    expect_woken(task).await?;
    let taken_over_claim = expect_next_claim(given, "f").await?;
    let task = begin_wait(given).await?;
    mailbox(given)?.interrupt(Interrupt::new(id("t")).taking_over()).await?;
    enqueue_all(given, [new_dispatch("t", "g")]).await?;
    expect_woken(task).await?;
    expect(try_settle(given, &taken_over_claim, ack()).await?.is_err(), "a stale claim was settled")?;
    expect_next_claim(given, "g").await.map(drop)
}

/// A commit that settles its claim wakes waiting workers if the thread has another queued dispatch.
pub(super) async fn a_settling_commit_wakes_waiting_workers(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "a").await?;
    enqueue_all(given, [new_dispatch("t", "b")]).await?;
    let task = begin_wait(given).await?;
    given
        .expect_accepted(keyed_commit_with_message(&id("t"), "k", "x").fenced(claimed.fence()).settling(ack()))
        .await?;
    expect_woken(task).await?;
    expect_next_claim(given, "b").await.map(drop)
}

/// If nothing can be claimed, a wait ends at its timeout, even if a dispatch becomes due later. With a timeout of
/// zero a wait ends at once.
pub(super) async fn a_wait_ends_at_its_timeout(given: &Given) -> Verdict {
    let wake_ups = wake_ups(given)?;
    for timeout in [Duration::ZERO, SHORT_PAUSE] {
        expect_eq(wake_ups.wait(timeout).await?, WaitResult::TimedOut)?;
    }
    enqueue_all(given, [delayed_dispatch("t", "a", MINUTE), new_dispatch("u", "b")]).await?;
    expect_eq(wake_ups.wait(Duration::ZERO).await?, WaitResult::Woken)?;
    let claimed = expect_next_claim(given, "b").await?;
    expect_eq(wake_ups.wait(SHORT_PAUSE).await?, WaitResult::TimedOut)?;
    settle(given, &claimed, ack()).await?;
    expect_eq(wake_ups.wait(SHORT_PAUSE).await?, WaitResult::TimedOut)
}

/// A waiting worker is woken when a dispatch becomes due, and not before. The dispatch may have been enqueued
/// before the wait or during it, or may have been retried during the wait.
pub(super) async fn a_dispatch_that_becomes_due_wakes_waiting_workers(given: &Given) -> Verdict {
    enqueue_all(given, [delayed_dispatch("t", "a", MINUTE)]).await?;
    let task = begin_wait(given).await?;
    given.advance(MINUTE - MILLISECOND).await;
    tokio::time::sleep(SHORT_PAUSE).await;
    expect(!task.is_finished(), "the worker was woken before the dispatch was due")?;
    given.advance(MILLISECOND).await;
    expect_woken(task).await?;
    let claim_of_a = expect_next_claim(given, "a").await?;
    mailbox(given)?.extend(&claim_of_a.claim(), MINUTE * 3).await?;
    enqueue_all(given, [delayed_dispatch("u", "b", MINUTE * 2)]).await?;
    let task = begin_wait(given).await?;
    enqueue_all(given, [delayed_dispatch("v", "c", MINUTE / 2)]).await?;
    given.advance(MINUTE / 2).await;
    expect_woken(task).await?;
    let claim_of_c = expect_next_claim(given, "c").await?;
    settle(given, &claim_of_c, ack()).await?;
    let task = begin_wait(given).await?;
    settle(given, &claim_of_a, retry(MINUTE / 4)).await?;
    given.advance(MINUTE / 4).await;
    expect_woken(task).await?;
    expect_next_claim(given, "a").await.map(drop)
}

/// A waiting worker is woken when a lease expires, even if the claim was made during the wait.
pub(super) async fn an_expired_lease_wakes_waiting_workers(given: &Given) -> Verdict {
    enqueue_and_claim(given, "a").await?;
    let task = begin_wait(given).await?;
    given.advance(LEASE).await;
    expect_woken(task).await?;
    let new_claim = expect_next_claim(given, "a").await?;
    mailbox(given)?.extend(&new_claim.claim(), LEASE * 3).await?;
    enqueue_all(given, [delayed_dispatch("u", "b", MINUTE * 10)]).await?;
    let task = begin_wait(given).await?;
    let claims = mailbox(given)?.claim(claim_request().of_dispatch(id("b"))).await?;
    expect_eq(claims.claimed.len(), 1)?;
    given.advance(LEASE).await;
    expect_woken(task).await?;
    expect_next_claim(given, "b").await.map(drop)
}

/// A worker that only claims, and never waits, finds all dispatches: new ones, those that become due, those that are
/// retried, and those whose lease has expired.
pub(super) async fn a_worker_that_never_waits_finds_all_work(given: &Given) -> Verdict {
    enqueue_all(
        given,
        [new_dispatch("t", "a"), delayed_dispatch("u", "b", MINUTE), new_dispatch("v", "c"), new_dispatch("w", "d")],
    )
    .await?;
    let mut found = BTreeSet::new();
    for round in 0..4 {
        while let Some(claimed) = claim_next(given).await? {
            let name = claimed.dispatch.id.to_string();
            match (name.as_str(), round) {
                ("c", 0) => drop(settle(given, &claimed, retry(MINUTE)).await?),
                // This claim is never settled, as if its worker had crashed.
                ("d", 0) => {}
                _ => {
                    settle(given, &claimed, ack()).await?;
                    found.insert(name);
                }
            }
        }
        given.advance(MINUTE).await;
    }
    expect_eq(found.iter().map(String::as_str).collect::<Vec<_>>(), vec!["a", "b", "c", "d"])
}
