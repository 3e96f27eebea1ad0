//! Cases about settlements.

use std::time::Duration;

use store_core::{AttemptEnd, DispatchStatus, ErrorKind, Settlement};

use super::helpers::{
    MILLISECOND, ack, enqueue_all, enqueue_and_claim, error_kind, expect_counts_in_status_order, expect_next_claim,
    expect_nothing_to_claim, expect_status, interrupt_thread_t, load_dispatch, mailbox, new_dispatch, retry, settle,
    try_settle,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    log::entry_drafts::json,
};

const MINUTE: Duration = Duration::from_secs(60);

/// Each kind of settlement changes a claimed dispatch as the contract's table of dispatches says.
pub(super) async fn each_settlement_changes_the_dispatch_as_the_contract_says(given: &Given) -> Verdict {
    let text = || "why".to_owned();
    for (settlement, status, attempts, end) in [
        (Settlement::Ack { result: Some(json("1")) }, DispatchStatus::Acked, 0, AttemptEnd::Acked),
        (retry(MINUTE), DispatchStatus::Queued, 1, AttemptEnd::Retried),
        (Settlement::Snooze { after: MINUTE }, DispatchStatus::Queued, 0, AttemptEnd::Snoozed),
        (Settlement::Release, DispatchStatus::Queued, 0, AttemptEnd::Released),
        (Settlement::DeadLetter { error: text() }, DispatchStatus::DeadLetter, 0, AttemptEnd::DeadLettered),
        (Settlement::Cancel { reason: text() }, DispatchStatus::Cancelled, 0, AttemptEnd::Cancelled),
    ] {
        let name = end.name();
        enqueue_all(given, [new_dispatch(name, name)]).await?;
        let claims = mailbox(given)?.claim(super::helpers::claim_request().of_thread(crate::given::id(name))).await?;
        let settled = settle(given, &claims.claimed[0], settlement).await?;
        let found = expect_status(given, name, status).await?;
        expect_eq((settled.status, settled.attempts, settled.deduplicated), (status, attempts, false))?;
        expect_eq((found.attempts, found.history.iter().map(|attempt| attempt.end).collect()), (attempts, vec![end]))?;
        let available = (status == DispatchStatus::Queued).then_some(found.available_at);
        expect_eq(settled.available_at, available)?;
    }
    Ok(())
}

/// A retry makes the dispatch a dead letter if no attempt is left. The error of the retry is kept.
pub(super) async fn the_last_retry_makes_a_dead_letter(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a").with_max_attempts(3)]).await?;
    for attempt in 1..=3 {
        let claimed = expect_next_claim(given, "a").await?;
        let settled = settle(given, &claimed, retry(Duration::ZERO)).await?;
        let status = if attempt == 3 { DispatchStatus::DeadLetter } else { DispatchStatus::Queued };
        expect_eq((settled.status, settled.attempts), (status, attempt))?;
    }
    expect_nothing_to_claim(given).await?;
    let dead_letter = expect_status(given, "a", DispatchStatus::DeadLetter).await?;
    expect_eq((dead_letter.last_error.as_deref(), dead_letter.attempts), (Some("failed"), 3))?;
    expect_counts_in_status_order(given, [0, 0, 0, 0, 0, 1]).await
}

/// A snooze or a release uses up no attempt, however often it is repeated.
pub(super) async fn a_snooze_or_release_uses_up_no_attempt(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a").with_max_attempts(1)]).await?;
    for _ in 0..3 {
        let claimed = expect_next_claim(given, "a").await?;
        settle(given, &claimed, Settlement::Release).await?;
        let claimed = expect_next_claim(given, "a").await?;
        settle(given, &claimed, Settlement::Snooze { after: MILLISECOND }).await?;
        expect_nothing_to_claim(given).await?;
        given.advance(MILLISECOND).await;
    }
    expect_eq(expect_status(given, "a", DispatchStatus::Queued).await?.attempts, 0)
}

/// Each settlement of a call has its own answer. The refusal of one does not affect the others.
pub(super) async fn each_settlement_has_its_own_answer(given: &Given) -> Verdict {
    enqueue_all(given, ["a", "b", "c"].map(|name| new_dispatch(name, name))).await?;
    let store = mailbox(given)?;
    let held_claims = store.claim(super::helpers::claim_request().up_to(3)).await?.claimed;
    settle(given, &held_claims[1], Settlement::Release).await?;
    let second_claims = store.claim(super::helpers::claim_request()).await?;
    expect_eq(second_claims.claimed.len(), 1)?;
    let settlements =
        held_claims.iter().map(|claimed| (claimed.claim(), ack())).chain([(held_claims[0].claim(), ack())]).collect();
    let answers = store.settle(settlements).await?;
    let kinds: Vec<_> = answers.iter().map(error_kind).collect();
    expect_eq(kinds, vec![None, Some(ErrorKind::ClaimLost), None, None])?;
    expect(answers[3].as_ref().is_ok_and(|settled| settled.deduplicated), "the repeat was not deduplicated")?;
    expect_status(given, "b", DispatchStatus::Claimed).await.map(drop)
}

/// If a settlement is repeated with the same token, it returns the first answer, even if the dispatch has changed since
/// then. A different settlement with that token is refused with `ClaimLost`.
pub(super) async fn a_repeated_settlement_returns_the_first_answer(given: &Given) -> Verdict {
    let first_claim = enqueue_and_claim(given, "a").await?;
    let mut wanted = settle(given, &first_claim, retry(Duration::ZERO)).await?;
    wanted.deduplicated = true;
    let before = load_dispatch(given, "a").await?;
    expect_eq(&settle(given, &first_claim, retry(Duration::ZERO)).await?, &wanted)?;
    expect_eq(load_dispatch(given, "a").await?, before)?;
    for other in [retry(MILLISECOND), ack(), Settlement::Release] {
        expect_kind(try_settle(given, &first_claim, other).await?, ErrorKind::ClaimLost)?;
    }
    let second_claim = expect_next_claim(given, "a").await?;
    expect_eq(&settle(given, &first_claim, retry(Duration::ZERO)).await?, &wanted)?;
    settle(given, &second_claim, ack()).await?;
    interrupt_thread_t(given).await?;
    expect_eq(&settle(given, &first_claim, retry(Duration::ZERO)).await?, &wanted)?;
    expect_eq(settle(given, &second_claim, ack()).await?.status, DispatchStatus::Acked)?;
    expect_counts_in_status_order(given, [0, 0, 1, 0, 0, 0]).await
}

/// A dispatch remembers its last 20 attempts. If the settlement of an older attempt is repeated, it is refused with
/// `ClaimLost`.
pub(super) async fn twenty_attempts_are_remembered(given: &Given) -> Verdict {
    enqueue_all(given, [new_dispatch("t", "a")]).await?;
    let mut claims = Vec::new();
    for _ in 0..22 {
        let claimed = expect_next_claim(given, "a").await?;
        settle(given, &claimed, Settlement::Release).await?;
        claims.push(claimed);
    }
    let history = load_dispatch(given, "a").await?.history;
    let numbers: Vec<_> = history.iter().map(|attempt| attempt.claim).collect();
    expect_eq(numbers, claims.iter().skip(2).map(|claimed| claimed.number).collect::<Vec<_>>())?;
    expect(settle(given, &claims[2], Settlement::Release).await?.deduplicated, "the repeat was not deduplicated")?;
    expect_kind(try_settle(given, &claims[1], Settlement::Release).await?, ErrorKind::ClaimLost).map(drop)
}

/// A dispatch that was settled with a retry or a snooze can be claimed again after the delay, and not before.
pub(super) async fn a_retried_dispatch_waits_for_its_delay(given: &Given) -> Verdict {
    for settlement in [retry(MINUTE), Settlement::Snooze { after: MINUTE }] {
        let claimed = enqueue_and_claim(given, &format!("{:?}", std::mem::discriminant(&settlement))).await?;
        settle(given, &claimed, settlement).await?;
        given.advance(MINUTE - MILLISECOND).await;
        expect_nothing_to_claim(given).await?;
        given.advance(MILLISECOND).await;
        let next_claim = expect_next_claim(given, claimed.dispatch.id.as_str()).await?;
        settle(given, &next_claim, ack()).await?;
    }
    Ok(())
}

/// A result, an error and a reason are returned as they were given. A long error is truncated and ends in `…`.
pub(super) async fn results_errors_and_reasons_round_trip(given: &Given) -> Verdict {
    let result = json("{\"b\":1.50,\"a\":[1e3],\"b\":2}");
    let claim_of_a = enqueue_and_claim(given, "a").await?;
    settle(given, &claim_of_a, Settlement::Ack { result: Some(result.clone()) }).await?;
    expect_eq(load_dispatch(given, "a").await?.result, Some(result))?;
    let claim_of_b = enqueue_and_claim(given, "b").await?;
    settle(given, &claim_of_b, Settlement::DeadLetter { error: "\u{0}é🦀\n".to_owned() }).await?;
    expect_eq(load_dispatch(given, "b").await?.last_error.as_deref(), Some("\u{0}é🦀\n"))?;
    let claim_of_c = enqueue_and_claim(given, "c").await?;
    settle(given, &claim_of_c, Settlement::Cancel { reason: "not wanted".to_owned() }).await?;
    expect_eq(load_dispatch(given, "c").await?.reason.as_deref(), Some("not wanted"))?;
    let claim_of_d = enqueue_and_claim(given, "d").await?;
    settle(given, &claim_of_d, Settlement::DeadLetter { error: "é".repeat(600) }).await?;
    let error = load_dispatch(given, "d").await?.last_error.unwrap_or_default();
    expect(error.len() <= 1 << 10 && error.ends_with('…') && error.starts_with("éé"), error)
}

/// After any settlement of a dispatch, the next dispatch of its thread can be claimed.
pub(super) async fn a_thread_is_free_after_any_settlement(given: &Given) -> Verdict {
    let text = || "no".to_owned();
    let settlements = [
        ack(),
        retry(MINUTE),
        Settlement::Snooze { after: MINUTE },
        Settlement::DeadLetter { error: text() },
        Settlement::Cancel { reason: text() },
        Settlement::Release,
    ];
    enqueue_all(given, (0..settlements.len()).map(|at| new_dispatch("t", &format!("d{at}")))).await?;
    for (at, settlement) in settlements.into_iter().enumerate() {
        let claimed = expect_next_claim(given, &format!("d{at}")).await?;
        expect_nothing_to_claim(given).await?;
        settle(given, &claimed, settlement).await?;
    }
    // The released dispatch can be claimed again at once.
    expect_next_claim(given, "d5").await.map(drop)
}
