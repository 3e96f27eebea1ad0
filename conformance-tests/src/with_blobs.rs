//! Stores whose records use blobs, for every case of the suite: no caller notices that blocks are moved (BL-3).

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use store_core::{
    BlobOptions, Capabilities, Limits, Page, PageRequest, Progress, ReclaimedSpace, Result, Store, StoreIdentity,
    SystemClock, TenantId, TenantStores, health::StoreHealth, inspect::Inspector, with_blobs,
};

use crate::{
    case::Need,
    closed_store::ClosedStore,
    fixture::{Fixture, Gap, OpenedStore, UnmetReason},
};

/// The number of bytes above which a block is moved. Blocks of most cases are short, and longer all the same.
const MOVED_ABOVE: u64 = 2;

/// Cases in which a text is too long for its record. Here it is not in its record. One case names a blob that does not
/// exist.
const GAPS: [Gap; 5] = [
    gap("commit::a_record_has_a_limit", "a long text is not in its record"),
    gap("commit::smaller_limits_are_enforced", "a long text is not in its record"),
    gap("commit::the_parts_of_a_commit_count_together", "a long text is not in its record"),
    gap("pending::smaller_limits_of_a_store_apply", "a long text is not in its record"),
    gap("log::every_block_round_trips", "a message names a blob that does not exist"),
];

const fn gap(case: &'static str, reason: &'static str) -> Gap {
    Gap { case, reason }
}

/// Opens the stores of another fixture, whose records use blobs.
#[derive(Debug, Clone, Copy)]
pub struct WithBlobs<F>(pub F);

/// A store whose records use blobs.
struct StoreWithBlobs(Arc<dyn Store>);

/// What the other fixture has opened, with a closed placeholder in the place of its store. Only [`StoreWithBlobs`]
/// holds the store, so that it is dropped when the suite drops it.
struct Inner(OpenedStore);

fn opened(inner: OpenedStore) -> OpenedStore {
    let OpenedStore { store, guard } = inner;
    let placeholder = Arc::new(ClosedStore::new());
    OpenedStore::new(Arc::new(StoreWithBlobs(store)), Inner(OpenedStore { store: placeholder, guard }))
}

/// Returns what the other fixture has opened. The store itself was closed or dropped before.
fn into_inner(opened: OpenedStore) -> OpenedStore {
    drop(opened.store);
    opened.guard.downcast::<Inner>().expect("a store that this fixture opened").0
}

fn inner(opened: &OpenedStore) -> &OpenedStore {
    &opened.guard::<Inner>().expect("a store that this fixture opened").0
}

#[async_trait]
impl Store for StoreWithBlobs {
    fn tenant(&self, tenant: &TenantId) -> Result<TenantStores> {
        let options = BlobOptions::default().moving_above(Some(MOVED_ABOVE));
        with_blobs(self.0.tenant(tenant)?, options, Arc::new(SystemClock))
    }

    async fn list_tenants(&self, page: PageRequest) -> Result<Page<TenantId>> {
        self.0.list_tenants(page).await
    }

    async fn delete_tenant(&self, tenant: &TenantId) -> Result<()> {
        self.0.delete_tenant(tenant).await
    }

    fn capabilities(&self) -> &Capabilities {
        self.0.capabilities()
    }

    fn identity(&self) -> Option<StoreIdentity> {
        self.0.identity()
    }

    async fn health(&self) -> Result<StoreHealth> {
        self.0.health().await
    }

    async fn sync(&self) -> Result<()> {
        self.0.sync().await
    }

    async fn reclaim_space(&self, progress: &dyn Progress) -> Result<ReclaimedSpace> {
        self.0.reclaim_space(progress).await
    }

    async fn close(&self) -> Result<()> {
        self.0.close().await
    }

    fn inspector(&self) -> Option<&dyn Inspector> {
        self.0.inspector()
    }
}

impl fmt::Debug for StoreWithBlobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreWithBlobs").finish_non_exhaustive()
    }
}

#[async_trait]
impl<F: Fixture> Fixture for WithBlobs<F> {
    fn name(&self) -> String {
        format!("{}, with blobs", self.0.name())
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn why_unmet(&self, need: Need) -> Option<UnmetReason> {
        self.0.why_unmet(need)
    }

    fn gaps(&self) -> Vec<Gap> {
        self.0.gaps().into_iter().chain(GAPS).collect()
    }

    async fn open(&self, limits: Limits) -> Result<OpenedStore> {
        self.0.open(limits).await.map(opened)
    }

    async fn reopen(&self, opened_store: OpenedStore) -> Result<OpenedStore> {
        self.0.reopen(into_inner(opened_store)).await.map(opened)
    }

    async fn open_second_time(&self, opened: &OpenedStore) -> Result<Arc<dyn Store>> {
        let store = self.0.open_second_time(inner(opened)).await?;
        Ok(Arc::new(StoreWithBlobs(store)))
    }

    async fn advance(&self, opened: &OpenedStore, by: Duration) {
        self.0.advance(inner(opened), by).await;
    }

    async fn set_back(&self, opened: &OpenedStore, by: Duration) {
        self.0.set_back(inner(opened), by).await;
    }

    async fn damage(&self, opened_store: OpenedStore, seed: u64) -> Result<OpenedStore> {
        self.0.damage(into_inner(opened_store), seed).await.map(opened)
    }
}
