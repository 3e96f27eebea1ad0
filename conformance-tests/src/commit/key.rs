//! Commit keys: a commit that is repeated with its key is applied only once.

use std::time::Duration;

use store_core::{
    ClaimNumber, ClaimToken, Commit, DeleteRequest, ErrorKind, Expect, Fence, Message, NewEntry, Silent, StateChange,
    StateOp, Timestamp,
};

use super::draft::{clearing, with_entries};
use crate::{
    check::{Verdict, expect_eq, expect_kind},
    given::{Given, id, said, say, say_keyed},
    log::{
        draft::{custom, json, user, users},
        writer::{Writer, reopen},
    },
    run::draft::{done, running, write},
};

/// A commit that is repeated with the same key and content returns the first receipt and writes nothing. This also
/// holds after other commits, and if the guard would no longer hold.
pub(crate) async fn a_repeat_gives_the_first_receipt(given: &Given) -> Verdict {
    repeat(given, false).await
}

/// A commit that is repeated with the same key and content after the store is closed and reopened returns the
/// first receipt and writes nothing.
pub(crate) async fn a_commit_key_survives_a_reopen(given: &Given) -> Verdict {
    repeat(given, true).await
}

async fn repeat(given: &Given, reopened: bool) -> Verdict {
    let state = StateChange::new().with("n", StateOp::Add(1));
    let commit = say(&id("t"), Expect::Absent, "a").with_key(id("k")).with_run(running("r")).with_state(state);
    let first = given.commit(commit.clone()).await?;
    expect_eq(first.deduplicated, false)?;
    for round in 0..3 {
        let (thread, log) = (given.thread(&id("t")).await?, given.log(&id("t")).await?);
        let mut again = given.commit(commit.clone()).await?;
        expect_eq(again.deduplicated, true)?;
        again.deduplicated = false;
        expect_eq(&again, &first)?;
        expect_eq(given.thread(&id("t")).await?, thread)?;
        expect_eq(given.log(&id("t")).await?, log)?;
        if round == 0 {
            given.accept(say_keyed(&id("t"), "l", "b").with_run(done("r"))).await?;
            given.accept(Commit::new(id("t")).with_state(clearing(StateChange::new()))).await?;
        }
        reopen(given, reopened).await?;
    }
    Ok(())
}

fn commit() -> Commit {
    let state = StateChange::new().set("a", json("1.0")).remove("b");
    Commit::new(id("t")).entry(said("a")).with_run(running("r")).with_state(state).with_key(id("k"))
}

/// The content that belongs to a key does not include the guard, the fence, the order of the keys in maps, or ids that
/// the store generated.
pub(crate) async fn guard_fence_and_map_order_are_not_part_of_the_content(given: &Given) -> Verdict {
    let metadata = |order: [&str; 2]| {
        let mut message = Message::user("with metadata");
        message.metadata = order.into_iter().map(|key| (key.to_owned(), json("1"))).collect();
        commit().entry(NewEntry::new(message))
    };
    let first = given.commit(metadata(["x", "y"])).await?;
    let swapped = StateChange::new().remove("b").set("a", json(" 1.0 "));
    let fence = Fence::new(id("d"), ClaimToken::new("token"), 1, ClaimNumber { incarnation: 1, counter: 1 });
    for same in [
        metadata(["y", "x"]),
        metadata(["x", "y"]).expecting(Expect::Absent),
        metadata(["x", "y"]).expecting(Expect::Version(first.version.plus(7))),
        metadata(["x", "y"]).fenced(fence),
        metadata(["x", "y"]).with_state(swapped),
    ] {
        let again = given.commit(same).await?;
        expect_eq((again.deduplicated, &again.entry_ids), (true, &first.entry_ids))?;
    }
    expect_eq(given.log(&id("t")).await?.len(), 2)
}

/// Commits with the same key as the first commit of a case, each with other content.
fn others() -> Vec<Commit> {
    let state = |change: StateChange| commit().with_state(change);
    let (mut bare, mut steps) = (commit(), running("r"));
    (bare.state, steps.steps) = (None, Some(0));
    vec![
        commit().entry(said("a")),
        with_entries(bare.clone(), []),
        with_entries(commit(), [user("a")]),
        with_entries(commit(), [said("a").with_timestamp(Timestamp::MIN)]),
        with_entries(commit(), [said("a").with_side(false)]),
        with_entries(commit(), [NewEntry::new(Message::assistant("a"))]),
        bare,
        state(StateChange::new().set("a", json("1.00")).remove("b")),
        state(StateChange::new().set("a", json("1.0"))),
        state(StateChange::new().set("a", json("1.0")).remove("b").expecting(0)),
        state(StateChange::new().set("a", json("1.0")).with("b", StateOp::Append(vec![]))),
        commit().with_run(done("r")),
        commit().with_run(steps),
        commit().with_run(running("s")),
        commit().at(Timestamp::MIN),
        commit().creating(store_core::ThreadFields::default()),
    ]
}

/// A commit with the same key and other content is refused with `IdempotencyMismatch`. One different byte in a JSON
/// value is enough.
pub(crate) async fn the_same_key_with_other_content_is_a_mismatch(given: &Given) -> Verdict {
    let writer = Writer::new(given, "t");
    given.accept(commit()).await?;
    for other in others() {
        let about = format!("{other:?}");
        let refused = writer.refuse_commit(other, ErrorKind::IdempotencyMismatch).await;
        refused.map_err(|failure| failure.about(about))?;
    }
    expect_eq(given.commit(commit()).await?.deduplicated, true)
}

/// A refused commit does not use up its key: the key can be used again with any content.
pub(crate) async fn a_refused_commit_does_not_use_up_its_key(given: &Given) -> Verdict {
    let writer = Writer::having(given, "t", users(&["a"])).await?;
    let keyed = |entry: NewEntry| Commit::new(id("t")).with_key(id("k")).entry(entry);
    writer.refuse_commit(keyed(user("a")), ErrorKind::AlreadyExists).await?;
    writer.refuse_commit(keyed(user("b")).expecting(Expect::Absent), ErrorKind::Conflict).await?;
    writer.refuse_commit(keyed(user("b").below(id("unknown"))), ErrorKind::Invalid).await?;
    let receipt = given.commit(keyed(user("b"))).await?;
    expect_eq((receipt.deduplicated, receipt.version.number()), (false, 2))?;
    writer.refuse_commit(keyed(user("c")), ErrorKind::IdempotencyMismatch).await.map(drop)
}

/// The keys of two threads are independent of each other. So are the keys of a deleted thread and those
/// of a new thread under its id.
pub(crate) async fn keys_belong_to_one_thread(given: &Given) -> Verdict {
    for (thread, text) in [("t", "a"), ("u", "a"), ("v", "other")] {
        let receipt = given.commit(say_keyed(&id(thread), "k", text)).await?;
        expect_eq((receipt.deduplicated, receipt.thread), (false, id(thread)))?;
    }
    let gone = say_keyed(&id("t"), "k", "a");
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_kind(given.commits()?.commit(gone.clone()).await, ErrorKind::NotFound)?;
    let anew = given.commit(gone.expecting(Expect::Absent)).await?;
    expect_eq((anew.deduplicated, anew.version.number(), anew.version.generation()), (false, 1, 2))?;
    expect_kind(given.commits()?.commit(say_keyed(&id("t"), "k", "b")).await, ErrorKind::IdempotencyMismatch)?;
    expect_eq(given.commit(say_keyed(&id("u"), "k", "a")).await?.deduplicated, true)
}

/// A thread remembers its keys as long as it exists, however many commits follow and however much time passes.
pub(crate) async fn a_key_lives_as_long_as_its_thread(given: &Given) -> Verdict {
    let first = given.commit(say_keyed(&id("t"), "k", "a")).await?;
    for at in 0..300 {
        let _receipt = given.commit(say_keyed(&id("t"), &format!("k{at}"), "more")).await?;
    }
    given.advance(Duration::from_secs(400 * 24 * 60 * 60)).await;
    write(given, "t", running("keeps the thread from being pruned")).await?;
    given.threads()?.purge_deleted(&Silent).await?;
    let again = given.commit(say_keyed(&id("t"), "k", "a")).await?;
    expect_eq((again.deduplicated, again.version, again.time), (true, first.version, first.time))?;
    expect_eq(given.commit(say_keyed(&id("t"), "k7", "more")).await?.deduplicated, true)
}

/// If the key shows that a commit is a repeat, the fence, guard, state revision, run and entries of the commit are not
/// checked.
pub(crate) async fn a_repeat_is_checked_by_its_key_alone(given: &Given) -> Verdict {
    let state = StateChange::new().set("a", json("1")).expecting(0);
    let commit = Commit::new(id("t")).entry(user("a")).with_run(done("r")).with_state(state).with_key(id("k"));
    let first = given.commit(commit.clone().expecting(Expect::Absent)).await?;
    let fence = |counter| Fence::new(id("d"), ClaimToken::new("token"), 1, ClaimNumber { incarnation: 1, counter });
    given.accept(Commit::new(id("t")).entry(custom("b")).with_key(id("l")).fenced(fence(9))).await?;
    for guard in [Expect::Absent, Expect::Any, Expect::Version(first.version.plus(9))] {
        let again = given.commit(commit.clone().expecting(guard).fenced(fence(1))).await?;
        expect_eq((again.deduplicated, again.version), (true, first.version))?;
    }
    // A repeat with a higher claim number does not raise the highest claim number of the thread.
    given.accept(commit.fenced(fence(99))).await?;
    given.accept(say_keyed(&id("t"), "m", "x").fenced(fence(9))).await
}
