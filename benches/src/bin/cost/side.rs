//! One of the two stores that are compared.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use store_core::{CommitCoordinator, IdSource, Store, TenantId, ThreadRunStore, Uuids};
use store_file::{Durability, FileConfig, FileStore};
use store_memory::{MemoryConfig, MemoryStore};
use store_postgres::{PostgresConfig, PostgresStore, TestSchema};

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Memory,
    /// On files, without waiting for the disk: what the processor has to do.
    File,
    /// On files, each commit synced.
    FileSync,
    /// In the PostgreSQL that AGENTSTORE_TEST_POSTGRES_URL names.
    Postgres,
}

impl Backend {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::FileSync => "file-sync",
            Self::Postgres => "postgres",
        }
    }

    /// How many of the wanted samples are taken: syncs take their time.
    pub(crate) fn samples(self, wanted: usize) -> usize {
        if matches!(self, Self::FileSync | Self::Postgres) { wanted.div_ceil(4) } else { wanted }
    }
}

/// An opened store.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) commits: Arc<dyn CommitCoordinator>,
    pub(crate) threads: Arc<dyn ThreadRunStore>,
    /// Goes with the last of its handles.
    _schema: Option<Arc<Schema>>,
}

/// A schema that is removed in the end.
struct Schema(TestSchema);

impl Drop for Schema {
    fn drop(&mut self) {
        let schema = self.0.clone();
        let removing = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(schema.remove()))
        });
        // One that stays is in the way of nobody.
        let _left = removing.join();
    }
}

impl Side {
    /// Opens a store to be filled: nothing is synced for that.
    pub(crate) async fn to_fill(backend: Backend, path: &Path) -> Result<Self> {
        Self::open(if backend == Backend::FileSync { Backend::File } else { backend }, path).await
    }

    /// The store as it is measured, once it is filled.
    pub(crate) async fn ready(self, backend: Backend, path: &Path) -> Result<Self> {
        if backend != Backend::FileSync {
            return Ok(self);
        }
        self.store.close().await?;
        drop(self);
        Self::open(backend, path).await
    }

    async fn open(backend: Backend, path: &Path) -> Result<Self> {
        let config = FileConfig::default();
        let mut schema = None;
        let store: Arc<dyn Store> = match backend {
            Backend::Memory => Arc::new(MemoryStore::open(MemoryConfig::default())?),
            Backend::File => Arc::new(FileStore::open(path, config.with_durability(Durability::None))?),
            Backend::FileSync => Arc::new(FileStore::open(path, config)?),
            Backend::Postgres => {
                let url = std::env::var("AGENTSTORE_TEST_POSTGRES_URL").context("no server is named")?;
                let name = format!("bench_{}", Uuids.next_id().replace('-', ""));
                let config = PostgresConfig::new(&url)?.with_schema(&name)?;
                let store = PostgresStore::open(config.clone()).await?;
                schema = Some(Arc::new(Schema(TestSchema::named(config))));
                Arc::new(store)
            }
        };
        let commits = commits(&*store, &TenantId::default_tenant())?;
        Ok(Self { threads: commits.threads(), store, commits, _schema: schema })
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
