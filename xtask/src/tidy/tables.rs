//! Compares the table of the transitions of a dispatch in the contract with the rule of `store-core`, cell by cell.

use std::{fs, path::Path};

use anyhow::{Context, Result};
use store_core::{
    DispatchStatus,
    mailbox::{DispatchAct, DispatchMachineState, next_status},
};

const HEADING: &str = "| From | Act | To | What comes with it |";
/// The texts of the column `Act`, each with the acts that it stands for.
const ACTS_OF_CELL: &[(&str, &[DispatchAct])] = &[
    ("enqueue", &[DispatchAct::Enqueue]),
    ("claim", &[DispatchAct::Claim]),
    ("cancel", &[DispatchAct::Cancel]),
    ("interrupt", &[DispatchAct::Interrupt]),
    ("interrupt, also one that takes over", &[DispatchAct::Interrupt, DispatchAct::TakeOver]),
    ("interrupt that takes over", &[DispatchAct::TakeOver]),
    ("extend, start", &[DispatchAct::Extend, DispatchAct::Start]),
    ("settle: `Ack`", &[DispatchAct::Ack]),
    ("settle: `Retry`", &[DispatchAct::Retry]),
    ("settle: `Snooze`, `Release`", &[DispatchAct::Snooze, DispatchAct::Release]),
    ("settle: `DeadLetter`", &[DispatchAct::DeadLetter]),
    ("settle: `Cancel`", &[DispatchAct::CancelByHolder]),
    ("its lease expires", &[DispatchAct::Lapse]),
    ("a write of its holder, or its lease expires", &ACTS_OF_HOLDER),
    ("requeue", &[DispatchAct::Requeue]),
];
const ACTS_OF_HOLDER: [DispatchAct; 9] = [
    DispatchAct::Extend,
    DispatchAct::Start,
    DispatchAct::Ack,
    DispatchAct::Retry,
    DispatchAct::Snooze,
    DispatchAct::Release,
    DispatchAct::DeadLetter,
    DispatchAct::CancelByHolder,
    DispatchAct::Lapse,
];
const INTERRUPTED_CELL: &str = "`claimed`, thread interrupted since";
const LAST_ATTEMPT_SUFFIX: &str = " if that was the last attempt";

/// A line of the table.
struct TableRow {
    from: Option<DispatchStatus>,
    /// Whether the thread was interrupted after the dispatch was claimed. `None` if the line applies in both cases.
    is_stale: Option<bool>,
    acts: &'static [DispatchAct],
    to: DispatchStatus,
    /// The status that follows if this was the last attempt.
    last_attempt_status: DispatchStatus,
}

impl TableRow {
    fn read(line: &str) -> Option<Self> {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (from, act, to) = (cells.next()?, cells.next()?, cells.next()?);
        let acts = ACTS_OF_CELL.iter().find(|(name, _)| *name == act)?.1;
        let is_stale = match from {
            INTERRUPTED_CELL => Some(true),
            "`dead_letter`" | "none" => None,
            "`claimed`" if matches!(acts, [DispatchAct::Interrupt | DispatchAct::TakeOver]) => None,
            _ => Some(false),
        };
        let from = from.strip_suffix(", thread interrupted since").unwrap_or(from);
        let from = if from == "none" { None } else { Some(status(from)?) };
        let (to, last_attempt_status) = match to.strip_suffix(LAST_ATTEMPT_SUFFIX) {
            Some(two_statuses) => two_statuses.split_once(", or ")?,
            None => (to, to),
        };
        // After an interrupt of its thread, a queued dispatch is read as superseded. So a queued one is never stale.
        let is_stale = if from == Some(DispatchStatus::Queued) { Some(false) } else { is_stale };
        Some(Self { from, is_stale, acts, to: status(to)?, last_attempt_status: status(last_attempt_status)? })
    }

    fn status_after(&self, machine_state: DispatchMachineState, act: DispatchAct) -> Option<DispatchStatus> {
        let fits = self.from == machine_state.status
            && self.acts.contains(&act)
            && self.is_stale.is_none_or(|stale| stale == machine_state.is_stale);
        fits.then_some(if machine_state.is_last_attempt { self.last_attempt_status } else { self.to })
    }
}

fn status(cell: &str) -> Option<DispatchStatus> {
    cell.strip_prefix('`')?.strip_suffix('`')?.parse().ok()
}

/// Returns the differences between the table and the rule.
pub(super) fn check(root: &Path) -> Result<Vec<String>> {
    let path = root.join("docs/contract.md");
    let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let lines = text.lines().skip_while(|line| *line != HEADING).skip(2).take_while(|line| line.starts_with('|'));
    let mut findings = Vec::new();
    let mut table_rows = Vec::new();
    for line in lines {
        match TableRow::read(line) {
            Some(row) => table_rows.push(row),
            None => findings.push(format!("the table of dispatches has a line that cannot be parsed: {line}")),
        }
    }
    for from in DispatchStatus::ALL.iter().copied().map(Some).chain([None]) {
        for (is_stale, is_last_attempt) in [(false, false), (false, true), (true, false), (true, true)] {
            for act in DispatchAct::ALL {
                let machine_state = DispatchMachineState { status: from, is_stale, is_last_attempt };
                let documented: Vec<_> =
                    table_rows.iter().filter_map(|row| row.status_after(machine_state, *act)).collect();
                let expected: Vec<_> = next_status(machine_state, *act).into_iter().collect();
                if documented != expected {
                    findings.push(format!(
                        "the table of dispatches says {documented:?} for {act:?} at {machine_state:?}, the rule says {expected:?}"
                    ));
                }
            }
        }
    }
    Ok(findings)
}
