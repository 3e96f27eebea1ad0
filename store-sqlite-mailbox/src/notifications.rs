//! Notifies waiting processes of changes.
//!
//! After a commit a process opens a file beside the database for writing and closes it, without writing anything. The
//! system notifies waiting processes of that (`inotify`). On systems without `inotify`, a process checks every few
//! milliseconds whether another process has committed, but only while it has a waiting caller.

use std::{
    fmt,
    fs::OpenOptions,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rusqlite::Connection;
use store_core::Timestamp;

use crate::{schema, store::Tenants};

/// The shortest interval between two notifications of the waiting callers of this process.
const MIN_NOTIFY_INTERVAL: Duration = Duration::from_millis(2);
/// The polling interval on systems without notifications.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The interval at which, on such systems, the thread checks whether a caller waits.
const IDLE_INTERVAL: Duration = Duration::from_millis(50);

/// Notifies other processes.
pub(crate) fn notify_other_processes(notify_file: &Path) {
    // A waiting caller that misses the notification looks for changes once a second.
    let _notified = OpenOptions::new().write(true).open(notify_file);
}

/// Receives notifications of other processes, from the first wait on.
pub(crate) struct Notifications {
    listener: Arc<Listener>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Listener {
    tenants: Weak<Tenants>,
    notify_file: PathBuf,
    database_path: PathBuf,
    is_closed: AtomicBool,
    waiter_count: AtomicUsize,
}

/// A guard for a waiting caller. While it exists, the caller is counted as waiting.
pub(crate) struct Waiter<'a>(&'a AtomicUsize);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl fmt::Debug for Notifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notifications").field("notify_file", &self.listener.notify_file).finish_non_exhaustive()
    }
}

impl Notifications {
    pub(crate) fn new(tenants: Weak<Tenants>, notify_file: PathBuf, database_path: PathBuf) -> Self {
        let (is_closed, waiter_count) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self {
            listener: Arc::new(Listener { tenants, notify_file, database_path, is_closed, waiter_count }),
            thread: Mutex::default(),
        }
    }

    /// Receives notifications of other processes at least until the returned guard is dropped.
    pub(crate) fn listen(&self) -> Waiter<'_> {
        self.listener.waiter_count.fetch_add(1, Ordering::SeqCst);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && !self.listener.is_closed.load(Ordering::SeqCst) {
            let listener = Arc::clone(&self.listener);
            // Without the thread, waiting callers look for changes once a second.
            *thread = thread::Builder::new().name("agentstore-news".to_owned()).spawn(move || listener.serve()).ok();
        }
        Waiter(&self.listener.waiter_count)
    }

    /// Tells the thread to end, and waits until it has ended.
    pub(crate) fn close_and_wait(&self) {
        if let Some(thread) = self.close() {
            let _ended = thread.join();
        }
    }

    /// Tells the thread to end. Returns the thread if it was running.
    fn close(&self) -> Option<JoinHandle<()>> {
        self.listener.is_closed.store(true, Ordering::SeqCst);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        // This also wakes the thread.
        notify_other_processes(&self.listener.notify_file);
        Some(thread)
    }
}

impl Drop for Notifications {
    fn drop(&mut self) {
        self.close();
    }
}

impl Listener {
    fn serve(&self) {
        if self.watch().is_err() {
            self.poll();
        }
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst) || self.tenants.strong_count() == 0
    }

    fn notify_tenants(&self) {
        if let Some(tenants) = self.tenants.upgrade() {
            tenants.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(|tenant| {
                tenant.notifier.notify(Timestamp::MIN);
            });
        }
    }

    /// Checks repeatedly whether another connection has committed. Each check reads a number that SQLite keeps in
    /// shared memory.
    fn poll(&self) {
        let Ok(conn) = schema::open_reader(&self.database_path) else { return };
        let version =
            |conn: &Connection| conn.pragma_query_value(None, "data_version", |row| row.get::<_, i64>(0)).ok();
        let mut last_version = version(&conn);
        while !self.is_closed() {
            if self.waiter_count.load(Ordering::SeqCst) == 0 {
                thread::sleep(IDLE_INTERVAL);
                continue;
            }
            let current_version = version(&conn);
            if current_version != last_version {
                last_version = current_version;
                self.notify_tenants();
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn watch(&self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    /// Waits for the system to report a notification.
    #[cfg(target_os = "linux")]
    fn watch(&self) -> std::io::Result<()> {
        use std::mem::MaybeUninit;

        use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

        let watcher = inotify::init(CreateFlags::CLOEXEC)?;
        inotify::add_watch(&watcher, &self.notify_file, WatchFlags::CLOSE_WRITE)?;
        let mut space = [MaybeUninit::uninit(); 4_096];
        let mut events = Reader::new(&watcher, &mut space);
        // Notifications before this point were missed, so waiting callers are notified once.
        self.notify_tenants();
        while !self.is_closed() {
            events.next()?;
            if self.is_closed() {
                break;
            }
            self.notify_tenants();
            thread::sleep(MIN_NOTIFY_INTERVAL);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Arc, atomic::Ordering},
        thread,
        time::Duration,
    };

    use store_core::{NewDispatch, Store, SystemClock, TenantId, WaitResult};

    use super::Notifications;
    use crate::{SqliteConfig, SqliteMailbox};

    async fn enqueue(store: &SqliteMailbox) {
        let work = NewDispatch::new("t".parse().unwrap(), "r".parse().unwrap());
        let mailbox = store.tenant(&TenantId::default_tenant()).unwrap().mailbox.unwrap();
        mailbox.enqueue(vec![work]).await.unwrap().remove(0).unwrap();
    }

    /// On systems without notifications, commits of other processes are found by polling while a caller waits.
    #[tokio::test(flavor = "multi_thread")]
    async fn commits_of_other_processes_are_found_by_polling() {
        let folder = tempfile::tempdir().unwrap();
        let (config, name) = (SqliteConfig::new(folder.path().join("mailbox.db")), TenantId::default_tenant());
        let first_store = SqliteMailbox::open(config.clone()).await.unwrap();
        let second_store = SqliteMailbox::open(config.clone()).await.unwrap();
        let tenant = first_store.open_tenant(&name);
        // The store's own thread listens only from the first wait on, and no caller has waited yet.
        let notifications =
            Notifications::new(Arc::downgrade(&first_store.state.tenants), folder.path().into(), config.path().into());
        let listener = Arc::clone(&notifications.listener);
        let poll_thread = thread::spawn(move || listener.poll());
        let next_claim_time = || tenant.read(None, |rows| rows.next_claim_time());
        let clock = SystemClock;
        let (wait_result, ()) =
            tokio::join!(tenant.notifier.wait(&clock, Duration::from_secs(20), next_claim_time), async {
                let _before = notifications.listener.waiter_count.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(100)).await;
                enqueue(&second_store).await;
            });
        assert_eq!(wait_result.unwrap(), WaitResult::Woken);
        notifications.close_and_wait();
        poll_thread.join().unwrap();
        first_store.close().await.unwrap();
        second_store.close().await.unwrap();
    }

    /// A caller that has only handles of a tenant is notified of changes by others as well (LV-9, PR-8).
    #[tokio::test(flavor = "multi_thread")]
    async fn handles_of_a_tenant_are_notified_without_the_store() {
        let folder = tempfile::tempdir().unwrap();
        let (config, name) = (SqliteConfig::new(folder.path().join("mailbox.db")), TenantId::default_tenant());
        let first_store = SqliteMailbox::open(config.clone()).await.unwrap();
        let second_store = SqliteMailbox::open(config).await.unwrap();
        let tenant = first_store.open_tenant(&name);
        drop(first_store);
        let _waiter = tenant.shared.notifications.listen();
        let next_claim_time = || tenant.read(None, |rows| rows.next_claim_time());
        let clock = SystemClock;
        let (wait_result, ()) =
            tokio::join!(tenant.notifier.wait(&clock, Duration::from_secs(20), next_claim_time), async {
                tokio::time::sleep(Duration::from_millis(100)).await;
                enqueue(&second_store).await;
            });
        assert_eq!(wait_result.unwrap(), WaitResult::Woken);
        second_store.close().await.unwrap();
    }
}
