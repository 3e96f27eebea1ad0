//! One of the two stores that are compared.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use store_core::{CommitCoordinator, IdSource, Store, TenantId, TenantStores, ThreadRunStore, Uuids};
use store_file::{Durability, FileConfig, FileStore};
use store_memory::{MemoryConfig, MemoryStore};
use store_nats::{NatsConfig, NatsStore, TestPrefix};
use store_postgres::{PostgresConfig, PostgresStore, TestSchema};
use store_sqlite_mailbox::{SqliteConfig, SqliteMailbox, Synchronous};

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Memory,
    /// On files, without waiting for the disk: what the processor has to do.
    File,
    /// On files, each commit synced.
    FileSync,
    /// A mailbox in a file of SQLite.
    Sqlite,
    /// In the PostgreSQL that AGENTSTORE_TEST_POSTGRES_URL names.
    Postgres,
    /// A mailbox on the servers that AGENTSTORE_TEST_NATS_URL names.
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

    /// Whether it is on a server, which is measured if it is asked for.
    pub(crate) const fn is_server(self) -> bool {
        matches!(self, Self::Postgres | Self::Nats)
    }

    /// Whether it keeps work and nothing else.
    pub(crate) const fn is_mailbox(self) -> bool {
        matches!(self, Self::Sqlite | Self::Nats)
    }

    /// How many of the wanted samples are taken: syncs take their time.
    pub(crate) fn samples(self, wanted: usize) -> usize {
        if matches!(self, Self::Memory | Self::File) { wanted } else { wanted.div_ceil(4) }
    }
}

/// An opened store.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) store: Arc<dyn Store>,
    stores: TenantStores,
    /// Goes with the last of its handles.
    _place: Option<Arc<Place>>,
}

/// What is removed from a server in the end.
enum Place {
    Schema(TestSchema),
    Prefix(TestPrefix),
}

impl Place {
    fn remove(&self) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        match self {
            Self::Schema(schema) => runtime.block_on(schema.remove()),
            Self::Prefix(prefix) => runtime.block_on(prefix.remove()),
        }
        .map_err(Into::into)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // In a thread without a runtime. What stays is in the way of nobody.
        std::thread::scope(|scope| drop(scope.spawn(|| self.remove()).join()));
    }
}

impl Side {
    /// Opens a store to be filled: nothing is synced for that.
    pub(crate) async fn to_fill(backend: Backend, path: &Path) -> Result<Self> {
        Self::open(if backend == Backend::FileSync { Backend::File } else { backend }, path, false).await
    }

    /// The store as it is measured, once it is filled.
    pub(crate) async fn ready(self, backend: Backend, path: &Path) -> Result<Self> {
        if !matches!(backend, Backend::FileSync | Backend::Sqlite) {
            return Ok(self);
        }
        self.store.close().await?;
        drop(self);
        Self::open(backend, path, true).await
    }

    async fn open(backend: Backend, path: &Path, is_synced: bool) -> Result<Self> {
        let config = FileConfig::default();
        let mut place = None;
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
                let url = std::env::var("AGENTSTORE_TEST_POSTGRES_URL").context("no server is named")?;
                let name = format!("bench_{}", Uuids.next_id().replace('-', ""));
                let config = PostgresConfig::new(&url)?.with_schema(&name)?;
                let store = PostgresStore::open(config.clone()).await?;
                place = Some(Arc::new(Place::Schema(TestSchema::named(config))));
                Arc::new(store)
            }
            Backend::Nats => {
                let url = std::env::var("AGENTSTORE_TEST_NATS_URL").context("no server is named")?;
                let config = NatsConfig::new(&url)?.with_prefix(&format!("bench-{}", Uuids.next_id()))?;
                let store = NatsStore::open(config.clone()).await?;
                place = Some(Arc::new(Place::Prefix(TestPrefix::named(config))));
                Arc::new(store)
            }
        };
        let stores = store.tenant(&TenantId::default_tenant())?;
        Ok(Self { store, stores, _place: place })
    }

    /// What writes to its threads.
    pub(crate) fn commits(&self) -> Result<&dyn CommitCoordinator> {
        self.stores.commits.as_deref().context("the store keeps no threads")
    }

    /// Its threads.
    pub(crate) fn threads(&self) -> Result<&dyn ThreadRunStore> {
        self.stores.threads.as_deref().context("the store keeps no threads")
    }
}

/// What writes to a tenant.
pub(crate) fn commits(store: &dyn Store, tenant: &TenantId) -> Result<Arc<dyn CommitCoordinator>> {
    store.tenant(tenant)?.commits.context("the store keeps no threads")
}

/// Which of two sides has its turn first: now one, now the other.
pub(crate) const fn turns(sample: usize) -> [bool; 2] {
    if sample.is_multiple_of(2) { [false, true] } else { [true, false] }
}
