//! Helpers that make, commit, claim and settle rows of the outbox.

use std::{sync::Arc, time::Duration};

use store_core::{
    ClaimOutbox, ClaimedOutboxRow, Commit, NewOutboxRow, OutboxFilter, OutboxId, OutboxQuery, OutboxRow,
    OutboxSettlement, OutboxStatus, OutboxStore, PageRequest,
};

use crate::{
    check::{Failure, Verdict, expect_eq},
    given::{Given, id, read_all_pages},
    log::entry_drafts::json,
};

/// The length of the leases in these cases.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// The outbox of the tenant `default`.
pub(super) fn outbox(given: &Given) -> Result<Arc<dyn OutboxStore>, Failure> {
    given.stores()?.outbox.ok_or_else(|| Failure::new("the store has no outbox"))
}

/// A row with this payload, in the lane `mail` for the target `ada`.
pub(super) fn mail_row(text: &str) -> NewOutboxRow {
    new_row("mail", "ada", text)
}

/// A row with this lane, target and payload.
pub(super) fn new_row(lane: &str, target: &str, text: &str) -> NewOutboxRow {
    NewOutboxRow::new(id(lane), id(target), json(&format!("{text:?}")))
}

/// Commits rows to the thread `t`, all in one commit. Returns their ids.
pub(super) async fn commit_rows(
    given: &Given,
    rows: impl IntoIterator<Item = NewOutboxRow>,
) -> Result<Vec<OutboxId>, Failure> {
    Ok(given.commit(Commit::new(id("t")).with_outbox(rows)).await?.outbox)
}

/// Commits rows with these payloads to the thread `t`, one commit after another.
pub(super) async fn commit_rows_one_by_one(given: &Given, texts: &[&str]) -> Verdict {
    for text in texts {
        commit_rows(given, [mail_row(text)]).await?;
    }
    Ok(())
}

/// Claims at most `limit` rows of the lane `mail`.
pub(super) async fn claim_rows(given: &Given, limit: u32) -> Result<Vec<ClaimedOutboxRow>, Failure> {
    Ok(outbox(given)?.claim_outbox(mail_claim_request(limit)).await?.rows)
}

/// A request to claim at most `limit` rows of the lane `mail`.
pub(super) fn mail_claim_request(limit: u32) -> ClaimOutbox {
    ClaimOutbox::new(id("mail"), id("w"), limit).with_lease(LEASE)
}

/// Claims one row of the lane `mail`. Fails if there is none to claim.
pub(super) async fn claim_one_row(given: &Given) -> Result<ClaimedOutboxRow, Failure> {
    claim_rows(given, 1).await?.pop().ok_or_else(|| Failure::new("there is no row to claim"))
}

/// Settles a claimed row, and returns the answer for it.
pub(super) async fn try_settle(
    given: &Given,
    row: &ClaimedOutboxRow,
    settlement: OutboxSettlement,
) -> Result<store_core::Result<OutboxStatus>, Failure> {
    let mut answers = outbox(given)?.settle_outbox(vec![row.settle(settlement)]).await?;
    answers.pop().ok_or_else(|| Failure::new("the settlement got no answer"))
}

/// A settlement of a failed attempt, after which the row is due again in this number of seconds.
pub(super) fn retry_after_seconds(seconds: u64) -> OutboxSettlement {
    OutboxSettlement::Retry { after: Duration::from_secs(seconds), error: "refused".to_owned() }
}

/// A settlement that makes the row a dead letter.
pub(super) fn dead_letter() -> OutboxSettlement {
    OutboxSettlement::DeadLetter { error: "gone".to_owned() }
}

/// Loads a row that must exist.
pub(super) async fn load_row(given: &Given, id: &OutboxId) -> Result<OutboxRow, Failure> {
    outbox(given)?.load_outbox(id).await?.ok_or_else(|| Failure::new(format!("outbox row `{id}` does not exist")))
}

/// Every row that matches a filter, read in small pages.
pub(super) async fn list_rows(given: &Given, filter: OutboxFilter) -> Result<Vec<OutboxRow>, Failure> {
    let store = &outbox(given)?;
    read_all_pages(PageRequest::first(2), |page| store.list_outbox(OutboxQuery::new(filter.clone()).with_page(page)))
        .await
}

/// Every row.
pub(super) async fn all_rows(given: &Given) -> Result<Vec<OutboxRow>, Failure> {
    list_rows(given, OutboxFilter::default()).await
}

/// The payloads of rows, separated by spaces.
pub(super) fn payloads<'a>(rows: impl IntoIterator<Item = &'a OutboxRow>) -> String {
    let texts: Vec<_> = rows.into_iter().map(|row| row.payload.as_str().trim_matches('"')).collect();
    texts.join(" ")
}

/// The payloads of claimed rows, separated by spaces.
pub(super) fn claimed_payloads(rows: &[ClaimedOutboxRow]) -> String {
    payloads(rows.iter().map(|claimed| &claimed.row))
}

/// Claims all rows of the lane `mail` that can be claimed, and checks that they have these payloads, in this order.
pub(super) async fn expect_claimed_payloads(given: &Given, wanted: &str) -> Verdict {
    expect_eq(claimed_payloads(&claim_rows(given, 100).await?), wanted)
}
