//! Reading threads, their logs and runs.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    BranchPoint, ContextRequest, Entry, EntryId, EntryQuery, Leaf, LogReader, Page, PageRequest, Result, Run,
    RunFilter, RunId, RunQuery, RunReader, Snapshot, Thread, ThreadContext, ThreadFilter, ThreadId, ThreadQuery,
    ThreadReader,
};

use super::{store::BufferedHandles, tenant::Concerns};

#[async_trait]
impl ThreadReader for BufferedHandles {
    async fn load_thread(&self, id: &ThreadId) -> Result<Option<Thread>> {
        let id = id.clone();
        self.tenant
            .read(|tenant| async move {
                let found = tenant
                    .find_or_settle(Concerns::Thread(id.clone()), |overlay| Some(overlay.thread(&id)?.cloned()))
                    .await?;
                match found {
                    Some(thread) => Ok(thread),
                    None => tenant.inner_commits()?.threads().load_thread(&id).await,
                }
            })
            .await
    }

    async fn list_threads(&self, query: ThreadQuery) -> Result<Page<Thread>> {
        self.tenant.read_inner(Concerns::Tenant, |inner| async move { inner.threads().list_threads(query).await }).await
    }

    async fn count_threads(&self, filter: &ThreadFilter) -> Result<u64> {
        let filter = filter.clone();
        self.tenant
            .read_inner(Concerns::Tenant, |inner| async move { inner.threads().count_threads(&filter).await })
            .await
    }

    async fn validate_parent(&self, thread: &ThreadId, parent: &ThreadId) -> Result<()> {
        let (thread, parent) = (thread.clone(), parent.clone());
        self.tenant
            .read_inner(
                Concerns::Tenant,
                |inner| async move { inner.threads().validate_parent(&thread, &parent).await },
            )
            .await
    }
}

#[async_trait]
impl LogReader for BufferedHandles {
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>> {
        let (thread, entry) = (thread.clone(), entry.clone());
        self.tenant
            .read(|tenant| async move {
                let concerns = Concerns::Thread(thread.clone());
                let found = tenant
                    .find_or_settle(concerns, |overlay| Some(Arc::new(overlay.entry(&thread, &entry)?.entry.clone())))
                    .await?;
                match found {
                    Some(entry) => Ok(Some(entry)),
                    None => tenant.inner_commits()?.threads().load_entry(&thread, &entry).await,
                }
            })
            .await
    }

    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>> {
        let (concerns, thread) = (Concerns::Thread(thread.clone()), thread.clone());
        self.tenant
            .read_inner(concerns, |inner| async move { inner.threads().list_entries(&thread, query).await })
            .await
    }

    async fn list_leaves(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Leaf>> {
        let (concerns, thread) = (Concerns::Thread(thread.clone()), thread.clone());
        self.tenant.read_inner(concerns, |inner| async move { inner.threads().list_leaves(&thread, page).await }).await
    }

    async fn list_branch_points(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BranchPoint>> {
        let (concerns, thread) = (Concerns::Thread(thread.clone()), thread.clone());
        self.tenant
            .read_inner(concerns, |inner| async move { inner.threads().list_branch_points(&thread, page).await })
            .await
    }

    async fn list_snapshots(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Snapshot>> {
        let (concerns, thread) = (Concerns::Thread(thread.clone()), thread.clone());
        self.tenant
            .read_inner(concerns, |inner| async move { inner.threads().list_snapshots(&thread, page).await })
            .await
    }

    async fn load_context(&self, thread: &ThreadId, request: ContextRequest) -> Result<ThreadContext> {
        let (concerns, thread) = (Concerns::Thread(thread.clone()), thread.clone());
        self.tenant
            .read_inner(concerns, |inner| async move { inner.threads().load_context(&thread, request).await })
            .await
    }
}

#[async_trait]
impl RunReader for BufferedHandles {
    async fn load_run(&self, id: &RunId) -> Result<Option<Run>> {
        let id = id.clone();
        self.tenant
            .read(|tenant| async move {
                let mut hides_stored = Vec::new();
                let found = tenant
                    .find_or_settle(Concerns::Run, |overlay| {
                        hides_stored = overlay.hidden_threads().cloned().collect();
                        overlay.run(&id).cloned()
                    })
                    .await?;
                match found {
                    Some(run) => Ok(Some(run)),
                    None => {
                        let stored = tenant.inner_commits()?.threads().load_run(&id).await?;
                        Ok(stored.filter(|run| !hides_stored.contains(&run.thread)))
                    }
                }
            })
            .await
    }

    async fn list_runs(&self, query: RunQuery) -> Result<Page<Run>> {
        self.tenant.read_inner(Concerns::Tenant, |inner| async move { inner.threads().list_runs(query).await }).await
    }

    async fn count_runs(&self, filter: &RunFilter) -> Result<u64> {
        let filter = filter.clone();
        self.tenant.read_inner(Concerns::Tenant, |inner| async move { inner.threads().count_runs(&filter).await }).await
    }
}
