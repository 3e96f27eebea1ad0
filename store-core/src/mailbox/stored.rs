//! What a store keeps of a mailbox: of each dispatch a body that never changes and a state, of each thread one record,
//! and one for each of its interrupts.
//!
//! A state and the record of a thread carry a `revision`: of several that were written the highest counts, in whatever
//! order they are read. Tokens are kept as digests.

use std::sync::Arc;

use super::{Attempt, Dispatch, DispatchClaim, DispatchCounts, DispatchStatus, Standing};
use crate::{
    claim::{ClaimNumber, ClaimToken},
    codec::{Extra, record},
    id::{DedupeKey, DispatchId, InterruptKey, RunId, ThreadId},
    json::Json,
    time::Timestamp,
};

/// What of a dispatch never changes: written once, when it is enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchBody {
    /// Its id.
    pub id: DispatchId,
    /// Its thread.
    pub thread: ThreadId,
    /// The run that it is for.
    pub run: RunId,
    /// What there is to know for it.
    pub payload: Option<Json>,
    /// 0 comes first.
    pub priority: u8,
    /// Keeps the same work from being there twice.
    pub dedupe_key: Option<DedupeKey>,
    /// From when on it was available at first.
    pub available_at: Timestamp,
    /// How many failures and lost leases make it a dead letter.
    pub max_attempts: u32,
    /// The epoch of the thread at the enqueue.
    pub epoch: u64,
    /// Its number in the thread.
    pub number: u64,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// The digest of what the caller gave (MB-3).
    pub digest: String,
    /// Fields of a newer release.
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

/// What of a dispatch changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchState {
    /// Grows with each change, from 1 at the enqueue.
    pub revision: u64,
    /// How it stands, as it was written: one that is queued under an older epoch than its thread's is superseded.
    pub status: DispatchStatus,
    /// Failures and lost leases.
    pub attempts: u32,
    /// It is not given out before.
    pub available_at: Timestamp,
    /// The epoch of the thread at the enqueue or requeue.
    pub epoch: u64,
    /// Who holds it.
    pub claim: Option<StoredClaim>,
    /// What the work brought.
    pub result: Option<Json>,
    /// The error of the last failure.
    pub last_error: Option<String>,
    /// Why it was cancelled or superseded.
    pub reason: Option<String>,
    /// The last attempts.
    pub history: Vec<StoredAttempt>,
    /// When it changed last.
    pub updated_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Fields of a newer release.
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

/// A claim as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredClaim {
    /// What everybody may see of it.
    pub claim: DispatchClaim,
    /// The digest of its token.
    pub token: String,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(StoredClaim { claim: req, token: req });

/// An attempt as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredAttempt {
    /// What everybody may see of it.
    pub attempt: Attempt,
    /// The digest of its token.
    pub token: String,
    /// The digest of the settlement that ended it.
    pub settlement: Option<String>,
    /// What that made of the dispatch: the first answer (MB-39).
    pub status: DispatchStatus,
    /// The attempts counted then.
    pub attempts: u32,
    /// When the dispatch was to be available again, if it was to be.
    pub available_at: Option<Timestamp>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(StoredAttempt { attempt: req, token: req, settlement: opt, status: req, attempts: def, available_at: opt });

/// A dispatch as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredDispatch {
    /// What never changes.
    pub body: Arc<DispatchBody>,
    /// What does.
    pub state: DispatchState,
}

impl StoredDispatch {
    /// For stores: a dispatch of both its parts.
    #[must_use]
    pub const fn new(body: Arc<DispatchBody>, state: DispatchState) -> Self {
        Self { body, state }
    }

    /// For stores: a dispatch as it was enqueued, which its body alone tells.
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

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &DispatchId {
        &self.body.id
    }

    /// Whether somebody holds it, as it was written.
    #[must_use]
    pub fn is_claimed(&self) -> bool {
        self.state.status == DispatchStatus::Claimed
    }

    /// Whether it is as it was enqueued: its state need not be written.
    #[must_use]
    pub const fn is_new(&self) -> bool {
        self.state.revision == 1
    }

    /// The dispatch as its own records show it; whether an interrupt superseded it is for [`seen`](super::seen).
    pub(super) fn view(&self) -> Dispatch {
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

/// What is kept of a thread's mailbox as a whole. It is never removed: epochs and claim numbers are used once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StoredMailbox {
    /// Grows with each change.
    pub revision: u64,
    /// How often the thread was interrupted.
    pub epoch: u64,
    /// The number of the last dispatch.
    pub last_number: u64,
    /// The last claim number that was given out.
    pub last_claim: Option<ClaimNumber>,
    /// The dispatch that is claimed.
    pub running: Option<Running>,
    /// Dispatches by status, as they read.
    pub counts: DispatchCounts,
    /// Since when none is claimed.
    pub free_since: Timestamp,
    /// Store time of the last change; later ones are not before it.
    pub last_time: Timestamp,
    /// Fields of a newer release.
    pub extra: Extra,
}

impl StoredMailbox {
    /// How many dispatches stand in each status, as they read: of their statuses and epochs as written, and how many.
    #[must_use]
    pub fn count(&self, dispatches: impl IntoIterator<Item = (DispatchStatus, u64, u64)>) -> DispatchCounts {
        let mut counts = DispatchCounts { extra: self.counts.extra.clone(), ..DispatchCounts::default() };
        for (status, epoch, count) in dispatches {
            let standing = Standing { status: Some(status), is_stale: epoch < self.epoch, is_last: false };
            *counts.of_mut(standing.status().unwrap_or_default()) += count;
        }
        counts
    }

    /// Puts right what the dispatches of the thread tell: these counts, and whether the one that runs is claimed. If it
    /// is not, the thread is free since `now`.
    pub fn put_right(&mut self, counts: DispatchCounts, is_claimed: bool, now: Timestamp) {
        if self.running.is_some() && !is_claimed {
            self.running = None;
            self.free_since = self.last_time.max(now);
        }
        self.counts = counts;
        self.revision = self.revision.saturating_add(1);
    }
}

record!(StoredMailbox {
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
pub struct Running {
    /// Which.
    pub dispatch: DispatchId,
    /// Its epoch.
    pub epoch: u64,
    /// Until when it is held.
    pub lease_until: Timestamp,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Running { dispatch: req, epoch: def, lease_until: req });

/// What is kept of an interrupt, as long as something needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredInterrupt {
    /// The epoch that it began.
    pub epoch: u64,
    /// When it came.
    pub at: Timestamp,
    /// Why.
    pub reason: Option<String>,
    /// How many queued dispatches it superseded.
    pub superseded: u64,
    /// The dispatch that was claimed.
    pub claimed: Option<DispatchId>,
    /// The claim that it took over with.
    pub take_over: Option<TakeOver>,
    /// How many dispatches still need it to tell what became of them.
    pub holds: u64,
    /// The last interrupts with a key, this one included; only the newest interrupt's are of use.
    pub recent: Vec<InterruptRef>,
    /// Fields of a newer release.
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

/// An interrupt with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterruptRef {
    /// The key.
    pub key: InterruptKey,
    /// The epoch that it began.
    pub epoch: u64,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(InterruptRef { key: req, epoch: req });

/// The claim that an interrupt took over with. Its token is kept, so that a repeat gets it again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakeOver {
    /// The dispatch that it ended, or an id of its own.
    pub dispatch: DispatchId,
    /// The proof.
    pub token: ClaimToken,
    /// The claim number that it used up.
    pub claim: ClaimNumber,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(TakeOver { dispatch: req, token: req, claim: req });
