//! Logs: reading entries, what is listed of them, and contexts.

mod context;
mod list;
mod walk;

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    BranchPoint, ContextRequest, Entry, EntryId, EntryQuery, Leaf, LogReader, Page, PageRequest, Result, Snapshot,
    ThreadContext, ThreadId,
};

pub(crate) use self::context::state;
use self::list::Lister;
use crate::{
    codec::{NodeRow, Rows},
    line, records,
    shared::Shared,
    table,
    tenant::Tenant,
};

#[async_trait]
impl LogReader for Tenant {
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>> {
        let (thread, entry) = (thread.clone(), entry.clone());
        self.read(Some(thread.clone()), move |shared, tenant| {
            let snapshot = shared.index.snapshot();
            let Some(row) = shared.thread_row(&snapshot, tenant, &thread)? else { return Ok(None) };
            let Some(seq) = snapshot.entry_seq(row.log, &entry)? else { return Ok(None) };
            let row_of = snapshot.expect_node(row.log, seq)?;
            Ok(load(shared, row.log, &[row_of])?.pop())
        })
        .await
    }

    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>> {
        let (binding, page) = (query.cursor_binding(), query.page.clone());
        self.list(thread, ("entries", binding), page, move |lister| lister.entries(&query)).await
    }

    async fn list_leaves(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Leaf>> {
        self.list(thread, ("leaves", String::new()), page, |lister| lister.numbers(table::leaves, Lister::leaf)).await
    }

    async fn list_branch_points(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BranchPoint>> {
        let read = |lister: Lister<'_>| lister.numbers(table::branches, Lister::branch_point);
        self.list(thread, ("branch points", String::new()), page, read).await
    }

    async fn list_snapshots(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Snapshot>> {
        self.list(thread, ("snapshots", String::new()), page, |lister| lister.snapshots()).await
    }

    async fn load_context(&self, thread: &ThreadId, request: ContextRequest) -> Result<ThreadContext> {
        let thread = thread.clone();
        self.read(Some(thread.clone()), move |shared, tenant| context::load(shared, tenant, &thread, &request)).await
    }
}

impl Tenant {
    /// Reads a page of a list of one thread: nothing for an unknown thread.
    async fn list<T: Send + 'static>(
        &self,
        thread: &ThreadId,
        list: (&'static str, String),
        page: PageRequest,
        read: impl FnOnce(Lister<'_>) -> Result<Page<T>> + Send + 'static,
    ) -> Result<Page<T>> {
        let thread = thread.clone();
        self.read(Some(thread.clone()), move |shared, tenant| {
            Lister::new(shared, tenant, &thread, &list, &page)?.map_or_else(|| Ok(Page::empty()), read)
        })
        .await
    }
}

/// Reads entries of a log, and checks the checksum of each.
fn load(shared: &Shared, log: u64, rows: &[NodeRow]) -> Result<Vec<Arc<Entry>>> {
    let spans: Vec<_> = rows.iter().map(|row| row.span).collect();
    let entries = records::read_all(shared, log, &spans, line::decode_entry)?;
    Ok(entries.into_iter().map(|(entry, _)| Arc::new(entry)).collect())
}
