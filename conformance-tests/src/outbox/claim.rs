//! Claims of rows.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use store_core::{ClaimOutbox, ErrorKind, OutboxSettlement, OutboxStatus, SettleOutbox};

use super::helpers::{
    LEASE, all_rows, claim_one_row, claim_rows, claimed_payloads, commit_rows, commit_rows_one_by_one, dead_letter,
    expect_claimed_payloads, load_row, mail_claim_request, mail_row, new_row, outbox, try_settle,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, run_concurrently},
};

/// A claim takes rows of the lane that it names, and of the target if it names one. It takes the first of them, ordered
/// by `available_at`, then by creation, then by id.
pub(super) async fn a_claim_takes_the_first_rows_of_its_lane(given: &Given) -> Verdict {
    let creation_time = load_row(given, &commit_rows(given, [mail_row("due")]).await?[0]).await?.created_at;
    let seconds_ago = |seconds| creation_time.saturating_sub(Duration::from_secs(seconds));
    given.advance(Duration::from_secs(1)).await;
    let more_rows = [
        mail_row("second").not_before(seconds_ago(5)),
        mail_row("first").not_before(seconds_ago(9)),
        new_row("hook", "ada", "other"),
    ];
    commit_rows(given, more_rows).await?;
    commit_rows(given, [new_row("mail", "bob", "third").not_before(seconds_ago(2))]).await?;
    let store = outbox(given)?;
    let rows_for_bob = store.claim_outbox(mail_claim_request(1).for_target(id("bob"))).await?.rows;
    expect_eq(claimed_payloads(&rows_for_bob), "third")?;
    expect_eq(claimed_payloads(&claim_rows(given, 2).await?), "first second")?;
    expect_claimed_payloads(given, "due").await?;
    expect_claimed_payloads(given, "").await?;
    expect_eq(claimed_payloads(&store.claim_outbox(ClaimOutbox::new(id("none"), id("w"), 9)).await?.rows), "")
}

/// Each claimed row has its own token and lease, and shows which worker has claimed it.
pub(super) async fn every_row_has_its_own_token(given: &Given) -> Verdict {
    commit_rows(given, ["a", "b", "c"].map(mail_row)).await?;
    let rows = claim_rows(given, 3).await?;
    let mut tokens = BTreeSet::new();
    for claimed_row in &rows {
        let row = &claimed_row.row;
        tokens.insert(claimed_row.token.as_str().to_owned());
        expect_eq((row.status, row.attempts), (OutboxStatus::Claimed, 0))?;
        let claim = row.claim.as_ref().ok_or_else(|| crate::Failure::new("the row has no claim"))?;
        expect_eq(&claim.worker, &id("w"))?;
        expect_eq(claim.lease_until, row.updated_at.saturating_add(LEASE))?;
        expect(!format!("{claimed_row:?}").contains(claimed_row.token.as_str()), "the debug text shows the token")?;
    }
    expect_eq(tokens.len(), 3)?;
    expect_eq(all_rows(given).await?, rows.iter().map(|claimed_row| claimed_row.row.clone()).collect::<Vec<_>>())?;
    let request_with_other_token =
        SettleOutbox::new(rows[0].row.id.clone(), rows[1].token.clone(), OutboxSettlement::Delivered);
    let answer = outbox(given)?.settle_outbox(vec![request_with_other_token]).await?.remove(0);
    expect_kind(answer, ErrorKind::ClaimLost).map(drop)
}

/// A claim may ask for 1 to 1,000 rows. Its lease, and that of an extension, must be longer than zero and at most a
/// day.
pub(super) async fn the_size_and_lease_of_a_claim_are_bounded(given: &Given) -> Verdict {
    commit_rows_one_by_one(given, &["a"]).await?;
    let store = outbox(given)?;
    let day = Duration::from_secs(24 * 60 * 60);
    for request in [
        mail_claim_request(0),
        mail_claim_request(1_001),
        mail_claim_request(u32::MAX),
        mail_claim_request(1).with_lease(Duration::ZERO),
        mail_claim_request(1).with_lease(day + Duration::from_millis(1)),
        mail_claim_request(1).with_lease(Duration::MAX),
    ] {
        expect_kind(store.claim_outbox(request).await, ErrorKind::Invalid)?;
    }
    let claimed_row = store.claim_outbox(mail_claim_request(1_000).with_lease(day)).await?.rows.remove(0);
    for lease in [Duration::ZERO, day + Duration::from_millis(1)] {
        expect_kind(store.extend_outbox(claimed_row.extend(lease)).await, ErrorKind::Invalid)?;
    }
    store.extend_outbox(claimed_row.extend(day)).await?;
    Ok(())
}

/// If several callers claim at the same time, each row is returned to exactly one of them.
pub(super) async fn a_row_has_one_holder(given: &Given) -> Verdict {
    commit_rows(given, (0..60).map(|at| mail_row(&format!("{at}")))).await?;
    let store = outbox(given)?;
    let claims = run_concurrently(8, |_| {
        let store = Arc::clone(&store);
        async move {
            let mut ids = Vec::new();
            loop {
                let rows = store.claim_outbox(mail_claim_request(3)).await?.rows;
                if rows.is_empty() {
                    return Ok::<_, store_core::Error>(ids);
                }
                ids.extend(rows.into_iter().map(|claimed_row| claimed_row.row.id));
            }
        }
    });
    let ids = claims.await.into_iter().collect::<store_core::Result<Vec<_>>>()?.concat();
    expect_eq((ids.len(), ids.iter().collect::<BTreeSet<_>>().len()), (60, 60))
}

/// A claimed row cannot be claimed again before its lease has expired. After that the next claim returns it, and the
/// lost attempt is counted.
pub(super) async fn an_expired_lease_frees_its_row(given: &Given) -> Verdict {
    commit_rows_one_by_one(given, &["a", "b"]).await?;
    let lost_claim = claim_one_row(given).await?;
    given.advance(LEASE.saturating_sub(Duration::from_millis(1))).await;
    expect_eq(claimed_payloads(&claim_rows(given, 1).await?), "b")?;
    given.advance(Duration::from_millis(1)).await;
    expect_eq(load_row(given, &lost_claim.row.id).await?.status, OutboxStatus::Claimed)?;
    let second_claim = claim_one_row(given).await?;
    expect_eq((&second_claim.row.id, second_claim.row.attempts), (&lost_claim.row.id, 1))?;
    expect_eq(second_claim.row.last_error.as_deref(), Some("lease expired"))?;
    expect_kind(try_settle(given, &lost_claim, OutboxSettlement::Delivered).await?, ErrorKind::ClaimLost)?;
    try_settle(given, &second_claim, OutboxSettlement::Delivered).await?.map(drop).map_err(Into::into)
}

/// If every worker that claims a row crashes, the row becomes a dead letter when its attempts are used up.
pub(super) async fn lost_leases_use_up_attempts(given: &Given) -> Verdict {
    let row_id = commit_rows(given, [mail_row("a").with_max_attempts(3)]).await?.remove(0);
    for attempts in 0..3 {
        expect_eq(claim_one_row(given).await?.row.attempts, attempts)?;
        given.advance(LEASE).await;
    }
    expect_claimed_payloads(given, "").await?;
    let found = load_row(given, &row_id).await?;
    expect_eq((found.status, found.attempts), (OutboxStatus::DeadLetter, 3))?;
    expect_eq(found.last_error.as_deref(), Some("lease expired"))?;
    expect(found.finished_at.is_some() && found.claim.is_none(), "the dead letter has no end or still has a claim")
}

/// A row cannot be claimed before its `available_at`. From then on it can be claimed. A row that is not due yet does
/// not block others.
pub(super) async fn no_row_is_claimed_before_it_is_available(given: &Given) -> Verdict {
    let creation_time = load_row(given, &commit_rows(given, [mail_row("now")]).await?[0]).await?.created_at;
    commit_rows(given, [mail_row("later").not_before(creation_time.saturating_add(Duration::from_secs(60)))]).await?;
    commit_rows(given, [mail_row("soon").not_before(creation_time.saturating_add(Duration::from_secs(30)))]).await?;
    expect_claimed_payloads(given, "now").await?;
    given.advance(Duration::from_millis(29_999)).await;
    expect_claimed_payloads(given, "").await?;
    given.advance(Duration::from_millis(1)).await;
    expect_eq(claimed_payloads(&claim_rows(given, 1).await?), "now")?;
    expect_claimed_payloads(given, "soon").await?;
    given.advance(Duration::from_secs(30)).await;
    expect(claimed_payloads(&claim_rows(given, 9).await?).contains("later"), "a row that is due was not claimed")
}

/// A row that was delivered or became a dead letter is never claimed again.
pub(super) async fn final_rows_are_never_claimed(given: &Given) -> Verdict {
    commit_rows(given, ["a", "b"].map(mail_row)).await?;
    let (first_claim, second_claim) = (claim_one_row(given).await?, claim_one_row(given).await?);
    try_settle(given, &first_claim, OutboxSettlement::Delivered).await??;
    try_settle(given, &second_claim, dead_letter()).await??;
    for _ in 0..3 {
        given.advance(LEASE * 10).await;
        expect_claimed_payloads(given, "").await?;
    }
    Ok(())
}
