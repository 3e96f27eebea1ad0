//! What is decided about a mailbox: each decision is about one thread, made of what a view shows, and gives everything
//! that is to be written and the answer.

mod claim;
mod desk;
mod fence;
mod maintain;
mod produce;
mod settle;

use std::collections::BTreeMap;

pub(crate) use self::settle::{check_settlement, settlement_digest};
pub use self::{
    claim::{ClaimOne, check_batch, claim, lapse, ready},
    fence::{check_claim, settle_in_commit},
    maintain::{is_purgeable, purge, requeue},
    produce::{EnqueueOne, cancel, enqueue, enqueue_one, interrupt},
    settle::{SettleOne, extend, settle, settle_one, start},
};
use super::{Dispatch, DispatchStatus, StoredDispatch, StoredInterrupt, StoredMailbox, in_queue};
use crate::{
    error::Result,
    id::{DedupeKey, DispatchId, ThreadId},
    limits::{Limits, check_limit, length},
    time::Timestamp,
};

/// What is stored of a mailbox, as its rules ask for it. All that a call asks of one thread must be of one moment.
pub trait MailboxView {
    /// The incarnation of claim numbers: above all earlier ones since the mailbox was made, restored or emptied
    /// (MB-25).
    fn claim_incarnation(&self) -> u64;

    /// The record of a thread; none if nothing was ever written for it.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailbox>>;

    /// A dispatch.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>>;

    /// The dispatch of a thread that took a dedupe key last, if it is there.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn last_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>>;

    /// Of those that a thread has in its queue under this epoch, and whose `available_at` is not after `now`, the one
    /// with the lowest priority number, then the lowest number.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>>;

    /// The interrupt of a thread that began this epoch, as long as something needs it.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>>;
}

/// Everything that a decision about a thread's mailbox writes, all or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MailboxPlan {
    /// The thread.
    pub thread: ThreadId,
    /// Its record afterwards.
    pub mailbox: StoredMailbox,
    /// Dispatches that are new or changed, each once. Of a new one the body tells all.
    pub dispatches: Vec<StoredDispatch>,
    /// A dispatch that is removed.
    pub purged: Option<DispatchId>,
    /// Interrupts by the epoch that they began: to be written, or removed.
    pub interrupts: BTreeMap<u64, Option<StoredInterrupt>>,
}

impl MailboxPlan {
    /// One that writes the record of a thread and nothing else: a backend that reads plans from a log adds the rest.
    #[must_use]
    pub const fn new(thread: ThreadId, mailbox: StoredMailbox) -> Self {
        Self { thread, mailbox, dispatches: Vec::new(), purged: None, interrupts: BTreeMap::new() }
    }

    /// From when on a claim may find something of the thread once this is written; none if only another change can
    /// bring something. For who waits: it may be early, never late (LV-8, LV-10).
    #[must_use]
    pub fn claimable_from(&self) -> Option<Timestamp> {
        let mailbox = &self.mailbox;
        if let Some(running) = &mailbox.running {
            return Some(running.lease_until);
        }
        let places = self.dispatches.iter().filter_map(in_queue);
        let written: Vec<_> = places.filter(|at| at.epoch == mailbox.epoch).map(|at| at.due).collect();
        // What waits besides was not looked at: it may be available by now.
        let besides = (mailbox.counts.queued > length(written.len())).then_some(mailbox.last_time);
        written.into_iter().chain(besides).min()
    }
}

/// What is to be done about a call, and what its caller gets once that is durable. A refused call may write, too: the
/// holder of a stale claim ends it (MB-33).
#[derive(Debug)]
#[must_use = "what it says is to be written"]
pub struct MailboxChange<T> {
    /// What to write; none if nothing changes.
    pub plan: Option<Box<MailboxPlan>>,
    /// The answer.
    pub answer: Result<T>,
}

impl<T> MailboxChange<T> {
    pub(super) const fn unchanged(answer: Result<T>) -> Self {
        Self { plan: None, answer }
    }

    /// The same change with another answer.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> MailboxChange<U> {
        MailboxChange { plan: self.plan, answer: self.answer.map(map) }
    }
}

/// Store time for a thread: not before its last change, so that for one thread it never goes back (PR-22).
#[must_use]
pub fn time(mailbox: Option<&StoredMailbox>, now: Timestamp) -> Timestamp {
    mailbox.map_or(now, |mailbox| mailbox.last_time.max(now))
}

/// A dispatch as everybody sees it: one that an interrupt superseded in its queue shows that interrupt's time and
/// reason (MB-12).
///
/// # Errors
/// What the view ends with.
pub fn seen(view: &(impl MailboxView + ?Sized), stored: &StoredDispatch) -> Result<Dispatch> {
    let mut dispatch = stored.view();
    if stored.state.status == DispatchStatus::Queued
        && let Some(interrupt) = superseded_by(view, stored)?
    {
        dispatch.status = DispatchStatus::Superseded;
        dispatch.updated_at = dispatch.updated_at.max(interrupt.at);
        dispatch.finished_at = Some(interrupt.at);
        dispatch.reason = interrupt.reason;
    }
    Ok(dispatch)
}

/// The interrupt that superseded what was written as queued; none if it still is.
fn superseded_by(view: &(impl MailboxView + ?Sized), stored: &StoredDispatch) -> Result<Option<StoredInterrupt>> {
    let thread = &stored.body.thread;
    let epoch = view.mailbox(thread)?.map_or(0, |mailbox| mailbox.epoch);
    if stored.state.epoch >= epoch {
        return Ok(None);
    }
    let found = view.interrupt(thread, stored.state.epoch + 1)?;
    found.map(Some).ok_or_else(|| crate::error::Error::corrupt("the record of an interrupt does not exist"))
}

/// Refuses more items in one call than a limit allows.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_requests(items: usize, limits: &Limits) -> Result<()> {
    check_limit("dispatches of a call", length(items), limits.call_dispatches)
}

#[cfg(test)]
mod tests;
