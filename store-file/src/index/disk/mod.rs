//! The index on disk, kept by fjall.

mod failure;
mod folder;
mod view;

use std::{
    collections::BTreeMap,
    fmt, fs, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, PoisonError, RwLock},
    thread,
    time::Duration,
};

use fjall::{
    AbstractTree as _, Database, Keyspace, KeyspaceCreateOptions, PersistMode, compaction::Leveled,
    config::PartitioningPolicy,
};
use store_core::Result;

pub(crate) use self::failure::is_known_damaged;
pub(super) use self::view::DiskView;
use self::{
    failure::{DAMAGED, guarded, is_damage, report},
    folder::{copy_plain, empty_journals, is_plain, is_unfinished, remove},
};
use super::temporary::TemporaryFolder;
use crate::{
    error,
    vfs::{Disk, FilePath, Vfs, ensure_dir, read_small},
};

/// A keyspace keeps the settings that it was made with. So a change of the settings needs another name.
const KEYSPACE: &str = "rows";
/// Found blocks, in memory. With partitioned filters and indexes a lookup needs few and small ones.
const CACHE_BYTES: u64 = 16 << 20;
/// What is collected before it is sorted into a table. Small: it is what an opening has to read again.
const MEMTABLE_BYTES: u64 = 4 << 20;
/// The limit while the memtable before it waits to be written, which a merge of tables may delay.
const MEMTABLE_MOST: u64 = 32 << 20;
/// A batch of more bytes becomes a table at once: an index that is made anew is filled by such.
const LARGE_BATCH: usize = 2 << 20;
/// How large a table may be; the first level may have [`NEW_TABLES`] times as much.
const TABLE_BYTES: u64 = 32 << 20;
/// So many new tables are merged with the first level, which is rewritten. A lookup asks each of them.
const NEW_TABLES: u8 = 8;
/// More than the tables of one merge: the new ones and the first level, or a table and those of the next level that it
/// overlaps.
const MERGE_BYTES: u64 = 1 << 30;
/// The least that fjall takes.
const JOURNAL_BYTES: u64 = 64 << 20;
const OPEN_FILES: usize = 64;
/// With several, the first one puts a request to merge back into the queue and takes it again, in a circle, while
/// another one merges.
const WORKERS: usize = 1;

/// In which condition the index was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// There was none: it is to be filled from the logs.
    New,
    /// It was damaged and is removed: it is to be filled from the logs, and to be reported.
    Damaged,
    /// It is as it was after one of its last batches.
    Ready,
}

pub(super) struct DiskIndex {
    folder: Arc<Path>,
    database: Database,
    keys: Keyspace,
    /// What every view shows: taken when the last batch was whole. A snapshot that is taken while a batch is applied
    /// may show it in part, as tables that are written at that time count as later than the batch.
    shown: RwLock<Arc<fjall::Snapshot>>,
    /// Every view has one of it: so it is known whether there are any.
    views: Arc<()>,
    /// Where it is, if it is a temporary one. It goes last.
    temporary: Option<TemporaryFolder>,
}

impl fmt::Debug for DiskIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskIndex").finish_non_exhaustive()
    }
}

impl DiskIndex {
    pub(super) fn open(disk: &Disk) -> Result<(Self, Condition)> {
        let fail = |source| error::io("index", source);
        let place = FilePath::new("index")?;
        ensure_dir(disk, &place).map_err(fail)?;
        let folder = disk.path().join("index");
        let is_unfinished = is_plain(disk, &place).map_err(fail)? && is_unfinished(&folder).map_err(fail)?;
        let failure = if is_unfinished {
            fjall::Error::Unrecoverable
        } else if is_plain(disk, &place).map_err(fail)? && !is_known_damaged(disk) {
            match Self::try_open(&folder) {
                Ok(opened) => return Ok(opened),
                Err(failure) => failure,
            }
        } else {
            fjall::Error::Unrecoverable
        };
        if !is_damage(&failure) {
            return Err(report(failure));
        }
        // Renamed before: one that is half removed would be met as an index without its first file.
        let gone = disk.path().join("index.gone");
        remove(&gone).map_err(fail)?;
        fs::rename(&folder, &gone).map_err(fail)?;
        remove(&gone).map_err(fail)?;
        ensure_dir(disk, &place).map_err(fail)?;
        let (index, condition) = Self::try_open(&folder).map_err(report)?;
        // Nothing was in one that was never finished.
        Ok((index, if is_unfinished { condition } else { Condition::Damaged }))
    }

    /// An empty index in a temporary folder.
    pub(super) fn temporary() -> Result<Self> {
        let fail = |source| error::io("a temporary index", source);
        let folder = TemporaryFolder::new().map_err(fail)?;
        fs::create_dir(folder.index()).map_err(fail)?;
        let (index, _) = Self::try_open(&folder.index()).map_err(report)?;
        Ok(Self { temporary: Some(folder), ..index })
    }

    /// A copy of an index in a temporary folder. Nothing of a damaged one.
    pub(super) fn copied(vfs: &dyn Vfs) -> Result<(Self, Condition)> {
        let place = FilePath::new("index")?;
        let fail = |source| error::io("a copy of the index", source);
        let is_damaged = || Ok((Self::temporary()?, Condition::Damaged));
        if read_small(vfs, &place.join(DAMAGED)?, 0).map_err(fail)?.is_some() {
            return is_damaged();
        }
        let folder = TemporaryFolder::new().map_err(fail)?;
        fs::create_dir(folder.index()).map_err(fail)?;
        if !copy_plain(vfs, &place, &folder.index()).map_err(fail)? {
            return is_damaged();
        }
        if is_unfinished(&folder.index()).map_err(fail)? {
            return Ok((Self::temporary()?, Condition::New));
        }
        match Self::try_open(&folder.index()) {
            Ok((index, condition)) => Ok((Self { temporary: Some(folder), ..index }, condition)),
            Err(failure) if is_damage(&failure) => is_damaged(),
            Err(failure) => Err(report(failure)),
        }
    }

    fn try_open(folder: &Path) -> fjall::Result<(Self, Condition)> {
        // Damaged files make fjall panic in places: for us that is damage like any other.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let database = Database::builder(folder)
                .cache_size(CACHE_BYTES)
                .worker_threads(WORKERS)
                .max_journaling_size(JOURNAL_BYTES)
                .max_cached_files(Some(OPEN_FILES))
                .open()?;
            for other in database.list_keyspace_names().iter().filter(|name| ***name != *KEYSPACE) {
                // It was made by another release: what it holds is in the logs.
                database.delete_keyspace(database.keyspace(other, options)?)?;
            }
            let condition = if database.keyspace_exists(KEYSPACE) { Condition::Ready } else { Condition::New };
            let keys = database.keyspace(KEYSPACE, options)?;
            let shown = RwLock::new(Arc::new(database.snapshot()));
            Ok((
                Self { folder: folder.into(), database, keys, shown, views: Arc::default(), temporary: None },
                condition,
            ))
        }));
        opened.unwrap_or(Err(fjall::Error::Unrecoverable))
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        // Without a snapshot it would show a batch in part.
        self.snapshot().get(key)
    }

    pub(super) fn snapshot(&self) -> DiskView {
        let snapshot = Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner));
        let _alive = Arc::clone(&self.views);
        DiskView { folder: Arc::clone(&self.folder), snapshot, keys: self.keys.clone(), _alive }
    }

    /// Applies a batch. `Index::apply` applies one batch at a time.
    pub(super) fn apply(&self, changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Result<()> {
        let row = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| key.len() + value.as_ref().map_or(0, Vec::len);
        let bytes: usize = changes.iter().map(row).sum();
        if bytes > LARGE_BATCH {
            guarded(&self.folder, || self.write_table(changes))?;
        } else {
            let mut batch = self.database.batch();
            for (key, value) in changes {
                match value {
                    Some(value) => batch.insert(&self.keys, key.as_slice(), value.as_slice()),
                    None => batch.remove(&self.keys, key.as_slice()),
                }
            }
            guarded(&self.folder, || batch.commit().and_then(|()| self.rotate_full_memtable()))?;
        }
        let shown = Arc::new(self.database.snapshot());
        let before = mem::replace(&mut *self.shown.write().unwrap_or_else(PoisonError::into_inner), shown);
        drop(before);
        Ok(())
    }

    /// Lets the memtable be written if it is full: one at a time, while the next one takes changes. If that is full,
    /// too, the batch waits here. fjall itself would put a request into its queue with each batch until a full memtable
    /// is written, and its worker waits for room in there; and it would wait for a worker that failed.
    fn rotate_full_memtable(&self) -> fjall::Result<()> {
        let size = self.keys.tree.active_memtable().size();
        if size <= MEMTABLE_BYTES || (size <= MEMTABLE_MOST && self.keys.sealed_memtable_count() > 0) {
            return Ok(());
        }
        self.wait_for_tables()?;
        self.keys.rotate_memtable().map(drop)
    }

    /// Waits until no memtable waits to be written.
    fn wait_for_tables(&self) -> fjall::Result<()> {
        while self.keys.sealed_memtable_count() > 0 {
            // The worker that writes it may have failed. Then this call fails.
            self.database.persist(PersistMode::Buffer)?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Makes a table of a batch, past the journal and the map in memory.
    fn write_table(&self, changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> fjall::Result<()> {
        let mut table = self.keys.start_ingestion()?;
        for (key, value) in changes {
            match value {
                Some(value) => table.write(key.as_slice(), value.as_slice())?,
                None => table.write_tombstone(key.as_slice())?,
            }
        }
        table.finish()
    }

    /// Tables are written and merged in the background, and fjall takes no more changes once that found no space: so
    /// there is room for what it holds in memory, and for any merge.
    pub(super) fn headroom(&self) -> u64 {
        let tables = guarded(&self.folder, || Ok(self.keys.disk_space())).unwrap_or_default();
        let open = self.keys.tree.active_memtable().size().max(MEMTABLE_BYTES);
        let waiting = if self.keys.sealed_memtable_count() > 0 { MEMTABLE_MOST } else { MEMTABLE_BYTES };
        open + waiting + tables.min(MERGE_BYTES)
    }

    pub(super) fn persist(&self) -> Result<()> {
        guarded(&self.folder, || self.database.persist(PersistMode::SyncAll))
    }

    /// Whether there is a view of it.
    pub(super) fn is_read(&self) -> bool {
        Arc::strong_count(&self.views) > 1
    }

    fn let_go(self) -> Arc<Path> {
        let Self { folder, database, keys, shown, .. } = self;
        drop((keys, shown));
        drop(database);
        folder
    }

    /// The same index, whose files have nothing of what was removed or overwritten. There is no view of it.
    pub(super) fn without_former_bytes(self) -> Result<Self> {
        if self.temporary.is_some() {
            return Ok(self);
        }
        self.persist()?;
        let empty = self.database.snapshot();
        drop(mem::replace(&mut *self.shown.write().unwrap_or_else(PoisonError::into_inner), Arc::new(empty)));
        guarded(&self.folder, || {
            // Nothing holds an earlier state from here on but the snapshot of the present one.
            self.keys.rotate_memtable()?;
            self.wait_for_tables()?;
            self.keys.major_compact()
        })?;
        let folder = self.let_go();
        empty_journals(&folder).map_err(|source| error::io("index", source))?;
        let (index, _) = Self::try_open(&folder).map_err(report)?;
        Ok(index)
    }

    /// Lets go of the files. What the journal holds goes into a table first, after a merge that is under way, and the
    /// journal is emptied: an opening reads it item by item, which takes longer than all else that it does.
    pub(super) fn close(self) -> Result<()> {
        if self.temporary.is_some() {
            return Ok(());
        }
        let write = || self.keys.rotate_memtable().and_then(|_| self.wait_for_tables());
        let in_tables = self.persist().is_ok() && guarded(&self.folder, write).is_ok();
        let folder = self.let_go();
        if in_tables { empty_journals(&folder).map_err(|source| error::io("index", source)) } else { Ok(()) }
    }
}

fn options() -> KeyspaceCreateOptions {
    // Not partitioned, a lookup in a table of the upper levels loads filter and index of the whole table: 60 times
    // slower as soon as those do not fit into the cache.
    KeyspaceCreateOptions::default()
        .max_memtable_size(u64::MAX)
        .index_block_partitioning_policy(PartitioningPolicy::all(true))
        .filter_block_partitioning_policy(PartitioningPolicy::all(true))
        .compaction_strategy(Arc::new(
            Leveled::default().with_table_target_size(TABLE_BYTES).with_l0_threshold(NEW_TABLES),
        ))
}
