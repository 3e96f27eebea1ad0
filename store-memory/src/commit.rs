//! Commits: the only way to write entries, runs and thread state and to consume pending input.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use store_core::{
    Commit, CommitCoordinator, DocumentStore, EventStore, OutboxStore, PendingStore, Receipt, Result, Run, ThreadId,
    ThreadRunStore,
    commit::{self, CommitDecision, NeededKeys, Plan},
    mailbox::InMemoryMailbox,
    thread::StoredThread,
};

use crate::{
    documents::MemoryDocuments,
    events::MemoryEvents,
    outbox::MemoryOutbox,
    pending::MemoryPending,
    slot::{ThreadContents, ThreadSlot},
    tenant::{Documents, Events, Index, Outbox, Tenant},
    threads::MemoryThreads,
    view::{PlanView, TenantEventsView},
};

/// Commits to the threads of a tenant.
#[derive(Clone)]
pub(crate) struct MemoryCommits {
    tenant: Arc<Tenant>,
}

impl MemoryCommits {
    pub(crate) const fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant }
    }
}

#[async_trait]
impl CommitCoordinator for MemoryCommits {
    async fn commit(&self, commit: Commit) -> Result<Receipt> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        commit::check(&commit, tenant.decision_context().limits)?;
        let needs = commit::needed_keys(&commit);
        let family_guard = needs.parent_thread.is_some().then(|| tenant.family_lock.lock());
        let receipt = tenant.slots.write(&commit.thread, |slot| plan_and_apply(tenant, slot, &commit, &needs));
        drop(family_guard);
        if commit.settle.is_some() {
            tenant.notify_workers();
        }
        receipt
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        Arc::new(MemoryThreads::new(Arc::clone(&self.tenant)))
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        Arc::new(MemoryPending::new(Arc::clone(&self.tenant)))
    }

    fn events(&self) -> Arc<dyn EventStore> {
        Arc::new(MemoryEvents::new(Arc::clone(&self.tenant)))
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        Arc::new(MemoryOutbox::new(Arc::clone(&self.tenant)))
    }

    fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        Some(Arc::new(MemoryDocuments::new(Arc::clone(&self.tenant))))
    }
}

impl fmt::Debug for MemoryCommits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryCommits").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}

/// Plans a commit and applies it to the slot of its thread. The caller has locked the slot.
fn plan_and_apply(tenant: &Tenant, slot: &mut ThreadSlot, commit: &Commit, needs: &NeededKeys) -> Result<Receipt> {
    let mut mailbox = commit.fence.is_some().then(|| tenant.mailbox.write());
    let mut parts = LockedParts { slot, mailbox: mailbox.as_deref_mut() };
    if commit.events.is_some() || !commit.outbox.is_empty() || !commit.documents.is_empty() {
        return write_with_index_locked(tenant, &mut parts, commit, needs);
    }
    write_optimistically(tenant, &mut parts, commit, needs)
}

/// The parts of a tenant that a commit has locked before the index: the slot of its thread, and the mailbox if the
/// commit names a claim.
pub(crate) struct LockedParts<'a> {
    pub(crate) slot: &'a mut ThreadSlot,
    pub(crate) mailbox: Option<&'a mut InMemoryMailbox>,
}

/// Plans a commit without a lock on the index, and locks the index only to apply the plan. The commit has no events,
/// no outbox rows and no documents, so its plan reads none.
///
/// The plan reads runs of other threads without holding a lock on them. If one of those runs was added or removed in
/// the meantime, the commit is planned again. This happens only if another writer has made progress.
fn write_optimistically(
    tenant: &Tenant,
    parts: &mut LockedParts<'_>,
    commit: &Commit,
    needs: &NeededKeys,
) -> Result<Receipt> {
    loop {
        let index_records = tenant.index.read().records_for_plan(needs);
        let events = TenantEventsView { events: &Events::default(), tenant };
        let view = PlanView {
            slot: parts.slot,
            index_records: &index_records,
            events,
            outbox: &Outbox::default(),
            documents: &Documents::default(),
            mailbox: parts.mailbox.as_deref(),
        };
        let plan = match commit::plan(&view, commit, tenant.decision_context())? {
            CommitDecision::Repeat(receipt) => return Ok(*receipt),
            CommitDecision::Write(plan) => plan,
        };
        let mut index = tenant.index.write();
        if index.are_run_owners_unchanged(needs, &index_records) {
            return apply(&mut index, parts, &commit.thread, *plan);
        }
    }
}

/// Plans and applies a commit while the index is locked.
///
/// This is for commits whose plan also assigns sequence numbers to events, numbers and keys to outbox rows, or
/// revisions to documents.
fn write_with_index_locked(
    tenant: &Tenant,
    parts: &mut LockedParts<'_>,
    commit: &Commit,
    needs: &NeededKeys,
) -> Result<Receipt> {
    let mut index = tenant.index.write();
    let index_records = index.records_for_plan(needs);
    let events = TenantEventsView { events: &index.events, tenant };
    let mailbox = parts.mailbox.as_deref();
    let view = PlanView {
        slot: parts.slot,
        index_records: &index_records,
        events,
        outbox: &index.outbox,
        documents: &index.documents,
        mailbox,
    };
    match commit::plan(&view, commit, tenant.decision_context())? {
        CommitDecision::Repeat(receipt) => Ok(*receipt),
        CommitDecision::Write(plan) => apply(&mut index, parts, &commit.thread, *plan),
    }
}

/// Applies a plan for a thread. Readers see all of its changes at once.
pub(crate) fn apply(
    index: &mut Index,
    parts: &mut LockedParts<'_>,
    thread_id: &ThreadId,
    mut plan: Plan,
) -> Result<Receipt> {
    let slot = &mut *parts.slot;
    let receipt = plan.receipt.clone();
    index.outbox.apply(std::mem::take(&mut plan.outbox))?;
    index.documents.apply(std::mem::take(&mut plan.documents));
    index.put_id_record(thread_id, slot, std::mem::take(&mut plan.id_record));
    let runs: Vec<_> = std::mem::take(&mut plan.runs).into_iter().map(Arc::new).collect();
    let (events, settlement) = (plan.events.take(), plan.mailbox.take());
    if let Some(thread) = plan.thread.take().map(Arc::new) {
        index.put_thread(&thread);
        for run in &runs {
            index.put_run(run);
        }
        apply_to_slot(slot, plan, thread, runs);
    }
    if let Some(events) = events {
        index.events.apply(events);
    }
    if let (Some(settlement), Some(mailbox)) = (settlement, parts.mailbox.as_deref_mut()) {
        mailbox.apply(*settlement);
    }
    Ok(receipt)
}

fn apply_to_slot(slot: &mut ThreadSlot, plan: Plan, thread: Arc<StoredThread>, runs: Vec<Arc<Run>>) {
    let contents = slot.contents.get_or_insert_with(|| Box::new(ThreadContents::new(Arc::clone(&thread))));
    contents.apply(plan, thread, runs);
}
