//! Deleted threads stay deleted, and a new thread under the same id is a different thread.

use std::time::Duration;

use store_core::{
    Commit, DeleteRequest, EntryQuery, ErrorKind, Expect, IgnoreProgress, Json, PageRequest, RunFilter, RunQuery,
    StateChange, ThreadFields, ThreadId, Version,
};

use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_kind},
    given::{commit_with_message, id, keyed_commit_with_message},
    run::helpers::{done_run, write_run},
};

/// Checks that commits to a deleted thread are refused with `NotFound`, and that the thread does not exist afterwards.
async fn expect_stays_deleted(given: &Given, name: &ThreadId, old_version: Version) -> Verdict {
    let (threads, commits) = (given.threads()?, given.commits()?);
    let state_commit = || Commit::new(name.clone()).with_state(StateChange::new().set("k", Json::null()));
    for late_commit in [
        keyed_commit_with_message(name, "late", "x"),
        keyed_commit_with_message(name, "key", "x"),
        commit_with_message(name, Expect::Version(old_version), "x"),
        state_commit(),
        state_commit().creating(ThreadFields::default()),
    ] {
        expect_kind(commits.commit(late_commit).await, ErrorKind::NotFound)?;
    }
    expect_eq(threads.load_thread(name).await?, None)
}

/// A write to a deleted thread does not create the thread again. A commit that expects `Any` or a version is refused
/// with `NotFound`, even if its key was used before the deletion.
pub(super) async fn a_late_write_does_not_restore_a_deleted_thread(given: &Given) -> Verdict {
    let receipt = given.commit(keyed_commit_with_message(&id("t"), "key", "x")).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_stays_deleted(given, &id("t"), receipt.version).await?;
    given.threads()?.purge_deleted(&IgnoreProgress).await?;
    expect_stays_deleted(given, &id("t"), receipt.version).await
}

/// After the store is closed and reopened, a deleted thread is still deleted: commits to it are refused. The
/// thread can be created again.
pub(super) async fn a_deleted_thread_stays_deleted_after_a_reopen(given: &Given) -> Verdict {
    let receipt = given.commit(keyed_commit_with_message(&id("t"), "key", "x")).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    given.reopen().await?;
    expect_stays_deleted(given, &id("t"), receipt.version).await?;
    expect_eq(given.create_empty_thread("t").await?.generation(), 2)
}

/// If a commit and the deletion of its thread are made at the same time, the commit is deleted with the thread or is
/// refused with `NotFound`. In both cases the thread does not exist afterwards.
pub(super) async fn a_write_racing_with_a_deletion_does_not_restore_the_thread(given: &Given) -> Verdict {
    for round in 0..40 {
        let name: ThreadId = id(&format!("t-{round}"));
        given.expect_accepted(keyed_commit_with_message(&name, "first", "x")).await?;
        let (threads, commits, late_commit) =
            (given.threads()?, given.commits()?, keyed_commit_with_message(&name, "late", "x"));
        let thread_to_delete = name.clone();
        let (write_result, deletion_result) =
            crate::given::run_two_concurrently(async move { commits.commit(late_commit).await }, async move {
                threads.delete_thread(&thread_to_delete, DeleteRequest::default()).await
            })
            .await;
        deletion_result?;
        if write_result.is_err() {
            expect_kind(write_result, ErrorKind::NotFound)?;
        }
        expect_eq(given.threads()?.load_thread(&name).await?, None)?;
    }
    Ok(())
}

/// A thread that is created again, by `create_thread` or by a commit with `Absent`, begins at version 0. Its generation
/// is one higher than that of the old thread. Guards and cursors of the old thread do not work on the new one.
pub(super) async fn a_recreated_thread_is_a_different_thread(given: &Given) -> Verdict {
    let (threads, commits) = (given.threads()?, given.commits()?);
    let old_thread = given.create_thread_with_messages("t", &["a", "b", "c"]).await?;
    let page = PageRequest::first(1);
    let entries = threads.list_entries(&id("t"), EntryQuery::all().with_page(page.clone())).await?;
    let second_page = page.after(entries.next.ok_or_else(|| Failure::new("the page has no cursor"))?);
    for name in ["r", "s"] {
        write_run(given, "t", done_run(name)).await?;
    }
    let runs_of_t = |page| {
        let mut query = RunQuery::new(RunFilter::default());
        (query.filter.thread, query.page) = (Some(id("t")), page);
        query
    };
    let runs = threads.list_runs(runs_of_t(page.clone())).await?;
    let second_page_of_runs = page.after(runs.next.ok_or_else(|| Failure::new("the page has no cursor"))?);
    threads.delete_thread(&id("t"), DeleteRequest::default()).await?;
    let listed_after_deletion = threads.list_entries(&id("t"), EntryQuery::all().with_page(second_page.clone())).await;
    expect_kind(listed_after_deletion, ErrorKind::InvalidCursor)?;
    let recreated = given.create_thread_with_messages("t", &["A", "B", "C"]).await?;
    expect_eq((recreated.version.number(), recreated.generation(), recreated.revision.number()), (3, 2, 1))?;
    expect_kind(
        commits.commit(commit_with_message(&id("t"), Expect::Version(old_thread.version), "x")).await,
        ErrorKind::Conflict,
    )?;
    let stale = DeleteRequest { expect: Expect::Version(old_thread.version), ..DeleteRequest::default() };
    expect_kind(threads.delete_thread(&id("t"), stale).await, ErrorKind::Conflict)?;
    let listed = threads.list_entries(&id("t"), EntryQuery::all().with_page(second_page)).await;
    expect_kind(listed, ErrorKind::InvalidCursor)?;
    let listed = threads.list_runs(runs_of_t(second_page_of_runs)).await;
    expect_kind(listed, ErrorKind::InvalidCursor)?;
    expect_eq(given.read_log(&id("t")).await?.len(), 3)?;
    threads.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_eq(given.create_empty_thread("t").await?.generation(), 3)
}

/// A deletion that happens while store time is set back is remembered as long as any other deletion.
pub(super) async fn a_deletion_while_the_clock_is_behind_is_remembered(given: &Given) -> Verdict {
    let forty_days = Duration::from_secs(40 * 86_400);
    let receipt = given.commit(keyed_commit_with_message(&id("t"), "key", "x")).await?;
    given.set_back(forty_days).await;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    given.advance(forty_days).await;
    given.threads()?.prune_threads(super::prune::prune_request(Duration::from_secs(3600))).await?;
    expect_stays_deleted(given, &id("t"), receipt.version).await
}

/// Deleted ids are remembered for at least 30 days, even if `prune_threads` and `purge_deleted` are called meanwhile.
pub(super) async fn deleted_ids_are_remembered_for_thirty_days(given: &Given) -> Verdict {
    let receipt = given.commit(keyed_commit_with_message(&id("t"), "key", "x")).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    for days in [0, 1, 28] {
        given.advance(Duration::from_secs(days * 86_400)).await;
        given.threads()?.prune_threads(super::prune::prune_request(Duration::from_secs(3600))).await?;
        given.threads()?.purge_deleted(&IgnoreProgress).await?;
        expect_stays_deleted(given, &id("t"), receipt.version).await?;
    }
    Ok(())
}
