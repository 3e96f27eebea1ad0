//! Whether what the processes wrote down and what the store holds are right together.
//!
//! What is inferred holds whatever the schedule was: of two calls only one that was answered before the other was
//! called is known to be first; leases are compared by store time; and who was killed may have done what it was about
//! to do.

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

use self::{claims::Claims, epochs::Epochs};
use crate::{
    kept::{Kept, KeptThread},
    record::{Claim, Did, Line, Name},
};

/// All that is known of a soak.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    /// So many jobs, each in a dispatch, or in several if interrupts superseded them.
    pub(crate) jobs: u32,
    /// Whether threads and mailbox are of one store, which then judges commits by the claim itself.
    pub(crate) is_fenced: bool,
    pub(crate) lines: Vec<Line>,
    pub(crate) dispatches: BTreeMap<Name, Kept>,
    /// Those that were there again when they had ended and were removed.
    pub(crate) came_back: BTreeSet<Name>,
    pub(crate) threads: BTreeMap<u32, KeptThread>,
}

/// What must not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// A dispatch that was accepted is not there, or not done in the end.
    Lost,
    /// A write that was acknowledged is not there.
    Forgotten,
    /// A job was done more than once, or may be: its dispatch came back.
    Twice,
    /// Two claims of one thread have one number, or were live at a time.
    TwoClaims,
    /// A later claim has a smaller number.
    Backwards,
    /// A write was accepted from a claim behind a newer one.
    Stale,
    /// An epoch is not the number of interrupts, or what came before one was given out or accepted behind it.
    Epoch,
}

/// Something that must not be, and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    what: String,
}

impl Violation {
    fn new(rule: Rule, what: impl Into<String>) -> Self {
        Self { rule, what: what.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.what)
    }
}

/// What the logs tell of how the work went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Seen {
    /// Claims whose holder wrote them down.
    claims: usize,
    /// Dispatches that were claimed again.
    redelivered: usize,
    /// Writes under claims that were refused, as the claim was lost.
    refused: usize,
    /// Writes under claims whose outcome nobody was told.
    unknown: usize,
}

/// Everything that is wrong, and how the work went.
pub(crate) fn check(evidence: &Evidence) -> (Seen, Vec<Violation>) {
    let mut violations = Vec::new();
    let mut threads = BTreeMap::<u32, Vec<&Line>>::new();
    for line in &evidence.lines {
        threads.entry(line.did.thread()).or_default().push(line);
    }
    for lines in threads.values() {
        let claims = Claims::read(lines, &mut violations);
        claims.check(&mut violations);
        claims.check_writes(lines, evidence.is_fenced, &mut violations);
    }
    for (thread, kept) in &evidence.threads {
        let lines = threads.get(thread).map(Vec::as_slice).unwrap_or_default();
        Epochs::read(lines).check(lines, (*thread, kept.epoch), evidence.is_fenced, &mut violations);
    }
    work::check(evidence, &mut violations);
    (seen(evidence), violations)
}

fn seen(evidence: &Evidence) -> Seen {
    let (mut seen, mut times) = (Seen::default(), BTreeMap::<Name, usize>::new());
    let (mut tried, mut answered) = (0, 0);
    for line in &evidence.lines {
        match line.did {
            Did::Claimed { claim, .. } => *times.entry(claim.dispatch).or_default() += 1,
            Did::Tries { .. } => tried += 1,
            Did::Accepted { .. } => answered += 1,
            Did::Refused { .. } => (answered, seen.refused) = (answered + 1, seen.refused + 1),
            Did::Enqueued { .. } | Did::Interrupted { .. } => {}
        }
    }
    seen.claims = times.values().sum();
    seen.redelivered = times.values().map(|times| times - 1).sum();
    seen.unknown = tried - answered;
    seen
}

/// A claim as messages name it.
fn named(claim: &Claim) -> String {
    format!("{} of {} in thread {}", claim.number, claim.dispatch, claim.thread)
}
