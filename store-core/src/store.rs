//! Opening and closing of a store, and the handles of its tenants.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{
    capabilities::Capabilities,
    commit::CommitCoordinator,
    document::DocumentStore,
    error::Result,
    event::EventStore,
    health::StoreHealth,
    id::TenantId,
    identity::StoreIdentity,
    live::{LiveChannel, WakeUps},
    mailbox::MailboxStore,
    object::ObjectStore,
    outbox::OutboxStore,
    page::{Page, PageRequest},
    pending::PendingStore,
    progress::Progress,
    records::RecordPort,
    thread::ThreadRunStore,
};

/// An opened store.
#[async_trait]
pub trait Store: Send + Sync {
    /// Returns the handles of a tenant.
    ///
    /// They give no access to the data of other tenants (TN-1). The store stays open as long as one of the handles, or
    /// a subscription from one of them, exists (PR-8, `process::handles_keep_the_store_open`).
    ///
    /// # Errors
    /// `Closed` if the store or the tenant was closed.
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores>;

    /// Lists the tenants that have data, ordered by name, in pages (TN-8).
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list or store.
    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>>;

    /// Closes a tenant and removes everything that belongs to it, and nothing else (TN-8).
    ///
    /// From the moment the tenant is closed, every call through its handles ends with `Closed`. After this call has
    /// returned, a tenant of that name can be used again through new handles.
    ///
    /// # Errors
    /// Any error of writing. After an `Unknown` outcome, or if the call did not end, call it again. The new call
    /// continues the deletion.
    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()>;

    /// Returns the capabilities of the opened store (PR-1).
    fn capabilities(&self) -> &Capabilities;

    /// Returns which store this is, so that a second opening of it is recognised (CP-3); none if the store cannot tell.
    fn identity(&self) -> Option<StoreIdentity>;

    /// Reads the state of the store: versions, settings, its clock, free space (CP-6). Nothing is written.
    ///
    /// # Errors
    /// Any error of reading.
    async fn health(&self) -> Result<StoreHealth>;

    /// Waits until all data that was acknowledged before the call would survive a power cut. This holds whatever
    /// durability the store was opened with (PR-19).
    ///
    /// # Errors
    /// `Unsupported` if the store cannot ensure this.
    async fn sync(&self) -> Result<()>;

    /// Lets go of the bytes of everything that was removed: when this returns, they are in no file, table, stream and
    /// index of the store any more (PV-3). Other calls go on meanwhile. It reads much of the store.
    ///
    /// What the medium keeps below the store is not reached: free blocks of a file system, the write-ahead log of a
    /// server, backups.
    ///
    /// # Errors
    /// `Unavailable` if readers do not let go of an earlier state in time; any error of writing. After any error, call
    /// it again.
    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace>;

    /// Completes all accepted calls, stops background work and releases locks. Later calls end with `Closed` (PR-8).
    ///
    /// The same happens in the background when the last handle of the store or of a tenant is dropped. Closing a store
    /// twice is not an error.
    ///
    /// # Errors
    /// The error with which the remaining work ended. The store is closed even then.
    async fn close(&self) -> Result<()>;

    /// Returns the checks and repairs of stored data, if the store has them.
    fn inspector(&self) -> Option<&dyn crate::inspect::Inspector>;
}

/// What a call of [`reclaim_space`](Store::reclaim_space) came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
#[non_exhaustive]
pub struct ReclaimedSpace {
    /// Whether the progress has stopped it before its end.
    pub stopped: bool,
}

impl ReclaimedSpace {
    /// Makes the result of a call. Only implementations of a store need this.
    #[must_use]
    pub const fn new(stopped: bool) -> Self {
        Self { stopped }
    }
}

/// The contracts of a store for one tenant. A field is `None` if the store does not implement that contract.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct TenantStores {
    /// Threads, their logs and runs.
    pub threads: Option<Arc<dyn ThreadRunStore>>,
    /// Pending input of the threads.
    pub pending: Option<Arc<dyn PendingStore>>,
    /// Events.
    pub events: Option<Arc<dyn EventStore>>,
    /// The outbox: rows that are to be delivered to other systems.
    pub outbox: Option<Arc<dyn OutboxStore>>,
    /// Documents, and the topics of `events`.
    pub documents: Option<Arc<dyn DocumentStore>>,
    /// Objects: the bytes of blobs.
    pub objects: Option<Arc<dyn ObjectStore>>,
    /// The coordinator, which writes commits to `threads`, `pending`, `events`, `outbox` and `documents`.
    pub commits: Option<Arc<dyn CommitCoordinator>>,
    /// The mailbox: dispatches for the threads.
    pub mailbox: Option<Arc<dyn MailboxStore>>,
    /// The live channel: commands to running attempts of dispatches.
    pub live: Option<Arc<dyn LiveChannel>>,
    /// The wake-ups for workers that wait for dispatches.
    pub wake_ups: Option<Arc<dyn WakeUps>>,
    /// The records as the store keeps them, for copies.
    pub records: Option<Arc<dyn RecordPort>>,
}

impl TenantStores {
    /// Returns the handles of a store that keeps threads: the coordinator `commits`, and the stores that it writes to.
    #[must_use]
    pub fn from_coordinator(commits: Arc<dyn CommitCoordinator>) -> Self {
        Self {
            threads: Some(commits.threads()),
            pending: Some(commits.pending()),
            events: Some(commits.events()),
            outbox: Some(commits.outbox()),
            documents: commits.documents(),
            objects: None,
            commits: Some(commits),
            mailbox: None,
            live: None,
            wake_ups: None,
            records: None,
        }
    }

    /// Sets the objects.
    #[must_use]
    pub fn with_objects(mut self, objects: Arc<dyn ObjectStore>) -> Self {
        self.objects = Some(objects);
        self
    }

    /// Sets the mailbox.
    #[must_use]
    pub fn with_mailbox(mut self, mailbox: Arc<dyn MailboxStore>) -> Self {
        self.mailbox = Some(mailbox);
        self
    }

    /// Sets the live channel.
    #[must_use]
    pub fn with_live(mut self, live: Arc<dyn LiveChannel>) -> Self {
        self.live = Some(live);
        self
    }

    /// Sets the wake-ups, which belong to the mailbox of the store.
    #[must_use]
    pub fn with_wake_ups(mut self, wake_ups: Arc<dyn WakeUps>) -> Self {
        self.wake_ups = Some(wake_ups);
        self
    }

    /// Sets the records as the store keeps them.
    #[must_use]
    pub fn with_records(mut self, records: Arc<dyn RecordPort>) -> Self {
        self.records = Some(records);
        self
    }

    /// Returns the live channel, if the store has one (PR-2).
    #[must_use]
    pub fn live(&self) -> Option<&dyn LiveChannel> {
        self.live.as_deref()
    }

    /// Returns the wake-ups, if the store has them (PR-2).
    ///
    /// Without them, a worker that waits for work claims again from time to time. It finds all work nevertheless
    /// (LV-11).
    #[must_use]
    pub fn wake_ups(&self) -> Option<&dyn WakeUps> {
        self.wake_ups.as_deref()
    }
}

impl fmt::Debug for TenantStores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantStores")
            .field("threads", &self.threads.is_some())
            .field("pending", &self.pending.is_some())
            .field("events", &self.events.is_some())
            .field("outbox", &self.outbox.is_some())
            .field("documents", &self.documents.is_some())
            .field("objects", &self.objects.is_some())
            .field("commits", &self.commits.is_some())
            .field("mailbox", &self.mailbox.is_some())
            .field("live", &self.live.is_some())
            .field("wake_ups", &self.wake_ups.is_some())
            .field("records", &self.records.is_some())
            .finish()
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: Store + ?Sized> Store for Arc<S> {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        S::tenant(self, tenant)
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        S::list_tenants(self, page).await
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        S::delete_tenant(self, tenant).await
    }

    fn capabilities(&self) -> &Capabilities {
        S::capabilities(self)
    }

    fn identity(&self) -> Option<StoreIdentity> {
        S::identity(self)
    }

    async fn health(&self) -> Result<StoreHealth> {
        S::health(self).await
    }

    async fn sync(&self) -> Result<()> {
        S::sync(self).await
    }

    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        S::reclaim_space(self, progress).await
    }

    async fn close(&self) -> Result<()> {
        S::close(self).await
    }

    fn inspector(&self) -> Option<&dyn crate::inspect::Inspector> {
        S::inspector(self)
    }
}
