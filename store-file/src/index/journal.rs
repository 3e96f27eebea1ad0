//! What an index was told, batch by batch, so that a simulated crash can take the end of it: for tests.

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::vfs::sim::SimDisk;

type Batch = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// The batches of an index beside a simulated disk. What is written without power does not count.
#[derive(Debug, Clone)]
pub struct Journal {
    disk: SimDisk,
    written: Arc<Mutex<Written>>,
}

#[derive(Debug, Default)]
struct Written {
    batches: Vec<Batch>,
    durable: usize,
}

impl Journal {
    /// An index of which nothing is there yet.
    #[must_use]
    pub fn new(disk: SimDisk) -> Self {
        Self { disk, written: Arc::default() }
    }

    /// How many batches may be left after a power cut; after the end of the process alone it is the last of these.
    #[must_use]
    pub fn left(&self) -> RangeInclusive<usize> {
        let written = self.written();
        written.durable..=written.batches.len()
    }

    /// The first `count` batches, durable, beside the disk that was left.
    #[must_use]
    pub fn after_crash(&self, count: usize, disk: SimDisk) -> Self {
        let mut left = Batch::new();
        self.written().batches.iter().take(count).for_each(|batch| left.extend(batch.clone()));
        let batches: Vec<_> = (count > 0).then_some(left).into_iter().collect();
        let written = Written { durable: batches.len(), batches };
        Self { disk, written: Arc::new(Mutex::new(written)) }
    }

    pub(super) fn batches(&self) -> Vec<Batch> {
        self.written().batches.clone()
    }

    pub(super) fn note(&self, batch: &Batch) {
        if self.disk.has_power() {
            self.written().batches.push(batch.clone());
        }
    }

    pub(super) fn persist(&self) {
        let mut written = self.written();
        if self.disk.has_power() {
            written.durable = written.batches.len();
        }
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
