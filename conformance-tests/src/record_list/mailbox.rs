//! Lists of the dispatches of a tenant and of a thread, ordered by creation.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Direction, DispatchFilter, DispatchId, DispatchOrder, DispatchQuery, Error, MailboxStore, NewDispatch, Page,
    PageRequest, Result, TenantStores,
};

use super::{BOTH_DIRECTIONS, ListedRecord, RecordList};
use crate::given::id;

fn mailbox(stores: &TenantStores) -> Result<Arc<dyn MailboxStore>> {
    stores.mailbox.clone().ok_or_else(|| Error::unavailable("the store has no mailbox"))
}

async fn enqueue(stores: &TenantStores, thread: &str, name: &str) -> Result<()> {
    let draft = NewDispatch::new(id(thread), id("run")).with_id(DispatchId::new(name)?);
    mailbox(stores)?.enqueue(vec![draft]).await?.into_iter().try_for_each(|answer| answer.map(drop))
}

async fn list_dispatches(stores: &TenantStores, query: DispatchQuery) -> Result<Page<ListedRecord>> {
    let page = mailbox(stores)?.list_dispatches(query).await?;
    Ok(page.map(|dispatch| ListedRecord::new(dispatch.created_at.as_millis(), dispatch.id)))
}

/// All dispatches of the tenant.
pub(super) struct DispatchesOfTenant;

#[async_trait]
impl RecordList for DispatchesOfTenant {
    fn name(&self) -> &'static str {
        "dispatches"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        enqueue(stores, "dispatches", id).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        Ok(mailbox(stores)?.load_dispatch(&DispatchId::new(id)?).await?.is_some())
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<ListedRecord>> {
        let query = DispatchQuery::default().ordered(DispatchOrder::Creation, direction).with_page(page);
        list_dispatches(stores, query).await
    }
}

/// The dispatches of one thread.
pub(super) struct DispatchesOfThread;

#[async_trait]
impl RecordList for DispatchesOfThread {
    fn name(&self) -> &'static str {
        "dispatches of a thread"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        enqueue(stores, "one thread", id).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        DispatchesOfTenant.has(stores, id).await
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<ListedRecord>> {
        let filter = DispatchFilter::of_thread(id("one thread"));
        list_dispatches(stores, DispatchQuery::new(filter).ordered(DispatchOrder::Creation, direction).with_page(page))
            .await
    }
}
