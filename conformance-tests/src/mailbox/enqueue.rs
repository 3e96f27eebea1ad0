//! Cases about enqueueing and cancelling.

use std::time::Duration;

use store_core::{DispatchStatus, ErrorKind, NewDispatch, Timestamp, When};

use super::helpers::{
    MILLISECOND, ack, delayed_dispatch, enqueue_all, enqueue_and_claim, error_kind, expect_counts_in_status_order,
    expect_id_or_key_taken_by, expect_next_claim, expect_status, keyed_dispatch, load_dispatch, mailbox, new_dispatch,
    settle, try_enqueue,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::id,
    log::entry_drafts::json,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Returns a dispatch with a value in every field that a caller can set.
fn dispatch_with_all_fields() -> NewDispatch {
    let at = Timestamp::from_millis(1_900_000_000_000).unwrap_or_default();
    keyed_dispatch("t", "full", "k")
        .with_payload(json("{\"a\":1.50}"))
        .with_priority(7)
        .available(When::At(at))
        .with_max_attempts(3)
}

/// An enqueued dispatch is queued, has no attempts, has the epoch of its thread, and has every field that the caller
/// gave.
pub(super) async fn an_enqueued_dispatch_has_the_given_fields(given: &Given) -> Verdict {
    super::helpers::interrupt_thread_t(given).await?;
    let answers = enqueue_all(given, [dispatch_with_all_fields(), new_dispatch("t", "plain")]).await?;
    let (found, draft) = (expect_status(given, "full", DispatchStatus::Queued).await?, dispatch_with_all_fields());
    expect_eq((&found.thread, &found.run, &found.payload), (&draft.thread, &draft.run, &draft.payload))?;
    expect_eq((found.priority, &found.dedupe_key, found.max_attempts), (7, &draft.dedupe_key, 3))?;
    expect_eq((found.attempts, found.epoch, found.history.len()), (0, 1, 0))?;
    expect_eq(When::At(found.available_at), draft.available)?;
    expect_eq((answers[0].number, answers[0].available_at), (found.number, found.available_at))?;
    let plain_dispatch = expect_status(given, "plain", DispatchStatus::Queued).await?;
    expect_eq((plain_dispatch.priority, plain_dispatch.max_attempts, plain_dispatch.payload), (128, 5, None))?;
    expect_eq(
        (plain_dispatch.available_at, plain_dispatch.updated_at),
        (plain_dispatch.created_at, plain_dispatch.created_at),
    )?;
    expect(plain_dispatch.number > found.number, "the numbers of dispatches do not increase")?;
    // The store generates an id if the caller gives none.
    let answers = enqueue_all(given, [NewDispatch::new(id("t"), id("r"))]).await?;
    load_dispatch(given, answers[0].id.as_str()).await.map(drop)
}

/// Each dispatch of an enqueue has its own answer, in the order given. The refusal of one does not affect the others.
pub(super) async fn each_enqueued_dispatch_has_its_own_answer(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a")]).await?;
    let other = new_dispatch("t", "a").with_priority(1);
    let drafts =
        vec![new_dispatch("t", "b"), other, new_dispatch("u", "c").with_max_attempts(0), keyed_dispatch("u", "d", "k")];
    let drafts = drafts.into_iter().chain([keyed_dispatch("u", "e", "k"), new_dispatch("t", "b")]).collect();
    let answers = mailbox(given)?.enqueue(drafts).await?;
    let kinds: Vec<_> = answers.iter().map(error_kind).collect();
    let already_exists = Some(ErrorKind::AlreadyExists);
    expect_eq(kinds, vec![None, already_exists, Some(ErrorKind::Invalid), None, already_exists, None])?;
    let last_answer = answers.into_iter().last().and_then(Result::ok);
    expect_eq(
        last_answer.map(|enqueued| (enqueued.id.to_string(), enqueued.deduplicated)),
        Some(("b".to_owned(), true)),
    )?;
    expect_counts_in_status_order(given, [2, 0, 0, 0, 0, 0]).await?;
    expect_eq(mailbox(given)?.enqueue(vec![]).await?.len(), 0)
}

/// A dispatch id can be used once. If an enqueue is repeated with the same id and content, it returns the first answer,
/// whatever happened to the dispatch since then. An enqueue with that id and other content is refused.
pub(super) async fn a_repeated_enqueue_returns_the_first_answer(given: &Given) -> Verdict {
    let draft = || keyed_dispatch("t", "a", "k").available(When::In(Duration::ZERO));
    let first_answer = enqueue_all(given, [draft()]).await?.remove(0);
    expect(!first_answer.deduplicated, "the first enqueue was deduplicated")?;
    let claimed = expect_next_claim(given, "a").await?;
    let mut wanted = first_answer.clone();
    wanted.deduplicated = true;
    expect_eq(&enqueue_all(given, [draft()]).await?[0], &wanted)?;
    settle(given, &claimed, ack()).await?;
    expect_eq(&enqueue_all(given, [draft()]).await?[0], &wanted)?;
    for other in [
        draft().with_priority(1),
        draft().with_max_attempts(1),
        draft().with_payload(json("1")),
        draft().available(When::Now),
        new_dispatch("t", "a").available(When::In(Duration::ZERO)),
        keyed_dispatch("u", "a", "k").available(When::In(Duration::ZERO)),
    ] {
        expect_id_or_key_taken_by(given, other, "a").await?;
    }
    expect_counts_in_status_order(given, [0, 0, 1, 0, 0, 0]).await
}

/// A dedupe key is taken while a queued or claimed dispatch of the thread has it. Another thread can use the same key
/// at the same time.
pub(super) async fn a_key_is_taken_until_its_dispatch_ends(given: &Given) -> Verdict {
    enqueue_all(given, [keyed_dispatch("t", "a", "k")]).await?;
    expect_id_or_key_taken_by(given, keyed_dispatch("t", "b", "k"), "a").await?;
    enqueue_all(given, [keyed_dispatch("u", "other", "k"), keyed_dispatch("t", "c", "other")]).await?;
    let claimed = expect_next_claim(given, "a").await?;
    expect_id_or_key_taken_by(given, keyed_dispatch("t", "b", "k"), "a").await?;
    settle(given, &claimed, store_core::Settlement::Release).await?;
    expect_id_or_key_taken_by(given, keyed_dispatch("t", "b", "k"), "a").await?;
    let claimed = expect_next_claim(given, "a").await?;
    settle(given, &claimed, ack()).await?;
    enqueue_all(given, [keyed_dispatch("t", "b", "k")]).await?;
    expect_id_or_key_taken_by(given, keyed_dispatch("t", "d", "k"), "b").await?;
    mailbox(given)?.cancel(&id("b")).await?;
    enqueue_all(given, [keyed_dispatch("t", "d", "k")]).await.map(drop)
}

/// An interrupt frees the dedupe keys of the queued dispatches, which it supersedes, but not that of the claimed
/// dispatch.
pub(super) async fn an_interrupt_frees_the_keys_of_queued_dispatches(given: &Given) -> Verdict {
    enqueue_all(given, [keyed_dispatch("t", "held", "h")]).await?;
    let held_claim = expect_next_claim(given, "held").await?;
    enqueue_all(given, [keyed_dispatch("t", "a", "k")]).await?;
    super::helpers::interrupt_thread_t(given).await?;
    expect_id_or_key_taken_by(given, keyed_dispatch("t", "b", "h"), "held").await?;
    enqueue_all(given, [keyed_dispatch("t", "b", "k")]).await?;
    expect_id_or_key_taken_by(given, keyed_dispatch("t", "c", "k"), "b").await?;
    expect_kind(super::helpers::try_settle(given, &held_claim, ack()).await?, ErrorKind::StaleEpoch)?;
    enqueue_all(given, [keyed_dispatch("t", "c", "h")]).await.map(drop)
}

/// If the dispatch that has a dedupe key was claimed and its lease has expired, an enqueue with the same key first ends
/// the lost attempt. The key becomes free only if this was the last attempt. Otherwise the dispatch is queued again and
/// keeps its key.
pub(super) async fn a_lost_lease_frees_its_key_only_with_the_last_attempt(given: &Given) -> Verdict {
    for (name, max_attempts) in [("more", 2), ("last", 1)] {
        enqueue_all(given, [keyed_dispatch(name, name, "k").with_max_attempts(max_attempts)]).await?;
        expect_next_claim(given, name).await?;
    }
    given.advance(super::helpers::LEASE - MILLISECOND).await;
    for name in ["more", "last"] {
        expect_id_or_key_taken_by(given, keyed_dispatch(name, "new", "k"), name).await?;
    }
    given.advance(MILLISECOND).await;
    expect_id_or_key_taken_by(given, keyed_dispatch("more", "new", "k"), "more").await?;
    enqueue_all(given, [keyed_dispatch("last", "new", "k")]).await?;
    let dead_letter = expect_status(given, "last", DispatchStatus::DeadLetter).await?;
    expect_eq((dead_letter.attempts, dead_letter.last_error.as_deref()), (1, Some("lease expired")))?;
    let claims = mailbox(given)?.claim(super::helpers::claim_request().of_thread(id("more"))).await?;
    expect_eq(super::helpers::claimed_ids(&claims), "more")
}

/// A dispatch with a `max_attempts` of 0 is refused. The thread and the run of a dispatch need not exist.
pub(super) async fn a_dispatch_needs_a_positive_max_attempts_but_no_thread(given: &Given) -> Verdict {
    expect_kind(try_enqueue(given, new_dispatch("t", "a").with_max_attempts(0)).await?, ErrorKind::Invalid)?;
    expect_eq(mailbox(given)?.load_dispatch(&id("a")).await?, None)?;
    enqueue_all(given, [new_dispatch("no such thread", "a").with_max_attempts(1)]).await?;
    expect_next_claim(given, "a").await.map(drop)
}

/// A queued dispatch can be cancelled. The call is refused for a claimed or finished dispatch, and the error names the
/// dispatch and its status. For an unknown dispatch the error is `NotFound`.
pub(super) async fn only_a_queued_dispatch_can_be_cancelled(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    expect_kind(store.cancel(&id("unknown")).await, ErrorKind::NotFound)?;
    enqueue_all(given, [new_dispatch("t", "a"), delayed_dispatch("t", "b", MINUTE)]).await?;
    for name in ["a", "b"] {
        let cancelled = store.cancel(&id(name)).await?;
        expect_eq(&cancelled, &expect_status(given, name, DispatchStatus::Cancelled).await?)?;
    }
    let claimed = enqueue_and_claim(given, "c").await?;
    let error = expect_kind(store.cancel(&id("c")).await, ErrorKind::InvalidTransition)?;
    expect_eq(error.to_string(), "dispatch `c` cannot go from claimed to cancelled".to_owned())?;
    settle(given, &claimed, ack()).await?;
    for (name, status) in [("a", "cancelled"), ("c", "acked")] {
        let error = expect_kind(store.cancel(&id(name)).await, ErrorKind::InvalidTransition)?;
        expect_eq(error.to_string(), format!("dispatch `{name}` cannot go from {status} to cancelled"))?;
    }
    expect_counts_in_status_order(given, [0, 0, 1, 2, 0, 0]).await
}

/// One call can enqueue at most 1,000 dispatches. One call can settle at most 1,000 claims.
pub(super) async fn a_call_has_a_thousand_dispatches_at_most(given: &Given) -> Verdict {
    let store = mailbox(given)?;
    let dispatches = |count: usize| (0..count).map(|_| NewDispatch::new(id("t"), id("r"))).collect::<Vec<_>>();
    expect_kind(store.enqueue(dispatches(1_001)).await, ErrorKind::LimitExceeded)?;
    expect_counts_in_status_order(given, [0; 6]).await?;
    expect_eq(store.enqueue(dispatches(1_000)).await?.iter().filter(|answer| answer.is_ok()).count(), 1_000)?;
    expect_counts_in_status_order(given, [1_000, 0, 0, 0, 0, 0]).await?;
    let claimed =
        super::helpers::claim_next(given).await?.ok_or_else(|| crate::Failure::new("no dispatch was claimed"))?;
    let settlements = vec![(claimed.claim(), ack()); 1_001];
    expect_kind(store.settle(settlements).await, ErrorKind::LimitExceeded)?;
    expect_counts_in_status_order(given, [999, 1, 0, 0, 0, 0]).await
}

/// A payload or a result whose size is exactly the limit is accepted. One byte more is refused.
pub(super) async fn a_payload_has_a_limit(given: &Given) -> Verdict {
    let given = given.open_another_store_with_limits(|limits| limits.record_bytes = 2_000).await?;
    let json_text_of_size = |bytes: usize| json(&format!("\"{}\"", "x".repeat(bytes - 2)));
    expect_kind(
        try_enqueue(&given, new_dispatch("t", "b").with_payload(json_text_of_size(2_001))).await?,
        ErrorKind::LimitExceeded,
    )?;
    enqueue_all(&given, [new_dispatch("t", "a").with_payload(json_text_of_size(2_000))]).await?;
    let claimed = expect_next_claim(&given, "a").await?;
    let ack_with_result_of_size = |bytes| store_core::Settlement::Ack { result: Some(json_text_of_size(bytes)) };
    expect_kind(
        super::helpers::try_settle(&given, &claimed, ack_with_result_of_size(2_001)).await?,
        ErrorKind::LimitExceeded,
    )?;
    settle(&given, &claimed, ack_with_result_of_size(2_000)).await?;
    expect_eq(load_dispatch(&given, "a").await?.result, Some(json_text_of_size(2_000)))
}
