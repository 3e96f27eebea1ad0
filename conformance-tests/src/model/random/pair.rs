//! A store and the model as a pair. Every step runs on both, and their results are compared.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use store_core::{
    AppendEvents, ClaimedDispatch, ClaimedOutboxRow, Commit, CommitCoordinator, DeleteRequest, DocumentRef, Error,
    EventStore, Limits, MailboxStore, ManualClock, NewThread, OutboxStore, PendingStore, PruneRequest, Receipt, Result,
    Store, TenantId, Thread, ThreadId, ThreadRunStore, TimeSource, Timestamp,
};

use super::{
    comparable::Comparable,
    numbered_values::numbered_id,
    ops::{CommitOp, Op},
    requests::{self, RequestContext, expectation},
};
use crate::{
    case::Need,
    check::Failure,
    fixture::{Fixture, OpenedStore},
    given::id,
    model::ModelStore,
};

/// The result of a step. A step fails if the store and the model disagree, or if it cannot be run.
pub(super) type StepResult<T = ()> = std::result::Result<T, Failure>;

/// The handles of the store or of the model.
#[derive(Clone)]
pub(super) struct StoreHandles {
    pub(super) threads: Arc<dyn ThreadRunStore>,
    pub(super) pending: Arc<dyn PendingStore>,
    pub(super) events: Arc<dyn EventStore>,
    pub(super) outbox: Arc<dyn OutboxStore>,
    pub(super) commits: Arc<dyn CommitCoordinator>,
    pub(super) mailbox: Option<Arc<dyn MailboxStore>>,
}

impl StoreHandles {
    pub(super) fn new(store: &dyn Store) -> StepResult<Self> {
        let stores = store.tenant(&TenantId::default_tenant())?;
        let commits = stores.commits.ok_or_else(|| Failure::new("the store has no commits"))?;
        Ok(Self {
            threads: commits.threads(),
            pending: commits.pending(),
            events: commits.events(),
            outbox: commits.outbox(),
            commits,
            mailbox: stores.mailbox,
        })
    }

    pub(super) fn mailbox(&self) -> Result<&dyn MailboxStore> {
        self.mailbox.as_deref().ok_or_else(|| Error::unavailable("the store has no mailbox"))
    }
}

/// The store, the model, and the records that later steps refer to.
pub(super) struct StoreModelPair {
    fixture: Arc<dyn Fixture>,
    opened_store: Option<OpenedStore>,
    /// The handles of the store under test.
    pub(super) store: StoreHandles,
    /// The model.
    pub(super) model_store: ModelStore,
    /// The handles of the model.
    pub(super) model: StoreHandles,
    /// The number of entries and inputs that were made so far.
    draft_count: u64,
    /// Commits with a key, as the store and as the model received them.
    pub(super) keyed_commits: Vec<(Commit, Commit)>,
    /// Appends of events with a key.
    pub(super) keyed_appends: Vec<AppendEvents>,
    /// Claimed dispatches, as the store and as the model returned them.
    pub(super) claimed_dispatches: Vec<(ClaimedDispatch, ClaimedDispatch)>,
    /// Claimed rows of the outbox, as the store and as the model returned them.
    pub(super) claimed_rows: Vec<(ClaimedOutboxRow, ClaimedOutboxRow)>,
    /// The revisions of documents when they were last put: that of the store, and that of the model.
    pub(super) document_revisions: BTreeMap<DocumentRef, (u64, u64)>,
    /// The earliest time to which store time may be set back.
    earliest_time: Timestamp,
}

impl fmt::Debug for StoreModelPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreModelPair").field("store", &self.fixture.name()).finish_non_exhaustive()
    }
}

impl StoreModelPair {
    /// Opens a new store, and makes a model whose clock is set to the store's time.
    pub(super) async fn open(fixture: Arc<dyn Fixture>) -> StepResult<Self> {
        let opened_store = fixture.open(Limits::default()).await?;
        let store = StoreHandles::new(&*opened_store.store)?;
        let probe =
            opened_store.store.tenant(&id("probe"))?.threads.ok_or_else(|| Failure::new("the store has no threads"))?;
        let now = probe.create_thread(NewThread::new(id("probe"))).await?.created_at;
        let model_store = ModelStore::new(Limits::default(), ManualClock::new(now), None);
        let model = StoreHandles::new(&model_store)?;
        Ok(Self {
            fixture,
            opened_store: Some(opened_store),
            store,
            model_store,
            model,
            draft_count: 0,
            keyed_commits: Vec::new(),
            keyed_appends: Vec::new(),
            claimed_dispatches: Vec::new(),
            claimed_rows: Vec::new(),
            document_revisions: BTreeMap::new(),
            earliest_time: Timestamp::MIN,
        })
    }

    /// Returns the store under test.
    pub(super) fn into_opened(self) -> Option<OpenedStore> {
        self.opened_store
    }

    /// Closes the store under test.
    pub(super) async fn close(mut self) -> StepResult {
        if let Some(opened_store) = self.opened_store.take() {
            opened_store.store.close().await?;
        }
        Ok(())
    }

    /// Returns the model's time, which is also the store's.
    pub(super) fn now(&self) -> Timestamp {
        store_core::Clock::now(self.model_store.clock())
    }

    /// If the store uses the time of a server, advances the model's clock to a time that the store has returned.
    pub(super) fn set_model_time(&self, time: Option<Timestamp>) {
        if let (TimeSource::Server, Some(time)) = (self.fixture.capabilities().time, time) {
            self.model_store.clock().set(time.max(self.now()));
        }
    }

    /// Runs one step on the store and on the model, and compares the answers.
    pub(super) async fn run_step(&mut self, op: &Op) -> StepResult {
        match op {
            Op::Create { thread, fields, at } => {
                self.create(requests::new_thread(*thread, fields, *at, self.now())).await
            }
            Op::Update { thread, patch, guard } => {
                let (id, patch) = (numbered_id("t", *thread), requests::thread_patch(patch));
                let (store_thread, model_thread) = self.load_both(&id).await?;
                let guard = |thread: Option<&Thread>| expectation(*guard, thread, |thread| thread.revision);
                let store_answer =
                    self.store.threads.update_thread(&id, patch.clone(), guard(store_thread.as_ref())).await;
                self.set_model_time(store_answer.as_ref().ok().map(|thread| thread.updated_at));
                let model_answer = self.model.threads.update_thread(&id, patch, guard(model_thread.as_ref())).await;
                expect_same(&store_answer, &model_answer)
            }
            Op::Delete { thread, children, guard } => {
                let id = numbered_id("t", *thread);
                let (store_thread, model_thread) = self.load_both(&id).await?;
                let request = |thread: Option<&Thread>| DeleteRequest {
                    children: *children,
                    expect: expectation(*guard, thread, |thread| thread.version),
                };
                self.delete(&id, request(store_thread.as_ref()), request(model_thread.as_ref())).await
            }
            Op::Prune { idle_millis, dry_run } => {
                let idle = Duration::from_millis(u64::from(*idle_millis));
                let request = PruneRequest { idle, limit: 1_000, dry_run: *dry_run };
                expect_same(
                    &self.store.threads.prune_threads(request).await,
                    &self.model.threads.prune_threads(request).await,
                )
            }
            Op::ResetFence { thread } => {
                let id = numbered_id("t", *thread);
                expect_same(&self.store.threads.reset_fence(&id).await, &self.model.threads.reset_fence(&id).await)
            }
            Op::AppendInputs { .. } | Op::ChangeInput { .. } | Op::Retract { .. } | Op::Reorder { .. } => {
                Box::pin(self.run_input_step(op)).await
            }
            Op::AppendEvents(_) | Op::RepeatAppendEvents { .. } | Op::Trim { .. } | Op::ReadScope { .. } => {
                Box::pin(self.run_event_step(op)).await
            }
            Op::Mailbox(op) => Box::pin(self.run_mailbox_step(op)).await,
            Op::Document(op) => Box::pin(self.run_document_step(op)).await,
            Op::Outbox(op) => Box::pin(self.run_outbox_step(op)).await,
            Op::Commit(op) => Box::pin(self.run_commit(op)).await,
            Op::DropCommit { commit, polls } => Box::pin(self.run_dropped_commit(commit, *polls)).await,
            Op::RepeatCommit { which } => self.repeat_commit(*which).await,
            Op::Advance { millis } => self.advance(Duration::from_millis(u64::from(*millis))).await,
            Op::SetBack { millis } => self.set_back(Duration::from_millis(u64::from(*millis))).await,
            Op::Reopen => self.reopen().await,
            Op::LoadRecords { .. } | Op::ValidateParent { .. } | Op::Context { .. } | Op::ReadList { .. } => {
                Box::pin(self.run_read_step(op)).await
            }
        }
    }

    async fn create(&self, new: NewThread) -> StepResult {
        let store_answer = self.store.threads.create_thread(new.clone()).await;
        self.set_model_time(store_answer.as_ref().ok().map(|thread| thread.updated_at));
        expect_same(&store_answer, &self.model.threads.create_thread(new).await)
    }

    async fn delete(&self, id: &ThreadId, store_request: DeleteRequest, model_request: DeleteRequest) -> StepResult {
        let store_answer = self.store.threads.delete_thread(id, store_request).await;
        if let Some(child) = store_answer.as_ref().ok().and_then(|deletion| deletion.detached.first()) {
            self.set_model_time(self.store.threads.load_thread(child).await?.map(|child| child.updated_at));
        }
        expect_same(&store_answer, &self.model.threads.delete_thread(id, model_request).await)
    }

    /// Loads a thread from the store and from the model.
    pub(super) async fn load_both(&self, id: &ThreadId) -> StepResult<(Option<Thread>, Option<Thread>)> {
        Ok((self.store.threads.load_thread(id).await?, self.model.threads.load_thread(id).await?))
    }

    /// Returns the data from which requests about a thread are made. `model_thread` is the thread in the model.
    pub(super) fn request_context(&mut self, thread: u8, model_thread: Option<&Thread>) -> RequestContext<'_> {
        let thread = numbered_id("t", thread);
        RequestContext {
            log: self.model_store.log(&thread),
            path: self.model_store.path(&thread),
            queue: self.model_store.queue(&thread),
            runs: self.model_store.runs(&thread),
            state_revision: model_thread.map_or(0, |thread| thread.state_revision),
            now: self.now(),
            draft_count: &mut self.draft_count,
        }
    }

    /// Makes a commit for the store and one for the model. The two differ only in their guards.
    pub(super) async fn draft_commits(&mut self, op: &CommitOp) -> StepResult<(Commit, Commit)> {
        let (store_thread, model_thread) = self.load_both(&numbered_id("t", op.thread)).await?;
        let commit = self.request_context(op.thread, model_thread.as_ref()).commit(op);
        let guard = |thread: Option<&Thread>| expectation(op.guard, thread, |thread| thread.version);
        let store_commit = commit.clone().expecting(guard(store_thread.as_ref()));
        let model_commit = commit.expecting(guard(model_thread.as_ref()));
        if store_commit.key.is_some() {
            self.keyed_commits.push((store_commit.clone(), model_commit.clone()));
        }
        Ok((store_commit, model_commit))
    }

    pub(super) async fn run_commit(&mut self, op: &CommitOp) -> StepResult {
        let (store_commit, model_commit) = self.draft_commits(op).await?;
        let thread = store_commit.thread.clone();
        let store_answer = self.store.commits.commit(store_commit).await;
        self.commit_on_model(store_answer, model_commit).await?;
        let (store_thread, model_thread) = self.load_both(&thread).await?;
        expect_same(&store_thread, &model_thread)
    }

    /// Commits on the model, and compares the answer with that of the store.
    pub(super) async fn commit_on_model(&self, store_answer: Result<Receipt>, model_commit: Commit) -> StepResult {
        self.set_model_time(
            store_answer.as_ref().ok().filter(|receipt| !receipt.deduplicated).map(|receipt| receipt.time),
        );
        expect_same(&store_answer, &self.model.commits.commit(model_commit).await)
    }

    async fn repeat_commit(&self, which: u8) -> StepResult {
        let count = self.keyed_commits.len().max(1);
        let Some((store_commit, model_commit)) = self.keyed_commits.get(usize::from(which) % count).cloned() else {
            return Ok(());
        };
        let store_answer = self.store.commits.commit(store_commit).await;
        self.commit_on_model(store_answer, model_commit).await
    }

    pub(super) async fn advance(&self, by: Duration) -> StepResult {
        if let (TimeSource::Injected, Some(opened_store)) = (self.fixture.capabilities().time, &self.opened_store) {
            self.fixture.advance(opened_store, by).await;
            self.model_store.clock().advance(by);
        }
        Ok(())
    }

    /// Begins a new millisecond, in which nothing has been written yet. Some lists leave out everything that is written
    /// after their first page was read. This function is called after that page, so that later writes have later times.
    pub(super) async fn next_millisecond(&mut self) -> StepResult {
        self.advance(Duration::from_millis(1)).await?;
        self.earliest_time = self.now();
        Ok(())
    }

    async fn set_back(&self, by: Duration) -> StepResult {
        let to = self.now().saturating_sub(by).max(self.earliest_time);
        let by = Duration::from_millis(self.now().as_millis() - to.as_millis());
        if let (TimeSource::Injected, Some(opened_store)) = (self.fixture.capabilities().time, &self.opened_store) {
            self.fixture.set_back(opened_store, by).await;
            self.model_store.clock().set(to);
        }
        Ok(())
    }

    async fn reopen(&mut self) -> StepResult {
        if self.fixture.why_unmet(Need::Reopen).is_some() {
            return Ok(());
        }
        let Some(opened_store) = self.opened_store.take() else { return Ok(()) };
        let opened_store = self.fixture.reopen(opened_store).await?;
        self.store = StoreHandles::new(&*opened_store.store)?;
        self.opened_store = Some(opened_store);
        self.model_store = self.model_store.reopened();
        self.model = StoreHandles::new(&self.model_store)?;
        Ok(())
    }

    /// Replaces the model.
    pub(super) fn replace_model(&mut self, model_store: ModelStore) -> StepResult {
        self.model = StoreHandles::new(&model_store)?;
        self.model_store = model_store;
        Ok(())
    }
}

/// Fails unless the store and the model have returned the same result.
#[track_caller]
pub(super) fn expect_same<T: Comparable>(store_answer: &T, model_answer: &T) -> StepResult {
    let (store_text, model_text) = (store_answer.comparable_text(), model_answer.comparable_text());
    if store_text == model_text {
        return Ok(());
    }
    crate::check::expect_eq(store_text, model_text).map_err(|failure| failure.about("the store and the model disagree"))
}
