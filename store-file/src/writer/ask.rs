//! What a writer is asked for.

use std::sync::Arc;

use store_core::{
    AppendEvents, AppendPending, Commit, EntryId, Expect, NewThread, PendingUpdate, Reorder, ThreadPatch, TrimRequest,
    in_flight::WorkGuard,
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
    Outbox(OutboxAsk),
    Mailbox(MailboxAsk),
}

/// A request, with the tenant as its handle knows it: nothing is written for one that was closed.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) ask: Ask,
    /// The log that it is about.
    pub(crate) key: LogKey,
    pub(crate) tenant: Arc<TenantState>,
    /// Dropped when the request was answered.
    #[expect(dead_code, reason = "dropping it signals that the request was answered")]
    pub(crate) work: WorkGuard,
}

impl Ask {
    /// Whether it looks at the index, where nothing is that a round has planned: at what is trimmed.
    pub(super) const fn reads_index(&self) -> bool {
        matches!(self, Self::Trim(_))
    }

    /// Whether it ends work, and nothing else.
    pub(super) const fn settles(&self) -> bool {
        matches!(self, Self::Outbox(OutboxAsk::Settle(_)) | Self::Mailbox(MailboxAsk::Settle(_)))
    }
}
