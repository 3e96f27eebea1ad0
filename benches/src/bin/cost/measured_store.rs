//! Opens the stores that are measured.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use store_core::{
    CommitCoordinator, IdSource, Store, TenantId, TenantStores, ThreadRunStore, UuidSource, layers::LayerStore,
};
use store_file::{Durability, FileConfig, FileStore};
use store_memory::{MemoryConfig, MemoryStore};
use store_nats::{NatsConfig, NatsStore, TestPrefix};
use store_postgres::{PostgresConfig, PostgresStore, TestSchema};
use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox, Synchronous};

/// A backend, and the durability with which it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Memory,
    /// The file store without syncs. It shows the cost without the disk.
    File,
    /// The file store with a sync of each commit.
    FileSync,
    /// A mailbox in an SQLite file.
    Sqlite,
    /// PostgreSQL, on the server that AGENTSTORE_TEST_POSTGRES_URL names.
    Postgres,
    /// A mailbox on the NATS servers that AGENTSTORE_TEST_NATS_URL names.
    Nats,
}

impl Backend {
    pub(crate) const ALL: [Self; 6] =
        [Self::Memory, Self::File, Self::FileSync, Self::Sqlite, Self::Postgres, Self::Nats];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::FileSync => "file-sync",
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Nats => "nats",
        }
    }

    /// Returns whether the backend needs a server. Such a backend is measured only if `--only` names it.
    pub(crate) const fn needs_server(self) -> bool {
        matches!(self, Self::Postgres | Self::Nats)
    }

    /// Returns whether the backend keeps mailboxes only.
    pub(crate) const fn keeps_only_mailboxes(self) -> bool {
        matches!(self, Self::Sqlite | Self::Nats)
    }

    /// Returns the number of samples to take if the user asks for `requested` samples. For a backend that syncs or
    /// needs a server, it returns a quarter of that number, because the calls are slow.
    pub(crate) fn sample_count(self, requested: usize) -> usize {
        if matches!(self, Self::Memory | Self::File) { requested } else { requested.div_ceil(4) }
    }
}

/// An opened store.
#[derive(Clone)]
pub(crate) struct MeasuredStore {
    pub(crate) store: Arc<dyn Store>,
    tenant_stores: TenantStores,
    /// The schema or the prefix on a server. It is removed when the last clone of this value is dropped.
    _server_data: Option<Arc<ServerData>>,
}

/// A schema or a prefix on a server. It is removed when this value is dropped.
enum ServerData {
    Schema(TestSchema),
    Prefix(TestPrefix),
}

impl ServerData {
    fn remove(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match self {
            Self::Schema(schema) => runtime.block_on(schema.remove()),
            Self::Prefix(prefix) => runtime.block_on(prefix.remove()),
        }
        .map_err(Into::into)
    }
}

impl Drop for ServerData {
    fn drop(&mut self) {
        // `block_on` panics within a runtime, so a new OS thread does the removal. A failure is ignored, because
        // remaining data on the server does not affect other runs.
        std::thread::scope(|scope| drop(scope.spawn(|| self.remove()).join()));
    }
}

impl MeasuredStore {
    /// Opens a store that is to be filled with data. To make this fast, a store on files does not sync its commits.
    pub(crate) async fn open_to_fill(backend: Backend, path: &Path) -> Result<Self> {
        let is_synced = false;
        Self::open(if backend == Backend::FileSync { Backend::File } else { backend }, path, is_synced).await
    }

    /// Returns the filled store for the measurement. `FileSync` and `Sqlite` are opened again, now with syncs.
    pub(crate) async fn reopen_for_measurement(self, backend: Backend, path: &Path) -> Result<Self> {
        if !matches!(backend, Backend::FileSync | Backend::Sqlite) {
            return Ok(self);
        }
        self.store.close().await?;
        drop(self);
        let is_synced = true;
        Self::open(backend, path, is_synced).await
    }

    /// Opens a store. `is_synced` says whether `Sqlite` syncs each commit; the other backends ignore it.
    async fn open(backend: Backend, path: &Path, is_synced: bool) -> Result<Self> {
        let config = FileConfig::default();
        let mut server_data = None;
        let store: Arc<dyn Store> = match backend {
            Backend::Memory => Arc::new(MemoryStore::open(MemoryConfig::default())?),
            Backend::File => Arc::new(FileStore::open(path, config.with_durability(Durability::None))?),
            Backend::FileSync => Arc::new(FileStore::open(path, config)?),
            Backend::Sqlite => {
                let mut config = SqliteConfig::new(path);
                if !is_synced {
                    (config.synchronous, config.allow_unsafe) = (Synchronous::Normal, true);
                }
                Arc::new(SqliteMailbox::open(config).await?)
            }
            Backend::Postgres => {
                let url =
                    std::env::var("AGENTSTORE_TEST_POSTGRES_URL").context("AGENTSTORE_TEST_POSTGRES_URL is not set")?;
                let name = format!("bench_{}", UuidSource.next_id().replace('-', ""));
                let config = PostgresConfig::new(&url)?.with_schema(&name)?;
                let store = PostgresStore::open(config.clone()).await?;
                server_data = Some(Arc::new(ServerData::Schema(TestSchema::from_config(config))));
                Arc::new(store)
            }
            Backend::Nats => {
                let url = std::env::var("AGENTSTORE_TEST_NATS_URL").context("AGENTSTORE_TEST_NATS_URL is not set")?;
                let config = NatsConfig::new(&url)?.with_prefix(&format!("bench-{}", UuidSource.next_id()))?;
                let store = NatsStore::open(config.clone()).await?;
                server_data = Some(Arc::new(ServerData::Prefix(TestPrefix::from_config(config))));
                Arc::new(store)
            }
        };
        let tenant_stores = store.tenant(&TenantId::default_tenant())?;
        Ok(Self { store, tenant_stores, _server_data: server_data })
    }

    /// Returns the coordinator that writes to the threads of the default tenant.
    pub(crate) fn commits(&self) -> Result<&dyn CommitCoordinator> {
        self.tenant_stores.commits.as_deref().context("the store has no threads")
    }

    /// Returns the documents of the default tenant, with the events that layers use.
    pub(crate) fn layer_store(&self) -> Result<LayerStore> {
        Ok(LayerStore::new(&self.tenant_stores)?)
    }

    /// Returns the threads of the default tenant.
    pub(crate) fn threads(&self) -> Result<&dyn ThreadRunStore> {
        self.tenant_stores.threads.as_deref().context("the store has no threads")
    }
}

/// Returns the coordinator that writes to the threads of a tenant.
pub(crate) fn coordinator_of(store: &dyn Store, tenant: &TenantId) -> Result<Arc<dyn CommitCoordinator>> {
    store.tenant(tenant)?.commits.context("the store has no threads")
}

/// Returns the order in which a sample measures the two sizes. `true` stands for the large size. The order alternates
/// from sample to sample.
pub(crate) const fn measuring_order(sample: usize) -> [bool; 2] {
    if sample.is_multiple_of(2) { [false, true] } else { [true, false] }
}
