//! Deleted data that is not yet removed.

use std::collections::VecDeque;

use crate::{locks::Lock, slot::Contents};

/// The maximum number of entries, keys and inputs that one batch removes.
const BATCH: usize = 1_000;
/// The number of entries, keys and inputs that may stay here until a purge removes them.
const LARGE: usize = 10_000;

/// The contents of deleted threads. No call can reach them. They only have to be freed, batch by batch (TH-20).
#[derive(Debug, Default)]
pub(crate) struct Trash(Lock<TrashState>);

#[derive(Debug, Default)]
struct TrashState {
    threads: VecDeque<Box<Contents>>,
    size: usize,
}

impl Trash {
    pub(crate) fn add(&self, threads: impl IntoIterator<Item = Box<Contents>>) {
        let mut state = self.0.lock();
        for contents in threads {
            state.size += contents.size();
            state.threads.push_back(contents);
        }
    }

    /// Removes a batch if the trash is large, so that it stays small even without purges.
    pub(crate) fn tidy(&self) {
        let is_large = self.0.lock().size > LARGE;
        if is_large {
            self.purge_batch();
        }
    }

    /// Removes a batch. Returns the number of threads that it finished, or `None` if the trash was empty.
    pub(crate) fn purge_batch(&self) -> Option<u64> {
        let mut state = self.0.lock();
        let (mut threads, mut left) = (0, BATCH);
        state.threads.front()?;
        while let Some(contents) = state.threads.front_mut() {
            let removed = contents.shrink(left);
            let is_done = removed < left;
            left -= removed;
            state.size = state.size.saturating_sub(removed);
            if !is_done {
                break;
            }
            state.threads.pop_front();
            threads += 1;
            // A thread counts as an entry, so that a batch of many empty threads is bounded, too.
            left = left.saturating_sub(1);
        }
        Some(threads)
    }
}

#[cfg(test)]
mod tests {
    use store_core::{Commit, Expect, Message, NewEntry, Store, TenantId, ThreadId};

    use super::{LARGE, Trash};
    use crate::{MemoryConfig, MemoryStore, slot::Contents};

    /// Returns the contents of a thread with this number of entries. Only the data that a removal uses is correct.
    async fn contents_with_entries(entries: usize) -> Box<Contents> {
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

    fn size(trash: &Trash) -> usize {
        trash.0.lock().size
    }

    #[tokio::test]
    async fn a_purge_batch_removes_a_thousand_entries() {
        let trash = Trash::default();
        trash.add([contents_with_entries(3).await, contents_with_entries(1_500).await]);
        assert_eq!(size(&trash), 1_503);
        // The first thread counts as an additional entry.
        assert_eq!((trash.purge_batch(), size(&trash)), (Some(1), 504));
        assert_eq!((trash.purge_batch(), size(&trash)), (Some(1), 0));
        assert_eq!(trash.purge_batch(), None);
        // A thread whose entries end exactly with the batch is found empty by the next batch.
        trash.add([contents_with_entries(1_000).await]);
        assert_eq!((trash.purge_batch(), trash.purge_batch(), trash.purge_batch()), (Some(0), Some(1), None));
    }

    #[tokio::test]
    async fn deletions_alone_keep_the_trash_small() {
        let trash = Trash::default();
        trash.add([contents_with_entries(LARGE).await]);
        trash.tidy();
        assert_eq!(size(&trash), LARGE);
        trash.add([contents_with_entries(2).await]);
        trash.tidy();
        assert_eq!(size(&trash), LARGE - 998);
    }
}
