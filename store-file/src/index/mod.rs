//! An ordered map of derived data: answers by key what the logs hold, and can be thrown away at any time (FI-10).
//!
//! One keyspace, bytes to bytes. [`Key`] encodes tuples so that their order is the order of the bytes. On disk it is
//! kept by fjall in the folder `index/`, for readers in a temporary folder; in memory by a `BTreeMap`, for crash tests.
//!
//! [`Changes`] are atomic, and visible as a whole, but not durable before [`Index::persist`]: a crash may take the last
//! ones. So the changes of a round contain the number of its batch in the journal, and the opening follows the journal
//! from that batch on. If the journal does not reach back that far, the opening reads the logs.

mod changes;
mod disk;
mod fronts;
mod journal;
mod key;
mod memory;
mod snapshot;
mod temporary;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

pub(crate) use store_core::Direction;
use store_core::{Error, ErrorKind, Result};

pub use self::journal::Journal;
pub(crate) use self::{
    changes::Changes,
    disk::{Condition, is_known_damaged},
    key::{Key, KeyReader, after_prefix},
    snapshot::Snapshot,
};
use self::{disk::DiskIndex, fronts::Fronts, memory::MemoryIndex, snapshot::View};
use crate::vfs::{Disk, Vfs};

/// A key and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// The pairs of a range, read as they are asked for. After an error the walk has ended.
pub(crate) type Pairs<'a> = Box<dyn Iterator<Item = Result<Pair>> + Send + 'a>;

/// The index. Any number of threads may read and change it.
#[derive(Debug)]
pub(crate) struct Index {
    engine: Engine,
    fronts: Arc<Fronts>,
}

#[derive(Debug)]
enum Engine {
    /// None once it was closed: the handles of a closed store must not prevent another opening.
    Disk(RwLock<Option<DiskIndex>>),
    Memory(MemoryIndex),
}

fn open_disk(disk: &RwLock<Option<DiskIndex>>) -> RwLockReadGuard<'_, Option<DiskIndex>> {
    disk.read().unwrap_or_else(PoisonError::into_inner)
}

impl Index {
    /// Opens the index in the folder `index/`, or makes it. A damaged one is removed and made anew; [`Condition`]
    /// tells.
    ///
    /// # Errors
    /// An error of the operating system, as `Unavailable` or `StorageFull`. Damage is no error.
    pub(crate) fn open(disk: &Disk) -> Result<(Self, Condition)> {
        let (index, condition) = DiskIndex::open(disk)?;
        Ok((Self::of(Engine::Disk(RwLock::new(Some(index)))), condition))
    }

    /// A copy of the index in the folder `index/`, in a temporary folder: the engine writes to the files that it reads.
    ///
    /// # Errors
    /// An error of the operating system. Damage is no error.
    pub(crate) fn copied(vfs: &dyn Vfs) -> Result<(Self, Condition)> {
        let (index, condition) = DiskIndex::copied(vfs)?;
        Ok((Self::of(Engine::Disk(RwLock::new(Some(index)))), condition))
    }

    /// An empty index in a temporary folder.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(crate) fn temporary() -> Result<Self> {
        Ok(Self::of(Engine::Disk(RwLock::new(Some(DiskIndex::temporary()?)))))
    }

    /// This index if every row of it can be read; else an empty one in a temporary folder.
    ///
    /// # Errors
    /// An error of the operating system. Damage is no error.
    pub(crate) fn or_empty_if_damaged(self) -> Result<(Self, Condition)> {
        let read = self.snapshot().prefix(&[], Direction::Forward).try_for_each(|pair| pair.map(drop));
        match read {
            Err(failure) if failure.kind() == ErrorKind::Corrupt => Ok((Self::temporary()?, Condition::Damaged)),
            read => read.map(|()| (self, Condition::Ready)),
        }
    }

    /// An empty index in memory.
    pub(crate) fn in_memory() -> Self {
        Self::of(Engine::Memory(MemoryIndex::default()))
    }

    /// An index in memory with what was written down of it: for tests.
    pub(crate) fn journaled(journal: &Journal) -> (Self, Condition) {
        let condition = if journal.batches().is_empty() { Condition::New } else { Condition::Ready };
        (Self::of(Engine::Memory(MemoryIndex::journaled(journal))), condition)
    }

    fn of(engine: Engine) -> Self {
        Self { engine, fronts: Arc::default() }
    }

    /// The value of a key, now.
    ///
    /// # Errors
    /// `Corrupt` if the index is damaged; `Closed`; else an error of the operating system.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match &self.engine {
            Engine::Disk(index) => open_disk(index).as_ref().ok_or_else(Error::closed)?.get(key),
            Engine::Memory(index) => Ok(index.get(key)),
        }
    }

    /// The index as it is now: later changes do not show. To be held for a short time.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let ended = self.fronts.ended();
        let view = match &self.engine {
            Engine::Disk(index) => open_disk(index).as_ref().map_or(View::Closed, |index| View::Disk(index.snapshot())),
            Engine::Memory(index) => View::Memory(index.snapshot()),
        };
        Snapshot { view, fronts: Arc::clone(&self.fronts), ended }
    }

    /// Makes all changes, visible together.
    ///
    /// # Errors
    /// An error of the operating system. It is then unknown whether the changes were made, and the index takes no more
    /// of them.
    pub(crate) fn apply(&self, changes: &Changes) -> Result<()> {
        let changes = &changes.keys;
        let puts = changes.iter().filter(|(_, value)| value.is_some()).map(|(key, _)| key);
        let _applying = self.fronts.begin(puts);
        match &self.engine {
            Engine::Disk(index) => open_disk(index).as_ref().ok_or_else(Error::closed)?.apply(changes),
            Engine::Memory(index) => {
                index.apply(changes);
                Ok(())
            }
        }
    }

    /// The version of the index. Each call of [`Self::apply`] makes the next one.
    pub(crate) fn version(&self) -> u64 {
        self.fronts.ended()
    }

    /// Makes everything that was applied durable.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(crate) fn persist(&self) -> Result<()> {
        match &self.engine {
            Engine::Disk(index) => open_disk(index).as_ref().ok_or_else(Error::closed)?.persist(),
            Engine::Memory(index) => {
                index.persist();
                Ok(())
            }
        }
    }

    /// How much space it may need to write what it holds in memory, and to merge what it wrote before.
    pub(crate) fn headroom(&self) -> u64 {
        match &self.engine {
            Engine::Disk(index) => open_disk(index).as_ref().map_or(0, DiskIndex::headroom),
            Engine::Memory(_) => 0,
        }
    }

    /// Lets go of the bytes of what was removed, in its files. `false` if readers hold an earlier state of it: then
    /// nothing is done.
    ///
    /// # Errors
    /// An error of the operating system. The index is closed then.
    pub(crate) fn reclaim(&self) -> Result<bool> {
        let Engine::Disk(index) = &self.engine else { return Ok(true) };
        let mut open = index.write().unwrap_or_else(PoisonError::into_inner);
        match open.take() {
            None => Err(Error::closed()),
            Some(held) if held.is_read() => {
                *open = Some(held);
                Ok(false)
            }
            Some(free) => {
                *open = Some(free.without_former_bytes()?);
                Ok(true)
            }
        }
    }

    /// Lets go of the files. Later calls are `Closed`.
    ///
    /// # Errors
    /// An error of the operating system. The files are let go of all the same, and what was durable stays so.
    pub(crate) fn close(&self) -> Result<()> {
        match &self.engine {
            Engine::Disk(index) => {
                let open = index.write().unwrap_or_else(PoisonError::into_inner).take();
                open.map_or(Ok(()), DiskIndex::close)
            }
            Engine::Memory(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
