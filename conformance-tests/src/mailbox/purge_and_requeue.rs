//! Cases about purging and requeueing.

use std::time::Duration;

use store_core::{DispatchFilter, DispatchStatus, ErrorKind, Interrupt, Purge, Requeue, Settlement, Timestamp};

use super::helpers::{
    LEASE, MILLISECOND, ack, delayed_dispatch, dispatch_ids, enqueue_all, enqueue_and_claim, error_kind,
    expect_counts_in_status_order, expect_id_or_key_taken_by, expect_next_claim, expect_status, interrupt_thread_t,
    keyed_dispatch, load_dispatch, mailbox, new_dispatch, retry, settle,
};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind},
    given::id,
};

/// A purge removes dispatches that ended strictly before the given time, up to its limit, and returns their number. A
/// dry run changes nothing. Queued and claimed dispatches are not removed.
pub(super) async fn a_purge_removes_records_that_ended_before_its_time(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    let mut end_times = Vec::new();
    for name in ["a", "b", "c"] {
        let claimed = enqueue_and_claim(given, name).await?;
        settle(given, &claimed, ack()).await?;
        end_times.extend(load_dispatch(given, name).await?.finished_at);
        given.advance(MILLISECOND).await;
    }
    let claimed = enqueue_and_claim(given, "held").await?;
    enqueue_all(given, [new_dispatch("t", "queued")]).await?;
    let purge_with = |before, limit, dry_run| {
        let mut purge = Purge::new(before);
        (purge.limit, purge.dry_run) = (limit, dry_run);
        purge
    };
    expect_kind(store.purge(purge_with(end_times[0], 0, false)).await, ErrorKind::Invalid)?;
    expect_eq(store.purge(purge_with(end_times[0], 9, false)).await?.removed, 0)?;
    expect_eq(store.purge(purge_with(Timestamp::MAX, 9, true)).await?.removed, 3)?;
    expect_eq(store.purge(purge_with(end_times[2], 1, false)).await?.removed, 1)?;
    expect_eq(store.load_dispatch(&id("a")).await?, None)?;
    expect_status(given, "b", DispatchStatus::Acked).await?;
    expect_eq(store.purge(purge_with(Timestamp::MAX, 9, false)).await?.removed, 2)?;
    expect_counts_in_status_order(given, [1, 1, 0, 0, 0, 0]).await?;
    settle(given, &claimed, ack()).await?;
    enqueue_all(given, [new_dispatch("t", "a").with_priority(1)]).await.map(drop)
}

/// For a purge, a superseded dispatch ended at the time of its interrupt. Each superseded dispatch counts towards the
/// limit of a purge.
pub(super) async fn superseded_dispatches_are_purged_by_the_time_of_their_interrupt(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    enqueue_all(given, [keyed_dispatch("t", "a", "k"), new_dispatch("t", "b"), delayed_dispatch("t", "c", LEASE)])
        .await?;
    given.advance(LEASE).await;
    let interrupted_at = interrupt_thread_t(given).await?.at;
    enqueue_all(given, [keyed_dispatch("t", "new", "k")]).await?;
    given.advance(MILLISECOND).await;
    expect_eq(store.purge(Purge::new(interrupted_at)).await?.removed, 0)?;
    let mut purge_of_two = Purge::new(interrupted_at.saturating_add(MILLISECOND));
    purge_of_two.limit = 2;
    expect_eq(store.purge(purge_of_two.clone()).await?.removed, 2)?;
    expect_counts_in_status_order(given, [1, 0, 0, 0, 1, 0]).await?;
    expect_eq(expect_status(given, "c", DispatchStatus::Superseded).await?.finished_at, Some(interrupted_at))?;
    expect_eq(store.purge(purge_of_two).await?.removed, 1)?;
    expect_counts_in_status_order(given, [1, 0, 0, 0, 0, 0]).await?;
    expect_id_or_key_taken_by(given, keyed_dispatch("t", "other", "k"), "new").await?;
    expect_eq(store.interrupt(Interrupt::new(id("t"))).await?.epoch, 2)
}

/// A requeued dead letter has all its attempts available again, keeps its history, and has the current epoch of its
/// thread. Each dispatch of the request has its own answer.
pub(super) async fn dead_letters_can_be_requeued(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    enqueue_all(given, [new_dispatch("t", "a").with_max_attempts(1), new_dispatch("t", "b")]).await?;
    let claimed = expect_next_claim(given, "a").await?;
    settle(given, &claimed, retry(Duration::ZERO)).await?;
    interrupt_thread_t(given).await?;
    let answers = store.requeue(Requeue::ids(dispatch_ids(["a", "b", "unknown", "a"]))).await?;
    let kinds: Vec<_> = answers.iter().map(|(_, answer)| error_kind(answer)).collect();
    let invalid_transition = Some(ErrorKind::InvalidTransition);
    expect_eq(kinds, vec![None, invalid_transition, Some(ErrorKind::NotFound), invalid_transition])?;
    let requeued = expect_status(given, "a", DispatchStatus::Queued).await?;
    expect_eq((requeued.attempts, requeued.epoch, requeued.history.len()), (0, 1, 1))?;
    expect_eq(requeued.last_error.as_deref(), Some("failed"))?;
    let claimed = expect_next_claim(given, "a").await?;
    expect_eq(settle(given, &claimed, retry(Duration::ZERO)).await?.status, DispatchStatus::DeadLetter)?;
    expect_counts_in_status_order(given, [0, 0, 0, 0, 1, 1]).await
}

/// A requeue by filter requeues the oldest dead letters that match the filter, and ignores the statuses of the filter.
/// A dead letter is not requeued if another dispatch has taken its dedupe key.
pub(super) async fn requeueing_respects_keys_and_filters(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    for (thread, name) in [("t", "a"), ("t", "b"), ("u", "c"), ("t", "d")] {
        enqueue_all(given, [keyed_dispatch(thread, name, name)]).await?;
        let claimed = expect_next_claim(given, name).await?;
        settle(given, &claimed, Settlement::DeadLetter { error: "bad".to_owned() }).await?;
        given.advance(MILLISECOND).await;
    }
    enqueue_all(given, [keyed_dispatch("t", "holder", "a")]).await?;
    let filter = || DispatchFilter::of_thread(id("t")).in_status([DispatchStatus::Acked]);
    expect_kind(store.requeue(Requeue::matching(filter(), 0)).await, ErrorKind::Invalid)?;
    let answers = store.requeue(Requeue::matching(filter(), 2)).await?;
    let found: Vec<_> = answers.iter().map(|(name, answer)| (name.as_str(), error_kind(answer))).collect();
    expect_eq(found, vec![("a", Some(ErrorKind::AlreadyExists)), ("b", None)])?;
    expect_status(given, "a", DispatchStatus::DeadLetter).await?;
    expect_id_or_key_taken_by(given, keyed_dispatch("t", "e", "b"), "b").await?;
    mailbox(given)?.cancel(&id("holder")).await?;
    let answers = store.requeue(Requeue::matching(DispatchFilter::default(), 9)).await?;
    expect_eq(answers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), vec!["a", "c", "d"])
}

/// A purge that names dispatches removes those of them that have ended, whenever that was, and no others.
pub(super) async fn a_purge_can_name_dispatches(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    for name in ["a", "b", "c"] {
        let claimed = enqueue_and_claim(given, name).await?;
        settle(given, &claimed, ack()).await?;
    }
    enqueue_all(given, [new_dispatch("t", "queued")]).await?;
    let ids = |names: &[&str]| names.iter().map(|name| id(name)).collect::<Vec<_>>();
    expect_eq(store.purge(Purge::of(ids(&["b", "queued", "unknown"]))).await?.removed, 1)?;
    expect_eq(store.load_dispatch(&id("b")).await?, None)?;
    expect_counts_in_status_order(given, [1, 0, 2, 0, 0, 0]).await?;
    let mut dry = Purge::of(ids(&["a"]));
    dry.dry_run = true;
    expect_kind(store.purge(dry).await, ErrorKind::Invalid)?;
    expect_kind(store.purge(Purge::of(vec![id("a"); 1_001])).await, ErrorKind::LimitExceeded)?;
    expect_counts_in_status_order(given, [1, 0, 2, 0, 0, 0]).await
}
