//! Creating, changing and deleting threads.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    DeleteRequest, Deletion, Expect, NewThread, Progress, PruneRequest, Pruned, Result, Thread, ThreadAdmin, ThreadId,
    ThreadPatch,
    mailbox::MailboxView,
    thread::{self, StoredThread, ThreadChange, ThreadIdRecord},
};

use super::{MemoryThreads, delete, prune};
use crate::{
    slot::{ThreadContents, ThreadSlot},
    tenant::Tenant,
    yield_now::yield_now,
};

#[async_trait]
impl ThreadAdmin for MemoryThreads {
    async fn create_thread(&self, draft: NewThread) -> Result<Thread> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let _family_guard = draft.fields.parent_thread_id.is_some().then(|| tenant.family_lock.lock());
        tenant.slots.write(&draft.id, |slot| create(tenant, slot, &draft))
    }

    async fn update_thread(&self, id: &ThreadId, patch: ThreadPatch, expect: Expect) -> Result<Thread> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let _family_guard = patch.parent_thread_id.is_some().then(|| tenant.family_lock.lock());
        tenant.slots.write(id, |slot| update(tenant, slot, (id, &patch, expect)))
    }

    async fn delete_thread(&self, id: &ThreadId, request: DeleteRequest) -> Result<Deletion> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let deletion = delete::delete_thread(tenant, id, request);
        tenant.deferred_drops.purge_batch_if_many();
        deletion
    }

    async fn prune_threads(&self, request: PruneRequest) -> Result<Pruned> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let pruned = prune::prune_threads(tenant, request)?;
        while !request.dry_run && prune::forget_deleted_ids(tenant) {
            yield_now().await;
        }
        tenant.deferred_drops.purge_batch_if_many();
        Ok(pruned)
    }

    async fn purge_deleted(&self, progress: &dyn Progress) -> Result<u64> {
        let tenant = self.tenant()?;
        let mut purged_count = 0;
        while let Some(threads) = tenant.deferred_drops.purge_batch() {
            purged_count += threads;
            if !progress.advance(purged_count, None) {
                break;
            }
            yield_now().await;
        }
        Ok(purged_count)
    }

    async fn reset_fence(&self, id: &ThreadId) -> Result<()> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        tenant.slots.write(id, |slot| slot.id_record.fence = None);
        Ok(())
    }
}

fn create(tenant: &Tenant, slot: &mut ThreadSlot, draft: &NewThread) -> Result<Thread> {
    let stored = slot.contents.as_ref().map(|contents| &*contents.thread);
    let time_and_incarnation = (tenant.now(), 0);
    let created_thread =
        thread::create(stored, &slot.id_record, draft, &tenant.shared.config.limits, time_and_incarnation)?;
    if let Some(parent) = &draft.fields.parent_thread_id {
        thread::check_parent(&draft.id, parent, &tenant.index.read().lineage(parent))?;
    }
    let created_thread = Arc::new(created_thread);
    let mut id_record = slot.id_record.clone();
    id_record.generation = created_thread.thread.generation();
    id_record.deleted_at = None;
    store_thread(tenant, slot, &created_thread, id_record);
    Ok(created_thread.thread.clone())
}

fn update(tenant: &Tenant, slot: &mut ThreadSlot, request: (&ThreadId, &ThreadPatch, Expect)) -> Result<Thread> {
    let stored = slot.contents.as_ref().map(|contents| StoredThread::clone(&contents.thread));
    let mut id_record = slot.id_record.clone();
    let (_, patch, _) = request;
    // Held until the update is written, so that the claim stays valid until then.
    let mailbox_guard = patch.fence.is_some().then(|| tenant.mailbox.read());
    let claims = mailbox_guard.as_deref().map(|claims| claims as &dyn MailboxView);
    // Parents do not change while the caller holds the `family_lock`.
    let lineage = |parent: &ThreadId| Ok(tenant.index.read().lineage(parent));
    let limits_and_time = (&tenant.shared.config.limits, tenant.now());
    match thread::update(request, (stored, &mut id_record), claims, lineage, limits_and_time)? {
        ThreadChange::Unchanged(stored) => {
            slot.id_record = id_record;
            Ok(stored.thread)
        }
        ThreadChange::Changed(stored) => {
            let changed_thread = Arc::new(stored);
            store_thread(tenant, slot, &changed_thread, id_record);
            Ok(changed_thread.thread.clone())
        }
    }
}

fn store_thread(tenant: &Tenant, slot: &mut ThreadSlot, thread: &Arc<StoredThread>, id_record: ThreadIdRecord) {
    let mut index = tenant.index.write();
    index.put_id_record(&thread.thread.id, slot, id_record);
    index.put_thread(thread);
    match &mut slot.contents {
        Some(contents) => contents.thread = Arc::clone(thread),
        None => slot.contents = Some(Box::new(ThreadContents::new(Arc::clone(thread)))),
    }
}
