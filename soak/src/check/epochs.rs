//! Checks the interrupts of one thread: each begins an epoch, and nothing of an earlier epoch is claimed or accepted
//! after it.

use super::{Rule, Violation, claim_name};
use crate::record::{LogLine, LoggedAction};

/// The interrupts, in the order of their epochs: the epoch that each began, and when it was called and answered.
pub(super) struct InterruptsOfThread(Vec<(u64, u64, u64)>);

impl InterruptsOfThread {
    pub(super) fn from_lines(lines: &[&LogLine]) -> Self {
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
        lines: &[&LogLine],
        (thread, final_epoch): (u32, u64),
        is_fenced: bool,
        violations: &mut Vec<Violation>,
    ) {
        let mut add_violation = |description: String| violations.push(Violation::new(Rule::WrongEpoch, description));
        let has_no_gap = (1..).zip(&self.0).all(|(wanted, (epoch, ..))| wanted == *epoch);
        if !has_no_gap || final_epoch != self.0.len() as u64 {
            let epochs: Vec<_> = self.0.iter().map(|(epoch, ..)| epoch).collect();
            add_violation(format!(
                "thread {thread} is in epoch {final_epoch}, but interrupts began the epochs {epochs:?}"
            ));
        }
        for LogLine { called, answered, did } in lines.iter().copied() {
            let min_epoch = self.certain_epoch(*called);
            match did {
                LoggedAction::Enqueued { dispatch, epoch, .. } => {
                    let max_epoch =
                        self.0.iter().filter(|(_, called, _)| called < answered).map(|(epoch, ..)| *epoch).max();
                    if *epoch < min_epoch || *epoch > max_epoch.unwrap_or_default() {
                        add_violation(format!("{dispatch} was enqueued in the wrong epoch {epoch} of thread {thread}"));
                    }
                }
                LoggedAction::Claimed { claim, .. } if claim.epoch < min_epoch => {
                    add_violation(format!(
                        "claim {} was made after the interrupt that began epoch {min_epoch}",
                        claim_name(claim)
                    ));
                }
                LoggedAction::Accepted { claim, act, again: false, .. }
                    if claim.epoch < min_epoch && (is_fenced || !act.is_commit()) =>
                {
                    add_violation(format!(
                        "{act:?} of {} was accepted after epoch {min_epoch} had begun",
                        claim_name(claim)
                    ));
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
