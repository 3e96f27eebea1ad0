//! How queues and their threads affect each other: lists, deletion and pruning of threads.

use std::time::Duration;

use store_core::{DeleteRequest, IgnoreProgress, PageRequest};

use super::helpers::{ThreadQueue, input};
use crate::{
    Failure, Given, Verdict,
    check::expect_eq,
    given::{id, read_all_pages},
    thread::prune::prune_request,
};

async fn list_threads_with_input(given: &Given) -> Result<Vec<String>, Failure> {
    let store = &ThreadQueue::of(given, "any").store()?;
    let threads = read_all_pages(PageRequest::first(2), |page| store.list_threads_with_pending(page)).await?;
    Ok(threads.iter().map(ToString::to_string).collect())
}

/// Threads with pending input are listed by id. A thread is not listed after its last input was consumed or retracted,
/// or after the thread was deleted.
pub(super) async fn threads_with_input_are_listed(given: &Given) -> Verdict {
    for name in ["d", "b", "e", "a", "c"] {
        ThreadQueue::with_inputs(given, name, &["x", "y"]).await?;
    }
    given.create_empty_thread("none").await?;
    expect_eq(list_threads_with_input(given).await?, ["a", "b", "c", "d", "e"])?;
    ThreadQueue::of(given, "b").consume(&["y", "x"]).await?;
    let store = ThreadQueue::of(given, "d").store()?;
    for name in ["x", "y"] {
        store.retract_pending(&id("d"), &id(name)).await?;
    }
    ThreadQueue::of(given, "a").consume(&["x"]).await?;
    given.threads()?.delete_thread(&id("c"), DeleteRequest::default()).await?;
    expect_eq(list_threads_with_input(given).await?, ["a", "e"])?;
    ThreadQueue::of(given, "b").append([input("z")]).await?;
    expect_eq(list_threads_with_input(given).await?, ["a", "b", "e"])
}

/// Deleting a thread deletes its pending input. A new thread with the same id begins with an empty queue.
pub(super) async fn deleting_a_thread_deletes_its_queue(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    queue.expect_inputs("").await?;
    expect_eq(queue.load().await?.revision, 0)?;
    given.threads()?.purge_deleted(&IgnoreProgress).await?;
    given.create_empty_thread("t").await?;
    queue.expect_inputs("").await?;
    queue.append([input("a")]).await?;
    queue.expect_inputs("a").await?;
    expect_eq(queue.load().await?.revision, 1)
}

/// A thread with pending input is not pruned, however long it has been idle. When it has no pending input any more, it
/// is pruned.
pub(super) async fn a_thread_with_input_is_not_pruned(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a"]).await?;
    given.create_empty_thread("idle").await?;
    given.advance(Duration::from_hours(2)).await;
    let pruned = given.threads()?.prune_threads(prune_request(Duration::from_hours(1))).await?;
    expect_eq(pruned.threads, vec![id("idle")])?;
    queue.expect_inputs("a").await?;
    queue.store()?.retract_pending(&id("t"), &id("a")).await?;
    given.advance(Duration::from_hours(2)).await;
    let pruned = given.threads()?.prune_threads(prune_request(Duration::from_hours(1))).await?;
    expect_eq(pruned.threads, vec![id("t")])
}

/// Changes to a queue do not change the version, the revision, the head and the last activity of its thread.
pub(super) async fn queue_changes_do_not_change_the_thread(given: &Given) -> Verdict {
    let thread_before = given.create_thread_with_messages("t", &["x"]).await?;
    given.advance(Duration::from_mins(1)).await;
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    let update = store_core::PendingUpdate::new(id("t"), id("a")).with_message(store_core::Message::user("new"));
    queue.store()?.update_pending(update).await?;
    queue.store()?.retract_pending(&id("t"), &id("b")).await?;
    expect_eq(given.thread(&id("t")).await?, thread_before)
}
