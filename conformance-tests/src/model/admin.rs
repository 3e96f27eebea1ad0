//! Creating, changing, deleting and pruning threads (promises TH of the contract).

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use store_core::{
    ChildStrategy, DeleteRequest, Deletion, Detail, Error, Expect, NewThread, Progress, PruneRequest, Pruned, Result,
    RunStatus, Thread, ThreadAdmin, ThreadFields, ThreadId, ThreadPatch, Timestamp, Version, check_limit,
};

use super::{
    bug::Bug,
    commit::{Environment, check_fence, new_thread_data},
    handle::{TenantHandle, yield_to_others},
    mailbox,
    model_data::{TenantData, ThreadData},
    shape,
};

/// How long the id of a deleted thread is remembered (TH-25).
const ID_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Creates a thread.
pub(super) fn create(tenant: &mut TenantData, new: NewThread, env: &Environment<'_>) -> Result<Thread> {
    shape::check_fields(&new.fields, env.limits)?;
    if new.at.is_some_and(|at| at > env.now) {
        return Err(Error::invalid("at", "it is after the store's time"));
    }
    if tenant.threads.contains_key(&new.id) {
        return Err(Error::already_exists("thread", &new.id));
    }
    if let Some(parent) = &new.fields.parent_thread_id {
        check_parent(tenant, &new.id, parent, env.bug)?;
    }
    let mut id_history = tenant.id_histories.get(&new.id).cloned().unwrap_or_default();
    let at = new.at.unwrap_or(env.now);
    let thread_data = new_thread_data(&new.id, new.fields, &id_history, (at, env))?;
    id_history.generation = thread_data.thread.generation();
    id_history.deleted_at = None;
    tenant.id_histories.insert(new.id.clone(), id_history);
    let thread = thread_data.to_thread(env.bug);
    tenant.store_thread(thread_data);
    Ok(thread)
}

/// Refuses a `parent` that may not be the parent of `thread` (TH-10, TH-11).
pub(super) fn check_parent(tenant: &TenantData, thread: &ThreadId, parent: &ThreadId, bug: Option<Bug>) -> Result<()> {
    if bug == Some(Bug::ParentUnchecked) {
        return Ok(());
    }
    if parent != thread && !tenant.threads.contains_key(parent) {
        return Err(Error::not_found("parent thread", parent));
    }
    if tenant.subtree(thread).contains(parent) && bug != Some(Bug::CyclesAllowed) {
        return Err(Error::invalid("parent_thread_id", "the thread would be its own ancestor"));
    }
    Ok(())
}

/// Changes the fields of a thread.
pub(super) fn update(
    tenant: &mut TenantData,
    id: &ThreadId,
    patch: &ThreadPatch,
    expect_and_env: (Expect, &Environment<'_>),
) -> Result<Thread> {
    let (expect, env) = expect_and_env;
    let mut thread_data = tenant.threads.get(id).cloned().ok_or_else(|| Error::not_found("thread", id))?;
    let mut id_history = tenant.id_histories.get(id).cloned().unwrap_or_default();
    mailbox::check_fence(&tenant.mailbox, id, patch.fence.as_ref(), env.bug)?;
    check_fence(&mut id_history, patch.fence.as_ref(), env.bug)?;
    check_revision(expect, thread_data.thread.revision)?;
    if patch.at.is_some_and(|at| at > thread_data.last_time.max(env.now)) {
        return Err(Error::invalid("at", "it is after the store's time"));
    }
    let fields = patched_fields(&thread_data.thread, patch, env.bug);
    shape::check_fields(&fields, env.limits)?;
    if let Some(Some(parent)) = &patch.parent_thread_id {
        check_parent(tenant, id, parent, env.bug)?;
    }
    tenant.id_histories.insert(id.clone(), id_history);
    if fields == current_fields(&thread_data.thread) && env.bug != Some(Bug::UnchangedUpdateRaisesRevision) {
        return Ok(thread_data.to_thread(env.bug));
    }
    thread_data.thread.resource_id = fields.resource_id;
    thread_data.thread.parent_thread_id = fields.parent_thread_id;
    thread_data.thread.title = fields.title;
    thread_data.thread.metadata = fields.metadata;
    raise_revision(&mut thread_data, patch.at, env);
    let thread = thread_data.to_thread(env.bug);
    tenant.store_thread(thread_data);
    Ok(thread)
}

fn check_revision(expect: Expect, actual: Version) -> Result<()> {
    match expect {
        Expect::Any => Ok(()),
        Expect::Version(expected) if expected == actual => Ok(()),
        Expect::Version(expected) => Err(Error::conflict("revision", Some(expected), Some(actual))),
        Expect::Absent => Err(Error::conflict("revision", None, Some(actual))),
    }
}

fn current_fields(thread: &Thread) -> ThreadFields {
    let mut fields = ThreadFields::default();
    fields.resource_id.clone_from(&thread.resource_id);
    fields.parent_thread_id.clone_from(&thread.parent_thread_id);
    fields.title.clone_from(&thread.title);
    fields.metadata.clone_from(&thread.metadata);
    fields
}

fn patched_fields(thread: &Thread, patch: &ThreadPatch, bug: Option<Bug>) -> ThreadFields {
    let mut fields = current_fields(thread);
    if bug == Some(Bug::UpdateForgetsMetadata) && !patch.metadata.is_empty() {
        fields.metadata.clear();
    }
    if let Some(resource_id) = &patch.resource_id {
        fields.resource_id.clone_from(resource_id);
    }
    if let Some(parent) = &patch.parent_thread_id {
        fields.parent_thread_id.clone_from(parent);
    }
    if let Some(title) = &patch.title {
        fields.title.clone_from(title);
    }
    for (key, value) in &patch.metadata {
        fields.metadata.remove(key);
        fields.metadata.extend(value.iter().map(|value| (key.clone(), value.clone())));
    }
    fields
}

/// Raises the revision of a thread after a change of its fields, and sets its times (TH-5, TH-29).
fn raise_revision(thread_data: &mut ThreadData, at: Option<Timestamp>, env: &Environment<'_>) {
    thread_data.last_time = thread_data.last_time.max(env.now);
    thread_data.thread.revision = thread_data.thread.revision.plus(1);
    thread_data.thread.updated_at = thread_data.thread.updated_at.max(at.unwrap_or(thread_data.last_time));
    if env.bug == Some(Bug::TimeGoesBack) {
        thread_data.thread.updated_at = env.now;
    }
}

/// Deletes a thread (TH-17 to TH-22).
pub(super) fn delete(
    tenant: &mut TenantData,
    id: &ThreadId,
    request: DeleteRequest,
    env: &Environment<'_>,
) -> Result<Deletion> {
    let thread_data = tenant.threads.get(id).ok_or_else(|| Error::not_found("thread", id))?;
    let version = thread_data.to_thread(None).version;
    match request.expect {
        Expect::Any => {}
        Expect::Version(expected) if expected == version => {}
        Expect::Version(expected) => return Err(Error::conflict("version", Some(expected), Some(version))),
        Expect::Absent => return Err(Error::conflict("version", None, Some(version))),
    }
    let children = tenant.children(id);
    let only_this_thread = BTreeSet::from([id.clone()]);
    let (deleted, detached) = match request.children {
        ChildStrategy::Reject if !children.is_empty() && env.bug != Some(Bug::ChildrenIgnored) => {
            return Err(Error::new(Detail::HasChildren { count: children.len() as u64 }));
        }
        ChildStrategy::Reject => (only_this_thread, Vec::new()),
        ChildStrategy::Detach => (only_this_thread, children),
        ChildStrategy::Cascade if env.bug == Some(Bug::CascadeStopsEarly) => {
            (children.into_iter().chain(only_this_thread).collect(), Vec::new())
        }
        ChildStrategy::Cascade => (tenant.subtree(id), Vec::new()),
    };
    check_limit("threads changed", (deleted.len() + detached.len()) as u64, env.limits.deletion_threads)?;
    for id in &deleted {
        remove_thread(tenant, id, env);
    }
    for id in &detached {
        let Some(mut child) = tenant.threads.get(id).cloned() else { continue };
        if env.bug == Some(Bug::DetachForgotten) {
            continue;
        }
        child.thread.parent_thread_id = None;
        raise_revision(&mut child, None, env);
        tenant.store_thread(child);
    }
    Ok(Deletion::new(deleted.into_iter().collect(), detached))
}

fn remove_thread(tenant: &mut TenantData, id: &ThreadId, env: &Environment<'_>) {
    let thread_data = tenant.threads.remove(id);
    if env.bug != Some(Bug::DocumentsOutliveTheirThread) {
        tenant.documents.remove_of_thread(id);
    }
    if env.bug == Some(Bug::TopicsEndWithAThread) {
        tenant.events.forget_topics();
    }
    let id_history = tenant.id_histories.entry(id.clone()).or_default();
    id_history.deleted_at =
        Some(thread_data.as_ref().map_or(env.now, |thread_data| env.now.max(thread_data.last_time)));
    id_history.old_log =
        thread_data.filter(|_| env.bug == Some(Bug::OldLogReturns)).map(|thread_data| thread_data.entries);
    if env.bug == Some(Bug::DeletionForgetsTheId) {
        tenant.id_histories.remove(id);
    }
}

/// Deletes the threads to which nothing was written for the given time (TH-26 to TH-28), children before their parents.
/// Also forgets the ids of threads that were deleted long ago (TH-25).
pub(super) fn prune(tenant: &mut TenantData, request: PruneRequest, env: &Environment<'_>) -> Result<Pruned> {
    if !(1..=1_000).contains(&request.limit) {
        return Err(Error::invalid("limit", "it must be from 1 to 1000"));
    }
    let mut remaining = tenant.clone();
    let mut pruned = Vec::new();
    let mut more = false;
    while let Some(id) = find_prunable_thread(&remaining, request.idle, env) {
        if pruned.len() as u64 == u64::from(request.limit) {
            more = true;
            break;
        }
        remove_thread(&mut remaining, &id, env);
        pruned.push(id);
    }
    if !request.dry_run {
        let cutoff = env.now.saturating_sub(ID_RETENTION);
        remaining.id_histories.retain(|_, id_history| id_history.deleted_at.is_none_or(|at| at >= cutoff));
        *tenant = remaining;
    }
    Ok(Pruned::new(pruned, more))
}

fn find_prunable_thread(tenant: &TenantData, idle: Duration, env: &Environment<'_>) -> Option<ThreadId> {
    let cutoff: Timestamp = env.now.saturating_sub(idle);
    let has_open_run =
        |thread_data: &ThreadData| thread_data.runs.iter().any(|run| !matches!(run.status, RunStatus::Done(_)));
    let is_prunable = |thread_data: &&ThreadData| {
        thread_data.last_time.max(thread_data.thread.updated_at) < cutoff
            && (!has_open_run(thread_data) || env.bug == Some(Bug::PruneTakesOpenRuns))
            && (thread_data.queue.is_empty() || env.bug == Some(Bug::PruneTakesPending))
            && (tenant.children(&thread_data.thread.id).is_empty() || env.bug == Some(Bug::PruneTakesParents))
    };
    tenant.threads.values().find(is_prunable).map(|thread_data| thread_data.thread.id.clone())
}

#[async_trait]
impl ThreadAdmin for TenantHandle {
    async fn create_thread(&self, mut thread: NewThread) -> Result<Thread> {
        // Only the planted bug `CaseFolded` changes the id.
        thread.id = self.lookup_id(&thread.id)?;
        self.write(|tenant, env| create(tenant, thread, &env))
    }

    async fn update_thread(&self, id: &ThreadId, patch: ThreadPatch, expect: Expect) -> Result<Thread> {
        self.write(|tenant, env| update(tenant, id, &patch, (expect, &env)))
    }

    async fn delete_thread(&self, id: &ThreadId, request: DeleteRequest) -> Result<Deletion> {
        if self.shared.bug == Some(Bug::DetachBeforeDeletion) && request.children == ChildStrategy::Detach {
            self.write(|tenant, _| {
                let threads = tenant.threads.values_mut().map(|thread_data| &mut thread_data.thread);
                threads
                    .filter(|thread| thread.parent_thread_id.as_ref() == Some(id))
                    .for_each(|thread| thread.parent_thread_id = None);
                Ok(())
            })?;
            yield_to_others().await;
        }
        let deletion = self.write(|tenant, env| delete(tenant, id, request, &env))?;
        if self.shared.bug == Some(Bug::DeletionFoldsCase) {
            for other in
                self.tenants_mistaken_for_this_one(|name| name.to_lowercase() == self.tenant.as_str().to_lowercase())
            {
                other.write(|tenant, _| {
                    deletion.deleted.iter().for_each(|thread| drop(tenant.threads.remove(thread)));
                    Ok(())
                })?;
            }
        }
        Ok(deletion)
    }

    async fn prune_threads(&self, request: PruneRequest) -> Result<Pruned> {
        self.write(|tenant, env| prune(tenant, request, &env))
    }

    async fn purge_deleted(&self, _progress: &dyn Progress) -> Result<u64> {
        self.write(|_, _| Ok(0))
    }

    async fn reset_fence(&self, id: &ThreadId) -> Result<()> {
        self.write(|tenant, env| {
            let keeps_fence = env.bug == Some(Bug::FenceKept);
            if let Some(id_history) = tenant.id_histories.get_mut(id).filter(|_| !keeps_fence) {
                id_history.highest_claim = None;
            }
            Ok(())
        })
    }
}
