//! Deleting threads: one atomic step over all affected threads.

use std::{collections::BTreeMap, sync::Arc};

use store_core::{
    ChildStrategy, DeleteRequest, Deletion, Result, ThreadId, Timestamp,
    thread::{self, DeletionSet, StoredThread},
};

use crate::{
    locks::WriteGuard,
    slot::ThreadSlot,
    tenant::{Index, Tenant},
};

/// The locked slots of all threads that a deletion changes.
pub(super) type LockedSlots<'a> = BTreeMap<&'a ThreadId, WriteGuard<'a, ThreadSlot>>;

/// Returns the threads that a deletion changes.
fn deletion_set(index: &Index, id: &ThreadId, strategy: ChildStrategy, max_threads: u64) -> DeletionSet {
    let children = |parent: &ThreadId| index.children(parent).cloned().collect();
    let mut deletion_set = DeletionSet::begin(id.clone(), children(id), strategy);
    while let Some(thread) = deletion_set.next_to_expand(max_threads) {
        deletion_set.add_children(children(&thread));
    }
    deletion_set
}

pub(super) fn delete_thread(tenant: &Tenant, id: &ThreadId, request: DeleteRequest) -> Result<Deletion> {
    let limits = &tenant.shared.config.limits;
    let _family_guard = tenant.family_lock.lock();
    let deletion_set = deletion_set(&tenant.index.read(), id, request.children, limits.deletion_threads);
    let check = |slot: &ThreadSlot| {
        let stored = slot.contents.as_ref().map(|contents| &*contents.thread);
        deletion_set.check(id, stored, request, limits)
    };
    // This check does not depend on the other threads, so a request that it refuses does not lock them.
    tenant.slots.read(id, check)?;
    let slots = tenant.slots.slots_in_lock_order(deletion_set.all());
    let mut locked_slots: LockedSlots<'_> = slots.iter().map(|(id, slot)| (id, slot.write())).collect();
    if let Some(slot) = locked_slots.get(id) {
        check(slot)?;
    }
    apply_deletion(tenant, &mut locked_slots, (deletion_set.deleted(), deletion_set.detached()), tenant.now());
    Ok(Deletion::from(deletion_set))
}

/// Deletes and detaches these threads, as a write buffer has decided.
pub(crate) fn delete_all(tenant: &Tenant, deleted_ids: &[ThreadId], detached_ids: &[ThreadId], now: Timestamp) {
    let _family_guard = tenant.family_lock.lock();
    let slots = tenant.slots.slots_in_lock_order(deleted_ids.iter().chain(detached_ids));
    let mut locked_slots: LockedSlots<'_> = slots.iter().map(|(id, slot)| (id, slot.write())).collect();
    apply_deletion(tenant, &mut locked_slots, (deleted_ids, detached_ids), now);
}

/// Deletes and detaches locked threads. Readers see all of these changes at once.
pub(super) fn apply_deletion(
    tenant: &Tenant,
    locked_slots: &mut LockedSlots<'_>,
    (deleted_ids, detached_ids): (&[ThreadId], &[ThreadId]),
    now: Timestamp,
) {
    let mut deleted_contents = Vec::new();
    let mut index = tenant.index.write();
    for id in deleted_ids {
        let Some(slot) = locked_slots.get_mut(id) else { continue };
        if let Some(mut contents) = slot.contents.take() {
            let record = thread::id_record_after_deletion(&slot.id_record, &contents.thread, now);
            index.put_id_record(id, slot, record);
            index.remove_thread(id);
            for run in contents.runs.keys() {
                index.remove_run(run);
            }
            contents.deleted_documents = index.documents.take_of_thread(id);
            deleted_contents.push(contents);
        }
    }
    for id in detached_ids {
        if let Some(contents) = locked_slots.get_mut(id).and_then(|slot| slot.contents.as_mut()) {
            contents.thread = detach(&contents.thread, now);
            index.put_thread(&contents.thread);
        }
    }
    drop(index);
    tenant.deferred_drops.add(deleted_contents);
}

fn detach(child: &StoredThread, now: Timestamp) -> Arc<StoredThread> {
    Arc::new(thread::detach(child.clone(), now))
}
