//! What a command is for, how one is delivered, and how a wait ends.

use std::time::Duration;

use super::LiveCommand;
use crate::{
    claim::ClaimNumber,
    id::{DispatchId, RunId, ThreadId},
    mailbox::{ClaimedDispatch, Dispatch},
};

/// How long a delivery waits for its answer if nothing else is said.
pub const LIVE_DEADLINE: Duration = Duration::from_secs(5);

/// What a command is for: exactly one attempt of one dispatch (LV-1). Another claim of it is another target (LV-5).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct LiveTarget {
    /// The thread.
    pub thread: ThreadId,
    /// The run.
    pub run: RunId,
    /// The dispatch.
    pub dispatch: DispatchId,
    /// The number of its claim.
    pub claim: ClaimNumber,
}

impl LiveTarget {
    /// The attempt with this claim number.
    #[must_use]
    pub const fn new(thread: ThreadId, run: RunId, dispatch: DispatchId, claim: ClaimNumber) -> Self {
        Self { thread, run, dispatch, claim }
    }

    /// For senders: the attempt that a dispatch is in as it was read; none if nobody had claimed it.
    #[must_use]
    pub fn of(dispatch: &Dispatch) -> Option<Self> {
        let claim = dispatch.claim.as_ref()?.number;
        Some(Self::new(dispatch.thread.clone(), dispatch.run.clone(), dispatch.id.clone(), claim))
    }
}

/// For workers: the attempt that a claim began.
impl From<&ClaimedDispatch> for LiveTarget {
    fn from(claimed: &ClaimedDispatch) -> Self {
        let dispatch = &claimed.dispatch;
        Self::new(dispatch.thread.clone(), dispatch.run.clone(), dispatch.id.clone(), claimed.number)
    }
}

/// A command to be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliverLive {
    /// What it is for.
    pub target: LiveTarget,
    /// The command.
    pub command: LiveCommand,
    /// How long to wait for the answer, in real time.
    pub deadline: Duration,
}

impl DeliverLive {
    /// `command` for `target`, to be answered within five seconds.
    #[must_use]
    pub const fn new(target: LiveTarget, command: LiveCommand) -> Self {
        Self { target, command, deadline: LIVE_DEADLINE }
    }

    /// The same, to be answered within this time.
    #[must_use]
    pub const fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}

/// What became of a command (LV-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LiveDelivery {
    /// The receiver accepted it. That is not durable (LV-7).
    Delivered,
    /// It was not accepted, and will not be: nobody receives for the target, or who does dropped it, or is too far
    /// behind.
    NoReceiver,
    /// It was sent, and the deadline passed without an answer.
    Unknown,
}

/// How a wait for work ended. Both times it is worth a claim: a wake-up is a hint (LV-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Waited {
    /// There may be something to claim.
    Woken,
    /// The time is over.
    TimedOut,
}
