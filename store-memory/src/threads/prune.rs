//! Pruning threads that were not written to for a while, and forgetting deleted ids.

use std::collections::BTreeSet;

use store_core::{
    PruneRequest, Pruned, Result, ThreadId, ThreadOrder, Walk, length,
    thread::{self, IdRecord, PruneSelection},
};

use super::delete::{self, LockedSlots};
use crate::tenant::{Index, Tenant, ThreadScope};

/// The maximum number of ids that one batch forgets.
const BATCH: usize = 1_000;

pub(super) fn prune(tenant: &Tenant, request: PruneRequest) -> Result<Pruned> {
    // While the `family` lock is held, no thread gains or loses a child.
    let _family = tenant.family.lock();
    let mut choice = PruneSelection::new(request, tenant.now())?;
    choose(&tenant.index.read(), &mut choice);
    let mut chosen = choice.chosen().to_vec();
    if !request.dry_run {
        let slots = tenant.slots.slots_in_lock_order(&chosen);
        let mut locked: LockedSlots<'_> = slots.iter().map(|(id, slot)| (id, slot.write())).collect();
        // A thread that was written to after it was chosen and before it was locked is no longer idle (TH-27). It
        // stays, and so do its ancestors.
        let index = tenant.index.read();
        let mut gone = BTreeSet::new();
        chosen.retain(|id| {
            let is_idle = index.thread(id).is_some_and(|row| choice.is_idle(&row.thread));
            let goes = is_idle && index.children(id).all(|child| gone.contains(child));
            goes && gone.insert(id.clone())
        });
        drop(index);
        delete::apply(tenant, &mut locked, &chosen, &[]);
    }
    Ok(choice.pruned(chosen))
}

fn choose(index: &Index, choice: &mut PruneSelection) {
    let walk = Walk::over(None, Some(choice.idle_before()));
    for (_, row) in index.walk_threads(&ThreadScope::All, ThreadOrder::LastActivity, &walk) {
        let mut next = Some(&row.thread).filter(|stored| index.count_children(&stored.thread.id) == 0);
        while let Some(stored) = next {
            let parent = choice.offer(stored);
            let childless = |parent: &ThreadId| choice.count_chosen_child(parent, length(index.count_children(parent)));
            next = parent.filter(childless).and_then(|parent| Some(&index.thread(&parent)?.thread));
        }
        if choice.is_full() {
            break;
        }
    }
}

/// Forgets a batch of ids that were deleted long enough ago (TH-25). Returns whether there may be more.
pub(super) fn forget(tenant: &Tenant) -> bool {
    let now = tenant.now();
    let old: Vec<_> = {
        let index = tenant.index.read();
        let ids = index.deleted().take_while(|(at, _)| *at < now.saturating_sub(thread::REMEMBERED_FOR));
        ids.take(BATCH).map(|(_, id)| id.clone()).collect()
    };
    for id in &old {
        tenant.slots.write(id, |slot| {
            if slot.contents.is_none() && thread::can_be_forgotten(&slot.id, now) {
                tenant.index.write().put_id(id, slot, IdRecord::default());
            }
        });
    }
    old.len() == BATCH
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use store_core::{
        Commit, DeleteRequest, Json, ManualClock, NewOutboxRow, NewThread, PageRequest, PruneRequest, Store, TenantId,
        ThreadId, Timestamp, thread,
    };

    use crate::{MemoryConfig, MemoryStore};

    const MONTH: Duration = thread::REMEMBERED_FOR;

    fn store() -> (MemoryStore, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_000_000).unwrap()));
        let config = MemoryConfig::default().with_clock(Arc::<ManualClock>::clone(&clock));
        (MemoryStore::open(config).unwrap(), clock)
    }

    const fn prune_request(dry_run: bool) -> PruneRequest {
        PruneRequest { idle: MONTH, limit: 10, dry_run }
    }

    #[tokio::test]
    async fn forgotten_ids_leave_nothing_behind_th_25() {
        let (store, clock) = store();
        let threads = store.tenant(&TenantId::default_tenant()).unwrap().threads.unwrap();
        for name in ["a", "b"] {
            let id = ThreadId::new(name).unwrap();
            threads.create_thread(NewThread::new(id.clone())).await.unwrap();
            threads.delete_thread(&id, DeleteRequest::default()).await.unwrap();
        }
        let tenant = Arc::clone(&store.tenants().unwrap()[0]);
        let left = || tenant.slots.ids().len();
        clock.advance(MONTH);
        threads.prune_threads(prune_request(false)).await.unwrap();
        assert_eq!(left(), 2);
        clock.advance(Duration::from_millis(1));
        threads.prune_threads(prune_request(true)).await.unwrap();
        assert_eq!(left(), 2);
        threads.prune_threads(prune_request(false)).await.unwrap();
        assert_eq!(left(), 0);
        assert!(tenant.is_empty());
    }

    #[tokio::test]
    async fn a_tenant_exists_as_long_as_it_has_an_outbox_row() {
        let (store, clock) = store();
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
