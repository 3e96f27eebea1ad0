//! Pruning: `prune_threads` deletes the threads that have not been written to for a while.

use std::{sync::Arc, time::Duration};

use store_core::{
    ClaimNumber, ClaimToken, Commit, ErrorKind, Expect, Fence, NewThread, PruneRequest, RunChange, RunOutcome,
    RunStatus, ThreadFields, ThreadFilter, ThreadPatch,
};

use super::list::matching_ids;
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{id, keyed_commit_with_message, run_two_concurrently},
};

const HOUR: Duration = Duration::from_secs(3600);

/// A request to prune at most 1,000 threads that have not been written to for the time `idle`.
pub(crate) const fn prune_request(idle: Duration) -> PruneRequest {
    PruneRequest { idle, limit: 1000, dry_run: false }
}

/// Prunes, and returns the sorted ids of the pruned threads and whether there are more.
async fn prune(given: &Given, request: PruneRequest) -> Result<(Vec<String>, bool), Failure> {
    let pruned = given.threads()?.prune_threads(request).await?;
    let mut ids: Vec<_> = pruned.threads.iter().map(ToString::to_string).collect();
    ids.sort();
    Ok((ids, pruned.more))
}

/// Returns the ids of the threads that exist.
async fn remaining_threads(given: &Given) -> Result<Vec<String>, Failure> {
    matching_ids(given, ThreadFilter::default()).await
}

/// Creates the thread `name` with this parent.
async fn create_child(given: &Given, name: &str, parent: &str) -> Verdict {
    let mut fields = ThreadFields::default();
    fields.parent_thread_id = Some(id(parent));
    given.threads()?.create_thread(NewThread::new(id(name)).with_fields(fields)).await?;
    Ok(())
}

/// `prune_threads` deletes the threads that have not been written to for the given time, and keeps those that had a
/// commit or an update since.
pub(super) async fn idle_threads_are_pruned(given: &Given) -> Verdict {
    for name in ["old", "committed", "updated"] {
        given.create_thread_with_messages(name, &["x"]).await?;
    }
    given.advance(2 * HOUR).await;
    given.expect_accepted(keyed_commit_with_message(&id("committed"), "k", "y")).await?;
    given.threads()?.update_thread(&id("updated"), ThreadPatch::default().with_title("x"), Expect::Any).await?;
    given.create_empty_thread("new").await?;
    expect_eq(prune(given, prune_request(3 * HOUR)).await?, (vec![], false))?;
    expect_eq(prune(given, prune_request(HOUR)).await?, (vec!["old".to_owned()], false))?;
    expect_eq(remaining_threads(given).await?, ["committed", "new", "updated"])?;
    expect_eq(given.read_log(&id("old")).await?, vec![])?;
    let late_commit = given.commits()?.commit(keyed_commit_with_message(&id("old"), "late", "x")).await;
    expect_kind(late_commit, ErrorKind::NotFound).map(drop)
}

/// Resetting the fence of a thread does not count as a write, so that an idle thread is still pruned afterwards.
pub(super) async fn a_fence_reset_does_not_count_as_a_write(given: &Given) -> Verdict {
    let fence = Fence::new(id("dispatch"), ClaimToken::new("token"), 1, ClaimNumber { incarnation: 1, counter: 1 });
    given.expect_accepted(keyed_commit_with_message(&id("t"), "k", "x").fenced(fence)).await?;
    given.advance(2 * HOUR).await;
    given.threads()?.reset_fence(&id("t")).await?;
    expect_eq(prune(given, prune_request(HOUR)).await?.0, ["t"])
}

/// A thread with an open run is not pruned. After the run is done, the thread can be pruned.
pub(super) async fn threads_with_open_runs_are_not_pruned(given: &Given) -> Verdict {
    let commit_with_run_status =
        |status| Commit::new(id("t")).with_run(RunChange::new(id("r"), status).with_agent(id("agent")));
    given.expect_accepted(commit_with_run_status(RunStatus::Running)).await?;
    given.advance(2 * HOUR).await;
    expect_eq(prune(given, prune_request(HOUR)).await?, (vec![], false))?;
    given.expect_accepted(commit_with_run_status(RunStatus::done(RunOutcome::NaturalEnd))).await?;
    given.advance(2 * HOUR).await;
    expect_eq(prune(given, prune_request(HOUR)).await?.0, ["t"])
}

/// A thread is not pruned while one of its children is not idle. If all threads of a family are idle, all of them are
/// pruned, if necessary by several calls.
pub(super) async fn threads_whose_children_stay_are_not_pruned(given: &Given) -> Verdict {
    for (parent, child) in [("kept", "busy"), ("pruned", "idle")] {
        given.create_empty_thread(parent).await?;
        create_child(given, child, parent).await?;
    }
    given.advance(2 * HOUR).await;
    given.expect_accepted(keyed_commit_with_message(&id("busy"), "k", "x")).await?;
    for _ in 0..4 {
        prune(given, prune_request(HOUR)).await?;
    }
    expect_eq(remaining_threads(given).await?, ["busy", "kept"])?;
    expect_eq(given.thread(&id("busy")).await?.parent_thread_id, Some(id("kept")))
}

/// A dry run returns the list of threads that the prune then deletes, and changes nothing.
pub(super) async fn a_dry_run_gives_the_same_list(given: &Given) -> Verdict {
    for name in ["a", "b", "c"] {
        given.create_thread_with_messages(name, &["x"]).await?;
    }
    create_child(given, "d", "a").await?;
    // One child of `b` is idle. The other child stays, and so does `b`.
    create_child(given, "e", "b").await?;
    create_child(given, "f", "b").await?;
    given.advance(2 * HOUR).await;
    given.create_empty_thread("new").await?;
    given.expect_accepted(keyed_commit_with_message(&id("f"), "k", "x")).await?;
    let before = remaining_threads(given).await?;
    let (ids, has_more) = prune(given, PruneRequest { dry_run: true, ..prune_request(HOUR) }).await?;
    expect_eq(remaining_threads(given).await?, before)?;
    expect_eq(given.read_log(&id("a")).await?.len(), 1)?;
    expect_eq(&ids, &["a", "c", "d", "e"].map(str::to_owned))?;
    expect_eq(prune(given, prune_request(HOUR)).await?, (ids, has_more))
}

/// A thread that is written to after `prune_threads` chose it, but before its deletion, is not pruned: no acknowledged
/// write is lost.
pub(super) async fn a_thread_written_meanwhile_is_not_pruned(given: &Given) -> Verdict {
    for round in 0..30 {
        let name = format!("t-{round}");
        let before = given.create_thread_with_messages(&name, &["x"]).await?;
        given.advance(2 * HOUR).await;
        let (threads, commits) = (given.threads()?, given.commits()?);
        let commit = crate::given::commit_with_message(&id(&name), Expect::Version(before.version), "late");
        let pruner = Arc::clone(&threads);
        let (write_result, prune_result) =
            run_two_concurrently(async move { commits.commit(commit).await }, async move {
                pruner.prune_threads(prune_request(HOUR)).await
            })
            .await;
        let is_listed = prune_result?.threads.contains(&id(&name));
        let exists = threads.load_thread(&id(&name)).await?.is_some();
        expect(exists != is_listed, "a thread that is listed as pruned exists, or another one is missing")?;
        match write_result {
            Ok(_) => expect(exists, "an acknowledged write was pruned")?,
            Err(error) => drop(expect_kind::<()>(Err(error), ErrorKind::NotFound)?),
        }
    }
    Ok(())
}

/// For pruning, a write counts at the store time at which it is made, and not at the time that it states. Threads that
/// were just imported are therefore not pruned.
pub(super) async fn an_import_counts_as_a_write(given: &Given) -> Verdict {
    let now = given.create_thread_with_messages("now", &["x"]).await?.updated_at;
    let mut draft = NewThread::new(id("made"));
    draft.at = Some(now.saturating_sub(48 * HOUR));
    given.threads()?.create_thread(draft).await?;
    given
        .expect_accepted(keyed_commit_with_message(&id("committed"), "k", "x").at(now.saturating_sub(48 * HOUR)))
        .await?;
    expect_eq(prune(given, prune_request(24 * HOUR)).await?, (vec![], false))?;
    expect_eq(remaining_threads(given).await?, ["committed", "made", "now"])
}

/// Imported threads with old times do not prevent the pruning of idle threads, even if the imported threads come first
/// in the order by time.
pub(super) async fn an_import_does_not_protect_idle_threads(given: &Given) -> Verdict {
    for name in ["a", "b"] {
        given.create_empty_thread(name).await?;
    }
    given.advance(48 * HOUR).await;
    let now = given.create_empty_thread("now").await?.created_at;
    for (name, hours) in [("older", 100), ("between", 48)] {
        let mut draft = NewThread::new(id(name));
        draft.at = Some(now.saturating_sub(hours * HOUR));
        given.threads()?.create_thread(draft).await?;
    }
    expect_eq(prune(given, PruneRequest { limit: 2, ..prune_request(24 * HOUR) }).await?.0, ["a", "b"])?;
    expect_eq(remaining_threads(given).await?, ["between", "now", "older"])
}

/// A call prunes at most `limit` threads, and says whether there are more. A limit outside 1 to 1,000 is refused with
/// `Invalid`.
pub(super) async fn at_most_limit_threads_are_pruned(given: &Given) -> Verdict {
    for at in 0..5 {
        given.create_empty_thread(&format!("t-{at}")).await?;
    }
    given.advance(2 * HOUR).await;
    for limit in [0, 1001, u32::MAX] {
        let refused = given.threads()?.prune_threads(PruneRequest { limit, ..prune_request(HOUR) }).await;
        expect_kind(refused, ErrorKind::Invalid)?;
    }
    let limit_of_two = PruneRequest { limit: 2, ..prune_request(HOUR) };
    for (wanted, more) in [(2, true), (2, true), (1, false), (0, false)] {
        let (pruned, has_more) = prune(given, limit_of_two).await?;
        expect_eq((pruned.len(), has_more), (wanted, more))?;
    }
    expect_eq(remaining_threads(given).await?, [""; 0])
}
