//! Deletions of threads: their effect on children, their atomicity, and the data that they remove.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use store_core::{
    ChildStrategy, Commit, ContextRequest, DeleteRequest, Detail, EntryQuery, ErrorKind, Expect, IgnoreProgress, Json,
    NewThread, PageRequest, RunChange, RunFilter, RunStatus, StateChange, ThreadFields, ThreadFilter, ThreadQuery,
    Version,
};

use super::list::matching_ids;
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind},
    given::{commit_with_message, id, keyed_commit_with_message, message_entry},
};

const fn delete_request(children: ChildStrategy) -> DeleteRequest {
    DeleteRequest { children, expect: Expect::Any }
}

/// Creates four threads, each with one entry: `top`, its children `left` and `right`, and `leaf`, which is a child of
/// `left`.
async fn create_family(given: &Given) -> Result<(), Failure> {
    for (name, parent) in [("top", None), ("left", Some("top")), ("right", Some("top")), ("leaf", Some("left"))] {
        let mut fields = ThreadFields::default();
        fields.parent_thread_id = parent.map(id);
        given.threads()?.create_thread(NewThread::new(id(name)).with_fields(fields)).await?;
        given.expect_accepted(keyed_commit_with_message(&id(name), "k", "x")).await?;
    }
    Ok(())
}

/// Returns the ids of all threads.
async fn thread_ids(given: &Given) -> Result<Vec<String>, Failure> {
    matching_ids(given, ThreadFilter::default()).await
}

/// With `Reject` the deletion of a thread with children is refused with `HasChildren`, which says how many children
/// there are. A thread without children is deleted.
pub(super) async fn reject_refuses_a_thread_with_children(given: &Given) -> Verdict {
    create_family(given).await?;
    let threads = given.threads()?;
    let refused = threads.delete_thread(&id("top"), delete_request(ChildStrategy::Reject)).await;
    match expect_kind(refused, ErrorKind::HasChildren)?.detail() {
        Detail::HasChildren { count } => expect_eq(*count, 2)?,
        other => return Err(Failure::new(format!("{other:?}"))),
    }
    expect_eq(thread_ids(given).await?, ["leaf", "left", "right", "top"])?;
    let deletion = threads.delete_thread(&id("leaf"), delete_request(ChildStrategy::Reject)).await?;
    expect_eq((deletion.deleted, deletion.detached), (vec![id("leaf")], vec![]))?;
    threads.delete_thread(&id("left"), delete_request(ChildStrategy::Reject)).await?;
    expect_eq(thread_ids(given).await?, ["right", "top"])
}

/// With `Detach`, the default, the children stay. They lose their parent, and their revision increases by one.
/// Grandchildren do not change.
pub(super) async fn detach_leaves_children_without_a_parent(given: &Given) -> Verdict {
    create_family(given).await?;
    let before = [given.thread(&id("left")).await?, given.thread(&id("right")).await?];
    let leaf = given.thread(&id("leaf")).await?;
    let mut deletion = given.threads()?.delete_thread(&id("top"), DeleteRequest::default()).await?;
    deletion.detached.sort();
    expect_eq((deletion.deleted, deletion.detached), (vec![id("top")], vec![id("left"), id("right")]))?;
    for child in before {
        let after = given.thread(&child.id).await?;
        expect_eq((&after.parent_thread_id, after.revision), (&None, child.revision.plus(1)))?;
        expect_eq((after.version, after.head), (child.version, child.head))?;
    }
    expect_eq(given.thread(&leaf.id).await?, leaf)?;
    expect_eq(thread_ids(given).await?, ["leaf", "left", "right"])
}

/// With `Cascade` a thread and all its descendants are deleted, and no other thread.
pub(super) async fn cascade_deletes_all_descendants(given: &Given) -> Verdict {
    create_family(given).await?;
    given.create_empty_thread("alone").await?;
    let mut deletion = given.threads()?.delete_thread(&id("left"), delete_request(ChildStrategy::Cascade)).await?;
    deletion.deleted.sort();
    expect_eq((deletion.deleted, deletion.detached), (vec![id("leaf"), id("left")], vec![]))?;
    expect_eq(thread_ids(given).await?, ["alone", "right", "top"])?;
    given.threads()?.delete_thread(&id("top"), delete_request(ChildStrategy::Cascade)).await?;
    expect_eq(thread_ids(given).await?, ["alone"])?;
    let given = &given.open_another_store().await?;
    create_family(given).await?;
    given.threads()?.delete_thread(&id("top"), delete_request(ChildStrategy::Cascade)).await?;
    expect_eq(thread_ids(given).await?, [""; 0])
}

/// A deletion that would change more threads than the limit allows is refused with `LimitExceeded` and changes nothing.
/// A deletion that changes exactly the allowed number of threads is accepted.
pub(super) async fn a_deletion_of_too_many_threads_is_refused(given: &Given) -> Verdict {
    for (too_small_limit, strategy, changed_threads) in [(3, ChildStrategy::Cascade, 4), (2, ChildStrategy::Detach, 3)]
    {
        for (limit, is_accepted) in [(too_small_limit, false), (changed_threads, true)] {
            let given = &given.open_another_store_with_limits(|limits| limits.deletion_threads = limit).await?;
            create_family(given).await?;
            let result = given.threads()?.delete_thread(&id("top"), delete_request(strategy)).await;
            if is_accepted {
                result?;
                continue;
            }
            expect_kind(result, ErrorKind::LimitExceeded)?;
            expect_eq(thread_ids(given).await?, ["leaf", "left", "right", "top"])?;
            expect_eq(given.thread(&id("left")).await?.parent_thread_id, Some(id("top")))?;
        }
    }
    Ok(())
}

/// A deletion of several threads is atomic: a reader sees all of these threads or none of them.
pub(super) async fn a_deletion_becomes_visible_atomically(given: &Given) -> Verdict {
    let threads = given.threads()?;
    for _ in 0..30 {
        create_family(given).await?;
        let (deletion_has_ended, reader) = (Arc::new(AtomicBool::new(false)), Arc::clone(&threads));
        let has_ended = Arc::clone(&deletion_has_ended);
        let reader_task = tokio::spawn(async move {
            let mut counts = Vec::new();
            while !has_ended.load(Ordering::SeqCst) {
                counts.push(reader.list_threads(ThreadQuery::default()).await?.items.len());
                tokio::task::yield_now().await;
            }
            Ok::<_, store_core::Error>(counts)
        });
        let deletion_result = threads.delete_thread(&id("top"), delete_request(ChildStrategy::Cascade)).await;
        deletion_has_ended.store(true, Ordering::SeqCst);
        deletion_result?;
        let counts = reader_task.await.map_err(|panic| Failure::new(panic.to_string()))??;
        expect(counts.iter().all(|count| [0, 4].contains(count)), format!("a partial deletion was seen: {counts:?}"))?;
        expect(counts.is_sorted_by(|a, b| a >= b), format!("deleted threads came back: {counts:?}"))?;
    }
    Ok(())
}

/// When `purge_deleted` returns, no data of deleted threads is left, so that a second call removes nothing. Callers
/// could not see that data even before the call.
pub(super) async fn purging_leaves_nothing_behind(given: &Given) -> Verdict {
    create_family(given).await?;
    given.create_thread_with_messages("stays", &["x"]).await?;
    let threads = given.threads()?;
    threads.delete_thread(&id("top"), delete_request(ChildStrategy::Cascade)).await?;
    expect_eq(thread_ids(given).await?, ["stays"])?;
    threads.purge_deleted(&IgnoreProgress).await?;
    expect_eq(threads.purge_deleted(&IgnoreProgress).await?, 0)?;
    expect_eq(thread_ids(given).await?, ["stays"])?;
    expect_eq(given.read_log(&id("stays")).await?.len(), 1)?;
    let late_commit = given.commits()?.commit(keyed_commit_with_message(&id("top"), "late", "x")).await;
    expect_kind(late_commit, ErrorKind::NotFound).map(drop)
}

/// A commit with a key, an entry, a run and a state change.
fn commit_with_all_parts(thread: &str) -> Commit {
    Commit::new(id(thread))
        .with_key(id("key"))
        .entry(message_entry("x").with_id(id("e")))
        .with_run(RunChange::new(id("r"), RunStatus::Running).with_agent(id("agent")))
        .with_state(StateChange::new().set("k", Json::null()))
}

/// A deletion removes the entries, runs, state and commit keys of its thread, and nothing of any other thread.
pub(super) async fn a_deletion_removes_everything_of_the_thread(given: &Given) -> Verdict {
    let threads = given.threads()?;
    given.expect_accepted(commit_with_all_parts("t")).await?;
    given.expect_accepted(keyed_commit_with_message(&id("other"), "key", "stays")).await?;
    threads.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_eq(threads.load_entry(&id("t"), &id("e")).await?, None)?;
    expect_eq(threads.list_entries(&id("t"), EntryQuery::all()).await?.items, vec![])?;
    expect_eq(threads.list_leaves(&id("t"), PageRequest::default()).await?.items, vec![])?;
    expect_eq(threads.load_run(&id("r")).await?, None)?;
    expect_eq(threads.count_runs(&RunFilter::default()).await?, 0)?;
    let context = threads.load_context(&id("t"), ContextRequest::head()).await;
    expect_kind(context, ErrorKind::NotFound)?;
    given.create_empty_thread("t").await?;
    let context_of_new_thread = threads.load_context(&id("t"), ContextRequest::head()).await?;
    expect_eq(
        (
            context_of_new_thread.state.len(),
            context_of_new_thread.latest_run,
            context_of_new_thread.thread.state_revision,
        ),
        (0, None, 0),
    )?;
    let receipt = given.commit(commit_with_all_parts("t")).await?;
    expect_eq((receipt.deduplicated, receipt.first_seq), (false, Some(1)))?;
    expect_eq(given.read_log(&id("other")).await?.len(), 1)
}

/// A deletion is refused with `NotFound` if the thread does not exist, and with `Conflict` if the deletion expects
/// another version.
pub(super) async fn a_deletion_can_be_guarded(given: &Given) -> Verdict {
    let threads = given.threads()?;
    let request_expecting = |expect| DeleteRequest { children: ChildStrategy::Detach, expect };
    for expected in [Expect::Any, Expect::Absent, Expect::Version(Version::new(0, 1, 0))] {
        expect_kind(threads.delete_thread(&id("t"), request_expecting(expected)).await, ErrorKind::NotFound)?;
    }
    let thread = given.create_empty_thread("t").await?;
    let receipt = given.commit(commit_with_message(&id("t"), Expect::Version(thread.version), "x")).await?;
    for stale in [Expect::Version(thread.version), Expect::Version(receipt.version.plus(1)), Expect::Absent] {
        expect_kind(threads.delete_thread(&id("t"), request_expecting(stale)).await, ErrorKind::Conflict)?;
    }
    expect_eq(given.read_log(&id("t")).await?.len(), 1)?;
    threads.delete_thread(&id("t"), request_expecting(Expect::Version(receipt.version))).await?;
    expect_kind(threads.delete_thread(&id("t"), DeleteRequest::default()).await, ErrorKind::NotFound).map(drop)
}
