//! Lists of threads: all threads, ordered by creation or by last activity, and the threads with pending input.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    AppendPending, Direction, Error, Message, NewInput, NewThread, Page, PageRequest, PendingStore, Result,
    TenantStores, ThreadFilter, ThreadId, ThreadOrder, ThreadQuery, ThreadRunStore,
};

use super::{BOTH_DIRECTIONS, FORWARD_ONLY, ListedRecord, RecordList};

fn threads(stores: &TenantStores) -> Result<Arc<dyn ThreadRunStore>> {
    stores.threads.clone().ok_or_else(|| Error::unavailable("the store has no threads"))
}

async fn create_thread(stores: &TenantStores, id: &str) -> Result<()> {
    threads(stores)?.create_thread(NewThread::new(ThreadId::new(id)?)).await.map(drop)
}

async fn thread_exists(stores: &TenantStores, id: &str) -> Result<bool> {
    Ok(threads(stores)?.load_thread(&ThreadId::new(id)?).await?.is_some())
}

/// Threads, ordered by creation.
pub(super) struct ThreadsByCreation;

#[async_trait]
impl RecordList for ThreadsByCreation {
    fn name(&self) -> &'static str {
        "threads by creation"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        create_thread(stores, id).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        thread_exists(stores, id).await
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<ListedRecord>> {
        let query = ThreadQuery::default().ordered(ThreadOrder::Creation, direction).with_page(page);
        let page = threads(stores)?.list_threads(query).await?;
        Ok(page.map(|thread| ListedRecord::new(thread.created_at.as_millis(), thread.id)))
    }
}

/// Threads, ordered by last activity.
pub(super) struct ThreadsByActivity;

#[async_trait]
impl RecordList for ThreadsByActivity {
    fn name(&self) -> &'static str {
        "threads by last activity"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        create_thread(stores, id).await
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        thread_exists(stores, id).await
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<ListedRecord>> {
        let query = ThreadQuery::new(ThreadFilter::default()).ordered(ThreadOrder::LastActivity, direction);
        let page = threads(stores)?.list_threads(query.with_page(page)).await?;
        Ok(page.map(|thread| ListedRecord::new(thread.updated_at.as_millis(), thread.id)))
    }
}

/// Threads with pending input, ordered by id.
pub(super) struct ThreadsWithInput;

fn pending(stores: &TenantStores) -> Result<Arc<dyn PendingStore>> {
    stores.pending.clone().ok_or_else(|| Error::unavailable("the store has no pending input"))
}

#[async_trait]
impl RecordList for ThreadsWithInput {
    fn name(&self) -> &'static str {
        "threads with pending input"
    }

    fn directions(&self) -> &'static [Direction] {
        FORWARD_ONLY
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        let request = AppendPending::new(ThreadId::new(id)?, [NewInput::message(Message::user("x"))]);
        pending(stores)?.append_pending(request).await.map(drop)
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        Ok(!pending(stores)?.load_queue(&ThreadId::new(id)?).await?.inputs.is_empty())
    }

    async fn list(
        &self,
        stores: &TenantStores,
        _direction: Direction,
        page: PageRequest,
    ) -> Result<Page<ListedRecord>> {
        Ok(pending(stores)?.list_threads_with_pending(page).await?.map(|thread| ListedRecord::new(0, thread)))
    }
}
