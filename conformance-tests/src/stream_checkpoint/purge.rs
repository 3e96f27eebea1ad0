//! The purge of checkpoints that no run needs.

use std::time::Duration;

use store_core::{DeleteRequest, IgnoreProgress, PurgeStreamCheckpoints, Timestamp};

use super::helpers::{checkpoints, document_counts, expect_sequence, load, put_stored, start_runs};
use crate::{
    Given, Verdict,
    check::{Failure, expect_eq, expect_some},
    given::id,
    run::helpers::{done_run, write_run},
};

async fn purge(given: &Given, request: PurgeStreamCheckpoints) -> Result<u64, Failure> {
    Ok(checkpoints(given)?.purge_stream_checkpoints(request, &IgnoreProgress).await?.checkpoints)
}

/// Puts the checkpoints of `a` and `b`, and a newer one of `b` ten seconds later. Returns the time of that put.
async fn put_old_and_new(given: &Given) -> Result<Timestamp, Failure> {
    start_runs(given, &["a", "b"]).await?;
    put_stored(given, "a", 1).await?;
    put_stored(given, "b", 1).await?;
    given.advance(Duration::from_secs(10)).await;
    put_stored(given, "b", 2).await?;
    Ok(expect_some(load(given, "b").await?, "checkpoint")?.updated_at)
}

/// A purge removes the checkpoints that were last put before a time, with everything that is kept of them.
pub(super) async fn old_checkpoints_are_purged(given: &Given) -> Verdict {
    let time = put_old_and_new(given).await?;
    expect_eq(purge(given, PurgeStreamCheckpoints::updated_before(Timestamp::MIN)).await?, 0)?;
    expect_eq(purge(given, PurgeStreamCheckpoints::updated_before(time)).await?, 1)?;
    expect_sequence(given, "a", None).await?;
    expect_sequence(given, "b", Some(2)).await?;
    expect_eq(document_counts(given).await?, (1, 1))?;
    expect_eq(purge(given, PurgeStreamCheckpoints::updated_before(Timestamp::MAX)).await?, 1)?;
    expect_eq(document_counts(given).await?, (0, 0))
}

/// A purge removes the checkpoints of runs that are done, however new they are, and what deleted threads left.
pub(super) async fn a_purge_removes_what_finished_runs_left(given: &Given) -> Verdict {
    start_runs(given, &["a", "b", "c"]).await?;
    for run in ["a", "b", "c"] {
        put_stored(given, run, 1).await?;
    }
    write_run(given, "t", done_run("a")).await?;
    write_run(given, "t", done_run("c")).await?;
    expect_eq(purge(given, PurgeStreamCheckpoints::updated_before(Timestamp::MIN)).await?, 2)?;
    expect_sequence(given, "b", Some(1)).await?;
    expect_eq(document_counts(given).await?, (1, 1))?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_eq(purge(given, PurgeStreamCheckpoints::updated_before(Timestamp::MIN)).await?, 0)?;
    expect_eq(document_counts(given).await?, (0, 0))
}

/// A dry run counts what a purge would remove, and removes nothing.
pub(super) async fn a_dry_run_of_a_checkpoint_purge_changes_nothing(given: &Given) -> Verdict {
    let time = put_old_and_new(given).await?;
    start_runs(given, &["c"]).await?;
    put_stored(given, "c", 1).await?;
    write_run(given, "t", done_run("c")).await?;
    for (time, expected) in [(Timestamp::MIN, 1), (time, 2), (Timestamp::MAX, 3)] {
        expect_eq(purge(given, PurgeStreamCheckpoints::updated_before(time).dry()).await?, expected)?;
    }
    expect_sequence(given, "a", Some(1)).await?;
    expect_sequence(given, "b", Some(2)).await?;
    expect_eq(document_counts(given).await?, (3, 3))
}
