//! What all handles of an opened store share.

mod checks;
mod slots;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use store_core::{
    Capabilities, Clock, CursorKey, Detail, Error, EventDelivery, Limits, Result, Scope, Survives, TenantId, ThreadId,
    Timestamp,
    event::Followers,
    in_flight::AbandonedCalls,
    live::{LiveHub, Notifier},
    outbox,
};

pub(crate) use self::checks::{missing, objection};
use crate::{
    codec::Rows,
    config::{Durability, FileConfig},
    damage::Damage,
    error,
    files::Files,
    fold::Told,
    held::Resource,
    index::Index,
    lock::Lock,
    log::{AppendError, LogWriter},
    meta::Meta,
    opening::Opening,
    pool::Pool,
    readers::Readers,
    root::RootLog,
    rows::OutboxTable,
    staged::Staged,
    table,
    vfs::{FilePath, Open, Vfs, hash_of, name_of},
    writer,
};

/// A thread of a tenant.
pub(crate) type ThreadKey = (TenantId, ThreadId);

/// Which of the logs of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// The log of the thread, in its present generation.
    Thread,
    /// The log of generation 0: events that lie outside of commits, and what is known of scopes.
    Events,
}

impl Part {
    /// The part that a log of this generation is.
    pub(crate) const fn of(generation: u64) -> Self {
        if generation == 0 { Self::Events } else { Self::Thread }
    }

    /// The generation of the log.
    pub(crate) fn generation(self, told: &Told) -> u64 {
        match self {
            Self::Thread => told.stored.as_ref().map_or(1, |stored| stored.thread.generation()),
            Self::Events => 0,
        }
    }
}

/// A log that one writer at a time works on.
pub(crate) type LogKey = (TenantId, ThreadId, Part);

/// How many threads are kept loaded when there are twice as many; those in use come on top.
const LOADED_THREADS: usize = 256;

/// An opened root.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) config: FileConfig,
    pub(crate) meta: Meta,
    pub(crate) index: Index,
    pub(crate) pool: Pool,
    pub(crate) files: Files,
    pub(crate) time: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) capabilities: Capabilities,
    pub(crate) cursor_key: CursorKey,
    /// The lock on the root; none for a read-only opening.
    pub(crate) lock: Option<Lock>,
    pub(crate) root: Mutex<RootLog>,
    pub(crate) next_log: AtomicU64,
    /// The number of the last change of a thread. Held while changes are made visible, so that a number says what was
    /// visible when.
    changes: Mutex<u64>,
    slots: Mutex<HashMap<LogKey, Arc<Slot>>>,
    families: Mutex<HashMap<TenantId, Arc<Mutex<()>>>>,
    held: Mutex<HashSet<(TenantId, Resource)>>,
    freed: Condvar,
    checked: Mutex<HashSet<u64>>,
    folders: Mutex<HashSet<TenantId>>,
    pub(crate) tenants: Mutex<HashMap<TenantId, Arc<TenantState>>>,
    /// Logs with groups that are not durable yet. A key goes when its log is synced, and its slot is held then.
    pub(crate) dirty: Mutex<HashSet<LogKey>>,
    /// Held by whoever makes all of them durable: who comes second waits for what the first one has begun.
    syncing: Mutex<()>,
    /// Threads that cannot be read, and why.
    pub(crate) damage: Damage,
    /// What the opening has found and done.
    pub(crate) opening: Opening,
    /// Held by whoever removes what deletions left behind.
    pub(crate) purging: Mutex<()>,
    /// Held while something is written, so that the deletion of a tenant can wait for who began before it.
    pub(crate) writing: RwLock<()>,
    /// Who reads now.
    pub(crate) readers: Readers,
    pub(crate) followers: Followers<(TenantId, Scope)>,
    /// Held by whoever reads what others wrote, in a store that is open for reading.
    pub(crate) refreshing: Mutex<()>,
    /// Tenants with something to purge, while a purge goes on that nobody waits for.
    pub(crate) behind: Mutex<Option<BTreeSet<TenantId>>>,
    pub(crate) closed: AtomicBool,
    /// How the last steps of the close ended, which are made once.
    finished: OnceLock<Option<Detail>>,
    /// There is no reserve: it is to be taken when there is space.
    pub(crate) reserve_missing: AtomicBool,
    poisoned: RwLock<Option<Timestamp>>,
}

/// What all handles of a tenant share.
#[derive(Debug, Default)]
pub(crate) struct TenantState {
    /// How many deletions of the tenant began and were not refused: nothing is read or written any more if there is
    /// one.
    closing: AtomicU64,
    /// Held by who deletes the tenant.
    pub(crate) deleting: Mutex<()>,
    /// Calls that still run although nobody waits for them.
    pub(crate) abandoned: Arc<AbandonedCalls>,
    pub(crate) live: Arc<LiveHub>,
    /// Rung when something may be claimable.
    pub(crate) notifier: Notifier,
}

impl TenantState {
    /// Ends what waits for commands or for work.
    pub(crate) fn end_waits(&self) {
        self.live.close();
        self.notifier.notify(Timestamp::MIN);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closing.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn close(&self) {
        self.closing.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a close back whose deletion was refused.
    pub(crate) fn reopen(&self) {
        self.closing.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A thread that one writer at a time works on.
pub(crate) type Slot = Mutex<Option<Loaded>>;

/// A thread as its writer knows it.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) told: Told,
    /// The number and the end of its log; none before the first group.
    pub(crate) log: Option<(u64, LogWriter)>,
}

/// What an opening has found and made.
pub(crate) struct Parts {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) meta: Meta,
    pub(crate) index: Index,
    pub(crate) lock: Option<Lock>,
    pub(crate) root: RootLog,
    pub(crate) next_log: u64,
    pub(crate) damage: Damage,
    pub(crate) opening: Opening,
}

impl Shared {
    pub(crate) fn new(parts: Parts, config: FileConfig) -> Self {
        let Parts { vfs, meta, index, lock, root, next_log, damage, opening } = parts;
        let how = if config.read_only { Open::Read } else { Open::Write };
        let limits = Limits::default().at_most(&config.limits);
        // Above every number of an earlier opening.
        let first_change = lock.as_ref().map_or(0, Lock::session) << 40;
        let delivery = if config.read_only { EventDelivery::Poll } else { EventDelivery::Push };
        let survives = match config.durability {
            Durability::Sync => Survives::Power,
            Durability::Interval(_) | Durability::None => Survives::Process,
        };
        Self {
            pool: Pool::new(config.threads),
            files: Files::new(Arc::clone(&vfs), how, config.open_files),
            time: Arc::clone(&config.clock),
            capabilities: Capabilities::new(survives, limits.record_bytes).with_event_delivery(delivery).with_fencing(),
            cursor_key: CursorKey::new(cursor_key(&meta)),
            limits,
            vfs,
            config,
            meta,
            index,
            lock,
            root: Mutex::new(root),
            next_log: AtomicU64::new(next_log),
            changes: Mutex::new(first_change),
            slots: Mutex::default(),
            families: Mutex::default(),
            held: Mutex::default(),
            freed: Condvar::new(),
            checked: Mutex::default(),
            folders: Mutex::default(),
            tenants: Mutex::default(),
            dirty: Mutex::default(),
            syncing: Mutex::new(()),
            damage,
            opening,
            purging: Mutex::new(()),
            writing: RwLock::new(()),
            readers: Readers::default(),
            followers: Followers::default(),
            refreshing: Mutex::new(()),
            behind: Mutex::default(),
            closed: AtomicBool::new(false),
            finished: OnceLock::new(),
            reserve_missing: AtomicBool::new(false),
            poisoned: RwLock::new(None),
        }
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::SeqCst) { Err(Error::closed()) } else { Ok(()) }
    }

    /// Refuses writes to a store that takes none.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.config.read_only {
            return Err(Error::new(Detail::Unsupported { operation: "writing to a store opened for reading" }));
        }
        self.check_sound()
    }

    /// Refuses writes behind a failed sync or write.
    pub(crate) fn check_sound(&self) -> Result<()> {
        match *self.poisoned.read().unwrap_or_else(PoisonError::into_inner) {
            Some(since) => Err(Error::new(Detail::Poisoned { what: "the store".to_owned(), since })),
            None => Ok(()),
        }
    }

    /// A sync or write failed: nobody knows what is durable, and nothing is written any more (FI-6).
    pub(crate) fn poison(&self) {
        let mut poisoned = self.poisoned.write().unwrap_or_else(PoisonError::into_inner);
        poisoned.get_or_insert(self.time.now());
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The error of a failed append; `key` is that of a commit.
    pub(crate) fn append_failed(&self, failed: AppendError, path: &FilePath) -> Error {
        match failed {
            AppendError::Full(source) => Error::new(Detail::StorageFull).with_source(source),
            AppendError::Refused(source) => error::io(path, source),
            AppendError::Failed(source) => self.write_failed(path, source),
        }
    }

    /// The error of a failed write or sync, after which the store is poisoned.
    pub(crate) fn write_failed(&self, path: &FilePath, source: io::Error) -> Error {
        self.poison();
        Error::commit_unknown(None).with_source(error::io(path, source))
    }

    /// Where a thread's log is.
    pub(crate) fn log_path(tenant: &TenantId, thread: &ThreadId, generation: u64) -> Result<FilePath> {
        Self::folder(tenant)?.join(&format!("{}.{generation}.jsonl", name_of(thread.as_str())))
    }

    /// Where a tenant's logs are. Its name does not show: errors name files, and go to the tenant's callers (TN-3).
    pub(crate) fn folder(tenant: &TenantId) -> Result<FilePath> {
        FilePath::new(format!("tenants/{}", hash_of(tenant.as_str())))
    }

    /// Removes the folder of a tenant that has nothing left.
    pub(crate) fn remove_folder(&self, tenant: &TenantId) -> Result<()> {
        let mut folders = guard(&self.folders);
        folders.remove(tenant);
        let folder = Self::folder(tenant)?;
        match self.vfs.remove_dir(&folder) {
            // What others put there stays, and the folder with it.
            Err(source) if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
                Ok(())
            }
            Err(source) => Err(error::io(&folder, source)),
            Ok(()) => self.sync_names(&folder.parent()),
        }
    }

    /// Makes the names in a folder durable. Where that fails the store is poisoned: a second try would not tell (FI-6).
    pub(crate) fn sync_names(&self, folder: &FilePath) -> Result<()> {
        self.vfs.sync_dir(folder).map_err(|source| self.write_failed(folder, source))
    }

    /// Makes the folder of a tenant, once.
    pub(crate) fn ensure_folder(&self, tenant: &TenantId) -> Result<()> {
        // Held meanwhile: two that make one folder at a time get in each other's way.
        let mut folders = guard(&self.folders);
        if folders.contains(tenant) {
            return Ok(());
        }
        let folder = Self::folder(tenant)?;
        for folder in [&folder.parent(), &folder] {
            match self.vfs.create_dir(folder) {
                Err(source) if source.kind() != io::ErrorKind::AlreadyExists => return Err(error::io(folder, source)),
                // One that is there may have been made just before a crash, and not be durable.
                Ok(()) | Err(_) => self.sync_names(&folder.parent())?,
            }
        }
        folders.insert(tenant.clone());
        Ok(())
    }

    /// Shows changes to readers, all of them together.
    pub(crate) fn show(&self, mut staged: Staged<'_>) -> Result<()> {
        let mut last = guard(&self.changes);
        self.settle_groups(&mut staged).inspect_err(|_| self.poison())?;
        let (mut changes, touched, scopes) = staged.into_parts();
        *last += 1;
        for log in touched {
            changes.put(table::changed(log), last.to_be_bytes());
        }
        self.index.apply(changes).inspect_err(|_| self.poison())?;
        drop(last);
        self.followers.notify(&scopes);
        Ok(())
    }

    /// Settles which rows of the outbox are next in their groups, over what everybody has shown.
    fn settle_groups(&self, staged: &mut Staged<'_>) -> Result<()> {
        let groups = staged.groups();
        if !groups.is_empty() {
            staged.forget_found();
        }
        let settle = |(tenant, group)| outbox::update_ready_row(&mut OutboxTable::new(staged, &tenant), &group);
        groups.into_iter().try_for_each(settle)
    }

    /// Wakes who waits for work of a tenant that may be claimable from a time on.
    pub(crate) fn notify(&self, tenant: &TenantId, from: Timestamp) {
        let state = guard(&self.tenants).get(tenant).cloned();
        if let Some(state) = state {
            state.notifier.notify(from);
        }
    }

    /// The number of the last change that readers see.
    pub(crate) fn last_change(&self) -> u64 {
        *guard(&self.changes)
    }

    /// The log of a thread stays open as long as it is not durable: so that open files have a bound, all of them are
    /// synced when they are many (FI-13).
    pub(crate) fn sync_if_many_are_dirty(&self) -> Result<()> {
        let many = guard(&self.dirty).len() > LOADED_THREADS;
        if many { self.sync_dirty() } else { Ok(()) }
    }

    /// Makes every group that was acknowledged durable (PR-19).
    pub(crate) fn sync_dirty(&self) -> Result<()> {
        let _syncing = guard(&self.syncing);
        let keys: Vec<LogKey> = guard(&self.dirty).iter().cloned().collect();
        // One that cannot be synced keeps no other from it.
        keys.iter().map(|key| self.sync_log(key)).fold(Ok(()), Result::and)
    }

    /// Makes the log of a thread durable, before another one refers to it: with relaxed durability a power cut must not
    /// take a thread or a run and leave what names it. Takes no slot, so that two threads may name each other.
    pub(crate) fn settle_named(&self, key: &ThreadKey, generation: u64) -> Result<()> {
        if !guard(&self.dirty).contains(&(key.0.clone(), key.1.clone(), Part::of(generation))) {
            return Ok(());
        }
        let path = Self::log_path(&key.0, &key.1, generation)?;
        let file = self.files.open_to_read(&path).map_err(|source| missing(&path, source))?;
        file.sync_data().map_err(|source| self.write_failed(&path, source))?;
        self.sync_names(&path.parent())
    }

    /// The same for a log of this number.
    pub(crate) fn settle_log(&self, log: u64) -> Result<()> {
        if guard(&self.dirty).is_empty() {
            return Ok(());
        }
        let row = self.index.any_log_row(log)?.ok_or_else(|| crate::codec::damaged("log"))?;
        self.settle_named(&(row.tenant, row.thread), row.generation)
    }

    fn sync_log(&self, key: &LogKey) -> Result<()> {
        self.check_sound()?;
        let slot = self.slot(key);
        let mut slot = guard(&slot);
        // The writer may have let go of the thread.
        let loaded = match slot.take() {
            Some(loaded) => loaded,
            None => writer::load(self, key)?,
        };
        let Loaded { told, log } = slot.insert(loaded);
        // A thread that was deleted has no log.
        if let Some((log, writer)) = log {
            let generation = key.2.generation(told);
            writer.sync(&*self.vfs).map_err(|source| self.write_failed(writer.path(), source))?;
            let mut staged = Staged::new(&self.index);
            let owner = crate::fold::Owner { tenant: key.0.clone(), thread: key.1.clone(), generation, log: *log };
            crate::fold::put_log(&mut staged, &owner, writer.position(), writer.synced());
            self.index.apply(staged.into_changes())?;
        }
        guard(&self.dirty).remove(key);
        Ok(())
    }

    /// The last steps of a close: everything durable, the index included, then the mark that says so (PR-8). Lock and
    /// files are let go whatever happens. Whoever calls it again is told how that ended.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut first = Ok(());
        let ended = self.finished.get_or_init(|| {
            first = self.let_go();
            first.as_ref().err().map(|error| error.detail().clone())
        });
        first.and(ended.clone().map_or(Ok(()), |detail| Err(Error::new(detail))))
    }

    fn let_go(&self) -> Result<()> {
        let Some(lock) = &self.lock else { return Ok(()) };
        let settled = self.settle(lock);
        let settled = self.index.close().and(settled);
        let clean = settled.is_ok() && !self.is_poisoned();
        settled.and(lock.close(clean))
    }

    fn settle(&self, lock: &Lock) -> Result<()> {
        if self.is_poisoned() {
            return Ok(());
        }
        self.sync_dirty()?;
        let mut staged = Staged::new(&self.index);
        staged.put(table::fact("session"), lock.session().to_be_bytes());
        self.index.apply(staged.into_changes())?;
        self.index.persist()
    }
}

impl Drop for Shared {
    /// Dropping the last handle closes the store without telling (PR-8): who wants to know calls `close`.
    fn drop(&mut self) {
        // A close whose future was dropped may have marked it as closed, and no more.
        self.closed.store(true, Ordering::SeqCst);
        let _ = self.finish();
    }
}

/// Returns the guard of a lock, even if a holder of the lock panicked. The caller checks the guarded data.
pub(crate) fn guard<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Cursors of an earlier incarnation are refused (FI-12).
fn cursor_key(meta: &Meta) -> [u8; 32] {
    let mut key = *meta.key();
    for (byte, more) in key.iter_mut().zip(meta.incarnation().to_be_bytes()) {
        *byte ^= more;
    }
    key
}
