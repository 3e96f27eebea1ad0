//! Dispatches: drafts that callers pass, and records that callers read.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::{
    claim::{ClaimNumber, ClaimToken, Fence},
    codec::{Extra, named_enum, record},
    id::{DedupeKey, DispatchId, InstanceId, RunId, ThreadId, WorkerId},
    json::Json,
    limits::length,
    time::Timestamp,
};

/// The status of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum DispatchStatus {
    /// The dispatch waits to be claimed.
    #[default]
    Queued,
    /// A worker holds the dispatch.
    Claimed,
    /// The work has ended; the result says how (MB-41).
    Acked,
    /// The dispatch was cancelled while it was queued, or by its holder.
    Cancelled,
    /// The thread was interrupted.
    Superseded,
    /// The dispatch failed too often, or failed permanently.
    DeadLetter,
}

named_enum!(DispatchStatus as "dispatch status" {
    Queued = "queued",
    Claimed = "claimed",
    Acked = "acked",
    Cancelled = "cancelled",
    Superseded = "superseded",
    DeadLetter = "dead_letter",
});

impl DispatchStatus {
    /// Returns whether the status is final. Only a dead letter can be put back into the queue, by a requeue.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Claimed)
    }
}

/// A unit of work for a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dispatch {
    /// The id, unique in the tenant.
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
    /// The dispatch is not claimed before this time.
    pub available_at: Timestamp,
    /// The number of failures and lost leases that makes the dispatch a dead letter.
    pub max_attempts: u32,
    /// The number of failures and lost leases so far.
    pub attempts: u32,
    /// The number of times that the thread had been interrupted when the dispatch was enqueued or last requeued.
    pub epoch: u64,
    /// The status of the dispatch.
    pub status: DispatchStatus,
    /// The claim of the worker that holds the dispatch.
    pub claim: Option<DispatchClaim>,
    /// The result of the work.
    pub result: Option<Json>,
    /// The error of the last failure.
    pub last_error: Option<String>,
    /// Why the dispatch was cancelled or superseded.
    pub reason: Option<String>,
    /// The last 20 attempts, oldest first.
    pub history: Vec<Attempt>,
    /// When the dispatch was enqueued.
    pub created_at: Timestamp,
    /// When the dispatch last changed.
    pub updated_at: Timestamp,
    /// When the dispatch ended; present if and only if its status is final.
    pub finished_at: Option<Timestamp>,
    /// The number of the dispatch in its thread. Later dispatches of a thread have higher numbers.
    pub number: u64,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(Dispatch {
    id: req,
    thread: req,
    run: req,
    payload: opt,
    priority: req,
    dedupe_key: opt,
    available_at: req,
    max_attempts: req,
    attempts: req,
    epoch: req,
    status: req,
    claim: opt,
    result: opt,
    last_error: opt,
    reason: opt,
    history: def,
    created_at: req,
    updated_at: req,
    finished_at: opt,
    number: req,
});

/// A claim: which worker holds a dispatch, and for how long. Only the holder has the token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchClaim {
    /// The worker that claimed the dispatch.
    pub worker: WorkerId,
    /// The number of the claim.
    pub number: ClaimNumber,
    /// When the dispatch was claimed.
    pub claimed_at: Timestamp,
    /// When the lease expires. From then on another caller may claim the dispatch.
    pub lease_until: Timestamp,
    /// When the work began.
    pub started_at: Option<Timestamp>,
    /// The process or machine that works on the dispatch.
    pub instance: Option<InstanceId>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(DispatchClaim { worker: req, number: req, claimed_at: req, lease_until: req, started_at: opt, instance: opt });

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptEnd {
    /// The work ended.
    Acked,
    /// The attempt failed.
    Retried,
    /// The dispatch was snoozed.
    Snoozed,
    /// The dispatch was released.
    Released,
    /// The dispatch failed permanently.
    DeadLettered,
    /// The holder cancelled the dispatch.
    Cancelled,
    /// The lease expired.
    LeaseExpired,
    /// The thread was interrupted.
    Superseded,
}

named_enum!(AttemptEnd as "end of an attempt" {
    Acked = "acked",
    Retried = "retried",
    Snoozed = "snoozed",
    Released = "released",
    DeadLettered = "dead_lettered",
    Cancelled = "cancelled",
    LeaseExpired = "lease_expired",
    Superseded = "superseded",
});

/// A claim that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The number of the claim.
    pub claim: ClaimNumber,
    /// The worker that held the claim.
    pub worker: WorkerId,
    /// When the claim began.
    pub claimed_at: Timestamp,
    /// When the claim ended.
    pub ended_at: Timestamp,
    /// How the claim ended.
    pub end: AttemptEnd,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(Attempt { claim: req, worker: req, claimed_at: req, ended_at: req, end: req });

/// When something becomes available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// At this time.
    At(Timestamp),
    /// After this delay, counted from store time.
    In(Duration),
}

impl When {
    pub(super) fn to_time(self, now: Timestamp) -> Timestamp {
        match self {
            Self::Now => now,
            Self::At(time) => time,
            Self::In(delay) => now.saturating_add(delay),
        }
    }
}

/// A dispatch to be enqueued.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewDispatch {
    /// The id, unique in the tenant; generated if absent. An enqueue with an id can be repeated (MB-3).
    pub id: Option<DispatchId>,
    /// The thread that the dispatch belongs to.
    pub thread: ThreadId,
    /// The run that the dispatch is for.
    pub run: RunId,
    /// What the dispatch carries for its handler.
    pub payload: Option<Json>,
    /// The priority; 0 comes first.
    pub priority: u8,
    /// A key that is unique among the unfinished dispatches of the thread.
    pub dedupe_key: Option<DedupeKey>,
    /// When the dispatch becomes available. It is not claimed before.
    pub available: When,
    /// The number of failures and lost leases that makes the dispatch a dead letter; 1 or more.
    pub max_attempts: u32,
}

impl NewDispatch {
    /// Makes a dispatch for a run of a thread: available at once, with priority 128 and 5 attempts.
    #[must_use]
    pub const fn new(thread: ThreadId, run: RunId) -> Self {
        Self {
            id: None,
            thread,
            run,
            payload: None,
            priority: 128,
            dedupe_key: None,
            available: When::Now,
            max_attempts: 5,
        }
    }

    /// Sets the id.
    #[must_use]
    pub fn with_id(mut self, id: DispatchId) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets the payload.
    #[must_use]
    pub fn with_payload(mut self, payload: Json) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Sets the priority; 0 comes first.
    #[must_use]
    pub const fn with_priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the dedupe key.
    #[must_use]
    pub fn with_dedupe_key(mut self, key: DedupeKey) -> Self {
        self.dedupe_key = Some(key);
        self
    }

    /// Sets when the dispatch becomes available.
    #[must_use]
    pub const fn available(mut self, when: When) -> Self {
        self.available = when;
        self
    }

    /// Sets the number of failures and lost leases that makes the dispatch a dead letter.
    #[must_use]
    pub const fn with_max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts;
        self
    }

    pub(super) fn payload_bytes(&self) -> u64 {
        self.payload.as_ref().map_or(0, |payload| length(payload.as_str().len()))
    }
}

/// A reference to a claim. The holder uses it to extend, start and settle the claim.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimRef {
    /// The id of the dispatch.
    pub dispatch: DispatchId,
    /// The proof of the claim.
    pub token: ClaimToken,
}

impl ClaimRef {
    /// Makes a reference to the claim of `dispatch` that `token` proves.
    #[must_use]
    pub const fn new(dispatch: DispatchId, token: ClaimToken) -> Self {
        Self { dispatch, token }
    }
}

impl fmt::Debug for ClaimRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClaimRef").field("dispatch", &self.dispatch).finish_non_exhaustive()
    }
}

impl From<&Fence> for ClaimRef {
    fn from(fence: &Fence) -> Self {
        Self::new(fence.dispatch.clone(), fence.token.clone())
    }
}

/// A dispatch that was claimed, with the proof of the claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimedDispatch {
    /// The dispatch after the claim.
    pub dispatch: Dispatch,
    /// The proof of the claim.
    pub token: ClaimToken,
    /// The number of the claim.
    pub number: ClaimNumber,
}

impl ClaimedDispatch {
    /// Creates a claimed dispatch. Only implementations of a store need this.
    #[must_use]
    pub const fn new(dispatch: Dispatch, token: ClaimToken, number: ClaimNumber) -> Self {
        Self { dispatch, token, number }
    }

    /// Returns the reference with which the holder extends, starts and settles the claim.
    #[must_use]
    pub fn claim(&self) -> ClaimRef {
        ClaimRef::new(self.dispatch.id.clone(), self.token.clone())
    }

    /// Returns the fence with which the holder writes to the thread (CM-31, CM-32).
    #[must_use]
    pub fn fence(&self) -> Fence {
        Fence::new(self.dispatch.id.clone(), self.token.clone(), self.dispatch.epoch, self.number)
    }
}

/// How a holder ends its attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Settlement {
    /// The work has ended.
    Ack {
        /// The result of the work.
        result: Option<Json>,
    },
    /// The attempt failed. If attempts are left, the dispatch is tried again.
    Retry {
        /// The delay after which the dispatch is available again.
        after: Duration,
        /// Why the attempt failed.
        error: String,
    },
    /// The work is postponed. No attempt is counted.
    Snooze {
        /// The delay after which the dispatch is available again.
        after: Duration,
    },
    /// The dispatch goes back into the queue as it was. No attempt is counted.
    Release,
    /// The dispatch failed permanently.
    DeadLetter {
        /// Why the dispatch failed.
        error: String,
    },
    /// The work is cancelled: it must not be done.
    Cancel {
        /// Why the work is cancelled.
        reason: String,
    },
}
