//! Opening and closing a mailbox, and its tenants.

use std::{
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use async_trait::async_trait;
use rusqlite::Connection;
use store_core::{
    Capabilities, CursorScope, Error, Limits, Page, PageBuilder, PageRequest, Position, Progress, ReclaimedSpace,
    Result, Store, StoreIdentity, SystemClock, TenantId, TenantStores, health::StoreHealth, inspect::Inspector,
};
use tokio::sync::oneshot;

use crate::{
    config::{SqliteConfig, Synchronous},
    database_file::DatabaseFile,
    error::sql_error,
    health,
    mailbox::TenantMailbox,
    notifications::Notifications,
    readers::{ReadGate, Readers},
    records::SqliteRecords,
    rows::{get, query_all, query_one},
    schema, sql,
    tenant::{SharedState, StoreContext, Tenant},
    writer::{BatchContext, FileStep, Writer},
};

/// The number of rows of a table that one step of a deletion removes.
const ROWS_PER_STEP: i64 = 1_000;

/// The tenants that were opened.
pub(crate) type Tenants = Mutex<HashMap<TenantId, Arc<Tenant>>>;

/// A mailbox in one SQLite file, which several processes of a host may have open at the same time.
///
/// Beside the file `PATH` there are `PATH-wal` and `PATH-shm`, which belong to SQLite, and `PATH-users` and
/// `PATH-next`, which are empty: they serve as locks and to wake waiting callers in other processes. All these files
/// belong together. To copy a mailbox that is in use, let SQLite do it (`VACUUM INTO`). If its files are copied one by
/// one, the copy may be damaged. A process that has the mailbox open must open the database file only through SQLite.
///
/// Handles are cheap to clone (PR-7).
#[derive(Clone)]
pub struct SqliteMailbox {
    pub(crate) state: Arc<StoreState>,
}

#[derive(Debug)]
pub(crate) struct StoreState {
    pub(crate) shared: Arc<SharedState>,
    pub(crate) tenants: Arc<Tenants>,
    identity: Option<StoreIdentity>,
    capabilities: Capabilities,
    config: SqliteConfig,
}

/// What each handle of a tenant contains. The store stays open as long as a handle exists (PR-8).
#[derive(Debug, Clone)]
pub(crate) struct TenantHandle {
    tenant: Arc<Tenant>,
    _store: Arc<StoreState>,
}

impl Deref for TenantHandle {
    type Target = Arc<Tenant>;

    fn deref(&self) -> &Arc<Tenant> {
        &self.tenant
    }
}

impl fmt::Debug for SqliteMailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteMailbox").field("config", &self.state.config).finish_non_exhaustive()
    }
}

impl SqliteMailbox {
    /// Opens a mailbox. A missing file is created unless the configuration forbids it.
    ///
    /// # Errors
    /// - `SchemaMismatch` for a file that is missing, belongs to another application or is of a later release (SQ-3);
    /// - `UnsafeDurability` for settings that may lose acknowledged work (SQ-2);
    /// - `Unavailable` if another process has exclusive use of the file, or the file cannot be used.
    pub async fn open(config: SqliteConfig) -> Result<Self> {
        let (reply, result) = oneshot::channel();
        // Opening may wait for other processes, so it does not run on a thread of the caller's runtime.
        let builder = thread::Builder::new().name("agentstore-open".to_owned());
        let spawned = builder.spawn(move || reply.send(Self::open_blocking(config)));
        spawned.map_err(|e| Error::unavailable("the system cannot start another thread").with_source(e))?;
        result.await.map_err(|error| {
            Error::unavailable("the thread that opens the mailbox ended without a result").with_source(error)
        })?
    }

    fn open_blocking(config: SqliteConfig) -> Result<Self> {
        schema::check_settings(&config)?;
        let database_file = DatabaseFile::open(&config)?;
        let (conn, opened_database) = schema::open_writer(&database_file, &config)?;
        let identity = health::identity(&database_file.path, &opened_database.cursor_key);
        let limits = config.limits.at_most(&Limits::default());
        let capabilities = Capabilities::new(opened_database.survives, limits.record_bytes);
        // All processes of the host share its clock.
        let capabilities = if config.clock.is_some() { capabilities } else { capabilities.on_host() };
        let store_context = Arc::new(StoreContext {
            clock: config.clock.clone().unwrap_or_else(|| Arc::new(SystemClock)),
            ids: Arc::clone(&config.ids),
            limits,
            cursor_key: opened_database.cursor_key,
            // A process that sets a clock has exclusive use of the file.
            has_other_writers: config.clock.is_none(),
            read_gate: ReadGate::default(),
            notify_file: database_file.notify_file(),
        });
        let tenants = Arc::<Tenants>::default();
        let notifications =
            Notifications::new(Arc::downgrade(&tenants), database_file.notify_file(), database_file.path.clone());
        let readers = Readers::new(Arc::clone(&database_file), Arc::clone(&store_context), config.max_read_time);
        let writer = Writer::begin(conn, database_file, Arc::clone(&store_context))?;
        let shared =
            Arc::new(SharedState { store_context, writer, readers, notifications, is_closed: AtomicBool::new(false) });
        Ok(Self { state: Arc::new(StoreState { shared, tenants, identity, capabilities, config }) })
    }

    /// Returns the size of the write-ahead log (WAL) in bytes while a reader outside this library prevents its restart,
    /// or 0 if there is no such reader (SQ-5).
    #[must_use]
    pub fn wal_bytes_in_use_by_readers(&self) -> u64 {
        u64::try_from(self.state.shared.store_context.read_gate.blocked_pages()).unwrap_or_default() * 4_096
    }

    pub(crate) fn open_tenant(&self, tenant: &TenantId) -> TenantHandle {
        let mut tenants = self.tenants();
        if tenants.get(tenant).is_some_and(|opened| opened.is_closed()) {
            // Another process deleted the tenant. The new handle belongs to the tenant created after that.
            tenants.remove(tenant);
        }
        let new = || Arc::new(Tenant::new(tenant.clone(), Arc::clone(&self.state.shared)));
        let tenant = Arc::clone(tenants.entry(tenant.clone()).or_insert_with(new));
        TenantHandle { tenant, _store: Arc::clone(&self.state) }
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<TenantId, Arc<Tenant>>> {
        self.state.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a step that is not limited to one tenant, on the writer thread.
    pub(crate) async fn run_on_writer_thread<T: Send + 'static>(
        &self,
        step: impl FnMut(&BatchContext<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.state.shared.check_open()?;
        let (reply, answer) = oneshot::channel();
        self.state.shared.writer.put(Box::new(FileStep { step, reply: Some(reply), result: None }));
        answer.await.map_err(|error| Error::commit_unknown(None).with_source(error))?
    }
}

/// Removes some rows of a tenant that is being deleted. Returns whether there may be more such rows.
fn remove_some_rows(conn: &Connection) -> Result<bool> {
    let Some(row_number) = query_one(conn, sql::TENANT_BEING_DELETED, [], |row| get::<i64>(row, 0))? else {
        return Ok(false);
    };
    let run = |text: &str, parameters: &[i64]| {
        let mut statement = conn.prepare_cached(text).map_err(sql_error)?;
        statement.execute(rusqlite::params_from_iter(parameters)).map_err(sql_error)
    };
    let payload_rows =
        query_all(conn, sql::REMOVE_SOME_DISPATCHES, (row_number, ROWS_PER_STEP), |row| get::<Option<i64>>(row, 0))?;
    for payload_row in payload_rows.iter().flatten() {
        run(sql::REMOVE_PAYLOAD, &[*payload_row])?;
    }
    // An empty list means that no dispatch is left.
    if payload_rows.is_empty() {
        run(sql::REMOVE_SOME_INTERRUPTS, &[row_number, ROWS_PER_STEP])?;
        if run(sql::REMOVE_SOME_MAILBOXES, &[row_number, ROWS_PER_STEP])? == 0 {
            run(sql::REMOVE_TENANT, &[row_number])?;
        }
    }
    Ok(true)
}

/// How often a reclaim is tried that others prevent, and the pause between two tries: reads end within 5 s.
const RECLAIM_ATTEMPTS: u64 = 300;
const RECLAIM_PAUSE: Duration = Duration::from_millis(100);

#[async_trait]
impl Store for SqliteMailbox {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        self.state.shared.check_open()?;
        let tenant = self.open_tenant(tenant);
        let records = Arc::new(SqliteRecords::new(tenant.clone()));
        let mailbox = Arc::new(TenantMailbox::new(tenant));
        let wake_ups = Arc::clone(&mailbox);
        Ok(TenantStores::default().with_mailbox(mailbox).with_wake_ups(wake_ups).with_records(records))
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        let shared = &self.state.shared;
        shared.check_open()?;
        // The list is not about one tenant. The default tenant is named only because a scope requires a tenant.
        let scope = CursorScope::new(&TenantId::default_tenant(), "list_tenants", "");
        let limit = page.checked_limit()?;
        let after = Position::from_cursor(&shared.store_context.cursor_key, &scope, page.cursor.as_ref())?;
        let (name, max_count) = (after.map(|after| after.id).unwrap_or_default(), limit + 1);
        let names = shared.readers.read(move |conn| {
            query_all(conn, sql::LIST_TENANTS, (name, i64::try_from(max_count).unwrap_or(i64::MAX)), |row| {
                get::<String>(row, 0)
            })
        });
        let mut found = PageBuilder::new(limit);
        for name in names.await? {
            let tenant: TenantId = name.parse()?;
            if !found.offer(Position::new(0, tenant.as_str()), 0, Some(tenant)) {
                break;
            }
        }
        Ok(found.finish(|at| at.to_cursor(&shared.store_context.cursor_key, &scope)))
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.state.shared.check_open()?;
        let open_tenant = self.tenants().remove(tenant);
        if let Some(open_tenant) = open_tenant {
            open_tenant.close();
        }
        let name = tenant.clone();
        self.run_on_writer_thread(move |context| {
            query_one(context.conn, sql::REMOVE_TENANT_NAME, [name.as_str()], |_| Ok(())).map(drop)
        })
        .await?;
        while self.run_on_writer_thread(|context| remove_some_rows(context.conn)).await? {}
        Ok(())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.state.capabilities
    }

    fn identity(&self) -> Option<StoreIdentity> {
        self.state.identity.clone()
    }

    async fn health(&self) -> Result<StoreHealth> {
        self.state.shared.check_open()?;
        let settings = self.state.shared.readers.read(health::read_settings).await?;
        Ok(health::health(&self.state.config, settings, self.wal_bytes_in_use_by_readers()))
    }

    async fn sync(&self) -> Result<()> {
        let shared = &self.state.shared;
        shared.check_open()?;
        // Acknowledged work is already synced. The step only reports whether an earlier sync failed.
        if self.state.config.synchronous == Synchronous::Full {
            return self.run_on_writer_thread(|_| Ok(())).await;
        }
        shared.writer.sync().await
    }

    /// Rebuilds the file (`VACUUM`) and empties the write-ahead log. Reads end first.
    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        let shared = &self.state.shared;
        shared.check_open()?;
        for attempt in 0..RECLAIM_ATTEMPTS {
            if shared.writer.reclaim().await? {
                return Ok(ReclaimedSpace::default());
            }
            if !progress.advance(attempt, None) {
                return Ok(ReclaimedSpace::new(true));
            }
            tokio::time::sleep(RECLAIM_PAUSE).await;
        }
        Err(Error::unavailable("other connections hold an earlier state of the file"))
    }

    async fn close(&self) -> Result<()> {
        let shared = &self.state.shared;
        shared.is_closed.store(true, Ordering::SeqCst);
        let tenants = std::mem::take(&mut *self.tenants());
        tenants.values().for_each(|tenant| tenant.close());
        let (reply, ended) = oneshot::channel();
        let shared_of_thread = Arc::clone(shared);
        // Closing may take as long as a read, so it does not run on a thread of the caller's runtime.
        let end_threads = move || {
            shared_of_thread.notifications.close_and_wait();
            shared_of_thread.readers.close_and_wait();
            reply.send(())
        };
        let spawned = thread::Builder::new().name("agentstore-close".to_owned()).spawn(end_threads);
        spawned.map_err(|e| Error::unavailable("the system cannot start another thread").with_source(e))?;
        let _ended = ended.await;
        shared.writer.close().await;
        Ok(())
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}
