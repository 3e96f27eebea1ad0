//! Checks that the logs of the processes and the content of the store agree, and that no rule was broken.
//!
//! The checks are valid for every schedule of the processes:
//! - One call is known to come before another only if it was answered before the other was made.
//! - Leases are compared by store time.
//! - The last call of a process that was killed may have taken effect, or not.

mod claims;
mod epochs;
mod work;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::Serialize;

use self::{claims::ClaimsOfThread, epochs::InterruptsOfThread};
use crate::{
    final_state::{FinalDispatch, FinalThread},
    record::{Claim, DispatchName, LogLine, LoggedAction},
};

/// Everything that is known about a run of the soak test.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    /// The number of jobs. A job has one dispatch, or several if interrupts superseded the earlier ones.
    pub(crate) jobs: u32,
    /// Whether threads and mailbox are in one store. Such a store looks up the claim of each commit in its mailbox.
    pub(crate) is_fenced: bool,
    pub(crate) lines: Vec<LogLine>,
    pub(crate) dispatches: BTreeMap<DispatchName, FinalDispatch>,
    /// The dispatches that were in the store again after they had ended and had been removed.
    pub(crate) reappeared_dispatches: BTreeSet<DispatchName>,
    pub(crate) threads: BTreeMap<u32, FinalThread>,
}

/// The rules that the soak test checks. Each variant describes a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// An accepted dispatch is missing, was not done by the end of the run, or left no entry in its thread.
    LostWork,
    /// A claim or an accepted write is missing from the store.
    MissingFromStore,
    /// A job was done more than once; or its dispatch reappeared after its removal, so that it can be done again.
    DoneTwice,
    /// Two claims of one thread have the same number, or had unexpired leases at the same time.
    TwoClaims,
    /// A later claim has a smaller number.
    NumberOutOfOrder,
    /// A write under a claim was accepted after a newer claim had been made.
    StaleWrite,
    /// The epoch of a thread is not the number of its interrupts; or something of an earlier epoch was enqueued,
    /// claimed or accepted after the interrupt.
    WrongEpoch,
}

/// A violation, and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    description: String,
}

impl Violation {
    fn new(rule: Rule, description: impl Into<String>) -> Self {
        Self { rule, description: description.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.description)
    }
}

/// Figures about the work, counted from the logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct WorkFigures {
    /// Claims that their holders recorded.
    claims: usize,
    /// Repeated claims: all claims of a dispatch except its first.
    redelivered: usize,
    /// Writes of claim holders that the store refused.
    refused: usize,
    /// Writes of claim holders whose outcome is not recorded.
    unknown: usize,
}

/// Checks everything that is known about a run. Returns figures about its work, and all violations.
pub(crate) fn check(evidence: &Evidence) -> (WorkFigures, Vec<Violation>) {
    let mut violations = Vec::new();
    let mut threads = BTreeMap::<u32, Vec<&LogLine>>::new();
    for line in &evidence.lines {
        threads.entry(line.did.thread()).or_default().push(line);
    }
    for lines in threads.values() {
        let claims = ClaimsOfThread::from_lines(lines, &mut violations);
        claims.check_order(&mut violations);
        claims.check_writes(lines, evidence.is_fenced, &mut violations);
    }
    for (thread, final_state) in &evidence.threads {
        let lines = threads.get(thread).map(Vec::as_slice).unwrap_or_default();
        InterruptsOfThread::from_lines(lines).check(
            lines,
            (*thread, final_state.epoch),
            evidence.is_fenced,
            &mut violations,
        );
    }
    work::check_work(evidence, &mut violations);
    (work_figures(evidence), violations)
}

fn work_figures(evidence: &Evidence) -> WorkFigures {
    let (mut work_figures, mut claims_per_dispatch) = (WorkFigures::default(), BTreeMap::<DispatchName, usize>::new());
    let (mut call_count, mut answer_count) = (0, 0);
    for line in &evidence.lines {
        match line.did {
            LoggedAction::Claimed { claim, .. } => *claims_per_dispatch.entry(claim.dispatch).or_default() += 1,
            LoggedAction::Calling { .. } => call_count += 1,
            LoggedAction::Accepted { .. } => answer_count += 1,
            LoggedAction::Refused { .. } => {
                (answer_count, work_figures.refused) = (answer_count + 1, work_figures.refused + 1)
            }
            LoggedAction::Enqueued { .. } | LoggedAction::Interrupted { .. } => {}
        }
    }
    work_figures.claims = claims_per_dispatch.values().sum();
    work_figures.redelivered = claims_per_dispatch.values().map(|claims| claims - 1).sum();
    work_figures.unknown = call_count - answer_count;
    work_figures
}

/// Returns the text that names a claim in messages.
fn claim_name(claim: &Claim) -> String {
    format!("{} of {} in thread {}", claim.number, claim.dispatch, claim.thread)
}
