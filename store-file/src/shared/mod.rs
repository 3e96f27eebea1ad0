//! What all handles of an opened store share.

mod checks;
mod tenants;

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    io,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, TryLockError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use store_core::{
    Capabilities, Clock, CursorKey, Detail, Error, EventDelivery, Limits, Result, Scope, Survives, TenantId, Timestamp,
    event::Followers,
};

pub(crate) use self::{checks::objection, tenants::TenantState};
use crate::{
    config::{Durability, FileConfig},
    damage::Damage,
    error,
    files::Files,
    index::{Changes, Index},
    journal::{Failure, Follower, Journal},
    lock::Lock,
    meta::Meta,
    mutex::guard,
    names::tenant_folder,
    pool::Pool,
    readers::Readers,
    recent::Recent,
    remembered::Remembered,
    report::Opening,
    staged::Staged,
    table,
    vfs::{Cold, Vfs},
    watch::Watch,
};

/// An opened root.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) vfs: Arc<dyn Vfs>,
    /// The disk of `vfs`, to compress logs on; none for a read-only opening.
    pub(crate) cold: Option<Cold>,
    pub(crate) config: FileConfig,
    pub(crate) meta: Meta,
    pub(crate) index: Arc<Index>,
    pub(crate) pool: Pool,
    pub(crate) files: Arc<Files>,
    pub(crate) time: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) capabilities: Capabilities,
    pub(crate) cursor_key: CursorKey,
    /// The lock on the root; none for a read-only opening.
    pub(crate) lock: Option<Lock>,
    /// None for a read-only opening.
    pub(crate) journal: Option<Journal>,
    pub(crate) next_log: AtomicU64,
    /// What the writer remembers. Held while a round is planned, and until the round before it is committed.
    pub(crate) writer: Mutex<Remembered>,
    /// Held while a round is committed. Taken after `writer`, if both are taken.
    pub(crate) committing: Mutex<()>,
    /// The number of the last change of a thread. Held while changes are made visible, so that a reader can tell by the
    /// number which changes it saw.
    changes: Mutex<u64>,
    checked: Mutex<HashSet<u64>>,
    pub(crate) tenants: Mutex<HashMap<TenantId, Arc<TenantState>>>,
    /// Threads that cannot be read, and why.
    pub(crate) damage: Damage,
    /// What the opening has found and done.
    pub(crate) opening: Opening,
    /// The calls that read now.
    pub(crate) readers: Readers,
    pub(crate) followers: Followers<(TenantId, Scope)>,
    /// Where a store that is open for reading has come to in the journal of the holder. Held while a call reads what
    /// the holder wrote.
    pub(crate) following: Mutex<Option<Follower>>,
    /// Tells a store that is open for reading that the holder has written.
    pub(crate) watch: Watch,
    /// Tenants with something to purge, while a purge runs in the background; none if no such purge runs.
    pub(crate) behind: Mutex<Option<BTreeSet<TenantId>>>,
    pub(crate) closed: AtomicBool,
    /// How the last steps of the close ended, which are made once.
    finished: OnceLock<Option<Detail>>,
    /// The time since which nothing is written any more. A failed flush poisons the journal first, and the store at its
    /// next use of the journal. A failed index poisons only the store.
    poisoned: RwLock<Option<Timestamp>>,
}

/// Exclusive use of what the writer writes.
pub(crate) struct Exclusive<'a> {
    // Dropped first: a thread that gets `remembered` then waits for this lock only if a round is being committed.
    _committing: MutexGuard<'a, ()>,
    pub(crate) remembered: MutexGuard<'a, Remembered>,
}

/// What an opening has found and made.
pub(crate) struct Parts {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) cold: Option<Cold>,
    pub(crate) meta: Meta,
    pub(crate) index: Arc<Index>,
    pub(crate) files: Arc<Files>,
    pub(crate) lock: Option<Lock>,
    pub(crate) journal: Option<Journal>,
    pub(crate) next_log: u64,
    pub(crate) damage: Damage,
    pub(crate) opening: Opening,
    pub(crate) follower: Option<Follower>,
}

impl Shared {
    pub(crate) fn new(parts: Parts, config: FileConfig) -> Self {
        let Parts { vfs, cold, meta, index, files, lock, journal, next_log, damage, opening, follower } = parts;
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
            files,
            time: Arc::clone(&config.clock),
            capabilities: Capabilities::new(survives, limits.record_bytes).with_event_delivery(delivery).with_fencing(),
            cursor_key: CursorKey::new(cursor_key(&meta)),
            limits,
            vfs,
            cold,
            config,
            meta,
            index,
            lock,
            journal,
            next_log: AtomicU64::new(next_log),
            writer: Mutex::default(),
            committing: Mutex::default(),
            changes: Mutex::new(first_change),
            checked: Mutex::default(),
            tenants: Mutex::default(),
            damage,
            opening,
            readers: Readers::default(),
            followers: Followers::default(),
            following: Mutex::new(follower),
            watch: Watch::default(),
            behind: Mutex::default(),
            closed: AtomicBool::new(false),
            finished: OnceLock::new(),
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

    /// Refuses writes after a failed sync or write.
    pub(crate) fn check_sound(&self) -> Result<()> {
        match *self.poisoned.read().unwrap_or_else(PoisonError::into_inner) {
            Some(since) => Err(Error::new(Detail::Poisoned { what: "the store".to_owned(), since })),
            None => Ok(()),
        }
    }

    /// A sync or write failed: it is unknown what is durable, and nothing is written any more (FI-6).
    pub(crate) fn poison(&self) {
        let mut poisoned = self.poisoned.write().unwrap_or_else(PoisonError::into_inner);
        poisoned.get_or_insert(self.time.now());
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// The journal, of a store that is open for writing.
    pub(crate) fn journal(&self) -> Result<&Journal> {
        self.journal.as_ref().ok_or_else(Error::closed)
    }

    /// The error of a batch that was not committed, or may not be. If it is unknown whether the batch was committed,
    /// the store is poisoned.
    pub(crate) fn journal_failed(&self, failure: Failure) -> Error {
        match failure {
            Failure::Full(source) => Error::new(Detail::StorageFull).with_source(source),
            Failure::Refused(source) => error::io("the journal", source),
            Failure::Closed => Error::closed(),
            Failure::Failed(source) => {
                self.poison();
                Error::commit_unknown(None).with_source(error::io("the journal", source))
            }
            Failure::Poisoned => {
                self.poison();
                self.check_sound().err().unwrap_or_else(Error::closed)
            }
        }
    }

    /// The number of the next batch, which has space in the active half of the journal.
    ///
    /// # Errors
    /// `Poisoned` if the journal could not change halves: the call that asks has written nothing yet.
    pub(crate) fn next_batch(&self) -> Result<u64> {
        self.journal()?.prepare_next().map_err(|failure| match failure {
            Failure::Failed(source) => {
                self.poison();
                let refused = self.check_sound().err().unwrap_or_else(Error::closed);
                refused.with_source(error::io("the journal", source))
            }
            other => self.journal_failed(other),
        })
    }

    /// Removes the folder of a tenant that has nothing left. Files that the store did not put there stay, and the
    /// folder with them.
    pub(crate) fn remove_folder(&self, tenant: &TenantId) -> Result<()> {
        let folder = tenant_folder(tenant)?;
        match self.vfs.remove_dir(&folder) {
            Err(source) if !matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
                Err(error::io(&folder, source))
            }
            _ => Ok(()),
        }
    }

    /// Whether no round is being committed.
    pub(crate) fn can_commit(&self) -> bool {
        !matches!(self.committing.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Exclusive use of what the writer writes: no round is planned or committed until it is dropped.
    pub(crate) fn exclusive(&self) -> Exclusive<'_> {
        let mut remembered = guard(&self.writer);
        let committing = guard(&self.committing);
        // This forgets what was planned over a round that failed.
        remembered.settle();
        Exclusive { _committing: committing, remembered }
    }

    /// Shows changes to readers, all of them together. What was read and written need not be read again.
    pub(crate) fn show(&self, mut staged: Staged<'_>) -> Result<Recent> {
        self.number(&mut staged);
        let (changes, scopes, recent) = staged.into_parts();
        self.show_changes(&changes, &scopes)?;
        Ok(recent)
    }

    /// Gives changes the number that they have when they are the next ones that show.
    pub(crate) fn number(&self, staged: &mut Staged<'_>) {
        staged.number_changes(*guard(&self.changes) + 1);
    }

    /// Shows changes that have their number, and tells the followers of these scopes. If the index fails, the number
    /// stays used. This is harmless: the store is poisoned.
    pub(crate) fn show_changes(&self, changes: &Changes, scopes: &BTreeSet<(TenantId, Scope)>) -> Result<()> {
        let mut last = guard(&self.changes);
        *last += 1;
        self.index.apply(changes).inspect_err(|_| self.poison())?;
        drop(last);
        self.followers.notify(scopes);
        Ok(())
    }

    /// Wakes the callers that wait for work of a tenant, which may be claimable from a time on.
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

    /// Makes everything durable that was acknowledged (PR-19).
    pub(crate) fn sync(&self) -> Result<()> {
        self.journal()?.sync().map_err(|failure| self.journal_failed(failure))
    }

    /// The last steps of a close: everything is made durable, the index included, then the mark of a clean close is
    /// written (PR-8). Lock and files are let go also after an error. A second call returns the result of the first
    /// one.
    pub(crate) fn finish(&self) -> Result<()> {
        let mut first = Ok(());
        let ended = self.finished.get_or_init(|| {
            first = self.let_go();
            first.as_ref().err().map(|error| error.detail().clone())
        });
        first.and(ended.clone().map_or(Ok(()), |detail| Err(Error::new(detail))))
    }

    fn let_go(&self) -> Result<()> {
        let Some(lock) = &self.lock else { return self.index.close() };
        let settled = self.settle(lock);
        let settled = self.index.close().and(settled);
        let clean = settled.is_ok() && !self.is_poisoned();
        settled.and(lock.close(clean))
    }

    fn settle(&self, lock: &Lock) -> Result<()> {
        if self.is_poisoned() {
            return Ok(());
        }
        let mut staged = Staged::new(&self.index);
        staged.put(table::fact("session"), lock.session().to_be_bytes());
        self.index.apply(&staged.into_changes())?;
        // Logs and index become durable, and the journal empty.
        self.journal()?.close().map_err(|failure| self.journal_failed(failure))
    }
}

impl Drop for Shared {
    /// Dropping the last handle closes the store without a result (PR-8). A caller that needs the result calls `close`.
    fn drop(&mut self) {
        // A close whose future was dropped may have marked the store as closed, and no more.
        self.closed.store(true, Ordering::SeqCst);
        let _ = self.finish();
    }
}

/// Cursors of an earlier incarnation are refused (FI-12).
fn cursor_key(meta: &Meta) -> [u8; 32] {
    let mut key = *meta.key();
    for (byte, more) in key.iter_mut().zip(meta.incarnation().to_be_bytes()) {
        *byte ^= more;
    }
    key
}
