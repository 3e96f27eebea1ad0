//! Creating, changing, deleting and pruning threads (TH).

use std::{collections::BTreeSet, time::Duration};

use async_trait::async_trait;
use store_core::{
    ChildStrategy, DeleteRequest, Deletion, Detail, Error, Expect, NewThread, Progress, PruneRequest, Pruned, Result,
    RunStatus, Thread, ThreadAdmin, ThreadFields, ThreadId, ThreadPatch, Timestamp, Version, check_limit,
};

use super::{
    bug::Bug,
    commit::{Setting, check_fence, new_slot},
    handle::{Handle, yield_to_others},
    mailbox, shape,
    world::{Slot, Tenant},
};

/// How long a deleted id is remembered (TH-25).
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Creates a thread.
pub(super) fn create(tenant: &mut Tenant, new: NewThread, setting: &Setting<'_>) -> Result<Thread> {
    shape::check_fields(&new.fields, setting.limits)?;
    if new.at.is_some_and(|at| at > setting.now) {
        return Err(Error::invalid("at", "it lies after store time"));
    }
    if tenant.threads.contains_key(&new.id) {
        return Err(Error::already_exists("thread", &new.id));
    }
    if let Some(parent) = &new.fields.parent_thread_id {
        check_parent(tenant, &new.id, parent, setting.bug)?;
    }
    let mut memory = tenant.ids.get(&new.id).cloned().unwrap_or_default();
    let at = new.at.unwrap_or(setting.now);
    let slot = new_slot(&new.id, new.fields, &memory, (at, setting))?;
    memory.generation = slot.thread.generation();
    memory.deleted_at = None;
    tenant.ids.insert(new.id.clone(), memory);
    let thread = slot.view(setting.bug);
    tenant.put(slot);
    Ok(thread)
}

/// Refuses a `parent` that may not be the parent of `thread` (TH-10, TH-11).
pub(super) fn check_parent(tenant: &Tenant, thread: &ThreadId, parent: &ThreadId, bug: Option<Bug>) -> Result<()> {
    if bug == Some(Bug::ParentUnchecked) {
        return Ok(());
    }
    if parent != thread && !tenant.threads.contains_key(parent) {
        return Err(Error::not_found("parent thread", parent));
    }
    if tenant.family(thread).contains(parent) && bug != Some(Bug::CyclesAllowed) {
        return Err(Error::invalid("parent_thread_id", "the thread would be its own ancestor"));
    }
    Ok(())
}

/// Changes the fields of a thread.
pub(super) fn update(
    tenant: &mut Tenant,
    id: &ThreadId,
    patch: &ThreadPatch,
    with: (Expect, &Setting<'_>),
) -> Result<Thread> {
    let (expect, setting) = with;
    let mut slot = tenant.threads.get(id).cloned().ok_or_else(|| Error::not_found("thread", id))?;
    let mut memory = tenant.ids.get(id).cloned().unwrap_or_default();
    mailbox::check_fence(&tenant.mail, id, patch.fence.as_ref(), setting.bug)?;
    check_fence(&mut memory, patch.fence.as_ref(), setting.bug)?;
    check_revision(expect, slot.thread.revision)?;
    let fields = patched(&slot.thread, patch, setting.bug);
    shape::check_fields(&fields, setting.limits)?;
    if let Some(Some(parent)) = &patch.parent_thread_id {
        check_parent(tenant, id, parent, setting.bug)?;
    }
    tenant.ids.insert(id.clone(), memory);
    if fields == own_fields(&slot.thread) && setting.bug != Some(Bug::UnchangedCounts) {
        return Ok(slot.view(setting.bug));
    }
    slot.thread.resource_id = fields.resource_id;
    slot.thread.parent_thread_id = fields.parent_thread_id;
    slot.thread.title = fields.title;
    slot.thread.metadata = fields.metadata;
    changed(&mut slot, setting);
    let thread = slot.view(setting.bug);
    tenant.put(slot);
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

fn own_fields(thread: &Thread) -> ThreadFields {
    let mut fields = ThreadFields::default();
    fields.resource_id.clone_from(&thread.resource_id);
    fields.parent_thread_id.clone_from(&thread.parent_thread_id);
    fields.title.clone_from(&thread.title);
    fields.metadata.clone_from(&thread.metadata);
    fields
}

fn patched(thread: &Thread, patch: &ThreadPatch, bug: Option<Bug>) -> ThreadFields {
    let mut fields = own_fields(thread);
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

/// Raises the revision of a thread after a change of its fields, and sets its times (TH-5).
fn changed(slot: &mut Slot, setting: &Setting<'_>) {
    slot.last_time = slot.last_time.max(setting.now);
    slot.thread.revision = slot.thread.revision.plus(1);
    slot.thread.updated_at = slot.thread.updated_at.max(slot.last_time);
    if setting.bug == Some(Bug::TimeGoesBack) {
        slot.thread.updated_at = setting.now;
    }
}

/// Deletes a thread (TH-17 to TH-22).
pub(super) fn delete(
    tenant: &mut Tenant,
    id: &ThreadId,
    request: DeleteRequest,
    setting: &Setting<'_>,
) -> Result<Deletion> {
    let slot = tenant.threads.get(id).ok_or_else(|| Error::not_found("thread", id))?;
    let version = slot.view(None).version;
    match request.expect {
        Expect::Any => {}
        Expect::Version(expected) if expected == version => {}
        Expect::Version(expected) => return Err(Error::conflict("version", Some(expected), Some(version))),
        Expect::Absent => return Err(Error::conflict("version", None, Some(version))),
    }
    let children = tenant.children(id);
    let only = BTreeSet::from([id.clone()]);
    let (deleted, detached) = match request.children {
        ChildStrategy::Reject if !children.is_empty() && setting.bug != Some(Bug::ChildrenIgnored) => {
            return Err(Error::new(Detail::HasChildren { count: children.len() as u64 }));
        }
        ChildStrategy::Reject => (only, Vec::new()),
        ChildStrategy::Detach => (only, children),
        ChildStrategy::Cascade if setting.bug == Some(Bug::CascadeStopsEarly) => {
            (children.into_iter().chain(only).collect(), Vec::new())
        }
        ChildStrategy::Cascade => (tenant.family(id), Vec::new()),
    };
    check_limit("threads changed", (deleted.len() + detached.len()) as u64, setting.limits.deletion_threads)?;
    for id in &deleted {
        remove(tenant, id, setting);
    }
    for id in &detached {
        let Some(mut child) = tenant.threads.get(id).cloned() else { continue };
        if setting.bug == Some(Bug::DetachForgotten) {
            continue;
        }
        child.thread.parent_thread_id = None;
        changed(&mut child, setting);
        tenant.put(child);
    }
    Ok(Deletion::new(deleted.into_iter().collect(), detached))
}

fn remove(tenant: &mut Tenant, id: &ThreadId, setting: &Setting<'_>) {
    let slot = tenant.threads.remove(id);
    let memory = tenant.ids.entry(id.clone()).or_default();
    memory.deleted_at = Some(slot.as_ref().map_or(setting.now, |slot| setting.now.max(slot.last_time)));
    memory.remains = slot.filter(|_| setting.bug == Some(Bug::OldLogReturns)).map(|slot| slot.entries);
    if setting.bug == Some(Bug::DeletionForgetsTheId) {
        tenant.ids.remove(id);
    }
}

/// Deletes the threads to which nothing was written for the given time (TH-26 to TH-28), children before their parents.
/// Also forgets the ids of threads that were deleted long ago (TH-25).
pub(super) fn prune(tenant: &mut Tenant, request: PruneRequest, setting: &Setting<'_>) -> Result<Pruned> {
    if !(1..=1_000).contains(&request.limit) {
        return Err(Error::invalid("limit", "it must be from 1 to 1000"));
    }
    let mut rest = tenant.clone();
    let mut pruned = Vec::new();
    let mut more = false;
    while let Some(id) = idle_thread(&rest, request.idle, setting) {
        if pruned.len() as u64 == u64::from(request.limit) {
            more = true;
            break;
        }
        remove(&mut rest, &id, setting);
        pruned.push(id);
    }
    if !request.dry_run {
        let floor = setting.now.saturating_sub(REMEMBERED);
        rest.ids.retain(|_, memory| memory.deleted_at.is_none_or(|at| at >= floor));
        *tenant = rest;
    }
    Ok(Pruned::new(pruned, more))
}

fn idle_thread(tenant: &Tenant, idle: Duration, setting: &Setting<'_>) -> Option<ThreadId> {
    let floor: Timestamp = setting.now.saturating_sub(idle);
    let is_open = |slot: &Slot| slot.runs.iter().any(|run| !matches!(run.status, RunStatus::Done(_)));
    let goes = |slot: &&Slot| {
        slot.last_time.max(slot.thread.updated_at) < floor
            && (!is_open(slot) || setting.bug == Some(Bug::PruneTakesOpenRuns))
            && (slot.queue.is_empty() || setting.bug == Some(Bug::PruneTakesPending))
            && (tenant.children(&slot.thread.id).is_empty() || setting.bug == Some(Bug::PruneTakesParents))
    };
    tenant.threads.values().find(goes).map(|slot| slot.thread.id.clone())
}

#[async_trait]
impl ThreadAdmin for Handle {
    async fn create_thread(&self, mut thread: NewThread) -> Result<Thread> {
        thread.id = self.key(&thread.id)?;
        self.write(|tenant, setting| create(tenant, thread, &setting))
    }

    async fn update_thread(&self, id: &ThreadId, patch: ThreadPatch, expect: Expect) -> Result<Thread> {
        self.write(|tenant, setting| update(tenant, id, &patch, (expect, &setting)))
    }

    async fn delete_thread(&self, id: &ThreadId, request: DeleteRequest) -> Result<Deletion> {
        if self.shared.bug == Some(Bug::DetachBeforeDeletion) && request.children == ChildStrategy::Detach {
            self.write(|tenant, _| {
                let slots = tenant.threads.values_mut().map(|slot| &mut slot.thread);
                slots.filter(|t| t.parent_thread_id.as_ref() == Some(id)).for_each(|t| t.parent_thread_id = None);
                Ok(())
            })?;
            yield_to_others().await;
        }
        let deletion = self.write(|tenant, setting| delete(tenant, id, request, &setting))?;
        if self.shared.bug == Some(Bug::DeletionFoldsCase) {
            for other in self.mistaken(|name| name.to_lowercase() == self.tenant.as_str().to_lowercase()) {
                other.write(|tenant, _| {
                    deletion.deleted.iter().for_each(|thread| drop(tenant.threads.remove(thread)));
                    Ok(())
                })?;
            }
        }
        Ok(deletion)
    }

    async fn prune_threads(&self, request: PruneRequest) -> Result<Pruned> {
        self.write(|tenant, setting| prune(tenant, request, &setting))
    }

    async fn purge_deleted(&self, _progress: &dyn Progress) -> Result<u64> {
        self.write(|_, _| Ok(0))
    }

    async fn reset_fence(&self, id: &ThreadId) -> Result<()> {
        self.write(|tenant, setting| {
            let is_kept = setting.bug == Some(Bug::FenceKept);
            if let Some(memory) = tenant.ids.get_mut(id).filter(|_| !is_kept) {
                memory.fence = None;
            }
            Ok(())
        })
    }
}
