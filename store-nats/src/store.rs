//! Opening and closing a store, and its tenants.

use std::{
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use store_core::{
    Capabilities, CursorScope, Error, Outcome, Page, PageBuilder, PageRequest, Position, Progress, ReclaimedSpace,
    Result, Store, StoreIdentity, TenantId, TenantStores, codec::Codec, health::StoreHealth, inspect::Inspector,
};
use tokio::{runtime::Handle, sync::RwLock, task::JoinHandle};

use crate::{
    codec::TenantRecord,
    config::NatsConfig,
    connection::Connection,
    garbage, health,
    live::{LiveState, NatsLive},
    log::{self, Log},
    mailbox::NatsMailbox,
    records::NatsRecords,
    server_names::LogSubject,
    streams,
    tenant::{SharedState, Tenant},
};

/// A store of mailboxes in JetStream. Any number of processes can have it open.
///
/// Its handles are cheap to clone (PR-7). Calls run on the runtime on which the store was opened.
#[derive(Clone)]
pub struct NatsStore {
    state: Arc<StoreState>,
}

impl fmt::Debug for NatsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsStore").field("config", &self.state.shared.config).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct StoreState {
    shared: Arc<SharedState>,
    identity: StoreIdentity,
    capabilities: Capabilities,
    tenants: Mutex<HashMap<TenantId, Arc<Tenant>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for StoreState {
    fn drop(&mut self) {
        self.end_calls_and_tasks();
    }
}

impl StoreState {
    /// Ends all waiting calls and all background tasks.
    fn end_calls_and_tasks(&self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        for tenant in lock(&self.tenants).values() {
            tenant.end_calls_and_receivers();
        }
        self.shared.log.notify_all();
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
    }
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl NatsStore {
    /// Opens a store. Its streams are created if they do not exist.
    ///
    /// # Errors
    /// - `UnsafeDurability` for servers that may lose what they acknowledged (NA-5);
    /// - `Unsupported` for servers that are too old (NA-6);
    /// - `Invalid` for a `max_payload` of the server below 192 KiB (NA-11);
    /// - `SchemaMismatch` for a store of a newer release (NA-9), and for a missing store that is not to be created;
    /// - `Unavailable` if no server can be reached.
    pub async fn open(config: NatsConfig) -> Result<Self> {
        let connection = Connection::open(&config).await?;
        let opened_streams = streams::open(&connection, &config).await?;
        let mut config = config;
        config.limits.record_bytes = config.limits.record_bytes.min(connection.max_record_bytes());
        let capabilities = Capabilities::new(opened_streams.survives, config.limits.record_bytes).on_server();
        let runtime = Handle::current();
        let log = Arc::new(Log::new(connection, &config, runtime.clone()));
        let follow_task = runtime.spawn(log::follow(Arc::downgrade(&log)));
        let collect_task = runtime.spawn(garbage::collect(Arc::downgrade(&log)));
        let shared = Arc::new(SharedState {
            log,
            config,
            cursor_key: opened_streams.meta.cursor_key,
            runtime,
            live_state: LiveState::default(),
            is_closed: AtomicBool::new(false),
            ongoing_writes: Arc::new(RwLock::new(())),
        });
        let tasks = Mutex::new(vec![follow_task, collect_task]);
        let (identity, tenants) = (opened_streams.identity, Mutex::default());
        let store = Self { state: Arc::new(StoreState { shared, identity, capabilities, tenants, tasks }) };
        // The whole log is read once. Earlier processes may have left reserved ids without a dispatch, which are freed.
        let log = &store.state.shared.log;
        log.catch_up().await?;
        for (name, tenant) in &log.view().tenants {
            log.garbage.add_ids(name, tenant.record.incarnation, tenant.unused_ids());
        }
        Ok(store)
    }

    /// Waits until this handle has read everything that was acknowledged before the call.
    ///
    /// It writes a message, which requires a majority of the servers. So a later read does not come from a leader that
    /// has just lost its majority (PR-10).
    ///
    /// # Errors
    /// `Unavailable`, even if it is unknown whether the message was written. The call can be repeated.
    pub async fn barrier(&self) -> Result<()> {
        let log = self.log()?;
        let marker_result = log.write_marker().await.map_err(|error| match error.outcome() {
            Outcome::Unknown => {
                Error::server_unavailable("no majority of the servers answered in time").with_source(error)
            }
            Outcome::NotApplied => error,
        });
        log.wait_until_read(marker_result?).await
    }

    pub(crate) fn log(&self) -> Result<&Arc<Log>> {
        self.state.shared.check_open()?;
        Ok(&self.state.shared.log)
    }

    fn open_tenant(&self, tenant: &TenantId) -> Result<TenantHandle> {
        let shared = &self.state.shared;
        shared.check_open()?;
        let mut tenants = lock(&self.state.tenants);
        let new_tenant = || Arc::new(Tenant::new(Arc::clone(shared), tenant.clone()));
        if tenants.get(tenant).is_some_and(|tenant| tenant.check_open().is_err()) {
            // Another process deleted the tenant. The new handle belongs to the tenant created after that.
            tenants.remove(tenant);
        }
        let tenant = Arc::clone(tenants.entry(tenant.clone()).or_insert_with(new_tenant));
        Ok(TenantHandle { tenant, _store: Arc::clone(&self.state) })
    }
}

#[async_trait]
impl Store for NatsStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let tenant = self.open_tenant(tenant)?;
        let (live, records) = (NatsLive::new(tenant.clone()), Arc::new(NatsRecords::new(tenant.clone())));
        let mailbox = Arc::new(NatsMailbox::new(tenant));
        let wake_ups = Arc::clone(&mailbox);
        let stores = TenantStores::default().with_mailbox(mailbox).with_records(records);
        Ok(stores.with_wake_ups(wake_ups).with_live(Arc::new(live)))
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        let shared = &self.state.shared;
        shared.check_open()?;
        // The list is not about one tenant. The default tenant is named only because a scope requires a tenant.
        let scope = CursorScope::new(&TenantId::default_tenant(), "list_tenants", "");
        let mut page_builder = PageBuilder::new(page.checked_limit()?);
        let after = Position::from_cursor(&shared.cursor_key, &scope, page.cursor.as_ref())?;
        shared.log.catch_up().await?;
        let view = shared.log.view();
        let tenants_with_data = view
            .tenants
            .iter()
            .filter(|(_, tenant_state)| !tenant_state.record.is_deleted && !tenant_state.mailbox.records.is_empty());
        for (name, _) in tenants_with_data
            .skip_while(|(name, _)| after.as_ref().is_some_and(|position| name.as_str() <= position.id.as_str()))
        {
            if !page_builder.offer(Position::new(0, name.as_str()), 0, Some(name.clone())) {
                break;
            }
        }
        Ok(page_builder.finish(|position| position.to_cursor(&shared.cursor_key, &scope)))
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        let shared = Arc::clone(&self.state.shared);
        shared.check_open()?;
        let (name, replacement) = (tenant.clone(), Arc::new(Tenant::new(Arc::clone(&shared), tenant.clone())));
        let previous = lock(&self.state.tenants).insert(name.clone(), Arc::clone(&replacement));
        replacement.close_previous_then(previous, async move { delete_data_of_tenant(&shared, name).await }).await?;
        // If no caller opened the tenant again in the meantime, it need not stay in the map. In that case only the map
        // and `replacement` refer to it.
        let mut tenants = lock(&self.state.tenants);
        if tenants
            .get(tenant)
            .is_some_and(|current| Arc::ptr_eq(current, &replacement) && Arc::strong_count(current) == 2)
        {
            tenants.remove(tenant);
        }
        drop(tenants);
        Ok(())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.state.capabilities
    }

    fn identity(&self) -> Option<StoreIdentity> {
        Some(self.state.identity.clone())
    }

    async fn health(&self) -> Result<StoreHealth> {
        let shared = &self.state.shared;
        shared.check_open()?;
        health::health(&shared.log, &shared.config).await
    }

    /// Checks that the store is open. There is nothing to sync: the configuration of the servers determines what
    /// acknowledged work survives.
    async fn sync(&self) -> Result<()> {
        self.state.shared.check_open()
    }

    /// Waits until the messages that are not needed any more were removed, which takes some minutes. The servers
    /// overwrite their bytes.
    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.state.shared.check_open()?;
        let done = garbage::wait_until_removed(&self.state.shared.log, |looks| progress.advance(looks, None)).await?;
        Ok(ReclaimedSpace::new(!done))
    }

    async fn close(&self) -> Result<()> {
        self.state.shared.is_closed.store(true, Ordering::SeqCst);
        // Waits for the calls that were accepted before.
        drop(self.state.shared.ongoing_writes.write().await);
        self.state.end_calls_and_tasks();
        Ok(())
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}

/// Writes a message that marks the tenant as deleted, and then removes its data. After that message the data has no
/// effect any more.
async fn delete_data_of_tenant(shared: &SharedState, name: TenantId) -> Result<()> {
    let log = &shared.log;
    let incarnation = loop {
        // The log shows whether the tenant is deleted.
        log.catch_up().await?;
        let sequence_and_record = log.view().tenants.get(&name).map(|tenant| (tenant.sequence, tenant.record.clone()));
        let Some((last, record)) = sequence_and_record else { return Ok(()) };
        if record.is_deleted {
            break record.incarnation;
        }
        let deleted_record = TenantRecord { is_deleted: true, ..record };
        let _result = log.write_in_time(&LogSubject::Tenant(name.clone()), last, deleted_record.encode()).await?;
    };
    let (connection, names) = (&log.connection, &log.connection.names);
    for subjects in names.tenant_subjects(&name, incarnation) {
        connection.purge(&names.log_stream(), &subjects).await?;
    }
    connection.purge(&names.data_stream(), &names.tenant_data_subjects(&name, incarnation)).await?;
    // A caller that waits for a removed message continues when this message is read.
    log.write_marker().await.map(drop)
}
