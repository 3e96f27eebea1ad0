//! Kills a writer, and checks what the store contains afterwards.

use agentstore::{Commit, ContextRequest, EntryQuery, Error, ThreadId};
use serde_json::json;

use super::{
    Tour, crash,
    crash::Killed,
    report::{Report, Taken, now},
    steps::check,
    turn::{ENTRIES, Turn},
};
use crate::{
    failure::Result,
    pages,
    session::{Access, Session},
};

/// The first turn of the writer that is killed. The tour itself has committed turn 1.
const FIRST: u64 = 2;

/// How much of a turn of the killed writer is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Whole,
    Nothing,
    Half,
}

/// Kills a writer in the middle of a turn, opens the store again, and repeats the turn whose outcome is unknown.
pub(super) async fn crash_and_resume(tour: &Tour, thread: &ThreadId, report: &mut Report<'_>) -> Result<Session> {
    let began = now();
    let killed = crash::crash(tour, thread, FIRST)?;
    let opening = now();
    let session = tour.open(Access::Write).await?;
    let opened_in = opening.elapsed();
    let left = look(tour, &session, thread, killed).await?;
    let in_flight = left.last().copied().unwrap_or(Left::Nothing);
    let mut broken = Vec::new();
    let acknowledged = usize::try_from(killed.acknowledged + 1 - FIRST).unwrap_or(usize::MAX);
    let kept = left.iter().take(acknowledged).filter(|left| **left == Left::Whole).count();
    check(&mut broken, kept == acknowledged, "a turn that was acknowledged is missing");
    check(&mut broken, !left.contains(&Left::Half), "half of a turn is visible");
    let Killed { pid, begun, .. } = killed;
    let did = format!(
        "killed the writer (process {pid}) after {acknowledged} acknowledged turns, in the middle of turn {begun}; \
         opened the store again"
    );
    let figures = json!({
        "pid": pid, "acknowledged_turns": acknowledged, "found_turns": kept, "turn_in_flight": begun,
        "turn_in_flight_was_applied": in_flight == Left::Whole,
        "reopened_in_micros": u64::try_from(opened_in.as_micros()).unwrap_or(u64::MAX),
    });
    let proved = "every acknowledged turn is in the store, and no turn is only partly visible";
    report.took("crash", began, Taken { did, proved, broken, figures })?;
    resume(tour, &session, thread, killed, report).await?;
    Ok(session)
}

/// Repeats the interrupted commit with its key. The turn is then in the store exactly once, whether or not the first
/// commit took effect.
async fn resume(
    tour: &Tour,
    session: &Session,
    thread: &ThreadId,
    killed: Killed,
    report: &mut Report<'_>,
) -> Result<()> {
    let began = now();
    let commit: Commit = Turn::new(thread, &tour.name, killed.begun).commit()?;
    let receipt = session.commits()?.commit(commit.clone()).await?;
    let again = session.commits()?.commit(commit).await?;
    let left = look(tour, session, thread, killed).await?;
    let found = session.threads()?.load_context(thread, ContextRequest::head()).await?;
    let turns = found.state.get("demo.turns").map(|turns| turns.to::<u64>()).transpose()?;
    let mut broken = Vec::new();
    check(&mut broken, left.iter().all(|left| *left == Left::Whole), "a turn is missing or incomplete");
    check(&mut broken, again.deduplicated, "the second repeat was applied again");
    check(&mut broken, found.open_runs.is_empty(), "a run was left open");
    check(&mut broken, found.thread.version == receipt.version, "the thread has entries that the demo did not write");
    let went =
        if receipt.deduplicated { "it had been applied, but not acknowledged" } else { "it had not been applied" };
    let taken = Taken {
        did: format!("committed turn {} again with its key: {went}; now {}", killed.begun, receipt.version),
        proved: "a commit with an unknown outcome can be repeated with its key: it took effect exactly once",
        broken,
        figures: json!({ "deduplicated": receipt.deduplicated, "version": receipt.version.number(), "turns": turns }),
    };
    report.took("resume", began, taken)
}

/// Returns, for each turn that the writer began, how much of the turn is in the store.
async fn look(tour: &Tour, session: &Session, thread: &ThreadId, killed: Killed) -> Result<Vec<Left>> {
    let threads = session.threads()?;
    let mut entries = std::collections::BTreeSet::new();
    pages::each(
        async |page| threads.list_entries(thread, EntryQuery::all().with_page(page)).await,
        |entry| {
            entries.insert(entry.id.clone());
            Ok(true)
        },
    )
    .await?;
    let mut left = Vec::new();
    for number in killed.first..=killed.begun {
        let turn = Turn::new(thread, &tour.name, number);
        let ids = turn.entry_ids()?;
        let found = ids.iter().filter(|id| entries.contains(id)).count() as u64;
        let run = threads.load_run(&turn.run()?).await?.is_some();
        left.push(match (found, run) {
            (ENTRIES, true) => Left::Whole,
            (0, false) => Left::Nothing,
            _ => Left::Half,
        });
    }
    if left.is_empty() {
        return Err(Error::unavailable("the writer wrote nothing").into());
    }
    Ok(left)
}
