//! Deleting threads: one atomic step over all affected threads.

use std::{collections::BTreeMap, sync::Arc};

use store_core::{
    ChildStrategy, DeleteRequest, Deletion, Result, ThreadId, Timestamp,
    thread::{self, DeletionSet, StoredThread},
};

use crate::{
    locks::WriteGuard,
    slot::Slot,
    tenant::{Index, Tenant},
};

/// The locked slots of all threads that a deletion changes.
pub(super) type LockedSlots<'a> = BTreeMap<&'a ThreadId, WriteGuard<'a, Slot>>;

/// Returns the threads that a deletion changes.
fn family(index: &Index, id: &ThreadId, strategy: ChildStrategy, most: u64) -> DeletionSet {
    let children = |of: &ThreadId| index.children(of).cloned().collect();
    let mut family = DeletionSet::of(id.clone(), children(id), strategy);
    while let Some(thread) = family.next_deleted(most) {
        family.add_children(children(&thread));
    }
    family
}

pub(super) fn delete(tenant: &Tenant, id: &ThreadId, request: DeleteRequest) -> Result<Deletion> {
    let limits = &tenant.common.config.limits;
    let _family = tenant.family.lock();
    let family = family(&tenant.index.read(), id, request.children, limits.deletion_threads);
    let check = |slot: &Slot| {
        let stored = slot.contents.as_ref().map(|contents| &*contents.thread);
        family.check(id, stored, request, limits)
    };
    // This check does not depend on the other threads, so a request that it refuses does not lock them.
    tenant.slots.read(id, check)?;
    let slots = tenant.slots.slots_in_lock_order(family.all());
    let mut locked: LockedSlots<'_> = slots.iter().map(|(id, slot)| (id, slot.write())).collect();
    if let Some(slot) = locked.get(id) {
        check(slot)?;
    }
    apply(tenant, &mut locked, family.deleted(), family.detached());
    Ok(Deletion::from(family))
}

/// Deletes and detaches locked threads. Readers see all of these changes at once.
pub(super) fn apply(tenant: &Tenant, locked: &mut LockedSlots<'_>, deleted: &[ThreadId], detached: &[ThreadId]) {
    let now = tenant.now();
    let mut gone = Vec::new();
    let mut index = tenant.index.write();
    for id in deleted {
        let Some(slot) = locked.get_mut(id) else { continue };
        if let Some(contents) = slot.contents.take() {
            let record = thread::id_record_after_deletion(&slot.id, &contents.thread, now);
            index.put_id(id, slot, record);
            index.remove_thread(id);
            for run in contents.runs.keys() {
                index.remove_run(run);
            }
            gone.push(contents);
        }
    }
    for id in detached {
        if let Some(contents) = locked.get_mut(id).and_then(|slot| slot.contents.as_mut()) {
            contents.thread = detach(&contents.thread, now);
            index.put_thread(&contents.thread);
        }
    }
    drop(index);
    tenant.trash.add(gone);
}

fn detach(child: &StoredThread, now: Timestamp) -> Arc<StoredThread> {
    Arc::new(thread::detach(child.clone(), now))
}
