//! Rows with an order key, which are delivered one after another.

use std::{sync::Arc, time::Duration};

use store_core::{Commit, NewOutboxRow, OutboxSettlement, RequeueOutbox};
use tokio::sync::Mutex;

use super::helpers::{
    all_rows, claim_one_row, claim_rows, claimed_payloads, commit_rows, dead_letter, expect_claimed_payloads, load_row,
    mail_claim_request, mail_row, new_row, outbox, retry_after_seconds, try_settle,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq},
    given::{id, run_concurrently},
};

fn row_with_order_key(text: &str) -> NewOutboxRow {
    mail_row(text).with_order_key(id("o"))
}

/// Of the rows with the same order key, only one is claimed at a time, in the order of their commits. Rows with another
/// key, with another target or without a key are not blocked.
pub(super) async fn rows_of_an_order_key_are_claimed_one_at_a_time(given: &Given) -> Verdict {
    commit_rows(given, [row_with_order_key("a1"), row_with_order_key("a2"), mail_row("b").with_order_key(id("p"))])
        .await?;
    commit_rows(given, [row_with_order_key("a3"), new_row("mail", "bob", "c").with_order_key(id("o")), mail_row("d")])
        .await?;
    let mut rows = claim_rows(given, 9).await?;
    rows.sort_by_key(|claimed_row| claimed_row.row.payload.as_str().to_owned());
    expect_eq(claimed_payloads(&rows), "a1 b c d")?;
    expect_claimed_payloads(given, "").await?;
    try_settle(given, &rows[0], OutboxSettlement::Delivered).await??;
    let second_claim = claim_one_row(given).await?;
    expect_eq(claimed_payloads(std::slice::from_ref(&second_claim)), "a2")?;
    try_settle(given, &second_claim, OutboxSettlement::Release).await??;
    let second_claim = claim_one_row(given).await?;
    expect_eq(claimed_payloads(std::slice::from_ref(&second_claim)), "a2")?;
    try_settle(given, &second_claim, OutboxSettlement::Delivered).await??;
    expect_claimed_payloads(given, "a3").await
}

/// A row that is not yet due, or that waits for its next attempt, blocks later rows with the same order key.
pub(super) async fn a_waiting_row_blocks_later_rows_of_its_order_key(given: &Given) -> Verdict {
    let creation_time = load_row(given, &commit_rows(given, [mail_row("x")]).await?[0]).await?.created_at;
    commit_rows(
        given,
        [
            row_with_order_key("a1").not_before(creation_time.saturating_add(Duration::from_secs(60))),
            row_with_order_key("a2"),
        ],
    )
    .await?;
    expect_claimed_payloads(given, "x").await?;
    given.advance(Duration::from_secs(60)).await;
    let rows = claim_rows(given, 9).await?;
    let first_claim = rows.iter().find(|claimed_row| claimed_row.row.payload.as_str() == "\"a1\"");
    let first_claim = first_claim.ok_or_else(|| Failure::new("row `a1` was not claimed"))?;
    expect(!claimed_payloads(&rows).contains("a2"), "a row was claimed before an earlier one")?;
    try_settle(given, first_claim, retry_after_seconds(100)).await??;
    given.advance(Duration::from_secs(99)).await;
    expect(!claimed_payloads(&claim_rows(given, 9).await?).contains('a'), "a row was claimed before a retried one")?;
    given.advance(Duration::from_secs(1)).await;
    expect(claimed_payloads(&claim_rows(given, 9).await?).contains("a1"), "the first row was not claimed")
}

/// A row that was delivered or became a dead letter blocks no other row.
pub(super) async fn a_final_row_blocks_nothing(given: &Given) -> Verdict {
    commit_rows(given, ["a1", "a2", "a3"].map(row_with_order_key)).await?;
    let claimed_row = claim_one_row(given).await?;
    try_settle(given, &claimed_row, dead_letter()).await??;
    let claimed_row = claim_one_row(given).await?;
    expect_eq(claimed_payloads(std::slice::from_ref(&claimed_row)), "a2")?;
    try_settle(given, &claimed_row, OutboxSettlement::Delivered).await??;
    expect_claimed_payloads(given, "a3").await
}

/// A requeued row is again claimed before the later rows with its order key. If one of these is claimed already, the
/// requeued row waits.
pub(super) async fn a_requeued_row_keeps_its_position(given: &Given) -> Verdict {
    commit_rows(given, ["a1", "a2", "a3"].map(row_with_order_key)).await?;
    let first_claim = claim_one_row(given).await?;
    try_settle(given, &first_claim, dead_letter()).await??;
    let second_claim = claim_one_row(given).await?;
    outbox(given)?.requeue_outbox(RequeueOutbox::ids([first_claim.row.id.clone()])).await?.remove(0).outcome?;
    expect_claimed_payloads(given, "").await?;
    try_settle(given, &second_claim, OutboxSettlement::Release).await??;
    for wanted in ["a1", "a2", "a3"] {
        let claimed_row = claim_one_row(given).await?;
        expect_eq(claimed_payloads(std::slice::from_ref(&claimed_row)), wanted)?;
        expect_claimed_payloads(given, "").await?;
        try_settle(given, &claimed_row, OutboxSettlement::Delivered).await??;
    }
    expect_claimed_payloads(given, "").await
}

/// If commits of several threads use the same order key at the same time, the rows of each thread are claimed in the
/// order of its commits, every row is claimed once, and no row is blocked forever.
pub(super) async fn rows_keep_the_order_of_their_commits(given: &Given) -> Verdict {
    let commits = given.commits()?;
    let store = outbox(given)?;
    let payloads_in_claim_order = Arc::new(Mutex::new(Vec::new()));
    let results = run_concurrently(5, |task| {
        let (commits, store) = (Arc::clone(&commits), Arc::clone(&store));
        let payloads_in_claim_order = Arc::clone(&payloads_in_claim_order);
        async move {
            for at in 0..10 {
                if task < 3 {
                    let two_rows =
                        [row_with_order_key(&format!("{task}.{at}.0")), row_with_order_key(&format!("{task}.{at}.1"))];
                    let _receipt = commits.commit(Commit::new(id(&format!("t-{task}"))).with_outbox(two_rows)).await?;
                    continue;
                }
                for claimed_row in store.claim_outbox(mail_claim_request(9)).await?.rows {
                    // The next row cannot be claimed before this one is settled.
                    payloads_in_claim_order.lock().await.push(claimed_row.row.payload.as_str().to_owned());
                    store.settle_outbox(vec![claimed_row.settle(OutboxSettlement::Delivered)]).await?.remove(0)?;
                }
            }
            Ok::<_, store_core::Error>(())
        }
    });
    results.await.into_iter().collect::<store_core::Result<()>>()?;
    while let Some(claimed_row) = claim_rows(given, 1).await?.pop() {
        try_settle(given, &claimed_row, OutboxSettlement::Delivered).await??;
        payloads_in_claim_order.lock().await.push(claimed_row.row.payload.as_str().to_owned());
    }
    let payloads_in_claim_order = payloads_in_claim_order.lock().await;
    expect_eq(payloads_in_claim_order.len(), 60)?;
    for task in 0..3 {
        let rows_of_task: Vec<_> =
            payloads_in_claim_order.iter().filter(|text| text.starts_with(&format!("\"{task}."))).collect();
        expect(rows_of_task.is_sorted(), "a row was claimed before an earlier one")?;
    }
    expect(all_rows(given).await?.iter().all(|row| row.finished_at.is_some()), "a row is not finished")
}
