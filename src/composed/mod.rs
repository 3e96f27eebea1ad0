//! A composition of two stores: everything of one store, with the mailbox of another.

mod commits;
mod tenants;

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Capabilities, Page, PageRequest, Processes, Result, Store, TenantId, TenantStores, inspect::Inspector,
};

use self::commits::NonSettlingCommits;

/// The store of the threads, with the mailbox of another store. Events, pending input and the outbox always come from
/// the thread store (CP-2), so they have no field of their own.
pub(crate) struct ComposedStore {
    thread_store: Arc<dyn Store>,
    mailbox_store: Arc<dyn Store>,
    capabilities: Capabilities,
}

impl ComposedStore {
    /// Combines the threads of one store with the mailbox of another.
    pub(crate) fn new(thread_store: Arc<dyn Store>, mailbox_store: Arc<dyn Store>) -> Self {
        let capabilities = combined_capabilities(thread_store.capabilities(), mailbox_store.capabilities());
        Self { thread_store, mailbox_store, capabilities }
    }
}

/// Returns the capabilities of the composition. For durability, record size and number of processes, the weaker store
/// decides. Time and events are those of the thread store.
fn combined_capabilities(threads: &Capabilities, mailbox: &Capabilities) -> Capabilities {
    let mut combined = threads.clone();
    combined.survives = threads.survives.min(mailbox.survives);
    combined.max_record_bytes = threads.max_record_bytes.min(mailbox.max_record_bytes);
    combined.processes = threads.processes;
    if mailbox.processes == Processes::One {
        combined.processes = Processes::One;
    }
    combined.fenced = false;
    combined
}

#[async_trait]
impl Store for ComposedStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let mut stores = self.thread_store.tenant(tenant)?;
        let TenantStores { mailbox, live, wake_ups, .. } = self.mailbox_store.tenant(tenant)?;
        // Wake-ups announce work in a mailbox. Those of the thread store would announce work in a mailbox that is not
        // used.
        (stores.mailbox, stores.wake_ups) = (mailbox, wake_ups);
        stores.live = live.or(stores.live);
        stores.commits = stores.commits.map(|commits| Arc::new(NonSettlingCommits::new(commits)) as _);
        Ok(stores)
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        tenants::list(&*self.thread_store, &*self.mailbox_store, page).await
    }

    /// Deletes the tenant from the mailbox first, because without work no worker writes to the threads again. If the
    /// call is interrupted between the two stores, the tenant is still listed.
    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.mailbox_store.delete_tenant(tenant).await?;
        self.thread_store.delete_tenant(tenant).await
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn sync(&self) -> Result<()> {
        self.thread_store.sync().await?;
        self.mailbox_store.sync().await
    }

    async fn close(&self) -> Result<()> {
        let (mailbox, threads) = (self.mailbox_store.close().await, self.thread_store.close().await);
        mailbox.and(threads)
    }

    /// Returns the inspector of the thread store. To inspect the mailbox, open its own store.
    fn inspector(&self) -> Option<&dyn Inspector> {
        self.thread_store.inspector()
    }
}
