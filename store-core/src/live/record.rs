//! Targets, deliveries and the results of waiting.

use std::time::Duration;

use super::LiveCommand;
use crate::{
    claim::ClaimNumber,
    id::{DispatchId, RunId, ThreadId},
    mailbox::{ClaimedDispatch, Dispatch},
};

/// How long a delivery waits for its answer if the caller names no deadline.
pub const DEFAULT_LIVE_DEADLINE: Duration = Duration::from_secs(5);

/// The target of a command: exactly one attempt of one dispatch (LV-1). A later claim of the dispatch is a different
/// target (LV-5).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct LiveTarget {
    /// The thread of the dispatch.
    pub thread: ThreadId,
    /// The run of the dispatch.
    pub run: RunId,
    /// The dispatch.
    pub dispatch: DispatchId,
    /// The number of the claim that began the attempt.
    pub claim: ClaimNumber,
}

impl LiveTarget {
    /// Makes the target for the attempt with this claim number.
    #[must_use]
    pub const fn new(thread: ThreadId, run: RunId, dispatch: DispatchId, claim: ClaimNumber) -> Self {
        Self { thread, run, dispatch, claim }
    }

    /// For senders: returns the target for the attempt that was running when `dispatch` was read, or none if the
    /// dispatch was not claimed.
    #[must_use]
    pub fn of(dispatch: &Dispatch) -> Option<Self> {
        let claim = dispatch.claim.as_ref()?.number;
        Some(Self::new(dispatch.thread.clone(), dispatch.run.clone(), dispatch.id.clone(), claim))
    }
}

/// For workers: the target for the attempt that a claim began.
impl From<&ClaimedDispatch> for LiveTarget {
    fn from(claimed: &ClaimedDispatch) -> Self {
        let dispatch = &claimed.dispatch;
        Self::new(dispatch.thread.clone(), dispatch.run.clone(), dispatch.id.clone(), claimed.number)
    }
}

/// A request to deliver a command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeliverLive {
    /// The attempt that the command is for.
    pub target: LiveTarget,
    /// The command.
    pub command: LiveCommand,
    /// How long to wait for the answer, in real time.
    pub deadline: Duration,
}

impl DeliverLive {
    /// Makes a request to deliver `command` to `target`, with a deadline of five seconds.
    #[must_use]
    pub const fn new(target: LiveTarget, command: LiveCommand) -> Self {
        Self { target, command, deadline: DEFAULT_LIVE_DEADLINE }
    }

    /// Sets the deadline.
    #[must_use]
    pub const fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }
}

/// The result of a delivery (LV-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LiveDelivery {
    /// The receiver has accepted the command. That is not durable (LV-7).
    Delivered,
    /// The command was not accepted and will not be: the target has no receiver, or its receiver dropped the command or
    /// has too many unread commands.
    NoReceiver,
    /// The command was sent, and the deadline passed without an answer.
    Unknown,
}

/// How a wait for work ended. In both cases the worker should try to claim, because a wake-up is only a hint (LV-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitResult {
    /// There may be something to claim.
    Woken,
    /// The timeout has passed.
    TimedOut,
}
