//! The handle of a tenant. Each call reads or changes the data of the model in one step, under its lock.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use async_trait::async_trait;
use futures_util::stream;
use store_core::{
    AppendEvents, AppendPending, Appended, AppendedEvents, BranchPoint, Clock, Commit, CommitCoordinator,
    ContextRequest, Entry, EntryId, EntryQuery, Error, Event, EventFilter, EventId, EventQuery, EventReader,
    EventRetention, EventStore, EventSubscriber, EventWriter, Expect, Leaf, LogReader, OutboxStore, Page, PageRequest,
    PendingInput, PendingQueue, PendingStore, PendingUpdate, Receipt, Reorder, Result, Run, RunFilter, RunId, RunQuery,
    RunReader, Scope, ScopeInfo, Snapshot, Start, Subscribe, Subscription, TenantId, Thread, ThreadContext,
    ThreadFilter, ThreadId, ThreadQuery, ThreadReader, ThreadRunStore, TrimRequest, Trimmed, event::cursor_after,
};

use super::{
    admin,
    bug::Bug,
    commit::{self, Environment},
    events,
    model_data::{ModelData, Tenant},
    pending,
    read::View,
    store::Shared,
    tree::Tree,
};

/// A handle of a tenant of the model.
#[derive(Clone)]
pub(super) struct Handle {
    pub(super) shared: Arc<Shared>,
    pub(super) closed: Arc<AtomicBool>,
    pub(super) tenant: TenantId,
    /// How often the tenant had been deleted before the handle was made.
    pub(super) deletions: u64,
}

impl Handle {
    fn check_open(&self, model_data: &ModelData) -> Result<()> {
        let bug = self.shared.bug;
        let closed = self.closed.load(Ordering::SeqCst) && bug != Some(Bug::ClosedAnswers);
        let deleted = model_data.deletions.get(&self.tenant).copied().unwrap_or_default() != self.deletions;
        if closed || (deleted && bug != Some(Bug::DeletedTenantAnswers)) { Err(Error::closed()) } else { Ok(()) }
    }

    /// Refuses the call if the handle was closed or its tenant was deleted.
    pub(super) fn check(&self) -> Result<()> {
        self.check_open(&self.shared.model_data())
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(View<'_>) -> Result<T>) -> Result<T> {
        let model_data = self.shared.model_data();
        self.check_open(&model_data)?;
        let bug = self.shared.bug;
        let empty = Tenant::default();
        let own = model_data.tenants.get(&self.tenant).unwrap_or(&empty);
        let seen = match bug {
            Some(Bug::StaleRead) => model_data.before.get(&self.tenant).cloned(),
            Some(Bug::TenantByPrefix) => Some(by_prefix(&model_data, &self.tenant)),
            _ => None,
        };
        let tenant = seen.as_ref().unwrap_or(own);
        read(View { tenant, name: &self.tenant, cursors: &self.shared.cursors, bug })
    }

    pub(super) fn write<T>(&self, write: impl FnOnce(&mut Tenant, Environment<'_>) -> Result<T>) -> Result<T> {
        let Shared { clock, limits, ids, bug, .. } = &*self.shared;
        let mut model_data = self.shared.model_data();
        self.check_open(&model_data)?;
        if *bug == Some(Bug::StaleRead) {
            let before = model_data.tenants.get(&self.tenant).cloned().unwrap_or_default();
            model_data.before.insert(self.tenant.clone(), before);
        }
        let sealer = (&self.tenant, self.shared.cursors.key());
        let env = Environment { now: clock.now(), limits, ids, bug: *bug, sealer };
        let tenant = model_data.tenants.entry(self.tenant.clone()).or_default();
        tenant.mailbox.incarnation = self.deletions + 1;
        write(tenant, env)
    }

    /// Returns handles of the other tenants whose names `is_confused` accepts, for planted bugs that confuse tenants.
    pub(super) fn confused_tenants(&self, is_confused: impl Fn(&str) -> bool) -> Vec<Self> {
        let model_data = self.shared.model_data();
        let names = model_data.tenants.keys().filter(|name| **name != self.tenant && is_confused(name.as_str()));
        let handle = |name: &TenantId| {
            let deletions = model_data.deletions.get(name).copied().unwrap_or_default();
            Self { tenant: name.clone(), deletions, ..self.clone() }
        };
        names.map(handle).collect()
    }

    /// Returns the handle that a subscription reads through. With the planted bug `FollowsByPattern`, a tenant's name
    /// such as `a*` is a pattern.
    fn subscription_handle(&self, request: &Subscribe) -> Self {
        let stem = self.tenant.as_str().strip_suffix('*');
        let others = match (self.shared.bug, &request.start, stem) {
            (Some(Bug::FollowsByPattern), Start::First, Some(stem)) => {
                self.confused_tenants(|name| name.starts_with(stem))
            }
            _ => Vec::new(),
        };
        others.into_iter().next().unwrap_or_else(|| self.clone())
    }

    /// Returns the id under which the store looks up a thread.
    pub(super) fn key(&self, id: &ThreadId) -> Result<ThreadId> {
        match self.shared.bug {
            Some(Bug::CaseFolded) => ThreadId::new(id.as_str().to_lowercase()),
            _ => Ok(id.clone()),
        }
    }

    /// Commits, but checks the guard before it takes the lock for the write. Other calls can write in between.
    async fn commit_with_early_guard(&self, mut commit: Commit) -> Result<Receipt> {
        let mut copy = self.shared.model_data().tenants.get(&self.tenant).cloned().unwrap_or_default();
        let seen = self.write(|_, env| commit::commit(&mut copy, &commit, env))?;
        if seen.deduplicated {
            return Ok(seen);
        }
        yield_to_others().await;
        self.write(|tenant, env| {
            let thread_data = tenant.threads.get(&commit.thread);
            commit.expect =
                thread_data.map_or(Expect::Absent, |thread_data| Expect::Version(thread_data.view(None).version));
            commit::commit(tenant, &commit, env)
        })
    }

    /// Commits. After a refusal, restores the tenant as it was before the call, which undoes what other calls wrote.
    async fn commit_with_rollback(&self, commit: &Commit) -> Result<Receipt> {
        let before = self.shared.model_data().tenants.get(&self.tenant).cloned().unwrap_or_default();
        yield_to_others().await;
        self.write(|tenant, env| {
            let result = commit::commit(tenant, commit, env);
            if result.is_err() {
                *tenant = before;
            }
            result
        })
    }

    /// Commits to a copy of the tenant. Discards the copy if the commit has entries and the new version is divisible by
    /// four.
    fn commit_except_every_fourth(&self, commit: &Commit) -> Result<Receipt> {
        self.write(|tenant, env| {
            let mut copy = tenant.clone();
            let receipt = commit::commit(&mut copy, commit, env)?;
            let is_lost = !commit.entries.is_empty() && receipt.version.number().is_multiple_of(4);
            if !is_lost {
                *tenant = copy;
            }
            Ok(receipt)
        })
    }

    /// Settles the claim of a commit, and writes the rest in a second step. Other calls can write in between.
    async fn commit_after_its_settlement(&self, mut commit: Commit) -> Result<Receipt> {
        if commit.settle.is_some() {
            let _refused = self.write(|tenant, env| commit::settle(tenant, &commit, &env));
            (commit.settle, commit.fence) = (None, None);
            yield_to_others().await;
        }
        self.write(|tenant, env| commit::commit(tenant, &commit, env))
    }

    /// Checks an append, and writes its inputs later. If an id enters the log in between, the input with this id
    /// becomes pending although it is in the log.
    async fn append_with_early_check(&self, request: &AppendPending) -> Result<Appended> {
        let mut copy = self.shared.model_data().tenants.get(&self.tenant).cloned().unwrap_or_default();
        let appended = self.write(|_, env| pending::append(&mut copy, request, &env))?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.write(|tenant, _| {
            let decided =
                copy.threads.get(&request.thread).map(|thread_data| thread_data.queue.clone()).unwrap_or_default();
            if let Some(thread_data) = tenant.threads.get_mut(&request.thread) {
                let is_new = |input: &PendingInput| appended.inputs.iter().any(|new| new.id == input.id);
                thread_data.queue.extend(decided.into_iter().filter(is_new));
                thread_data.queue_revision += 1;
            }
            Ok(())
        })?;
        Ok(appended)
    }

    /// Lets other tasks run if the model has this planted bug.
    pub(in crate::model) async fn wait_if(&self, bug: Bug) {
        if self.shared.bug == Some(bug) {
            yield_to_others().await;
        }
    }

    /// Appends events that are hidden until the call returns, while later events are already visible.
    async fn append_hidden(&self, request: AppendEvents) -> Result<AppendedEvents> {
        let sealer = (&self.tenant, self.shared.cursors.key());
        let appended = self.write(|tenant, env| {
            let appended = events::append(tenant, &request, &env, (None, sealer))?;
            tenant.events.hide(&appended.events);
            Ok(appended)
        })?;
        yield_to_others().await;
        self.write(|tenant, _| {
            tenant.events.show(&appended.events);
            Ok(())
        })?;
        Ok(appended)
    }
}

/// Lets other tasks run.
pub(super) async fn yield_to_others() {
    let mut turns = 3;
    poll_fn(|context| {
        if turns == 0 {
            return Poll::Ready(());
        }
        turns -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Returns the threads, the mailbox and the outbox of all tenants whose names begin with `name`, as one tenant.
fn by_prefix(model_data: &ModelData, name: &TenantId) -> Tenant {
    let mut all = Tenant::default();
    for (_, tenant) in model_data.tenants.iter().filter(|(other, _)| other.as_str().starts_with(name.as_str())) {
        all.threads.extend(tenant.threads.clone());
        all.ids.extend(tenant.ids.clone());
        all.mailbox.merge(&tenant.mailbox);
        all.outbox.extend(tenant.outbox.clone());
        all.writes = all.writes.max(tenant.writes);
    }
    all
}

#[async_trait]
impl CommitCoordinator for Handle {
    async fn commit(&self, mut commit: Commit) -> Result<Receipt> {
        commit.thread = self.key(&commit.thread)?;
        match self.shared.bug {
            Some(Bug::GuardOutsideTheLock) => self.commit_with_early_guard(commit).await,
            Some(Bug::RefusalRollsBack) => self.commit_with_rollback(&commit).await,
            Some(Bug::AckWithoutWriting) => self.commit_except_every_fourth(&commit),
            Some(Bug::SettledFirst) => self.commit_after_its_settlement(commit).await,
            _ => self.write(|tenant, env| commit::commit(tenant, &commit, env)),
        }
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        Arc::new(self.clone())
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        Arc::new(self.clone())
    }

    fn events(&self) -> Arc<dyn EventStore> {
        Arc::new(self.clone())
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        Arc::new(self.clone())
    }
}

#[async_trait]
impl PendingStore for Handle {
    async fn append_pending(&self, mut request: AppendPending) -> Result<Appended> {
        request.thread = self.key(&request.thread)?;
        if self.shared.bug == Some(Bug::AppendLooksEarly) {
            return self.append_with_early_check(&request).await;
        }
        if self.shared.bug == Some(Bug::InputsOneByOne) && request.inputs.len() > 1 {
            let first = AppendPending::new(request.thread.clone(), request.inputs.iter().take(1).cloned());
            let _written = self.write(|tenant, env| pending::append(tenant, &first, &env));
            yield_to_others().await;
            // The first input is already pending, so that an append that contains it would be refused.
            let rest = AppendPending::new(request.thread.clone(), request.inputs.iter().skip(1).cloned());
            return self.write(|tenant, env| pending::append(tenant, &rest, &env));
        }
        self.write(|tenant, env| pending::append(tenant, &request, &env))
    }

    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue> {
        let thread = self.key(thread)?;
        self.read(|view| {
            let thread_data = view.tenant.threads.get(&thread);
            let (revision, inputs) = thread_data
                .map(|thread_data| (thread_data.queue_revision, thread_data.queue.clone()))
                .unwrap_or_default();
            Ok(PendingQueue::new(revision, inputs))
        })
    }

    async fn update_pending(&self, request: PendingUpdate) -> Result<PendingInput> {
        self.write(|tenant, env| pending::update(tenant, &request, &env))
    }

    async fn retract_pending(&self, thread: &ThreadId, id: &EntryId) -> Result<PendingInput> {
        self.write(|tenant, env| pending::retract(tenant, thread, id, &env))
    }

    async fn reorder_pending(&self, request: Reorder) -> Result<u64> {
        self.write(|tenant, env| pending::reorder(tenant, &request, &env))
    }

    async fn list_threads_with_pending(&self, page: PageRequest) -> Result<Page<ThreadId>> {
        self.read(|view| view.pending(&page))
    }
}

#[async_trait]
impl EventWriter for Handle {
    async fn append_events(&self, request: AppendEvents) -> Result<AppendedEvents> {
        if self.shared.bug == Some(Bug::EventsSeenLater) {
            return self.append_hidden(request).await;
        }
        let sealer = (&self.tenant, self.shared.cursors.key());
        self.write(|tenant, env| {
            if env.bug == Some(Bug::EventsInPart) && request.drafts.len() > 1 {
                let first = AppendEvents::new(request.drafts.iter().take(1).cloned());
                let _written = events::append(tenant, &first, &env, (None, sealer));
            }
            events::append(tenant, &request, &env, (None, sealer))
        })
    }
}

#[async_trait]
impl EventReader for Handle {
    async fn load_event(&self, id: &EventId) -> Result<Option<Event>> {
        self.read(|view| Ok(view.tenant.events.load(id, view.sealer())))
    }

    async fn list_events(&self, query: EventQuery) -> Result<Page<Event>> {
        self.read(|view| view.tenant.events.list(&query, view.sealer(), view.bug))
    }

    async fn count_events(&self, scope: &Scope, filter: &EventFilter) -> Result<u64> {
        self.read(|view| Ok(view.tenant.events.count_matching(scope, filter)))
    }

    async fn load_scope(&self, scope: &Scope) -> Result<ScopeInfo> {
        self.read(|view| Ok(view.tenant.events.info(scope, view.sealer())))
    }
}

#[async_trait]
impl EventSubscriber for Handle {
    async fn subscribe(&self, request: Subscribe) -> Result<Subscription> {
        let after = self.read(|view| view.tenant.events.start(&request, view.sealer(), view.bug))?;
        let sealer = (&self.tenant, self.shared.cursors.key());
        let started_after = (after > 0).then(|| cursor_after(&request.scope, after, sealer));
        let follower = Some((self.subscription_handle(&request), request, after));
        let events = stream::unfold(follower, async |follower| {
            let (handle, request, after) = follower?;
            loop {
                match handle.read(|view| view.tenant.events.next(&request, after, view.sealer())) {
                    Ok(Some((seq, event))) => {
                        let skipped = u64::from(handle.shared.bug == Some(Bug::SubscriberSkips) && seq % 5 == 0);
                        return Some((Ok(event), Some((handle, request, seq + skipped))));
                    }
                    Ok(None) => tokio::time::sleep(Duration::from_millis(1)).await,
                    Err(error) => return Some((Err(error), None)),
                }
            }
        });
        Ok(Subscription::new(started_after, Box::pin(events)))
    }
}

#[async_trait]
impl EventRetention for Handle {
    async fn trim_events(&self, request: TrimRequest) -> Result<Trimmed> {
        let sealer = (&self.tenant, self.shared.cursors.key());
        self.write(|tenant, env| tenant.events.trim(&request, sealer, (env.now, env.bug)))
    }
}

#[async_trait]
impl ThreadReader for Handle {
    async fn load_thread(&self, id: &ThreadId) -> Result<Option<Thread>> {
        let id = self.key(id)?;
        self.read(|view| Ok(view.tenant.threads.get(&id).map(|thread_data| thread_data.view(view.bug))))
    }

    async fn list_threads(&self, query: ThreadQuery) -> Result<Page<Thread>> {
        if self.shared.bug == Some(Bug::DeletedTenantReturns) && query.page.cursor.is_some() {
            let model_data = self.shared.model_data();
            if let Some(tenant) = model_data.before.get(&self.tenant) {
                let view = View { tenant, name: &self.tenant, cursors: &self.shared.cursors, bug: self.shared.bug };
                return view.threads(&query);
            }
        }
        self.read(|view| view.threads(&query))
    }

    async fn count_threads(&self, filter: &ThreadFilter) -> Result<u64> {
        self.read(|view| Ok(view.count_threads(filter)))
    }

    async fn validate_parent(&self, thread: &ThreadId, parent: &ThreadId) -> Result<()> {
        self.read(|view| {
            if !view.tenant.threads.contains_key(thread) {
                return Err(Error::not_found("thread", thread));
            }
            admin::check_parent(view.tenant, thread, parent, view.bug)
        })
    }
}

#[async_trait]
impl LogReader for Handle {
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>> {
        let thread = self.key(thread)?;
        self.read(|view| {
            if view.bug == Some(Bug::IdsJoined) {
                let wanted = format!("{thread}.{entry}");
                let all = view
                    .tenant
                    .threads
                    .values()
                    .flat_map(|thread_data| thread_data.entries.iter().map(move |e| (thread_data, e)));
                let mut found = all.filter(|(thread_data, e)| format!("{}.{}", thread_data.thread.id, e.id) == wanted);
                return Ok(found.next().map(|(_, entry)| Arc::clone(entry)));
            }
            Ok(view.tenant.threads.get(&thread).and_then(|thread_data| Tree(&thread_data.entries).find(entry).cloned()))
        })
    }

    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>> {
        let thread = self.key(thread)?;
        self.read(|view| view.entries(&thread, &query))
    }

    async fn list_leaves(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Leaf>> {
        self.read(|view| view.leaves(thread, &page))
    }

    async fn list_branch_points(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BranchPoint>> {
        self.read(|view| view.branch_points(thread, &page))
    }

    async fn list_snapshots(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Snapshot>> {
        self.read(|view| view.snapshots(thread, &page))
    }

    async fn load_context(&self, thread: &ThreadId, request: ContextRequest) -> Result<ThreadContext> {
        self.read(|view| view.context(thread, &request))
    }
}

#[async_trait]
impl RunReader for Handle {
    async fn load_run(&self, id: &RunId) -> Result<Option<Run>> {
        self.read(|view| Ok(view.tenant.run(id).map(|(thread_data, run)| thread_data.view_run(run))))
    }

    async fn list_runs(&self, query: RunQuery) -> Result<Page<Run>> {
        self.read(|view| view.runs(&query))
    }

    async fn count_runs(&self, filter: &RunFilter) -> Result<u64> {
        self.read(|view| Ok(view.all_runs(filter).len() as u64))
    }
}
