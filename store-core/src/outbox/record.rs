//! Rows of the outbox, as callers pass them and as stores keep them.

use std::time::Duration;

use crate::{
    codec::{Extra, named_enum, record},
    id::{DedupeKey, LaneId, OrderKey, OutboxId, OutboxTarget, ThreadId, WorkerId},
    json::Json,
    limits::length,
    time::Timestamp,
};

/// The default number of attempts of a row.
pub const DEFAULT_OUTBOX_ATTEMPTS: u32 = 5;

/// The status of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum OutboxStatus {
    /// The row is waiting for a consumer.
    #[default]
    Pending,
    /// A consumer has claimed the row.
    Claimed,
    /// The row was delivered.
    Delivered,
    /// The row has used up its attempts, or delivery was given up.
    DeadLetter,
}

named_enum!(OutboxStatus as "outbox status" {
    Pending = "pending",
    Claimed = "claimed",
    Delivered = "delivered",
    DeadLetter = "dead_letter",
});

impl OutboxStatus {
    /// Returns whether the status is final. Only a dead letter can become pending again, by a requeue.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Delivered | Self::DeadLetter)
    }
}

/// The claim of a row, without the token that proves it. Only the holder has the token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxClaim {
    /// The worker that holds the claim.
    pub worker: WorkerId,
    /// When the lease ends, in store time. Until then no other consumer gets the row.
    pub lease_until: Timestamp,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(OutboxClaim { worker: req, lease_until: req });

/// A row to be delivered to another system, as consumers and operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxRow {
    /// The id, unique in the tenant; set by the store. Receivers use it to recognise rows that they already have
    /// (OB-10).
    pub id: OutboxId,
    /// The thread whose commit wrote the row.
    pub thread: ThreadId,
    /// The kind of delivery, such as `webhook`.
    pub lane: LaneId,
    /// The recipient.
    pub target: OutboxTarget,
    /// What is delivered.
    pub payload: Json,
    /// The dedupe key. No other row of the same lane and target has it.
    pub dedupe_key: Option<DedupeKey>,
    /// The order key. Rows of one lane and target with the same order key are delivered one after another.
    pub order_key: Option<OrderKey>,
    /// When the row becomes available.
    pub available_at: Timestamp,
    /// The number of attempts after which the row is a dead letter.
    pub max_attempts: u32,
    /// The status.
    pub status: OutboxStatus,
    /// The number of attempts that failed or whose lease ended.
    pub attempts: u32,
    /// The claim; present if and only if the row is claimed.
    pub claim: Option<OutboxClaim>,
    /// The error of the last failed attempt.
    pub last_error: Option<String>,
    /// When the row was committed.
    pub created_at: Timestamp,
    /// When the row was last changed.
    pub updated_at: Timestamp,
    /// When the row was delivered or became a dead letter; present if and only if the status is final.
    pub finished_at: Option<Timestamp>,
    /// Fields that a newer release wrote.
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
    /// Joins a stored row with its payload. Stores keep the payload separately because it never changes.
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
    /// The id of the row.
    pub id: OutboxId,
    /// The thread whose commit wrote the row.
    pub thread: ThreadId,
    /// The kind of delivery.
    pub lane: LaneId,
    /// The recipient.
    pub target: OutboxTarget,
    /// The dedupe key, unique in the lane and target.
    pub dedupe_key: Option<DedupeKey>,
    /// The digest of the content; present if the row has a dedupe key. A later draft with the key must have the same
    /// digest (OB-2).
    pub digest: Option<String>,
    /// The order key. Rows of one lane and target with the same order key are delivered one after another.
    pub order_key: Option<OrderKey>,
    /// The number of the row among those with the same order key (OB-11); 0 without an order key.
    pub order: u64,
    /// The revision, which grows with each change. Of two records of the same row, the record with the higher revision
    /// is newer.
    pub revision: u64,
    /// When the row becomes available.
    pub available_at: Timestamp,
    /// The number of attempts after which the row is a dead letter.
    pub max_attempts: u32,
    /// The status.
    pub status: OutboxStatus,
    /// The number of attempts that failed or whose lease ended.
    pub attempts: u32,
    /// The claim, while the row is claimed.
    pub claim: Option<OutboxClaim>,
    /// The digest of the token of the claim.
    pub token: Option<String>,
    /// The error of the last failed attempt.
    pub last_error: Option<String>,
    /// When the row was committed.
    pub created_at: Timestamp,
    /// When the row was last changed.
    pub updated_at: Timestamp,
    /// When the row was delivered or became a dead letter.
    pub finished_at: Option<Timestamp>,
    /// Fields that a newer release wrote.
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

/// A row that a commit is to write.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewOutboxRow {
    /// The kind of delivery.
    pub lane: LaneId,
    /// The recipient.
    pub target: OutboxTarget,
    /// What is delivered.
    pub payload: Json,
    /// The dedupe key. Rows with the same key and content are written once (OB-2).
    pub dedupe_key: Option<DedupeKey>,
    /// The order key. Rows with the same order key are delivered one after another (OB-11).
    pub order_key: Option<OrderKey>,
    /// When the row becomes available. If absent, it is available at once.
    pub available_at: Option<Timestamp>,
    /// The number of attempts after which the row is a dead letter, at least 1. Default: [`DEFAULT_OUTBOX_ATTEMPTS`].
    pub max_attempts: u32,
}

impl NewOutboxRow {
    /// Makes a row with this payload for this lane and target.
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
            max_attempts: DEFAULT_OUTBOX_ATTEMPTS,
        }
    }

    /// Sets the dedupe key.
    #[must_use]
    pub fn with_dedupe_key(mut self, key: DedupeKey) -> Self {
        self.dedupe_key = Some(key);
        self
    }

    /// Sets the order key: the row is delivered after the earlier rows with this key.
    #[must_use]
    pub fn with_order_key(mut self, key: OrderKey) -> Self {
        self.order_key = Some(key);
        self
    }

    /// Sets when the row becomes available.
    #[must_use]
    pub const fn not_before(mut self, at: Timestamp) -> Self {
        self.available_at = Some(at);
        self
    }

    /// Sets the number of attempts after which the row is a dead letter.
    #[must_use]
    pub const fn with_max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts;
        self
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        length(self.payload.as_str().len())
    }
}

/// How an attempt to deliver a row ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboxSettlement {
    /// The row was delivered.
    Delivered,
    /// The attempt failed. If attempts are left, the row is tried again after a delay.
    Retry {
        /// The delay before the next attempt.
        after: Duration,
        /// Why the attempt failed; cut at 1 KiB.
        error: String,
    },
    /// The delivery failed for good: the row becomes a dead letter.
    DeadLetter {
        /// Why the delivery failed; cut at 1 KiB.
        error: String,
    },
    /// No delivery was tried. Other consumers can claim the row at once.
    Release,
}
