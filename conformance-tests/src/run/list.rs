//! Lists and counts of runs.

use std::time::Duration;

use store_core::{Direction, PageRequest, Run, RunFilter, RunPhase, RunQuery, RunStatus, WaitingReason};

use super::helpers::{done_run, load_run, run_change, running_run, write_run};
use crate::{
    check::{Failure, Verdict, expect_eq},
    given::{Given, id, read_all_pages},
};

/// Returns all runs that match the filter, read page by page.
async fn list_all_runs(given: &Given, filter: RunFilter, direction: Direction) -> Result<Vec<Run>, Failure> {
    let threads = &given.threads()?;
    let mut query = RunQuery::new(filter);
    query.direction = direction;
    let list = |page: PageRequest| {
        let mut query = query.clone();
        query.page = page;
        threads.list_runs(query)
    };
    read_all_pages(PageRequest::first(2), list).await
}

/// Checks that a filter returns these runs in both directions, and that their count is right.
async fn expect_found_runs(given: &Given, set_filter: impl FnOnce(&mut RunFilter), wanted: &str) -> Verdict {
    let mut filter = RunFilter::default();
    set_filter(&mut filter);
    for direction in [Direction::Forward, Direction::Backward] {
        let runs = list_all_runs(given, filter.clone(), direction).await?;
        let mut names: Vec<_> = runs.iter().map(|run| run.id.as_str()).collect();
        if direction == Direction::Backward {
            names.reverse();
        }
        expect_eq(names.join(" "), wanted).map_err(|failure| failure.about(format!("{direction:?} {filter:?}")))?;
    }
    let wanted_count = wanted.split_whitespace().count() as u64;
    let count = given.threads()?.count_runs(&filter).await?;
    expect_eq(count, wanted_count).map_err(|failure| failure.about(format!("count of {filter:?}")))
}

/// Creates the runs `a` to `e` in the threads `t` and `u`, 10 ms apart. `b` and `c` are children of `a`.
async fn create_five_runs(given: &Given) -> Verdict {
    let child = |mut run: store_core::RunChange| {
        (run.parent_run, run.agent) = (Some(id("a")), Some(id("helper")));
        run
    };
    let waiting = RunStatus::waiting(WaitingReason::UserInput);
    let runs = [
        ("t", running_run("a")),
        ("t", child(done_run("b"))),
        ("u", child(running_run("c"))),
        ("u", run_change("d", waiting)),
    ];
    for (thread, run) in runs {
        write_run(given, thread, run).await?;
        given.advance(Duration::from_millis(10)).await;
    }
    write_run(given, "t", run_change("e", RunStatus::Created)).await
}

/// Runs are filtered by thread, status, agent and parent run. A run must match all filters that are given, and counts
/// agree with lists.
pub(crate) async fn runs_are_filtered(given: &Given) -> Verdict {
    create_five_runs(given).await?;
    expect_found_runs(given, |_| {}, "a b c d e").await?;
    expect_found_runs(given, |filter| filter.thread = Some(id("t")), "a b e").await?;
    expect_found_runs(given, |filter| filter.thread = Some(id("unknown")), "").await?;
    let phases = |phases: &[RunPhase]| Some(phases.to_vec());
    expect_found_runs(given, |filter| filter.statuses = phases(&[RunPhase::Running]), "a c").await?;
    let done_or_waiting = [RunPhase::Done, RunPhase::Waiting, RunPhase::Done];
    expect_found_runs(given, |filter| filter.statuses = phases(&done_or_waiting), "b d").await?;
    let done_or_running = [RunPhase::Done, RunPhase::Running];
    expect_found_runs(given, |filter| filter.statuses = phases(&done_or_running), "a b c").await?;
    expect_found_runs(given, |filter| filter.statuses = phases(&[RunPhase::Created]), "e").await?;
    expect_found_runs(given, |filter| filter.statuses = phases(&[]), "").await?;
    expect_found_runs(given, |filter| filter.agent = Some(id("helper")), "b c").await?;
    expect_found_runs(given, |filter| filter.parent_run = Some(id("a")), "b c").await?;
    let by_agent_and_thread =
        |filter: &mut RunFilter| (filter.agent, filter.thread) = (Some(id("helper")), Some(id("u")));
    expect_found_runs(given, by_agent_and_thread, "c").await?;
    let done_in_u =
        |filter: &mut RunFilter| (filter.statuses, filter.thread) = (phases(&[RunPhase::Done]), Some(id("u")));
    expect_found_runs(given, done_in_u, "").await
}

/// A run whose status changed is found only under its new status. Its position in the list does not change.
pub(crate) async fn a_changed_run_keeps_its_position(given: &Given) -> Verdict {
    create_five_runs(given).await?;
    write_run(given, "t", done_run("a")).await?;
    write_run(given, "u", run_change("d", RunStatus::Running)).await?;
    let only_running = |filter: &mut RunFilter| filter.statuses = Some(vec![RunPhase::Running]);
    expect_found_runs(given, only_running, "c d").await?;
    expect_found_runs(given, |filter| filter.statuses = Some(vec![RunPhase::Done]), "a b").await?;
    expect_found_runs(given, |_| {}, "a b c d e").await
}

/// Runs are filtered by the time of their creation: `created_before` excludes the given time, and `created_after`
/// includes it.
pub(crate) async fn runs_are_filtered_by_time(given: &Given) -> Verdict {
    create_five_runs(given).await?;
    let time = load_run(given, "c").await?.created_at;
    expect_found_runs(given, |filter| filter.created_before = Some(time), "a b").await?;
    expect_found_runs(given, |filter| filter.created_after = Some(time), "c d e").await?;
    let window = |filter: &mut RunFilter| (filter.created_before, filter.created_after) = (Some(time), Some(time));
    expect_found_runs(given, window, "").await?;
    expect_found_runs(given, |filter| filter.created_after = Some(store_core::Timestamp::MIN), "a b c d e").await?;
    expect_found_runs(given, |filter| filter.created_after = Some(store_core::Timestamp::MAX), "").await
}

/// Runs are ordered by creation, and later writes do not change the order. Runs with the same time are ordered by the
/// bytes of their ids.
pub(crate) async fn runs_are_ordered_by_creation(given: &Given) -> Verdict {
    for name in ["b", "a", "é", "Z", "a b", "10", "9"] {
        write_run(given, "t", running_run(name)).await?;
    }
    write_run(given, "t", done_run("b")).await?;
    let runs = list_all_runs(given, RunFilter::default(), Direction::Forward).await?;
    let times_and_ids: Vec<_> = runs.iter().map(|run| (run.created_at, run.id.as_str())).collect();
    let mut sorted = times_and_ids.clone();
    sorted.sort_unstable();
    expect_eq(&times_and_ids, &sorted)?;
    expect_eq(times_and_ids.len(), 7)?;
    let mut backward = list_all_runs(given, RunFilter::default(), Direction::Backward).await?;
    backward.reverse();
    expect_eq(backward, runs)
}
