//! The pending input of an attempt, for reading only. Commits consume it.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    AppendPending, AppendedInputs, EntryId, Page, PageRequest, PendingInput, PendingQueue, PendingStore, PendingUpdate,
    Reorder, Result, ThreadId,
};

use crate::worker::unsupported_under_claim;

/// The read-only pending input of an attempt. A write to it cannot carry a claim.
pub(super) struct ReadOnlyPending {
    pub(super) inner: Arc<dyn PendingStore>,
}

#[async_trait]
impl PendingStore for ReadOnlyPending {
    async fn append_pending(&self, _request: AppendPending) -> Result<AppendedInputs> {
        Err(unsupported_under_claim("appending input under a claim (do it with a handle of `Stores` instead)"))
    }

    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue> {
        self.inner.load_queue(thread).await
    }

    async fn update_pending(&self, _request: PendingUpdate) -> Result<PendingInput> {
        Err(unsupported_under_claim("changing input under a claim (do it with a handle of `Stores` instead)"))
    }

    async fn retract_pending(&self, _thread: &ThreadId, _id: &EntryId) -> Result<PendingInput> {
        Err(unsupported_under_claim("retracting input under a claim (do it with a handle of `Stores` instead)"))
    }

    async fn reorder_pending(&self, _request: Reorder) -> Result<u64> {
        Err(unsupported_under_claim("reordering input under a claim (do it with a handle of `Stores` instead)"))
    }

    async fn list_threads_with_pending(&self, page: PageRequest) -> Result<Page<ThreadId>> {
        self.inner.list_threads_with_pending(page).await
    }
}
