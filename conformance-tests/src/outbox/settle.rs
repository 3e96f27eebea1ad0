//! Settlements and extensions of claims.

use std::time::Duration;

use store_core::{ClaimToken, ErrorKind, ExtendOutbox, OutboxSettlement, OutboxStatus, SettleOutbox};

use super::helpers::{
    LEASE, all_rows, claim_one_row, claim_rows, claimed_payloads, commit_rows, commit_rows_one_by_one, dead_letter,
    expect_claimed_payloads, load_row, mail_row, outbox, retry_after_seconds, try_settle,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
};

/// After a settlement, the row has the status, the number of attempts and the error that belong to this kind of
/// settlement. Each settlement of a call has its own answer, in the order given.
pub(super) async fn settlements_end_an_attempt(given: &Given) -> Verdict {
    commit_rows(given, ["a", "b", "c", "d"].map(mail_row)).await?;
    let rows = claim_rows(given, 4).await?;
    let settlements = [OutboxSettlement::Delivered, retry_after_seconds(0), dead_letter(), OutboxSettlement::Release];
    let mut requests = Vec::new();
    for (claimed_row, settlement) in rows.iter().zip(settlements) {
        requests.push(claimed_row.settle(settlement));
    }
    requests.push(requests[0].clone());
    let mut answers = outbox(given)?.settle_outbox(requests).await?;
    expect_kind(answers.remove(4), ErrorKind::ClaimLost)?;
    let statuses = answers.into_iter().collect::<store_core::Result<Vec<_>>>()?;
    let wanted = vec![OutboxStatus::Delivered, OutboxStatus::Pending, OutboxStatus::DeadLetter, OutboxStatus::Pending];
    expect_eq(statuses, wanted)?;
    let found = all_rows(given).await?;
    let attempts_and_errors: Vec<_> = found.iter().map(|row| (row.attempts, row.last_error.as_deref())).collect();
    expect_eq(attempts_and_errors, vec![(0, None), (1, Some("refused")), (1, Some("gone")), (0, None)])?;
    let are_finished: Vec<_> = found.iter().map(|row| row.finished_at.is_some()).collect();
    expect_eq(are_finished, vec![true, false, true, false])?;
    expect(found.iter().all(|row| row.claim.is_none()), "a settled row still has a claim")
}

/// A settlement or an extension without the token of the current claim is refused and changes nothing.
pub(super) async fn without_the_token_nothing_changes(given: &Given) -> Verdict {
    commit_rows_one_by_one(given, &["a"]).await?;
    let claimed_row = claim_one_row(given).await?;
    let released_token = claimed_row.token.clone();
    try_settle(given, &claimed_row, OutboxSettlement::Release).await??;
    let claimed_row = claim_one_row(given).await?;
    let store = outbox(given)?;
    let rows_before = all_rows(given).await?;
    let unknown_id = "unknown".parse()?;
    for (row, token) in [
        (&claimed_row.row.id, ClaimToken::new("forged")),
        (&claimed_row.row.id, ClaimToken::new("")),
        (&claimed_row.row.id, released_token),
        (&unknown_id, claimed_row.token.clone()),
    ] {
        for settlement in
            [OutboxSettlement::Delivered, retry_after_seconds(0), dead_letter(), OutboxSettlement::Release]
        {
            let request = SettleOutbox::new(row.clone(), token.clone(), settlement);
            expect_kind(store.settle_outbox(vec![request]).await?.remove(0), ErrorKind::ClaimLost)?;
        }
        let extension = ExtendOutbox::new(row.clone(), token, LEASE);
        expect_kind(store.extend_outbox(extension).await, ErrorKind::ClaimLost)?;
        expect_eq(all_rows(given).await?, rows_before.clone())?;
    }
    try_settle(given, &claimed_row, OutboxSettlement::Delivered).await?.map(drop).map_err(Into::into)
}

/// If all attempts of a row have failed, the row becomes a dead letter. A release uses up no attempt.
pub(super) async fn a_row_without_remaining_attempts_becomes_a_dead_letter(given: &Given) -> Verdict {
    let id = commit_rows(given, [mail_row("a").with_max_attempts(2)]).await?.remove(0);
    for _ in 0..3 {
        let claimed_row = claim_one_row(given).await?;
        try_settle(given, &claimed_row, OutboxSettlement::Release).await??;
    }
    let claimed_row = claim_one_row(given).await?;
    expect_eq(try_settle(given, &claimed_row, retry_after_seconds(0)).await??, OutboxStatus::Pending)?;
    given.advance(Duration::from_millis(1)).await;
    let claimed_row = claim_one_row(given).await?;
    expect_eq(try_settle(given, &claimed_row, retry_after_seconds(0)).await??, OutboxStatus::DeadLetter)?;
    let found = load_row(given, &id).await?;
    expect_eq((found.attempts, found.last_error.as_deref()), (2, Some("refused")))?;
    expect_claimed_payloads(given, "").await
}

/// A retried row cannot be claimed before its delay has passed. From then on it can be claimed.
pub(super) async fn a_retried_row_waits_for_its_delay(given: &Given) -> Verdict {
    commit_rows_one_by_one(given, &["a", "b"]).await?;
    let claimed_row = claim_one_row(given).await?;
    try_settle(given, &claimed_row, retry_after_seconds(60)).await??;
    expect_claimed_payloads(given, "b").await?;
    let found = load_row(given, &claimed_row.row.id).await?;
    expect_eq(found.available_at, found.updated_at.saturating_add(Duration::from_secs(60)))?;
    given.advance(Duration::from_millis(59_999)).await;
    expect(!claimed_payloads(&claim_rows(given, 9).await?).contains('a'), "a retried row was claimed too early")?;
    given.advance(Duration::from_millis(1)).await;
    expect_claimed_payloads(given, "a").await
}

/// An extension sets the end of the lease to store time plus the requested length. It is also accepted after the lease
/// has expired, until another caller has claimed the row.
pub(super) async fn an_extension_prolongs_a_claim(given: &Given) -> Verdict {
    commit_rows_one_by_one(given, &["a"]).await?;
    let claimed_row = claim_one_row(given).await?;
    let extension = claimed_row.extend(LEASE);
    given.advance(LEASE / 2).await;
    let lease_end = outbox(given)?.extend_outbox(extension.clone()).await?;
    let found = load_row(given, &claimed_row.row.id).await?;
    expect_eq(found.claim.map(|claim| claim.lease_until), Some(lease_end))?;
    expect_eq(lease_end, claimed_row.row.updated_at.saturating_add(LEASE + LEASE / 2))?;
    given.advance(LEASE.saturating_sub(Duration::from_millis(1))).await;
    expect_claimed_payloads(given, "").await?;
    given.advance(LEASE).await;
    outbox(given)?.extend_outbox(extension.clone()).await?;
    expect_claimed_payloads(given, "").await?;
    given.advance(LEASE).await;
    expect_claimed_payloads(given, "a").await?;
    expect_kind(outbox(given)?.extend_outbox(extension).await, ErrorKind::ClaimLost).map(drop)
}

/// A long error text is truncated between two characters and ends in `…`.
pub(super) async fn a_long_error_is_truncated(given: &Given) -> Verdict {
    commit_rows_one_by_one(given, &["a", "b"]).await?;
    for settlement in [
        OutboxSettlement::Retry { after: Duration::from_secs(60), error: "é".repeat(1_000) },
        OutboxSettlement::DeadLetter { error: "é".repeat(1_000) },
    ] {
        let claimed_row = claim_one_row(given).await?;
        try_settle(given, &claimed_row, settlement).await??;
        let error = load_row(given, &claimed_row.row.id).await?.last_error.unwrap_or_default();
        expect(error.len() <= 1_024 && error.len() > 1_000, format!("{} bytes", error.len()))?;
        expect(error.starts_with("ééé") && error.ends_with("é…"), &error)?;
    }
    Ok(())
}
