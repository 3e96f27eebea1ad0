//! The threads that read, each on its own connection. No read holds a snapshot for longer than the configured time.

#![expect(clippy::disallowed_methods, reason = "how long a snapshot is held is real time")]

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rusqlite::{Connection, config::DbConfig};
use store_core::{Error, Result};
use tokio::sync::oneshot;

use crate::{database_file::DatabaseFile, error::sql_error, schema, sql};

/// The largest number of reading threads.
const MAX_THREADS: usize = 4;
/// The number of steps that SQLite runs between two checks of the clock.
const STEPS_BETWEEN_CLOCK_CHECKS: i32 = 1_000;

/// Lets reads begin only while it is open. The writer closes it when the WAL has become long: the WAL can be restarted
/// when no read is running.
#[derive(Debug, Default)]
pub(crate) struct ReadGate {
    state: Mutex<GateState>,
    opened: Condvar,
    /// The number of pages in the WAL while a read prevents its restart.
    blocked_pages: AtomicI32,
}

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    /// Whether a read has waited for the gate for as long as a read may take. If so, all reads of this library have
    /// ended, so another program still reads. The gate then stays open, because the WAL cannot be restarted anyway.
    is_held_by_other_program: bool,
}

impl ReadGate {
    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the gate, unless another program prevents the restart of the WAL. Returns whether the gate is closed.
    pub(crate) fn close(&self) -> bool {
        let mut state = self.lock();
        state.is_closed = !state.is_held_by_other_program;
        state.is_closed
    }

    /// Opens the gate after the WAL was restarted.
    pub(crate) fn open(&self) {
        *self.lock() = GateState::default();
        self.blocked_pages.store(0, Ordering::SeqCst);
        self.opened.notify_all();
    }

    /// Notes that a read still prevents the restart of the WAL.
    pub(crate) fn set_blocked_pages(&self, pages: i32) {
        self.blocked_pages.store(pages, Ordering::SeqCst);
    }

    pub(crate) fn blocked_pages(&self) -> i32 {
        self.blocked_pages.load(Ordering::SeqCst)
    }

    /// Waits until the gate is open, but no longer than a read may take.
    fn wait_until_open(&self, time_limit: Duration) {
        let wait_result = self.opened.wait_timeout_while(self.lock(), time_limit, |state| state.is_closed);
        let (mut state, timeout_result) = wait_result.unwrap_or_else(PoisonError::into_inner);
        if timeout_result.timed_out() {
            *state = GateState { is_closed: false, is_held_by_other_program: true };
            self.opened.notify_all();
        }
    }
}

/// A read. It gets `None` if no connection can be opened.
type ReadJob = Box<dyn FnOnce(Option<&Connection>) + Send>;

/// The reads that wait for a thread, and the threads.
#[derive(Default)]
struct ReaderQueue {
    jobs: VecDeque<ReadJob>,
    idle_threads: usize,
    threads: Vec<JoinHandle<()>>,
    is_closed: bool,
}

/// The state that the handle and the reading threads share.
struct SharedReaders {
    state: Mutex<ReaderQueue>,
    woken: Condvar,
    /// Kept until the last thread has closed its connection.
    database_file: Arc<DatabaseFile>,
}

impl SharedReaders {
    fn lock(&self) -> MutexGuard<'_, ReaderQueue> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The handle of the reading threads.
pub(crate) struct Readers {
    shared: Mutex<Option<Arc<SharedReaders>>>,
    store_context: Arc<crate::tenant::StoreContext>,
    time_limit: Duration,
}

impl fmt::Debug for Readers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readers").finish_non_exhaustive()
    }
}

impl Readers {
    pub(crate) fn new(
        database_file: Arc<DatabaseFile>,
        store_context: Arc<crate::tenant::StoreContext>,
        time_limit: Duration,
    ) -> Self {
        let (state, woken) = (Mutex::default(), Condvar::new());
        Self {
            shared: Mutex::new(Some(Arc::new(SharedReaders { state, woken, database_file }))),
            store_context,
            time_limit,
        }
    }

    fn shared(&self) -> Result<Arc<SharedReaders>> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.as_ref().map(Arc::clone).ok_or_else(Error::closed)
    }

    /// Returns the file that is read.
    pub(crate) fn database_file(&self) -> Result<Arc<DatabaseFile>> {
        Ok(Arc::clone(&self.shared()?.database_file))
    }

    /// Runs a read on one snapshot, for no longer than a read may take (SQ-5).
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let (time_limit, store_context) = (self.time_limit, Arc::clone(&self.store_context));
        let job = move |conn: Option<&Connection>| {
            store_context.read_gate.wait_until_open(time_limit);
            let read = match conn {
                // No caller waits for the answer.
                _ if reply.is_closed() => return,
                Some(conn) => run_on_snapshot(conn, time_limit, call),
                None => Err(Error::unavailable("no further connection to the file can be opened")),
            };
            // A caller that no longer waits needs no answer.
            let _unreceived = reply.send(read);
        };
        self.shared()?.put(Box::new(job))?;
        answer.await.map_err(|error| Error::closed().with_source(error))?
    }

    /// Tells the threads to end after all requested reads, and waits until they have ended.
    pub(crate) fn close_and_wait(&self) {
        self.close().into_iter().for_each(|thread| drop(thread.join()));
    }

    /// Tells the threads to end after all requested reads. Returns the threads.
    fn close(&self) -> Vec<JoinHandle<()>> {
        let shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(shared) = shared else { return Vec::new() };
        let threads = {
            let mut state = shared.lock();
            state.is_closed = true;
            std::mem::take(&mut state.threads)
        };
        shared.woken.notify_all();
        threads
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.close();
    }
}

impl SharedReaders {
    fn put(self: &Arc<Self>, job: ReadJob) -> Result<()> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(Error::closed());
        }
        state.jobs.push_back(job);
        if state.idle_threads < state.jobs.len() && state.threads.len() < MAX_THREADS {
            let shared = Arc::clone(self);
            let builder = thread::Builder::new().name("agentstore-reader".to_owned());
            match builder.spawn(move || shared.serve()) {
                Ok(thread) => state.threads.push(thread),
                Err(e) if state.threads.is_empty() => {
                    return Err(Error::unavailable("the system cannot start another thread").with_source(e));
                }
                Err(_) => {}
            }
        }
        drop(state);
        self.woken.notify_one();
        Ok(())
    }

    fn serve(&self) {
        let mut conn = None;
        while let Some(job) = self.next() {
            if conn.is_none() {
                conn = connect(&self.database_file.path).ok();
            }
            job(conn.as_ref());
        }
        drop(conn);
    }

    fn next(&self) -> Option<ReadJob> {
        let mut state = self.lock();
        state.idle_threads += 1;
        let mut state = self
            .woken
            .wait_while(state, |state| state.jobs.is_empty() && !state.is_closed)
            .unwrap_or_else(PoisonError::into_inner);
        state.idle_threads -= 1;
        state.jobs.pop_front()
    }
}

fn connect(path: &std::path::Path) -> Result<Connection> {
    let conn = schema::open_reader(path)?;
    // Otherwise the last connection to close would checkpoint the WAL. That is the task of the writer.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(sql_error)?;
    Ok(conn)
}

fn run_on_snapshot<T>(
    conn: &Connection,
    time_limit: Duration,
    call: impl FnOnce(&Connection) -> Result<T>,
) -> Result<T> {
    let until = Instant::now() + time_limit;
    conn.progress_handler(STEPS_BETWEEN_CLOCK_CHECKS, Some(move || Instant::now() > until)).map_err(sql_error)?;
    let run = |text| conn.prepare_cached(text).and_then(|mut statement| statement.execute([])).map_err(sql_error);
    let read = run(sql::BEGIN_READ).and_then(|_| call(conn));
    conn.progress_handler(STEPS_BETWEEN_CLOCK_CHECKS, None::<fn() -> bool>).map_err(sql_error)?;
    if !conn.is_autocommit() {
        run(sql::ROLLBACK)?;
    }
    read
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use store_core::{ErrorKind, Store};

    use crate::{SqliteConfig, SqliteMailbox};

    /// A statement that counts without end.
    const ENDLESS: &str = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";

    /// A read that exceeds its time limit ends with `Unavailable` (SQ-5), and the next one works.
    #[tokio::test]
    async fn a_read_ends_within_its_time_limit() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = SqliteConfig::new(folder.path().join("mailbox.db"));
        config.max_read_time = Duration::from_millis(50);
        let store = SqliteMailbox::open(config).await.unwrap();
        let readers = &store.state.shared.readers;
        let began = Instant::now();
        let endless_read =
            readers.read(|conn| crate::rows::query_one(conn, ENDLESS, [], |row| crate::rows::get::<i64>(row, 0)));
        assert_eq!(endless_read.await.unwrap_err().kind(), ErrorKind::Unavailable);
        assert!(began.elapsed() < Duration::from_secs(5));
        let next_read =
            readers.read(|conn| crate::rows::query_one(conn, "SELECT 2", [], |row| crate::rows::get::<i64>(row, 0)));
        assert_eq!(next_read.await.unwrap(), Some(2));
        store.close().await.unwrap();
    }
}
