//! Commits under a claim of the store's own mailbox, and commits that also settle their claim.

use std::sync::Arc;

use store_core::{
    AppendEvents, ClaimToken, ClaimedDispatch, Commit, DispatchStatus, ErrorKind, Expect, NewEvent, Scope, Settlement,
    ThreadPatch,
};

use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{commit_with_message, id, keyed_commit_with_message, run_concurrently},
    log::{entry_drafts::json, writer::ThreadWriter},
    mailbox::helpers::{
        LEASE, ack, claim_request, enqueue_all, enqueue_and_claim, expect_next_claim, expect_nothing_to_claim,
        expect_status, interrupt_thread_t, mailbox, new_dispatch, settle, try_settle,
    },
};

/// A commit to the thread `t` under a claim.
fn commit_under_claim(claimed: &ClaimedDispatch, key: &str) -> Commit {
    keyed_commit_with_message(&id("t"), key, "x").fenced(claimed.fence())
}

/// A commit whose token does not prove a current claim of the dispatch is refused and changes nothing.
pub(super) async fn a_lost_claim_writes_nothing(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    let first = enqueue_and_claim(given, "a").await?;
    given.expect_accepted(commit_under_claim(&first, "k1")).await?;
    let mut forged_fence = first.fence();
    forged_fence.token = ClaimToken::new("forged");
    writer
        .expect_commit_refused(
            keyed_commit_with_message(&id("t"), "k2", "x").fenced(forged_fence),
            ErrorKind::ClaimLost,
        )
        .await?;
    // The right token is not enough if the claim number is wrong.
    let mut fence_with_other_number = first.fence();
    fence_with_other_number.claim.counter += 1;
    writer
        .expect_commit_refused(
            keyed_commit_with_message(&id("t"), "k2", "x").fenced(fence_with_other_number),
            ErrorKind::ClaimLost,
        )
        .await?;
    given.advance(LEASE).await;
    let second = expect_next_claim(given, "a").await?;
    // The old holder of the claim is refused, although the new holder has not written yet.
    writer.expect_commit_refused(commit_under_claim(&first, "k2"), ErrorKind::ClaimLost).await?;
    writer.expect_commit_refused(commit_under_claim(&first, "k2").settling(ack()), ErrorKind::ClaimLost).await?;
    expect_status(given, "a", DispatchStatus::Claimed).await?;
    given.expect_accepted(commit_under_claim(&second, "k2")).await?;
    settle(given, &second, ack()).await?;
    writer.expect_commit_refused(commit_under_claim(&second, "k3"), ErrorKind::ClaimLost).await?;
    // A claim of another thread does not count for this thread.
    enqueue_all(given, [new_dispatch("u", "b")]).await?;
    let claim_of_u = expect_next_claim(given, "b").await?;
    writer.expect_commit_refused(commit_under_claim(&claim_of_u, "k3"), ErrorKind::ClaimLost).await.map(drop)
}

/// After an interrupt, a commit under an earlier claim is refused with `StaleEpoch` and does not change the dispatch.
pub(super) async fn a_stale_claim_writes_nothing(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    let claimed = enqueue_and_claim(given, "a").await?;
    given.expect_accepted(commit_under_claim(&claimed, "k1")).await?;
    interrupt_thread_t(given).await?;
    for commit in [commit_under_claim(&claimed, "k2"), commit_under_claim(&claimed, "k2").settling(ack())] {
        writer.expect_commit_refused(commit, ErrorKind::StaleEpoch).await?;
        expect_status(given, "a", DispatchStatus::Claimed).await?;
    }
    expect_kind(try_settle(given, &claimed, ack()).await?, ErrorKind::StaleEpoch)?;
    expect_status(given, "a", DispatchStatus::Superseded).await?;
    writer.expect_commit_refused(commit_under_claim(&claimed, "k2"), ErrorKind::StaleEpoch).await?;
    let next = enqueue_and_claim(given, "b").await?;
    given.expect_accepted(commit_under_claim(&next, "k2")).await?;
    writer.expect_commit_refused(commit_under_claim(&claimed, "k3"), ErrorKind::StaleEpoch).await.map(drop)
}

/// A commit can settle its claim in the same atomic step. Another dispatch of the thread can then be claimed.
pub(super) async fn a_commit_settles_its_claim(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "a").await?;
    enqueue_all(given, [new_dispatch("t", "b"), new_dispatch("u", "c")]).await?;
    let result = Some(json("{\"n\":1}"));
    let receipt =
        given.commit(commit_under_claim(&claimed, "k").settling(Settlement::Ack { result: result.clone() })).await?;
    expect_eq(receipt.version.number(), 1)?;
    let acked = expect_status(given, "a", DispatchStatus::Acked).await?;
    expect_eq((acked.result, acked.history.len()), (result, 1))?;
    // A commit with only a fence and a settlement also settles the dispatch. It creates no thread.
    let second = mailbox(given)?.claim(claim_request().of_thread(id("u"))).await?.claimed.remove(0);
    given.expect_accepted(Commit::new(id("u")).fenced(second.fence()).settling(Settlement::Release)).await?;
    expect_eq(given.threads()?.load_thread(&id("u")).await?, None)?;
    expect_status(given, "c", DispatchStatus::Queued).await?;
    let claims = mailbox(given)?.claim(claim_request().up_to(9)).await?;
    expect_eq(claims.claimed.len(), 2)
}

/// A refused commit does not settle its claim. If the claim is lost and the guard does not match either, the error is
/// `ClaimLost`.
pub(super) async fn a_refused_commit_settles_nothing(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    let claimed = enqueue_and_claim(given, "a").await?;
    given.expect_accepted(commit_under_claim(&claimed, "k1")).await?;
    let settling_commit = || commit_with_message(&id("t"), Expect::Absent, "x").fenced(claimed.fence()).settling(ack());
    writer.expect_commit_refused(settling_commit(), ErrorKind::Conflict).await?;
    let before = expect_status(given, "a", DispatchStatus::Claimed).await?;
    writer
        .expect_commit_refused(commit_under_claim(&claimed, "k1").settling(ack()), ErrorKind::IdempotencyMismatch)
        .await?;
    expect_eq(expect_status(given, "a", DispatchStatus::Claimed).await?, before)?;
    expect_nothing_to_claim(given).await?;
    let mut forged_commit = settling_commit();
    forged_commit.fence.as_mut().ok_or_else(|| crate::Failure::new("the fence is missing"))?.token =
        ClaimToken::new("forged");
    writer.expect_commit_refused(forged_commit, ErrorKind::ClaimLost).await?;
    given.expect_accepted(commit_under_claim(&claimed, "k2").settling(ack())).await
}

/// A commit that is repeated with the same key and content returns the first receipt, although the first commit settled
/// the claim. A commit with the same key and another settlement, or with none, has other content and is refused.
pub(super) async fn a_repeat_of_a_settling_commit_gives_its_receipt(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "a").await?;
    let commit = || commit_under_claim(&claimed, "k").settling(ack());
    let first = given.commit(commit()).await?;
    let second = given.commit(commit()).await?;
    expect_eq((second.version, second.deduplicated), (first.version, true))?;
    let other = commit_under_claim(&claimed, "k").settling(Settlement::Release);
    expect_kind(given.commits()?.commit(other).await, ErrorKind::IdempotencyMismatch)?;
    expect_kind(given.commits()?.commit(commit_under_claim(&claimed, "k")).await, ErrorKind::IdempotencyMismatch)?;
    expect(settle(given, &claimed, ack()).await?.deduplicated, "the commit did not settle the claim")?;
    expect_eq(expect_status(given, "a", DispatchStatus::Acked).await?.history.len(), 1)
}

/// Appends of events and updates of threads check their fence as commits do: under a stale claim they are refused.
pub(super) async fn event_appends_and_thread_updates_check_their_fence(given: &Given) -> Verdict {
    let (threads, events) = (given.threads()?, given.stores()?.events);
    let events = events.ok_or_else(|| crate::Failure::new("the store has no events"))?;
    let claimed = enqueue_and_claim(given, "a").await?;
    given.expect_accepted(commit_under_claim(&claimed, "k")).await?;
    let update = || {
        let mut patch = ThreadPatch::default().with_title("x");
        patch.fence = Some(claimed.fence());
        patch
    };
    let append = || {
        let mut request = AppendEvents::new([NewEvent::new(id("kind"), [Scope::Thread(id("t"))])]);
        request.fence = Some(claimed.fence());
        request
    };
    threads.update_thread(&id("t"), update(), Expect::Any).await?;
    events.append_events(append()).await?;
    interrupt_thread_t(given).await?;
    expect_kind(threads.update_thread(&id("t"), update(), Expect::Any).await, ErrorKind::StaleEpoch)?;
    expect_kind(events.append_events(append()).await, ErrorKind::StaleEpoch)?;
    given.advance(LEASE).await;
    let other = enqueue_and_claim(given, "b").await?;
    settle(given, &other, ack()).await?;
    expect_kind(threads.update_thread(&id("t"), update(), Expect::Any).await, ErrorKind::StaleEpoch)?;
    expect_eq(events.load_scope(&Scope::Thread(id("t"))).await?.appended, 1)
}

/// A commit under a claim whose lease has expired is accepted until another caller claims the dispatch. The token
/// decides, not the clock.
pub(super) async fn an_expired_lease_can_write_until_another_claim(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "a").await?;
    given.advance(LEASE * 2).await;
    given.expect_accepted(commit_under_claim(&claimed, "k1")).await?;
    given.expect_accepted(commit_under_claim(&claimed, "k2").settling(ack())).await?;
    expect_status(given, "a", DispatchStatus::Acked).await.map(drop)
}

/// If a commit that settles its claim races with a new claim of the dispatch, exactly one of them succeeds: either the
/// dispatch is settled, or another worker holds it.
pub(super) async fn either_a_settling_commit_or_a_competing_claim_succeeds(given: &Given) -> Verdict {
    for round in 0..20 {
        let claimed = enqueue_and_claim(given, "a").await?;
        given.advance(LEASE).await;
        let (store, commits) = (mailbox(given)?, given.commits()?);
        let commit = commit_under_claim(&claimed, &format!("k{round}")).settling(ack());
        let successes = run_concurrently(2, |task| {
            let (store, commits, commit) = (Arc::clone(&store), Arc::clone(&commits), commit.clone());
            async move {
                match task {
                    0 => commits.commit(commit).await.is_ok(),
                    _ => store.claim(claim_request()).await.is_ok_and(|claims| !claims.claimed.is_empty()),
                }
            }
        })
        .await;
        expect_eq(successes.iter().filter(|one_succeeded| **one_succeeded).count(), 1)?;
        let commit_succeeded = successes[0];
        let status = if commit_succeeded { DispatchStatus::Acked } else { DispatchStatus::Claimed };
        expect_status(given, "a", status).await?;
        expect_eq(given.threads()?.load_thread(&id("t")).await?.is_some(), commit_succeeded)?;
        given.store().delete_tenant(&id("default")).await?;
    }
    Ok(())
}

/// A commit with a settlement and without a fence is refused, because there is no claim to settle.
pub(super) async fn settling_needs_a_fence(given: &Given) -> Verdict {
    let commit = keyed_commit_with_message(&id("t"), "k", "x").settling(ack());
    expect_kind(given.commits()?.commit(commit).await, ErrorKind::Invalid)?;
    expect_eq(given.threads()?.load_thread(&id("t")).await?, None)
}
