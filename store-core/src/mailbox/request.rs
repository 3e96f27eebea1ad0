//! The requests of producers and workers to a mailbox, and the answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ClaimedDispatch, DispatchStatus};
use crate::{
    claim::Fence,
    error::Error,
    id::{DispatchId, InterruptKey, ThreadId, WorkerId},
    time::Timestamp,
};

/// The answer to an enqueue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Enqueued {
    /// The id of the dispatch.
    pub id: DispatchId,
    /// The thread of the dispatch.
    pub thread: ThreadId,
    /// The number of the dispatch in its thread.
    pub number: u64,
    /// The epoch of the thread when the dispatch was enqueued.
    pub epoch: u64,
    /// When the dispatch becomes available.
    pub available_at: Timestamp,
    /// Store time of the enqueue.
    pub created_at: Timestamp,
    /// Whether the dispatch had been enqueued before.
    pub deduplicated: bool,
}

/// A request to interrupt a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interrupt {
    /// The thread.
    pub thread: ThreadId,
    /// The reason. Superseded dispatches show it.
    pub reason: Option<String>,
    /// A key that makes the interrupt safe to repeat. A repeat returns the first answer, if the key is among the last
    /// 20 of the thread.
    pub key: Option<InterruptKey>,
    /// Whether the interrupt also ends the claimed dispatch and returns a fence (MB-53).
    pub take_over: bool,
    /// Whether the reasons and keys of earlier interrupts of the thread are forgotten (MB-56).
    pub forget: bool,
}

impl Interrupt {
    /// Makes an interrupt of `thread`.
    #[must_use]
    pub const fn new(thread: ThreadId) -> Self {
        Self { thread, reason: None, key: None, take_over: false, forget: false }
    }

    /// Sets the reason.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// Sets the key.
    #[must_use]
    pub fn with_key(mut self, key: InterruptKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Makes the interrupt end the claimed dispatch too.
    #[must_use]
    pub const fn taking_over(mut self) -> Self {
        self.take_over = true;
        self
    }

    /// Makes the thread forget the keys of earlier interrupts, and their reasons as soon as no dispatch shows them.
    #[must_use]
    pub const fn forgetting(mut self) -> Self {
        self.forget = true;
        self
    }
}

/// The answer to an interrupt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interrupted {
    /// The epoch that the interrupt began.
    pub epoch: u64,
    /// The number of queued dispatches that the interrupt superseded.
    pub superseded: u64,
    /// The dispatch that was claimed. It stays claimed, unless the interrupt took over.
    pub claimed: Option<DispatchId>,
    /// After a takeover: the fence with which the caller can write to the thread. It is valid until the thread is
    /// claimed or interrupted again.
    pub fence: Option<Fence>,
    /// Store time of the interrupt.
    pub at: Timestamp,
    /// Whether this is the answer to an earlier interrupt with the same key.
    pub deduplicated: bool,
}

impl Interrupted {
    /// Creates the answer to an interrupt that began this epoch at this time and superseded no dispatches. Only
    /// implementations of a store need this.
    #[must_use]
    pub const fn new(epoch: u64, at: Timestamp) -> Self {
        Self { epoch, superseded: 0, claimed: None, fence: None, at, deduplicated: false }
    }
}

/// A request to claim dispatches, each of a different thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// The worker that claims.
    pub worker: WorkerId,
    /// The length of the lease: more than zero, at most 24 hours.
    pub lease: Duration,
    /// The maximum number of dispatches to claim, 1 to 1,000.
    pub limit: u32,
    /// Claims only dispatches of this thread.
    pub thread: Option<ThreadId>,
    /// Claims only this dispatch, even before it becomes available.
    pub dispatch: Option<DispatchId>,
}

impl ClaimRequest {
    /// Makes a request for one dispatch.
    #[must_use]
    pub const fn new(worker: WorkerId, lease: Duration) -> Self {
        Self { worker, lease, limit: 1, thread: None, dispatch: None }
    }

    /// Sets the maximum number of dispatches.
    #[must_use]
    pub const fn up_to(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Restricts the request to this thread.
    #[must_use]
    pub fn of_thread(mut self, thread: ThreadId) -> Self {
        self.thread = Some(thread);
        self
    }

    /// Restricts the request to this dispatch.
    #[must_use]
    pub fn of_dispatch(mut self, dispatch: DispatchId) -> Self {
        self.dispatch = Some(dispatch);
        self
    }
}

/// Why a claim that asked for a dispatch by id returned nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NotClaimedReason {
    /// There is no such dispatch, or it belongs to another thread.
    Unknown,
    /// The dispatch is not queued, but has this status.
    NotQueued(DispatchStatus),
    /// This other dispatch of the thread is claimed.
    Busy(DispatchId),
}

/// A thread that a claim left out, because one of the thread's records cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnreadableThread {
    /// The thread.
    pub thread: ThreadId,
    /// Why the thread cannot be read.
    pub error: Error,
}

impl UnreadableThread {
    /// Creates the report of a thread that cannot be read. Only implementations of a store need this.
    #[must_use]
    pub const fn new(thread: ThreadId, error: Error) -> Self {
        Self { thread, error }
    }
}

/// The answer to a claim.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Claims {
    /// The claimed dispatches, each with its token.
    pub claimed: Vec<ClaimedDispatch>,
    /// Why the dispatch that was asked for by id was not claimed.
    pub missed: Option<NotClaimedReason>,
    /// Threads with a record that cannot be read (MB-55).
    pub unreadable: Vec<UnreadableThread>,
}

impl Claims {
    /// Makes an answer without dispatches. If a dispatch was asked for by id, `missed` is the reason why it was not
    /// claimed.
    #[must_use]
    pub fn none(missed: Option<NotClaimedReason>) -> Self {
        Self { missed, ..Self::default() }
    }
}

/// The answer to a settlement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settled {
    /// The id of the dispatch.
    pub dispatch: DispatchId,
    /// The status of the dispatch after the settlement.
    pub status: DispatchStatus,
    /// The number of failures and lost leases of the dispatch after the settlement.
    pub attempts: u32,
    /// When the dispatch was to become available again, if it was queued again.
    pub available_at: Option<Timestamp>,
    /// Whether this is the answer to an earlier, equal settlement.
    pub deduplicated: bool,
}

/// The dispatches whose claims were ended because their lease had expired.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Dispatches that are queued again.
    pub requeued: Vec<DispatchId>,
    /// Dispatches that have used up their attempts.
    pub dead_lettered: Vec<DispatchId>,
    /// Dispatches whose epoch is older than that of their thread.
    pub superseded: Vec<DispatchId>,
}

impl Reclaimed {
    /// Returns whether there are no dispatches.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.requeued.is_empty() && self.dead_lettered.is_empty() && self.superseded.is_empty()
    }

    /// Adds the dispatches of `others`.
    pub fn extend(&mut self, others: Self) {
        self.requeued.extend(others.requeued);
        self.dead_lettered.extend(others.dead_lettered);
        self.superseded.extend(others.superseded);
    }
}

#[cfg(test)]
mod tests {
    use super::Reclaimed;
    use crate::DispatchId;

    #[test]
    fn any_reclaimed_dispatch_makes_the_result_not_empty() {
        assert!(Reclaimed::default().is_empty());
        let one = || vec![DispatchId::new("d").unwrap()];
        let results = [
            Reclaimed { requeued: one(), ..Reclaimed::default() },
            Reclaimed { dead_lettered: one(), ..Reclaimed::default() },
            Reclaimed { superseded: one(), ..Reclaimed::default() },
        ];
        assert!(results.iter().all(|reclaimed| !reclaimed.is_empty()));
    }
}
