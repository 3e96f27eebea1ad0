//! Checks the interrupts of one thread: each begins an epoch, and nothing of an earlier epoch is claimed or accepted
//! after it.

use super::{Rule, Violation, claim_name};
use crate::record::{Line, LoggedAction};

/// The interrupts, in the order of their epochs: the epoch that each began, and when it was called and answered.
pub(super) struct Epochs(Vec<(u64, u64, u64)>);

impl Epochs {
    pub(super) fn read(lines: &[&Line]) -> Self {
        let interrupts = lines.iter().filter_map(|line| match line.did {
            LoggedAction::Interrupted { epoch, .. } => Some((epoch, line.called, line.answered)),
            _ => None,
        });
        let mut interrupts: Vec<_> = interrupts.collect();
        interrupts.sort_unstable();
        Self(interrupts)
    }

    pub(super) fn check(
        &self,
        lines: &[&Line],
        (thread, last): (u32, u64),
        is_fenced: bool,
        violations: &mut Vec<Violation>,
    ) {
        let mut wrong = |what: String| violations.push(Violation::new(Rule::Epoch, what));
        let dense = (1..).zip(&self.0).all(|(wanted, (epoch, ..))| wanted == *epoch);
        if !dense || last != self.0.len() as u64 {
            let epochs: Vec<_> = self.0.iter().map(|(epoch, ..)| epoch).collect();
            wrong(format!("thread {thread} is in epoch {last}, but interrupts began the epochs {epochs:?}"));
        }
        for Line { called, answered, did } in lines.iter().copied() {
            let least = self.certain_epoch(*called);
            match did {
                LoggedAction::Enqueued { dispatch, epoch, .. } => {
                    let most = self.0.iter().filter(|(_, called, _)| called < answered).map(|(epoch, ..)| *epoch).max();
                    if *epoch < least || *epoch > most.unwrap_or_default() {
                        wrong(format!("{dispatch} was enqueued in the wrong epoch {epoch} of thread {thread}"));
                    }
                }
                LoggedAction::Claimed { claim, .. } if claim.epoch < least => {
                    wrong(format!("claim {} was made after the interrupt that began epoch {least}", claim_name(claim)));
                }
                LoggedAction::Accepted { claim, act, again: false, .. }
                    if claim.epoch < least && (is_fenced || !act.is_commit()) =>
                {
                    wrong(format!("{act:?} of {} was accepted after epoch {least} had begun", claim_name(claim)));
                }
                _ => {}
            }
        }
    }

    /// Returns the latest epoch that had certainly begun before this time.
    fn certain_epoch(&self, time: u64) -> u64 {
        self.0.iter().filter(|(.., answered)| *answered < time).map(|(epoch, ..)| *epoch).max().unwrap_or_default()
    }
}
