//! Dedupe keys of rows.

use std::{sync::Arc, time::Duration};

use store_core::{Commit, ErrorKind, OutboxSettlement, PurgeOutbox, Timestamp};

use super::helpers::{all_rows, claim_one_row, commit_rows, mail_row, new_row, outbox, payloads, try_settle};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, run_concurrently},
};

/// If a row has the lane, target, dedupe key and content of an earlier row, the commit returns the id of the earlier
/// row and does not write a second one. The earlier row may be of another thread or of the same commit, and may be
/// final.
pub(super) async fn the_same_key_gives_the_first_row(given: &Given) -> Verdict {
    let draft = || mail_row("x").with_dedupe_key(id("k"));
    let first_ids = commit_rows(given, [draft(), mail_row("other"), draft()]).await?;
    expect_eq(&first_ids[0], &first_ids[2])?;
    let receipt_in_other_thread = given.commit(Commit::new(id("u")).with_outbox([draft()])).await?;
    expect_eq(&receipt_in_other_thread.outbox, &first_ids[..1])?;
    let claimed_row = claim_one_row(given).await?;
    try_settle(given, &claimed_row, OutboxSettlement::Delivered).await??;
    expect_eq(&commit_rows(given, [draft()]).await?, &first_ids[..1])?;
    expect_eq(payloads(&all_rows(given).await?), "x other")
}

/// If a row has the dedupe key of an earlier row, but another payload, order key, time or number of attempts, its
/// commit is refused and the earlier row is not changed.
pub(super) async fn a_key_with_other_content_refuses_the_commit(given: &Given) -> Verdict {
    let keyed_row = |text: &str| mail_row(text).with_dedupe_key(id("k"));
    commit_rows(given, [keyed_row("x")]).await?;
    let rows_before = all_rows(given).await?;
    for changed_row in [
        keyed_row("y"),
        keyed_row("x").with_order_key(id("o")),
        keyed_row("x").not_before(Timestamp::MIN),
        keyed_row("x").with_max_attempts(4),
    ] {
        let commit = Commit::new(id("t")).with_outbox([mail_row("z"), changed_row]);
        let error = expect_kind(given.commits()?.commit(commit).await, ErrorKind::IdempotencyMismatch)?;
        expect_eq(error.part(), Some("outbox[1]"))?;
        expect_eq(all_rows(given).await?, rows_before.clone())?;
    }
    let commit_of_two_rows = Commit::new(id("t"))
        .with_outbox([mail_row("a").with_dedupe_key(id("n")), mail_row("b").with_dedupe_key(id("n"))]);
    expect_kind(given.commits()?.commit(commit_of_two_rows).await, ErrorKind::IdempotencyMismatch)?;
    expect_eq(all_rows(given).await?, rows_before)
}

/// Rows of different lanes or targets can have the same dedupe key.
pub(super) async fn a_key_belongs_to_one_lane_and_target(given: &Given) -> Verdict {
    let drafts = [new_row("mail", "ada", "a"), new_row("mail", "bob", "b"), new_row("hook", "ada", "c")];
    let drafts = drafts.map(|draft| draft.with_dedupe_key(id("k")));
    let ids = commit_rows(given, drafts).await?;
    expect(ids[0] != ids[1] && ids[1] != ids[2], "two rows have the same id")?;
    expect_eq(payloads(&all_rows(given).await?), "a b c")
}

/// A dedupe key stays taken until its row is purged. After that it can be used for a new row.
pub(super) async fn a_key_is_taken_until_its_row_is_purged(given: &Given) -> Verdict {
    let draft = || mail_row("x").with_dedupe_key(id("k"));
    let first_ids = commit_rows(given, [draft()]).await?;
    let claimed_row = claim_one_row(given).await?;
    try_settle(given, &claimed_row, OutboxSettlement::Delivered).await??;
    given.advance(Duration::from_secs(1)).await;
    expect_eq(&commit_rows(given, [draft()]).await?, &first_ids)?;
    let store = outbox(given)?;
    expect_eq(store.purge_outbox(PurgeOutbox::new(Timestamp::MAX)).await?, 1)?;
    expect_eq(store.load_outbox(&first_ids[0]).await?, None)?;
    let new_ids = commit_rows(given, [draft()]).await?;
    expect(new_ids != first_ids, "the key still returns the purged row")?;
    expect_eq(commit_rows(given, [draft()]).await?, new_ids)
}

/// Concurrent commits that use the same dedupe key write one row, and each of them returns its id.
pub(super) async fn concurrent_commits_with_one_key_write_one_row(given: &Given) -> Verdict {
    let commits = given.commits()?;
    let results = run_concurrently(8, |task| {
        let commits = Arc::clone(&commits);
        async move {
            let mut ids = Vec::new();
            for key in 0..10 {
                let draft = mail_row("x").with_dedupe_key(id(&format!("k-{key}")));
                let commit = Commit::new(id(&format!("t-{task}"))).with_outbox([draft]);
                ids.extend(commits.commit(commit).await?.outbox);
            }
            Ok::<_, store_core::Error>(ids)
        }
    });
    let ids = results.await.into_iter().collect::<store_core::Result<Vec<_>>>()?;
    expect(ids.iter().all(|other| *other == ids[0]), "one key returned two rows")?;
    expect_eq(all_rows(given).await?.len(), 10)
}
