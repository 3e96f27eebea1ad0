//! A composition of two stores: everything of one store, with a part of another.

mod audit;
mod commits;
mod merged_list;

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Capabilities, Page, PageRequest, Processes, Progress, ReclaimedSpace, Result, Store, StoreIdentity, TenantId,
    TenantStores,
    health::StoreHealth,
    inspect::{Inspection, Inspector},
    records::JoinedRecords,
};

pub(crate) use self::audit::MergedAudit;
use self::{commits::NonSettlingCommits, merged_list::ListSource};

/// What a composition uses of its second store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherPart {
    /// The mailbox, with the live channel and the wake-ups.
    Mailbox,
    /// Config, profiles and the audit log, which `Stores` builds over the documents and the events of the second store.
    Settings,
    /// The objects, which contain the bytes of blobs.
    Blobs,
}

impl OtherPart {
    /// Returns the name in messages. It is also the name of the option of the command.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mailbox => "mailbox",
            Self::Settings => "settings",
            Self::Blobs => "blobs",
        }
    }
}

/// The store of the threads, with a part of another store. Events, pending input, the outbox and documents always come
/// from the thread store (CP-2), so they have no field of their own.
pub(crate) struct ComposedStore {
    thread_store: Arc<dyn Store>,
    other_store: Arc<dyn Store>,
    part: OtherPart,
    capabilities: Capabilities,
}

impl ComposedStore {
    fn inspectors(&self) -> impl Iterator<Item = &dyn Inspector> + Send {
        [&self.thread_store, &self.other_store].into_iter().filter_map(|store| store.inspector())
    }

    /// Combines the threads of one store with a part of another.
    pub(crate) fn new(thread_store: Arc<dyn Store>, other_store: Arc<dyn Store>, part: OtherPart) -> Self {
        let mut capabilities = combined_capabilities(thread_store.capabilities(), other_store.capabilities());
        capabilities.fenced = part != OtherPart::Mailbox && thread_store.capabilities().fenced;
        Self { thread_store, other_store, part, capabilities }
    }
}

/// Returns the capabilities of the composition. For durability, record size and number of processes, the weaker store
/// decides. Time and events are those of the thread store.
fn combined_capabilities(threads: &Capabilities, other: &Capabilities) -> Capabilities {
    let mut combined = threads.clone();
    combined.survives = threads.survives.min(other.survives);
    combined.max_record_bytes = threads.max_record_bytes.min(other.max_record_bytes);
    combined.processes = threads.processes;
    if other.processes == Processes::One {
        combined.processes = Processes::One;
    }
    combined
}

#[async_trait]
impl Store for ComposedStore {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let mut stores = self.thread_store.tenant(tenant)?;
        match self.part {
            OtherPart::Settings => return Ok(stores),
            OtherPart::Blobs => {
                stores.objects = self.other_store.tenant(tenant)?.objects;
                return Ok(stores);
            }
            OtherPart::Mailbox => {}
        }
        let TenantStores { mailbox, live, wake_ups, records, .. } = self.other_store.tenant(tenant)?;
        stores.records = Some(Arc::new(JoinedRecords::new(stores.records, records)));
        // Wake-ups announce work in a mailbox. Those of the thread store would announce work in a mailbox that is not
        // used.
        (stores.mailbox, stores.wake_ups) = (mailbox, wake_ups);
        stores.live = live.or(stores.live);
        stores.commits = stores.commits.map(|commits| Arc::new(NonSettlingCommits::new(commits)) as _);
        Ok(stores)
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        let sources: [&dyn ListSource<TenantId>; 2] = [&&*self.thread_store, &&*self.other_store];
        merged_list::list(sources[0], sources[1], TenantId::cmp, page).await
    }

    /// Deletes the tenant from the other store first: without work in a mailbox, no worker writes to the threads again.
    /// Blobs are deleted last, because what is known about them must not be without their bytes. If the call is
    /// interrupted between the two stores, the tenant is still listed, or only objects without a blob are left.
    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        if self.part == OtherPart::Blobs {
            self.thread_store.delete_tenant(tenant).await?;
            return self.other_store.delete_tenant(tenant).await;
        }
        self.other_store.delete_tenant(tenant).await?;
        self.thread_store.delete_tenant(tenant).await
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Returns none. A composition is not the store of its threads, whose identity says which mailbox it has.
    fn identity(&self) -> Option<StoreIdentity> {
        None
    }

    /// Returns what both stores report. The clock is that of the thread store.
    async fn health(&self) -> Result<StoreHealth> {
        let mut health = self.thread_store.health().await?;
        let other = self.other_store.health().await?;
        let name = self.part.name();
        health = other
            .facts
            .into_iter()
            .fold(health, |health, fact| health.with(format!("{name} {}", fact.name), fact.value));
        health.findings.extend(other.findings);
        health.free_bytes = [health.free_bytes, other.free_bytes].into_iter().flatten().min();
        Ok(health)
    }

    async fn sync(&self) -> Result<()> {
        self.thread_store.sync().await?;
        self.other_store.sync().await
    }

    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        let reclaimed = self.thread_store.reclaim_space(progress).await?;
        if reclaimed.stopped {
            return Ok(reclaimed);
        }
        self.other_store.reclaim_space(progress).await
    }

    async fn close(&self) -> Result<()> {
        let (other, threads) = (self.other_store.close().await, self.thread_store.close().await);
        other.and(threads)
    }

    /// Returns an inspector of both stores, if either has one.
    fn inspector(&self) -> Option<&dyn Inspector> {
        self.thread_store.inspector().or_else(|| self.other_store.inspector()).map(|_| self as _)
    }
}

#[async_trait]
impl Inspector for ComposedStore {
    async fn verify(&self, progress: &dyn Progress) -> Result<Inspection> {
        let mut inspection = Inspection::default();
        for inspector in self.inspectors() {
            inspection = inspection.and(inspector.verify(progress).await?);
        }
        Ok(inspection)
    }

    async fn repair(&self, dry_run: bool, progress: &dyn Progress) -> Result<Inspection> {
        let mut inspection = Inspection::default();
        for inspector in self.inspectors() {
            inspection = inspection.and(inspector.repair(dry_run, progress).await?);
        }
        Ok(inspection)
    }
}
