//! Dispatches as callers give them and see them.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::{
    claim::{ClaimNumber, ClaimToken, Fence},
    codec::{Extra, names, record},
    id::{DedupeKey, DispatchId, InstanceId, RunId, ThreadId, WorkerId},
    json::Json,
    limits::length,
    time::Timestamp,
};

/// How a dispatch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum DispatchStatus {
    /// It waits to be claimed.
    #[default]
    Queued,
    /// Somebody holds it.
    Claimed,
    /// The work ended; the result says how (MB-41).
    Acked,
    /// It was taken back, or given up by its holder.
    Cancelled,
    /// Its thread was interrupted.
    Superseded,
    /// It failed too often, or for good.
    DeadLetter,
}

names!(DispatchStatus as "dispatch status" {
    Queued = "queued",
    Claimed = "claimed",
    Acked = "acked",
    Cancelled = "cancelled",
    Superseded = "superseded",
    DeadLetter = "dead_letter",
});

impl DispatchStatus {
    /// Whether it stays so; only a dead letter can be put back into the queue by hand.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Queued | Self::Claimed)
    }
}

/// A unit of work for a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dispatch {
    /// Unique in the tenant.
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
    /// It is not given out before.
    pub available_at: Timestamp,
    /// How many failures and lost leases make it a dead letter.
    pub max_attempts: u32,
    /// How many there were.
    pub attempts: u32,
    /// How often its thread had been interrupted when it was enqueued.
    pub epoch: u64,
    /// How it stands.
    pub status: DispatchStatus,
    /// Who holds it.
    pub claim: Option<DispatchClaim>,
    /// What the work brought.
    pub result: Option<Json>,
    /// The error of the last failure.
    pub last_error: Option<String>,
    /// Why it was cancelled or superseded.
    pub reason: Option<String>,
    /// The last 20 attempts, the last one last.
    pub history: Vec<Attempt>,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When it changed last.
    pub updated_at: Timestamp,
    /// When it ended; there exactly if its status is final.
    pub finished_at: Option<Timestamp>,
    /// Grows from dispatch to dispatch of a thread.
    pub number: u64,
    /// Fields of a newer release.
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

/// Who holds a dispatch, and for how long. The token is with the holder alone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DispatchClaim {
    /// Who claimed it.
    pub worker: WorkerId,
    /// The number of the claim.
    pub number: ClaimNumber,
    /// When it was claimed.
    pub claimed_at: Timestamp,
    /// From when on somebody else may claim it.
    pub lease_until: Timestamp,
    /// When the work began.
    pub started_at: Option<Timestamp>,
    /// What works on it.
    pub instance: Option<InstanceId>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(DispatchClaim { worker: req, number: req, claimed_at: req, lease_until: req, started_at: opt, instance: opt });

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttemptEnd {
    /// The work ended.
    Acked,
    /// It failed.
    Retried,
    /// It was put off.
    Snoozed,
    /// It was given back.
    Released,
    /// It failed for good.
    DeadLettered,
    /// Its holder gave it up.
    Cancelled,
    /// The lease was over.
    LeaseExpired,
    /// The thread was interrupted.
    Superseded,
}

names!(AttemptEnd as "end of an attempt" {
    Acked = "acked",
    Retried = "retried",
    Snoozed = "snoozed",
    Released = "released",
    DeadLettered = "dead_lettered",
    Cancelled = "cancelled",
    LeaseExpired = "lease_expired",
    Superseded = "superseded",
});

/// A claim that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// The number of the claim.
    pub claim: ClaimNumber,
    /// Who held it.
    pub worker: WorkerId,
    /// Since when.
    pub claimed_at: Timestamp,
    /// Until when.
    pub ended_at: Timestamp,
    /// How it ended.
    pub end: AttemptEnd,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Attempt { claim: req, worker: req, claimed_at: req, ended_at: req, end: req });

/// When something is to be available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// At this time.
    At(Timestamp),
    /// So long after store time.
    In(Duration),
}

impl When {
    pub(super) fn after(self, now: Timestamp) -> Timestamp {
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
    /// Unique in the tenant; generated if absent. With an id an enqueue can be repeated (MB-3).
    pub id: Option<DispatchId>,
    /// Its thread.
    pub thread: ThreadId,
    /// The run that it is for.
    pub run: RunId,
    /// What there is to know for it.
    pub payload: Option<Json>,
    /// 0 comes first.
    pub priority: u8,
    /// Unique in the thread among dispatches that are not over.
    pub dedupe_key: Option<DedupeKey>,
    /// It is not given out before.
    pub available: When,
    /// How many failures and lost leases make it a dead letter; 1 or more.
    pub max_attempts: u32,
}

impl NewDispatch {
    /// Work for a run of a thread: at once, of priority 128, with 5 attempts.
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

    /// The same under this id.
    #[must_use]
    pub fn with_id(mut self, id: DispatchId) -> Self {
        self.id = Some(id);
        self
    }

    /// The same with this payload.
    #[must_use]
    pub fn with_payload(mut self, payload: Json) -> Self {
        self.payload = Some(payload);
        self
    }

    /// The same of this priority; 0 comes first.
    #[must_use]
    pub const fn with_priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// The same under this key.
    #[must_use]
    pub fn with_dedupe_key(mut self, key: DedupeKey) -> Self {
        self.dedupe_key = Some(key);
        self
    }

    /// The same from then on.
    #[must_use]
    pub const fn available(mut self, when: When) -> Self {
        self.available = when;
        self
    }

    /// The same with so many attempts.
    #[must_use]
    pub const fn with_max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    pub(super) fn payload_bytes(&self) -> u64 {
        self.payload.as_ref().map_or(0, |payload| length(payload.as_str().len()))
    }
}

/// A claim as its holder names it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimRef {
    /// The dispatch.
    pub dispatch: DispatchId,
    /// The proof of the claim.
    pub token: ClaimToken,
}

impl ClaimRef {
    /// The claim of `dispatch` that `token` proves.
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

/// A dispatch that was claimed, with the proof of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimedDispatch {
    /// The dispatch as it is now.
    pub dispatch: Dispatch,
    /// The proof.
    pub token: ClaimToken,
    /// The number of the claim.
    pub number: ClaimNumber,
}

impl ClaimedDispatch {
    /// For stores.
    #[must_use]
    pub const fn new(dispatch: Dispatch, token: ClaimToken, number: ClaimNumber) -> Self {
        Self { dispatch, token, number }
    }

    /// What extends, starts and settles it.
    #[must_use]
    pub fn claim(&self) -> ClaimRef {
        ClaimRef::new(self.dispatch.id.clone(), self.token.clone())
    }

    /// What its thread is written under (CM-31, CM-32).
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
    /// The work ended.
    Ack {
        /// What it brought.
        result: Option<Json>,
    },
    /// It failed and is to be tried again, as long as attempts are left.
    Retry {
        /// Not before so long.
        after: Duration,
        /// Why it failed.
        error: String,
    },
    /// It is put off; no attempt counts.
    Snooze {
        /// For so long.
        after: Duration,
    },
    /// It is given back as it was; no attempt counts.
    Release,
    /// It failed for good.
    DeadLetter {
        /// Why.
        error: String,
    },
    /// It is not to be done.
    Cancel {
        /// Why.
        reason: String,
    },
}
