//! Checks the interrupts of one thread. Each begins an epoch. From then on, nothing of an earlier epoch is enqueued,
//! claimed or accepted.

use super::{Rule, Violation, claim_name};
use crate::record::{LogLine, LoggedAction};

/// An interrupt as its process logged it. It took effect between `called` and `answered`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct LoggedInterrupt {
    /// The epoch that the interrupt began.
    epoch: u64,
    called: u64,
    answered: u64,
}

/// The interrupts of a thread.
pub(super) struct InterruptsOfThread {
    in_epoch_order: Vec<LoggedInterrupt>,
}

impl InterruptsOfThread {
    pub(super) fn from_lines(lines: &[&LogLine]) -> Self {
        let interrupts = lines.iter().filter_map(|line| match line.did {
            LoggedAction::Interrupted { epoch, .. } => {
                Some(LoggedInterrupt { epoch, called: line.called, answered: line.answered })
            }
            _ => None,
        });
        let mut in_epoch_order: Vec<_> = interrupts.collect();
        in_epoch_order.sort_unstable();
        Self { in_epoch_order }
    }

    pub(super) fn check(
        &self,
        lines: &[&LogLine],
        (thread, final_epoch): (u32, u64),
        is_fenced: bool,
        violations: &mut Vec<Violation>,
    ) {
        let mut add_violation = |description: String| violations.push(Violation::new(Rule::WrongEpoch, description));
        let has_no_gap = (1..).zip(&self.in_epoch_order).all(|(wanted, interrupt)| wanted == interrupt.epoch);
        if !has_no_gap || final_epoch != self.in_epoch_order.len() as u64 {
            let epochs: Vec<_> = self.in_epoch_order.iter().map(|interrupt| interrupt.epoch).collect();
            add_violation(format!(
                "thread {thread} is in epoch {final_epoch}, but interrupts began the epochs {epochs:?}"
            ));
        }
        for LogLine { called, answered, did } in lines.iter().copied() {
            let min_epoch = self.certain_epoch(*called);
            match did {
                LoggedAction::Enqueued { dispatch, epoch, .. } => {
                    let max_epoch = self.possible_epoch(*answered);
                    if *epoch < min_epoch || *epoch > max_epoch {
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
        let answered_interrupts = self.in_epoch_order.iter().filter(|interrupt| interrupt.answered < time);
        answered_interrupts.map(|interrupt| interrupt.epoch).max().unwrap_or_default()
    }

    /// Returns the latest epoch that may have begun before this time.
    fn possible_epoch(&self, time: u64) -> u64 {
        let called_interrupts = self.in_epoch_order.iter().filter(|interrupt| interrupt.called < time);
        called_interrupts.map(|interrupt| interrupt.epoch).max().unwrap_or_default()
    }
}
