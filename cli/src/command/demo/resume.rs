//! Kills a writer, and checks what the store contains afterwards.

use agentstore::{Commit, ContextRequest, EntryQuery, Error, ThreadId};
use serde_json::json;

use super::{
    Demo, crash,
    crash::KilledWriter,
    report::{DemoReport, StepResult, now},
    steps::check,
    turn::{ENTRIES_PER_TURN, Turn},
};
use crate::{
    failure::Result,
    pages,
    session::{Access, Session},
};

/// The first turn of the writer that is killed. The demo itself has committed turn 1.
const FIRST_TURN: u64 = 2;

/// How much of a turn of the killed writer is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnState {
    Complete,
    Absent,
    Partial,
}

/// Kills a writer in the middle of a turn, opens the store again, and repeats the turn whose outcome is unknown.
pub(super) async fn crash_and_resume(demo: &Demo, thread: &ThreadId, report: &mut DemoReport<'_>) -> Result<Session> {
    let started_at = now();
    let killed_writer = crash::start_and_kill(demo, thread, FIRST_TURN)?;
    let opening_start = now();
    let session = demo.open(Access::Write).await?;
    let opening_time = opening_start.elapsed();
    let states = inspect_turns(demo, &session, thread, killed_writer).await?;
    let last_turn_state = states.last().copied().unwrap_or(TurnState::Absent);
    let mut failed_checks = Vec::new();
    let acknowledged_count = usize::try_from(killed_writer.last_acknowledged + 1 - FIRST_TURN).unwrap_or(usize::MAX);
    let found_count = states.iter().take(acknowledged_count).filter(|state| **state == TurnState::Complete).count();
    check(&mut failed_checks, found_count == acknowledged_count, "a turn that was acknowledged is missing");
    check(&mut failed_checks, !states.contains(&TurnState::Partial), "half of a turn is visible");
    let KilledWriter { pid, last_begun, .. } = killed_writer;
    let did = format!(
        "killed the writer (process {pid}) after {acknowledged_count} acknowledged turns, in the middle of turn {last_begun}; \
         opened the store again"
    );
    let figures = json!({
        "pid": pid, "acknowledged_turns": acknowledged_count, "found_turns": found_count, "turn_in_flight": last_begun,
        "turn_in_flight_was_applied": last_turn_state == TurnState::Complete,
        "reopened_in_micros": u64::try_from(opening_time.as_micros()).unwrap_or(u64::MAX),
    });
    let proved = "every acknowledged turn is in the store, and no turn is only partly visible";
    report.add_step("crash", started_at, StepResult { did, proved, failed_checks, figures })?;
    resume(demo, &session, thread, killed_writer, report).await?;
    Ok(session)
}

/// Repeats the interrupted commit with its key. The turn is then in the store exactly once, even if the first commit
/// took effect.
async fn resume(
    demo: &Demo,
    session: &Session,
    thread: &ThreadId,
    killed_writer: KilledWriter,
    report: &mut DemoReport<'_>,
) -> Result<()> {
    let started_at = now();
    let commit: Commit = Turn::new(thread, &demo.id_prefix, killed_writer.last_begun).to_commit()?;
    let receipt = session.commits()?.commit(commit.clone()).await?;
    let second_receipt = session.commits()?.commit(commit).await?;
    let states = inspect_turns(demo, session, thread, killed_writer).await?;
    let thread_context = session.threads()?.load_context(thread, ContextRequest::head()).await?;
    let turn_count = thread_context.state.get("demo.turns").map(|turns| turns.to::<u64>()).transpose()?;
    let mut failed_checks = Vec::new();
    check(
        &mut failed_checks,
        states.iter().all(|state| *state == TurnState::Complete),
        "a turn is missing or incomplete",
    );
    check(&mut failed_checks, second_receipt.deduplicated, "the second repeat was applied again");
    check(&mut failed_checks, thread_context.open_runs.is_empty(), "a run was left open");
    check(
        &mut failed_checks,
        thread_context.thread.version == receipt.version,
        "the thread has entries that the demo did not write",
    );
    let first_outcome =
        if receipt.deduplicated { "it had been applied, but not acknowledged" } else { "it had not been applied" };
    let step_result = StepResult {
        did: format!(
            "committed turn {} again with its key: {first_outcome}; now {}",
            killed_writer.last_begun, receipt.version
        ),
        proved: "a commit with an unknown outcome can be repeated with its key: it took effect exactly once",
        failed_checks,
        figures: json!({ "deduplicated": receipt.deduplicated, "version": receipt.version.number(), "turns": turn_count }),
    };
    report.add_step("resume", started_at, step_result)
}

/// Returns, for each turn that the writer began, how much of the turn is in the store.
async fn inspect_turns(
    demo: &Demo,
    session: &Session,
    thread: &ThreadId,
    killed_writer: KilledWriter,
) -> Result<Vec<TurnState>> {
    let threads = session.threads()?;
    let mut entries = std::collections::BTreeSet::new();
    pages::for_each(
        async |page| threads.list_entries(thread, EntryQuery::all().with_page(page)).await,
        |entry| {
            entries.insert(entry.id.clone());
            Ok(true)
        },
    )
    .await?;
    let mut states = Vec::new();
    for number in killed_writer.first_turn..=killed_writer.last_begun {
        let turn = Turn::new(thread, &demo.id_prefix, number);
        let ids = turn.entry_ids()?;
        let found_entries = ids.iter().filter(|id| entries.contains(id)).count() as u64;
        let has_run = threads.load_run(&turn.run_id()?).await?.is_some();
        states.push(match (found_entries, has_run) {
            (ENTRIES_PER_TURN, true) => TurnState::Complete,
            (0, false) => TurnState::Absent,
            _ => TurnState::Partial,
        });
    }
    if states.is_empty() {
        return Err(Error::unavailable("the writer wrote nothing").into());
    }
    Ok(states)
}
