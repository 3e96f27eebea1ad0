//! A store and the model as a pair. Every step runs on both, and what they return is compared.

use std::{fmt, sync::Arc, time::Duration};

use store_core::{
    AppendEvents, ClaimedDispatch, ClaimedOutboxRow, Commit, CommitCoordinator, DeleteRequest, Error, EventStore,
    Limits, MailboxStore, ManualClock, NewThread, OutboxStore, PendingStore, PruneRequest, Receipt, Result, Store,
    TenantId, Thread, ThreadId, ThreadRunStore, TimeSource, Timestamp,
};

use super::{
    draft::{self, RequestContext, expect},
    names::named,
    ops::{CommitOp, Op},
    seen::Seen,
};
use crate::{
    case::Need,
    check::Failure,
    fixture::{Fixture, Opened},
    given::id,
    model::ModelStore,
};

/// The result of a step. A step fails if the store and the model disagree, or if it cannot be run.
pub(super) type Outcome<T = ()> = std::result::Result<T, Failure>;

/// The handles of the store or of the model.
#[derive(Clone)]
pub(super) struct Side {
    pub(super) threads: Arc<dyn ThreadRunStore>,
    pub(super) pending: Arc<dyn PendingStore>,
    pub(super) events: Arc<dyn EventStore>,
    pub(super) outbox: Arc<dyn OutboxStore>,
    pub(super) commits: Arc<dyn CommitCoordinator>,
    pub(super) mailbox: Option<Arc<dyn MailboxStore>>,
}

impl Side {
    pub(super) fn of(store: &dyn Store) -> Outcome<Self> {
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

/// The store, the model, and what later steps refer to.
pub(super) struct Pair {
    fixture: Arc<dyn Fixture>,
    opened: Option<Opened>,
    /// The handles of the store under test.
    pub(super) real: Side,
    /// The model.
    pub(super) model: ModelStore,
    /// The handles of the model.
    pub(super) twin: Side,
    /// How many entries and inputs were made so far.
    drafted: u64,
    /// Commits with a key, as the store and as the model received them.
    keyed: Vec<(Commit, Commit)>,
    /// Appends of events with a key.
    pub(super) emitted: Vec<AppendEvents>,
    /// Claimed dispatches, as the store and as the model returned them.
    pub(super) held: Vec<(ClaimedDispatch, ClaimedDispatch)>,
    /// Claimed rows of the outbox, as the store and as the model returned them.
    pub(super) claimed: Vec<(ClaimedOutboxRow, ClaimedOutboxRow)>,
    /// The earliest time to which store time may be set back.
    floor: Timestamp,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair").field("real", &self.fixture.name()).finish_non_exhaustive()
    }
}

impl Pair {
    /// Opens a new store, and makes a model whose clock is set to the store's time.
    pub(super) async fn open(fixture: Arc<dyn Fixture>) -> Outcome<Self> {
        let opened = fixture.open(Limits::default()).await?;
        let real = Side::of(&*opened.store)?;
        let probe =
            opened.store.tenant(&id("probe"))?.threads.ok_or_else(|| Failure::new("the store has no threads"))?;
        let now = probe.create_thread(NewThread::new(id("probe"))).await?.created_at;
        let model = ModelStore::new(Limits::default(), ManualClock::new(now), None);
        let twin = Side::of(&model)?;
        Ok(Self {
            fixture,
            opened: Some(opened),
            real,
            model,
            twin,
            drafted: 0,
            keyed: Vec::new(),
            emitted: Vec::new(),
            held: Vec::new(),
            claimed: Vec::new(),
            floor: Timestamp::MIN,
        })
    }

    /// Closes the store under test.
    pub(super) async fn close(mut self) -> Outcome {
        if let Some(opened) = self.opened.take() {
            opened.store.close().await?;
        }
        Ok(())
    }

    /// Returns the model's time, which is also the store's.
    pub(super) fn now(&self) -> Timestamp {
        store_core::Clock::now(self.model.clock())
    }

    /// If the store uses the time of a server, moves the model's clock forward to a time that the store has returned.
    pub(super) fn follow(&self, time: Option<Timestamp>) {
        if let (TimeSource::Server, Some(time)) = (self.fixture.capabilities().time, time) {
            self.model.clock().set(time.max(self.now()));
        }
    }

    /// Runs one step on the store and on the model, and compares the answers.
    pub(super) async fn step(&mut self, op: &Op) -> Outcome {
        match op {
            Op::Create { thread, fields, at } => self.create(draft::new_thread(*thread, fields, *at, self.now())).await,
            Op::Update { thread, patch, guard } => {
                let (id, patch) = (named("t", *thread), draft::patch(patch));
                let (ours, theirs) = self.both_threads(&id).await?;
                let guard = |thread: Option<&Thread>| expect(*guard, thread, |thread| thread.revision);
                let real = self.real.threads.update_thread(&id, patch.clone(), guard(ours.as_ref())).await;
                self.follow(real.as_ref().ok().map(|thread| thread.updated_at));
                let twin = self.twin.threads.update_thread(&id, patch, guard(theirs.as_ref())).await;
                agree(&real, &twin)
            }
            Op::Delete { thread, children, guard } => {
                let id = named("t", *thread);
                let (ours, theirs) = self.both_threads(&id).await?;
                let request = |thread: Option<&Thread>| DeleteRequest {
                    children: *children,
                    expect: expect(*guard, thread, |thread| thread.version),
                };
                self.delete(&id, request(ours.as_ref()), request(theirs.as_ref())).await
            }
            Op::Prune { idle, dry_run } => {
                let idle = Duration::from_millis(u64::from(*idle));
                let request = PruneRequest { idle, limit: 1_000, dry_run: *dry_run };
                agree(&self.real.threads.prune_threads(request).await, &self.twin.threads.prune_threads(request).await)
            }
            Op::ResetFence { thread } => {
                let id = named("t", *thread);
                agree(&self.real.threads.reset_fence(&id).await, &self.twin.threads.reset_fence(&id).await)
            }
            Op::Append { .. } | Op::ChangeInput { .. } | Op::Retract { .. } | Op::Reorder { .. } => {
                Box::pin(self.input(op)).await
            }
            Op::Emit(_) | Op::EmitAgain { .. } | Op::Trim { .. } | Op::Scope { .. } => Box::pin(self.event(op)).await,
            Op::Mail(op) => Box::pin(self.mail(op)).await,
            Op::Rows(op) => Box::pin(self.outbox(op)).await,
            Op::Commit(op) => Box::pin(self.commit(op)).await,
            Op::Dropped { commit, polls } => Box::pin(self.dropped(commit, *polls)).await,
            Op::Repeat { which } => self.repeat(*which).await,
            Op::Advance { millis } => self.advance(Duration::from_millis(u64::from(*millis))).await,
            Op::SetBack { millis } => self.set_back(Duration::from_millis(u64::from(*millis))).await,
            Op::Reopen => self.reopen().await,
            Op::Load { .. } | Op::ValidateParent { .. } | Op::Context { .. } | Op::Walk { .. } => {
                Box::pin(self.read(op)).await
            }
        }
    }

    async fn create(&self, new: NewThread) -> Outcome {
        let real = self.real.threads.create_thread(new.clone()).await;
        self.follow(real.as_ref().ok().map(|thread| thread.updated_at));
        agree(&real, &self.twin.threads.create_thread(new).await)
    }

    async fn delete(&self, id: &ThreadId, ours: DeleteRequest, theirs: DeleteRequest) -> Outcome {
        let real = self.real.threads.delete_thread(id, ours).await;
        if let Some(child) = real.as_ref().ok().and_then(|deletion| deletion.detached.first()) {
            self.follow(self.real.threads.load_thread(child).await?.map(|child| child.updated_at));
        }
        agree(&real, &self.twin.threads.delete_thread(id, theirs).await)
    }

    /// Loads a thread from the store and from the model.
    pub(super) async fn both_threads(&self, id: &ThreadId) -> Outcome<(Option<Thread>, Option<Thread>)> {
        Ok((self.real.threads.load_thread(id).await?, self.twin.threads.load_thread(id).await?))
    }

    /// Returns the data of a thread that requests are made from. `theirs` is the thread in the model.
    pub(super) fn request_context(&mut self, thread: u8, theirs: Option<&Thread>) -> RequestContext<'_> {
        let thread = named("t", thread);
        RequestContext {
            log: self.model.log(&thread),
            path: self.model.path(&thread),
            queue: self.model.queue(&thread),
            runs: self.model.runs(&thread),
            state_revision: theirs.map_or(0, |thread| thread.state_revision),
            now: self.now(),
            drafted: &mut self.drafted,
        }
    }

    /// Makes a commit for the store and one for the model. The two differ only in their guards.
    pub(super) async fn drafted(&mut self, op: &CommitOp) -> Outcome<(Commit, Commit)> {
        let (ours, theirs) = self.both_threads(&named("t", op.thread)).await?;
        let commit = self.request_context(op.thread, theirs.as_ref()).commit(op);
        let guard = |thread: Option<&Thread>| expect(op.guard, thread, |thread| thread.version);
        let pair = (commit.clone().expecting(guard(ours.as_ref())), commit.expecting(guard(theirs.as_ref())));
        if pair.0.key.is_some() {
            self.keyed.push(pair.clone());
        }
        Ok(pair)
    }

    pub(super) async fn commit(&mut self, op: &CommitOp) -> Outcome {
        let (ours, theirs) = self.drafted(op).await?;
        let thread = ours.thread.clone();
        let real = self.real.commits.commit(ours).await;
        self.commit_twin(real, theirs).await?;
        let (ours, theirs) = self.both_threads(&thread).await?;
        agree(&ours, &theirs)
    }

    /// Commits on the model, and compares the answer with that of the store.
    pub(super) async fn commit_twin(&self, real: Result<Receipt>, theirs: Commit) -> Outcome {
        self.follow(real.as_ref().ok().filter(|receipt| !receipt.deduplicated).map(|receipt| receipt.time));
        agree(&real, &self.twin.commits.commit(theirs).await)
    }

    async fn repeat(&self, which: u8) -> Outcome {
        let count = self.keyed.len().max(1);
        let Some((ours, theirs)) = self.keyed.get(usize::from(which) % count).cloned() else { return Ok(()) };
        let real = self.real.commits.commit(ours).await;
        self.commit_twin(real, theirs).await
    }

    pub(super) async fn advance(&self, by: Duration) -> Outcome {
        if let (TimeSource::Injected, Some(opened)) = (self.fixture.capabilities().time, &self.opened) {
            self.fixture.advance(opened, by).await;
            self.model.clock().advance(by);
        }
        Ok(())
    }

    /// Begins a new millisecond, in which nothing has been written yet. Some lists leave out what is written after
    /// their first page was read. This is called after that page, so that later writes have later times.
    pub(super) async fn next_millisecond(&mut self) -> Outcome {
        self.advance(Duration::from_millis(1)).await?;
        self.floor = self.now();
        Ok(())
    }

    async fn set_back(&self, by: Duration) -> Outcome {
        let to = self.now().saturating_sub(by).max(self.floor);
        let by = Duration::from_millis(self.now().as_millis() - to.as_millis());
        if let (TimeSource::Injected, Some(opened)) = (self.fixture.capabilities().time, &self.opened) {
            self.fixture.set_back(opened, by).await;
            self.model.clock().set(to);
        }
        Ok(())
    }

    async fn reopen(&mut self) -> Outcome {
        if self.fixture.lack(Need::Reopen).is_some() {
            return Ok(());
        }
        let Some(opened) = self.opened.take() else { return Ok(()) };
        let opened = self.fixture.reopen(opened).await?;
        self.real = Side::of(&*opened.store)?;
        self.opened = Some(opened);
        self.model = self.model.reopened();
        self.twin = Side::of(&self.model)?;
        Ok(())
    }

    /// Replaces the model.
    pub(super) fn take_model(&mut self, model: ModelStore) -> Outcome {
        self.twin = Side::of(&model)?;
        self.model = model;
        Ok(())
    }
}

/// Fails unless the store and the model have returned the same.
#[track_caller]
pub(super) fn agree<T: Seen>(real: &T, twin: &T) -> Outcome {
    let (real, twin) = (real.seen(), twin.seen());
    if real == twin {
        return Ok(());
    }
    crate::check::expect_eq(real, twin).map_err(|failure| failure.about("the store and the model disagree"))
}
