//! The parts of an opened store, put together.

use std::{fmt, path::PathBuf, sync::Arc};

use store_core::{
    Capabilities, Clock, CommitCoordinator, MailboxStore, Result, Store, SystemClock, TenantId, TenantStores, ThreadId,
    ThreadRunStore,
};

use crate::{composed::Composed, options::unsupported};

/// An opened store with all its parts.
///
/// Threads, logs, runs, state, events, pending input, the outbox and what commits to them are always of one store: what
/// is atomic together cannot be put together from two (CP-2). The mailbox alone may be of another one:
/// [`with_mailbox`](Self::with_mailbox).
#[derive(Clone)]
pub struct Stores {
    store: Arc<dyn Store>,
    files: Option<Arc<dyn LogFiles>>,
    clock: Arc<dyn Clock>,
    backend: &'static str,
    /// That of the mailbox, where it is of another store.
    mailbox: Option<Other>,
}

/// A store of which the mailbox is used.
#[derive(Clone)]
struct Other {
    capabilities: Capabilities,
    clock: Arc<dyn Clock>,
    backend: &'static str,
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
        Self { store, files: None, clock: Arc::new(SystemClock), backend: "other", mailbox: None }
    }

    /// The same under this name of a backend, which metrics have as a label; `other` if nothing is said.
    #[must_use]
    pub const fn named(mut self, backend: &'static str) -> Self {
        self.backend = backend;
        self
    }

    /// The same with the clock that the store was opened with. What asks for times to compare with store time
    /// (`Maintenance`) asks it; a server's store has a clock of its own, which should show about the same.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same with the mailbox of another store: everything else stays that of this one.
    ///
    /// No atomic step reaches over both. A commit cannot settle a dispatch (`Unsupported`), and a claim is judged by
    /// its number alone: a thread remembers the highest one that wrote to it, and refuses lower ones (CM-32). Who is to
    /// write under a claim first takes its thread over, as the worker loop does.
    ///
    /// If both are one store it stays as it is, with the capability `fenced` (CP-3). A tenant is deleted from the
    /// mailbox first; a deletion that was cut off is finished by repeating it. Two handles of one place that were
    /// opened apart are not known to be one: they work, without `fenced`.
    ///
    /// # Errors
    /// `Unsupported` if `other` keeps no mailbox; `Closed` if it was closed.
    pub fn with_mailbox(self, other: &Self) -> Result<Self> {
        if Arc::ptr_eq(&self.store, &other.store) {
            return Ok(self);
        }
        other.mailbox(&TenantId::default_tenant())?;
        let (capabilities, clock) = (other.mailbox_capabilities().clone(), Arc::clone(other.mailbox_clock()));
        let mailbox = Some(Other { capabilities, clock, backend: other.mailbox_backend() });
        let store = Arc::new(Composed::new(self.store, Arc::clone(&other.store)));
        Ok(Self { store, mailbox, ..self })
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

    /// What the store of the mailbox gives, which may be another one: how its claims, its time and its dispatches last.
    #[must_use]
    pub fn mailbox_capabilities(&self) -> &Capabilities {
        self.mailbox.as_ref().map_or_else(|| self.capabilities(), |other| &other.capabilities)
    }

    /// The name of the backend that keeps the mailbox: `memory`, `file`, `postgres`, `sqlite-mailbox`, `nats`, or what
    /// [`named`](Self::named) said.
    #[must_use]
    pub fn mailbox_backend(&self) -> &'static str {
        self.mailbox.as_ref().map_or(self.backend, |other| other.backend)
    }

    /// The name of the backend that keeps everything else.
    #[must_use]
    pub const fn backend(&self) -> &'static str {
        self.backend
    }

    /// The clock that the store was opened with.
    #[must_use]
    pub const fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The clock that the store of the mailbox was opened with.
    #[must_use]
    pub fn mailbox_clock(&self) -> &Arc<dyn Clock> {
        self.mailbox.as_ref().map_or(&self.clock, |other| &other.clock)
    }

    /// Every contract that the store has for a tenant.
    ///
    /// # Errors
    /// As [`Store::tenant`].
    pub fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let stores = self.store.tenant(tenant)?;
        #[cfg(feature = "metrics")]
        let stores = crate::worker::counting_enqueues(stores, self.mailbox_backend());
        Ok(stores)
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
            unsupported(
                "keeping a mailbox (open a store that does: `memory:`, `file:PATH`, `sqlite:PATH`, `postgres://…` or \
                 `nats://…`)",
            )
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
