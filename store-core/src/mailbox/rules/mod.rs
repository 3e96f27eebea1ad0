//! The rules of the mailbox.
//!
//! Each rule decides about the mailbox of one thread. It reads the stored data through a [`MailboxView`], and returns
//! what has to be written together with the answer to the caller.

mod claim;
mod fence;
mod maintain;
mod plan_builder;
mod produce;
mod settle;

use std::collections::BTreeMap;

pub(crate) use self::settle::settlement_digest;
pub use self::{
    claim::{SingleClaim, check_call_limit, claim, end_expired_claim, ready_thread},
    fence::{check_claim, settle_in_commit},
    maintain::{is_purgeable, purge, requeue},
    produce::{PreparedEnqueue, cancel, check_new_dispatch, enqueue, enqueue_prepared, interrupt},
    settle::{PreparedSettlement, check_settlement, extend, settle, settle_prepared, start},
};
use super::{Dispatch, DispatchStatus, StoredDispatch, StoredInterrupt, StoredMailboxThread, queue_position};
use crate::{
    error::Result,
    id::{DedupeKey, DispatchId, ThreadId},
    limits::{Limits, check_limit, length},
    time::Timestamp,
};

/// The stored data of a mailbox, as the rules read it. Everything that one call reads about a thread must be from the
/// same moment.
pub trait MailboxView {
    /// Returns the incarnation of claim numbers. It is raised above all earlier incarnations when the mailbox is
    /// created, restored or emptied (MB-25).
    fn claim_incarnation(&self) -> u64;

    /// Returns the record of a thread, or `None` if nothing was ever written for the thread.
    ///
    /// # Errors
    /// Any error of reading.
    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailboxThread>>;

    /// Returns the dispatch with this id.
    ///
    /// # Errors
    /// Any error of reading.
    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>>;

    /// Returns the dispatch that holds a dedupe key of a thread or held it last, if that dispatch still exists.
    ///
    /// # Errors
    /// Any error of reading.
    fn last_dispatch_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>>;

    /// Returns the first available dispatch of a thread.
    ///
    /// The available dispatches are those that are queued under this epoch and whose `available_at` is not after `now`.
    /// They are ordered by priority, then by their number in the thread.
    ///
    /// # Errors
    /// Any error of reading.
    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>>;

    /// Returns the interrupt that began this epoch of a thread, if its record is still kept.
    ///
    /// # Errors
    /// Any error of reading.
    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>>;
}

/// Everything that a decision about the mailbox of a thread writes. It is written as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MailboxPlan {
    /// The thread.
    pub thread: ThreadId,
    /// The record of the thread after the decision.
    pub mailbox: StoredMailboxThread,
    /// Dispatches that are new or changed, each once. The state of a new dispatch follows from its body.
    pub dispatches: Vec<StoredDispatch>,
    /// A dispatch that is removed.
    pub purged: Option<DispatchId>,
    /// Interrupts to write (`Some`) or to remove (`None`), by the epoch that they began.
    pub interrupts: BTreeMap<u64, Option<StoredInterrupt>>,
}

impl MailboxPlan {
    /// Makes a plan that writes the record of a thread and nothing else. A backend that reads plans from a log adds the
    /// rest.
    #[must_use]
    pub const fn new(thread: ThreadId, mailbox: StoredMailboxThread) -> Self {
        Self { thread, mailbox, dispatches: Vec::new(), purged: None, interrupts: BTreeMap::new() }
    }

    /// Returns the time from which a claim may find a dispatch of the thread once the plan is written. Returns `None`
    /// if only another change can make a dispatch available.
    ///
    /// Waiting workers use this time. It may be too early, but never too late (LV-8, LV-10).
    #[must_use]
    pub fn claimable_from(&self) -> Option<Timestamp> {
        let mailbox = &self.mailbox;
        if let Some(current_claim) = &mailbox.running {
            return Some(current_claim.lease_until);
        }
        let positions = self.dispatches.iter().filter_map(queue_position);
        let written_due_times: Vec<_> =
            positions.filter(|position| position.epoch == mailbox.epoch).map(|position| position.due).collect();
        // A queued dispatch that this plan does not write may be available already: the decision did not read it.
        let has_unread_dispatches = mailbox.counts.queued > length(written_due_times.len());
        written_due_times.into_iter().chain(has_unread_dispatches.then_some(mailbox.last_time)).min()
    }
}

/// The decision about a call: what has to be written, and the answer. The caller gets the answer after the write.
///
/// A refused call may have something to write, too: a call with a stale claim is refused, and ends that claim (MB-33).
#[derive(Debug)]
#[must_use = "the plan must be written before the answer is returned"]
pub struct MailboxDecision<T> {
    /// What to write; none if nothing changes.
    pub plan: Option<Box<MailboxPlan>>,
    /// The answer.
    pub answer: Result<T>,
}

impl<T> MailboxDecision<T> {
    pub(super) const fn unchanged(answer: Result<T>) -> Self {
        Self { plan: None, answer }
    }

    /// Converts the answer, and keeps the plan.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> MailboxDecision<U> {
        MailboxDecision { plan: self.plan, answer: self.answer.map(map) }
    }
}

/// Returns the time of a decision about a thread: store time, or the time of the thread's last change if that is later.
/// For one thread, time therefore never goes back (PR-22).
#[must_use]
pub fn decision_time(mailbox: Option<&StoredMailboxThread>, now: Timestamp) -> Timestamp {
    mailbox.map_or(now, |mailbox| mailbox.last_time.max(now))
}

/// Returns a dispatch as every reader sees it.
///
/// If an interrupt superseded the dispatch while it was queued, the dispatch shows the time of the interrupt and its
/// reason (MB-12).
///
/// # Errors
/// Any error of the view.
pub fn visible_dispatch(view: &(impl MailboxView + ?Sized), stored: &StoredDispatch) -> Result<Dispatch> {
    let mut dispatch = stored.to_dispatch();
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

/// Returns the interrupt that superseded a dispatch stored as queued, or `None` if the dispatch is still queued.
fn superseded_by(view: &(impl MailboxView + ?Sized), stored: &StoredDispatch) -> Result<Option<StoredInterrupt>> {
    let thread = &stored.body.thread;
    let epoch = view.mailbox(thread)?.map_or(0, |mailbox| mailbox.epoch);
    if stored.state.epoch >= epoch {
        return Ok(None);
    }
    let interrupt = view.interrupt(thread, stored.state.epoch + 1)?;
    interrupt.map(Some).ok_or_else(|| crate::error::Error::corrupt("the record of an interrupt does not exist"))
}

/// Refuses a call with more items than a limit allows.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_item_count(items: usize, limits: &Limits) -> Result<()> {
    check_limit("dispatches of a call", length(items), limits.call_dispatches)
}

#[cfg(test)]
mod tests;
