//! Commit keys: a commit that is repeated with its key is applied only once.

use std::time::Duration;

use store_core::{
    ClaimNumber, ClaimToken, Commit, DeleteRequest, ErrorKind, Expect, Fence, IgnoreProgress, Message, NewEntry,
    StateChange, StateOp, Timestamp,
};

use super::helpers::{clear_state_first, replace_entries};
use crate::{
    check::{Verdict, expect_eq, expect_kind},
    given::{Given, commit_with_message, id, keyed_commit_with_message, message_entry},
    log::{
        entry_drafts::{custom_entry, json, user_entries, user_entry},
        writer::{ThreadWriter, reopen_if},
    },
    run::helpers::{done_run, running_run, write_run},
};

/// A commit that is repeated with the same key and content returns the first receipt and writes nothing. This is also
/// true after other commits, and if the guard of the commit no longer matches the thread.
pub(crate) async fn a_repeat_gives_the_first_receipt(given: &Given) -> Verdict {
    expect_repeats_return_first_receipt(given, false).await
}

/// A commit that is repeated with the same key and content after the store is closed and reopened returns the
/// first receipt and writes nothing.
pub(crate) async fn a_commit_key_survives_a_reopen(given: &Given) -> Verdict {
    expect_repeats_return_first_receipt(given, true).await
}

async fn expect_repeats_return_first_receipt(given: &Given, with_reopen: bool) -> Verdict {
    let state = StateChange::new().with("n", StateOp::Add(1));
    let commit = commit_with_message(&id("t"), Expect::Absent, "a")
        .with_key(id("k"))
        .with_run(running_run("r"))
        .with_state(state);
    let first_receipt = given.commit(commit.clone()).await?;
    expect_eq(first_receipt.deduplicated, false)?;
    for round in 0..3 {
        let (thread, log) = (given.thread(&id("t")).await?, given.read_log(&id("t")).await?);
        let mut repeat_receipt = given.commit(commit.clone()).await?;
        expect_eq(repeat_receipt.deduplicated, true)?;
        repeat_receipt.deduplicated = false;
        expect_eq(&repeat_receipt, &first_receipt)?;
        expect_eq(given.thread(&id("t")).await?, thread)?;
        expect_eq(given.read_log(&id("t")).await?, log)?;
        if round == 0 {
            given.expect_accepted(keyed_commit_with_message(&id("t"), "l", "b").with_run(done_run("r"))).await?;
            given.expect_accepted(Commit::new(id("t")).with_state(clear_state_first(StateChange::new()))).await?;
        }
        reopen_if(given, with_reopen).await?;
    }
    Ok(())
}

/// A commit to the thread `t`, with the key `k`, that writes a message, a run and a state change.
fn keyed_commit() -> Commit {
    let state = StateChange::new().set("a", json("1.0")).remove("b");
    Commit::new(id("t")).entry(message_entry("a")).with_run(running_run("r")).with_state(state).with_key(id("k"))
}

/// The content that belongs to a key does not include the guard, the fence, the order of the keys in maps, or ids that
/// the store generated.
pub(crate) async fn guard_fence_and_map_order_are_not_part_of_the_content(given: &Given) -> Verdict {
    let commit_with_metadata = |order: [&str; 2]| {
        let mut message = Message::user("with metadata");
        message.metadata = order.into_iter().map(|key| (key.to_owned(), json("1"))).collect();
        keyed_commit().entry(NewEntry::new(message))
    };
    let first_receipt = given.commit(commit_with_metadata(["x", "y"])).await?;
    let state_in_other_order = StateChange::new().remove("b").set("a", json(" 1.0 "));
    let fence = Fence::new(id("d"), ClaimToken::new("token"), 1, ClaimNumber { incarnation: 1, counter: 1 });
    for repeat in [
        commit_with_metadata(["y", "x"]),
        commit_with_metadata(["x", "y"]).expecting(Expect::Absent),
        commit_with_metadata(["x", "y"]).expecting(Expect::Version(first_receipt.version.plus(7))),
        commit_with_metadata(["x", "y"]).fenced(fence),
        commit_with_metadata(["x", "y"]).with_state(state_in_other_order),
    ] {
        let repeat_receipt = given.commit(repeat).await?;
        expect_eq((repeat_receipt.deduplicated, &repeat_receipt.entry_ids), (true, &first_receipt.entry_ids))?;
    }
    expect_eq(given.read_log(&id("t")).await?.len(), 2)
}

/// Commits with the key of [`keyed_commit`], each with other content.
fn commits_with_other_content() -> Vec<Commit> {
    let commit_with_state = |change: StateChange| keyed_commit().with_state(change);
    let (mut commit_without_state, mut run_with_steps) = (keyed_commit(), running_run("r"));
    (commit_without_state.state, run_with_steps.steps) = (None, Some(0));
    vec![
        keyed_commit().entry(message_entry("a")),
        replace_entries(commit_without_state.clone(), []),
        replace_entries(keyed_commit(), [user_entry("a")]),
        replace_entries(keyed_commit(), [message_entry("a").with_timestamp(Timestamp::MIN)]),
        replace_entries(keyed_commit(), [message_entry("a").with_side(false)]),
        replace_entries(keyed_commit(), [NewEntry::new(Message::assistant("a"))]),
        commit_without_state,
        commit_with_state(StateChange::new().set("a", json("1.00")).remove("b")),
        commit_with_state(StateChange::new().set("a", json("1.0"))),
        commit_with_state(StateChange::new().set("a", json("1.0")).remove("b").expecting(0)),
        commit_with_state(StateChange::new().set("a", json("1.0")).with("b", StateOp::Append(vec![]))),
        keyed_commit().with_run(done_run("r")),
        keyed_commit().with_run(run_with_steps),
        keyed_commit().with_run(running_run("s")),
        keyed_commit().at(Timestamp::MIN),
        keyed_commit().creating(store_core::ThreadFields::default()),
    ]
}

/// A commit with the same key and other content is refused with `IdempotencyMismatch`. One different byte in a JSON
/// value is enough.
pub(crate) async fn the_same_key_with_other_content_is_a_mismatch(given: &Given) -> Verdict {
    let writer = ThreadWriter::new(given, "t");
    given.expect_accepted(keyed_commit()).await?;
    for commit in commits_with_other_content() {
        let commit_text = format!("{commit:?}");
        let refused = writer.expect_commit_refused(commit, ErrorKind::IdempotencyMismatch).await;
        refused.map_err(|failure| failure.about(commit_text))?;
    }
    expect_eq(given.commit(keyed_commit()).await?.deduplicated, true)
}

/// A refused commit does not use up its key: the key can be used again with any content.
pub(crate) async fn a_refused_commit_does_not_use_up_its_key(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a"])).await?;
    let commit_of_entry = |entry: NewEntry| Commit::new(id("t")).with_key(id("k")).entry(entry);
    writer.expect_commit_refused(commit_of_entry(user_entry("a")), ErrorKind::AlreadyExists).await?;
    writer
        .expect_commit_refused(commit_of_entry(user_entry("b")).expecting(Expect::Absent), ErrorKind::Conflict)
        .await?;
    writer.expect_commit_refused(commit_of_entry(user_entry("b").below(id("unknown"))), ErrorKind::Invalid).await?;
    let receipt = given.commit(commit_of_entry(user_entry("b"))).await?;
    expect_eq((receipt.deduplicated, receipt.version.number()), (false, 2))?;
    writer.expect_commit_refused(commit_of_entry(user_entry("c")), ErrorKind::IdempotencyMismatch).await.map(drop)
}

/// The keys of two threads are independent of each other. The keys of a deleted thread and of a new thread with the
/// same id are independent, too.
pub(crate) async fn keys_belong_to_one_thread(given: &Given) -> Verdict {
    for (thread, text) in [("t", "a"), ("u", "a"), ("v", "other")] {
        let receipt = given.commit(keyed_commit_with_message(&id(thread), "k", text)).await?;
        expect_eq((receipt.deduplicated, receipt.thread), (false, id(thread)))?;
    }
    let commit_to_t = keyed_commit_with_message(&id("t"), "k", "a");
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_kind(given.commits()?.commit(commit_to_t.clone()).await, ErrorKind::NotFound)?;
    let recreated = given.commit(commit_to_t.expecting(Expect::Absent)).await?;
    expect_eq((recreated.deduplicated, recreated.version.number(), recreated.version.generation()), (false, 1, 2))?;
    expect_kind(
        given.commits()?.commit(keyed_commit_with_message(&id("t"), "k", "b")).await,
        ErrorKind::IdempotencyMismatch,
    )?;
    expect_eq(given.commit(keyed_commit_with_message(&id("u"), "k", "a")).await?.deduplicated, true)
}

/// A thread remembers its keys as long as it exists, even after many other commits and a long time.
pub(crate) async fn a_key_lives_as_long_as_its_thread(given: &Given) -> Verdict {
    let first_receipt = given.commit(keyed_commit_with_message(&id("t"), "k", "a")).await?;
    for number in 0..300 {
        let _receipt = given.commit(keyed_commit_with_message(&id("t"), &format!("k{number}"), "more")).await?;
    }
    given.advance(Duration::from_secs(400 * 24 * 60 * 60)).await;
    write_run(given, "t", running_run("keeps the thread from being pruned")).await?;
    given.threads()?.purge_deleted(&IgnoreProgress).await?;
    let repeat_receipt = given.commit(keyed_commit_with_message(&id("t"), "k", "a")).await?;
    expect_eq(
        (repeat_receipt.deduplicated, repeat_receipt.version, repeat_receipt.time),
        (true, first_receipt.version, first_receipt.time),
    )?;
    expect_eq(given.commit(keyed_commit_with_message(&id("t"), "k7", "more")).await?.deduplicated, true)
}

/// If the key shows that a commit is a repeat, the fence, guard, state revision, run and entries of the commit are not
/// checked.
pub(crate) async fn a_repeat_is_checked_by_its_key_alone(given: &Given) -> Verdict {
    let state = StateChange::new().set("a", json("1")).expecting(0);
    let commit =
        Commit::new(id("t")).entry(user_entry("a")).with_run(done_run("r")).with_state(state).with_key(id("k"));
    let first_receipt = given.commit(commit.clone().expecting(Expect::Absent)).await?;
    let fence = |counter| Fence::new(id("d"), ClaimToken::new("token"), 1, ClaimNumber { incarnation: 1, counter });
    given.expect_accepted(Commit::new(id("t")).entry(custom_entry("b")).with_key(id("l")).fenced(fence(9))).await?;
    for guard in [Expect::Absent, Expect::Any, Expect::Version(first_receipt.version.plus(9))] {
        let repeat_receipt = given.commit(commit.clone().expecting(guard).fenced(fence(1))).await?;
        expect_eq((repeat_receipt.deduplicated, repeat_receipt.version), (true, first_receipt.version))?;
    }
    // A repeat with a higher claim number does not raise the highest claim number of the thread.
    given.expect_accepted(commit.fenced(fence(99))).await?;
    given.expect_accepted(keyed_commit_with_message(&id("t"), "m", "x").fenced(fence(9))).await
}
