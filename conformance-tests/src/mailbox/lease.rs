//! Cases about leases: how long they last, and what happens after they have expired.

use std::time::Duration;

use store_core::{AttemptEnd, ClaimRef, ClaimToken, DispatchStatus, ErrorKind, PageRequest, Settlement};

use super::helpers::{
    LEASE, MILLISECOND, ack, claim_next, claim_request, dispatch_ids, enqueue_all, enqueue_and_claim,
    expect_counts_in_status_order, expect_holder_refused, expect_next_claim, expect_nothing_to_claim, expect_status,
    mailbox, new_dispatch, settle, try_settle,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, run_concurrently},
};

/// At exactly `lease_until` a lease has expired. Until the next claim, reads still show the dispatch as claimed. The
/// next claim takes the dispatch over and counts the lost attempt. After that the old token is invalid.
pub(super) async fn a_dispatch_can_be_claimed_after_its_lease(given: &Given) -> Verdict {
    let first_claim = enqueue_and_claim(given, "a").await?;
    given.advance(LEASE - MILLISECOND).await;
    expect_nothing_to_claim(given).await?;
    given.advance(MILLISECOND).await;
    expect_status(given, "a", DispatchStatus::Claimed).await?;
    expect_counts_in_status_order(given, [0, 1, 0, 0, 0, 0]).await?;
    let ready = mailbox(given)?.list_ready_threads(PageRequest::default()).await?.items;
    expect_eq(ready.iter().map(|ready| ready.next.as_str()).collect::<Vec<_>>(), vec!["a"])?;
    let second_claim = expect_next_claim(given, "a").await?;
    expect(
        second_claim.number > first_claim.number && second_claim.token != first_claim.token,
        "the second claim is not a new one",
    )?;
    expect_eq(
        (second_claim.dispatch.attempts, second_claim.dispatch.last_error.as_deref()),
        (1, Some("lease expired")),
    )?;
    let lost_claim = second_claim.dispatch.history.last().map(|attempt| (attempt.end, attempt.claim));
    expect_eq(lost_claim, Some((AttemptEnd::LeaseExpired, first_claim.number)))?;
    expect_holder_refused(given, &first_claim, ErrorKind::ClaimLost).await?;
    settle(given, &second_claim, ack()).await.map(drop)
}

/// If the lease of the last attempt expires, the dispatch becomes a dead letter and is not claimed again.
pub(super) async fn the_last_lost_lease_makes_a_dead_letter(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a").with_max_attempts(2), new_dispatch("t", "b")]).await?;
    for _ in 0..2 {
        expect_next_claim(given, "a").await?;
        given.advance(LEASE).await;
    }
    expect_next_claim(given, "b").await?;
    let dead_letter = expect_status(given, "a", DispatchStatus::DeadLetter).await?;
    expect_eq(
        (dead_letter.attempts, dead_letter.history.len(), dead_letter.last_error.as_deref()),
        (2, 2, Some("lease expired")),
    )?;
    expect_counts_in_status_order(given, [0, 1, 0, 0, 0, 1]).await
}

/// After a lease has expired, its holder can still extend and settle the claim until another caller has claimed the
/// dispatch.
pub(super) async fn an_expired_claim_is_valid_until_another_caller_claims(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "a").await?;
    given.advance(LEASE * 3).await;
    let store = mailbox(given)?;
    let extended_claim = store.extend(&claimed.claim(), LEASE).await?;
    expect_nothing_to_claim(given).await?;
    given.advance(LEASE - MILLISECOND).await;
    expect_nothing_to_claim(given).await?;
    expect_eq(extended_claim.number, claimed.number)?;
    given.advance(LEASE).await;
    expect_eq(settle(given, &claimed, ack()).await?.status, DispatchStatus::Acked)?;
    expect_nothing_to_claim(given).await
}

/// `extend` sets the end of the lease to store time plus the extension, even if the old end was later. With any other
/// token, it is refused with `ClaimLost`.
pub(super) async fn an_extension_counts_from_now(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "a").await?;
    let store = mailbox(given)?;
    given.advance(Duration::from_secs(10)).await;
    for lease in [LEASE * 2, LEASE / 2] {
        let extended_claim = store.extend(&claimed.claim(), lease).await?;
        expect_eq(
            extended_claim.lease_until,
            extended_claim.claimed_at.saturating_add(Duration::from_secs(10) + lease),
        )?;
        expect_eq(expect_status(given, "a", DispatchStatus::Claimed).await?.claim, Some(extended_claim))?;
    }
    let forged = ClaimRef::new(id("a"), ClaimToken::new("forged"));
    expect_kind(store.extend(&forged, LEASE).await, ErrorKind::ClaimLost)?;
    expect_kind(store.extend(&ClaimRef::new(id("b"), claimed.token.clone()), LEASE).await, ErrorKind::ClaimLost)?;
    given.advance(LEASE / 2 - MILLISECOND).await;
    expect_nothing_to_claim(given).await?;
    given.advance(MILLISECOND).await;
    expect_next_claim(given, "a").await.map(drop)
}

/// After another caller has claimed the dispatch, every write of the old holder is refused and changes nothing, even
/// after the new claim was released or settled.
pub(super) async fn an_old_holder_writes_nothing(given: &Given) -> Verdict {
    let first_claim = enqueue_and_claim(given, "a").await?;
    given.advance(LEASE).await;
    let second_claim = expect_next_claim(given, "a").await?;
    expect_holder_refused(given, &first_claim, ErrorKind::ClaimLost).await?;
    expect_status(given, "a", DispatchStatus::Claimed).await?;
    settle(given, &second_claim, Settlement::Release).await?;
    expect_holder_refused(given, &first_claim, ErrorKind::ClaimLost).await?;
    expect_status(given, "a", DispatchStatus::Queued).await?;
    let third_claim = expect_next_claim(given, "a").await?;
    settle(given, &third_claim, ack()).await?;
    expect_holder_refused(given, &first_claim, ErrorKind::ClaimLost).await?;
    expect_status(given, "a", DispatchStatus::Acked).await.map(drop)
}

/// If one call settles the lost claim of an old holder and the claim of the new holder, in either order, the settlement
/// of the old holder is refused and that of the new holder is accepted.
pub(super) async fn one_call_refuses_the_old_holder_and_accepts_the_new_one(given: &Given) -> Verdict {
    for (lost_name, held_name, is_reversed) in [("a", "b", false), ("c", "d", true)] {
        enqueue_all(given, [new_dispatch("t", lost_name).with_max_attempts(1), new_dispatch("t", held_name)]).await?;
        let lost_claim = expect_next_claim(given, lost_name).await?;
        given.advance(LEASE).await;
        let held_claim = expect_next_claim(given, held_name).await?;
        let mut settlements = vec![(lost_claim.claim(), ack()), (held_claim.claim(), ack())];
        if is_reversed {
            settlements.reverse();
        }
        let mut answers = mailbox(given)?.settle(settlements).await?;
        if is_reversed {
            answers.reverse();
        }
        expect_eq(answers.len(), 2)?;
        expect_eq(&answers.pop().transpose()?.map(|settled| settled.status), &Some(DispatchStatus::Acked))?;
        expect_kind(answers.remove(0), ErrorKind::ClaimLost)?;
        expect_status(given, lost_name, DispatchStatus::DeadLetter).await?;
        expect_status(given, held_name, DispatchStatus::Acked).await?;
    }
    expect_counts_in_status_order(given, [0, 0, 2, 0, 0, 2]).await
}

/// If the holder settles after its lease has expired, and another worker claims at the same time, exactly one of the
/// two succeeds.
pub(super) async fn either_a_settlement_or_a_competing_claim_succeeds(given: &Given) -> Verdict {
    for round in 0..20 {
        let claimed = enqueue_and_claim(given, &format!("d{round}")).await?;
        given.advance(LEASE).await;
        let store = mailbox(given)?;
        let results = run_concurrently(2, |task| {
            let (store, claimed) = (std::sync::Arc::clone(&store), claimed.clone());
            async move {
                match task {
                    0 => store.settle(vec![(claimed.claim(), ack())]).await.map(|results| results[0].is_ok()),
                    _ => store.claim(claim_request()).await.map(|claims| !claims.claimed.is_empty()),
                }
            }
        })
        .await;
        let succeeded = results.into_iter().collect::<store_core::Result<Vec<_>>>()?;
        expect_eq(succeeded.iter().filter(|one_succeeded| **one_succeeded).count(), 1)?;
        let status = if succeeded[0] { DispatchStatus::Acked } else { DispatchStatus::Claimed };
        expect_status(given, &format!("d{round}"), status).await?;
        given.store().delete_tenant(&id("default")).await?;
    }
    Ok(())
}

/// The first `start` of a claim records the time, and the instance that works on the dispatch. A repeat by the same
/// instance changes nothing, and a call by another instance is refused.
pub(super) async fn only_one_instance_can_start_a_claim(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "a").await?;
    let (store, claim) = (mailbox(given)?, claimed.claim());
    given.advance(MILLISECOND).await;
    let started = store.start(&claim, id("i")).await?;
    expect_eq(
        (&started.instance, started.started_at),
        (&Some(id("i")), Some(started.claimed_at.saturating_add(MILLISECOND))),
    )?;
    given.advance(MILLISECOND).await;
    expect_eq(&store.start(&claim, id("i")).await?, &started)?;
    expect_kind(store.start(&claim, id("j")).await, ErrorKind::InvalidTransition)?;
    expect_eq(expect_status(given, "a", DispatchStatus::Claimed).await?.claim, Some(started))?;
    let forged = ClaimRef::new(id("a"), ClaimToken::new("forged"));
    expect_kind(store.start(&forged, id("i")).await, ErrorKind::ClaimLost)?;
    settle(given, &claimed, Settlement::Release).await?;
    let next_claim = expect_next_claim(given, "a").await?;
    store.start(&next_claim.claim(), id("j")).await?;
    Ok(())
}

/// `reclaim` ends claims whose lease has expired, in the same way as the next claim would. It ends at most the given
/// number of claims, and reports which dispatches were requeued, dead-lettered or superseded.
pub(super) async fn a_reclaim_ends_expired_claims(given: &Given) -> Verdict {
    let drafts = [("a", "a1", 2), ("b", "b1", 1), ("t", "c1", 2), ("z", "d1", 2)];
    let draft = |(thread, name, max_attempts)| new_dispatch(thread, name).with_max_attempts(max_attempts);
    enqueue_all(given, drafts.map(draft)).await?;
    let store = mailbox(given)?;
    store.claim(claim_request().up_to(3)).await?;
    given.advance(MILLISECOND).await;
    store.claim(claim_request()).await?;
    super::helpers::interrupt_thread_t(given).await?;
    given.advance(LEASE - MILLISECOND).await;
    expect_kind(store.reclaim(0).await, ErrorKind::Invalid)?;
    expect_eq(store.reclaim(1).await?.requeued, dispatch_ids(["a1"]))?;
    let second_reclaim = store.reclaim(1_000).await?;
    expect_eq(
        (second_reclaim.requeued, second_reclaim.dead_lettered, second_reclaim.superseded),
        (vec![], dispatch_ids(["b1"]), dispatch_ids(["c1"])),
    )?;
    expect_eq(store.reclaim(1_000).await?, store_core::Reclaimed::default())?;
    let requeued = expect_status(given, "a1", DispatchStatus::Queued).await?;
    expect_eq((requeued.attempts, requeued.history.len()), (1, 1))?;
    expect_status(given, "d1", DispatchStatus::Claimed).await.map(drop)
}

/// Each ended claim is reported by exactly one of several concurrent reclaims.
pub(super) async fn concurrent_reclaims_count_each_claim_once(given: &Given) -> Verdict {
    enqueue_all(given, (0..40).map(|at| new_dispatch(&format!("t{at}"), &format!("d{at}")))).await?;
    let store = mailbox(given)?;
    store.claim(claim_request().up_to(40)).await?;
    given.advance(LEASE).await;
    let results = run_concurrently(4, |_| {
        let store = std::sync::Arc::clone(&store);
        async move { store.reclaim(1_000).await }
    })
    .await;
    let mut reclaims: Vec<_> = results.into_iter().collect::<store_core::Result<Vec<_>>>()?;
    let count = reclaims.iter_mut().map(|reclaimed| reclaimed.requeued.len()).sum::<usize>();
    expect_eq(count, 40)?;
    for at in 0..40 {
        expect_eq(expect_status(given, &format!("d{at}"), DispatchStatus::Queued).await?.attempts, 1)?;
    }
    Ok(())
}

/// After an attempt was lost, and after a dead letter was requeued, only `history` and `last_error` show the earlier
/// attempts.
pub(super) async fn earlier_attempts_show_only_in_history_and_last_error(given: &Given) -> Verdict {
    let first_claim = enqueue_and_claim(given, "a").await?;
    let store = mailbox(given)?;
    store.start(&first_claim.claim(), id("i")).await?;
    given.advance(LEASE).await;
    store.reclaim(10).await?;
    let dispatch = expect_status(given, "a", DispatchStatus::Queued).await?;
    expect_eq((dispatch.result, dispatch.reason, dispatch.history.len()), (None, None, 1))?;
    let second_claim = expect_some(claim_next(given).await?, "dispatch")?;
    let new_claim = expect_some(second_claim.dispatch.claim.clone(), "claim")?;
    expect_eq((new_claim.started_at, new_claim.instance), (None, None))?;
    settle(given, &second_claim, Settlement::DeadLetter { error: "bad".to_owned() }).await?;
    store.requeue(store_core::Requeue::ids(dispatch_ids(["a"]))).await?;
    let dispatch = expect_status(given, "a", DispatchStatus::Queued).await?;
    expect_eq((dispatch.attempts, dispatch.last_error.as_deref()), (0, Some("bad")))?;
    let attempt_ends: Vec<_> = dispatch.history.iter().map(|attempt| attempt.end).collect();
    expect_eq(attempt_ends, vec![AttemptEnd::LeaseExpired, AttemptEnd::DeadLettered])
}

/// A jump of store time may let a lease expire early or late, but never gives a dispatch two holders.
pub(super) async fn clock_jumps_never_give_a_dispatch_two_holders(given: &Given) -> Verdict {
    let first_claim = enqueue_and_claim(given, "a").await?;
    given.set_back(Duration::from_hours(1)).await;
    expect_nothing_to_claim(given).await?;
    given.advance(Duration::from_hours(1) + LEASE).await;
    let second_claim = expect_next_claim(given, "a").await?;
    expect_kind(try_settle(given, &first_claim, ack()).await?, ErrorKind::ClaimLost)?;
    given.set_back(Duration::from_hours(1)).await;
    let extended_claim = mailbox(given)?.extend(&second_claim.claim(), LEASE).await?;
    expect(extended_claim.lease_until >= extended_claim.claimed_at, "the lease expires before the claim began")?;
    given.advance(Duration::from_hours(10)).await;
    let third_claim = expect_next_claim(given, "a").await?;
    expect_kind(try_settle(given, &second_claim, ack()).await?, ErrorKind::ClaimLost)?;
    settle(given, &third_claim, ack()).await.map(drop)
}
