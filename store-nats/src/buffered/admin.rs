//! Creating, changing and deleting threads.

use async_trait::async_trait;
use store_core::{
    DeleteRequest, Deletion, Direction, Error, Expect, Limits, NewThread, PageRequest, ParentFilter, Progress,
    PruneRequest, Pruned, Result, Thread, ThreadAdmin, ThreadFilter, ThreadId, ThreadOrder, ThreadPatch, ThreadQuery,
    Timestamp,
    buffer::{Delta, ThreadDeletion, keys_of_deletion, keys_of_thread},
    commit::{CommitView, NeededKeys},
    thread::{self, DeletionSet, StoredThread, ThreadChange, ThreadIdRecord},
};
use tokio::time::Instant;

use super::{
    decide::{Decided, Write},
    store::BufferedHandles,
    tenant::BufferedTenant,
};

#[async_trait]
impl ThreadAdmin for BufferedHandles {
    async fn create_thread(&self, draft: NewThread) -> Result<Thread> {
        self.tenant.write(Some(draft.id.clone()), |tenant| async move { create(&tenant, &draft).await }).await
    }

    async fn update_thread(&self, id: &ThreadId, patch: ThreadPatch, expect: Expect) -> Result<Thread> {
        let id = id.clone();
        self.tenant.write(Some(id.clone()), |tenant| async move { update(&tenant, (&id, &patch, expect)).await }).await
    }

    async fn delete_thread(&self, id: &ThreadId, request: DeleteRequest) -> Result<Deletion> {
        let id = id.clone();
        self.tenant.write(None, |tenant| async move { delete(&tenant, &id, request).await }).await
    }

    async fn prune_threads(&self, request: PruneRequest) -> Result<Pruned> {
        self.tenant.write(None, |tenant| async move { prune(&tenant, request).await }).await
    }

    async fn purge_deleted(&self, progress: &dyn Progress) -> Result<u64> {
        let end = self.tenant.shared.catch_up().await?;
        self.tenant.shared.flush(end).await?;
        self.tenant.inner_commits()?.threads().purge_deleted(progress).await
    }

    async fn reset_fence(&self, id: &ThreadId) -> Result<()> {
        let id = id.clone();
        self.tenant
            .write(Some(id.clone()), |tenant| async move {
                let write = Write { tenant: &tenant, thread: &id, needed: NeededKeys::default(), as_of: None };
                write
                    .decide(|_, view, context| {
                        let id_record = CommitView::id_record(view)?;
                        if id_record.fence.is_none() {
                            return Ok(Decided::Answer(()));
                        }
                        let id_record = ThreadIdRecord { fence: None, ..id_record };
                        let stored = view.thread()?;
                        let parent = stored.as_ref().and_then(|stored| stored.thread.parent_thread_id.clone());
                        let delta = match stored {
                            Some(stored) => Delta::of_thread(stored, false, id_record),
                            None => Delta::of_id_record(id.clone(), id_record, context.now),
                        };
                        let keys = keys_of_thread(&delta, parent.as_ref());
                        Ok(Decided::Write(delta, keys, ()))
                    })
                    .await
            })
            .await
    }
}

async fn create(tenant: &BufferedTenant, draft: &NewThread) -> Result<Thread> {
    let mut needed = NeededKeys::default();
    needed.parent_thread.clone_from(&draft.fields.parent_thread_id);
    Write { tenant, thread: &draft.id, needed, as_of: None }
        .decide(|_, view, context| {
            let id_record = CommitView::id_record(view)?;
            let time_and_incarnation = (context.now, view.incarnation());
            let stored = view.thread()?;
            let created = thread::create(stored.as_ref(), &id_record, draft, context.limits, time_and_incarnation)?;
            if let Some(parent) = &draft.fields.parent_thread_id {
                let existing = if view.thread_exists(parent)? { vec![parent.clone()] } else { Vec::new() };
                thread::check_parent(&draft.id, parent, &existing)?;
            }
            let generation = created.thread.generation();
            let id_record = ThreadIdRecord { generation, deleted_at: None, ..id_record };
            let answer = created.thread.clone();
            let delta = Delta::of_thread(created, true, id_record);
            let keys = keys_of_thread(&delta, None);
            Ok(Decided::Write(delta, keys, answer))
        })
        .await
}

async fn update(tenant: &BufferedTenant, request: (&ThreadId, &ThreadPatch, Expect)) -> Result<Thread> {
    let (id, patch, _) = request;
    let decide = |lineage: Vec<ThreadId>| {
        move |_: &store_core::buffer::Overlay,
              view: &store_core::buffer::OverlayView<'_>,
              context: store_core::commit::DecisionContext<'_>| {
            let (stored, old_record) = (view.thread()?, CommitView::id_record(view)?);
            let mut id_record = old_record.clone();
            let old_parent = stored.as_ref().and_then(|stored| stored.thread.parent_thread_id.clone());
            let lineage = lineage.clone();
            let limits_and_time = (context.limits, context.now);
            let changed =
                match thread::update(request, (stored, &mut id_record), None, |_| Ok(lineage), limits_and_time)? {
                    ThreadChange::Unchanged(stored) if id_record == old_record => {
                        return Ok(Decided::Answer(stored.thread));
                    }
                    ThreadChange::Unchanged(stored) | ThreadChange::Changed(stored) => stored,
                };
            let answer = changed.thread.clone();
            let delta = Delta::of_thread(changed, false, id_record);
            let keys = keys_of_thread(&delta, old_parent.as_ref());
            Ok(Decided::Write(delta, keys, answer))
        }
    };
    let Some(parent) = patch.new_parent() else {
        let write = Write { tenant, thread: id, needed: NeededKeys::default(), as_of: None };
        return write.decide(decide(Vec::new())).await;
    };
    let started_at = Instant::now();
    while started_at.elapsed() < tenant.shared.stream.connection.answer_timeout {
        // The lineage is that of the inner store at this position. A later change of a parent refuses the delta.
        let end = flush_everything(tenant).await?;
        let lineage = tenant.shared.inner.lineage(&tenant.name, parent).await?;
        let write = Write { tenant, thread: id, needed: NeededKeys::default(), as_of: Some(end) };
        if let Some(answer) = write.decide_once(decide(lineage)).await? {
            return Ok(answer);
        }
    }
    Err(too_many_writers())
}

fn too_many_writers() -> Error {
    Error::unavailable("other callers kept writing at the same time")
}

/// Applies everything that was acknowledged before the call, and returns its position.
async fn flush_everything(tenant: &BufferedTenant) -> Result<u64> {
    let end = tenant.shared.catch_up().await?;
    tenant.shared.flush(end).await?;
    Ok(end)
}

/// What a deletion must know about a thread.
struct Found {
    thread: Option<StoredThread>,
    id_record: ThreadIdRecord,
    limits: Limits,
    now: Timestamp,
}

async fn find(tenant: &BufferedTenant, id: &ThreadId) -> Result<Option<Found>> {
    Write { tenant, thread: id, needed: NeededKeys::default(), as_of: None }
        .decide_once(|_, view, context| {
            let (limits, now) = (context.limits.clone(), context.now);
            let id_record = CommitView::id_record(view)?;
            Ok(Decided::Answer(Found { thread: view.thread()?, id_record, limits, now }))
        })
        .await
}

/// Returns the children of a thread in the inner store.
async fn children(tenant: &BufferedTenant, parent: &ThreadId) -> Result<Vec<ThreadId>> {
    let threads = tenant.inner_commits()?.threads();
    let mut filter = ThreadFilter::default();
    filter.parent = Some(ParentFilter::Of(parent.clone()));
    let query = ThreadQuery::new(filter).ordered(ThreadOrder::Creation, Direction::Forward);
    let (mut children, mut page) = (Vec::new(), PageRequest::first(1_000));
    loop {
        let found = threads.list_threads(query.clone().with_page(page.clone())).await?;
        children.extend(found.items.into_iter().map(|thread| thread.id));
        let Some(next) = found.next else { return Ok(children) };
        page = page.after(next);
    }
}

async fn delete(tenant: &BufferedTenant, id: &ThreadId, request: DeleteRequest) -> Result<Deletion> {
    let started_at = Instant::now();
    while started_at.elapsed() < tenant.shared.stream.connection.answer_timeout {
        // Whatever is written to one of the threads after this position refuses the delta.
        let end = flush_everything(tenant).await?;
        let Some(root) = find(tenant, id).await? else { continue };
        let mut set = DeletionSet::begin(id.clone(), children(tenant, id).await?, request.children);
        while let Some(thread) = set.next_to_expand(root.limits.deletion_threads) {
            set.add_children(children(tenant, &thread).await?);
        }
        set.check(id, root.thread.as_ref(), request, &root.limits)?;
        if write_deletion(tenant, end, (set.deleted(), set.detached()), root.now).await? {
            return Ok(Deletion::from(set));
        }
    }
    Err(too_many_writers())
}

/// Writes the deletion of these threads, decided at the position `as_of`. Returns whether it takes effect.
async fn write_deletion(
    tenant: &BufferedTenant,
    as_of: u64,
    (deleted, detached): (&[ThreadId], &[ThreadId]),
    at: Timestamp,
) -> Result<bool> {
    let mut deletion = ThreadDeletion::new(at);
    for id in deleted {
        let Some(Found { thread: Some(stored), id_record, .. }) = find(tenant, id).await? else { return Ok(false) };
        deletion.deleted.push((id.clone(), thread::id_record_after_deletion(&id_record, &stored, at)));
    }
    for id in detached {
        let Some(Found { thread: Some(stored), .. }) = find(tenant, id).await? else { return Ok(false) };
        deletion.detached.push(thread::detach(stored, at));
    }
    let Some(root) = deleted.first() else { return Ok(true) };
    let keys = keys_of_deletion(&deletion);
    let write = Write { tenant, thread: root, needed: NeededKeys::default(), as_of: Some(as_of) };
    let written =
        write.decide_once(|_, _, _| Ok(Decided::Write(Delta::Deletion(deletion.clone()), keys.clone(), ()))).await?;
    Ok(written.is_some())
}

async fn prune(tenant: &BufferedTenant, request: PruneRequest) -> Result<Pruned> {
    request.check()?;
    let started_at = Instant::now();
    while started_at.elapsed() < tenant.shared.stream.connection.answer_timeout {
        let end = flush_everything(tenant).await?;
        let threads = tenant.inner_commits()?.threads();
        let mut chosen = threads.prune_threads(PruneRequest { dry_run: true, ..request }).await?;
        leave_quarantined(tenant, &mut chosen.threads).await?;
        if request.dry_run {
            return Ok(chosen);
        }
        let now = tenant.shared.inner.now().await?;
        if write_deletion(tenant, end, (&chosen.threads, &[]), now).await? {
            // No thread is idle for so long, so this only forgets deleted ids.
            let forget = PruneRequest { idle: std::time::Duration::MAX, limit: 1, dry_run: false };
            threads.prune_threads(forget).await?;
            return Ok(chosen);
        }
    }
    Err(too_many_writers())
}

/// Leaves out the threads to which a write is in quarantine, and the threads above them.
async fn leave_quarantined(tenant: &BufferedTenant, chosen: &mut Vec<ThreadId>) -> Result<()> {
    let closed: Vec<_> =
        chosen.iter().filter(|thread| tenant.shared.check_thread(&tenant.name, thread).is_err()).cloned().collect();
    for thread in closed {
        let lineage = tenant.shared.inner.lineage(&tenant.name, &thread).await?;
        chosen.retain(|thread| !lineage.contains(thread));
    }
    Ok(())
}
