//! Deleted data that is not yet removed.

use std::collections::VecDeque;

use crate::{locks::Lock, slot::ThreadContents};

/// The maximum number of entries, commit keys and inputs that one batch removes.
const BATCH_ITEMS: usize = 1_000;
/// If the trash contains more entries, commit keys and inputs than this, the next deletion also removes a batch of
/// them.
const LARGE_TRASH_ITEMS: usize = 10_000;

/// The contents of deleted threads. No call can reach them. They only have to be freed, batch by batch (TH-20).
#[derive(Debug, Default)]
pub(crate) struct Trash(Lock<TrashState>);

#[derive(Debug, Default)]
struct TrashState {
    threads: VecDeque<Box<ThreadContents>>,
    item_count: usize,
}

impl Trash {
    pub(crate) fn add(&self, threads: impl IntoIterator<Item = Box<ThreadContents>>) {
        let mut state = self.0.lock();
        for contents in threads {
            state.item_count += contents.item_count();
            state.threads.push_back(contents);
        }
    }

    /// Removes a batch if the trash is large, so that it stays small even without purges.
    pub(crate) fn purge_batch_if_large(&self) {
        let is_large = self.0.lock().item_count > LARGE_TRASH_ITEMS;
        if is_large {
            self.purge_batch();
        }
    }

    /// Removes a batch. Returns the number of threads that it finished, or `None` if the trash was empty.
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

    use super::{LARGE_TRASH_ITEMS, Trash};
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

    fn item_count(trash: &Trash) -> usize {
        trash.0.lock().item_count
    }

    #[tokio::test]
    async fn a_purge_batch_removes_a_thousand_entries() {
        let trash = Trash::default();
        trash.add([contents_with_entries(3).await, contents_with_entries(1_500).await]);
        assert_eq!(item_count(&trash), 1_503);
        // The first thread counts as an additional entry.
        assert_eq!((trash.purge_batch(), item_count(&trash)), (Some(1), 504));
        assert_eq!((trash.purge_batch(), item_count(&trash)), (Some(1), 0));
        assert_eq!(trash.purge_batch(), None);
        // If a batch ends with the last entry of a thread, the next batch removes the empty thread.
        trash.add([contents_with_entries(1_000).await]);
        assert_eq!((trash.purge_batch(), trash.purge_batch(), trash.purge_batch()), (Some(0), Some(1), None));
    }

    #[tokio::test]
    async fn deletions_alone_keep_the_trash_small() {
        let trash = Trash::default();
        trash.add([contents_with_entries(LARGE_TRASH_ITEMS).await]);
        trash.purge_batch_if_large();
        assert_eq!(item_count(&trash), LARGE_TRASH_ITEMS);
        trash.add([contents_with_entries(2).await]);
        trash.purge_batch_if_large();
        assert_eq!(item_count(&trash), LARGE_TRASH_ITEMS - 998);
    }
}
