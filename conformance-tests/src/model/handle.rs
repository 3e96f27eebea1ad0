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
    AppendEvents, AppendPending, AppendedEvents, AppendedInputs, BranchPoint, Clock, Commit, CommitCoordinator,
    ContextRequest, DocumentStore, Entry, EntryId, EntryQuery, Error, Event, EventFilter, EventId, EventQuery,
    EventReader, EventRetention, EventStore, EventSubscriber, EventWriter, Expect, Leaf, LogReader, OutboxStore, Page,
    PageRequest, PendingInput, PendingQueue, PendingStore, PendingUpdate, Receipt, RedactEvent, Reorder, Result, Run,
    RunFilter, RunId, RunQuery, RunReader, Scope, ScopeInfo, Snapshot, Subscribe, Subscription, SubscriptionStart,
    TenantId, Thread, ThreadContext, ThreadFilter, ThreadId, ThreadQuery, ThreadReader, ThreadRunStore, Timestamp,
    TrimRequest, Trimmed, event::cursor_after,
};

use super::{
    admin,
    bug::Bug,
    commit::{self, Environment},
    events,
    model_data::{ModelData, TenantData},
    pending,
    read::TenantView,
    store::SharedModel,
    tree::LogTree,
};

/// The time of the commit that contains an append of events. The appends of this file belong to no commit.
const NO_COMMIT_TIME: Option<Timestamp> = None;

/// A handle of a tenant of the model.
#[derive(Clone)]
pub(super) struct TenantHandle {
    pub(super) shared: Arc<SharedModel>,
    pub(super) is_closed: Arc<AtomicBool>,
    pub(super) tenant: TenantId,
    /// The number of times that the tenant had been deleted when this handle was made.
    pub(super) deletions: u64,
}

impl TenantHandle {
    fn check_open(&self, model_data: &ModelData) -> Result<()> {
        let bug = self.shared.bug;
        let is_closed = self.is_closed.load(Ordering::SeqCst) && bug != Some(Bug::ClosedStoreUsable);
        let is_deleted = model_data.deletions.get(&self.tenant).copied().unwrap_or_default() != self.deletions;
        if is_closed || (is_deleted && bug != Some(Bug::DeletedTenantUsable)) { Err(Error::closed()) } else { Ok(()) }
    }

    /// Refuses the call if the handle was closed or its tenant was deleted.
    pub(super) fn check_usable(&self) -> Result<()> {
        self.check_open(&self.shared.model_data())
    }

    /// Reads the data of the tenant in one step.
    pub(super) fn read<T>(&self, read: impl FnOnce(TenantView<'_>) -> Result<T>) -> Result<T> {
        let model_data = self.shared.model_data();
        self.check_open(&model_data)?;
        let bug = self.shared.bug;
        let empty = TenantData::default();
        let current_tenant = model_data.tenants.get(&self.tenant).unwrap_or(&empty);
        let wrong_tenant = match bug {
            Some(Bug::StaleRead) => model_data.previous_tenants.get(&self.tenant).cloned(),
            Some(Bug::TenantByPrefix) => Some(merged_by_prefix(&model_data, &self.tenant)),
            _ => None,
        };
        let tenant = wrong_tenant.as_ref().unwrap_or(current_tenant);
        read(TenantView { tenant, name: &self.tenant, cursors: &self.shared.cursors, bug })
    }

    /// Changes the data of the tenant in one step.
    pub(super) fn write<T>(&self, write: impl FnOnce(&mut TenantData, Environment<'_>) -> Result<T>) -> Result<T> {
        let SharedModel { clock, limits, id_source, bug, .. } = &*self.shared;
        let mut model_data = self.shared.model_data();
        self.check_open(&model_data)?;
        if *bug == Some(Bug::StaleRead) {
            let before = model_data.tenants.get(&self.tenant).cloned().unwrap_or_default();
            model_data.previous_tenants.insert(self.tenant.clone(), before);
        }
        let tenant_and_cursor_key = (&self.tenant, self.shared.cursors.key());
        let env = Environment { now: clock.now(), limits, id_source, bug: *bug, tenant_and_cursor_key };
        let tenant = model_data.tenants.entry(self.tenant.clone()).or_default();
        tenant.mailbox.incarnation = self.deletions + 1;
        // A tenant that is used again after its deletion gives no revision twice (DO-3).
        if *bug != Some(Bug::RevisionsOfADeletedTenantReturn) {
            tenant.documents.last_revision = tenant.documents.last_revision.max(self.deletions << 32);
        }
        write(tenant, env)
    }

    /// Returns handles of the other tenants whose names `is_mistaken` accepts. Planted bugs mistake them for this
    /// tenant.
    pub(super) fn tenants_mistaken_for_this_one(&self, is_mistaken: impl Fn(&str) -> bool) -> Vec<Self> {
        let model_data = self.shared.model_data();
        let names = model_data.tenants.keys().filter(|name| **name != self.tenant && is_mistaken(name.as_str()));
        let handle = |name: &TenantId| {
            let deletions = model_data.deletions.get(name).copied().unwrap_or_default();
            Self { tenant: name.clone(), deletions, ..self.clone() }
        };
        names.map(handle).collect()
    }

    /// Returns the handle that a subscription reads through. With the planted bug `SubscribesByPattern`, a tenant's
    /// name such as `a*` is a pattern, and the subscription reads another tenant whose name matches.
    fn subscription_handle(&self, request: &Subscribe) -> Self {
        let stem = self.tenant.as_str().strip_suffix('*');
        let others = match (self.shared.bug, &request.start, stem) {
            (Some(Bug::SubscribesByPattern), SubscriptionStart::First, Some(stem)) => {
                self.tenants_mistaken_for_this_one(|name| name.starts_with(stem))
            }
            _ => Vec::new(),
        };
        others.into_iter().next().unwrap_or_else(|| self.clone())
    }

    /// Returns the id under which the store looks up a thread. This is the given id, unless the planted bug
    /// `CaseFolded` changes it.
    pub(super) fn lookup_id(&self, id: &ThreadId) -> Result<ThreadId> {
        match self.shared.bug {
            Some(Bug::CaseFolded) => ThreadId::new(id.as_str().to_lowercase()),
            _ => Ok(id.clone()),
        }
    }

    /// Commits, but makes all checks before it takes the lock for the write. Other calls can write in between.
    async fn commit_with_early_guard(&self, mut commit: Commit) -> Result<Receipt> {
        let mut copy = self.shared.model_data().tenants.get(&self.tenant).cloned().unwrap_or_default();
        let early_receipt = self.write(|_, env| commit::commit(&mut copy, &commit, env))?;
        if early_receipt.deduplicated {
            return Ok(early_receipt);
        }
        yield_to_others().await;
        self.write(|tenant, env| {
            let thread_data = tenant.threads.get(&commit.thread);
            commit.expect =
                thread_data.map_or(Expect::Absent, |thread_data| Expect::Version(thread_data.to_thread(None).version));
            commit::commit(tenant, &commit, env)
        })
    }

    /// Commits. After a refusal, restores the tenant as it was before the call, which undoes writes of other calls.
    async fn commit_with_rollback(&self, commit: &Commit) -> Result<Receipt> {
        let tenant_before = self.shared.model_data().tenants.get(&self.tenant).cloned().unwrap_or_default();
        yield_to_others().await;
        self.write(|tenant, env| {
            let result = commit::commit(tenant, commit, env);
            if result.is_err() {
                *tenant = tenant_before;
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
            let _result = self.write(|tenant, env| commit::settle(tenant, &commit, &env));
            (commit.settle, commit.fence) = (None, None);
            yield_to_others().await;
        }
        self.write(|tenant, env| commit::commit(tenant, &commit, env))
    }

    /// Checks an append, and writes its inputs later. If an id enters the log in between, the input with this id
    /// becomes pending although it is in the log.
    async fn append_with_early_check(&self, request: &AppendPending) -> Result<AppendedInputs> {
        let mut copy = self.shared.model_data().tenants.get(&self.tenant).cloned().unwrap_or_default();
        let appended = self.write(|_, env| pending::append(&mut copy, request, &env))?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.write(|tenant, _| {
            let queue_of_copy =
                copy.threads.get(&request.thread).map(|thread_data| thread_data.queue.clone()).unwrap_or_default();
            if let Some(thread_data) = tenant.threads.get_mut(&request.thread) {
                let is_new = |input: &PendingInput| appended.inputs.iter().any(|new| new.id == input.id);
                thread_data.queue.extend(queue_of_copy.into_iter().filter(is_new));
                thread_data.queue_revision += 1;
            }
            Ok(())
        })?;
        Ok(appended)
    }

    /// Lets other tasks run if the model has this planted bug.
    pub(in crate::model) async fn yield_if_bug(&self, bug: Bug) {
        if self.shared.bug == Some(bug) {
            yield_to_others().await;
        }
    }

    /// Appends events that are hidden until the call returns, while later events are already visible.
    async fn append_hidden(&self, request: AppendEvents) -> Result<AppendedEvents> {
        let tenant_and_cursor_key = (&self.tenant, self.shared.cursors.key());
        let appended = self.write(|tenant, env| {
            let appended = events::append(tenant, &request, &env, (NO_COMMIT_TIME, tenant_and_cursor_key))?;
            tenant.events.hide_from_lists(&appended.events);
            Ok(appended)
        })?;
        yield_to_others().await;
        self.write(|tenant, _| {
            tenant.events.show_in_lists(&appended.events);
            Ok(())
        })?;
        Ok(appended)
    }
}

/// Lets other tasks run.
pub(super) async fn yield_to_others() {
    let mut remaining_polls = 3;
    poll_fn(|context| {
        if remaining_polls == 0 {
            return Poll::Ready(());
        }
        remaining_polls -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Returns the threads, the mailbox, the outbox and the documents of all tenants whose names begin with `name`, as one
/// tenant.
fn merged_by_prefix(model_data: &ModelData, name: &TenantId) -> TenantData {
    let mut merged_tenant = TenantData::default();
    for (_, tenant) in model_data.tenants.iter().filter(|(other, _)| other.as_str().starts_with(name.as_str())) {
        merged_tenant.threads.extend(tenant.threads.clone());
        merged_tenant.id_histories.extend(tenant.id_histories.clone());
        merged_tenant.mailbox.merge(&tenant.mailbox);
        merged_tenant.outbox.extend(tenant.outbox.clone());
        merged_tenant.documents.documents.extend(tenant.documents.documents.clone());
        merged_tenant.write_count = merged_tenant.write_count.max(tenant.write_count);
    }
    merged_tenant
}

#[async_trait]
impl CommitCoordinator for TenantHandle {
    async fn commit(&self, mut commit: Commit) -> Result<Receipt> {
        commit.thread = self.lookup_id(&commit.thread)?;
        match self.shared.bug {
            Some(Bug::CommitDocumentsUnguarded) => self.commit_with_early_documents(commit).await,
            Some(Bug::GuardOutsideTheLock) => self.commit_with_early_guard(commit).await,
            Some(Bug::RefusalRollsBack) => self.commit_with_rollback(&commit).await,
            Some(Bug::AckWithoutWriting) => self.commit_except_every_fourth(&commit),
            Some(Bug::CommitSettlesInOwnStep) => self.commit_after_its_settlement(commit).await,
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

    fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        Some(Arc::new(self.clone()))
    }
}

#[async_trait]
impl PendingStore for TenantHandle {
    async fn append_pending(&self, mut request: AppendPending) -> Result<AppendedInputs> {
        request.thread = self.lookup_id(&request.thread)?;
        if self.shared.bug == Some(Bug::AppendChecksEarly) {
            return self.append_with_early_check(&request).await;
        }
        if self.shared.bug == Some(Bug::InputsOneByOne) && request.inputs.len() > 1 {
            let first = AppendPending::new(request.thread.clone(), request.inputs.iter().take(1).cloned());
            let _written = self.write(|tenant, env| pending::append(tenant, &first, &env));
            yield_to_others().await;
            // The first input is already pending. An append that contained it again would be refused.
            let others = AppendPending::new(request.thread.clone(), request.inputs.iter().skip(1).cloned());
            return self.write(|tenant, env| pending::append(tenant, &others, &env));
        }
        self.write(|tenant, env| pending::append(tenant, &request, &env))
    }

    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue> {
        let thread = self.lookup_id(thread)?;
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
        self.read(|view| view.threads_with_pending(&page))
    }
}

#[async_trait]
impl EventWriter for TenantHandle {
    async fn append_events(&self, request: AppendEvents) -> Result<AppendedEvents> {
        if self.shared.bug == Some(Bug::EventsVisibleLate) {
            return self.append_hidden(request).await;
        }
        let tenant_and_cursor_key = (&self.tenant, self.shared.cursors.key());
        self.write(|tenant, env| {
            if env.bug == Some(Bug::FirstEventOfRefusedAppendStays) && request.drafts.len() > 1 {
                let first = AppendEvents::new(request.drafts.iter().take(1).cloned());
                let _written = events::append(tenant, &first, &env, (NO_COMMIT_TIME, tenant_and_cursor_key));
            }
            events::append(tenant, &request, &env, (NO_COMMIT_TIME, tenant_and_cursor_key))
        })
    }
}

#[async_trait]
impl EventReader for TenantHandle {
    async fn load_event(&self, id: &EventId) -> Result<Option<Event>> {
        self.read(|view| Ok(view.tenant.events.load(id, view.tenant_and_cursor_key())))
    }

    async fn list_events(&self, query: EventQuery) -> Result<Page<Event>> {
        self.read(|view| view.tenant.events.list(&query, view.tenant_and_cursor_key(), view.bug))
    }

    async fn count_events(&self, scope: &Scope, filter: &EventFilter) -> Result<u64> {
        self.read(|view| Ok(view.tenant.events.count_matching(scope, filter)))
    }

    async fn load_scope(&self, scope: &Scope) -> Result<ScopeInfo> {
        self.read(|view| Ok(view.tenant.events.scope_info(scope, view.tenant_and_cursor_key())))
    }
}

#[async_trait]
impl EventSubscriber for TenantHandle {
    async fn subscribe(&self, request: Subscribe) -> Result<Subscription> {
        let after =
            self.read(|view| view.tenant.events.start_position(&request, view.tenant_and_cursor_key(), view.bug))?;
        let tenant_and_cursor_key = (&self.tenant, self.shared.cursors.key());
        let started_after = (after > 0).then(|| cursor_after(&request.scope, after, tenant_and_cursor_key));
        let follower = Some((self.subscription_handle(&request), request, after));
        let events = stream::unfold(follower, async |follower| {
            let (handle, request, after) = follower?;
            loop {
                match handle.read(|view| view.tenant.events.next_event(&request, after, view.tenant_and_cursor_key())) {
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
impl EventRetention for TenantHandle {
    async fn trim_events(&self, request: TrimRequest) -> Result<Trimmed> {
        let tenant_and_cursor_key = (&self.tenant, self.shared.cursors.key());
        self.write(|tenant, env| tenant.events.trim(&request, tenant_and_cursor_key, (env.now, env.bug)))
    }

    async fn redact_events(&self, requests: Vec<RedactEvent>) -> Result<u64> {
        self.write(|tenant, env| tenant.events.redact(&requests, env.bug))
    }
}

#[async_trait]
impl ThreadReader for TenantHandle {
    async fn load_thread(&self, id: &ThreadId) -> Result<Option<Thread>> {
        let id = self.lookup_id(id)?;
        self.read(|view| Ok(view.tenant.threads.get(&id).map(|thread_data| thread_data.to_thread(view.bug))))
    }

    async fn list_threads(&self, query: ThreadQuery) -> Result<Page<Thread>> {
        if self.shared.bug == Some(Bug::DeletedTenantReturns) && query.page.cursor.is_some() {
            let model_data = self.shared.model_data();
            if let Some(tenant) = model_data.previous_tenants.get(&self.tenant) {
                let view =
                    TenantView { tenant, name: &self.tenant, cursors: &self.shared.cursors, bug: self.shared.bug };
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
impl LogReader for TenantHandle {
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>> {
        let thread = self.lookup_id(thread)?;
        self.read(|view| {
            if view.bug == Some(Bug::IdsJoined) {
                let wanted = format!("{thread}.{entry}");
                let threads = view.tenant.threads.values();
                let all_entries = threads.flat_map(|data| data.entries.iter().map(move |entry| (data, entry)));
                let mut found = all_entries
                    .filter(|(thread_data, entry)| format!("{}.{}", thread_data.thread.id, entry.id) == wanted);
                return Ok(found.next().map(|(_, entry)| Arc::clone(entry)));
            }
            let found = view.tenant.threads.get(&thread);
            Ok(found.and_then(|thread_data| LogTree::new(&thread_data.entries).find(entry).cloned()))
        })
    }

    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>> {
        let thread = self.lookup_id(thread)?;
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
impl RunReader for TenantHandle {
    async fn load_run(&self, id: &RunId) -> Result<Option<Run>> {
        self.read(|view| Ok(view.tenant.find_run(id).map(|(thread_data, run)| thread_data.to_run(run))))
    }

    async fn list_runs(&self, query: RunQuery) -> Result<Page<Run>> {
        self.read(|view| view.runs(&query))
    }

    async fn count_runs(&self, filter: &RunFilter) -> Result<u64> {
        self.read(|view| Ok(view.all_runs(filter).len() as u64))
    }
}
