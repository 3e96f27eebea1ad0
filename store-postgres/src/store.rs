//! Opening and closing a store, and its tenants.

use std::{
    collections::HashMap,
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use sqlx::{PgConnection, postgres::PgArguments};
use store_core::{
    Capabilities, Commit, CursorScope, EventDelivery, Limits, Page, PageBuilder, PageRequest, Position, Progress,
    Receipt, ReclaimedSpace, Result, Store, StoreIdentity, TenantId, TenantStores, health::StoreHealth,
    inspect::Inspector,
};
use tokio::runtime::Handle;

use crate::{
    cache::TenantConstants,
    columns::read_text,
    commit::{self, PostgresCommits},
    config::PostgresConfig,
    db::{Db, add},
    health,
    live::{LiveState, PostgresLive},
    mailbox::PostgresMailbox,
    notifications::{self, BackgroundTasks, Notifications, TenantMap},
    objects::PostgresObjects,
    records::PostgresRecords,
    schema::{self, Migrated, SchemaMeta},
    tenant::{SharedState, Tenant},
};

/// A store in a schema of a PostgreSQL database, which any number of processes can open.
///
/// Its handles are cheap to clone (PR-7). Calls run on the runtime on which the store was opened.
#[derive(Clone)]
pub struct PostgresStore {
    state: Arc<StoreState>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("config", &self.state.shared.config).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub(crate) struct StoreState {
    shared: Arc<SharedState>,
    meta: SchemaMeta,
    capabilities: Capabilities,
    tenants: Arc<TenantMap>,
    tasks: Mutex<Option<BackgroundTasks>>,
}

/// A handle of a tenant. The store stays open as long as a handle exists (PR-8).
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

impl PostgresStore {
    /// Opens a store. Its schema is created or migrated unless the configuration says otherwise (PO-2).
    ///
    /// # Errors
    /// - `SchemaMismatch` if the schema is missing or belongs to another release.
    /// - `UnsafeDurability` if the server may lose data that it acknowledged (PO-6).
    /// - `Unavailable` if the server cannot be reached, and if a write buffer is attached to the store and the
    ///   configuration does not say that the store is opened behind it (NB-14).
    pub async fn open(mut config: PostgresConfig) -> Result<Self> {
        config.limits = config.limits.at_most(&Limits::default());
        let meta = schema::open_schema(&config).await?;
        let capabilities = Capabilities::new(meta.survives, config.limits.record_bytes)
            .with_event_delivery(EventDelivery::Push)
            .with_fencing()
            .on_server();
        let db = Db::new(&config)?;
        db.update_clock().await?;
        let shared = Arc::new(SharedState {
            db,
            config,
            runtime: Handle::current(),
            notifications: Notifications::default(),
            live_state: LiveState::default(),
        });
        let tenants = Arc::<TenantMap>::default();
        let tasks = Mutex::new(Some(notifications::start_tasks(&shared, &tenants)));
        let store = Self { state: Arc::new(StoreState { shared, meta, capabilities, tenants, tasks }) };
        store.check_buffer().await?;
        Ok(store)
    }
}

impl PostgresStore {
    /// Creates the schema, or migrates it to the current version, without opening a store. This is for deployments in
    /// which applications must not change the schema themselves.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub async fn migrate(config: &PostgresConfig) -> Result<Migrated> {
        schema::create_or_migrate(config).await
    }

    /// Commits in a transaction of the caller, on any connection to the same database. Either the commit and the other
    /// writes of the transaction take effect together, or none of them does (PO-5).
    ///
    /// # Guarantees
    /// - The commit becomes visible when the transaction is committed. If the transaction is rolled back, nothing of
    ///   the commit remains. The receipt is valid only after the transaction was committed.
    /// - The rules and errors are those of [`CommitCoordinator::commit`](store_core::CommitCoordinator::commit). A
    ///   refused commit leaves the transaction unchanged and usable.
    /// - Waiting subscribers and workers are not notified of the commit, because only the caller knows when the
    ///   transaction ends. They find its events and dispatches by polling, within a second.
    ///
    /// Until the transaction ends, it locks the row of the thread. Other writers of the thread wait, and so does a
    /// deletion of the tenant. The transaction may have any isolation level. At a level above `READ COMMITTED`, the
    /// call fails with `Unavailable` if another transaction has written in the meantime. A deadlock has the same
    /// result. The caller must then begin a new transaction.
    ///
    /// ```no_run
    /// use sqlx::Connection;
    /// use store_core::{Commit, CommitKey, Message, NewEntry, TenantId, ThreadId};
    /// use store_postgres::PostgresStore;
    ///
    /// type Failure = Box<dyn std::error::Error>;
    ///
    /// async fn order(store: &PostgresStore, connection: &mut sqlx::PgConnection) -> Result<(), Failure> {
    ///     let mut transaction = connection.begin().await?;
    ///     sqlx::query("INSERT INTO orders (id) VALUES (7)").execute(&mut *transaction).await?;
    ///     let commit = Commit::new(ThreadId::new("t-1")?)
    ///         .with_key(CommitKey::new("order-7")?)
    ///         .entry(NewEntry::new(Message::assistant("I have ordered it.")));
    ///     store.commit_in(&TenantId::default_tenant(), &mut transaction, commit).await?;
    ///     Ok(transaction.commit().await?)
    /// }
    /// ```
    ///
    /// # Errors
    /// Those of a commit. `Unavailable` for a deadlock and for a conflict with another transaction.
    pub async fn commit_in(
        &self,
        tenant: &TenantId,
        transaction: &mut PgConnection,
        commit: Commit,
    ) -> Result<Receipt> {
        commit::commit_in(&*self.open_tenant(tenant)?, transaction, &commit).await
    }

    pub(crate) fn shared(&self) -> &SharedState {
        &self.state.shared
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.state.shared.check_writable()
    }

    pub(crate) fn open_tenant(&self, tenant: &TenantId) -> Result<TenantHandle> {
        self.state.shared.db.check_open()?;
        let tenant = Arc::clone(self.tenants().entry(tenant.clone()).or_insert_with(|| self.new_tenant(tenant)));
        Ok(TenantHandle { tenant, _store: Arc::clone(&self.state) })
    }

    fn new_tenant(&self, tenant: &TenantId) -> Arc<Tenant> {
        let meta = &self.state.meta;
        let (incarnation, cursor_key) = (meta.incarnation, meta.cursor_key.clone());
        let constants = TenantConstants { tenant: tenant.clone(), incarnation, cursor_key };
        Arc::new(Tenant::new(Arc::clone(&self.state.shared), Arc::new(constants)))
    }

    fn tenants(&self) -> MutexGuard<'_, HashMap<TenantId, Arc<Tenant>>> {
        self.state.tenants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let tenant = self.open_tenant(tenant)?;
        let stores = TenantStores::from_coordinator(Arc::new(PostgresCommits::new(tenant.clone())));
        let stores = stores.with_records(Arc::new(PostgresRecords::new(tenant.clone())));
        let stores = stores.with_objects(Arc::new(PostgresObjects::new(tenant.clone())));
        let (live, mailbox) = (PostgresLive::new(tenant.clone()), Arc::new(PostgresMailbox::new(tenant)));
        let wake_ups = Arc::clone(&mailbox);
        Ok(stores.with_mailbox(mailbox).with_wake_ups(wake_ups).with_live(Arc::new(live)))
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        let db = &self.state.shared.db;
        db.check_open()?;
        // The list belongs to the store. A cursor scope needs a tenant, so the default tenant is used.
        let scope = CursorScope::new(&TenantId::default_tenant(), "list_tenants", "");
        let limit = page.checked_limit()?;
        let mut found = PageBuilder::new(limit);
        let after = Position::from_cursor(&self.state.meta.cursor_key, &scope, page.cursor.as_ref())?;
        let mut arguments = PgArguments::default();
        add(&mut arguments, after.map(|after| after.id).unwrap_or_default())?;
        add(&mut arguments, i64::try_from(limit + 1).unwrap_or(i64::MAX))?;
        for row in db.any_connection().read(|sql| &sql.list_tenants, arguments).await? {
            let tenant: TenantId = read_text(&row, 0)?.parse()?;
            if !found.offer(Position::new(0, tenant.as_str()), 0, Some(tenant)) {
                break;
            }
        }
        Ok(found.finish(|at| at.to_cursor(&self.state.meta.cursor_key, &scope)))
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        let shared = Arc::clone(&self.state.shared);
        shared.db.check_open()?;
        shared.check_writable()?;
        let (name, replacement) = (tenant.clone(), self.new_tenant(tenant));
        let previous = self.tenants().insert(name.clone(), Arc::clone(&replacement));
        replacement
            .close_previous_then(previous, async move {
                shared.db.call_for_tenant(name.as_str(), |sql| &sql.begin_tenant_deletion).await?;
                while shared.db.call_for_tenant(name.as_str(), |sql| &sql.delete_tenant_step).await? == 1 {}
                while shared.db.call_for_tenant(name.as_str(), |sql| &sql.delete_object_step).await? == 1 {}
                Ok(())
            })
            .await?;
        // A tenant that was not opened again in the meantime is not kept in the map. Then only the map and this call
        // refer to it.
        let mut tenants = self.tenants();
        if tenants
            .get(tenant)
            .is_some_and(|current| Arc::ptr_eq(current, &replacement) && Arc::strong_count(current) == 2)
        {
            tenants.remove(tenant);
        }
        Ok(())
    }

    fn capabilities(&self) -> &Capabilities {
        &self.state.capabilities
    }

    fn identity(&self) -> Option<StoreIdentity> {
        Some(self.state.meta.identity.clone())
    }

    async fn health(&self) -> Result<StoreHealth> {
        let shared = &self.state.shared;
        shared.db.check_open()?;
        health::health(&shared.config).await
    }

    /// Only checks that the store is open: acknowledged data needs no further step to survive.
    async fn sync(&self) -> Result<()> {
        self.state.shared.db.check_open()
    }

    /// Removes what deletions left, and lets the server use the space of removed rows again (`VACUUM`).
    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        let shared = &self.state.shared;
        shared.db.check_open()?;
        shared.check_writable()?;
        let done = schema::vacuum(&shared.config, |done, total| progress.advance(done, Some(total))).await?;
        Ok(ReclaimedSpace::new(!done))
    }

    async fn close(&self) -> Result<()> {
        let db = &self.state.shared.db;
        db.refuse_new_calls();
        let open_tenants: Vec<_> = self.tenants().values().map(Arc::clone).collect();
        for tenant in open_tenants {
            tenant.close().await;
        }
        db.close();
        drop(self.state.tasks.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(())
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        Some(self)
    }
}
