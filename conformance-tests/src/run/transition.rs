//! The statuses of a run: which may follow which, and when times are set.

use std::{sync::Arc, time::Duration};

use store_core::{Commit, ErrorKind, RunOutcome, RunStatus, StateChange, WaitingReason};

use super::helpers::{
    done_run, expect_run_refused, load_run, one_status_of_each_kind, run_change, running_run, write_run,
    write_run_for_receipt,
};
use crate::{
    check::{Verdict, expect_eq, expect_exactly_one, expect_kinds},
    given::{Given, id, run_concurrently},
    log::{
        entry_drafts::{json, usage_entry, user_entry},
        writer::ThreadWriter,
    },
};

/// A run can change only to the statuses that the table allows. Any other change is refused, together with everything
/// else in its commit.
pub(crate) async fn status_transitions_follow_the_table(given: &Given) -> Verdict {
    // There is a row for each status before the change, and a column for each status after it. Rows and columns are in
    // the order created, running, waiting, done.
    let allowed = [
        [false, true, false, true],
        [false, true, true, true],
        [false, true, true, true],
        [false, false, false, false],
    ];
    for (row, from) in one_status_of_each_kind().into_iter().enumerate() {
        for (column, to) in one_status_of_each_kind().into_iter().enumerate() {
            let name = format!("{from} to {to}");
            create_run_with_status(given, &name, &from).await?;
            let next = run_change(&name, to.clone());
            if allowed[row][column] {
                let receipt = write_run_for_receipt(given, "t", next).await.map_err(|failure| failure.about(&name))?;
                expect_eq(receipt.run_status, Some(to.clone()))?;
                expect_eq(load_run(given, &name).await?.status, to)?;
            } else {
                let refused = expect_run_refused(given, "t", next, ErrorKind::InvalidTransition).await;
                refused.map_err(|failure| failure.about(&name))?;
            }
            if load_run(given, &name).await?.is_open() {
                write_run(given, "t", done_run(&name)).await?;
            }
        }
    }
    Ok(())
}

/// Creates the run `name` and brings it to this status.
async fn create_run_with_status(given: &Given, name: &str, status: &RunStatus) -> Verdict {
    write_run(given, "t", run_change(name, RunStatus::Created)).await?;
    if *status != RunStatus::Created {
        write_run(given, "t", running_run(name)).await?;
        write_run(given, "t", run_change(name, status.clone())).await?;
    }
    Ok(())
}

/// Every write to a run that is done is refused, unless the write repeats an earlier commit with its commit key.
pub(crate) async fn a_done_run_never_changes(given: &Given) -> Verdict {
    let writer = ThreadWriter::with_entries(given, "t", [user_entry("a")]).await?;
    write_run(given, "t", running_run("r")).await?;
    let last_commit = Commit::new(id("t")).with_run(done_run("r")).with_key(id("last"));
    let receipt = given.commit(last_commit.clone()).await?;
    let run = load_run(given, "r").await?;
    let failed = RunStatus::done(RunOutcome::Failed { error: "late".to_owned() });
    for status in one_status_of_each_kind().into_iter().chain([failed]) {
        let mut later_change = run_change("r", status);
        later_change.steps = Some(9);
        later_change.state = [("k".to_owned(), Some(json("1")))].into();
        expect_run_refused(given, "t", later_change, ErrorKind::InvalidTransition).await?;
    }
    let mut repeated = given.commit(last_commit).await?;
    expect_eq(repeated.deduplicated, true)?;
    repeated.deduplicated = false;
    expect_eq(repeated, receipt)?;
    // An entry that names the run does not change it either, whether the entry is accepted or not.
    let commit_with_entry = writer.guarded_commit().await?.entry(usage_entry(5, 5).with_run(id("r"), None));
    drop(given.commits()?.commit(commit_with_entry).await);
    expect_eq(load_run(given, "r").await?, run)
}

/// Of several concurrent commits that end the same run, exactly one succeeds.
pub(crate) async fn a_run_ends_once(given: &Given) -> Verdict {
    for round in 0..20 {
        let name = format!("r{round}");
        write_run(given, "t", running_run(&name)).await?;
        let commits = given.commits()?;
        let results = run_concurrently(4, |task| {
            let failed = RunOutcome::Failed { error: task.to_string() };
            let ending_commit = Commit::new(id("t")).with_run(run_change(&name, RunStatus::done(failed)));
            let ending_commit = ending_commit.with_state(StateChange::new().set(&name, json(&task.to_string())));
            let commits = Arc::clone(&commits);
            async move { commits.commit(ending_commit).await }
        })
        .await;
        let (succeeded, refused) = expect_exactly_one(results)?;
        expect_kinds(refused, ErrorKind::InvalidTransition)?;
        expect_eq(succeeded.run_status, Some(load_run(given, &name).await?.status))?;
    }
    let open_runs = given.thread(&id("t")).await?.open_runs;
    expect_eq(open_runs, vec![])
}

/// `started_at` is set when a run first gets the status running, and `finished_at` when it is done. Each is set once.
pub(crate) async fn times_are_set_once(given: &Given) -> Verdict {
    let waiting = || run_change("r", RunStatus::waiting(WaitingReason::RateLimit));
    let mut times = Vec::new();
    for step in [run_change("r", RunStatus::Created), running_run("r"), waiting(), running_run("r"), done_run("r")] {
        let receipt = write_run_for_receipt(given, "t", step).await?;
        times.push(receipt.time);
        let run = load_run(given, "r").await?;
        expect_eq((run.created_at, run.updated_at), (times[0], receipt.time))?;
        expect_eq(run.started_at, times.get(1).copied())?;
        expect_eq(run.finished_at, times.get(4).copied())?;
        given.advance(Duration::from_millis(7)).await;
    }
    let receipt = write_run_for_receipt(given, "t", done_run("never ran")).await?;
    let run = load_run(given, "never ran").await?;
    expect_eq((run.started_at, run.finished_at), (None, Some(receipt.time)))
}
