//! Reads from the store and from the model: single records, contexts, and lists page by page.

use store_core::{
    BodyKind, Budget, ContextRequest, Cursor, Direction, DispatchFilter, DispatchQuery, EntryId, EntryQuery,
    EventQuery, OutboxQuery, Page, PageRequest, ParentFilter, Result, RunFilter, RunId, RunQuery, ThreadFilter,
    ThreadId, ThreadOrder, ThreadQuery,
};

use super::{
    comparable::Comparable,
    events,
    numbered_values::{agent, entry_id_at, json_value, numbered_id},
    ops::{CommitOp, EntryFilterOp, ListOp, Op, RunFilterOp, ThreadFilterOp},
    outbox,
    pair::{StepResult, StoreHandles, StoreModelPair, expect_same},
};
use crate::check::Failure;

/// A list with more pages than this counts as endless.
const MAX_PAGES: usize = 2_000;

/// What the test does with store time after it has read the first page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterFirstPage {
    /// It leaves store time as it is.
    SameTime,
    /// It begins a new millisecond ([`StoreModelPair::next_millisecond`]).
    NextMillisecond,
}

impl AfterFirstPage {
    /// A list of threads that is ascending by last activity leaves out what is written after the store time of its
    /// first page (PG-5). Store time is precise to a millisecond, so a new millisecond must begin before the next
    /// write.
    fn of(order: ThreadOrder, direction: Direction) -> Self {
        let is_ascending_activity = order == ThreadOrder::LastActivity && direction == Direction::Forward;
        if is_ascending_activity { Self::NextMillisecond } else { Self::SameTime }
    }
}

impl StoreModelPair {
    /// Runs a step that reads. A step that reads a list can also write between its pages.
    pub(super) async fn run_read_step(&mut self, op: &Op) -> StepResult {
        match op {
            Op::LoadRecords { thread, entry, run } => {
                let (thread, run): (ThreadId, RunId) = (numbered_id("t", *thread), numbered_id("r", *run));
                let entry = entry_id_at(&self.model_store.log(&thread), *entry);
                self.compare_records(&thread, &entry, &run).await
            }
            Op::ValidateParent { thread, parent } => {
                let (thread, parent) = (numbered_id("t", *thread), numbered_id("t", *parent));
                let store_answer = self.store.threads.validate_parent(&thread, &parent).await;
                expect_same(&store_answer, &self.model.threads.validate_parent(&thread, &parent).await)
            }
            Op::Context { thread, at, open_calls, budget } => {
                let thread = numbered_id("t", *thread);
                let mut request = ContextRequest::head().with_open_calls(*open_calls);
                request.at = at.map(|index| entry_id_at(&self.model_store.log(&thread), index));
                request.budget = budget.map(|messages| Budget::Messages(u64::from(messages)));
                self.compare_contexts(&thread, request).await
            }
            Op::ReadList { list, limit, commit_between } => {
                self.compare_list(list, u32::from(*limit), commit_between.as_ref()).await
            }
            _ => Ok(()),
        }
    }

    /// Compares a thread, an entry, the queue of the thread, and a run.
    pub(super) async fn compare_records(&self, thread: &ThreadId, entry: &EntryId, run: &RunId) -> StepResult {
        let (store, model) = (&self.store.threads, &self.model.threads);
        expect_same(&store.load_thread(thread).await, &model.load_thread(thread).await)?;
        expect_same(&store.load_entry(thread, entry).await, &model.load_entry(thread, entry).await)?;
        self.compare_queues(thread).await?;
        expect_same(&store.load_run(run).await, &model.load_run(run).await)
    }

    pub(super) async fn compare_contexts(&self, thread: &ThreadId, request: ContextRequest) -> StepResult {
        let store_answer = self.store.threads.load_context(thread, request.clone()).await;
        expect_same(&store_answer, &self.model.threads.load_context(thread, request).await)
    }

    /// Compares every page of a list. A commit, if one is given, is made after each of the first two pages.
    pub(super) async fn compare_list(
        &mut self,
        list: &ListOp,
        limit: u32,
        commit_between: Option<&CommitOp>,
    ) -> StepResult {
        match list {
            ListOp::Threads { filter, order, direction } => {
                let filter = thread_filter(filter, self);
                let (store, model) = (&self.store.threads, &self.model.threads);
                expect_same(&store.count_threads(&filter).await, &model.count_threads(&filter).await)?;
                let query = ThreadQuery::new(filter).ordered(*order, *direction);
                let after_first_page = AfterFirstPage::of(*order, *direction);
                let list = async |handles: StoreHandles, page| {
                    handles.threads.list_threads(query.clone().with_page(page)).await
                };
                self.compare_pages(list, (limit, after_first_page), commit_between).await
            }
            ListOp::Runs { filter, direction } => {
                let filter = run_filter(filter);
                let (store, model) = (&self.store.threads, &self.model.threads);
                expect_same(&store.count_runs(&filter).await, &model.count_runs(&filter).await)?;
                let mut query = RunQuery::new(filter);
                query.direction = *direction;
                let list = async |handles: StoreHandles, page| {
                    let mut query = query.clone();
                    query.page = page;
                    handles.threads.list_runs(query).await
                };
                self.compare_pages(list, (limit, AfterFirstPage::SameTime), commit_between).await
            }
            ListOp::Entries { thread, filter, direction } => {
                let thread = numbered_id("t", *thread);
                let query = entry_query(filter, &self.model_store.log(&thread)).with_direction(*direction);
                let list = async |handles: StoreHandles, page| {
                    handles.threads.list_entries(&thread, query.clone().with_page(page)).await
                };
                self.compare_pages(list, (limit, AfterFirstPage::SameTime), commit_between).await
            }
            ListOp::Leaves { thread } => {
                let thread = numbered_id("t", *thread);
                let list = async |handles: StoreHandles, page| handles.threads.list_leaves(&thread, page).await;
                self.compare_pages(list, (limit, AfterFirstPage::SameTime), commit_between).await
            }
            ListOp::BranchPoints { thread } => {
                let thread = numbered_id("t", *thread);
                let list = async |handles: StoreHandles, page| handles.threads.list_branch_points(&thread, page).await;
                self.compare_pages(list, (limit, AfterFirstPage::SameTime), commit_between).await
            }
            ListOp::ThreadsWithInput => {
                let list = async |handles: StoreHandles, page| handles.pending.list_threads_with_pending(page).await;
                self.compare_pages(list, (limit, AfterFirstPage::SameTime), commit_between).await
            }
            ListOp::Events { scope, filter, direction } => {
                let filter = events::event_filter(filter, self);
                let query = EventQuery::new(events::to_scope(*scope)).with_filter(filter).with_direction(*direction);
                let list =
                    async |handles: StoreHandles, page| handles.events.list_events(query.clone().with_page(page)).await;
                self.compare_pages(list, (limit, AfterFirstPage::SameTime), commit_between).await
            }
            ListOp::Dispatches { .. } | ListOp::ReadyThreads => {
                self.compare_mailbox_list(list, limit, commit_between).await
            }
            ListOp::Outbox { filter, direction } => {
                let query = OutboxQuery::new(outbox::outbox_filter(filter)).with_direction(*direction);
                self.compare_outbox_list(query, limit, commit_between).await
            }
            ListOp::Snapshots { thread } => {
                let thread = numbered_id("t", *thread);
                let list = async |handles: StoreHandles, page| handles.threads.list_snapshots(&thread, page).await;
                self.compare_pages(list, (limit, AfterFirstPage::SameTime), commit_between).await
            }
        }
    }

    async fn compare_outbox_list(
        &mut self,
        query: OutboxQuery,
        limit: u32,
        commit_between: Option<&CommitOp>,
    ) -> StepResult {
        let list = async |handles: StoreHandles, page| handles.outbox.list_outbox(query.clone().with_page(page)).await;
        self.compare_pages(list, (limit, AfterFirstPage::SameTime), commit_between).await
    }

    /// Compares every page of a list of the mailbox. Does nothing if the store has no mailbox.
    async fn compare_mailbox_list(
        &mut self,
        list: &ListOp,
        limit: u32,
        commit_between: Option<&CommitOp>,
    ) -> StepResult {
        if self.store.mailbox.is_none() {
            return Ok(());
        }
        match list {
            ListOp::Dispatches { thread, statuses, order, direction } => {
                let mut filter = DispatchFilter::default();
                filter.thread = thread.map(|thread| numbered_id("t", thread));
                filter.statuses.clone_from(statuses);
                let query = DispatchQuery::new(filter).ordered(*order, *direction);
                let list = async |handles: StoreHandles, page| {
                    handles.mailbox()?.list_dispatches(query.clone().with_page(page)).await
                };
                self.compare_pages(list, (limit, AfterFirstPage::SameTime), commit_between).await
            }
            ListOp::ReadyThreads => {
                let list = async |handles: StoreHandles, page| handles.mailbox()?.list_ready_threads(page).await;
                self.compare_pages(list, (limit, AfterFirstPage::SameTime), commit_between).await
            }
            _ => Ok(()),
        }
    }

    /// Reads a list page by page from the store and from the model, and compares the pages.
    async fn compare_pages<T: Comparable>(
        &mut self,
        list: impl AsyncFn(StoreHandles, PageRequest) -> Result<Page<T>>,
        limit_and_time: (u32, AfterFirstPage),
        commit_between: Option<&CommitOp>,
    ) -> StepResult {
        let (limit, after_first_page) = limit_and_time;
        let mut cursors: Option<(Cursor, Cursor)> = None;
        for at in 0..MAX_PAGES {
            let page = |cursor: Option<Cursor>| PageRequest { limit: Some(limit), cursor };
            let (store_cursor, model_cursor) = cursors.take().unzip();
            let store_answer = list(self.store.clone(), page(store_cursor)).await;
            let model_answer = list(self.model.clone(), page(model_cursor)).await;
            if at == 0 && after_first_page == AfterFirstPage::NextMillisecond {
                self.next_millisecond().await?;
            }
            expect_same(&store_answer, &model_answer)?;
            cursors = store_answer.ok().and_then(|page| page.next).zip(model_answer.ok().and_then(|page| page.next));
            if cursors.is_none() {
                return Ok(());
            }
            if let Some(commit) = commit_between.filter(|_| at < 2) {
                self.run_commit(commit).await?;
            }
        }
        Err(Failure::new("the list does not end"))
    }
}

fn thread_filter(op: &ThreadFilterOp, pair: &StoreModelPair) -> ThreadFilter {
    let ago = |millis: u16| super::requests::millis_before(pair.now(), millis);
    let mut filter = ThreadFilter::default();
    filter.resource_id = op.resource.map(|resource| numbered_id("u", resource));
    filter.parent =
        op.parent.map(|parent| parent.map_or(ParentFilter::Root, |number| ParentFilter::Of(numbered_id("t", number))));
    filter.has_open_runs = op.has_open_runs;
    filter.active_after = op.active_after.map(ago);
    filter.created_before = op.created_before.map(ago);
    filter.metadata = op.metadata.iter().map(|(key, number)| (format!("m{key}"), json_value(*number))).collect();
    filter
}

fn run_filter(op: &RunFilterOp) -> RunFilter {
    let mut filter = RunFilter::default();
    filter.thread = op.thread.map(|thread| numbered_id("t", thread));
    filter.statuses.clone_from(&op.statuses);
    filter.agent = op.agent.map(agent);
    filter.parent_run = op.parent.map(|parent| numbered_id("r", parent));
    filter
}

fn entry_query(op: &EntryFilterOp, log: &[EntryId]) -> EntryQuery {
    let seq = |index: u8| u64::from(index) % (log.len() as u64 + 2);
    let mut query = EntryQuery::all();
    query.from_seq = op.from_seq.map(seq);
    query.to_seq = op.to_seq.map(seq);
    query.path_of = op.path_of.map(|index| entry_id_at(log, index));
    query.children_of = op.children_of.map(|index| entry_id_at(log, index));
    query.kinds = op.messages.map(|messages| {
        if messages { vec![BodyKind::Message] } else { vec![BodyKind::Rewind, BodyKind::Checkpoint, BodyKind::Custom] }
    });
    query.run = op.run.map(|run| numbered_id("r", run));
    query.side = op.side;
    query
}
