//! What a store keeps about a mailbox. For each dispatch it keeps a body, which never changes, and a state, which does.
//! For each thread it keeps one record, and one record for each interrupt of the thread.
//!
//! The state of a dispatch and the record of a thread have a `revision`. If a store finds several revisions, the
//! highest one is valid, in whatever order they are read. Fields named `token` contain the digest of a token, except in
//! [`TakeOver`].

use std::sync::Arc;

use super::{Attempt, Dispatch, DispatchClaim, DispatchCounts, DispatchMachineState, DispatchStatus};
use crate::{
    claim::{ClaimNumber, ClaimToken},
    codec::{Extra, record},
    id::{DedupeKey, DispatchId, InterruptKey, RunId, ThreadId},
    json::Json,
    time::Timestamp,
};

/// The part of a dispatch that never changes. It is written once, by the enqueue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchBody {
    /// The id of the dispatch.
    pub id: DispatchId,
    /// The thread that the dispatch belongs to.
    pub thread: ThreadId,
    /// The run that the dispatch is for.
    pub run: RunId,
    /// What the dispatch carries for its handler.
    pub payload: Option<Json>,
    /// The priority; 0 comes first.
    pub priority: u8,
    /// A key that prevents the same work from being enqueued twice.
    pub dedupe_key: Option<DedupeKey>,
    /// When the dispatch first becomes available.
    pub available_at: Timestamp,
    /// The number of failures and lost leases that makes the dispatch a dead letter.
    pub max_attempts: u32,
    /// The epoch of the thread at the enqueue.
    pub epoch: u64,
    /// The number of the dispatch in its thread.
    pub number: u64,
    /// When the dispatch was enqueued.
    pub created_at: Timestamp,
    /// The digest of the draft that the caller passed (MB-3).
    pub digest: String,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(DispatchBody {
    id: req,
    thread: req,
    run: req,
    payload: opt,
    priority: req,
    dedupe_key: opt,
    available_at: req,
    max_attempts: req,
    epoch: def,
    number: req,
    created_at: req,
    digest: req,
});

/// The part of a dispatch that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchState {
    /// The revision, which grows with each change. The enqueue has revision 1.
    pub revision: u64,
    /// The status as it was stored. If the dispatch is queued and its epoch is older than that of its thread, it is
    /// superseded.
    pub status: DispatchStatus,
    /// The number of failures and lost leases so far.
    pub attempts: u32,
    /// The dispatch is not claimed before this time.
    pub available_at: Timestamp,
    /// The epoch of the thread at the enqueue or requeue.
    pub epoch: u64,
    /// The claim of the worker that holds the dispatch.
    pub claim: Option<StoredClaim>,
    /// The result of the work.
    pub result: Option<Json>,
    /// The error of the last failure.
    pub last_error: Option<String>,
    /// Why the dispatch was cancelled or superseded.
    pub reason: Option<String>,
    /// The last attempts.
    pub history: Vec<StoredAttempt>,
    /// When the dispatch last changed.
    pub updated_at: Timestamp,
    /// When the dispatch ended.
    pub finished_at: Option<Timestamp>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(DispatchState {
    revision: req,
    status: req,
    attempts: def,
    available_at: req,
    epoch: def,
    claim: opt,
    result: opt,
    last_error: opt,
    reason: opt,
    history: def,
    updated_at: req,
    finished_at: opt,
});

/// A stored claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredClaim {
    /// The part that every reader may see.
    pub claim: DispatchClaim,
    /// The digest of the token.
    pub token: String,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(StoredClaim { claim: req, token: req });

/// A stored attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredAttempt {
    /// The part that every reader may see.
    pub attempt: Attempt,
    /// The digest of the token.
    pub token: String,
    /// The digest of the settlement that ended the attempt.
    pub settlement: Option<String>,
    /// The status of the dispatch after the attempt. A repeat of the settlement returns it again (MB-39).
    pub status: DispatchStatus,
    /// The number of failures and lost leases of the dispatch after the attempt.
    pub attempts: u32,
    /// When the dispatch was to become available again, if it was queued again.
    pub available_at: Option<Timestamp>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(StoredAttempt { attempt: req, token: req, settlement: opt, status: req, attempts: def, available_at: opt });

/// A stored dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredDispatch {
    /// The part that never changes.
    pub body: Arc<DispatchBody>,
    /// The part that changes.
    pub state: DispatchState,
}

impl StoredDispatch {
    /// Creates a dispatch from its two parts. Only implementations of a store need this.
    #[must_use]
    pub const fn new(body: Arc<DispatchBody>, state: DispatchState) -> Self {
        Self { body, state }
    }

    /// Creates the record of a dispatch that was just enqueued. Its state follows from its body. Only implementations
    /// of a store need this.
    #[must_use]
    pub fn enqueued(body: Arc<DispatchBody>) -> Self {
        let state = DispatchState {
            revision: 1,
            status: DispatchStatus::Queued,
            attempts: 0,
            available_at: body.available_at,
            epoch: body.epoch,
            claim: None,
            result: None,
            last_error: None,
            reason: None,
            history: Vec::new(),
            updated_at: body.created_at,
            finished_at: None,
            extra: Extra::default(),
        };
        Self { body, state }
    }

    /// Returns the id of the dispatch.
    #[must_use]
    pub fn id(&self) -> &DispatchId {
        &self.body.id
    }

    /// Returns whether a worker holds the dispatch, according to the stored status.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.state.status == DispatchStatus::Claimed
    }

    /// Returns whether the dispatch has not changed since it was enqueued. Its state then need not be written.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.state.revision == 1
    }

    /// Returns the public record of the dispatch, with the status as it was stored.
    /// [`visible_dispatch`](super::visible_dispatch) also considers whether an interrupt superseded the dispatch.
    pub(super) fn to_dispatch(&self) -> Dispatch {
        let (body, state) = (&*self.body, &self.state);
        Dispatch {
            id: body.id.clone(),
            thread: body.thread.clone(),
            run: body.run.clone(),
            payload: body.payload.clone(),
            priority: body.priority,
            dedupe_key: body.dedupe_key.clone(),
            available_at: state.available_at,
            max_attempts: body.max_attempts,
            attempts: state.attempts,
            epoch: state.epoch,
            status: state.status,
            claim: state.claim.as_ref().map(|stored| stored.claim.clone()),
            result: state.result.clone(),
            last_error: state.last_error.clone(),
            reason: state.reason.clone(),
            history: state.history.iter().map(|stored| stored.attempt.clone()).collect(),
            created_at: body.created_at,
            updated_at: state.updated_at,
            finished_at: state.finished_at,
            number: body.number,
            extra: body.extra.clone(),
        }
    }
}

/// What a mailbox keeps about a thread as a whole. It is never removed, because epochs and claim numbers
/// must not be used again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StoredMailboxThread {
    /// The revision, which grows with each change.
    pub revision: u64,
    /// The number of times that the thread was interrupted.
    pub epoch: u64,
    /// The number of the last dispatch.
    pub last_number: u64,
    /// The claim number of the last claim.
    pub last_claim: Option<ClaimNumber>,
    /// The dispatch that is claimed.
    pub running: Option<CurrentClaim>,
    /// The number of dispatches in each status that readers see.
    pub counts: DispatchCounts,
    /// The time since which no dispatch has been claimed.
    pub free_since: Timestamp,
    /// Store time of the last change. Later changes do not have an earlier time.
    pub last_time: Timestamp,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

impl StoredMailboxThread {
    /// Counts dispatches by the status that readers see. Each item of `dispatches` is a stored status, an epoch, and
    /// the number of dispatches with both.
    #[must_use]
    pub fn count(&self, dispatches: impl IntoIterator<Item = (DispatchStatus, u64, u64)>) -> DispatchCounts {
        let mut counts = DispatchCounts { extra: self.counts.extra.clone(), ..DispatchCounts::default() };
        for (status, epoch, count) in dispatches {
            let machine_state =
                DispatchMachineState { status: Some(status), is_stale: epoch < self.epoch, is_last_attempt: false };
            *counts.of_mut(machine_state.visible_status().unwrap_or_default()) += count;
        }
        counts
    }

    /// Corrects the record so that it agrees with the dispatches of the thread. `counts` are their real counts, and
    /// `is_claimed` says whether the dispatch in `running` is really claimed. If it is not, the thread is free from
    /// `now` on.
    pub fn correct(&mut self, counts: DispatchCounts, is_claimed: bool, now: Timestamp) {
        if self.running.is_some() && !is_claimed {
            self.running = None;
            self.free_since = self.last_time.max(now);
        }
        self.counts = counts;
        self.revision = self.revision.saturating_add(1);
    }
}

record!(StoredMailboxThread {
    revision: req,
    epoch: def,
    last_number: def,
    last_claim: opt,
    running: opt,
    counts: def,
    free_since: req,
    last_time: req,
});

/// The claimed dispatch of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CurrentClaim {
    /// The id of the dispatch.
    pub dispatch: DispatchId,
    /// The epoch of the dispatch.
    pub epoch: u64,
    /// When the lease expires.
    pub lease_until: Timestamp,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(CurrentClaim { dispatch: req, epoch: def, lease_until: req });

/// What a store keeps about an interrupt. It is removed when it is not the newest one, no dispatch needs it and its key
/// is no longer remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredInterrupt {
    /// The epoch that the interrupt began.
    pub epoch: u64,
    /// When the thread was interrupted.
    pub at: Timestamp,
    /// The reason for the interrupt.
    pub reason: Option<String>,
    /// The number of queued dispatches that the interrupt superseded.
    pub superseded: u64,
    /// The dispatch that was claimed.
    pub claimed: Option<DispatchId>,
    /// The claim with which the interrupt took over.
    pub take_over: Option<TakeOver>,
    /// A reference count: the number of dispatches that still need this record, because it contains the time at which
    /// they ended and the reason.
    pub holds: u64,
    /// The last interrupts with a key. If this interrupt has a key, it is included. Only the list of the newest
    /// interrupt is used.
    pub recent: Vec<InterruptRef>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(StoredInterrupt {
    epoch: req,
    at: req,
    reason: opt,
    superseded: def,
    claimed: opt,
    take_over: opt,
    holds: def,
    recent: def,
});

/// A reference to an interrupt with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterruptRef {
    /// The key.
    pub key: InterruptKey,
    /// The epoch that the interrupt began.
    pub epoch: u64,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(InterruptRef { key: req, epoch: req });

/// The claim with which an interrupt took over. Here the token itself is stored, so that a repeat of the interrupt can
/// return it again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakeOver {
    /// The id of the dispatch that the interrupt ended, or a new id if there was none.
    pub dispatch: DispatchId,
    /// The proof of the claim.
    pub token: ClaimToken,
    /// The claim number that the interrupt took.
    pub claim: ClaimNumber,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(TakeOver { dispatch: req, token: req, claim: req });
