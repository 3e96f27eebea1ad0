//! Rows of the outbox as they are given and as they are kept.

use std::time::Duration;

use crate::{
    codec::{Extra, names, record},
    id::{DedupeKey, LaneId, OrderKey, OutboxId, OutboxTarget, ThreadId, WorkerId},
    json::Json,
    limits::length,
    time::Timestamp,
};

/// How often a row is tried if nothing is said.
pub const OUTBOX_ATTEMPTS: u32 = 5;

/// Where a row stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum OutboxStatus {
    /// It waits for a consumer.
    #[default]
    Pending,
    /// A consumer has it.
    Claimed,
    /// It was delivered.
    Delivered,
    /// It was given up.
    DeadLetter,
}

names!(OutboxStatus as "outbox status" {
    Pending = "pending",
    Claimed = "claimed",
    Delivered = "delivered",
    DeadLetter = "dead_letter",
});

impl OutboxStatus {
    /// Whether nothing becomes of it any more, unless it is requeued.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Delivered | Self::DeadLetter)
    }
}

/// Who has a row, and until when. What proves it is with the holder alone.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxClaim {
    /// Who.
    pub worker: WorkerId,
    /// Until when nobody else gets the row, in store time.
    pub lease_until: Timestamp,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(OutboxClaim { worker: req, lease_until: req });

/// A row to be delivered elsewhere, as consumers and operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxRow {
    /// Unique in the tenant; given by the store. A receiver tells repeats by it (OB-10).
    pub id: OutboxId,
    /// The thread whose commit wrote it.
    pub thread: ThreadId,
    /// The kind of delivery, such as `webhook`.
    pub lane: LaneId,
    /// To whom.
    pub target: OutboxTarget,
    /// What.
    pub payload: Json,
    /// Names the row in its lane and target: there is no other one with it.
    pub dedupe_key: Option<DedupeKey>,
    /// Rows of one lane and target with the same one go one after the other.
    pub order_key: Option<OrderKey>,
    /// Not before this time.
    pub available_at: Timestamp,
    /// After so many attempts it is a dead letter.
    pub max_attempts: u32,
    /// Where it stands.
    pub status: OutboxStatus,
    /// How many attempts failed, or ended with their lease.
    pub attempts: u32,
    /// Who has it, exactly while it is claimed.
    pub claim: Option<OutboxClaim>,
    /// What the last failed attempt ended with.
    pub last_error: Option<String>,
    /// When its commit was made.
    pub created_at: Timestamp,
    /// When it changed last.
    pub updated_at: Timestamp,
    /// When it was delivered or given up, exactly if it is final.
    pub finished_at: Option<Timestamp>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(OutboxRow {
    id: req,
    thread: req,
    lane: req,
    target: req,
    payload: req,
    dedupe_key: opt,
    order_key: opt,
    available_at: req,
    max_attempts: req,
    status: req,
    attempts: req,
    claim: opt,
    last_error: opt,
    created_at: req,
    updated_at: req,
    finished_at: opt,
});

impl OutboxRow {
    /// The row with its payload, which stores keep apart: it never changes.
    #[must_use]
    pub fn new(stored: StoredOutboxRow, payload: Json) -> Self {
        Self {
            id: stored.id,
            thread: stored.thread,
            lane: stored.lane,
            target: stored.target,
            payload,
            dedupe_key: stored.dedupe_key,
            order_key: stored.order_key,
            available_at: stored.available_at,
            max_attempts: stored.max_attempts,
            status: stored.status,
            attempts: stored.attempts,
            claim: stored.claim,
            last_error: stored.last_error,
            created_at: stored.created_at,
            updated_at: stored.updated_at,
            finished_at: stored.finished_at,
            extra: stored.extra,
        }
    }
}

/// A row as stores keep it, without its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredOutboxRow {
    /// Its id.
    pub id: OutboxId,
    /// The thread whose commit wrote it.
    pub thread: ThreadId,
    /// The kind of delivery.
    pub lane: LaneId,
    /// To whom.
    pub target: OutboxTarget,
    /// Names it in its lane and target.
    pub dedupe_key: Option<DedupeKey>,
    /// What was given, if it has a dedupe key: a repeat must agree with it (OB-2).
    pub digest: Option<String>,
    /// Puts it behind others.
    pub order_key: Option<OrderKey>,
    /// Its place among those with the same order key (OB-11); 0 without one.
    pub order: u64,
    /// Counts its changes: of two records of a row the one with the greater revision is the later one.
    pub revision: u64,
    /// Not before this time.
    pub available_at: Timestamp,
    /// After so many attempts it is a dead letter.
    pub max_attempts: u32,
    /// Where it stands.
    pub status: OutboxStatus,
    /// How many attempts failed.
    pub attempts: u32,
    /// Who has it.
    pub claim: Option<OutboxClaim>,
    /// The digest of the claim's token.
    pub token: Option<String>,
    /// What the last failed attempt ended with.
    pub last_error: Option<String>,
    /// When its commit was made.
    pub created_at: Timestamp,
    /// When it changed last.
    pub updated_at: Timestamp,
    /// When it was delivered or given up.
    pub finished_at: Option<Timestamp>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(StoredOutboxRow {
    id: req,
    thread: req,
    lane: req,
    target: req,
    dedupe_key: opt,
    digest: opt,
    order_key: opt,
    order: def,
    revision: req,
    available_at: req,
    max_attempts: req,
    status: req,
    attempts: def,
    claim: opt,
    token: opt,
    last_error: opt,
    created_at: req,
    updated_at: req,
    finished_at: opt,
});

/// A row to be written by a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewOutboxRow {
    /// The kind of delivery.
    pub lane: LaneId,
    /// To whom.
    pub target: OutboxTarget,
    /// What.
    pub payload: Json,
    /// With the same key and content it is written once (OB-2).
    pub dedupe_key: Option<DedupeKey>,
    /// Rows with the same one go one after the other (OB-11).
    pub order_key: Option<OrderKey>,
    /// Not before this time; at once if nothing is said.
    pub available_at: Option<Timestamp>,
    /// After so many attempts it is a dead letter: [`OUTBOX_ATTEMPTS`] if nothing is said, at least 1.
    pub max_attempts: u32,
}

impl NewOutboxRow {
    /// This payload for this target.
    ///
    /// ```
    /// use store_core::{DedupeKey, Json, LaneId, NewOutboxRow, OutboxTarget};
    ///
    /// let (lane, target) = (LaneId::new("webhook")?, OutboxTarget::new("billing")?);
    /// let row = NewOutboxRow::new(lane, target, Json::parse(r#"{"paid":1}"#)?)
    ///     .with_dedupe_key(DedupeKey::new("invoice-7")?);
    /// assert_eq!(row.max_attempts, 5);
    /// # Ok::<(), store_core::Error>(())
    /// ```
    #[must_use]
    pub const fn new(lane: LaneId, target: OutboxTarget, payload: Json) -> Self {
        Self {
            lane,
            target,
            payload,
            dedupe_key: None,
            order_key: None,
            available_at: None,
            max_attempts: OUTBOX_ATTEMPTS,
        }
    }

    /// The same under a dedupe key.
    #[must_use]
    pub fn with_dedupe_key(mut self, key: DedupeKey) -> Self {
        self.dedupe_key = Some(key);
        self
    }

    /// The same behind the rows with this order key.
    #[must_use]
    pub fn with_order_key(mut self, key: OrderKey) -> Self {
        self.order_key = Some(key);
        self
    }

    /// The same, not before this time.
    #[must_use]
    pub const fn not_before(mut self, at: Timestamp) -> Self {
        self.available_at = Some(at);
        self
    }

    /// The same with so many attempts.
    #[must_use]
    pub const fn with_max_attempts(mut self, attempts: u32) -> Self {
        self.max_attempts = attempts;
        self
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        length(self.payload.as_str().len())
    }
}

/// How an attempt to deliver a row ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboxSettlement {
    /// Well.
    Delivered,
    /// It failed, and is tried again after a while if attempts are left.
    Retry {
        /// How long it waits.
        after: Duration,
        /// Why it failed; cut at 1 KiB.
        error: String,
    },
    /// It failed for good.
    DeadLetter {
        /// Why; cut at 1 KiB.
        error: String,
    },
    /// Nothing was tried: others may have it at once.
    Release,
}
