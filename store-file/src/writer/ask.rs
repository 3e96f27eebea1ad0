//! What a writer is asked for.

use std::{collections::BTreeSet, sync::Arc};

use store_core::{
    AppendEvents, AppendPending, Commit, EntryId, Expect, NewThread, PendingUpdate, Reorder, Result, ThreadPatch,
    TrimRequest, commit, event, in_flight::WorkGuard,
};

use super::{MailboxAsk, OutboxAsk, events, outbox};
use crate::{
    held::Resource,
    shared::{LogKey, TenantState},
    walk::Walk,
};

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
    pub(crate) tenant: Arc<TenantState>,
    /// Dropped when the request was answered.
    #[expect(dead_code, reason = "dropping it signals that the request was answered")]
    pub(crate) work: WorkGuard,
}

impl Ask {
    /// Whether it may change a parent, or take one away: who deletes a family counts on those that it found.
    pub(super) fn needs_family(&self) -> bool {
        match self {
            Self::Commit(commit) => commit::needed_keys(commit).parent_thread.is_some(),
            Self::Create(new) => new.fields.parent_thread_id.is_some(),
            Self::Update(patch, _) => patch.parent_thread_id.is_some(),
            _ => false,
        }
    }

    /// Whether it ends work, and nothing else.
    pub(super) const fn settles(&self) -> bool {
        matches!(self, Self::Outbox(OutboxAsk::Settle(_)) | Self::Mailbox(MailboxAsk::Settle(_)))
    }

    /// What other logs may be written about at the same time, as `rows` tell it.
    pub(super) fn resources(&self, rows: &impl Walk, key: &LogKey) -> Result<BTreeSet<Resource>> {
        let (tenant, thread, _) = key;
        Ok(match self {
            Self::Commit(commit) => {
                let run = commit.run.as_ref().map(|run| Resource::Run(run.id.clone()));
                let events = commit.events.iter().flat_map(events::resources);
                let mailbox = commit.fence.as_ref().map(|_| Resource::Mailbox(commit.thread.clone()));
                run.into_iter()
                    .chain(events)
                    .chain(outbox::resources(commit::needed_keys(commit)))
                    .chain(mailbox)
                    .collect()
            }
            Self::Update(ThreadPatch { fence: Some(_), .. }, _) => BTreeSet::from([Resource::Mailbox(thread.clone())]),
            Self::Emit(request) => {
                let thread = if request.fence.is_some() { event::fenced_thread(request)? } else { None };
                events::resources(request).chain(thread.map(Resource::Mailbox)).collect()
            }
            Self::Mailbox(ask) => ask.threads(rows, tenant)?.into_iter().map(Resource::Mailbox).collect(),
            Self::Trim(request) => BTreeSet::from([Resource::Scope(request.scope.clone())]),
            _ => BTreeSet::new(),
        })
    }
}
