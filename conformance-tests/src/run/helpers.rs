//! Helpers for cases about runs.

use store_core::{Commit, Error, ErrorKind, Receipt, Run, RunChange, RunOutcome, RunStatus, WaitingReason};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_some},
    given::{Given, id},
    log::{entry_drafts::user_entry, writer::ThreadWriter},
};

/// One status of each kind.
pub(crate) fn one_status_of_each_kind() -> [RunStatus; 4] {
    [
        RunStatus::Created,
        RunStatus::Running,
        RunStatus::waiting(WaitingReason::UserInput),
        RunStatus::done(RunOutcome::NaturalEnd),
    ]
}

/// A change that writes the run `name` of the agent `agent` with this status.
pub(crate) fn run_change(name: &str, status: RunStatus) -> RunChange {
    RunChange::new(id(name), status).with_agent(id("agent"))
}

/// A change that writes the run `name` as running.
pub(crate) fn running_run(name: &str) -> RunChange {
    run_change(name, RunStatus::Running)
}

/// A change that writes the run `name` as done.
pub(crate) fn done_run(name: &str) -> RunChange {
    run_change(name, RunStatus::done(RunOutcome::NaturalEnd))
}

/// Commits a change of a run, without a guard.
pub(crate) async fn write_run(given: &Given, thread: &str, change: RunChange) -> Verdict {
    write_run_for_receipt(given, thread, change).await.map(drop)
}

/// Commits a change of a run, without a guard, and returns the receipt.
pub(crate) async fn write_run_for_receipt(given: &Given, thread: &str, change: RunChange) -> Result<Receipt, Failure> {
    given.commit(Commit::new(id(thread)).with_run(change)).await
}

/// Loads a run that must exist.
pub(crate) async fn load_run(given: &Given, name: &str) -> Result<Run, Failure> {
    expect_some(given.threads()?.load_run(&id(name)).await?, name)
}

/// Checks that a commit with this run and an entry is refused and changes nothing. Returns the error.
pub(crate) async fn expect_run_refused(
    given: &Given,
    thread: &str,
    change: RunChange,
    kind: ErrorKind,
) -> Result<Error, Failure> {
    let (writer, name) = (ThreadWriter::new(given, thread), change.id.clone());
    let before = given.threads()?.load_run(&name).await?;
    let commit = writer.guarded_commit().await?.entry(user_entry("beside a refused run")).with_run(change);
    let error = writer.expect_commit_refused(commit, kind).await?;
    expect_eq(given.threads()?.load_run(&name).await?, before)?;
    Ok(error)
}
