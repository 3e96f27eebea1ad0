//! What a thread's own record changes in the index: its row, and its places in lists.

use std::collections::BTreeSet;

use store_core::{
    Limits, NewThread, Result, TenantId, ThreadListKey, ThreadOrder, Timestamp,
    thread::{StoredThread, ThreadIdRecord, create},
};

use super::Owner;
use crate::{
    codec::ThreadRow,
    index::Key,
    line::{RestoredLine, ThreadLine},
    staged::Staged,
    table,
};

/// A new thread. What its record does not say is as it is for any new thread.
pub(super) fn made(owner: &Owner, line: &ThreadLine, time: Timestamp) -> Result<StoredThread> {
    let before = ThreadIdRecord { generation: owner.generation.saturating_sub(1), ..ThreadIdRecord::default() };
    let new = NewThread::new(owner.thread.clone());
    let mut stored = create(None, &before, &new, &Limits::default(), (line.created_at, 0))?;
    stored.last_time = time;
    change(&mut stored, line);
    Ok(stored)
}

/// The parent comes from the change of the highest revision: one that detaches a thread stands in the root log.
pub(super) fn change(stored: &mut StoredThread, line: &ThreadLine) {
    let thread = &mut stored.thread;
    thread.resource_id.clone_from(&line.resource_id);
    thread.title.clone_from(&line.title);
    thread.metadata.clone_from(&line.metadata);
    thread.created_at = line.created_at;
    thread.extra.clone_from(&line.extra);
    if line.revision >= thread.revision.number() {
        let steps = line.revision - thread.revision.number();
        thread.revision = thread.revision.plus(steps);
        thread.parent_thread_id.clone_from(&line.parent_thread_id);
    }
}

/// What a restore says of a thread, besides its own fields and what its entries lead to.
pub(super) fn restore(stored: &mut StoredThread, line: &RestoredLine) {
    let thread = &mut stored.thread;
    thread.latest_run.clone_from(&line.latest_run);
    thread.open_runs.clone_from(&line.open_runs);
    thread.state_revision = line.state_revision;
    (stored.state_keys, stored.state_bytes) = (line.state_keys, line.state_bytes);
    stored.queue.clone_from(&line.queue);
}

/// A thread that lost its parent by a fact of the root log, if nothing newer is known.
pub(crate) fn detach(stored: &mut StoredThread, revision: u64, at: Timestamp) -> bool {
    let thread = &mut stored.thread;
    if revision <= thread.revision.number() {
        return false;
    }
    thread.parent_thread_id = None;
    thread.revision = thread.revision.plus(revision - thread.revision.number());
    thread.updated_at = thread.updated_at.max(at);
    stored.last_time = stored.last_time.max(at);
    true
}

/// Writes a thread, and moves its places in lists.
pub(crate) fn put_thread(staged: &mut Staged<'_>, owner: &Owner, before: Option<&StoredThread>, stored: &StoredThread) {
    staged.touch(owner.log);
    let old = before.map(|before| places(&owner.tenant, before)).unwrap_or_default();
    let new = places(&owner.tenant, stored);
    for place in old.difference(&new) {
        staged.delete(Key::from_bytes(place));
    }
    for place in new.difference(&old) {
        staged.put(Key::from_bytes(place), []);
    }
    let row = ThreadRow { log: owner.log, stored: stored.clone() };
    staged.put_row(table::thread(&owner.tenant, &owner.thread), row);
}

/// Removes a thread and its places; what its log left in the index stays for the purge.
pub(crate) fn remove_thread(staged: &mut Staged<'_>, tenant: &TenantId, stored: &StoredThread) {
    for place in places(tenant, stored) {
        staged.delete(Key::from_bytes(&place));
    }
    staged.delete(table::thread(tenant, &stored.thread.id));
}

/// The places of a thread in lists.
pub(crate) fn places(tenant: &TenantId, stored: &StoredThread) -> BTreeSet<Vec<u8>> {
    let thread = &stored.thread;
    let orders = [(ThreadOrder::LastActivity, thread.updated_at), (ThreadOrder::Creation, thread.created_at)];
    let place = |scope, order, time| table::place(table::thread_list(tenant, scope, order), time, thread.id.as_str());
    let pending =
        (stored.queue.count > 0).then(|| table::pending_threads(tenant).text(thread.id.as_str()).into_bytes());
    let listed =
        ThreadListKey::of(thread).flat_map(|scope| orders.map(|(order, time)| place(scope, order, time).into_bytes()));
    listed.chain(pending).collect()
}
