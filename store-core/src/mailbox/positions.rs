//! The positions of threads and dispatches in the orders that claims, lists and purges follow. The index of a backend
//! holds these positions.
//!
//! A thread has at most one position in each order of its tenant. The cost of a claim or an interrupt therefore does
//! not grow with the number of queued dispatches: an interrupt moves the thread, not its dispatches. A queued dispatch
//! has a position in the queue of its thread, under its epoch. Claims read only the current epoch. In lists ordered by
//! end, and for purges, the queued dispatches of each older epoch form one [`SupersededBatch`].

use super::{DispatchStatus, StoredDispatch, StoredInterrupt, StoredMailboxThread};
use crate::time::Timestamp;

/// The position of a queued dispatch in the orders of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueuePosition {
    /// The epoch of the dispatch. Only dispatches of the current epoch of the thread are claimed.
    pub epoch: u64,
    /// The priority of the dispatch.
    pub priority: u8,
    /// The number of the dispatch in its thread.
    pub number: u64,
    /// When the dispatch becomes available: its `available_at`, but not before its enqueue.
    pub due: Timestamp,
}

/// Returns the position of a dispatch in the queue of its thread, or `None` if the dispatch was not stored as queued.
#[must_use]
pub fn queue_position(stored: &StoredDispatch) -> Option<QueuePosition> {
    let (body, state) = (&stored.body, &stored.state);
    (state.status == DispatchStatus::Queued).then(|| QueuePosition {
        epoch: state.epoch,
        priority: body.priority,
        number: body.number,
        due: state.available_at.max(body.created_at),
    })
}

/// A summary of the queue of a thread at some time. Only dispatches of the thread's current epoch are considered. A
/// dispatch is available from its [`due`](QueuePosition::due) on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueSummary {
    /// The priority of the first available dispatch. No available dispatch has a lower priority number.
    pub first_priority: Option<u8>,
    /// The time since which a dispatch has been available: the earliest `due` of the available dispatches. It has no
    /// meaning if none is available.
    pub earliest_due: Option<Timestamp>,
    /// The time at which the next dispatch becomes available: the earliest `due` of the dispatches that are not yet
    /// available.
    pub next_due: Option<Timestamp>,
}

/// The positions of a thread in the orders of its tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ThreadPositions {
    /// The position among the ready threads: the priority, and the time since which the thread has been free and has
    /// had a dispatch available (MB-22). Threads with equal values are ordered by id.
    pub ready: Option<(u8, Timestamp)>,
    /// The position among the threads with a dispatch that becomes available later: the time of the next such dispatch.
    pub due: Option<Timestamp>,
    /// The position among the threads with a claimed dispatch: the time at which its lease expires.
    pub lease: Option<Timestamp>,
}

/// Returns the positions of a thread.
#[must_use]
pub fn thread_positions(mailbox: &StoredMailboxThread, summary: QueueSummary) -> ThreadPositions {
    let lease = mailbox.running.as_ref().map(|running| running.lease_until);
    let since = summary.earliest_due.map(|earliest| earliest.max(mailbox.free_since));
    let ready = summary.first_priority.zip(since).filter(|_| lease.is_none());
    ThreadPositions { ready, due: summary.next_due, lease }
}

/// The queued dispatches of one epoch that an interrupt superseded together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SupersededBatch {
    /// The time of the interrupt, which is the `finished_at` of the dispatches.
    pub at: Timestamp,
    /// The epoch of the dispatches.
    pub epoch: u64,
}

/// Returns the batch of queued dispatches that an interrupt superseded.
#[must_use]
pub const fn superseded_batch(interrupt: &StoredInterrupt) -> SupersededBatch {
    SupersededBatch { at: interrupt.at, epoch: interrupt.epoch - 1 }
}
