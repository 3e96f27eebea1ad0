//! A commit takes effect in full or not at all.

use store_core::{
    Commit, ContextRequest, ErrorKind, Expect, RunFilter, StateChange, StateOp, ThreadFields, ThreadPatch,
};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_kind},
    given::{Given, commit_with_message, id},
    log::{
        entry_drafts::{json, label, rewind, tool_results_entry, user_entries, user_entry},
        writer::{ThreadWriter, reopen_if},
    },
    run::helpers::{done_run, load_run, one_status_of_each_kind, run_change, running_run, write_run},
};

/// Returns the record, the context, the runs and the log of a thread as one text, so that a case can compare the thread
/// before and after a call.
async fn thread_as_text(given: &Given, thread: &str) -> Result<String, Failure> {
    let (thread, threads) = (id(thread), given.threads()?);
    let Some(record) = threads.load_thread(&thread).await? else { return Ok("no thread".to_owned()) };
    let context = threads.load_context(&thread, ContextRequest::head()).await?;
    let mut query = store_core::RunQuery::default();
    query.filter.thread = Some(thread.clone());
    let runs = threads.list_runs(query).await?.items;
    Ok(format!("{record:?} {context:?} {runs:?} {:?}", given.read_log(&thread).await?))
}

/// A commit with two entries, a run, a state change and a key.
fn commit_with_all_parts(thread: &str, key: &str) -> Commit {
    let state = StateChange::new().set("a", json("1")).with("n", StateOp::Add(2));
    let commit =
        Commit::new(id(thread)).entries([user_entry("new"), label("new", Some("x"))]).with_run(running_run("new run"));
    commit.with_state(state).with_key(id(key))
}

/// After a commit its entries, its run, its state change, the record of its thread and its key are stored.
pub(crate) async fn every_part_of_a_commit_is_stored(given: &Given) -> Verdict {
    expect_every_part_stored(given, false).await
}

/// The entries, the run, the state change, the record of the thread and the key of a commit are still stored after the
/// store is closed and reopened.
pub(crate) async fn every_part_of_a_commit_survives_a_reopen(given: &Given) -> Verdict {
    expect_every_part_stored(given, true).await
}

async fn expect_every_part_stored(given: &Given, with_reopen: bool) -> Verdict {
    let mut fields = ThreadFields::default();
    fields.title = Some("title".to_owned());
    let commit = commit_with_all_parts("t", "k").creating(fields);
    let receipt = given.commit(commit.clone()).await?;
    let text_before = thread_as_text(given, "t").await?;
    reopen_if(given, with_reopen).await?;
    expect_eq(thread_as_text(given, "t").await?, text_before)?;
    let context = given.threads()?.load_context(&id("t"), ContextRequest::head()).await?;
    expect_eq(context.context.messages.len(), 1)?;
    expect_eq(context.state, [("a".to_owned(), json("1")), ("n".to_owned(), json("2"))].into())?;
    expect_eq(context.latest_run.map(|run| run.id), Some(id("new run")))?;
    expect_eq((context.thread.title, context.thread.version), (Some("title".to_owned()), receipt.version))?;
    let repeat_receipt = given.commit(commit).await?;
    expect_eq((repeat_receipt.deduplicated, repeat_receipt.entry_ids), (true, receipt.entry_ids))
}

/// Commits that are refused because of one of their parts. Each comes with the name of this part and the kind of the
/// error.
fn refused_commits() -> Vec<(&'static str, Commit, ErrorKind)> {
    let stale = Expect::Version(store_core::Version::new(1, 1, 0));
    let state = |op| StateChange::new().set("a", json("1")).with("text", op);
    vec![
        ("guard", commit_with_all_parts("t", "k").expecting(stale), ErrorKind::Conflict),
        ("absent", commit_with_all_parts("t", "k").expecting(Expect::Absent), ErrorKind::Conflict),
        ("key", commit_with_all_parts("t", "used"), ErrorKind::IdempotencyMismatch),
        ("entry id", commit_with_all_parts("t", "k").entry(user_entry("a")), ErrorKind::AlreadyExists),
        ("parent", commit_with_all_parts("t", "k").entry(user_entry("x").below(id("unknown"))), ErrorKind::Invalid),
        ("target", commit_with_all_parts("t", "k").entry(rewind("unknown")), ErrorKind::Invalid),
        ("message", commit_with_all_parts("t", "k").entry(tool_results_entry("x", &[])), ErrorKind::Invalid),
        ("transition", commit_with_all_parts("t", "k").with_run(running_run("done")), ErrorKind::InvalidTransition),
        (
            "run of another thread",
            commit_with_all_parts("t", "k").with_run(done_run("foreign")),
            ErrorKind::AlreadyExists,
        ),
        ("state value", commit_with_all_parts("t", "k").with_state(state(StateOp::Add(1))), ErrorKind::Invalid),
        (
            "state revision",
            commit_with_all_parts("t", "k").with_state(state(StateOp::Remove).expecting(7)),
            ErrorKind::Conflict,
        ),
    ]
}

/// If any part of a commit is refused, no part of the commit is stored, and its key can be used again.
pub(crate) async fn no_part_of_a_refused_commit_is_stored(given: &Given) -> Verdict {
    expect_no_part_stored(given, false).await
}

/// No part of a refused commit appears after the store is closed and reopened, and its key can be used again.
pub(crate) async fn no_part_of_a_refused_commit_appears_after_a_reopen(given: &Given) -> Verdict {
    expect_no_part_stored(given, true).await
}

async fn expect_no_part_stored(given: &Given, with_reopen: bool) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", user_entries(&["a", "b"])).await?;
    write_run(given, "other", running_run("foreign")).await?;
    let accepted_commit = writer.guarded_commit().await?.with_run(done_run("done")).with_key(id("used"));
    given.expect_accepted(accepted_commit.with_state(StateChange::new().set("text", json("\"x\"")))).await?;
    let (text_before, other_text_before) = (thread_as_text(given, "t").await?, thread_as_text(given, "other").await?);
    for (part, commit, kind) in refused_commits() {
        let result = given.commits()?.commit(commit).await;
        expect_kind(result, kind).map_err(|failure| failure.about(part))?;
        expect_eq(thread_as_text(given, "t").await?, text_before.clone()).map_err(|failure| failure.about(part))?;
    }
    expect_eq(given.threads()?.count_runs(&RunFilter::default()).await?, 2)?;
    reopen_if(given, with_reopen).await?;
    expect_eq(thread_as_text(given, "t").await?, text_before)?;
    expect_eq(thread_as_text(given, "other").await?, other_text_before)?;
    let receipt = given.commit(commit_with_all_parts("t", "k")).await?;
    expect_eq((receipt.deduplicated, receipt.version.number()), (false, 4))
}

/// A refused commit creates no thread. This holds for every reason for the refusal.
pub(crate) async fn a_refused_commit_creates_no_thread(given: &Given) -> Verdict {
    let creating_commit = || commit_with_all_parts("t", "k").expecting(Expect::Absent);
    let mut fields_with_own_parent = ThreadFields::default();
    fields_with_own_parent.parent_thread_id = Some(id("t"));
    let stale_state_change =
        StateChange::new().with("n", StateOp::Append(vec![])).with("m", StateOp::Max(1)).expecting(3);
    let run_without_agent = store_core::RunChange::new(id("r"), store_core::RunStatus::Running);
    for commit in [
        creating_commit().entry(user_entry("x").below(id("unknown"))),
        creating_commit().with_state(stale_state_change),
        creating_commit().creating(fields_with_own_parent),
        creating_commit().with_run(run_without_agent),
    ] {
        let refused = given.commits()?.commit(commit).await;
        expect_eq(refused.is_err(), true)?;
        expect_eq(thread_as_text(given, "t").await?.as_str(), "no thread")?;
    }
    given.expect_accepted(creating_commit()).await?;
    expect_eq(load_run(given, "new run").await?.thread, id("t"))
}

/// An error names the part of the commit that it is about, with its index.
pub(crate) async fn an_error_names_the_part_of_the_commit(given: &Given) -> Verdict {
    ThreadWriter::with_entries(given, "t", user_entries(&["a"])).await?;
    let keyed_commit = || Commit::new(id("t")).with_key(id("k"));
    let bad_state = StateChange::new().set("a", json("1")).remove("a");
    let mut fields_with_long_title = ThreadFields::default();
    fields_with_long_title.title = Some("x".repeat(2_000));
    let [_, running_status, ..] = one_status_of_each_kind();
    let mut run_with_missing_input = run_change("r", running_status);
    run_with_missing_input.input = vec![store_core::EntryRange { from: 9, to: 9 }];
    for (part, commit) in [
        ("entries[0]", keyed_commit().entry(user_entry("a"))),
        ("entries[2]", keyed_commit().entries([user_entry("x"), user_entry("y"), rewind("unknown")])),
        ("entries[1]", keyed_commit().entries([user_entry("x"), tool_results_entry("y", &[" "]), user_entry("a")])),
        ("run", keyed_commit().with_run(run_with_missing_input)),
        ("state", keyed_commit().with_state(bad_state)),
        ("create", keyed_commit().creating(fields_with_long_title)),
    ] {
        let Err(error) = given.commits()?.commit(commit).await else {
            return Err(Failure::new("the commit was accepted"));
        };
        expect_eq(error.part().map(|named_part| named_part.starts_with(part)), Some(true))
            .map_err(|failure| failure.about(format!("{part}: {error:?}")))?;
        expect_eq(error.to_string().contains(part), true)?;
    }
    Ok(())
}

/// Only a commit writes entries, runs and thread state. An update of the thread does not change them.
pub(crate) async fn an_update_writes_no_entry_run_or_state(given: &Given) -> Verdict {
    let first = given.commit(commit_with_all_parts("t", "k")).await?;
    let context_before = given.threads()?.load_context(&id("t"), ContextRequest::head()).await?;
    let patch = ThreadPatch::default().with_title("new").with_metadata("k", json("1"));
    given.threads()?.update_thread(&id("t"), patch, Expect::Any).await?;
    let mut context_after = given.threads()?.load_context(&id("t"), ContextRequest::head()).await?;
    expect_eq(context_after.thread.version, first.version)?;
    context_after.thread = context_before.thread.clone();
    expect_eq(context_after, context_before)?;
    given.expect_accepted(commit_with_message(&id("t"), Expect::Version(first.version), "next")).await
}
