//! The database file and the files beside it: which processes have it open, which one writes next, and recovery from a
//! failed sync.
//!
//! This module never opens the database file while SQLite has it open in this process: closing it would release the
//! locks that SQLite holds.

#![expect(clippy::disallowed_methods, reason = "waiting for other processes takes real time")]

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

use store_core::{Detail, Error, Result, SchemaRemedy, Timestamp};

use crate::{
    config::{Create, SqliteConfig},
    error,
};

/// How long a process waits for the lock that lets it write next.
const WRITE_LOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an opening waits for other openings of the file to be closed.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// The files that are open in this process.
static OPEN_FILES: Mutex<BTreeMap<PathBuf, Weak<DatabaseFile>>> = Mutex::new(BTreeMap::new());

/// A database file that is open in this process, possibly several times.
#[derive(Debug)]
pub(crate) struct DatabaseFile {
    pub(crate) path: PathBuf,
    /// Each process that has the database open holds a lock on this file: a shared one, or an exclusive one.
    _users: File,
    /// Locked by the process that writes next. Without this lock, a process that writes often could keep all others
    /// from writing.
    next_writer: File,
    is_exclusive: bool,
    poisoned: AtomicBool,
}

/// Returns the path of a file beside the database.
fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn open_files() -> MutexGuard<'static, BTreeMap<PathBuf, Weak<DatabaseFile>>> {
    OPEN_FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a file that other processes may also open. A new file is accessible to its owner only.
fn open_or_create(path: &Path) -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    opened.map_err(|e| error::file_error(path, e))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    let path_error = |e| error::file_error(path, e);
    if let Ok(found) = fs::canonicalize(path) {
        return Ok(found);
    }
    let name = path.file_name().ok_or_else(|| Error::invalid("path", "it does not name a file"))?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok(fs::canonicalize(folder).map_err(path_error)?.join(name))
}

impl DatabaseFile {
    /// Prepares the database file that a configuration names, so that SQLite can open it. The first opening in this
    /// process checks the header and recovers from a failed sync.
    pub(crate) fn open(config: &SqliteConfig) -> Result<Arc<Self>> {
        let path = absolute(&config.path)?;
        let is_exclusive = config.clock.is_some();
        let until = Instant::now() + OPEN_TIMEOUT;
        loop {
            let mut open_files = open_files();
            match open_files.get(&path).and_then(Weak::upgrade) {
                None => {
                    let database_file = Arc::new(Self::open_first(&path, is_exclusive, config.create)?);
                    open_files.retain(|_, database_file| database_file.strong_count() > 0);
                    open_files.insert(path, Arc::downgrade(&database_file));
                    return Ok(database_file);
                }
                Some(database_file) if !database_file.is_poisoned() && database_file.is_exclusive == is_exclusive => {
                    return Ok(database_file);
                }
                Some(database_file) if Instant::now() > until => {
                    let reason = match database_file.is_poisoned() {
                        true => "a sync failed while the mailbox was open: close it in all processes first",
                        false => "the mailbox is open in this process with another clock",
                    };
                    return Err(Error::unavailable(reason));
                }
                Some(_) => {}
            }
            drop(open_files);
            sleep(Duration::from_millis(5));
        }
    }

    fn open_first(path: &Path, is_exclusive: bool, create: Create) -> Result<Self> {
        if create == Create::Never && !path.exists() {
            return Err(Error::schema_mismatch("none", "a mailbox created by agentstore", SchemaRemedy::Create));
        }
        check_header(path)?;
        let users = open_or_create(&sibling(path, "-users"))?;
        let poison_file = sibling(path, "-poisoned");
        // Recovery needs exclusive access.
        if poison_file.exists() {
            lock(
                || users.try_lock(),
                OPEN_TIMEOUT,
                "a sync failed while the mailbox was open: close it in all processes first",
            )?;
            copy_to_new_files(path)?;
            fs::remove_file(&poison_file).map_err(|e| error::file_error(&poison_file, e))?;
            users.unlock().map_err(|e| error::file_error(path, e))?;
        }
        if is_exclusive {
            lock(|| users.try_lock(), OPEN_TIMEOUT, "another process has the mailbox open")?;
        } else {
            lock(|| users.try_lock_shared(), OPEN_TIMEOUT, "another process has exclusive use of the mailbox")?;
        }
        if !path.exists() {
            open_or_create(path)?;
            sync_folder(path)?;
        }
        let next_writer = open_or_create(&sibling(path, "-next"))?;
        Ok(Self { path: path.to_owned(), _users: users, next_writer, is_exclusive, poisoned: AtomicBool::new(false) })
    }

    /// Returns the path of the file that is opened for writing and closed again to notify other processes of changes.
    pub(crate) fn notify_file(&self) -> PathBuf {
        sibling(&self.path, "-users")
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::SeqCst)
    }

    /// Stops all writes after a failed sync. Creates a file that tells the next opening about the failed sync, even
    /// after a crash.
    pub(crate) fn poison(&self) {
        self.poisoned.store(true, Ordering::SeqCst);
        // On a failing disk this may fail as well. The flag in memory is set in any case.
        let _marked = open_or_create(&sibling(&self.path, "-poisoned")).map(|mark| mark.sync_all());
    }

    /// Waits for the lock that lets this process write next. If the lock does not become free in time, the process
    /// writes without it: correctness depends only on SQLite's own lock.
    pub(crate) fn lock_for_next_write(&self) -> NextWriteLock<'_> {
        let _in_time = lock(|| self.next_writer.try_lock(), WRITE_LOCK_TIMEOUT, "other processes write");
        NextWriteLock(&self.next_writer)
    }
}

/// The lock that lets a process write next. It is released when this value is dropped.
pub(crate) struct NextWriteLock<'a>(&'a File);

impl Drop for NextWriteLock<'_> {
    fn drop(&mut self) {
        let _unlocked = self.0.unlock();
    }
}

/// Repeats `try_lock` until it takes the lock. After `timeout`, returns `Unavailable` with this reason.
fn lock(try_lock: impl Fn() -> std::result::Result<(), TryLockError>, timeout: Duration, reason: &str) -> Result<()> {
    let (until, mut pause) = (Instant::now() + timeout, Duration::from_micros(100));
    loop {
        match try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(pause),
            Err(TryLockError::WouldBlock) => return Err(Error::unavailable(reason)),
            Err(TryLockError::Error(e)) => {
                return Err(Error::unavailable("the file system does not support locks").with_source(e));
            }
        }
        pause = (pause * 2).min(Duration::from_millis(1));
    }
}

/// Refuses a file that is not a mailbox. The error says what the file is, and the file is not changed (SQ-3). SQLite
/// would also detect such a file. But if the file is a database with a WAL, SQLite would first move the WAL into the
/// database.
fn check_header(path: &Path) -> Result<()> {
    let mut header = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(100).read_to_end(&mut header).map_err(|e| error::file_error(path, e))?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(error::file_error(path, e)),
    };
    if header.is_empty() {
        return Ok(());
    }
    if !header.starts_with(b"SQLite format 3\0") {
        return Err(crate::schema::mismatch_error("a file that is not an SQLite database"));
    }
    let number = |at: usize| header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_be_bytes);
    // The places of these two numbers are part of SQLite's file format.
    let (application_id, user_version) = (number(68).unwrap_or_default(), number(60).unwrap_or_default());
    crate::schema::check_identity(application_id, user_version)
}

/// Copies the database and its WAL to new files, and syncs them (SQ-7). After a failed sync it is unknown what the old
/// files contain on the disk. A read does not show that, because the system may have discarded what it could not write.
fn copy_to_new_files(path: &Path) -> Result<()> {
    for file in [path.to_owned(), sibling(path, "-wal")] {
        let copy = sibling(&file, "-new");
        match fs::copy(&file, &copy) {
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(error::file_error(&file, e)),
        }
        let replaced = open_or_create(&copy)?.sync_all().and_then(|()| fs::rename(&copy, &file));
        replaced.map_err(|e| error::file_error(&copy, e))?;
    }
    sync_folder(path)
}

fn sync_folder(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(|e| error::file_error(folder, e))
}

/// Returns the error of a mailbox that has refused all writes since this time.
pub(crate) fn poisoned_error(since: Timestamp) -> Error {
    Error::new(Detail::Poisoned { what: "the mailbox".to_owned(), since })
}
