//! The contents of deleted threads that are not yet freed.

use std::collections::VecDeque;

use crate::{locks::Lock, slot::ThreadContents};

/// The maximum number of entries, commit keys and inputs that one batch removes.
const BATCH_ITEMS: usize = 1_000;
/// If more entries, commit keys and inputs than this are not yet freed, the next deletion also removes a batch of them.
const PURGE_THRESHOLD_ITEMS: usize = 10_000;

/// The contents of deleted threads. No call can reach them. They are freed batch by batch (TH-20).
#[derive(Debug, Default)]
pub(crate) struct DeferredDrops(Lock<DeferredDropsState>);

#[derive(Debug, Default)]
struct DeferredDropsState {
    threads: VecDeque<Box<ThreadContents>>,
    item_count: usize,
}

impl DeferredDrops {
    pub(crate) fn add(&self, threads: impl IntoIterator<Item = Box<ThreadContents>>) {
        let mut state = self.0.lock();
        for contents in threads {
            state.item_count += contents.item_count();
            state.threads.push_back(contents);
        }
    }

    /// Removes a batch if there are many items, so that their number stays small even without purges.
    pub(crate) fn purge_batch_if_many(&self) {
        let has_many_items = self.0.lock().item_count > PURGE_THRESHOLD_ITEMS;
        if has_many_items {
            self.purge_batch();
        }
    }

    /// Removes a batch. Returns the number of threads that it finished, or `None` if there were no threads to free.
    pub(crate) fn purge_batch(&self) -> Option<u64> {
        let mut state = self.0.lock();
        let (mut finished_threads, mut remaining_items) = (0, BATCH_ITEMS);
        state.threads.front()?;
        while let Some(contents) = state.threads.front_mut() {
            let removed_count = contents.remove_up_to(remaining_items);
            let is_done = removed_count < remaining_items;
            remaining_items -= removed_count;
            state.item_count = state.item_count.saturating_sub(removed_count);
            if !is_done {
                break;
            }
            state.threads.pop_front();
            finished_threads += 1;
            // A thread counts as an entry, so that a batch of many empty threads is also bounded.
            remaining_items = remaining_items.saturating_sub(1);
        }
        Some(finished_threads)
    }
}

#[cfg(test)]
mod tests {
    use store_core::{Commit, Expect, Message, NewEntry, Store, TenantId, ThreadId};

    use super::{DeferredDrops, PURGE_THRESHOLD_ITEMS};
    use crate::{MemoryConfig, MemoryStore, slot::ThreadContents};

    /// Returns the contents of a thread with this number of entries. Only the data that a removal uses is correct.
    async fn contents_with_entries(entries: usize) -> Box<ThreadContents> {
        let store = MemoryStore::open(MemoryConfig::default()).unwrap();
        let thread = ThreadId::new("t").unwrap();
        let commit = Commit::new(thread.clone()).expecting(Expect::Absent).entry(NewEntry::new(Message::user("a")));
        let commits = store.tenant(&TenantId::default_tenant()).unwrap().commits.unwrap();
        let _ = commits.commit(commit).await.unwrap();
        let contents = store.tenants().unwrap()[0].slots.write(&thread, |slot| slot.contents.take());
        let mut contents = contents.unwrap();
        contents.log = vec![contents.log[0].clone(); entries];
        contents
    }

    fn item_count(deferred_drops: &DeferredDrops) -> usize {
        deferred_drops.0.lock().item_count
    }

    #[tokio::test]
    async fn a_purge_batch_removes_a_thousand_entries() {
        let deferred_drops = DeferredDrops::default();
        deferred_drops.add([contents_with_entries(3).await, contents_with_entries(1_500).await]);
        assert_eq!(item_count(&deferred_drops), 1_503);
        // The first thread counts as an additional entry.
        assert_eq!((deferred_drops.purge_batch(), item_count(&deferred_drops)), (Some(1), 504));
        assert_eq!((deferred_drops.purge_batch(), item_count(&deferred_drops)), (Some(1), 0));
        assert_eq!(deferred_drops.purge_batch(), None);
        // If a batch ends with the last entry of a thread, the next batch removes the empty thread.
        deferred_drops.add([contents_with_entries(1_000).await]);
        assert_eq!(
            (deferred_drops.purge_batch(), deferred_drops.purge_batch(), deferred_drops.purge_batch()),
            (Some(0), Some(1), None)
        );
    }

    #[tokio::test]
    async fn a_deletion_purges_a_batch_if_there_are_many_items() {
        let deferred_drops = DeferredDrops::default();
        deferred_drops.add([contents_with_entries(PURGE_THRESHOLD_ITEMS).await]);
        deferred_drops.purge_batch_if_many();
        assert_eq!(item_count(&deferred_drops), PURGE_THRESHOLD_ITEMS);
        deferred_drops.add([contents_with_entries(2).await]);
        deferred_drops.purge_batch_if_many();
        assert_eq!(item_count(&deferred_drops), PURGE_THRESHOLD_ITEMS - 998);
    }
}
