//! What producers and workers ask of a mailbox, and what they get.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ClaimedDispatch, DispatchStatus};
use crate::{
    claim::Fence,
    error::Error,
    id::{DispatchId, InterruptKey, ThreadId, WorkerId},
    time::Timestamp,
};

/// What an enqueue did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Enqueued {
    /// The dispatch.
    pub id: DispatchId,
    /// Its thread.
    pub thread: ThreadId,
    /// Its number in the thread.
    pub number: u64,
    /// The epoch of the thread.
    pub epoch: u64,
    /// From when on it is given out.
    pub available_at: Timestamp,
    /// Store time of the enqueue.
    pub created_at: Timestamp,
    /// Whether it had been enqueued before.
    pub deduplicated: bool,
}

/// An interrupt of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interrupt {
    /// The thread.
    pub thread: ThreadId,
    /// Why: what it supersedes shows it.
    pub reason: Option<String>,
    /// The same key again gives the first answer, as long as it is among the last 20 of the thread.
    pub key: Option<InterruptKey>,
    /// Ends the claimed dispatch too, and gives a fence (MB-53).
    pub take_over: bool,
}

impl Interrupt {
    /// An interrupt of `thread`.
    #[must_use]
    pub const fn new(thread: ThreadId) -> Self {
        Self { thread, reason: None, key: None, take_over: false }
    }

    /// The same for this reason.
    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// The same under this key.
    #[must_use]
    pub fn with_key(mut self, key: InterruptKey) -> Self {
        self.key = Some(key);
        self
    }

    /// The same, ending the claimed dispatch too.
    #[must_use]
    pub const fn taking_over(mut self) -> Self {
        self.take_over = true;
        self
    }
}

/// What an interrupt did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interrupted {
    /// The epoch that it began.
    pub epoch: u64,
    /// How many queued dispatches it superseded.
    pub superseded: u64,
    /// The dispatch that was claimed; it stays so, unless the interrupt took over.
    pub claimed: Option<DispatchId>,
    /// What the thread can be written under by who took over, until the next claim or interrupt.
    pub fence: Option<Fence>,
    /// Store time.
    pub at: Timestamp,
    /// Whether this is the answer to an earlier interrupt with the same key.
    pub deduplicated: bool,
}

impl Interrupted {
    /// For stores: an interrupt that began this epoch at this time, and superseded nothing.
    #[must_use]
    pub const fn new(epoch: u64, at: Timestamp) -> Self {
        Self { epoch, superseded: 0, claimed: None, fence: None, at, deduplicated: false }
    }
}

/// A claim of dispatches, each of another thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimRequest {
    /// Who claims.
    pub worker: WorkerId,
    /// For how long: more than nothing, at most 24 hours.
    pub lease: Duration,
    /// How many at most, 1 to 1,000.
    pub limit: u32,
    /// Of this thread only.
    pub thread: Option<ThreadId>,
    /// This dispatch only, before its time too.
    pub dispatch: Option<DispatchId>,
}

impl ClaimRequest {
    /// A claim of one dispatch.
    #[must_use]
    pub const fn new(worker: WorkerId, lease: Duration) -> Self {
        Self { worker, lease, limit: 1, thread: None, dispatch: None }
    }

    /// The same of up to `limit` dispatches.
    #[must_use]
    pub const fn up_to(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// The same of this thread.
    #[must_use]
    pub fn of_thread(mut self, thread: ThreadId) -> Self {
        self.thread = Some(thread);
        self
    }

    /// The same of this dispatch.
    #[must_use]
    pub fn of_dispatch(mut self, dispatch: DispatchId) -> Self {
        self.dispatch = Some(dispatch);
        self
    }
}

/// Why a claim of one dispatch gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missed {
    /// There is no such dispatch, or it is of another thread.
    Unknown,
    /// It is not queued.
    NotQueued(DispatchStatus),
    /// Another dispatch of its thread is claimed.
    Busy(DispatchId),
}

/// A thread that a claim left out.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unreadable {
    /// The thread.
    pub thread: ThreadId,
    /// Why it cannot be read.
    pub error: Error,
}

impl Unreadable {
    /// For stores.
    #[must_use]
    pub const fn new(thread: ThreadId, error: Error) -> Self {
        Self { thread, error }
    }
}

/// What a claim gave.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Claims {
    /// The dispatches, each with its proof.
    pub claimed: Vec<ClaimedDispatch>,
    /// Why the one that was named was not given out.
    pub missed: Option<Missed>,
    /// Threads with a record that cannot be read (MB-55).
    pub unreadable: Vec<Unreadable>,
}

impl Claims {
    /// Nothing, with the reason if a dispatch was named.
    #[must_use]
    pub fn none(missed: Option<Missed>) -> Self {
        Self { missed, ..Self::default() }
    }
}

/// What a settlement did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Settled {
    /// The dispatch.
    pub dispatch: DispatchId,
    /// How it stood then.
    pub status: DispatchStatus,
    /// The attempts counted then.
    pub attempts: u32,
    /// From when on it was to be given out again, if it was.
    pub available_at: Option<Timestamp>,
    /// Whether this is the answer to an earlier, equal settlement.
    pub deduplicated: bool,
}

/// What became of claims whose lease was over.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Queued again.
    pub requeued: Vec<DispatchId>,
    /// Out of attempts.
    pub dead_lettered: Vec<DispatchId>,
    /// Of an older epoch than their thread.
    pub superseded: Vec<DispatchId>,
}

impl Reclaimed {
    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.requeued.is_empty() && self.dead_lettered.is_empty() && self.superseded.is_empty()
    }

    /// Adds others.
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
    fn whatever_was_reclaimed_counts() {
        assert!(Reclaimed::default().is_empty());
        let one = || vec![DispatchId::new("d").unwrap()];
        let all = [
            Reclaimed { requeued: one(), ..Reclaimed::default() },
            Reclaimed { dead_lettered: one(), ..Reclaimed::default() },
            Reclaimed { superseded: one(), ..Reclaimed::default() },
        ];
        assert!(all.iter().all(|reclaimed| !reclaimed.is_empty()));
    }
}
