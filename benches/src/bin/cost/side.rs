//! One of the two stores that are compared.

use std::{path::Path, sync::Arc};

use anyhow::{Context, Result};
use store_core::{CommitCoordinator, Store, TenantId, ThreadRunStore};
use store_file::{Durability, FileConfig, FileStore};
use store_memory::{MemoryConfig, MemoryStore};

/// Which store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Memory,
    /// On files, without waiting for the disk: what the processor has to do.
    File,
    /// On files, each commit synced.
    FileSync,
}

impl Backend {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::File => "file",
            Self::FileSync => "file-sync",
        }
    }

    /// How many of the wanted samples are taken: syncs take their time.
    pub(crate) fn samples(self, wanted: usize) -> usize {
        if self == Self::FileSync { wanted.div_ceil(4) } else { wanted }
    }
}

/// An opened store.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) commits: Arc<dyn CommitCoordinator>,
    pub(crate) threads: Arc<dyn ThreadRunStore>,
}

impl Side {
    /// Opens a store to be filled: nothing is synced for that.
    pub(crate) fn to_fill(backend: Backend, path: &Path) -> Result<Self> {
        Self::open(if backend == Backend::FileSync { Backend::File } else { backend }, path)
    }

    /// The store as it is measured, once it is filled.
    pub(crate) async fn ready(self, backend: Backend, path: &Path) -> Result<Self> {
        if backend != Backend::FileSync {
            return Ok(self);
        }
        self.store.close().await?;
        drop(self);
        Self::open(backend, path)
    }

    fn open(backend: Backend, path: &Path) -> Result<Self> {
        let config = FileConfig::default();
        let store: Arc<dyn Store> = match backend {
            Backend::Memory => Arc::new(MemoryStore::open(MemoryConfig::default())?),
            Backend::File => Arc::new(FileStore::open(path, config.with_durability(Durability::None))?),
            Backend::FileSync => Arc::new(FileStore::open(path, config)?),
        };
        let commits = commits(&*store, &TenantId::default_tenant())?;
        Ok(Self { threads: commits.threads(), store, commits })
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
