//! Ids of the outbox: lane, target, dedupe key, order key, worker.

use store_core::{
    ClaimOutbox, Commit, CommitCoordinator, Json, NewOutboxRow, OutboxFilter, OutboxId, OutboxQuery, OutboxRow,
    OutboxSettlement, OutboxStore, PageRequest,
};

use super::sorted;
use crate::{
    Failure, Verdict,
    check::{expect, expect_eq, expect_some},
    given::{id, read_all_pages},
};

/// Three rows. The first has `text` as its lane and target. The second has `text` as its dedupe key, in a lane that all
/// texts share. The third has `text` as its order key, in another lane that all texts share.
fn new_rows(text: &str) -> [NewOutboxRow; 3] {
    let row = |lane: &str, target: &str| NewOutboxRow::new(id(lane), id(target), Json::null());
    [
        row(text, text).with_dedupe_key(id("key")),
        row("keys", "target").with_dedupe_key(id(text)),
        row("orders", "target").with_dedupe_key(id(text)).with_order_key(id(text)),
    ]
}

/// Commits the rows of `text`, and returns their ids.
async fn commit_rows(commits: &dyn CommitCoordinator, text: &str) -> Result<Vec<OutboxId>, Failure> {
    Ok(commits.commit(Commit::new(id("outbox")).with_outbox(new_rows(text))).await?.outbox)
}

/// Writes records with `text` as each of their ids.
pub(super) async fn write_records(commits: &dyn CommitCoordinator, text: &str) -> Verdict {
    commit_rows(commits, text).await.map(drop)
}

/// Checks that the rows of `text` are found by each id. Then claims and settles the row in the lane `text`, and commits
/// all rows again.
pub(super) async fn expect_found_by_each_id(
    commits: &dyn CommitCoordinator,
    outbox: &dyn OutboxStore,
    text: &str,
) -> Verdict {
    for filter in [OutboxFilter::default().of_lane(id(text)), OutboxFilter::default().for_target(id(text))] {
        expect_eq(outbox.count_outbox(&filter).await?.pending, 1)?;
        expect_eq(list_rows(outbox, filter).await?.len(), 1)?;
    }
    let claim = ClaimOutbox::new(id(text), id(text), 10).for_target(id(text));
    let mut claimed = outbox.claim_outbox(claim).await?.rows;
    let claimed_row = expect_some(claimed.pop(), "row")?;
    expect_eq((claimed.len(), claimed_row.row.lane.as_str(), claimed_row.row.target.as_str()), (0, text, text))?;
    expect_eq(claimed_row.row.claim.as_ref().map(|claim| claim.worker.as_str()), Some(text))?;
    outbox.settle_outbox(vec![claimed_row.settle(OutboxSettlement::Delivered)]).await?.remove(0)?;
    let ids_of_repeat = commit_rows(commits, text).await?;
    expect_eq(&ids_of_repeat[0], &claimed_row.row.id)?;
    for row in &ids_of_repeat[1..] {
        let stored = expect_some(outbox.load_outbox(row).await?, "row")?;
        expect_eq(stored.dedupe_key, Some(id(text)))?;
    }
    Ok(())
}

async fn list_rows(outbox: &dyn OutboxStore, filter: OutboxFilter) -> Result<Vec<OutboxRow>, Failure> {
    let query = OutboxQuery::new(filter);
    read_all_pages(PageRequest::first(100), |page| outbox.list_outbox(query.clone().with_page(page))).await
}

/// Checks the lanes `keys` and `orders`, which all texts share: each text is the dedupe key of one row in the first,
/// and the order key of one row in the second.
pub(super) async fn expect_texts_work_together(outbox: &dyn OutboxStore, texts: &[String]) -> Verdict {
    let wanted = sorted(texts.iter().map(String::as_str));
    let rows_of_keys = list_rows(outbox, OutboxFilter::default().of_lane(id("keys"))).await?;
    expect_eq(
        sorted(rows_of_keys.iter().filter_map(|row| row.dedupe_key.as_ref()).map(AsRef::as_ref)),
        wanted.clone(),
    )?;
    // Rows with different order keys can be claimed at the same time.
    let claimed = outbox.claim_outbox(ClaimOutbox::new(id("orders"), id("w"), 100)).await?.rows;
    expect_eq(
        sorted(claimed.iter().filter_map(|claimed_row| claimed_row.row.order_key.as_ref()).map(AsRef::as_ref)),
        wanted,
    )?;
    let no_filter = OutboxFilter::default();
    expect(
        list_rows(outbox, no_filter).await?.len() == 3 * texts.len(),
        "there are more or fewer rows than were written",
    )
}
