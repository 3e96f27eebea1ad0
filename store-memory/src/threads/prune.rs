//! Pruning threads that were not written to for a while, and forgetting deleted ids.

use std::collections::BTreeSet;

use store_core::{
    PruneRequest, Pruned, Result, ThreadId, ThreadOrder, TimeWalk, length,
    thread::{self, PruneSelection, ThreadIdRecord},
};

use super::delete::{self, LockedSlots};
use crate::tenant::{Index, Tenant, ThreadListKey};

/// The maximum number of ids that one batch forgets.
const BATCH_IDS: usize = 1_000;

pub(super) fn prune_threads(tenant: &Tenant, request: PruneRequest) -> Result<Pruned> {
    // While the `family_lock` is held, no thread gains or loses a child.
    let _family_guard = tenant.family_lock.lock();
    let mut selection = PruneSelection::new(request, tenant.now())?;
    choose_idle_threads(&tenant.index.read(), &mut selection);
    let mut chosen_ids = selection.chosen().to_vec();
    if !request.dry_run {
        let slots = tenant.slots.slots_in_lock_order(&chosen_ids);
        let mut locked_slots: LockedSlots<'_> = slots.iter().map(|(id, slot)| (id, slot.write())).collect();
        // A thread that was written to after it was chosen and before it was locked is not pruned (TH-27). It
        // stays, and so do its ancestors.
        let index = tenant.index.read();
        let mut pruned_ids = BTreeSet::new();
        chosen_ids.retain(|id| {
            let is_unused = index.thread(id).is_some_and(|row| selection.is_unused(&row.thread));
            let is_prunable = is_unused && index.children(id).all(|child| pruned_ids.contains(child));
            is_prunable && pruned_ids.insert(id.clone())
        });
        drop(index);
        delete::apply_deletion(tenant, &mut locked_slots, (&chosen_ids, &[]), tenant.now());
    }
    Ok(selection.pruned(chosen_ids))
}

/// Chooses idle threads. After the last child of a thread was chosen, the thread itself is offered.
fn choose_idle_threads(index: &Index, selection: &mut PruneSelection) {
    let walk = TimeWalk::between(None, Some(selection.idle_before()));
    for (_, row) in index.walk_threads(&ThreadListKey::All, ThreadOrder::LastActivity, &walk) {
        let mut next = Some(&row.thread).filter(|stored| index.count_children(&stored.thread.id) == 0);
        while let Some(stored) = next {
            let parent = selection.offer(stored);
            let are_all_children_chosen =
                |parent: &ThreadId| selection.count_chosen_child(parent, length(index.count_children(parent)));
            next = parent.filter(are_all_children_chosen).and_then(|parent| Some(&index.thread(&parent)?.thread));
        }
        if selection.is_full() {
            break;
        }
    }
}

/// Forgets a batch of ids that were deleted long enough ago (TH-25). Returns whether there may be more.
pub(super) fn forget_deleted_ids(tenant: &Tenant) -> bool {
    let now = tenant.now();
    let expired_ids: Vec<_> = {
        let index = tenant.index.read();
        let ids = index.deleted_ids().take_while(|(at, _)| *at < now.saturating_sub(thread::DELETED_ID_RETENTION));
        ids.take(BATCH_IDS).map(|(_, id)| id.clone()).collect()
    };
    for id in &expired_ids {
        tenant.slots.write(id, |slot| {
            if slot.contents.is_none() && thread::can_be_forgotten(&slot.id_record, now) {
                tenant.index.write().put_id_record(id, slot, ThreadIdRecord::default());
            }
        });
    }
    expired_ids.len() == BATCH_IDS
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use store_core::{
        Commit, DeleteRequest, Json, ManualClock, NewOutboxRow, NewThread, PageRequest, PruneRequest, Store, TenantId,
        ThreadId, Timestamp, thread,
    };

    use crate::{MemoryConfig, MemoryStore};

    const MONTH: Duration = thread::DELETED_ID_RETENTION;

    fn store_with_manual_clock() -> (MemoryStore, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000).unwrap()));
        let config = MemoryConfig::default().with_clock(Arc::<ManualClock>::clone(&clock));
        (MemoryStore::open(config).unwrap(), clock)
    }

    const fn prune_request(dry_run: bool) -> PruneRequest {
        PruneRequest { idle: MONTH, limit: 10, dry_run }
    }

    #[tokio::test]
    async fn forgotten_ids_leave_nothing_behind_th_25() {
        let (store, clock) = store_with_manual_clock();
        let threads = store.tenant(&TenantId::default_tenant()).unwrap().threads.unwrap();
        for name in ["a", "b"] {
            let id = ThreadId::new(name).unwrap();
            threads.create_thread(NewThread::new(id.clone())).await.unwrap();
            threads.delete_thread(&id, DeleteRequest::default()).await.unwrap();
        }
        let tenant = Arc::clone(&store.tenants().unwrap()[0]);
        let slot_count = || tenant.slots.ids().len();
        clock.advance(MONTH);
        threads.prune_threads(prune_request(false)).await.unwrap();
        assert_eq!(slot_count(), 2);
        clock.advance(Duration::from_millis(1));
        threads.prune_threads(prune_request(true)).await.unwrap();
        assert_eq!(slot_count(), 2);
        threads.prune_threads(prune_request(false)).await.unwrap();
        assert_eq!(slot_count(), 0);
        assert!(tenant.is_empty());
    }

    #[tokio::test]
    async fn a_tenant_exists_as_long_as_it_has_an_outbox_row() {
        let (store, clock) = store_with_manual_clock();
        let tenant = store.tenant(&TenantId::default_tenant()).unwrap();
        let (threads, id) = (tenant.threads.unwrap(), ThreadId::new("t").unwrap());
        let row = NewOutboxRow::new("lane".parse().unwrap(), "target".parse().unwrap(), Json::null());
        let _ = tenant.commits.unwrap().commit(Commit::new(id.clone()).with_outbox([row])).await.unwrap();
        threads.delete_thread(&id, DeleteRequest::default()).await.unwrap();
        clock.advance(2 * MONTH);
        threads.prune_threads(prune_request(false)).await.unwrap();
        assert_eq!(store.list_tenants(PageRequest::default()).await.unwrap().items, [TenantId::default_tenant()]);
    }
}
