//! Cases about claims: which dispatches a claim returns, and in which order.

use std::{collections::BTreeSet, time::Duration};

use store_core::{ClaimRequest, DispatchStatus, ErrorKind, NotClaimedReason, Settlement};

use super::helpers::{
    LEASE, MILLISECOND, ack, claim_and_ack_all, claim_request, claimed_ids, delayed_dispatch, enqueue_all,
    enqueue_and_claim, expect_next_claim, expect_nothing_to_claim, expect_status, interrupt_thread_t, load_dispatch,
    mailbox, new_dispatch, settle,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::id,
};

const MINUTE: Duration = Duration::from_secs(60);

/// A claim returns no more dispatches than it asks for, each of a different thread and each with its own token.
pub(super) async fn a_claim_returns_at_most_one_dispatch_per_thread(given: &Given) -> Verdict {
    let drafts = ["a1", "a2", "b1", "b2", "c1"].map(|name| new_dispatch(&name[..1], name));
    enqueue_all(given, drafts).await?;
    let store = mailbox(given)?;
    expect_kind(store.claim(claim_request().up_to(0)).await, ErrorKind::Invalid)?;
    expect_kind(store.claim(claim_request().up_to(1_001)).await, ErrorKind::Invalid)?;
    let first_claims = store.claim(claim_request().up_to(2)).await?;
    expect_eq(claimed_ids(&first_claims), "a1 b1")?;
    let later_claims = store.claim(claim_request().up_to(100)).await?;
    expect_eq(claimed_ids(&later_claims), "c1")?;
    let claimed: Vec<_> = first_claims.claimed.iter().chain(&later_claims.claimed).collect();
    let tokens: BTreeSet<_> = claimed.iter().map(|claimed| claimed.token.as_str()).collect();
    expect_eq(tokens.len(), 3)?;
    for claimed in &claimed {
        expect_eq(
            &claimed.dispatch,
            &expect_status(given, claimed.dispatch.id.as_str(), DispatchStatus::Claimed).await?,
        )?;
    }
    expect_nothing_to_claim(given).await
}

/// A claim that names a thread returns a dispatch of that thread. It returns nothing if the thread is unknown or
/// already has a claim.
pub(super) async fn a_claim_may_name_a_thread(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a"), new_dispatch("u", "b"), delayed_dispatch("u", "c", MINUTE)]).await?;
    let store = mailbox(given)?;
    expect_eq(claimed_ids(&store.claim(claim_request().of_thread(id("unknown"))).await?), "")?;
    expect_eq(claimed_ids(&store.claim(claim_request().up_to(9).of_thread(id("u"))).await?), "b")?;
    expect_eq(claimed_ids(&store.claim(claim_request().of_thread(id("u"))).await?), "")?;
    expect_next_claim(given, "a").await.map(drop)
}

/// A dispatch cannot be claimed before its `available_at`. From then on it can be claimed.
pub(super) async fn no_dispatch_is_claimed_before_it_is_available(given: &Given) -> Verdict {
    enqueue_all(given, [delayed_dispatch("t", "a", MINUTE), delayed_dispatch("u", "b", MINUTE + MILLISECOND)]).await?;
    expect_nothing_to_claim(given).await?;
    given.advance(MINUTE - MILLISECOND).await;
    expect_nothing_to_claim(given).await?;
    expect_eq(mailbox(given)?.list_ready_threads(store_core::PageRequest::default()).await?.items.len(), 0)?;
    given.advance(MILLISECOND).await;
    expect_next_claim(given, "a").await?;
    expect_nothing_to_claim(given).await?;
    given.advance(MILLISECOND).await;
    expect_next_claim(given, "b").await.map(drop)
}

/// If a dispatch was available but was not claimed, and store time then goes back, the dispatch cannot be claimed until
/// store time reaches its `available_at` again.
pub(super) async fn nothing_is_claimed_early_after_the_clock_goes_back(given: &Given) -> Verdict {
    enqueue_all(given, [delayed_dispatch("t", "a", MINUTE), delayed_dispatch("u", "b", MINUTE)]).await?;
    given.advance(MINUTE).await;
    expect_next_claim(given, "a").await?;
    given.set_back(MINUTE).await;
    expect_nothing_to_claim(given).await?;
    given.advance(MINUTE - MILLISECOND).await;
    expect_nothing_to_claim(given).await?;
    given.advance(MILLISECOND).await;
    expect_next_claim(given, "b").await.map(drop)
}

/// Within a thread, the dispatch with the lowest priority number is claimed first. Of dispatches with equal priority,
/// the dispatch that was enqueued first is claimed first. A dispatch that is not yet available does not block others.
pub(super) async fn priority_decides_within_a_thread(given: &Given) -> Verdict {
    let dispatch_with_priority = |name: &str, priority: u8| new_dispatch("t", name).with_priority(priority);
    enqueue_all(
        given,
        [
            dispatch_with_priority("c", 128),
            dispatch_with_priority("e", 255),
            delayed_dispatch("t", "late", MINUTE).with_priority(0),
        ],
    )
    .await?;
    enqueue_all(
        given,
        [
            dispatch_with_priority("d", 128),
            dispatch_with_priority("b", 1),
            dispatch_with_priority("a", 0),
            dispatch_with_priority("f", 255),
        ],
    )
    .await?;
    expect_eq(claim_and_ack_all(given).await?, "a b c d e f")?;
    given.advance(MINUTE).await;
    expect_eq(claim_and_ack_all(given).await?, "late")
}

/// Threads are ordered by the priority of their first available dispatch. Of threads with equal priority, the thread
/// that has waited longest comes first.
pub(super) async fn priority_decides_among_threads(given: &Given) -> Verdict {
    let drafts = [("a", "a1", 128), ("b", "b1", 128), ("c", "c1", 0), ("d", "d1", 200), ("e", "e1", 0)];
    for (thread, name, priority) in drafts {
        enqueue_all(given, [new_dispatch(thread, name).with_priority(priority)]).await?;
        given.advance(Duration::from_secs(2)).await;
    }
    enqueue_all(given, [new_dispatch("d", "d0").with_priority(0), new_dispatch("a", "a2").with_priority(128)]).await?;
    let claims = mailbox(given)?.claim(claim_request().up_to(9)).await?;
    // The thread `d` has waited since `d1` was enqueued, and therefore longer than `e`.
    expect_eq(claimed_ids(&claims), "c1 d0 e1 a1 b1")
}

/// A thread waits as long as it has an available dispatch and no claim. After a dispatch of a thread was settled, the
/// thread therefore comes after all threads that were ready at that time.
pub(super) async fn the_thread_that_waited_longest_comes_first(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("a", "a1"), new_dispatch("a", "a2"), new_dispatch("a", "a3")]).await?;
    given.advance(Duration::from_secs(2)).await;
    enqueue_all(
        given,
        [new_dispatch("b", "b1"), delayed_dispatch("c", "c1", Duration::from_secs(1)), new_dispatch("b", "b2")],
    )
    .await?;
    let mut order = Vec::new();
    for _ in 0..5 {
        let claimed = expect_some(super::helpers::claim_next(given).await?, "dispatch")?;
        given.advance(Duration::from_secs(2)).await;
        settle(given, &claimed, ack()).await?;
        order.push(claimed.dispatch.id.to_string());
    }
    expect_eq(order.join(" "), "a1 b1 c1 a2 b2")
}

/// A claim by id returns the dispatch if the thread has no claim, even before its `available_at` and before other
/// dispatches. Otherwise the answer says why the dispatch was not claimed.
pub(super) async fn a_claim_by_id_reports_why_it_returned_nothing(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    let claim_by_id = |name: &str| store.claim(claim_request().of_dispatch(id(name)));
    enqueue_all(given, [new_dispatch("t", "a"), delayed_dispatch("t", "b", MINUTE)]).await?;
    expect_eq(claim_by_id("unknown").await?.missed, Some(NotClaimedReason::Unknown))?;
    let claim_from_wrong_thread = claim_request().of_dispatch(id("a")).of_thread(id("u"));
    expect_eq(store.claim(claim_from_wrong_thread).await?.missed, Some(NotClaimedReason::Unknown))?;
    let early_answer = claim_by_id("b").await?;
    expect_eq((claimed_ids(&early_answer), early_answer.missed), ("b".to_owned(), None))?;
    expect_eq(claim_by_id("a").await?.missed, Some(NotClaimedReason::Busy(id("b"))))?;
    expect_eq(claim_by_id("b").await?.missed, Some(NotClaimedReason::NotQueued(DispatchStatus::Claimed)))?;
    settle(given, &early_answer.claimed[0], Settlement::Release).await?;
    // A release does not change when `b` is due, so `a` is next.
    let claim_of_a = expect_next_claim(given, "a").await?;
    settle(given, &claim_of_a, ack()).await?;
    expect_eq(claim_by_id("a").await?.missed, Some(NotClaimedReason::NotQueued(DispatchStatus::Acked)))?;
    interrupt_thread_t(given).await?;
    expect_eq(claim_by_id("b").await?.missed, Some(NotClaimedReason::NotQueued(DispatchStatus::Superseded)))
}

/// A lease ends at store time plus the requested length. A claim or an extension is refused if the length is zero or
/// more than 24 hours.
pub(super) async fn a_lease_has_the_requested_length(given: &Given) -> Verdict {
    const DAY: Duration = Duration::from_hours(24);
    enqueue_all(given, [new_dispatch("t", "a"), new_dispatch("u", "b")]).await?;
    let store = mailbox(given)?;
    for lease in [Duration::ZERO, DAY + MILLISECOND] {
        expect_kind(store.claim(ClaimRequest::new(id("w"), lease)).await, ErrorKind::Invalid)?;
    }
    for (name, lease) in [("a", MILLISECOND), ("b", DAY)] {
        let claimed = store.claim(ClaimRequest::new(id("w"), lease).of_dispatch(id(name))).await?.claimed.remove(0);
        let stored_claim = expect_some(claimed.dispatch.claim, "claim")?;
        expect_eq(stored_claim.lease_until, stored_claim.claimed_at.saturating_add(lease))?;
        expect_eq(
            (stored_claim.worker, stored_claim.number, stored_claim.started_at),
            (id("w"), claimed.number, None),
        )?;
        for extension in [Duration::ZERO, DAY + MILLISECOND] {
            let claim = store_core::ClaimRef::new(id(name), claimed.token.clone());
            expect_kind(store.extend(&claim, extension).await, ErrorKind::Invalid)?;
        }
    }
    Ok(())
}

/// The claim numbers of a thread increase with each claim, however the earlier claims ended, and even if the earlier
/// dispatches were purged.
pub(super) async fn claim_numbers_grow(given: &Given) -> Verdict {
    let (store, mut last_number) = (mailbox(given)?, None);
    for round in 0..5 {
        let claimed = enqueue_and_claim(given, &format!("d{round}")).await?;
        expect(
            last_number.is_none_or(|last_number| last_number < claimed.number),
            format!("claim {} follows {last_number:?}", claimed.number),
        )?;
        last_number = Some(claimed.number);
        let settlement = if round % 2 == 0 { ack() } else { Settlement::Cancel { reason: "no".to_owned() } };
        settle(given, &claimed, settlement).await?;
        given.advance(MILLISECOND).await;
        let finished_at = load_dispatch(given, &format!("d{round}")).await?.finished_at;
        let purge_before = expect_some(finished_at, "end")?.saturating_add(MILLISECOND);
        expect_eq(store.purge(store_core::Purge::new(purge_before)).await?.removed, 1)?;
    }
    Ok(())
}

/// If a tenant is deleted and its name is used again, the new claim numbers are higher than the earlier ones.
pub(super) async fn claim_numbers_continue_to_grow_in_a_recreated_tenant(given: &Given) -> Verdict {
    let first_claim = enqueue_and_claim(given, "a").await?;
    settle(given, &first_claim, Settlement::Release).await?;
    let second_claim = expect_next_claim(given, "a").await?;
    given.store().delete_tenant(&id("default")).await?;
    let claim_after_deletion = enqueue_and_claim(given, "a").await?;
    expect(
        claim_after_deletion.number > second_claim.number,
        format!("claim {} follows {}", claim_after_deletion.number, second_claim.number),
    )?;
    expect(claim_after_deletion.number.incarnation > first_claim.number.incarnation, "the incarnation did not increase")
}

/// A claim returns at once and without a dispatch if the mailbox is empty, if the thread is unknown, or if an interrupt
/// superseded all dispatches.
pub(super) async fn a_claim_of_an_empty_mailbox_returns_nothing(given: &Given) -> Verdict {
    expect_nothing_to_claim(given).await?;
    expect_eq(claimed_ids(&mailbox(given)?.claim(claim_request().of_thread(id("unknown"))).await?), "")?;
    enqueue_all(given, [new_dispatch("t", "a"), new_dispatch("t", "b")]).await?;
    interrupt_thread_t(given).await?;
    expect_nothing_to_claim(given).await?;
    expect_eq(claimed_ids(&mailbox(given)?.claim(claim_request().of_thread(id("t"))).await?), "")?;
    expect_status(given, "a", DispatchStatus::Superseded).await?;
    given.advance(LEASE).await;
    expect_nothing_to_claim(given).await
}
