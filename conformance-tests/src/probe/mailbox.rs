//! Lists of the dispatches of a tenant and of a thread, ordered by creation.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Direction, DispatchFilter, DispatchId, DispatchOrder, DispatchQuery, Error, MailboxStore, NewDispatch, Page,
    PageRequest, Result, TenantStores,
};

use super::{BOTH_DIRECTIONS, Item, Probe};
use crate::given::id;

fn mailbox(stores: &TenantStores) -> Result<Arc<dyn MailboxStore>> {
    stores.mailbox.clone().ok_or_else(|| Error::unavailable("the store has no mailbox"))
}

async fn write(stores: &TenantStores, thread: &str, name: &str) -> Result<()> {
    let draft = NewDispatch::new(id(thread), id("run")).with_id(DispatchId::new(name)?);
    mailbox(stores)?.enqueue(vec![draft]).await?.into_iter().try_for_each(|answer| answer.map(drop))
}

async fn list(stores: &TenantStores, query: DispatchQuery) -> Result<Page<Item>> {
    let page = mailbox(stores)?.list_dispatches(query).await?;
    Ok(page.map(|dispatch| Item::new(dispatch.created_at.as_millis(), dispatch.id)))
}

pub(super) struct ByCreation;

#[async_trait]
impl Probe for ByCreation {
    fn name(&self) -> &'static str {
        "dispatches"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        write(stores, "dispatches", id).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        Ok(mailbox(stores)?.load_dispatch(&DispatchId::new(id)?).await?.is_some())
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<Item>> {
        let query = DispatchQuery::default().ordered(DispatchOrder::Creation, direction).with_page(page);
        list(stores, query).await
    }
}

pub(super) struct OfThread;

#[async_trait]
impl Probe for OfThread {
    fn name(&self) -> &'static str {
        "dispatches of a thread"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        write(stores, "one thread", id).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        ByCreation.has(stores, id).await
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<Item>> {
        let filter = DispatchFilter::of_thread(id("one thread"));
        list(stores, DispatchQuery::new(filter).ordered(DispatchOrder::Creation, direction).with_page(page)).await
    }
}
