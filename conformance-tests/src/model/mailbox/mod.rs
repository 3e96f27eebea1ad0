//! The mailbox (promises MB of the contract): a list of the dispatches of a tenant, and a record for each thread. An
//! interrupt immediately changes every queued dispatch that it supersedes.

mod claim;
mod handle;
mod produce;
mod read;
mod settle;

use std::collections::BTreeMap;

use serde_json::json;
use store_core::{
    Attempt, AttemptEnd, ClaimToken, Dispatch, DispatchId, DispatchStatus, Fence, InterruptKey, Interrupted,
    NewDispatch, Result, Settled, Settlement, ThreadId, Timestamp,
};

pub(super) use self::settle::{check_fence, check_settlement, settle};
use super::{bug::Bug, model_data::record_from_json};

/// The mailbox of a tenant.
#[derive(Debug, Clone, Default)]
pub(super) struct TenantMailbox {
    /// The incarnation in claim numbers: one more than the number of times that the tenant was deleted.
    pub(super) incarnation: u64,
    threads: BTreeMap<ThreadId, ThreadMailbox>,
    stored_dispatches: Vec<StoredDispatch>,
}

/// The data that a mailbox stores for one thread, besides its dispatches.
#[derive(Debug, Clone, Default)]
struct ThreadMailbox {
    epoch: u64,
    /// The last 20 interrupts that had a key, each with its answer. The oldest is first.
    interrupt_answers: Vec<(InterruptKey, Interrupted)>,
    /// The number of claims and of interrupts that took over. The last claim number has this value as its counter.
    claim_count: u64,
    last_dispatch_number: u64,
    /// The time since which the thread has had no claimed dispatch.
    free_since: Timestamp,
    /// The time of the last write.
    last_time: Timestamp,
    /// The fence of an interrupt that took over. It is valid until the next claim or interrupt.
    takeover_fence: Option<Fence>,
}

/// The settlement that ended a claim, with its answer; `None` if the claim ended in another way.
type SettlementAnswer = Option<(Settlement, Settled)>;

/// A dispatch, with data that callers do not see.
#[derive(Debug, Clone)]
struct StoredDispatch {
    dispatch: Dispatch,
    /// The draft that it was made from.
    draft: NewDispatch,
    /// The epoch of the thread when the dispatch was enqueued.
    enqueue_epoch: u64,
    /// The token of its current claim.
    token: Option<ClaimToken>,
    /// Its last 20 ended claims: the token, how the claim ended, and the settlement with its answer.
    ended_claims: Vec<(ClaimToken, AttemptEnd, SettlementAnswer)>,
}

impl StoredDispatch {
    fn is_open(&self) -> bool {
        !self.dispatch.status.is_final()
    }

    /// Returns whether the lease of its claim has expired.
    fn has_expired(&self, now: Timestamp, bug: Option<Bug>) -> bool {
        let Some(claim) = &self.dispatch.claim else { return false };
        let end = claim.lease_until;
        match bug {
            Some(Bug::LeaseExpiresLate) => end < now,
            Some(Bug::LeaseExpiresEarly) => end.as_millis() <= now.as_millis() + 1,
            _ => end <= now,
        }
    }

    /// Changes its status, and sets the times that depend on the status.
    fn set_status(&mut self, status: DispatchStatus, now: Timestamp) {
        self.dispatch.status = status;
        self.dispatch.updated_at = self.dispatch.updated_at.max(now);
        self.dispatch.finished_at = status.is_final().then_some(now);
    }

    /// Ends its claim, and adds the attempt to its history.
    fn end_claim(&mut self, end: AttemptEnd, settlement: SettlementAnswer, now: Timestamp) -> Result<()> {
        let (Some(claim), Some(token)) = (self.dispatch.claim.take(), self.token.take()) else { return Ok(()) };
        let attempt: Attempt = record_from_json(&json!({
            "claim": claim.number, "worker": claim.worker, "claimed_at": claim.claimed_at, "ended_at": now, "end": end,
        }))?;
        self.dispatch.history.push(attempt);
        self.ended_claims.push((token, end, settlement));
        if self.ended_claims.len() > 20 {
            self.ended_claims.remove(0);
            self.dispatch.history.remove(0);
        }
        Ok(())
    }
}

impl TenantMailbox {
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Adds the data of another mailbox. Only the planted bug `TenantByPrefix` does this.
    pub(super) fn merge(&mut self, other: &Self) {
        self.threads.extend(other.threads.clone());
        self.stored_dispatches.extend(other.stored_dispatches.iter().cloned());
    }

    fn thread_mailbox(&mut self, thread: &ThreadId, now: Timestamp) -> &mut ThreadMailbox {
        self.threads
            .entry(thread.clone())
            .or_insert_with(|| ThreadMailbox { free_since: now, ..ThreadMailbox::default() })
    }

    /// Returns store time, or the time of the last write to the thread if that is later (PR-22).
    fn thread_time(&self, thread: &ThreadId, now: Timestamp) -> Timestamp {
        self.threads.get(thread).map_or(now, |thread_mailbox| thread_mailbox.last_time.max(now))
    }

    fn epoch(&self, thread: &ThreadId) -> u64 {
        self.threads.get(thread).map_or(0, |thread_mailbox| thread_mailbox.epoch)
    }

    fn index_of(&self, id: &DispatchId) -> Option<usize> {
        self.stored_dispatches.iter().position(|stored| stored.dispatch.id == *id)
    }

    /// Returns the index of the claimed dispatch of a thread.
    fn claimed_index(&self, thread: &ThreadId) -> Option<usize> {
        let is_claimed = |stored: &StoredDispatch| {
            stored.dispatch.status == DispatchStatus::Claimed && stored.dispatch.thread == *thread
        };
        self.stored_dispatches.iter().position(is_claimed)
    }

    /// Records a write to the thread. If `frees_thread` is set, also records that the thread has no claimed dispatch
    /// from now on.
    fn record_write(&mut self, thread: &ThreadId, now: Timestamp, frees_thread: bool) {
        let thread_mailbox = self.thread_mailbox(thread, now);
        thread_mailbox.last_time = now;
        if frees_thread {
            thread_mailbox.free_since = now;
        }
    }

    /// Ends the claim of a dispatch whose lease has expired, as the contract's table of dispatches says.
    fn end_expired_claim(&mut self, at: usize, now: Timestamp, bug: Option<Bug>) -> Result<()> {
        let Some(epoch) = self.stored_dispatches.get(at).map(|stored| self.epoch(&stored.dispatch.thread)) else {
            return Ok(());
        };
        let Some(stored) = self.stored_dispatches.get_mut(at) else { return Ok(()) };
        if stored.dispatch.epoch < epoch {
            return self.supersede(at, now);
        }
        let counted = u32::from(bug != Some(Bug::LostLeaseNotCounted));
        stored.dispatch.attempts += counted;
        let is_last = stored.dispatch.attempts >= stored.dispatch.max_attempts;
        stored.set_status(if is_last { DispatchStatus::DeadLetter } else { DispatchStatus::Queued }, now);
        stored.dispatch.last_error = Some("lease expired".to_owned());
        stored.dispatch.available_at = now;
        stored.end_claim(AttemptEnd::LeaseExpired, None, now)?;
        let thread = stored.dispatch.thread.clone();
        self.record_write(&thread, now, true);
        Ok(())
    }

    /// Supersedes a claimed dispatch whose thread was interrupted after the claim.
    fn supersede(&mut self, at: usize, now: Timestamp) -> Result<()> {
        let Some(stored) = self.stored_dispatches.get_mut(at) else { return Ok(()) };
        stored.set_status(DispatchStatus::Superseded, now);
        stored.end_claim(AttemptEnd::Superseded, None, now)?;
        let thread = stored.dispatch.thread.clone();
        self.record_write(&thread, now, true);
        Ok(())
    }
}
