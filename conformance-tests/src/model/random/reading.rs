//! Reads from the store and from the model: single records, contexts, and lists page by page.

use store_core::{
    BodyKind, Budget, ContextRequest, Cursor, Direction, DispatchFilter, DispatchQuery, EntryId, EntryQuery,
    EventQuery, OutboxQuery, Page, PageRequest, ParentFilter, Result, RunFilter, RunId, RunQuery, ThreadFilter,
    ThreadId, ThreadOrder, ThreadQuery,
};

use super::{
    comparable::Comparable,
    events,
    names::{agent, entry_at, numbered_id, value},
    ops::{CommitOp, EntryFilterOp, List, Op, RunFilterOp, ThreadFilterOp},
    outbox,
    pair::{Outcome, Pair, Side, expect_same},
};
use crate::check::Failure;

/// The maximum number of pages. No list is expected to have as many.
const MAX_PAGES: usize = 2_000;

impl Pair {
    /// Runs a step that reads. A step that reads a list can also write between its pages.
    pub(super) async fn read(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Load { thread, entry, run } => {
                let (thread, run): (ThreadId, RunId) = (numbered_id("t", *thread), numbered_id("r", *run));
                let entry = entry_at(&self.model_store.log(&thread), *entry);
                self.load(&thread, &entry, &run).await
            }
            Op::ValidateParent { thread, parent } => {
                let (thread, parent) = (numbered_id("t", *thread), numbered_id("t", *parent));
                let real = self.real.threads.validate_parent(&thread, &parent).await;
                expect_same(&real, &self.model.threads.validate_parent(&thread, &parent).await)
            }
            Op::Context { thread, at, open, budget } => {
                let thread = numbered_id("t", *thread);
                let mut request = ContextRequest::head().with_open_calls(*open);
                request.at = at.map(|index| entry_at(&self.model_store.log(&thread), index));
                request.budget = budget.map(|messages| Budget::Messages(u64::from(messages)));
                self.context(&thread, request).await
            }
            Op::Walk { list, limit, between } => self.walk(list, u32::from(*limit), between.as_ref()).await,
            _ => Ok(()),
        }
    }

    pub(super) async fn load(&self, thread: &ThreadId, entry: &EntryId, run: &RunId) -> Outcome {
        let (real, model) = (&self.real.threads, &self.model.threads);
        expect_same(&real.load_thread(thread).await, &model.load_thread(thread).await)?;
        expect_same(&real.load_entry(thread, entry).await, &model.load_entry(thread, entry).await)?;
        self.queue(thread).await?;
        expect_same(&real.load_run(run).await, &model.load_run(run).await)
    }

    pub(super) async fn context(&self, thread: &ThreadId, request: ContextRequest) -> Outcome {
        let real = self.real.threads.load_context(thread, request.clone()).await;
        expect_same(&real, &self.model.threads.load_context(thread, request).await)
    }

    /// Compares every page of a list. A commit, if one is given, is made after each of the first two pages.
    pub(super) async fn walk(&mut self, list: &List, limit: u32, between: Option<&CommitOp>) -> Outcome {
        match list {
            List::Threads { filter, order, direction } => {
                let filter = threads(filter, self);
                let (real, model) = (&self.real.threads, &self.model.threads);
                expect_same(&real.count_threads(&filter).await, &model.count_threads(&filter).await)?;
                let query = ThreadQuery::new(filter).ordered(*order, *direction);
                let starts_new_millisecond = *order == ThreadOrder::LastActivity && *direction == Direction::Forward;
                let list = async |side: Side, page| side.threads.list_threads(query.clone().with_page(page)).await;
                self.pages(list, (limit, starts_new_millisecond), between).await
            }
            List::Runs { filter, direction } => {
                let filter = runs(filter);
                let (real, model) = (&self.real.threads, &self.model.threads);
                expect_same(&real.count_runs(&filter).await, &model.count_runs(&filter).await)?;
                let mut query = RunQuery::new(filter);
                query.direction = *direction;
                let list = async |side: Side, page| {
                    let mut query = query.clone();
                    query.page = page;
                    side.threads.list_runs(query).await
                };
                self.pages(list, (limit, false), between).await
            }
            List::Entries { thread, filter, direction } => {
                let thread = numbered_id("t", *thread);
                let query = entries(filter, &self.model_store.log(&thread)).with_direction(*direction);
                let list =
                    async |side: Side, page| side.threads.list_entries(&thread, query.clone().with_page(page)).await;
                self.pages(list, (limit, false), between).await
            }
            List::Leaves { thread } => {
                let thread = numbered_id("t", *thread);
                self.pages(
                    async |side: Side, page| side.threads.list_leaves(&thread, page).await,
                    (limit, false),
                    between,
                )
                .await
            }
            List::BranchPoints { thread } => {
                let thread = numbered_id("t", *thread);
                let list = async |side: Side, page| side.threads.list_branch_points(&thread, page).await;
                self.pages(list, (limit, false), between).await
            }
            List::WithInput => {
                let list = async |side: Side, page| side.pending.list_threads_with_pending(page).await;
                self.pages(list, (limit, false), between).await
            }
            List::Events { scope, filter, direction } => {
                let query = EventQuery::new(events::scope(*scope)).with_filter(events::filter(filter, self));
                let query = query.with_direction(*direction);
                let list = async |side: Side, page| side.events.list_events(query.clone().with_page(page)).await;
                self.pages(list, (limit, false), between).await
            }
            List::Dispatches { .. } | List::Ready => self.walk_mailbox(list, limit, between).await,
            List::Outbox { filter, direction } => {
                let query = OutboxQuery::new(outbox::filter(filter)).with_direction(*direction);
                let list = async |side: Side, page| side.outbox.list_outbox(query.clone().with_page(page)).await;
                self.pages(list, (limit, false), between).await
            }
            List::Snapshots { thread } => {
                let thread = numbered_id("t", *thread);
                let list = async |side: Side, page| side.threads.list_snapshots(&thread, page).await;
                self.pages(list, (limit, false), between).await
            }
        }
    }

    /// Compares every page of a list of the mailbox. Does nothing if the store has no mailbox.
    async fn walk_mailbox(&mut self, list: &List, limit: u32, between: Option<&CommitOp>) -> Outcome {
        if self.real.mailbox.is_none() {
            return Ok(());
        }
        match list {
            List::Dispatches { thread, statuses, order, direction } => {
                let mut filter = DispatchFilter::default();
                filter.thread = thread.map(|thread| numbered_id("t", thread));
                filter.statuses.clone_from(statuses);
                let query = DispatchQuery::new(filter).ordered(*order, *direction);
                let list =
                    async |side: Side, page| side.mailbox()?.list_dispatches(query.clone().with_page(page)).await;
                self.pages(list, (limit, false), between).await
            }
            List::Ready => {
                let list = async |side: Side, page| side.mailbox()?.list_ready_threads(page).await;
                self.pages(list, (limit, false), between).await
            }
            _ => Ok(()),
        }
    }

    async fn pages<T: Comparable>(
        &mut self,
        list: impl AsyncFn(Side, PageRequest) -> Result<Page<T>>,
        options: (u32, bool),
        between: Option<&CommitOp>,
    ) -> Outcome {
        let (limit, starts_new_millisecond) = options;
        let mut cursors: Option<(Cursor, Cursor)> = None;
        for at in 0..MAX_PAGES {
            let page = |cursor: Option<Cursor>| PageRequest { limit: Some(limit), cursor };
            let (ours, theirs) = cursors.take().unzip();
            let real = list(self.real.clone(), page(ours)).await;
            let model = list(self.model.clone(), page(theirs)).await;
            if starts_new_millisecond && at == 0 {
                self.next_millisecond().await?;
            }
            expect_same(&real, &model)?;
            cursors = real.ok().and_then(|page| page.next).zip(model.ok().and_then(|page| page.next));
            if cursors.is_none() {
                return Ok(());
            }
            if let Some(commit) = between.filter(|_| at < 2) {
                self.commit(commit).await?;
            }
        }
        Err(Failure::new("the list does not end"))
    }
}

fn threads(op: &ThreadFilterOp, pair: &Pair) -> ThreadFilter {
    let ago = |millis: u16| super::draft::earlier(pair.now(), millis);
    let mut filter = ThreadFilter::default();
    filter.resource_id = op.resource.map(|resource| numbered_id("u", resource));
    filter.parent =
        op.parent.map(|parent| parent.map_or(ParentFilter::Root, |of| ParentFilter::Of(numbered_id("t", of))));
    filter.has_open_runs = op.open_runs;
    filter.active_after = op.active_after.map(ago);
    filter.created_before = op.created_before.map(ago);
    filter.metadata = op.metadata.iter().map(|(key, number)| (format!("m{key}"), value(*number))).collect();
    filter
}

fn runs(op: &RunFilterOp) -> RunFilter {
    let mut filter = RunFilter::default();
    filter.thread = op.thread.map(|thread| numbered_id("t", thread));
    filter.statuses.clone_from(&op.statuses);
    filter.agent = op.agent.map(agent);
    filter.parent_run = op.parent.map(|parent| numbered_id("r", parent));
    filter
}

fn entries(op: &EntryFilterOp, log: &[EntryId]) -> EntryQuery {
    let seq = |index: u8| u64::from(index) % (log.len() as u64 + 2);
    let mut query = EntryQuery::all();
    query.from_seq = op.from.map(seq);
    query.to_seq = op.to.map(seq);
    query.path_of = op.path_of.map(|index| entry_at(log, index));
    query.children_of = op.children_of.map(|index| entry_at(log, index));
    query.kinds = op.messages.map(|messages| {
        if messages { vec![BodyKind::Message] } else { vec![BodyKind::Rewind, BodyKind::Checkpoint, BodyKind::Custom] }
    });
    query.run = op.run.map(|run| numbered_id("r", run));
    query.side = op.side;
    query
}
