//! Cases about reopening: what a mailbox keeps when its store is closed and opened again.

use std::time::Duration;

use store_core::{
    ClaimedDispatch, Direction, DispatchOrder, DispatchQuery, DispatchStatus, ErrorKind, Interrupt, Purge, Requeue,
    Settlement, ThreadId, Timestamp,
};

use super::helpers::{
    LEASE, ack, claim_request, delayed_dispatch, dispatch_ids, enqueue_all, enqueue_and_claim,
    expect_id_or_key_taken_by, expect_next_claim, expect_nothing_to_claim, expect_status, interrupt_thread_t,
    keyed_dispatch, load_dispatch, mailbox, new_dispatch, retry, settle, try_settle,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    errors::tenant_as_text,
    given::id,
};

/// A reopen changes nothing in a mailbox: dispatches, claims, keys, epochs, claim numbers and history are kept.
pub(super) async fn a_mailbox_survives_a_reopen(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "old")]).await?;
    interrupt_thread_t(given).await?;
    let first_claim = enqueue_and_claim(given, "a").await?;
    settle(given, &first_claim, retry(Duration::from_secs(60))).await?;
    enqueue_all(given, [keyed_dispatch("t", "b", "k"), delayed_dispatch("u", "c", LEASE)]).await?;
    let claimed = expect_next_claim(given, "b").await?;
    let dispatches_before = [
        load_dispatch(given, "old").await?,
        load_dispatch(given, "a").await?,
        load_dispatch(given, "b").await?,
        load_dispatch(given, "c").await?,
    ];
    let counts = mailbox(given)?.count_dispatches(None).await?;
    given.reopen().await?;
    for dispatch in &dispatches_before {
        expect_eq(&load_dispatch(given, dispatch.id.as_str()).await?, dispatch)?;
    }
    expect_eq(mailbox(given)?.count_dispatches(None).await?, counts)?;
    expect_eq(mailbox(given)?.load_epoch(&id("t")).await?, 1)?;
    expect_id_or_key_taken_by(given, keyed_dispatch("t", "e", "k"), "b").await?;
    expect(
        settle(given, &first_claim, retry(Duration::from_secs(60))).await?.deduplicated,
        "the repeat settled again",
    )?;
    settle(given, &claimed, ack()).await?;
    given.advance(Duration::from_secs(60)).await;
    let claims = mailbox(given)?.claim(claim_request().up_to(9)).await?.claimed;
    expect_eq(claims.len(), 2)?;
    let retried_claim = expect_some(claims.iter().find(|claimed| claimed.dispatch.id.as_str() == "a"), "retry")?;
    expect(retried_claim.number > claimed.number, "the claim number did not increase")
}

/// After a worker was lost and its lease has expired, another worker can claim its dispatch.
pub(super) async fn another_worker_can_claim_the_work_of_a_lost_one(given: &Given) -> Verdict {
    let lost_claim = enqueue_and_claim(given, "a").await?;
    given.reopen().await?;
    expect_nothing_to_claim(given).await?;
    given.advance(LEASE).await;
    let next_claim = expect_next_claim(given, "a").await?;
    expect_kind(try_settle(given, &lost_claim, ack()).await?, ErrorKind::ClaimLost)?;
    settle(given, &next_claim, ack()).await?;
    given.reopen().await?;
    expect_status(given, "a", DispatchStatus::Acked).await.map(drop)
}

/// Returns a description of everything that can be read from the mailbox.
async fn describe_mailbox(given: &Given) -> Result<Vec<String>, Failure> {
    let (store, thread): (_, &ThreadId) = (mailbox(given)?, &id("t"));
    let mut lines = tenant_as_text(&given.stores()?).await?;
    let query = |order| DispatchQuery::new(super::helpers::filter_of_thread_t()).ordered(order, Direction::Forward);
    for order in [DispatchOrder::End, DispatchOrder::Claim] {
        lines.push(format!("{order:?}: {:?}", store.list_dispatches(query(order)).await?.items));
    }
    lines.push(format!("{:?}, epoch {}", store.count_dispatches(Some(thread)).await?, store.load_epoch(thread).await?));
    Ok(lines)
}

/// Reopens the store, and checks that this does not change the mailbox. A failure names `last_change`, the change that
/// the case made before.
async fn expect_unchanged_by_reopen(given: &Given, last_change: &str) -> Verdict {
    let before = describe_mailbox(given).await?;
    given.reopen().await?;
    expect_eq(describe_mailbox(given).await?, before).map_err(|failure| failure.about(last_change))
}

/// The effect of every call that makes or changes a claim without ending its dispatch survives a reopen.
pub(super) async fn every_step_of_a_claim_survives_a_reopen(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a"), keyed_dispatch("t", "b", "k"), delayed_dispatch("t", "c", LEASE)])
        .await?;
    expect_unchanged_by_reopen(given, "enqueue").await?;
    let first_claim = expect_next_claim(given, "a").await?;
    expect_unchanged_by_reopen(given, "claim").await?;
    mailbox(given)?.start(&first_claim.claim(), id("instance")).await?;
    expect_unchanged_by_reopen(given, "start").await?;
    mailbox(given)?.extend(&first_claim.claim(), LEASE * 2).await?;
    expect_unchanged_by_reopen(given, "extend").await?;
    for (settlement, name) in
        [(Settlement::Snooze { after: LEASE }, "a"), (Settlement::Release, "b"), (retry(LEASE), "b")]
    {
        let claim = if name == "a" { first_claim.clone() } else { expect_next_claim(given, name).await? };
        settle(given, &claim, settlement.clone()).await?;
        expect_unchanged_by_reopen(given, &format!("{settlement:?}")).await?;
    }
    given.advance(LEASE).await;
    let lost_claim = expect_next_claim(given, "a").await?;
    given.advance(LEASE).await;
    expect_eq(mailbox(given)?.reclaim(10).await?.requeued, dispatch_ids(["a"]))?;
    expect_unchanged_by_reopen(given, "reclaim").await?;
    expect_kind(try_settle(given, &lost_claim, ack()).await?, ErrorKind::ClaimLost).map(drop)
}

/// The effect of every call that ends a dispatch survives a reopen. So do the effects of a later requeue and a purge.
pub(super) async fn every_end_of_a_dispatch_survives_a_reopen(given: &Given) -> Verdict {
    let claimed_a = enqueue_and_claim(given, "a").await?;
    settle(given, &claimed_a, Settlement::DeadLetter { error: "broken".to_owned() }).await?;
    expect_unchanged_by_reopen(given, "dead letter").await?;
    let requeued = mailbox(given)?.requeue(Requeue::ids(dispatch_ids(["a"]))).await?;
    requeued.into_iter().try_for_each(|(_, requeued)| requeued.map(drop))?;
    expect_unchanged_by_reopen(given, "requeue").await?;
    mailbox(given)?.cancel(&id("a")).await?;
    expect_unchanged_by_reopen(given, "cancel").await?;
    let claimed_b = enqueue_and_claim(given, "b").await?;
    settle(given, &claimed_b, ack()).await?;
    expect_unchanged_by_reopen(given, "ack").await?;
    enqueue_all(given, [new_dispatch("t", "c")]).await?;
    interrupt_thread_t(given).await?;
    expect_unchanged_by_reopen(given, "interrupt").await?;
    expect_eq(mailbox(given)?.purge(Purge::new(Timestamp::MAX)).await?.removed, 3)?;
    expect_unchanged_by_reopen(given, "purge").await
}

/// After an interrupt, the next write of the claim's holder is refused, and the dispatch becomes superseded. It is
/// still superseded after a reopen.
pub(super) async fn a_dispatch_superseded_by_a_refused_write_stays_so_after_a_reopen(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "a").await?;
    interrupt_thread_t(given).await?;
    expect_kind(try_settle(given, &claimed, ack()).await?, ErrorKind::StaleEpoch)?;
    expect_unchanged_by_reopen(given, "a refused settlement").await?;
    expect_status(given, "a", DispatchStatus::Superseded).await?;
    given.advance(LEASE).await;
    expect_nothing_to_claim(given).await
}

/// The keys of interrupts survive a reopen: a repeated interrupt interrupts nothing.
pub(super) async fn the_keys_of_interrupts_survive_a_reopen(given: &Given) -> Verdict {
    let keyed_interrupt = || Interrupt::new(id("t")).with_key(id("k"));
    enqueue_all(given, [new_dispatch("t", "a")]).await?;
    let first_interrupt = mailbox(given)?.interrupt(keyed_interrupt()).await?;
    enqueue_all(given, [new_dispatch("t", "b")]).await?;
    given.reopen().await?;
    let repeated_interrupt = mailbox(given)?.interrupt(keyed_interrupt()).await?;
    expect_eq(
        (repeated_interrupt.deduplicated, repeated_interrupt.epoch, repeated_interrupt.superseded),
        (true, first_interrupt.epoch, first_interrupt.superseded),
    )?;
    expect_next_claim(given, "b").await.map(drop)
}

/// No claim number is used twice, even if the tenant is deleted, the store is reopened, or both.
pub(super) async fn claim_numbers_grow_across_tenant_deletion_and_reopen(given: &Given) -> Verdict {
    let mut previous: Option<ClaimedDispatch> = None;
    for round in 0..6 {
        let claimed = enqueue_and_claim(given, &format!("d{round}")).await?;
        if let Some(previous) = &previous {
            expect(claimed.number > previous.number, format!("claim {} follows {}", claimed.number, previous.number))?;
        }
        settle(given, &claimed, ack()).await?;
        previous = Some(claimed);
        if round % 3 != 0 {
            given.store().delete_tenant(&id("default")).await?;
        }
        if round % 3 != 1 {
            given.reopen().await?;
        }
    }
    Ok(())
}
