//! The index on disk, kept by fjall.

use std::{
    collections::BTreeMap,
    error::Error as StdError,
    fmt, fs,
    io::{self, Write as _},
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{Arc, PoisonError, RwLock},
    thread,
    time::Duration,
};

use fjall::{
    AbstractTree as _, Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode, Readable, compaction::Leveled,
    config::PartitioningPolicy,
};
use store_core::{Error, Result};

use super::{Direction, Pair, Pairs, temporary::TemporaryFolder};
use crate::{
    error,
    vfs::{Disk, Entry, FilePath, Kind, Open, Vfs, VfsFile, ensure_dir, read_small},
};

/// A keyspace keeps the settings that it was made with: whoever changes them changes its name.
const KEYSPACE: &str = "rows";
/// A file that says that damage was met.
const DAMAGED: &str = "damaged";
/// Found blocks, in memory. With partitioned filters and indexes a lookup needs few and small ones.
const CACHE_BYTES: u64 = 16 << 20;
/// What is collected before it is sorted into a table. Small: it is what an opening has to read again.
const MEMTABLE_BYTES: u64 = 4 << 20;
/// As much as that while the one before it waits to be written, behind a merge of tables.
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
    /// What every view shows: taken when the last batch was whole. fjall's own may show a batch in part, as tables that
    /// are written meanwhile count as later than it.
    shown: RwLock<Arc<fjall::Snapshot>>,
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
        let failure = if is_plain(disk, &place).map_err(fail)? && !is_known_damaged(disk) {
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
        let (index, _) = Self::try_open(&folder).map_err(report)?;
        Ok((index, Condition::Damaged))
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
            Ok((Self { folder: folder.into(), database, keys, shown, temporary: None }, condition))
        }));
        opened.unwrap_or(Err(fjall::Error::Unrecoverable))
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        // Without a snapshot it would show a batch in part.
        self.snapshot().get(key)
    }

    pub(super) fn snapshot(&self) -> DiskView {
        let snapshot = Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner));
        DiskView { folder: Arc::clone(&self.folder), snapshot, keys: self.keys.clone() }
    }

    /// Applies a batch; nobody else applies one meanwhile.
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
    /// too, whoever writes waits here. fjall itself would put a request into its queue with each batch until a full
    /// memtable is written, and its worker waits for room in there; and it would wait for a worker that failed.
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
            // Whoever writes it may have failed.
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

    /// Lets go of the files. What the journal holds goes into a table first, behind a merge that is under way, and the
    /// journal is emptied: an opening reads it item by item, which takes longer than all else that it does.
    pub(super) fn close(self) -> Result<()> {
        if self.temporary.is_some() {
            return Ok(());
        }
        let write = || self.keys.rotate_memtable().and_then(|_| self.wait_for_tables());
        let in_tables = self.persist().is_ok() && guarded(&self.folder, write).is_ok();
        let Self { folder, database, keys, shown, temporary: _ } = self;
        drop((keys, shown));
        drop(database);
        if in_tables { empty_journals(&folder).map_err(|source| error::io("index", source)) } else { Ok(()) }
    }
}

/// Empties the last journal and removes those before it, the oldest first. Without any journal fjall would not find out
/// how far its tables are.
fn empty_journals(folder: &Path) -> io::Result<()> {
    let mut journals = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok());
        if let Some(number) = number
            && path.extension().is_some_and(|extension| extension == "jnl")
        {
            journals.push((number, path));
        }
    }
    journals.sort();
    if let Some((_, last)) = journals.pop() {
        journals.into_iter().try_for_each(|(_, sealed)| fs::remove_file(sealed))?;
        let journal = fs::OpenOptions::new().write(true).open(last)?;
        journal.set_len(0)?;
        journal.sync_all()?;
    }
    Ok(())
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
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

/// Whether there are only files and folders: fjall opens by path, and would follow a link out of the root (FI-9).
fn is_plain(disk: &Disk, folder: &FilePath) -> io::Result<bool> {
    for Entry { name, kind } in disk.list(folder)? {
        let plain = match (kind, folder.join(&name)) {
            (Kind::File, Ok(_)) => true,
            (Kind::Folder, Ok(inside)) => is_plain(disk, &inside)?,
            (_, _) => false,
        };
        if !plain {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Copies files and folders; `false` if there is anything else.
fn copy_plain(vfs: &dyn Vfs, from: &FilePath, to: &Path) -> io::Result<bool> {
    let entries = match vfs.list(from) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(true),
        listed => listed?,
    };
    for Entry { name, kind } in entries {
        let target = to.join(&name);
        match (kind, from.join(&name)) {
            (Kind::File, Ok(file)) => {
                copy_file(&*vfs.open(&file, Open::Read)?, &target)?;
            }
            (Kind::Folder, Ok(folder)) => {
                fs::create_dir(&target)?;
                if !copy_plain(vfs, &folder, &target)? {
                    return Ok(false);
                }
            }
            (_, _) => return Ok(false),
        }
    }
    Ok(true)
}

fn copy_file(from: &dyn VfsFile, to: &Path) -> io::Result<()> {
    let mut to = fs::File::create(to)?;
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    loop {
        let len = from.read_at(&mut buffer, at)?;
        if len == 0 {
            return Ok(());
        }
        to.write_all(buffer.get(..len).unwrap_or_default())?;
        at += len as u64;
    }
}

pub(super) struct DiskView {
    folder: Arc<Path>,
    snapshot: Arc<fjall::Snapshot>,
    keys: Keyspace,
}

impl fmt::Debug for DiskView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskView").finish_non_exhaustive()
    }
}

impl DiskView {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        guarded(&self.folder, || self.snapshot.get(&self.keys, key)).map(|value| value.map(|value| value.to_vec()))
    }

    pub(super) fn range(&self, from: &[u8], to: &[u8], direction: Direction) -> Pairs<'_> {
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

/// Calls fjall. A panic in it, as damaged files may cause, is `Corrupt`. Damage is remembered for the next opening.
fn guarded<T>(folder: &Path, call: impl FnOnce() -> fjall::Result<T>) -> Result<T> {
    let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or(Err(fjall::Error::Unrecoverable));
    result.map_err(|failure| {
        if is_damage(&failure) {
            // If it cannot be made, the next opening meets the damage again.
            let _ = fs::write(folder.join(DAMAGED), []);
        }
        report(failure)
    })
}

/// Whether an earlier call met damage in the index of a root.
pub(crate) fn is_known_damaged(disk: &Disk) -> bool {
    disk.path().join("index").join(DAMAGED).exists()
}

/// Whether the files are at fault, not the system.
fn is_damage(failure: &fjall::Error) -> bool {
    match (failure, system_error(failure)) {
        (fjall::Error::Locked | fjall::Error::Poisoned, _) => false,
        (_, Some(source)) => {
            matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData)
        }
        (_, None) => true,
    }
}

fn report(failure: fjall::Error) -> Error {
    if is_damage(&failure) {
        return error::corrupt("index (open the store again to rebuild it)", None).with_source(failure);
    }
    let error = match system_error(&failure) {
        Some(source) => {
            let code = source.raw_os_error();
            error::io("index", code.map_or_else(|| source.kind().into(), io::Error::from_raw_os_error))
        }
        None => Error::unavailable("the index is in use, or a write to it failed"),
    };
    error.with_source(failure)
}

/// The system's error that fjall's error stands for.
fn system_error(failure: &fjall::Error) -> Option<&io::Error> {
    let mut source: Option<&(dyn StdError + 'static)> = Some(failure);
    while let Some(error) = source {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        source = error.source();
    }
    None
}
