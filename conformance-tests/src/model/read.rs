//! Reads. For each page, the whole list is filtered and sorted, and a part of it is returned.

use std::sync::Arc;

use store_core::{
    BranchPoint, ContextRequest, CursorKey, CursorScope, Direction, Dispatch, DispatchQuery, Entry, EntryId,
    EntryQuery, Error, Leaf, Page, PageRequest, ParentFilter, ReadyThread, Result, Run, RunFilter, RunQuery, RunStatus,
    Snapshot, TenantId, Thread, ThreadContext, ThreadFilter, ThreadId, ThreadOrder, ThreadQuery,
};

use super::{
    bug::Bug,
    context::context,
    model_data::{TenantData, ThreadData},
    page::{CursorTable, Keyed, PageReader},
    tree::LogTree,
};

/// The data of a tenant for one read.
#[derive(Debug, Clone, Copy)]
pub(super) struct TenantView<'a> {
    pub(super) tenant: &'a TenantData,
    pub(super) name: &'a TenantId,
    pub(super) cursors: &'a CursorTable,
    pub(super) bug: Option<Bug>,
}

impl<'a> TenantView<'a> {
    pub(super) fn page_reader(
        &self,
        method: &'static str,
        query: &str,
        page: &'a PageRequest,
    ) -> Result<PageReader<'a>> {
        let query = if self.bug == Some(Bug::CursorUnbound) { "" } else { query };
        PageReader::open(CursorScope::new(self.name, method, query), page, (self.cursors, self.bug))
    }

    /// Returns a page of one of a thread's lists. Refuses a cursor of a deleted thread if a new thread has the same id
    /// (TH-24).
    fn thread_page<T>(
        &self,
        thread: &ThreadId,
        list: (&'static str, &str, Direction),
        page: &'a PageRequest,
        records: impl FnOnce(&ThreadData) -> Vec<Keyed<T>>,
    ) -> Result<Page<T>> {
        let (method, query, direction) = list;
        let thread_data = self.tenant.threads.get(thread);
        let generation = thread_data.map(|thread_data| thread_data.thread.generation());
        let page_reader = self.page_reader(method, &format!("{thread:?} {generation:?} {query}"), page)?;
        let records = thread_data.map(records).unwrap_or_default();
        Ok(page_reader.page(records, direction))
    }

    /// Returns a page of dispatches.
    pub(super) fn dispatches(&self, query: &'a DispatchQuery, records: Vec<Keyed<Dispatch>>) -> Result<Page<Dispatch>> {
        let page_reader = self.page_reader("dispatches", &query.cursor_binding(), &query.page)?;
        Ok(page_reader.page(records, query.direction))
    }

    /// Returns a page of the threads from which a claim would get a dispatch.
    pub(super) fn ready_threads(
        &self,
        page: &'a PageRequest,
        records: Vec<Keyed<ReadyThread>>,
    ) -> Result<Page<ReadyThread>> {
        Ok(self.page_reader("ready threads", "", page)?.page(records, Direction::Forward))
    }

    pub(super) fn threads(&self, query: &'a ThreadQuery) -> Result<Page<Thread>> {
        let ThreadQuery { filter, order, direction, .. } = query;
        let page_reader = self.page_reader("threads", &format!("{:?}", (filter, order, direction)), &query.page)?;
        // A list in ascending order of activity leaves out threads that were written after its first page (PG-5).
        let last_listed_write = page_reader.stored_number().unwrap_or(self.tenant.write_count);
        let is_ascending_activity = *order == ThreadOrder::LastActivity && *direction == Direction::Forward;
        let mut all_thread_data: Vec<_> = self.tenant.threads.values().collect();
        all_thread_data.retain(|thread_data| !is_ascending_activity || thread_data.last_write <= last_listed_write);
        if self.bug == Some(Bug::InsertionOrder) {
            all_thread_data.sort_by_key(|thread_data| thread_data.first_write);
        }
        let threads = all_thread_data
            .into_iter()
            .map(|thread_data| thread_data.to_thread(self.bug))
            .filter(|thread| admits_thread(filter, thread));
        let rank = |thread: &Thread| match order {
            ThreadOrder::LastActivity => thread.updated_at.as_millis(),
            ThreadOrder::Creation => thread.created_at.as_millis(),
        };
        let keyed = threads.map(|thread| ((rank(&thread), thread.id.to_string()), thread)).collect();
        Ok(page_reader.page_with_number(keyed, *direction, last_listed_write))
    }

    /// Returns the tenant that cursors of events belong to, and the key that authenticates them.
    pub(super) const fn tenant_and_cursor_key(&self) -> (&'a TenantId, &'a CursorKey) {
        (self.name, self.cursors.key())
    }

    pub(super) fn threads_with_pending(&self, page: &'a PageRequest) -> Result<Page<ThreadId>> {
        let page_reader = self.page_reader("pending", "", page)?;
        let all_thread_data = self.tenant.threads.values().filter(|thread_data| !thread_data.queue.is_empty());
        let keyed = all_thread_data
            .map(|thread_data| ((0, thread_data.thread.id.to_string()), thread_data.thread.id.clone()))
            .collect();
        Ok(page_reader.page(keyed, Direction::Forward))
    }

    pub(super) fn count_threads(&self, filter: &ThreadFilter) -> u64 {
        let threads = self.tenant.threads.values().map(|thread_data| thread_data.to_thread(self.bug));
        threads.filter(|thread| admits_thread(filter, thread)).count() as u64
    }

    pub(super) fn runs(&self, query: &'a RunQuery) -> Result<Page<Run>> {
        let RunQuery { filter, direction, .. } = query;
        let thread_data = filter.thread.as_ref().map(|thread| self.tenant.threads.get(thread));
        let generation = thread_data.map(|thread_data| thread_data.map(|thread_data| thread_data.thread.generation()));
        let page_reader = self.page_reader("runs", &format!("{:?}", (generation, filter, direction)), &query.page)?;
        let keyed = |run: Run| ((run.created_at.as_millis(), run.id.to_string()), run);
        let records = self.all_runs(filter).into_iter().map(keyed).collect();
        Ok(page_reader.page(records, *direction))
    }

    pub(super) fn all_runs(&self, filter: &RunFilter) -> Vec<Run> {
        let runs = self
            .tenant
            .threads
            .values()
            .flat_map(|thread_data| thread_data.runs.iter().map(|run| thread_data.to_run(run)));
        runs.filter(|run| admits_run(filter, run)).collect()
    }

    pub(super) fn entries(&self, thread: &ThreadId, query: &'a EntryQuery) -> Result<Page<Arc<Entry>>> {
        let mut unpaged = query.clone();
        unpaged.page = PageRequest::default();
        let query_text = format!("{unpaged:?}");
        self.thread_page(thread, ("entries", &query_text, query.direction), &query.page, |thread_data| {
            let tree = LogTree::new(&thread_data.entries);
            let path = query.path_of.as_ref().map(|entry| tree.path(Some(entry)));
            let on_path = |entry: &&Arc<Entry>| path.as_ref().is_none_or(|path| path.contains(entry));
            let wanted = thread_data.entries.iter().filter(on_path).filter(|entry| admits_entry(query, entry));
            wanted.map(|entry| ((entry.seq, String::new()), Arc::clone(entry))).collect()
        })
    }

    pub(super) fn leaves(&self, thread: &ThreadId, page: &'a PageRequest) -> Result<Page<Leaf>> {
        self.thread_page(thread, ("leaves", "", Direction::Forward), page, |thread_data| {
            let tree = LogTree::new(&thread_data.entries);
            tree.leaves().into_iter().map(|leaf| ((leaf.seq, String::new()), tree.to_leaf(leaf))).collect()
        })
    }

    pub(super) fn branch_points(&self, thread: &ThreadId, page: &'a PageRequest) -> Result<Page<BranchPoint>> {
        self.thread_page(thread, ("branch points", "", Direction::Forward), page, |thread_data| {
            let points = LogTree::new(&thread_data.entries).branch_points().into_iter();
            points.map(|(seq, point)| ((seq, String::new()), point)).collect()
        })
    }

    pub(super) fn snapshots(&self, thread: &ThreadId, page: &'a PageRequest) -> Result<Page<Snapshot>> {
        let name_key = |snapshot: &Snapshot| (0, format!("{}\0{:020}", snapshot.name, snapshot.seq));
        self.thread_page(thread, ("snapshots", "", Direction::Forward), page, |thread_data| {
            LogTree::new(&thread_data.entries)
                .snapshots()
                .into_iter()
                .map(|snapshot| (name_key(&snapshot), snapshot))
                .collect()
        })
    }

    pub(super) fn context(&self, id: &ThreadId, request: &ContextRequest) -> Result<ThreadContext> {
        let thread_data = self.tenant.threads.get(id).ok_or_else(|| Error::not_found("thread", id))?;
        let tree = LogTree::new(&thread_data.entries);
        if let Some(entry) = request.at.as_ref().filter(|entry| tree.find(entry).is_none()) {
            return Err(Error::not_found("entry", entry));
        }
        let at: Option<EntryId> = request.at.clone().or_else(|| tree.head());
        let mut thread_context = ThreadContext::empty(thread_data.to_thread(self.bug));
        thread_context.context = context(tree, at.as_ref(), request, self.bug);
        thread_context.state.clone_from(&thread_data.state);
        let runs: Vec<_> = thread_data.runs.iter().map(|run| thread_data.to_run(run)).collect();
        thread_context.latest_run =
            runs.iter().find(|run| Some(&run.id) == thread_data.thread.latest_run.as_ref()).cloned();
        thread_context.open_runs = runs.into_iter().filter(|run| !matches!(run.status, RunStatus::Done(_))).collect();
        thread_context.context_size = tree.context_size(at.as_ref());
        thread_context.next_checkpoint = tree.next_checkpoint(at.as_ref()).unwrap_or(u64::MAX);
        thread_context.at = at;
        Ok(thread_context)
    }
}

fn admits_thread(filter: &ThreadFilter, thread: &Thread) -> bool {
    let mut checks = vec![];
    checks.extend(filter.resource_id.as_ref().map(|id| thread.resource_id.as_ref() == Some(id)));
    checks.extend(filter.parent.as_ref().map(|parent| match parent {
        ParentFilter::Root => thread.parent_thread_id.is_none(),
        ParentFilter::Of(id) => thread.parent_thread_id.as_ref() == Some(id),
    }));
    checks.extend(filter.has_open_runs.map(|open| open != thread.open_runs.is_empty()));
    checks.extend(filter.created_before.map(|time| thread.created_at < time));
    checks.extend(filter.created_after.map(|time| thread.created_at >= time));
    checks.extend(filter.active_before.map(|time| thread.updated_at < time));
    checks.extend(filter.active_after.map(|time| thread.updated_at >= time));
    checks.extend(filter.metadata.iter().map(|(key, value)| thread.metadata.get(key) == Some(value)));
    checks.into_iter().all(|holds| holds)
}

fn admits_run(filter: &RunFilter, run: &Run) -> bool {
    let mut checks = vec![];
    checks.extend(filter.thread.as_ref().map(|thread| run.thread == *thread));
    checks.extend(filter.statuses.as_ref().map(|statuses| statuses.contains(&run.status.phase())));
    checks.extend(filter.agent.as_ref().map(|agent| run.agent == *agent));
    checks.extend(filter.parent_run.as_ref().map(|parent| run.parent_run.as_ref() == Some(parent)));
    checks.extend(filter.created_before.map(|time| run.created_at < time));
    checks.extend(filter.created_after.map(|time| run.created_at >= time));
    checks.into_iter().all(|holds| holds)
}

fn admits_entry(query: &EntryQuery, entry: &Entry) -> bool {
    let mut checks = vec![];
    checks.extend(query.from_seq.map(|from| entry.seq >= from));
    checks.extend(query.to_seq.map(|to| entry.seq <= to));
    checks.extend(query.children_of.as_ref().map(|parent| entry.parent.as_ref() == Some(parent)));
    checks.extend(query.kinds.as_ref().map(|kinds| kinds.contains(&entry.kind())));
    checks.extend(query.role.map(|role| entry.message().is_some_and(|message| message.role == role)));
    checks.extend(query.visibility.map(|wanted| entry.message().is_some_and(|message| message.visibility == wanted)));
    checks.extend(query.run.as_ref().map(|run| entry.run.as_ref() == Some(run)));
    checks.extend(query.side.map(|side| entry.side == side));
    checks.into_iter().all(|holds| holds)
}
