//! The state machine of a dispatch, as one pure function.

use super::DispatchStatus;

/// What can happen to a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the acts are named as in the contract's table")]
pub enum DispatchAct {
    Enqueue,
    Claim,
    Cancel,
    Interrupt,
    /// An interrupt that also ends the claimed dispatch (MB-53).
    TakeOver,
    Extend,
    Start,
    Ack,
    Retry,
    Snooze,
    Release,
    DeadLetter,
    /// The holder of the claim cancels the dispatch, with the settlement `Cancel`.
    CancelByHolder,
    /// A caller noticed that the lease has expired.
    Lapse,
    Requeue,
}

impl DispatchAct {
    /// All acts.
    pub const ALL: &'static [Self] = &[
        Self::Enqueue,
        Self::Claim,
        Self::Cancel,
        Self::Interrupt,
        Self::TakeOver,
        Self::Extend,
        Self::Start,
        Self::Ack,
        Self::Retry,
        Self::Snooze,
        Self::Release,
        Self::DeadLetter,
        Self::CancelByHolder,
        Self::Lapse,
        Self::Requeue,
    ];

    /// Returns the word for the status that the act would lead to. The message of a refusal contains this word.
    pub(super) const fn target_word(self) -> &'static str {
        match self {
            Self::Enqueue | Self::Retry | Self::Snooze | Self::Release | Self::Requeue => "queued",
            Self::Claim | Self::Extend | Self::Start => "claimed",
            Self::Cancel | Self::CancelByHolder => "cancelled",
            Self::Interrupt | Self::TakeOver => "superseded",
            Self::Ack => "acked",
            Self::DeadLetter => "dead_letter",
            Self::Lapse => "lapsed",
        }
    }
}

/// The state of the state machine of a dispatch: the properties that decide which status an act leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispatchMachineState {
    /// The status as it was stored; absent before the enqueue.
    pub status: Option<DispatchStatus>,
    /// Whether the thread has been interrupted since the dispatch got its epoch.
    pub is_stale: bool,
    /// Whether one more failure makes the dispatch a dead letter.
    pub is_last_attempt: bool,
}

impl DispatchMachineState {
    /// Returns the status that readers see. A dispatch that is queued under an older epoch is superseded (MB-12).
    #[must_use]
    pub const fn visible_status(self) -> Option<DispatchStatus> {
        match self.status {
            Some(DispatchStatus::Queued) if self.is_stale => Some(DispatchStatus::Superseded),
            status => status,
        }
    }
}

/// Returns the status that an act leads to, or `None` if the table of the contract has no such transition. An act
/// without a transition is refused.
#[must_use]
pub fn next_status(machine_state: DispatchMachineState, act: DispatchAct) -> Option<DispatchStatus> {
    use DispatchStatus::{Acked, Cancelled, Claimed, DeadLetter, Queued, Superseded};
    Some(match (machine_state.visible_status(), act) {
        (None, DispatchAct::Enqueue) | (Some(DeadLetter), DispatchAct::Requeue) => Queued,
        (Some(Queued), DispatchAct::Claim) | (Some(Claimed), DispatchAct::Interrupt) => Claimed,
        (Some(Queued), DispatchAct::Cancel) => Cancelled,
        (Some(Queued), DispatchAct::Interrupt) | (Some(Queued | Claimed), DispatchAct::TakeOver) => Superseded,
        (Some(Claimed), act) => {
            let to = match act {
                DispatchAct::Extend | DispatchAct::Start => Claimed,
                DispatchAct::Ack => Acked,
                DispatchAct::Retry | DispatchAct::Lapse if machine_state.is_last_attempt => DeadLetter,
                DispatchAct::Retry | DispatchAct::Lapse | DispatchAct::Snooze | DispatchAct::Release => Queued,
                DispatchAct::DeadLetter => DeadLetter,
                DispatchAct::CancelByHolder => Cancelled,
                _ => return None,
            };
            if machine_state.is_stale { Superseded } else { to }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::{DispatchAct, DispatchMachineState, DispatchStatus, next_status};

    /// The table of the contract. The columns are the status (`-` for no dispatch), whether the epoch is `stale` or
    /// `fresh`, whether this is the `last` attempt or there are `more`, the act, and the new status. What is not in the
    /// table is refused.
    const TABLE: &str = "
        -           fresh  more  Enqueue        queued
        queued      fresh  any   Claim          claimed
        queued      fresh  any   Cancel         cancelled
        queued      fresh  any   Interrupt      superseded
        queued      fresh  any   TakeOver       superseded
        claimed     any    any   Interrupt      claimed
        claimed     any    any   TakeOver       superseded
        claimed     fresh  any   Extend         claimed
        claimed     fresh  any   Start          claimed
        claimed     fresh  any   Ack            acked
        claimed     fresh  more  Retry          queued
        claimed     fresh  last  Retry          dead_letter
        claimed     fresh  any   Snooze         queued
        claimed     fresh  any   Release        queued
        claimed     fresh  any   DeadLetter     dead_letter
        claimed     fresh  any   CancelByHolder cancelled
        claimed     fresh  more  Lapse          queued
        claimed     fresh  last  Lapse          dead_letter
        claimed     stale  any   Extend         superseded
        claimed     stale  any   Start          superseded
        claimed     stale  any   Ack            superseded
        claimed     stale  any   Retry          superseded
        claimed     stale  any   Snooze         superseded
        claimed     stale  any   Release        superseded
        claimed     stale  any   DeadLetter     superseded
        claimed     stale  any   CancelByHolder superseded
        claimed     stale  any   Lapse          superseded
        dead_letter any    any   Requeue        queued
    ";

    fn expected_status(machine_state: DispatchMachineState, act: DispatchAct) -> Option<DispatchStatus> {
        let word_matches =
            |word: &str, word_for_true: &str, value: bool| word == "any" || (word == word_for_true) == value;
        TABLE.lines().find_map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let &[from, stale, last, act_name, to] = words.as_slice() else { return None };
            let line_matches = from == machine_state.status.map_or("-", DispatchStatus::name)
                && word_matches(stale, "stale", machine_state.is_stale)
                && word_matches(last, "last", machine_state.is_last_attempt)
                && act_name == format!("{act:?}");
            line_matches.then(|| to.parse().unwrap())
        })
    }

    #[test]
    fn every_transition_matches_the_table_of_the_contract() {
        let statuses = DispatchStatus::ALL.iter().copied().map(Some);
        let mut refused_count = 0;
        for status in statuses {
            for (is_stale, is_last_attempt) in [(false, false), (false, true), (true, false), (true, true)] {
                for act in DispatchAct::ALL {
                    let machine_state = DispatchMachineState { status, is_stale, is_last_attempt };
                    let actual = next_status(machine_state, *act);
                    assert_eq!(actual, expected_status(machine_state, *act), "{machine_state:?} {act:?}");
                    refused_count += usize::from(actual.is_none());
                }
            }
        }
        assert!(refused_count > 200, "{refused_count}");
    }

    #[test]
    fn only_an_enqueue_creates_a_dispatch() {
        let no_dispatch = DispatchMachineState { status: None, is_stale: false, is_last_attempt: false };
        for act in DispatchAct::ALL {
            assert_eq!(next_status(no_dispatch, *act), expected_status(no_dispatch, *act), "{act:?}");
        }
    }
}
