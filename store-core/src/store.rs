//! The life of a store, and the handles of its tenants.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::{
    capabilities::Capabilities,
    commit::CommitCoordinator,
    error::Result,
    event::EventStore,
    id::TenantId,
    live::{LiveChannel, WakeUps},
    mailbox::MailboxStore,
    outbox::OutboxStore,
    page::{Page, PageRequest},
    pending::PendingStore,
    thread::ThreadRunStore,
};

/// An opened store.
#[async_trait]
pub trait Store: Send + Sync {
    /// The handles of a tenant. Nothing of another tenant can be reached through them (TN-1). The store stays open as
    /// long as any of them is held, or a subscription from one (PR-8, `process::handles_keep_the_store_open`).
    ///
    /// # Errors
    /// `Closed` if the store or the tenant was closed.
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores>;

    /// Lists the tenants that hold something, by name, in pages (TN-8).
    ///
    /// # Errors
    /// `Invalid` for a bad limit; `InvalidCursor` for a foreign cursor.
    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>>;

    /// Closes a tenant (every call through its handles is `Closed` from then on), then removes everything of it and
    /// nothing else (TN-8). A tenant of that name can be used again after it returned, through new handles.
    ///
    /// # Errors
    /// Those of writing. After an `Unknown` outcome, or when it was cut off: call it again, which goes on.
    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()>;

    /// What the store really gives (PR-1).
    fn capabilities(&self) -> &Capabilities;

    /// Returns when everything acknowledged before it survives a power cut, whatever the options (PR-19).
    ///
    /// # Errors
    /// `Unsupported` where that cannot be had.
    async fn sync(&self) -> Result<()>;

    /// Finishes what was accepted, stops background work and releases locks; later calls are `Closed` (PR-8). Dropping
    /// the last handle, of the store or of a tenant, does the same without waiting. Closing twice is no error.
    ///
    /// # Errors
    /// What finishing ends with; the store is closed all the same.
    async fn close(&self) -> Result<()>;

    /// Checks and repairs of what is stored, where the store has them.
    fn inspector(&self) -> Option<&dyn crate::inspect::Inspector>;
}

/// The contracts of a store, for one tenant. A store has what is `Some`.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct TenantStores {
    /// Threads, their logs and runs.
    pub threads: Option<Arc<dyn ThreadRunStore>>,
    /// What waits to be read by their runs.
    pub pending: Option<Arc<dyn PendingStore>>,
    /// What happened.
    pub events: Option<Arc<dyn EventStore>>,
    /// What is to be delivered elsewhere.
    pub outbox: Option<Arc<dyn OutboxStore>>,
    /// What writes to them.
    pub commits: Option<Arc<dyn CommitCoordinator>>,
    /// Work for their runs.
    pub mailbox: Option<Arc<dyn MailboxStore>>,
    /// Commands to what runs of it.
    pub live: Option<Arc<dyn LiveChannel>>,
    /// What wakes who waits for some.
    pub wake_ups: Option<Arc<dyn WakeUps>>,
}

impl TenantStores {
    /// The handles of a store that keeps threads: the coordinator, and the stores that it writes to.
    #[must_use]
    pub fn of_threads(commits: Arc<dyn CommitCoordinator>) -> Self {
        Self {
            threads: Some(commits.threads()),
            pending: Some(commits.pending()),
            events: Some(commits.events()),
            outbox: Some(commits.outbox()),
            commits: Some(commits),
            mailbox: None,
            live: None,
            wake_ups: None,
        }
    }

    /// The same with this mailbox.
    #[must_use]
    pub fn with_mailbox(mut self, mailbox: Arc<dyn MailboxStore>) -> Self {
        self.mailbox = Some(mailbox);
        self
    }

    /// The same with this live channel.
    #[must_use]
    pub fn with_live(mut self, live: Arc<dyn LiveChannel>) -> Self {
        self.live = Some(live);
        self
    }

    /// The same with these wake-ups, which are about its mailbox.
    #[must_use]
    pub fn with_wake_ups(mut self, wake_ups: Arc<dyn WakeUps>) -> Self {
        self.wake_ups = Some(wake_ups);
        self
    }

    /// The live channel, if the store has one (PR-2).
    #[must_use]
    pub fn live(&self) -> Option<&dyn LiveChannel> {
        self.live.as_deref()
    }

    /// The wake-ups, if the store has them (PR-2). Without them who waits for work claims again from time to time,
    /// and finds everything (LV-11).
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
            .field("commits", &self.commits.is_some())
            .field("mailbox", &self.mailbox.is_some())
            .field("live", &self.live.is_some())
            .field("wake_ups", &self.wake_ups.is_some())
            .finish()
    }
}
