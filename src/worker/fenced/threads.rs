//! Threads under a claim. All threads can be read; only the claim's thread can be updated.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    BranchPoint, ContextRequest, DeleteRequest, Deletion, Entry, EntryId, EntryQuery, Expect, Leaf, LogReader,
    NewThread, Page, PageRequest, Progress, PruneRequest, Pruned, Result, Run, RunFilter, RunId, RunQuery, RunReader,
    Snapshot, Thread, ThreadAdmin, ThreadContext, ThreadFilter, ThreadId, ThreadPatch, ThreadQuery, ThreadReader,
    ThreadRunStore,
};

use super::HeldClaim;
use crate::worker::unsupported_under_claim;

/// The thread store of one claim.
pub(super) struct FencedThreads {
    inner: Arc<dyn ThreadRunStore>,
    claim: HeldClaim,
}

impl FencedThreads {
    pub(super) fn new(inner: Arc<dyn ThreadRunStore>, claim: HeldClaim) -> Self {
        Self { inner, claim }
    }
}

#[async_trait]
impl ThreadReader for FencedThreads {
    async fn load_thread(&self, id: &ThreadId) -> Result<Option<Thread>> {
        self.inner.load_thread(id).await
    }

    async fn list_threads(&self, query: ThreadQuery) -> Result<Page<Thread>> {
        self.inner.list_threads(query).await
    }

    async fn count_threads(&self, filter: &ThreadFilter) -> Result<u64> {
        self.inner.count_threads(filter).await
    }

    async fn validate_parent(&self, thread: &ThreadId, parent: &ThreadId) -> Result<()> {
        self.inner.validate_parent(thread, parent).await
    }
}

#[async_trait]
impl LogReader for FencedThreads {
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>> {
        self.inner.load_entry(thread, entry).await
    }

    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>> {
        self.inner.list_entries(thread, query).await
    }

    async fn list_leaves(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Leaf>> {
        self.inner.list_leaves(thread, page).await
    }

    async fn list_branch_points(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BranchPoint>> {
        self.inner.list_branch_points(thread, page).await
    }

    async fn list_snapshots(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Snapshot>> {
        self.inner.list_snapshots(thread, page).await
    }

    async fn load_context(&self, thread: &ThreadId, request: ContextRequest) -> Result<ThreadContext> {
        self.inner.load_context(thread, request).await
    }
}

#[async_trait]
impl RunReader for FencedThreads {
    async fn load_run(&self, id: &RunId) -> Result<Option<Run>> {
        self.inner.load_run(id).await
    }

    async fn list_runs(&self, query: RunQuery) -> Result<Page<Run>> {
        self.inner.list_runs(query).await
    }

    async fn count_runs(&self, filter: &RunFilter) -> Result<u64> {
        self.inner.count_runs(filter).await
    }
}

#[async_trait]
impl ThreadAdmin for FencedThreads {
    async fn create_thread(&self, _thread: NewThread) -> Result<Thread> {
        Err(unsupported_under_claim(
            "creating a thread under a claim (make it with a commit, or with a handle of `Stores`)",
        ))
    }

    async fn update_thread(&self, id: &ThreadId, mut patch: ThreadPatch, expect: Expect) -> Result<Thread> {
        self.claim.check_thread_and_claim(id)?;
        patch.fence = self.claim.checked_fence(patch.fence.take())?;
        self.inner.update_thread(id, patch, expect).await
    }

    async fn delete_thread(&self, _id: &ThreadId, _request: DeleteRequest) -> Result<Deletion> {
        Err(unsupported_under_claim("deleting a thread under a claim (do it with a handle of `Stores` instead)"))
    }

    async fn prune_threads(&self, _request: PruneRequest) -> Result<Pruned> {
        Err(unsupported_under_claim("pruning threads under a claim (do it with a handle of `Stores` instead)"))
    }

    async fn purge_deleted(&self, _progress: &dyn Progress) -> Result<u64> {
        Err(unsupported_under_claim("purging deleted threads under a claim (do it with a handle of `Stores` instead)"))
    }

    async fn reset_fence(&self, _id: &ThreadId) -> Result<()> {
        Err(unsupported_under_claim(
            "resetting the fence of a thread under a claim (do it with a handle of `Stores` instead)",
        ))
    }
}
