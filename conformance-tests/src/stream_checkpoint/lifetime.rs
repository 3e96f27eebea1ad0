//! How long a checkpoint lives: until it is deleted, until a commit removes it, until its run ends, until its thread is
//! deleted.

use store_core::{Commit, DeleteRequest, ErrorKind, Expect, stream_checkpoint_removal};

use super::helpers::{checkpoints, document_counts, expect_sequence, load, put_stored, request, start_runs};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind},
    given::{commit_with_message, id, keyed_commit_with_message},
    run::helpers::{done_run, write_run},
};

/// A deleted checkpoint is gone, and those of other runs stay. The run can get a new one, of any sequence.
pub(super) async fn a_deleted_checkpoint_is_gone(given: &Given) -> Verdict {
    start_runs(given, &["a", "b"]).await?;
    put_stored(given, "a", 5).await?;
    put_stored(given, "b", 6).await?;
    checkpoints(given)?.delete_stream_checkpoint(&id("t"), &id("a")).await?;
    expect_sequence(given, "a", None).await?;
    expect_sequence(given, "b", Some(6)).await?;
    expect_eq(document_counts(given).await?, (1, 1))?;
    put_stored(given, "a", 1).await?;
    expect_sequence(given, "a", Some(1)).await
}

/// Deleting a checkpoint that does not exist is no error, and neither is deleting one of an unknown thread.
pub(super) async fn deleting_an_unknown_checkpoint_is_no_error(given: &Given) -> Verdict {
    let store = checkpoints(given)?;
    store.delete_stream_checkpoint(&id("t"), &id("r")).await?;
    start_runs(given, &["r"]).await?;
    put_stored(given, "r", 1).await?;
    for run in ["other", "r", "r"] {
        store.delete_stream_checkpoint(&id("t"), &id(run)).await?;
    }
    expect_sequence(given, "r", None).await
}

/// A commit that names a checkpoint removes it in its step, with everything that is kept of it.
pub(super) async fn a_commit_removes_the_checkpoint_that_it_names(given: &Given) -> Verdict {
    start_runs(given, &["a", "b"]).await?;
    put_stored(given, "a", 1).await?;
    put_stored(given, "b", 2).await?;
    let commit = keyed_commit_with_message(&id("t"), "k", "answer");
    given.expect_accepted(commit.with_documents(stream_checkpoint_removal(&id("t"), &id("a"))?)).await?;
    expect_sequence(given, "a", None).await?;
    expect_sequence(given, "b", Some(2)).await?;
    expect_eq(document_counts(given).await?, (1, 1))
}

/// A commit that is refused leaves the checkpoint that it names.
pub(super) async fn a_refused_commit_leaves_the_checkpoint(given: &Given) -> Verdict {
    start_runs(given, &["r"]).await?;
    put_stored(given, "r", 1).await?;
    let commit = commit_with_message(&id("t"), Expect::Absent, "answer");
    let commit = commit.with_documents(stream_checkpoint_removal(&id("t"), &id("r"))?);
    expect_kind(given.commits()?.commit(commit).await, ErrorKind::Conflict)?;
    expect_sequence(given, "r", Some(1)).await
}

/// After a commit has ended a run, the run has no checkpoint, although the commit did not name it.
pub(super) async fn a_finished_run_has_no_checkpoint(given: &Given) -> Verdict {
    start_runs(given, &["a", "b"]).await?;
    put_stored(given, "a", 1).await?;
    put_stored(given, "b", 2).await?;
    write_run(given, "t", done_run("a")).await?;
    expect_eq(load(given, "a").await?, None)?;
    expect_sequence(given, "b", Some(2)).await
}

/// What a late writer puts after the end of its run is not loaded.
pub(super) async fn a_checkpoint_put_after_the_end_of_its_run_is_not_loaded(given: &Given) -> Verdict {
    start_runs(given, &["a", "b"]).await?;
    let named = Commit::new(id("t")).with_run(done_run("a"));
    given.expect_accepted(named.with_documents(stream_checkpoint_removal(&id("t"), &id("a"))?)).await?;
    write_run(given, "t", done_run("b")).await?;
    for run in ["a", "b"] {
        let _outcome = checkpoints(given)?.put_stream_checkpoint(request(run, 9)).await?;
        expect_eq(load(given, run).await?, None)?;
    }
    Ok(())
}

/// Checkpoints are deleted with their thread. A new thread and run with the same ids have none.
pub(super) async fn checkpoints_are_deleted_with_their_thread(given: &Given) -> Verdict {
    start_runs(given, &["r"]).await?;
    put_stored(given, "r", 5).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_eq(load(given, "r").await?, None)?;
    let recreated = Commit::new(id("t")).expecting(Expect::Absent).with_run(crate::run::helpers::running_run("r2"));
    given.expect_accepted(recreated).await?;
    expect_eq(load(given, "r").await?, None)?;
    expect_eq(document_counts(given).await?.0, 0)?;
    put_stored(given, "r2", 1).await?;
    expect_sequence(given, "r2", Some(1)).await
}

/// A checkpoint of a thread that was deleted, or never existed, is refused.
pub(super) async fn a_checkpoint_of_a_deleted_thread_is_refused(given: &Given) -> Verdict {
    let store = checkpoints(given)?;
    expect_kind(store.put_stream_checkpoint(request("r", 1)).await, ErrorKind::NotFound)?;
    start_runs(given, &["r"]).await?;
    put_stored(given, "r", 1).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_kind(store.put_stream_checkpoint(request("r", 2)).await, ErrorKind::NotFound).map(drop)
}
