//! What was deleted and is not yet removed.

use std::collections::VecDeque;

use crate::{locks::Lock, slot::Contents};

/// Entries and keys that one batch removes.
const BATCH: usize = 1_000;
/// Entries and keys that may lie here until somebody asks for their removal.
const LARGE: usize = 10_000;

/// Contents of deleted threads: nobody can reach them, they only have to be taken apart, batch by batch (TH-20).
#[derive(Debug, Default)]
pub(crate) struct Trash(Lock<Heap>);

#[derive(Debug, Default)]
struct Heap {
    threads: VecDeque<Box<Contents>>,
    size: usize,
}

impl Trash {
    pub(crate) fn add(&self, threads: impl IntoIterator<Item = Box<Contents>>) {
        let mut heap = self.0.lock();
        for contents in threads {
            heap.size += contents.size();
            heap.threads.push_back(contents);
        }
    }

    /// Removes a batch if there is much, so that deletions alone keep it small.
    pub(crate) fn tidy(&self) {
        let is_large = self.0.lock().size > LARGE;
        if is_large {
            self.purge_batch();
        }
    }

    /// Removes a batch. Returns how many threads it was the last of; none if nothing was left.
    pub(crate) fn purge_batch(&self) -> Option<u64> {
        let mut heap = self.0.lock();
        let (mut threads, mut left) = (0, BATCH);
        heap.threads.front()?;
        while let Some(contents) = heap.threads.front_mut() {
            let removed = contents.shrink(left);
            let is_done = removed < left;
            left -= removed;
            heap.size = heap.size.saturating_sub(removed);
            if !is_done {
                break;
            }
            heap.threads.pop_front();
            threads += 1;
            // A thread counts as an entry, so that many empty ones are no batch without an end.
            left = left.saturating_sub(1);
        }
        Some(threads)
    }
}
