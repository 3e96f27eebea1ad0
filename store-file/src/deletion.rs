//! Facts about several threads: deletion, pruning, remembered ids, tenants that are removed.

use store_core::{
    ClaimNumber, DeleteRequest, Deletion, Error, Outcome, PruneRequest, Pruned, Result, TenantId, ThreadId,
    ThreadListKey, ThreadOrder, Timestamp,
    codec::Codec,
    length,
    thread::{self, DeletionSet, PruneSelection, StoredThread, ThreadIdRecord},
};

use crate::{
    codec::{Rows, ThreadRow, read},
    dispatch_rows::MailboxRows,
    facts::remove,
    fold::{self, Owner},
    index::{Direction, Key},
    line::{Fact, Named},
    names::{LogKey, Part, ThreadKey, outbox_log_id},
    object_files, purge, records,
    shared::{Shared, TenantState},
    staged::Staged,
    table,
    writer::{How, Round, alone},
};

/// How many threads a step removes from the index.
const STEP: usize = 1_000;

/// Deletes a thread, and its descendants or the parent of its children, in one step (TH-17 to TH-20).
pub(crate) fn delete(shared: &Shared, key: &ThreadKey, request: DeleteRequest) -> Result<Deletion> {
    shared.check_writable()?;
    alone(shared, key_of(&key.0, &key.1), How::Frees, |round| {
        let mut threads = DeletionSet::begin(key.1.clone(), children(shared, &key.0, &key.1)?, request.children);
        while let Some(thread) = threads.next_to_expand(shared.limits.deletion_threads) {
            threads.add_children(children(shared, &key.0, &thread)?);
        }
        let row = shared.known_thread(&round.staged, &key.0, &key.1)?;
        let stored = row.map(|row| records::stamp(row.stored, shared.meta.incarnation()));
        threads.check(&key.1, stored.as_ref(), request, &shared.limits)?;
        apply(round, &key.0, (threads.deleted(), threads.detached()))?;
        Ok(Deletion::from(threads))
    })
}

/// The log of a thread.
fn key_of(tenant: &TenantId, thread: &ThreadId) -> LogKey {
    (tenant.clone(), thread.clone(), Part::Thread)
}

/// Plans a deletion.
fn apply(round: &mut Round<'_>, tenant: &TenantId, threads: (&[ThreadId], &[ThreadId])) -> Result<()> {
    let now = round.shared.time.now();
    let mut fact = (Vec::new(), Vec::new());
    for id in threads.0 {
        if let Some(row) = round.staged.thread_row(tenant, id)? {
            let fence = round.staged.id_record(tenant, id, Some(&row.stored))?.fence;
            fact.0.push(named(id, &row.stored, fence));
            remove(&mut round.staged, tenant, (&row, now))?;
            round.forget(&key_of(tenant, id));
        }
    }
    for id in threads.1 {
        if let Some(row) = round.staged.thread_row(tenant, id)? {
            let detached = thread::detach(row.stored.clone(), now);
            fact.1.push(named(id, &detached, None));
            let generation = detached.thread.generation();
            let owner = Owner { tenant: tenant.clone(), thread: id.clone(), generation, log: row.log };
            fold::put_thread(&mut round.staged, &owner, Some(&row.stored), &detached);
            round.forget(&key_of(tenant, id));
        }
    }
    round.fact(&Fact::Delete { tenant: tenant.clone(), deleted: fact.0, detached: fact.1, at: now })
}

fn named(id: &ThreadId, stored: &StoredThread, fence: Option<ClaimNumber>) -> Named {
    let thread = &stored.thread;
    Named { thread: id.clone(), generation: thread.generation(), revision: thread.revision.number(), fence }
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

/// Deletes threads that were not written for a while, and forgets ids that need not be remembered (TH-25 to TH-28).
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
    alone(shared, key_of(tenant, id), How::Frees, |round| {
        let Some(row) = round.staged.thread_row(tenant, id)? else { return Ok(false) };
        if !choice.is_unused(&row.stored) || !children(shared, tenant, id)?.is_empty() {
            return Ok(false);
        }
        apply(round, tenant, (std::slice::from_ref(id), &[]))?;
        Ok(true)
    })
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
        // After this fact the root log no longer says that the threads were deleted. So the index is made durable
        // first: an older index could show the threads again.
        shared.index.persist()?;
    }
    for batch in threads.chunks(STEP) {
        let Some(first) = batch.first() else { continue };
        alone(shared, key_of(tenant, first), How::Frees, |round| {
            let mut gone = Vec::new();
            for thread in batch {
                // The thread may have been made anew since the snapshot.
                if round.staged.thread_row(tenant, thread)?.is_none() {
                    round.staged.delete(table::id(tenant, thread));
                    round.forget(&key_of(tenant, thread));
                    gone.push(thread.clone());
                }
            }
            round.fact(&Fact::Forget { tenant: tenant.clone(), threads: gone })
        })?;
    }
    Ok(())
}

/// Any log of a tenant, for a round that concerns the whole tenant.
fn any_log(tenant: &TenantId) -> Result<LogKey> {
    Ok((tenant.clone(), outbox_log_id()?, Part::Events))
}

/// Removes a closed tenant: its threads and what is remembered of its ids, in bounded steps (TN-8).
pub(crate) fn drop_tenant(shared: &Shared, tenant: &TenantId, state: &TenantState) -> Result<()> {
    // Requests that were planned before the tenant was closed have ended when this round begins.
    let dropped = alone(shared, any_log(tenant)?, How::Frees, |round| {
        // A tenant of this name that is made anew claims above what was claimed so far.
        let claims = claims(shared, &round.staged, tenant)?;
        if let Some(claims) = claims {
            round.staged.put(table::fact("claims"), claims.to_be_bytes());
        }
        round.staged.put(table::dropping(tenant), []);
        round.forget_tenant(tenant);
        round.fact(&Fact::DropTenant { tenant: tenant.clone(), claims })
    });
    dropped.inspect_err(|_| state.reopen())?;
    state.end_waits();
    finish_drop(shared, tenant).map_err(begun)
}

/// What claim numbers of removed tenants begin with at most, with those of this one.
fn claims(shared: &Shared, staged: &Staged<'_>, tenant: &TenantId) -> Result<Option<u64>> {
    let own = staged.number(&table::mailbox_made(tenant))?.map(|made| made + shared.meta.incarnation());
    Ok(own.max(staged.number(&table::fact("claims"))?))
}

/// Takes all events of a tenant, its outbox, its mailbox and its documents out of the index, up to a bound. Their logs
/// wait for the purge. Whether there was anything to do.
fn drop_events(round: &mut Round<'_>, tenant: &TenantId) -> Result<bool> {
    let snapshot = round.shared.index.snapshot();
    let mut keys = 0;
    for pair in snapshot.prefix(table::event_logs(tenant).as_bytes(), Direction::Forward).take(STEP) {
        let (key, value) = pair?;
        let log = table::last_number(&value).ok_or_else(|| crate::codec::damaged("log of events"))?;
        if let Some(row) = round.staged.log_row(log)? {
            round.staged.delete(table::log(log));
            round.staged.put(table::purge(log), row.encode());
        }
        round.staged.delete(Key::from_bytes(&key));
        keys += 1;
    }
    let others = table::outbox_of(tenant).into_iter().chain(table::mailbox_of(tenant));
    let others = others.chain(table::documents_of(tenant));
    for list in table::events_of(tenant).into_iter().chain(others) {
        for pair in snapshot.prefix(list.as_bytes(), Direction::Forward).take(STEP) {
            round.staged.delete(Key::from_bytes(&pair?.0));
            keys += 1;
        }
    }
    Ok(keys > 0)
}

/// Takes threads of a tenant out of the index, up to a bound. Whether there were any.
fn drop_threads(round: &mut Round<'_>, tenant: &TenantId) -> Result<bool> {
    let snapshot = round.shared.index.snapshot();
    let mut is_done = true;
    for pair in snapshot.prefix(table::threads(tenant).as_bytes(), Direction::Forward).take(STEP) {
        let row: ThreadRow = read("thread", &pair?.1)?;
        remove(&mut round.staged, tenant, (&row, Timestamp::MIN))?;
        is_done = false;
    }
    Ok(!is_done)
}

/// The error of a call that is only partly applied. A second call or the next opening does the rest.
fn begun(error: Error) -> Error {
    match error.outcome() {
        Outcome::NotApplied => Error::commit_unknown(None).with_source(error),
        Outcome::Unknown => error,
    }
}

/// Goes on with the removal of a tenant.
pub(crate) fn finish_drop(shared: &Shared, tenant: &TenantId) -> Result<()> {
    let key = any_log(tenant)?;
    while alone(shared, key.clone(), How::Frees, |round| drop_threads(round, tenant))? {}
    while alone(shared, key.clone(), How::Frees, |round| drop_events(round, tenant))? {}
    purge::all(shared, Some(tenant))?;
    object_files::remove_all(&*shared.vfs, tenant)?;
    shared.remove_folder(tenant)?;
    alone(shared, key.clone(), How::Frees, |round| {
        round.forget_tenant(tenant);
        round.staged.delete_all(&table::ids(tenant))
    })?;
    // After the next fact no opening removes rows of the tenant from the index. So the index is made durable first: an
    // older index may still have such rows.
    shared.index.persist()?;
    alone(shared, key, How::Frees, |round| {
        round.staged.delete(table::dropping(tenant));
        round.fact(&Fact::TenantGone { tenant: tenant.clone() })
    })
}
