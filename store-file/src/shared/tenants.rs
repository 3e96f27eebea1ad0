//! What all handles of a tenant share.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use store_core::{
    Timestamp,
    in_flight::AbandonedCalls,
    live::{LiveHub, Notifier},
    records::WriteGate,
};

/// What all handles of a tenant share.
#[derive(Debug, Default)]
pub(crate) struct TenantState {
    /// How many deletions of the tenant began and were not refused. If there is one, nothing is read or written any
    /// more.
    closing: AtomicU64,
    /// Held while a call deletes the tenant.
    pub(crate) deleting: Mutex<()>,
    /// Calls that still run although their callers do not wait for them any more.
    pub(crate) abandoned: Arc<AbandonedCalls>,
    pub(crate) live: Arc<LiveHub>,
    /// Rung when something may be claimable.
    pub(crate) notifier: Notifier,
    /// Through which all writes of callers pass.
    pub(crate) write_gate: Arc<WriteGate>,
    /// Whether the log of a collection is to be rewritten.
    rewrite_due: AtomicBool,
}

impl TenantState {
    /// Ends what waits for commands or for work.
    pub(crate) fn end_waits(&self) {
        self.live.close();
        self.notifier.notify(Timestamp::MIN);
    }

    /// Notes that the log of a collection is to be rewritten.
    pub(crate) fn note_rewrite_due(&self) {
        self.rewrite_due.store(true, Ordering::SeqCst);
    }

    /// Whether a log was to be rewritten since the last call.
    pub(crate) fn take_rewrite_due(&self) -> bool {
        self.rewrite_due.swap(false, Ordering::SeqCst)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn close(&self) {
        self.closing.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a close back whose deletion was refused.
    pub(crate) fn reopen(&self) {
        self.closing.fetch_sub(1, Ordering::SeqCst);
    }
}
