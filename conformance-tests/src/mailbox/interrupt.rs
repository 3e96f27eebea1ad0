//! Cases about interrupts.

use store_core::{
    ClaimToken, Commit, DispatchOrder, DispatchStatus, ErrorKind, Expect, Interrupt, NewEntry, Settlement, ThreadId,
};

use super::helpers::{
    LEASE, MILLISECOND, ack, delayed_dispatch, enqueue_all, enqueue_and_claim, expect_counts_in_status_order,
    expect_holder_refused, expect_id_or_key_taken_by, expect_next_claim, expect_nothing_to_claim, expect_status,
    filter_of_thread_t, interrupt_thread_t, keyed_dispatch, list_ids_in_order, load_dispatch, mailbox, new_dispatch,
    settle, try_settle,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, run_two_concurrently},
    log::entry_drafts::user_entry,
};

/// An interrupt raises the epoch of the thread and supersedes its queued dispatches. From then on reads show them as
/// superseded, with the time of the interrupt and the reason for it. The claimed dispatch stays claimed.
pub(super) async fn an_interrupt_supersedes_queued_dispatches(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "held").await?;
    enqueue_all(given, [new_dispatch("t", "a"), delayed_dispatch("t", "b", LEASE), keyed_dispatch("t", "c", "k")])
        .await?;
    given.advance(MILLISECOND).await;
    let interrupted = interrupt_thread_t(given).await?;
    expect_eq(
        (interrupted.epoch, interrupted.superseded, interrupted.claimed, interrupted.fence.is_none()),
        (1, 3, Some(id("held")), true),
    )?;
    for name in ["a", "b", "c"] {
        let dispatch = expect_status(given, name, DispatchStatus::Superseded).await?;
        expect_eq(
            (dispatch.finished_at, dispatch.reason.as_deref(), dispatch.epoch),
            (Some(interrupted.at), Some("stop"), 0),
        )?;
        expect(dispatch.updated_at >= interrupted.at, "the dispatch was not updated")?;
        expect_kind(mailbox(given)?.cancel(&id(name)).await, ErrorKind::InvalidTransition)?;
    }
    expect_status(given, "held", DispatchStatus::Claimed).await?;
    expect_counts_in_status_order(given, [0, 1, 0, 0, 3, 0]).await?;
    expect_eq(
        list_ids_in_order(given, filter_of_thread_t().in_status([DispatchStatus::Superseded]), DispatchOrder::End)
            .await?,
        "a b c",
    )?;
    expect_eq(
        list_ids_in_order(given, filter_of_thread_t().in_status([DispatchStatus::Queued]), DispatchOrder::Creation)
            .await?,
        "",
    )?;
    expect_kind(try_settle(given, &claimed, ack()).await?, ErrorKind::StaleEpoch)?;
    expect_nothing_to_claim(given).await
}

/// A superseded dispatch shows the reason and the time of the interrupt that superseded it, not of a later one.
pub(super) async fn each_dispatch_shows_the_interrupt_that_superseded_it(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    let mut times = Vec::new();
    for (name, reason) in [("a", "first"), ("b", "second"), ("c", "third")] {
        enqueue_all(given, [new_dispatch("t", name)]).await?;
        times.push((name, reason, store.interrupt(Interrupt::new(id("t")).because(reason)).await?.at));
        given.advance(MILLISECOND).await;
    }
    for (name, reason, at) in times {
        let dispatch = expect_status(given, name, DispatchStatus::Superseded).await?;
        expect_eq((dispatch.reason.as_deref(), dispatch.finished_at), (Some(reason), Some(at)))?;
    }
    expect_counts_in_status_order(given, [0, 0, 0, 0, 3, 0]).await
}

/// If an interrupt is repeated with the same key, it returns the first answer and interrupts nothing. A thread
/// remembers the last 20 keys.
pub(super) async fn a_key_makes_an_interrupt_repeatable(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    let keyed_interrupt = |key: &str| store.interrupt(Interrupt::new(id("t")).with_key(id(key)));
    enqueue_all(given, [new_dispatch("t", "a")]).await?;
    let first_answer = keyed_interrupt("k0").await?;
    enqueue_all(given, [new_dispatch("t", "b")]).await?;
    let mut repeated_answer = keyed_interrupt("k0").await?;
    expect(repeated_answer.deduplicated, "the repeated interrupt was not deduplicated")?;
    repeated_answer.deduplicated = false;
    expect_eq(repeated_answer, first_answer)?;
    expect_status(given, "b", DispatchStatus::Queued).await?;
    let interrupt_of_u = store.interrupt(Interrupt::new(id("u")).with_key(id("k0"))).await?;
    expect_eq((interrupt_of_u.epoch, interrupt_of_u.deduplicated), (1, false))?;
    for at in 1..20 {
        expect_eq(keyed_interrupt(&format!("k{at}")).await?.epoch, at + 1)?;
    }
    interrupt_thread_t(given).await?;
    expect(
        keyed_interrupt("k0").await?.deduplicated && keyed_interrupt("k19").await?.deduplicated,
        "a key of the last 20 was forgotten",
    )?;
    expect_eq(store.load_epoch(&id("t")).await?, 21)
}

/// The first interrupt of an unknown thread begins epoch 1. Purging superseded dispatches does not change the epoch.
pub(super) async fn epochs_never_decrease(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    expect_eq(store.load_epoch(&id("t")).await?, 0)?;
    expect_eq(interrupt_thread_t(given).await?.epoch, 1)?;
    enqueue_all(given, [new_dispatch("t", "a")]).await?;
    let second_interrupt = interrupt_thread_t(given).await?;
    given.advance(MILLISECOND).await;
    let purge = store_core::Purge::new(second_interrupt.at.saturating_add(MILLISECOND));
    expect_eq(store.purge(purge).await?.removed, 1)?;
    expect_eq(store.load_epoch(&id("t")).await?, 2)?;
    expect_eq(enqueue_all(given, [new_dispatch("t", "b")]).await?[0].epoch, 2)
}

/// A dispatch that is enqueued after an interrupt has the new epoch, and can be claimed as soon as the thread has no
/// claim.
pub(super) async fn a_dispatch_enqueued_after_an_interrupt_can_be_claimed(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "held").await?;
    enqueue_all(given, [new_dispatch("t", "old")]).await?;
    interrupt_thread_t(given).await?;
    expect_eq(enqueue_all(given, [new_dispatch("t", "new")]).await?[0].epoch, 1)?;
    expect_nothing_to_claim(given).await?;
    expect_kind(try_settle(given, &claimed, ack()).await?, ErrorKind::StaleEpoch)?;
    let next_claim = expect_next_claim(given, "new").await?;
    settle(given, &next_claim, ack()).await?;
    expect_nothing_to_claim(given).await?;
    expect_counts_in_status_order(given, [0, 0, 1, 0, 2, 0]).await
}

/// If an enqueue and an interrupt run at the same time, the dispatch either is superseded or has the new epoch.
pub(super) async fn an_enqueue_takes_effect_before_or_after_an_interrupt(given: &Given) -> Verdict {
    for round in 0..30 {
        let (thread, name) = (format!("t{round}"), format!("d{round}"));
        let (producer, interrupter) = (mailbox(given)?, mailbox(given)?);
        let (draft, thread_id) = (new_dispatch(&thread, &name), id::<ThreadId>(&thread));
        let (_, interrupted) = run_two_concurrently(async move { producer.enqueue(vec![draft]).await }, async move {
            interrupter.interrupt(Interrupt::new(thread_id)).await
        })
        .await;
        let (dispatch, superseded) = (load_dispatch(given, &name).await?, interrupted?.superseded);
        let wanted = if superseded == 1 { (DispatchStatus::Superseded, 0) } else { (DispatchStatus::Queued, 1) };
        expect_eq((dispatch.status, dispatch.epoch), wanted)?;
    }
    Ok(())
}

/// An interrupt affects only its own thread.
pub(super) async fn an_interrupt_affects_only_its_thread(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a"), new_dispatch("u", "b")]).await?;
    interrupt_thread_t(given).await?;
    expect_eq(mailbox(given)?.load_epoch(&id("u")).await?, 0)?;
    expect_next_claim(given, "b").await?;
    expect_nothing_to_claim(given).await
}

/// After an interrupt every write of the holder is refused with `StaleEpoch`. The first of these writes supersedes
/// the dispatch.
pub(super) async fn a_holder_loses_its_claim_to_an_interrupt(given: &Given) -> Verdict {
    for write in 0..3 {
        let name = format!("d{write}");
        let claimed = enqueue_and_claim(given, &name).await?;
        interrupt_thread_t(given).await?;
        expect_status(given, &name, DispatchStatus::Claimed).await?;
        let (store, claim) = (mailbox(given)?, claimed.claim());
        let kind = ErrorKind::StaleEpoch;
        match write {
            0 => expect_kind(store.extend(&claim, LEASE).await, kind).map(drop)?,
            1 => expect_kind(store.start(&claim, id("i")).await, kind).map(drop)?,
            _ => expect_kind(try_settle(given, &claimed, ack()).await?, kind).map(drop)?,
        }
        let dispatch = expect_status(given, &name, DispatchStatus::Superseded).await?;
        expect_eq((dispatch.reason.as_deref(), dispatch.attempts, dispatch.history.len()), (Some("stop"), 0, 1))?;
        expect_holder_refused(given, &claimed, ErrorKind::StaleEpoch).await?;
    }
    Ok(())
}

/// If a thread was interrupted and the lease of its claim has expired, the next claim does not return the dispatch, but
/// supersedes it.
pub(super) async fn the_expired_claim_of_an_interrupted_thread_is_superseded(given: &Given) -> Verdict {
    enqueue_and_claim(given, "a").await?;
    interrupt_thread_t(given).await?;
    given.advance(LEASE).await;
    expect_nothing_to_claim(given).await?;
    let dispatch = expect_status(given, "a", DispatchStatus::Superseded).await?;
    expect_eq((dispatch.attempts, dispatch.reason.as_deref()), (0, Some("stop")))
}

/// An interrupt that takes over also supersedes the claimed dispatch. The next dispatch of the thread can then be
/// claimed, and the writes of the old holder are refused with `StaleEpoch`.
pub(super) async fn a_take_over_frees_the_thread(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "a").await?;
    let store = mailbox(given)?;
    let request = Interrupt::new(id("t")).because("mine").with_key(id("k")).taking_over();
    let interrupted = store.interrupt(request.clone()).await?;
    let fence = expect_some(interrupted.fence.clone(), "fence")?;
    expect(fence.claim > claimed.number, "the claim number did not increase")?;
    let dispatch = expect_status(given, "a", DispatchStatus::Superseded).await?;
    expect_eq((dispatch.reason.as_deref(), interrupted.claimed), (Some("mine"), Some(id("a"))))?;
    expect_eq(store.interrupt(request).await?.fence, Some(fence.clone()))?;
    expect_holder_refused(given, &claimed, ErrorKind::StaleEpoch).await?;
    let next_claim = enqueue_and_claim(given, "b").await?;
    expect(next_claim.number > fence.claim, "the claim number did not increase")?;
    settle(given, &next_claim, Settlement::Release).await.map(drop)
}

/// An interrupt that takes over returns a fence. The caller can write to the thread under this fence until the next
/// claim. The old holder can no longer write.
pub(super) async fn a_take_over_fences_out_the_old_holder(given: &Given) -> Verdict {
    let claimed = enqueue_and_claim(given, "a").await?;
    let interrupted = mailbox(given)?.interrupt(Interrupt::new(id("t")).taking_over()).await?;
    let fence = expect_some(interrupted.fence, "fence")?;
    let commit =
        |key: &str, entry: NewEntry| Commit::new(id("t")).expecting(Expect::Any).with_key(id(key)).entry(entry);
    given.expect_accepted(commit("mine", user_entry("a")).fenced(fence.clone())).await?;
    let late_commit = commit("late", user_entry("b")).fenced(claimed.fence());
    expect_kind(given.commits()?.commit(late_commit).await, ErrorKind::StaleEpoch)?;
    given.expect_accepted(commit("again", user_entry("c")).fenced(fence.clone())).await?;
    // The right claim number with a wrong token is not enough.
    let mut forged_fence = fence.clone();
    forged_fence.token = ClaimToken::new("forged");
    let refused = given.commits()?.commit(commit("forged", user_entry("f")).fenced(forged_fence)).await;
    expect(refused.is_err_and(|error| error.kind() != ErrorKind::Unavailable), "a forged fence was accepted")?;
    let next_claim = enqueue_and_claim(given, "b").await?;
    given.expect_accepted(commit("next", user_entry("d")).fenced(next_claim.fence())).await?;
    let refused = given.commits()?.commit(commit("too late", user_entry("e")).fenced(fence)).await;
    let error = refused.err().ok_or_else(|| crate::Failure::new("the old fence was accepted"))?;
    expect(matches!(error.kind(), ErrorKind::ClaimLost | ErrorKind::StaleEpoch), format!("{error:?}"))
}

/// The dispatches that an interrupt superseded can be listed by their epoch.
pub(super) async fn superseded_dispatches_are_found_by_epoch(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a"), new_dispatch("t", "b")]).await?;
    interrupt_thread_t(given).await?;
    enqueue_all(given, [new_dispatch("t", "c")]).await?;
    interrupt_thread_t(given).await?;
    enqueue_all(given, [new_dispatch("t", "d")]).await?;
    for (epoch, wanted) in [(0, "a b"), (1, "c"), (2, "")] {
        let mut filter = filter_of_thread_t().in_status([DispatchStatus::Superseded]);
        filter.epoch = Some(epoch);
        for order in [DispatchOrder::Creation, DispatchOrder::End] {
            expect_eq(list_ids_in_order(given, filter.clone(), order).await?, wanted)?;
        }
    }
    expect_id_or_key_taken_by(given, new_dispatch("t", "a").with_priority(3), "a").await
}

/// An interrupt can make its thread forget the keys of earlier ones: the same key begins a new epoch then. A key of its
/// own is remembered.
pub(super) async fn an_interrupt_can_forget_earlier_keys(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    let with_key = |key: &str| Interrupt::new(id("t")).with_key(id(key)).because("stop");
    expect_eq(store.interrupt(with_key("a")).await?.epoch, 1)?;
    expect_eq(store.interrupt(with_key("b")).await?.epoch, 2)?;
    expect_eq(store.interrupt(with_key("a")).await?.deduplicated, true)?;
    expect_eq(store.interrupt(with_key("c").forgetting()).await?.epoch, 3)?;
    expect_eq(store.interrupt(with_key("c")).await?.deduplicated, true)?;
    let again = store.interrupt(with_key("a")).await?;
    expect_eq((again.epoch, again.deduplicated), (4, false))
}
