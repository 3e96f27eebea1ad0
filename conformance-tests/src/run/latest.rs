//! The latest and the open runs of a thread.

use std::{sync::Arc, time::Duration};

use store_core::{Commit, RunStatus, WaitingReason};

use super::helpers::{done_run, load_run, run_change, running_run, write_run};
use crate::{
    check::{Failure, Verdict, expect_eq},
    given::{Given, id, run_concurrently},
};

/// Checks the latest run and the open runs of the thread `t`.
async fn expect_latest_and_open_runs(given: &Given, latest: &str, open: &[&str]) -> Verdict {
    let thread = given.thread(&id("t")).await?;
    expect_eq(thread.latest_run, Some(id(latest)))?;
    expect_eq(thread.open_runs, open.iter().map(|name| id(name)).collect::<Vec<_>>())
}

/// The latest run is the one that was written last, even if it was created before others. The open runs are all runs
/// that are not done, in the order of their creation.
pub(crate) async fn the_run_written_last_is_the_latest(given: &Given) -> Verdict {
    write_run(given, "t", running_run("z")).await?;
    write_run(given, "t", run_change("a", RunStatus::Created)).await?;
    expect_latest_and_open_runs(given, "a", &["z", "a"]).await?;
    write_run(given, "t", run_change("z", RunStatus::waiting(WaitingReason::ExternalEvent))).await?;
    expect_latest_and_open_runs(given, "z", &["z", "a"]).await?;
    write_run(given, "t", running_run("m")).await?;
    write_run(given, "t", done_run("z")).await?;
    expect_latest_and_open_runs(given, "z", &["a", "m"]).await?;
    write_run(given, "t", done_run("at once")).await?;
    expect_latest_and_open_runs(given, "at once", &["a", "m"]).await?;
    write_run(given, "other", running_run("elsewhere")).await?;
    write_run(given, "t", running_run("a")).await?;
    expect_latest_and_open_runs(given, "a", &["a", "m"]).await?;
    let context = given.threads()?.load_context(&id("t"), store_core::ContextRequest::head()).await?;
    expect_eq(context.latest_run, Some(load_run(given, "a").await?))?;
    let open_runs = vec![load_run(given, "a").await?, load_run(given, "m").await?];
    expect_eq(context.open_runs, open_runs)
}

/// The order of commits decides which run is the latest, even if store time does not advance or is set back.
pub(crate) async fn times_do_not_decide_which_run_is_the_latest(given: &Given) -> Verdict {
    write_run(given, "t", running_run("b")).await?;
    write_run(given, "t", running_run("a")).await?;
    expect_latest_and_open_runs(given, "a", &["b", "a"]).await?;
    given.set_back(Duration::from_secs(3600)).await;
    write_run(given, "t", running_run("b")).await?;
    expect_latest_and_open_runs(given, "b", &["b", "a"]).await?;
    let before = load_run(given, "b").await?.updated_at;
    write_run(given, "t", running_run("a")).await?;
    expect_latest_and_open_runs(given, "a", &["b", "a"]).await?;
    // The times of a run do not decrease either.
    given.set_back(Duration::from_secs(3600)).await;
    write_run(given, "t", running_run("b")).await?;
    expect_eq(load_run(given, "b").await?.updated_at >= before, true)?;
    expect_latest_and_open_runs(given, "b", &["b", "a"]).await
}

/// If tasks create and change runs of one thread concurrently, each run that is not done is listed as open exactly
/// once. The latest run is the last run of one of the tasks.
pub(crate) async fn concurrent_runs_all_appear(given: &Given) -> Verdict {
    const TASKS: usize = 8;
    let commits = given.commits()?;
    let results = run_concurrently(TASKS, |task| {
        let commits = Arc::clone(&commits);
        async move {
            for step in
                [running_run(&format!("r{task}")), running_run(&format!("r{task}")), running_run(&format!("s{task}"))]
            {
                let _receipt = commits.commit(Commit::new(id("t")).with_run(step)).await?;
            }
            commits.commit(Commit::new(id("t")).with_run(done_run(&format!("s{task}")))).await
        }
    })
    .await;
    results.into_iter().collect::<Result<Vec<_>, _>>().map_err(Failure::from)?;
    let thread = given.thread(&id("t")).await?;
    let mut open_run_names: Vec<_> = thread.open_runs.iter().map(ToString::to_string).collect();
    let mut creation_times = Vec::new();
    for name in &open_run_names {
        creation_times.push(load_run(given, name).await?.created_at);
    }
    expect_eq(creation_times.is_sorted(), true)?;
    open_run_names.sort();
    expect_eq(open_run_names, (0..TASKS).map(|task| format!("r{task}")).collect::<Vec<_>>())?;
    let latest = thread.latest_run.map(|run| run.to_string()).unwrap_or_default();
    expect_eq(latest.starts_with('s'), true)
}
