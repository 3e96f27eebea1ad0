//! Where threads and dispatches stand in the orders that claims, lists and purges walk: what a backend's index holds.
//!
//! A thread has at most one place in each order of its tenant, so nothing costs with the backlog: an interrupt moves
//! one thread, not its dispatches. What is queued stands in the order of its thread under its epoch; older epochs are
//! simply never looked at, and each is one lot for lists by end and for purges.

use super::{DispatchStatus, StoredDispatch, StoredInterrupt, StoredMailbox};
use crate::time::Timestamp;

/// Where a queued dispatch stands in the orders of its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InQueue {
    /// The epoch; only those of the thread's are given out.
    pub epoch: u64,
    /// Its priority.
    pub priority: u8,
    /// Its number.
    pub number: u64,
    /// From when on it can be given out, counted from its enqueue.
    pub due: Timestamp,
}

/// The place of a dispatch in its thread's queue; none if it was not written as queued.
#[must_use]
pub fn in_queue(stored: &StoredDispatch) -> Option<InQueue> {
    let (body, state) = (&stored.body, &stored.state);
    (state.status == DispatchStatus::Queued).then(|| InQueue {
        epoch: state.epoch,
        priority: body.priority,
        number: body.number,
        due: state.available_at.max(body.created_at),
    })
}

/// What a thread's queue holds of the thread's epoch, at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueEnds {
    /// The priority of the first that is available: lowest priority number, then lowest number.
    pub first: Option<u8>,
    /// The earliest `due` of those that are available.
    pub earliest: Option<Timestamp>,
    /// The earliest `due` of those that are not.
    pub next: Option<Timestamp>,
}

/// The places of a thread in the orders of its tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Places {
    /// Among ready threads, before the thread's id: priority, and since when it is free and has something available
    /// (MB-22).
    pub ready: Option<(u8, Timestamp)>,
    /// Among threads of which something becomes available later: when.
    pub due: Option<Timestamp>,
    /// Among threads of which something is claimed: when its lease is over.
    pub lease: Option<Timestamp>,
}

/// Where a thread stands.
#[must_use]
pub fn places(mailbox: &StoredMailbox, ends: QueueEnds) -> Places {
    let lease = mailbox.running.as_ref().map(|running| running.lease_until);
    let since = ends.earliest.map(|earliest| earliest.max(mailbox.free_since));
    let ready = ends.first.zip(since).filter(|_| lease.is_none());
    Places { ready, due: ends.next, lease }
}

/// Queued dispatches of one epoch that an interrupt superseded, all at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lot {
    /// When: their `finished_at`.
    pub at: Timestamp,
    /// The epoch that they are of.
    pub epoch: u64,
}

/// The lot that an interrupt made.
#[must_use]
pub const fn lot(interrupt: &StoredInterrupt) -> Lot {
    Lot { at: interrupt.at, epoch: interrupt.epoch - 1 }
}
