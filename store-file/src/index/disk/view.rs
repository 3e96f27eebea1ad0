//! Reading the index on disk.

use std::{fmt, path::Path, sync::Arc};

use fjall::{Guard, Keyspace, Readable as _};
use store_core::Result;

use super::failure::guarded;
use crate::index::{Direction, Pair, Pairs};

/// The index as it was after a batch.
pub(in crate::index) struct DiskView {
    pub(super) folder: Arc<Path>,
    pub(super) snapshot: Arc<fjall::Snapshot>,
    pub(super) keys: Keyspace,
    pub(super) _alive: Arc<()>,
}

impl fmt::Debug for DiskView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskView").finish_non_exhaustive()
    }
}

impl DiskView {
    pub(in crate::index) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        guarded(&self.folder, || self.snapshot.get(&self.keys, key)).map(|value| value.map(|value| value.to_vec()))
    }

    pub(in crate::index) fn range(&self, from: &[u8], to: &[u8], direction: Direction) -> Pairs<'_> {
        let mut guards = self.snapshot.range(&self.keys, from..to);
        let mut ended = false;
        Box::new(std::iter::from_fn(move || {
            if ended {
                return None;
            }
            let next = guarded(&self.folder, || {
                let guard = match direction {
                    Direction::Forward => guards.next(),
                    Direction::Backward => guards.next_back(),
                };
                guard.map(Guard::into_inner).transpose()
            });
            ended = !matches!(next, Ok(Some(_)));
            next.map(|pair| pair.map(|(key, value)| -> Pair { (key.to_vec(), value.to_vec()) })).transpose()
        }))
    }
}
