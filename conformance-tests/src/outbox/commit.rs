//! Rows that are written by commits.

use std::sync::Arc;

use store_core::{
    Commit, DeleteRequest, ErrorKind, Expect, IgnoreProgress, OutboxFilter, OutboxSettlement, OutboxStatus, StateChange,
};

use super::helpers::{
    all_rows, claim_one_row, claim_rows, commit_rows, expect_claimed_payloads, load_row, mail_row, new_row, outbox,
    payloads, try_settle,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, keyed_commit_with_message, run_concurrently},
    log::entry_drafts::{json, user_entry},
};

/// The rows of a commit are written together with it. They are pending and have no attempts, and the receipt has their
/// ids in the order given. A commit that has only rows needs no guard and does not change the version.
pub(super) async fn outbox_rows_are_written_with_their_commit(given: &Given) -> Verdict {
    let draft = new_row("mail", "ada", "x").with_order_key(id("o")).with_dedupe_key(id("d")).with_max_attempts(3);
    let commit = keyed_commit_with_message(&id("t"), "k", "x").with_outbox([draft, mail_row("y")]);
    let receipt = given.commit(commit).await?;
    expect_eq(receipt.outbox.len(), 2)?;
    let found = load_row(given, &receipt.outbox[0]).await?;
    expect_eq((found.lane.as_str(), found.target.as_str(), found.payload.as_str()), ("mail", "ada", "\"x\""))?;
    expect_eq((&found.order_key, &found.dedupe_key), (&Some(id("o")), &Some(id("d"))))?;
    expect_eq((found.status, found.attempts, found.max_attempts), (OutboxStatus::Pending, 0, 3))?;
    expect_eq((found.claim, found.last_error, found.finished_at), (None, None, None))?;
    expect_eq((found.created_at, found.available_at), (receipt.time, receipt.time))?;
    let second_row = load_row(given, &receipt.outbox[1]).await?;
    expect_eq((second_row.payload.as_str(), second_row.max_attempts), ("\"y\"", 5))?;
    let receipt_of_rows = given.commit(Commit::new(id("t")).with_outbox([mail_row("z")])).await?;
    expect_eq(
        (receipt_of_rows.version, receipt_of_rows.entry_ids.len(), receipt_of_rows.outbox.len()),
        (receipt.version, 0, 1),
    )?;
    expect_eq(outbox(given)?.load_outbox(&id("unknown")).await?, None)
}

/// If any part of a commit is refused, none of its rows is written.
pub(super) async fn a_refused_commit_writes_no_row(given: &Given) -> Verdict {
    given.create_thread_with_messages("t", &["x"]).await?;
    commit_rows(given, [mail_row("first").with_dedupe_key(id("used"))]).await?;
    let commit = || keyed_commit_with_message(&id("t"), "k", "y").with_state(StateChange::new().set("a", json("1")));
    for (commit, kind) in [
        (commit().expecting(Expect::Absent).with_outbox([mail_row("a")]), ErrorKind::Conflict),
        (commit().entry(user_entry("e").below(id("unknown"))).with_outbox([mail_row("a")]), ErrorKind::Invalid),
        (
            commit().with_outbox([mail_row("a"), mail_row("b").with_dedupe_key(id("used"))]),
            ErrorKind::IdempotencyMismatch,
        ),
        (commit().with_outbox([mail_row("a"), mail_row("b").with_max_attempts(0)]), ErrorKind::Invalid),
    ] {
        expect_kind(given.commits()?.commit(commit).await, kind)?;
        expect_eq(payloads(&all_rows(given).await?), "first")?;
        expect_eq(given.thread(&id("t")).await?.state_revision, 0)?;
        expect_eq(given.read_log(&id("t")).await?.len(), 1)?;
    }
    given.expect_accepted(commit().with_outbox([mail_row("a")])).await?;
    expect_eq(payloads(&all_rows(given).await?), "first a")
}

/// If a commit is repeated with the same commit key and content, the receipt has the ids of the first rows. A commit
/// with that key and other rows is refused.
pub(super) async fn a_repeated_commit_returns_its_first_rows(given: &Given) -> Verdict {
    let commit = |text: &str| keyed_commit_with_message(&id("t"), "k", "x").with_outbox([mail_row(text)]);
    let first_receipt = given.commit(commit("a")).await?;
    let repeated_receipt = given.commit(commit("a")).await?;
    expect_eq((repeated_receipt.deduplicated, repeated_receipt.outbox), (true, first_receipt.outbox))?;
    expect_kind(given.commits()?.commit(commit("b")).await, ErrorKind::IdempotencyMismatch)?;
    let guarded_commit = commit("a").expecting(Expect::Absent);
    expect(given.commit(guarded_commit).await?.deduplicated, "a different guard was treated as different content")?;
    expect_eq(payloads(&all_rows(given).await?), "a")
}

/// A reader of the outbox sees all rows of a commit or none of them, and no row is written twice.
pub(super) async fn readers_see_all_rows_of_a_commit_or_none(given: &Given) -> Verdict {
    const COMMITS: usize = 40;
    let commits = given.commits()?;
    let store = outbox(given)?;
    let results = run_concurrently(4, |task| {
        let (commits, store) = (Arc::clone(&commits), Arc::clone(&store));
        async move {
            let mut rows_of_partial_commits = 0;
            for at in 0..COMMITS {
                if task % 2 == 0 {
                    let three_rows = (0..3).map(|_| mail_row(&format!("{task}.{at}")));
                    let _receipt =
                        commits.commit(Commit::new(id(&format!("t-{task}"))).with_outbox(three_rows)).await?;
                } else {
                    rows_of_partial_commits += store.count_outbox(&OutboxFilter::default()).await?.pending % 3;
                }
            }
            Ok::<_, store_core::Error>(rows_of_partial_commits)
        }
    });
    let rows_of_partial_commits: u64 =
        results.await.into_iter().collect::<store_core::Result<Vec<_>>>()?.into_iter().sum();
    expect_eq(rows_of_partial_commits, 0)?;
    // Two of the four tasks have written, three rows in each commit.
    expect_eq(claim_rows(given, 1_000).await?.len(), 2 * 3 * COMMITS)
}

/// Rows, claims and settlements survive a reopen. An earlier claim can still be settled, and no row is claimed twice.
pub(super) async fn outbox_rows_survive_a_reopen(given: &Given) -> Verdict {
    commit_rows(given, ["a", "b", "c"].map(mail_row)).await?;
    let (first_claim, second_claim) = (claim_one_row(given).await?, claim_one_row(given).await?);
    try_settle(given, &first_claim, OutboxSettlement::Delivered).await??;
    let rows_before = all_rows(given).await?;
    given.reopen().await?;
    expect_eq(all_rows(given).await?, rows_before)?;
    try_settle(given, &second_claim, OutboxSettlement::Delivered).await??;
    expect_claimed_payloads(given, "c").await?;
    given.reopen().await?;
    expect_claimed_payloads(given, "").await
}

/// Deleting a thread does not remove the rows of its commits. They can be claimed and settled as before.
pub(super) async fn outbox_rows_survive_the_deletion_of_their_thread(given: &Given) -> Verdict {
    commit_rows(given, ["a", "b"].map(mail_row)).await?;
    let claimed_row = claim_one_row(given).await?;
    let threads = given.threads()?;
    threads.delete_thread(&id("t"), DeleteRequest::default()).await?;
    threads.purge_deleted(&IgnoreProgress).await?;
    expect_eq(payloads(&all_rows(given).await?), "a b")?;
    try_settle(given, &claimed_row, OutboxSettlement::Delivered).await??;
    let other_claim = claim_one_row(given).await?;
    expect_eq((other_claim.row.payload.as_str(), other_claim.row.thread), ("\"b\"", id("t")))
}

/// A commit is refused if one of its rows has a `max_attempts` of 0.
pub(super) async fn a_row_needs_at_least_one_attempt(given: &Given) -> Verdict {
    let commit = Commit::new(id("t")).with_outbox([mail_row("a"), mail_row("b").with_max_attempts(0)]);
    let error = expect_kind(given.commits()?.commit(commit).await, ErrorKind::Invalid)?;
    expect_eq(error.part(), Some("outbox[1]"))?;
    commit_rows(given, [mail_row("once").with_max_attempts(1)]).await.map(drop)
}

/// A commit with 1,000 rows is accepted. A commit with more rows is refused.
pub(super) async fn a_commit_has_a_thousand_rows_at_most(given: &Given) -> Verdict {
    let numbered_rows = |count: usize| (0..count).map(|at| mail_row(&format!("{at}")));
    expect_eq(commit_rows(given, numbered_rows(1_000)).await?.len(), 1_000)?;
    let commit = Commit::new(id("t")).with_outbox(numbered_rows(1_001));
    expect_kind(given.commits()?.commit(commit).await, ErrorKind::LimitExceeded)?;
    expect_eq(claim_rows(given, 1_000).await?.len(), 1_000)
}

/// A payload whose size is exactly the limit of a record is accepted. One byte more is refused.
pub(super) async fn a_payload_has_a_limit(given: &Given) -> Verdict {
    let small_store = given.open_another_store_with_limits(|limits| limits.record_bytes = 1_000).await?;
    let row_with_payload_size = |bytes: usize| mail_row(&"x".repeat(bytes - 2));
    commit_rows(&small_store, [row_with_payload_size(1_000)]).await?;
    let commit = Commit::new(id("t")).with_outbox([row_with_payload_size(1_001)]);
    let error = expect_kind(small_store.commits()?.commit(commit).await, ErrorKind::LimitExceeded)?;
    expect_eq(error.part(), Some("outbox[0]"))?;
    expect_eq(all_rows(&small_store).await?.len(), 1)
}
