//! The state of a tenant: its slots, the index over them, its mailbox, and deleted data that is not yet removed.

mod deferred_drops;
mod documents;
mod events;
mod index;
mod outbox;
mod slots;

use std::sync::Arc;

use store_core::{
    CursorKey, Error, Result, TenantId, Timestamp,
    commit::DecisionContext,
    live::{LiveHub, Notifier},
    mailbox::InMemoryMailbox,
    records::{WriteGate, WriteTicket},
};

pub(crate) use self::{
    deferred_drops::DeferredDrops,
    documents::{Documents, ScopeDocuments},
    events::Events,
    index::{Index, IndexRecords, ThreadListKey},
    outbox::Outbox,
    slots::ThreadSlots,
};
use crate::{
    buffer::AttachedBuffer,
    config::MemoryConfig,
    locks::{Flag, Lock, ReadWriteLock},
    objects::Objects,
};

/// What all tenants of a store share.
#[derive(Debug)]
pub(crate) struct SharedState {
    pub(crate) config: MemoryConfig,
    pub(crate) cursor_key: CursorKey,
    /// The incarnation of the newest mailbox.
    pub(crate) newest_incarnation: Lock<u64>,
    /// The revision of the newest write of documents. All tenants share it, so that a tenant that was deleted and is
    /// used again gives no revision twice (DO-3).
    pub(crate) newest_document_revision: Lock<u64>,
    /// The write buffer in front of the store, how far its deltas are applied, and its quarantine. Held while deltas
    /// are applied.
    pub(crate) attached_buffer: Lock<AttachedBuffer>,
}

impl SharedState {
    pub(crate) fn next_document_revision(&self) -> u64 {
        let mut newest = self.newest_document_revision.lock();
        *newest += 1;
        *newest
    }

    /// Returns an incarnation that is higher than those of all earlier mailboxes of this store and of earlier stores
    /// (MB-25).
    fn next_incarnation(&self) -> u64 {
        let mut newest = self.newest_incarnation.lock();
        *newest = self.config.clock.now().as_millis().max(*newest + 1);
        *newest
    }
}

/// A tenant: the state that all its handles share.
#[derive(Debug)]
pub(crate) struct Tenant {
    pub(crate) name: TenantId,
    pub(crate) shared: Arc<SharedState>,
    /// Held by a writer that sets a parent or deletes a thread.
    pub(crate) family_lock: Lock<()>,
    pub(crate) slots: ThreadSlots,
    pub(crate) mailbox: ReadWriteLock<InMemoryMailbox>,
    pub(crate) index: ReadWriteLock<Index>,
    pub(crate) objects: ReadWriteLock<Objects>,
    pub(crate) deferred_drops: DeferredDrops,
    pub(crate) live_hub: Arc<LiveHub>,
    /// Notified when a dispatch may have become claimable. The caller holds no lock of the tenant meanwhile. Only a
    /// commit may hold the `family_lock`.
    pub(crate) worker_notifier: Notifier,
    /// Through which all writes of callers pass. Restores of a copy do not.
    pub(crate) write_gate: Arc<WriteGate>,
    is_closed: Flag,
}

impl Tenant {
    pub(crate) fn new(name: TenantId, shared: Arc<SharedState>) -> Self {
        let mailbox = ReadWriteLock::new(InMemoryMailbox::new(shared.next_incarnation()));
        Self {
            name,
            shared,
            family_lock: Lock::default(),
            slots: ThreadSlots::default(),
            mailbox,
            index: ReadWriteLock::default(),
            objects: ReadWriteLock::default(),
            deferred_drops: DeferredDrops::default(),
            live_hub: Arc::default(),
            worker_notifier: Notifier::default(),
            write_gate: Arc::default(),
            is_closed: Flag::default(),
        }
    }

    /// Returns the tenant, or an error if it was closed.
    pub(crate) fn check_open(&self) -> Result<&Self> {
        if self.is_closed.is_raised() { Err(Error::closed()) } else { Ok(self) }
    }

    /// Begins a write, which ends when the ticket is dropped. Returns the tenant, or an error if it was closed or a
    /// copy keeps writers away.
    pub(crate) fn begin_write(&self) -> Result<(&Self, WriteTicket)> {
        let tenant = self.check_open()?;
        Ok((tenant, self.write_gate.enter()?))
    }

    pub(crate) fn close(&self) {
        self.is_closed.raise();
        self.index.read().events.followers.end(|_| true);
        self.live_hub.close();
        self.worker_notifier.notify(Timestamp::MIN);
    }

    /// Wakes the waiting workers if the changes of the mailbox since the last call make a dispatch claimable, now or
    /// later.
    pub(crate) fn notify_workers(&self) {
        let earliest_claim_time = self.mailbox.write().take_claimable_from();
        if let Some(earliest_claim_time) = earliest_claim_time {
            self.worker_notifier.notify(earliest_claim_time);
        }
    }

    /// Returns the store time. A caller reads it while it holds its locks (PR-22).
    pub(crate) fn now(&self) -> Timestamp {
        self.shared.config.clock.now()
    }

    /// Returns the tenant that cursors of events belong to, and the key that authenticates them.
    pub(crate) fn tenant_and_cursor_key(&self) -> (&TenantId, &CursorKey) {
        (&self.name, &self.shared.cursor_key)
    }

    pub(crate) fn decision_context(&self) -> DecisionContext<'_> {
        let config = &self.shared.config;
        DecisionContext::new(self.now(), &config.limits, &*config.ids)
    }

    /// Returns whether nothing is stored for the tenant, not even an id.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.mailbox.read().is_empty() && self.index.read().has_no_tenant_records()
    }

    /// Removes all data of the tenant.
    pub(crate) fn clear(&self) {
        let _family_guard = self.family_lock.lock();
        self.slots.clear();
        let mailbox = std::mem::take(&mut *self.mailbox.write());
        drop(mailbox);
        let index = std::mem::take(&mut *self.index.write());
        drop(index);
        self.objects.write().clear();
        while self.deferred_drops.purge_batch().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store_core::{
        Commit, DeleteRequest, DispatchId, Expect, Message, NewDispatch, NewEntry, RunId, Store, TenantId, ThreadId,
    };

    use crate::{MemoryConfig, MemoryStore};

    #[tokio::test]
    async fn a_deleted_tenant_frees_its_data_even_while_handles_exist() {
        let store = MemoryStore::open(MemoryConfig::default()).unwrap();
        let handles = store.tenant(&TenantId::default_tenant()).unwrap();
        for name in ["a", "b"] {
            let commit = Commit::new(ThreadId::new(name).unwrap()).expecting(Expect::Absent);
            let commit = commit.entry(NewEntry::new(Message::user("x")));
            let _ = handles.commits.as_ref().unwrap().commit(commit).await.unwrap();
        }
        let dispatch = NewDispatch::new(ThreadId::new("a").unwrap(), RunId::new("r").unwrap());
        let dispatch = dispatch.with_id(DispatchId::new("d").unwrap());
        handles.mailbox.as_ref().unwrap().enqueue(vec![dispatch]).await.unwrap().remove(0).unwrap();
        let deleted_id = ThreadId::new("b").unwrap();
        let threads = handles.threads.as_ref().unwrap();
        threads.delete_thread(&deleted_id, DeleteRequest::default()).await.unwrap();
        let tenant = Arc::clone(&store.tenants().unwrap()[0]);
        store.delete_tenant(&TenantId::default_tenant()).await.unwrap();
        assert!(tenant.is_empty());
        assert_eq!(tenant.deferred_drops.purge_batch(), None);
    }
}
