//! The parts of an opened store, put together.

use std::{fmt, path::PathBuf, sync::Arc};

use store_core::{
    Capabilities, CommitCoordinator, MailboxStore, Result, Store, TenantId, TenantStores, ThreadId, ThreadRunStore,
};

use crate::options::unsupported;

/// An opened store with all its parts.
///
/// Threads, logs, runs and what commits to them are always of one store: what is atomic together cannot be put together
/// from two (CP-2).
#[derive(Clone)]
pub struct Stores {
    store: Arc<dyn Store>,
    files: Option<Arc<dyn LogFiles>>,
}

/// What a backend with readable files can say of them.
pub trait LogFiles: Send + Sync {
    /// The file that holds the log of a thread; none for an unknown thread.
    ///
    /// # Errors
    /// What looking it up ends with.
    fn log_file(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Option<PathBuf>>;
}

impl Stores {
    /// The parts of a store that was opened by hand.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, files: None }
    }

    /// The same with what the backend can say of its files.
    #[must_use]
    pub fn with_log_files(mut self, files: Arc<dyn LogFiles>) -> Self {
        self.files = Some(files);
        self
    }

    /// The store itself: tenants, capabilities, syncing, closing, inspection.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The store itself, to be kept.
    #[must_use]
    pub fn into_store(self) -> Arc<dyn Store> {
        self.store
    }

    /// What the store really gives.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        self.store.capabilities()
    }

    /// Every contract that the store has for a tenant.
    ///
    /// # Errors
    /// As [`Store::tenant`].
    pub fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        self.store.tenant(tenant)
    }

    /// What writes to the threads of a tenant; its `threads()` reads them.
    ///
    /// # Errors
    /// `Unsupported` if no part keeps threads; else as [`Store::tenant`].
    pub fn commits(&self, tenant: &TenantId) -> Result<Arc<dyn CommitCoordinator>> {
        self.tenant(tenant)?.commits.ok_or_else(|| {
            unsupported(
                "committing to threads (open a store that keeps them: `memory:`, `file:PATH` or `postgres://…`)",
            )
        })
    }

    /// The threads of a tenant, with their logs and runs.
    ///
    /// # Errors
    /// As [`commits`](Self::commits).
    pub fn threads(&self, tenant: &TenantId) -> Result<Arc<dyn ThreadRunStore>> {
        self.tenant(tenant)?.threads.ok_or_else(|| {
            unsupported("keeping threads (open a store that does: `memory:`, `file:PATH` or `postgres://…`)")
        })
    }

    /// The work that is queued for the threads of a tenant.
    ///
    /// # Errors
    /// `Unsupported` if no part keeps a mailbox; else as [`Store::tenant`].
    pub fn mailbox(&self, tenant: &TenantId) -> Result<Arc<dyn MailboxStore>> {
        self.tenant(tenant)?.mailbox.ok_or_else(|| {
            unsupported("keeping a mailbox (open a store that does: `memory:`, `file:PATH` or `postgres://…`)")
        })
    }

    /// The file that holds the log of a thread, for whoever wants to read it with other tools (FI-1); none for an
    /// unknown thread, and where a store has no such files.
    ///
    /// # Errors
    /// What looking it up ends with.
    pub fn log_file(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Option<PathBuf>> {
        self.files.as_ref().map_or(Ok(None), |files| files.log_file(tenant, thread))
    }

    /// Finishes what was accepted and closes the store (PR-8).
    ///
    /// # Errors
    /// As [`Store::close`].
    pub async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("capabilities", self.capabilities()).finish_non_exhaustive()
    }
}
