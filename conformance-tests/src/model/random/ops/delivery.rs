//! The operations of the mailbox and the outbox.

use store_core::OutboxStatus;

/// A step of the mailbox. `which` is the index of a claim among all earlier claims. Leases and delays are in
/// milliseconds.
#[derive(Debug, Clone)]
pub(in crate::model::random) enum MailboxOp {
    Enqueue {
        dispatch: u8,
        thread: u8,
        priority: u8,
        key: Option<u8>,
        delay: Option<u16>,
        max_attempts: u8,
    },
    Cancel {
        dispatch: u8,
    },
    Interrupt {
        thread: u8,
        key: Option<u8>,
        take_over: bool,
    },
    Claim {
        limit: u8,
        thread: Option<u8>,
        dispatch: Option<u8>,
        lease: u16,
    },
    Extend {
        which: u8,
        lease: u16,
    },
    Start {
        which: u8,
        instance: u8,
    },
    Settle {
        which: u8,
        settlement: SettleOp,
    },
    /// A commit under a claim. It sets a key of the state of the thread, and settles the claim if it has a settlement.
    CommitUnderClaim {
        which: u8,
        state_value: u8,
        /// Whether the commit expects that the thread does not exist.
        expects_absent: bool,
        settlement: Option<SettleOp>,
    },
    Reclaim {
        limit: u8,
    },
    Purge {
        older_millis: u16,
        limit: u8,
        dry_run: bool,
    },
    Requeue {
        dispatch: u8,
    },
    /// Reads the counts, the epoch and one dispatch.
    ReadCounts {
        thread: u8,
        dispatch: u8,
    },
}

/// A settlement.
#[derive(Debug, Clone, Copy)]
pub(in crate::model::random) enum SettleOp {
    /// The number stands for the result.
    Ack(u8),
    /// The dispatch is due again after this many milliseconds.
    Retry(u16),
    /// The dispatch is due again after this many milliseconds.
    Snooze(u16),
    Release,
    DeadLetter,
    Cancel,
}

/// A new row of the outbox.
#[derive(Debug, Clone)]
pub(in crate::model::random) struct RowOp {
    pub(in crate::model::random) lane: u8,
    pub(in crate::model::random) target: u8,
    pub(in crate::model::random) payload: u8,
    pub(in crate::model::random) key: Option<u8>,
    pub(in crate::model::random) order_key: Option<u8>,
    /// The row is available after this many milliseconds.
    pub(in crate::model::random) delay_millis: Option<u16>,
    pub(in crate::model::random) max_attempts: u8,
}

/// A step of the outbox. `which` is the index of a claimed row, counted from the newest. A requeue without `which`
/// requeues the oldest dead letters of a lane or of all lanes. Leases and delays are in milliseconds.
#[derive(Debug, Clone)]
pub(in crate::model::random) enum OutboxOp {
    Claim { lane: u8, target: Option<u8>, limit: u8, lease: u16 },
    Settle { which: u8, settlement_kind: u8, millis: u16 },
    Extend { which: u8, lease: u16 },
    Requeue { which: Option<u8>, lane: Option<u8>, limit: u8 },
    Purge { older_millis: u16, limit: u8, dry_run: bool },
    Count(OutboxFilterOp),
}

/// Filters of rows.
#[derive(Debug, Clone, Default)]
pub(in crate::model::random) struct OutboxFilterOp {
    pub(in crate::model::random) lane: Option<u8>,
    pub(in crate::model::random) target: Option<u8>,
    pub(in crate::model::random) statuses: Option<Vec<OutboxStatus>>,
}
