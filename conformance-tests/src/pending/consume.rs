//! Commits that consume pending input: the inputs become entries.

use store_core::{Body, Commit, ContextRequest, ErrorKind, Expect, InputRef, Message};

use super::helpers::{ThreadQueue, input};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind},
    given::id,
    log::{
        entry_drafts::user_entry,
        writer::{ThreadWriter, join},
    },
    run::helpers::{done_run, running_run, write_run},
};

/// Pending input is neither in the log nor in a context. When it is consumed, it becomes an entry with the same id and
/// message, and is no longer pending.
pub(super) async fn consumed_input_is_an_entry_and_no_longer_pending(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    expect_eq(given.read_log(&id("t")).await?.len(), 0)?;
    expect_eq(given.threads()?.load_context(&id("t"), ContextRequest::head()).await?.context.messages.len(), 0)?;
    let receipt = given.commit(queue.commit_consuming(&["a"]).await?).await?;
    expect_eq((receipt.version.number(), receipt.first_seq), (1, Some(1)))?;
    expect_eq((&receipt.entry_ids, &receipt.consumed), (&vec![id("a")], &vec![id("a")]))?;
    expect_eq(receipt.head, Some(id("a")))?;
    let entry = ThreadWriter::new(given, "t").load_entry("a").await?;
    expect_eq(&*entry.body, &Body::Message(Message::user("a")))?;
    expect_eq((entry.timestamp, entry.run.clone()), (receipt.time, None))?;
    expect_eq(given.threads()?.load_context(&id("t"), ContextRequest::head()).await?.context.messages.len(), 1)?;
    queue.expect_inputs("b").await
}

/// In the log, consumed input comes before the other entries of the commit. The commit gives the order of the
/// inputs, which may differ from that of the queue. Consumed input can be a parent, and increases the version, as other
/// entries do.
pub(super) async fn consumed_input_comes_first_in_the_order_given(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b", "c", "d"]).await?;
    let commit =
        queue.commit_consuming(&["c", "a"]).await?.entry(user_entry("x")).entry(user_entry("y").below(id("c")));
    let mut run_with_input = running_run("r");
    run_with_input.input = vec![store_core::EntryRange { from: 1, to: 4 }];
    let receipt = given.commit(commit.with_run(run_with_input)).await?;
    expect_eq(join(receipt.entry_ids.iter().map(|id| id.as_str())), "c a x y")?;
    expect_eq(join(receipt.consumed.iter().map(|id| id.as_str())), "c a")?;
    expect_eq(receipt.version.number(), 4)?;
    let writer = ThreadWriter::new(given, "t");
    writer.expect_log_ids("c a x y").await?;
    expect_eq((writer.parent_id("c").await?, writer.parent_id("a").await?), (String::new(), "c".to_owned()))?;
    expect_eq((writer.parent_id("x").await?, writer.parent_id("y").await?), ("a".to_owned(), "c".to_owned()))?;
    queue.expect_inputs("b d").await
}

/// A commit can only consume inputs that are pending and have the revision that the commit names.
pub(super) async fn only_pending_input_of_the_named_revision_is_consumed(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    let earlier_commit = queue.commit_consuming(&["a"]).await?;
    let update = store_core::PendingUpdate::new(id("t"), id("a")).with_message(Message::user("new"));
    queue.store()?.update_pending(update).await?;
    let queue_before = queue.load().await?;
    let check_refused = |commit: Commit, kind| async move {
        let error = expect_kind(given.commits()?.commit(commit).await, kind)?;
        expect_eq(error.part().map(str::to_owned), Some("consume[0]".to_owned()))
    };
    check_refused(earlier_commit, ErrorKind::Conflict).await?;
    let commit_naming =
        |name: &str, revision| Commit::new(id("t")).with_key(id("k")).consuming([InputRef::new(id(name), revision)]);
    check_refused(commit_naming("a", 3), ErrorKind::Conflict).await?;
    check_refused(commit_naming("unknown", 1), ErrorKind::NotFound).await?;
    expect_eq(queue.load().await?, queue_before)?;
    queue.consume(&["a"]).await?;
    check_refused(commit_naming("a", 2), ErrorKind::AlreadyConsumed).await?;
    let entry = ThreadWriter::new(given, "t").load_entry("a").await?;
    expect_eq(&*entry.body, &Body::Message(Message::user("new")))?;
    queue.expect_inputs("b").await
}

/// A commit that is refused for any reason does not change the queue. If one input is refused, none is consumed.
pub(super) async fn a_refused_commit_consumes_nothing(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    write_run(given, "t", done_run("done")).await?;
    let queue_before = queue.load().await?;
    let commit_of_both = || async { queue.commit_consuming(&["a", "b"]).await };
    for (commit, kind) in [
        (commit_of_both().await?.expecting(Expect::Absent), ErrorKind::Conflict),
        (commit_of_both().await?.with_run(running_run("done")), ErrorKind::InvalidTransition),
        (commit_of_both().await?.entry(user_entry("x").below(id("unknown"))), ErrorKind::Invalid),
        (commit_of_both().await?.entry(user_entry("a")), ErrorKind::AlreadyExists),
        (commit_of_both().await?.consuming([InputRef::new(id("unknown"), 1)]), ErrorKind::NotFound),
        // The shape of a commit is checked first (CM-43), and here the id `a` occurs twice: as a consumed input and as
        // a new entry. So neither the unknown input nor the unknown parent determines the answer.
        (
            commit_of_both().await?.consuming([InputRef::new(id("unknown"), 1)]).entry(user_entry("a").below(id("x"))),
            ErrorKind::AlreadyExists,
        ),
        (commit_of_both().await?.consuming([InputRef::new(id("a"), 1)]), ErrorKind::AlreadyExists),
    ] {
        expect_kind(given.commits()?.commit(commit).await, kind)?;
        expect_eq(queue.load().await?, queue_before.clone())?;
        expect_eq(given.read_log(&id("t")).await?.len(), 0)?;
    }
    queue.consume(&["b", "a"]).await?;
    queue.expect_inputs("").await
}

/// Like a commit with entries, a commit that consumes input needs a guard or a commit key, and increases the version: a
/// guard with the earlier version is then stale.
pub(super) async fn consumed_input_needs_a_guard_or_a_key(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    let thread = given.thread(&id("t")).await?;
    let unguarded_commit = queue.commit_consuming(&["a"]).await?.expecting(Expect::Any);
    expect_kind(given.commits()?.commit(unguarded_commit.clone()).await, ErrorKind::Invalid)?;
    given.expect_accepted(unguarded_commit.with_key(id("k"))).await?;
    let stale_commit = queue.commit_consuming(&["b"]).await?.expecting(Expect::Version(thread.version));
    expect_kind(given.commits()?.commit(stale_commit).await, ErrorKind::Conflict)?;
    expect_eq(given.thread(&id("t")).await?.version, thread.version.plus(1))
}

/// The consumed inputs are part of the content of a commit. If the commit is repeated with the same commit key and
/// inputs, it returns the first receipt. A commit with that key and other inputs is refused.
pub(super) async fn consumed_input_is_part_of_the_content_of_a_commit(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    let commit = queue.commit_consuming(&["a"]).await?.with_key(id("k"));
    let commit_of_other_input = queue.commit_consuming(&["b"]).await?.with_key(id("k"));
    let first_receipt = given.commit(commit.clone()).await?;
    let repeated_receipt = given.commit(commit).await?;
    expect_eq(
        (repeated_receipt.deduplicated, repeated_receipt.consumed, repeated_receipt.entry_ids),
        (true, first_receipt.consumed, first_receipt.entry_ids),
    )?;
    expect_kind(given.commits()?.commit(commit_of_other_input).await, ErrorKind::IdempotencyMismatch)?;
    queue.expect_inputs("b").await
}

/// A commit can consume 1,000 inputs. A commit that consumes more is refused.
pub(super) async fn a_commit_consumes_a_thousand_inputs_at_most(given: &Given) -> Verdict {
    let queue = ThreadQueue::of(given, "t");
    let inputs = queue.append((0..1_001).map(|number| input(&format!("i-{number}")))).await?.inputs;
    let commit = |count: usize| Commit::new(id("t")).with_key(id("k")).consuming(inputs.iter().take(count).cloned());
    expect_kind(given.commits()?.commit(commit(1_001)).await, ErrorKind::LimitExceeded)?;
    expect_eq(given.commit(commit(1_000)).await?.version.number(), 1_000)?;
    queue.expect_inputs("i-1000").await
}

/// An entry cannot take the id of a pending input, not even in the commit that consumes the input.
pub(super) async fn an_entry_cannot_take_the_id_of_pending_input(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b"]).await?;
    let writer = ThreadWriter::new(given, "t");
    writer.expect_refused([user_entry("a")], ErrorKind::AlreadyExists).await?;
    writer.expect_refused([user_entry("x"), user_entry("b")], ErrorKind::AlreadyExists).await?;
    let commit_with_taken_id = queue.commit_consuming(&["a"]).await?.entry(user_entry("a"));
    writer.expect_commit_refused(commit_with_taken_id, ErrorKind::AlreadyExists).await?;
    queue.consume(&["a"]).await?;
    queue.store()?.retract_pending(&id("t"), &id("b")).await?;
    writer.expect_accepted([user_entry("b")]).await?;
    writer.expect_log_ids("a b").await
}

/// After a reopen, consumed input is in the log and not in the queue. The other inputs are still in the queue, in the
/// same order.
pub(super) async fn consumption_survives_a_reopen(given: &Given) -> Verdict {
    let queue = ThreadQueue::with_inputs(given, "t", &["a", "b", "c"]).await?;
    queue.consume(&["b"]).await?;
    let (queue_before, log) = (queue.load().await?, given.read_log(&id("t")).await?);
    given.reopen().await?;
    expect_eq(queue.load().await?, queue_before)?;
    expect_eq(given.read_log(&id("t")).await?, log)?;
    queue.expect_refused([input("b")], ErrorKind::AlreadyConsumed).await?;
    queue.consume(&["c", "a"]).await?;
    ThreadWriter::new(given, "t").expect_log_ids("b c a").await
}
