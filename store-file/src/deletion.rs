//! Facts about several threads: deletion, pruning, remembered ids, tenants that are removed.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard},
};

use store_core::{
    ClaimNumber, DeleteRequest, Deletion, Error, Outcome, PruneRequest, Pruned, Result, TenantId, ThreadId,
    ThreadListKey, ThreadOrder, Timestamp,
    codec::Codec,
    length,
    thread::{self, DeletionSet, PruneSelection, StoredThread, ThreadIdRecord},
};

use crate::{
    codec::{Rows, ThreadRow, read},
    dispatches::MailboxRows,
    error,
    fold::{self, Owner, Told},
    index::{Direction, Key},
    line::{Fact, Named},
    log::AppendError,
    purge,
    root::RootLog,
    shared::{Loaded, LogKey, Part, Shared, Slot, TenantState, ThreadKey, guard},
    staged::Staged,
    table,
};

/// How many threads a step removes from the index.
const STEP: usize = 1_000;

/// Writes a fact to the root log and shows what it changes.
pub(crate) fn record(shared: &Shared, fact: &Fact, staged: Staged<'_>) -> Result<()> {
    let mut staged = staged;
    let mut root = guard(&shared.root);
    let path = RootLog::path()?;
    let line = fact.encode();
    shared.make_room(length(line.len())).map_err(|source| error::io(&path, source))?;
    let end = match root.append(&*shared.vfs, &line) {
        // A quota may be full where the disk has space.
        Err(AppendError::Full(_)) if shared.use_reserve() => root.append(&*shared.vfs, &line),
        first => first,
    };
    let end = end.map_err(|failed| shared.append_failed(failed, &path))?;
    staged.put(table::fact("root"), encode_position(end));
    // The fact is in the log: whatever happens now, the next opening shows it.
    shared.show(staged).map_err(|error| Error::commit_unknown(None).with_source(error))
}

/// A position as a value of the index.
pub(crate) fn encode_position(position: crate::log::Position) -> Vec<u8> {
    [position.offset.to_be_bytes().as_slice(), position.crc.to_be_bytes().as_slice()].concat()
}

/// Remembers the highest claim number of an id that has no thread (CM-32). The slot of the thread is held.
pub(crate) fn remember_fence(shared: &Shared, key: &LogKey, fence: Option<ClaimNumber>, told: &mut Told) -> Result<()> {
    if told.id.fence == fence {
        return Ok(());
    }
    let (tenant, thread, _) = key.clone();
    let mut id = told.id.clone();
    id.fence = fence;
    let mut staged = Staged::new(&shared.index);
    staged.put(table::id(&tenant, &thread), id.encode());
    record(shared, &Fact::Fence { tenant, thread, fence }, staged)?;
    told.id = id;
    Ok(())
}

/// Deletes a thread, and its descendants or the parent of its children, in one step (TH-17 to TH-20).
pub(crate) fn delete(shared: &Shared, key: &ThreadKey, request: DeleteRequest) -> Result<Deletion> {
    shared.check_writable()?;
    let family = shared.family(&key.0);
    let _family = guard(&family);
    let mut threads = DeletionSet::begin(key.1.clone(), children(shared, &key.0, &key.1)?, request.children);
    while let Some(thread) = threads.next_to_expand(shared.limits.deletion_threads) {
        threads.add_children(children(shared, &key.0, &thread)?);
    }
    let held = Slots::take(shared, &key.0, threads.all());
    let mut slots = held.lock();
    let row = shared.known_thread(&key.0, &key.1)?;
    let stored = row.map(|row| crate::view::stamp(row.stored, shared.meta.incarnation()));
    threads.check(&key.1, stored.as_ref(), request, &shared.limits)?;
    apply(shared, &key.0, (threads.deleted(), threads.detached()), &mut slots)?;
    Ok(Deletion::from(threads))
}

/// The slots of several threads, locked in the order of their ids.
struct Slots {
    slots: Vec<Arc<Slot>>,
}

impl Slots {
    fn take<'a>(shared: &Shared, tenant: &TenantId, threads: impl Iterator<Item = &'a ThreadId>) -> Self {
        let mut threads: Vec<_> = threads.collect();
        threads.sort();
        threads.dedup();
        Self {
            slots: threads
                .into_iter()
                .map(|thread| shared.slot(&(tenant.clone(), thread.clone(), Part::Thread)))
                .collect(),
        }
    }

    fn lock(&self) -> Vec<MutexGuard<'_, Option<Loaded>>> {
        self.slots.iter().map(|slot: &Arc<Mutex<Option<Loaded>>>| guard(slot)).collect()
    }
}

/// Writes a deletion. The family is held, so that no thread gets or loses a parent meanwhile.
fn apply(
    shared: &Shared,
    tenant: &TenantId,
    threads: (&[ThreadId], &[ThreadId]),
    slots: &mut [MutexGuard<'_, Option<Loaded>>],
) -> Result<()> {
    let now = shared.time.now();
    let mut staged = Staged::new(&shared.index);
    let mut fact = (Vec::new(), Vec::new());
    for id in threads.0 {
        if let Some(row) = shared.index.thread_row(tenant, id)? {
            // Its events live on in its log: with relaxed durability they must not go with a power cut behind the fact.
            shared.settle_named(&(tenant.clone(), id.clone()), row.stored.thread.generation())?;
            let fence = shared.index.id_record(tenant, id, Some(&row.stored))?.fence;
            fact.0.push(named(id, &row.stored, fence));
            remove(&mut staged, tenant, (&row, now))?;
        }
    }
    for id in threads.1 {
        if let Some(row) = shared.index.thread_row(tenant, id)? {
            let detached = thread::detach(row.stored.clone(), now);
            fact.1.push(named(id, &detached, None));
            let generation = detached.thread.generation();
            let owner = Owner { tenant: tenant.clone(), thread: id.clone(), generation, log: row.log };
            fold::put_thread(&mut staged, &owner, Some(&row.stored), &detached);
        }
    }
    let fact = Fact::Delete { tenant: tenant.clone(), deleted: fact.0, detached: fact.1, at: now };
    slots.iter_mut().for_each(|slot| **slot = None);
    record(shared, &fact, staged)
}

fn named(id: &ThreadId, stored: &StoredThread, fence: Option<ClaimNumber>) -> Named {
    let thread = &stored.thread;
    Named { thread: id.clone(), generation: thread.generation(), revision: thread.revision.number(), fence }
}

/// Takes a thread out of the index; what its log left there waits for the purge.
pub(crate) fn remove(staged: &mut Staged<'_>, tenant: &TenantId, what: (&ThreadRow, Timestamp)) -> Result<()> {
    let (row, now) = what;
    let thread = &row.stored.thread;
    let log_row = staged.log_row(row.log)?.ok_or_else(|| crate::codec::damaged("log"))?;
    let id = staged.id_record(tenant, &thread.id, Some(&row.stored))?;
    fold::remove_thread(staged, tenant, &row.stored);
    staged.put(table::id(tenant, &thread.id), thread::id_record_after_deletion(&id, &row.stored, now).encode());
    staged.delete(table::log(row.log));
    staged.delete(table::changed(row.log));
    staged.put(table::purge(row.log), log_row.encode());
    Ok(())
}

/// The direct children of a thread.
fn children(shared: &Shared, tenant: &TenantId, parent: &ThreadId) -> Result<Vec<ThreadId>> {
    let list = table::thread_list(tenant, ThreadListKey::Of(parent), ThreadOrder::Creation);
    let snapshot = shared.index.snapshot();
    let mut children = Vec::new();
    for pair in snapshot.prefix(list.as_bytes(), Direction::Forward) {
        let (key, _) = pair?;
        let (_, id) = table::read_place(&list, &key).ok_or_else(|| crate::codec::damaged("thread list"))?;
        children.push(ThreadId::new(id)?);
    }
    Ok(children)
}

/// Deletes threads that nobody wrote for a while, and forgets ids that need not be remembered (TH-25 to TH-28).
pub(crate) fn prune(shared: &Shared, tenant: &TenantId, request: PruneRequest) -> Result<Pruned> {
    shared.check_writable()?;
    let now = shared.time.now();
    let mut choice = PruneSelection::new(request, now)?;
    choose(shared, tenant, &mut choice)?;
    if request.dry_run {
        return Ok(choice.pruned(choice.chosen().to_vec()));
    }
    purge::what_can_be(shared, Some(tenant))?;
    let mut pruned = Vec::new();
    for id in choice.chosen() {
        match prune_one(shared, tenant, id, &choice) {
            Ok(true) => pruned.push(id.clone()),
            Ok(false) => {}
            Err(error) => return Err(if pruned.is_empty() { error } else { begun(error) }),
        }
    }
    forget(shared, tenant, now).map_err(|error| if pruned.is_empty() { error } else { begun(error) })?;
    Ok(choice.pruned(pruned))
}

fn choose(shared: &Shared, tenant: &TenantId, choice: &mut PruneSelection) -> Result<()> {
    let list = table::thread_list(tenant, ThreadListKey::All, ThreadOrder::LastActivity);
    let (snapshot, until) = (shared.index.snapshot(), choice.idle_before().as_millis());
    let stored = |id: &ThreadId| Ok::<_, Error>(shared.index.thread_row(tenant, id)?.map(|row| row.stored));
    for pair in snapshot.prefix(list.as_bytes(), Direction::Forward) {
        let (key, _) = pair?;
        let (time, id) = table::read_place(&list, &key).ok_or_else(|| crate::codec::damaged("thread list"))?;
        if time >= until || choice.is_full() {
            break;
        }
        let id = ThreadId::new(id)?;
        let mut next = if children(shared, tenant, &id)?.is_empty() { stored(&id)? } else { None };
        while let Some(thread) = next.take() {
            let Some(parent) = choice.offer(&thread) else { break };
            let count =
                if choice.has_child_count(&parent) { 0 } else { length(children(shared, tenant, &parent)?.len()) };
            if choice.count_chosen_child(&parent, count) {
                next = stored(&parent)?;
            }
        }
    }
    Ok(())
}

/// Deletes a thread if it is still to be pruned (TH-27).
fn prune_one(shared: &Shared, tenant: &TenantId, id: &ThreadId, choice: &PruneSelection) -> Result<bool> {
    let family = shared.family(tenant);
    let _family = guard(&family);
    let held = Slots::take(shared, tenant, std::iter::once(id));
    let mut slots = held.lock();
    let Some(row) = shared.index.thread_row(tenant, id)? else { return Ok(false) };
    if !choice.is_unused(&row.stored) || !children(shared, tenant, id)?.is_empty() {
        return Ok(false);
    }
    apply(shared, tenant, (std::slice::from_ref(id), &[]), &mut slots)?;
    Ok(true)
}

/// Forgets deleted ids that are old enough (TH-25), and the claim numbers with them.
fn forget(shared: &Shared, tenant: &TenantId, now: Timestamp) -> Result<()> {
    let snapshot = shared.index.snapshot();
    let mut threads = Vec::new();
    for pair in snapshot.prefix(table::ids(tenant).as_bytes(), Direction::Forward) {
        let (key, value) = pair?;
        let id: ThreadIdRecord = read("thread id", &value)?;
        if thread::can_be_forgotten(&id, now) {
            let (_, thread) = table::read_id(&key).ok_or_else(|| crate::codec::damaged("thread id"))?;
            threads.push(ThreadId::new(thread)?);
        }
    }
    drop(snapshot);
    if !threads.is_empty() {
        // Behind the fact nobody knows that they are gone: an index that lags behind must not bring them back.
        shared.index.persist()?;
    }
    for batch in threads.chunks(STEP) {
        let held = Slots::take(shared, tenant, batch.iter());
        let mut slots = held.lock();
        let mut staged = Staged::new(&shared.index);
        let mut gone = Vec::new();
        for thread in batch {
            // Nobody may have made it anew meanwhile.
            if shared.index.thread_row(tenant, thread)?.is_none() {
                staged.delete(table::id(tenant, thread));
                gone.push(thread.clone());
            }
        }
        slots.iter_mut().for_each(|slot| **slot = None);
        record(shared, &Fact::Forget { tenant: tenant.clone(), threads: gone }, staged)?;
    }
    Ok(())
}

/// Removes a closed tenant: its threads and what is remembered of its ids, in bounded steps (TN-8).
pub(crate) fn drop_tenant(shared: &Shared, tenant: &TenantId, state: &TenantState) -> Result<()> {
    // Who began to write before the tenant was closed has ended when this lock is had.
    drop(shared.writing.write());
    let mut staged = Staged::new(&shared.index);
    // A tenant of this name that is made anew claims above what was claimed so far.
    let claims = claims(shared, &staged, tenant).inspect_err(|_| state.reopen())?;
    if let Some(claims) = claims {
        staged.put(table::fact("claims"), claims.to_be_bytes());
    }
    let fact = Fact::DropTenant { tenant: tenant.clone(), claims };
    staged.put(table::dropping(tenant), []);
    record(shared, &fact, staged).inspect_err(|_| state.reopen())?;
    state.end_waits();
    finish_drop(shared, tenant).map_err(begun)
}

/// What claim numbers of removed tenants begin with at most, with those of this one.
fn claims(shared: &Shared, staged: &Staged<'_>, tenant: &TenantId) -> Result<Option<u64>> {
    let own = staged.number(&table::mailbox_made(tenant))?.map(|made| made + shared.meta.incarnation());
    Ok(own.max(staged.number(&table::fact("claims"))?))
}

/// Takes all events of a tenant, its outbox and its mailbox out of the index. Their logs wait for the purge.
fn drop_events(shared: &Shared, tenant: &TenantId) -> Result<()> {
    let outbox = crate::outbox::log_id()?;
    loop {
        let snapshot = shared.index.snapshot();
        let mut staged = Staged::new(&shared.index);
        let (mut keys, mut slots) = (0, Vec::new());
        for pair in snapshot.prefix(table::event_logs(tenant).as_bytes(), Direction::Forward).take(STEP) {
            let (key, value) = pair?;
            let log = table::last_number(&value).ok_or_else(|| crate::codec::damaged("log of events"))?;
            let (_, id) = table::read_event_log(&key).ok_or_else(|| crate::codec::damaged("log of events"))?;
            let id = ThreadId::new(id)?;
            slots.push((id == outbox, shared.slot(&(tenant.clone(), id, Part::Events))));
            if let Some(row) = staged.log_row(log)? {
                staged.delete(table::log(log));
                staged.put(table::purge(log), row.encode());
            }
            staged.delete(Key::from_bytes(&key));
            keys += 1;
        }
        let others = table::outbox_of(tenant).into_iter().chain(table::mailbox_of(tenant));
        for list in table::events_of(tenant).into_iter().chain(others) {
            for pair in snapshot.prefix(list.as_bytes(), Direction::Forward).take(STEP) {
                staged.delete(Key::from_bytes(&pair?.0));
                keys += 1;
            }
        }
        if keys == 0 {
            return Ok(());
        }
        // Held until nobody finds the logs any more; that of the outbox is taken behind others, as verify does it.
        slots.sort_by_key(|(is_outbox, _)| *is_outbox);
        let mut loaded: Vec<_> = slots.iter().map(|(_, slot): &(bool, Arc<Slot>)| guard(slot)).collect();
        loaded.iter_mut().for_each(|slot| **slot = None);
        shared.index.apply(staged.into_changes())?;
    }
}

/// The error of a call that is done in part: the rest is done by calling it again, or by the next opening.
fn begun(error: Error) -> Error {
    match error.outcome() {
        Outcome::NotApplied => Error::commit_unknown(None).with_source(error),
        Outcome::Unknown => error,
    }
}

/// Goes on with the removal of a tenant.
pub(crate) fn finish_drop(shared: &Shared, tenant: &TenantId) -> Result<()> {
    loop {
        let snapshot = shared.index.snapshot();
        let mut staged = Staged::new(&shared.index);
        let mut threads = BTreeMap::new();
        for pair in snapshot.prefix(table::threads(tenant).as_bytes(), Direction::Forward).take(STEP) {
            let row: ThreadRow = read("thread", &pair?.1)?;
            threads.insert(row.stored.thread.id.clone(), row);
        }
        let held = Slots::take(shared, tenant, threads.keys());
        let mut slots = held.lock();
        for row in threads.values() {
            remove(&mut staged, tenant, (row, Timestamp::MIN))?;
        }
        slots.iter_mut().for_each(|slot| **slot = None);
        shared.index.apply(staged.into_changes())?;
        if threads.is_empty() {
            break;
        }
    }
    drop_events(shared, tenant)?;
    purge::all(shared, Some(tenant))?;
    shared.remove_folder(tenant)?;
    shared.forget_slots(tenant);
    let mut staged = Staged::new(&shared.index);
    staged.delete_all(&table::ids(tenant))?;
    shared.index.apply(staged.into_changes())?;
    // Behind the next fact nobody removes what an index that lags behind may still say of the tenant.
    shared.index.persist()?;
    let mut staged = Staged::new(&shared.index);
    staged.delete(table::dropping(tenant));
    record(shared, &Fact::TenantGone { tenant: tenant.clone() }, staged)
}
