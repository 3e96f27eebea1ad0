//! The requests to the writer.

use std::sync::Arc;

use store_core::{
    AppendEvents, AppendPending, Commit, EntryId, Expect, NewThread, PendingUpdate, RedactEvent, Reorder, ThreadPatch,
    TrimRequest, WriteDocuments,
    in_flight::WorkGuard,
    records::{StoredRecord, WriteTicket},
};

use super::{MailboxAsk, OutboxAsk};
use crate::{names::LogKey, shared::TenantState};

/// Something to be written to one thread.
#[derive(Debug)]
pub(crate) enum Ask {
    Commit(Box<Commit>),
    Create(Box<NewThread>),
    Update(ThreadPatch, Expect),
    ResetFence,
    Append(Box<AppendPending>),
    Change(Box<PendingUpdate>),
    Retract(EntryId),
    Reorder(Box<Reorder>),
    Emit(Box<AppendEvents>),
    Trim(Box<TrimRequest>),
    Redact(Vec<RedactEvent>),
    Documents(Box<WriteDocuments>),
    /// Records of another store.
    Restore(Vec<StoredRecord>),
    Outbox(OutboxAsk),
    Mailbox(MailboxAsk),
}

/// A request, with the tenant as its handle knows it: nothing is written for a tenant that was closed.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) ask: Ask,
    /// The log that it is about.
    pub(crate) key: LogKey,
    pub(crate) tenant: Arc<TenantState>,
    /// Dropped when the request was answered.
    #[expect(dead_code, reason = "dropping it signals that the request was answered")]
    pub(crate) work: WorkGuard,
    /// Dropped when the request was answered.
    #[expect(dead_code, reason = "dropping it lets a copy that keeps writers away begin")]
    pub(crate) ticket: WriteTicket,
}

impl Ask {
    /// Whether the plan reads the index directly. The index does not have rounds that are only planned. A trim reads
    /// the oldest events there.
    pub(super) const fn reads_index(&self) -> bool {
        matches!(self, Self::Trim(_))
    }

    /// Whether it ends work, and nothing else.
    pub(super) const fn settles(&self) -> bool {
        matches!(self, Self::Outbox(OutboxAsk::Settle(_)) | Self::Mailbox(MailboxAsk::Settle(_)))
    }
}
