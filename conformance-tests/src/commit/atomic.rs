//! A commit takes effect in full or not at all.

use store_core::{
    Commit, ContextRequest, ErrorKind, Expect, RunFilter, StateChange, StateOp, ThreadFields, ThreadPatch,
};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_kind},
    given::{Given, id, say},
    log::{
        draft::{answering, json, label, rewind, user, users},
        writer::{Writer, reopen},
    },
    run::draft::{change, done, load, running, statuses, write},
};

/// The record, the context, the runs and the log of a thread, as text. A case compares such texts.
async fn everything(given: &Given, thread: &str) -> Result<String, Failure> {
    let (thread, threads) = (id(thread), given.threads()?);
    let Some(found) = threads.load_thread(&thread).await? else { return Ok("no thread".to_owned()) };
    let context = threads.load_context(&thread, ContextRequest::head()).await?;
    let mut query = store_core::RunQuery::default();
    query.filter.thread = Some(thread.clone());
    let runs = threads.list_runs(query).await?.items;
    Ok(format!("{found:?} {context:?} {runs:?} {:?}", given.log(&thread).await?))
}

/// A commit with two entries, a run, a state change and a key.
fn full(thread: &str, key: &str) -> Commit {
    let state = StateChange::new().set("a", json("1")).with("n", StateOp::Add(2));
    let commit = Commit::new(id(thread)).entries([user("new"), label("new", Some("x"))]).with_run(running("new run"));
    commit.with_state(state).with_key(id(key))
}

/// After a commit its entries, its run, its state change, the record of its thread and its key are stored.
pub(crate) async fn every_part_of_a_commit_is_stored(given: &Given) -> Verdict {
    every_part(given, false).await
}

/// The entries, the run, the state change, the record of the thread and the key of a commit are still stored after the
/// store is closed and reopened.
pub(crate) async fn every_part_of_a_commit_survives_a_reopen(given: &Given) -> Verdict {
    every_part(given, true).await
}

async fn every_part(given: &Given, reopened: bool) -> Verdict {
    let mut fields = ThreadFields::default();
    fields.title = Some("title".to_owned());
    let commit = full("t", "k").creating(fields);
    let receipt = given.commit(commit.clone()).await?;
    let before = everything(given, "t").await?;
    reopen(given, reopened).await?;
    expect_eq(everything(given, "t").await?, before)?;
    let context = given.threads()?.load_context(&id("t"), ContextRequest::head()).await?;
    expect_eq(context.context.messages.len(), 1)?;
    expect_eq(context.state, [("a".to_owned(), json("1")), ("n".to_owned(), json("2"))].into())?;
    expect_eq(context.latest_run.map(|run| run.id), Some(id("new run")))?;
    expect_eq((context.thread.title, context.thread.version), (Some("title".to_owned()), receipt.version))?;
    let again = given.commit(commit).await?;
    expect_eq((again.deduplicated, again.entry_ids), (true, receipt.entry_ids))
}

/// Commits that are refused because of one of their parts. Each comes with the name of this part and the kind of the
/// error.
fn refused() -> Vec<(&'static str, Commit, ErrorKind)> {
    let stale = Expect::Version(store_core::Version::new(1, 1, 0));
    let state = |op| StateChange::new().set("a", json("1")).with("text", op);
    vec![
        ("guard", full("t", "k").expecting(stale), ErrorKind::Conflict),
        ("absent", full("t", "k").expecting(Expect::Absent), ErrorKind::Conflict),
        ("key", full("t", "used"), ErrorKind::IdempotencyMismatch),
        ("entry id", full("t", "k").entry(user("a")), ErrorKind::AlreadyExists),
        ("parent", full("t", "k").entry(user("x").below(id("unknown"))), ErrorKind::Invalid),
        ("target", full("t", "k").entry(rewind("unknown")), ErrorKind::Invalid),
        ("message", full("t", "k").entry(answering("x", &[])), ErrorKind::Invalid),
        ("transition", full("t", "k").with_run(running("done")), ErrorKind::InvalidTransition),
        ("run of another thread", full("t", "k").with_run(done("foreign")), ErrorKind::AlreadyExists),
        ("state value", full("t", "k").with_state(state(StateOp::Add(1))), ErrorKind::Invalid),
        ("state revision", full("t", "k").with_state(state(StateOp::Remove).expecting(7)), ErrorKind::Conflict),
    ]
}

/// If any part of a commit is refused, no part of the commit is stored, and its key can be used again.
pub(crate) async fn no_part_of_a_refused_commit_is_stored(given: &Given) -> Verdict {
    no_part(given, false).await
}

/// No part of a refused commit appears after the store is closed and reopened, and its key can be used again.
pub(crate) async fn no_part_of_a_refused_commit_appears_after_a_reopen(given: &Given) -> Verdict {
    no_part(given, true).await
}

async fn no_part(given: &Given, reopened: bool) -> Verdict {
    let writer = Writer::having(given, "t", users(&["a", "b"])).await?;
    write(given, "other", running("foreign")).await?;
    let first = writer.commit().await?.with_run(done("done")).with_key(id("used"));
    given.accept(first.with_state(StateChange::new().set("text", json("\"x\"")))).await?;
    let (before, other) = (everything(given, "t").await?, everything(given, "other").await?);
    for (what, commit, kind) in refused() {
        let result = given.commits()?.commit(commit).await;
        expect_kind(result, kind).map_err(|failure| failure.about(what))?;
        expect_eq(everything(given, "t").await?, before.clone()).map_err(|failure| failure.about(what))?;
    }
    expect_eq(given.threads()?.count_runs(&RunFilter::default()).await?, 2)?;
    reopen(given, reopened).await?;
    expect_eq(everything(given, "t").await?, before)?;
    expect_eq(everything(given, "other").await?, other)?;
    let receipt = given.commit(full("t", "k")).await?;
    expect_eq((receipt.deduplicated, receipt.version.number()), (false, 4))
}

/// A refused commit creates no thread, whatever the reason for the refusal is.
pub(crate) async fn a_refused_commit_makes_no_thread(given: &Given) -> Verdict {
    let absent = || full("t", "k").expecting(Expect::Absent);
    let mut orphan = ThreadFields::default();
    orphan.parent_thread_id = Some(id("t"));
    let adding = StateChange::new().with("n", StateOp::Append(vec![])).with("m", StateOp::Max(1)).expecting(3);
    for commit in [
        absent().entry(user("x").below(id("unknown"))),
        absent().with_state(adding),
        absent().creating(orphan),
        absent().with_run(store_core::RunChange::new(id("r"), store_core::RunStatus::Running)),
    ] {
        let refused = given.commits()?.commit(commit).await;
        expect_eq(refused.is_err(), true)?;
        expect_eq(everything(given, "t").await?.as_str(), "no thread")?;
    }
    given.accept(absent()).await?;
    expect_eq(load(given, "new run").await?.thread, id("t"))
}

/// An error names the part of the commit that it is about, with its index.
pub(crate) async fn an_error_names_the_part(given: &Given) -> Verdict {
    Writer::having(given, "t", users(&["a"])).await?;
    let keyed = || Commit::new(id("t")).with_key(id("k"));
    let bad_state = StateChange::new().set("a", json("1")).remove("a");
    let mut long = ThreadFields::default();
    long.title = Some("x".repeat(2_000));
    let [_, running, ..] = statuses();
    let mut unread = change("r", running);
    unread.input = vec![store_core::EntryRange { from: 9, to: 9 }];
    for (part, commit) in [
        ("entries[0]", keyed().entry(user("a"))),
        ("entries[2]", keyed().entries([user("x"), user("y"), rewind("unknown")])),
        ("entries[1]", keyed().entries([user("x"), answering("y", &[" "]), user("a")])),
        ("run", keyed().with_run(unread)),
        ("state", keyed().with_state(bad_state)),
        ("create", keyed().creating(long)),
    ] {
        let Err(error) = given.commits()?.commit(commit).await else {
            return Err(Failure::new("the commit was accepted"));
        };
        expect_eq(error.part().map(|found| found.starts_with(part)), Some(true))
            .map_err(|failure| failure.about(format!("{part}: {error:?}")))?;
        expect_eq(error.to_string().contains(part), true)?;
    }
    Ok(())
}

/// Only a commit writes entries, runs and thread state. An update of the thread does not change them.
pub(crate) async fn an_update_writes_no_entry_run_or_state(given: &Given) -> Verdict {
    let first = given.commit(full("t", "k")).await?;
    let before = given.threads()?.load_context(&id("t"), ContextRequest::head()).await?;
    let patch = ThreadPatch::default().with_title("new").with_metadata("k", json("1"));
    given.threads()?.update_thread(&id("t"), patch, Expect::Any).await?;
    let mut after = given.threads()?.load_context(&id("t"), ContextRequest::head()).await?;
    expect_eq(after.thread.version, first.version)?;
    after.thread = before.thread.clone();
    expect_eq(after, before)?;
    given.accept(say(&id("t"), Expect::Version(first.version), "next")).await
}
