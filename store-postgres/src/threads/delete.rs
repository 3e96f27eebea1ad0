//! Deleting threads in one atomic step over all affected threads, and pruning threads without recent writes.

use std::{collections::BTreeMap, sync::Arc};

use sqlx::postgres::PgArguments;
use store_core::{
    ChildStrategy, DeleteRequest, Deletion, Error, PruneRequest, Pruned, Result, ThreadId, Timestamp, length,
    thread::{self, DeletionSet, PruneSelection, StoredThread},
};

use crate::{
    cache::{self, CachedThreadRow, decode},
    clock::DecisionTime,
    columns::{read_i64, read_optional, read_text, read_u64},
    db::{Connection, add, signed},
    tenant::Tenant,
    write::{Batch, WriteResult},
};

/// The maximum number of times that a deletion is repeated because of concurrent writes.
const MAX_ROUNDS: usize = 64;
/// The maximum number of ids that one batch forgets.
const BATCH_IDS: u64 = 1_000;

/// The transaction of a deletion. Until it ends, no other call of the tenant changes parents or deletes threads.
struct DeletionTransaction<'a> {
    tenant: &'a Tenant,
    connection: Connection<'a>,
}

impl<'a> DeletionTransaction<'a> {
    async fn begin(tenant: &'a Tenant) -> Result<Self> {
        let connection = tenant.db().begin_family_transaction(&tenant.constants.tenant).await?;
        Ok(Self { tenant, connection })
    }

    fn tenant_arguments(&self) -> Result<PgArguments> {
        let mut arguments = PgArguments::default();
        add(&mut arguments, self.tenant.constants.tenant.as_str())?;
        Ok(arguments)
    }

    /// Returns the threads that a deletion changes.
    async fn deletion_set(&mut self, id: &ThreadId, strategy: ChildStrategy, max_threads: u64) -> Result<DeletionSet> {
        let mut deletion_set = DeletionSet::begin(id.clone(), self.children(id).await?, strategy);
        while let Some(thread) = deletion_set.next_to_expand(max_threads) {
            deletion_set.add_children(self.children(&thread).await?);
        }
        Ok(deletion_set)
    }

    async fn children(&mut self, parent: &ThreadId) -> Result<Vec<ThreadId>> {
        let mut arguments = self.tenant_arguments()?;
        add(&mut arguments, parent.as_str())?;
        let rows = self.connection.read(|sql| &sql.list_children_of_thread, arguments).await?;
        rows.iter().map(|row| read_text(row, 0)?.parse()).collect()
    }
}

async fn load_rows<'i>(
    tenant: &Tenant,
    connection: &mut Connection<'_>,
    ids: impl Iterator<Item = &'i ThreadId>,
) -> Result<BTreeMap<ThreadId, CachedThreadRow>> {
    let ids: Vec<&str> = ids.map(ThreadId::as_str).collect();
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    add(&mut arguments, ids)?;
    let rows = connection.read(|sql| &sql.load_rows, arguments).await?;
    let read = |row| {
        let (stamp, log) = (read_i64(row, 1)?, read_optional(row, 2)?);
        let (record, id_record) = (read_optional::<String>(row, 3)?, read_optional::<String>(row, 4)?);
        let decoded = cache::decode_thread_row(stamp, log, record.as_deref(), id_record.as_deref())?;
        Ok((read_text(row, 0)?.parse()?, decoded))
    };
    rows.iter().map(read).collect()
}

/// Deletes and detaches threads. Readers see all of these changes at once. If another call has written to one of
/// the threads in the meantime, writes nothing and returns `false`.
async fn write_deletion(
    tenant: &Tenant,
    connection: &mut Connection<'_>,
    (rows, at): (&BTreeMap<ThreadId, CachedThreadRow>, Timestamp),
    (deleted, detached): (&[ThreadId], &[ThreadId]),
    decision_time: DecisionTime,
) -> Result<bool> {
    let mut batch = Batch::default();
    for id in deleted {
        let Some((row, stored)) = rows.get(id).and_then(|row| Some((row, row.thread.as_ref()?))) else { continue };
        let id_record = thread::id_record_after_deletion(&row.id_record, stored, at);
        batch.add_thread(id, row, (None, id_record));
    }
    for id in detached {
        let Some((row, stored)) = rows.get(id).and_then(|row| Some((row, row.thread.clone()?))) else { continue };
        batch.add_thread(id, row, (Some(thread::detach(stored, at)), row.id_record.clone()));
    }
    let write_result = Arc::new(batch).write(connection, tenant, decision_time).await;
    for id in deleted.iter().chain(detached) {
        tenant.remove_cached(id);
    }
    Ok(matches!(write_result.map_err(|failed| failed.error)?, WriteResult::Done(_)))
}

/// Deletes and detaches threads in a transaction that goes on, as a write buffer has decided at the time `at`. The data
/// of their logs stays until the next purge of deleted threads.
pub(crate) async fn apply_deletion(
    tenant: &Tenant,
    connection: &mut Connection<'_>,
    (deleted, detached): (&[ThreadId], &[ThreadId]),
    at: Timestamp,
) -> Result<()> {
    connection.lock_family(&tenant.constants.tenant).await?;
    let rows = load_rows(tenant, connection, deleted.iter().chain(detached)).await?;
    let decision_time = tenant.db().clock.decision_time()?;
    if write_deletion(tenant, connection, (&rows, at), (deleted, detached), decision_time).await? {
        return Ok(());
    }
    Err(Error::unavailable("another call wrote to the threads at the same time"))
}

/// Deletes a thread. Also returns the logs whose data must be removed.
pub(super) async fn delete_thread(
    tenant: &Tenant,
    id: &ThreadId,
    request: DeleteRequest,
) -> Result<(Deletion, Vec<i64>)> {
    for _ in 0..MAX_ROUNDS {
        let mut transaction = DeletionTransaction::begin(tenant).await?;
        match try_delete(&mut transaction, id, request).await {
            Ok(Some((deletion_set, logs))) => {
                transaction.connection.commit().await?;
                return Ok((Deletion::from(deletion_set), logs));
            }
            Ok(None) => transaction.connection.roll_back().await?,
            Err(error) => {
                transaction.connection.roll_back().await?;
                return Err(error);
            }
        }
    }
    Err(Error::unavailable("other callers kept writing to the threads at the same time"))
}

async fn try_delete(
    transaction: &mut DeletionTransaction<'_>,
    id: &ThreadId,
    request: DeleteRequest,
) -> Result<Option<(DeletionSet, Vec<i64>)>> {
    let limits = &transaction.tenant.shared.config.limits;
    let deletion_set = transaction.deletion_set(id, request.children, limits.deletion_threads).await?;
    let rows = load_rows(transaction.tenant, &mut transaction.connection, deletion_set.all()).await?;
    deletion_set.check(id, rows.get(id).and_then(|row| row.thread.as_ref()), request, limits)?;
    let decision_time = transaction.tenant.db().clock.decision_time()?;
    let changed = (deletion_set.deleted(), deletion_set.detached());
    let connection = &mut transaction.connection;
    let is_written =
        write_deletion(transaction.tenant, connection, (&rows, decision_time.now), changed, decision_time).await?;
    let logs = logs_of(&rows, deletion_set.deleted());
    Ok(is_written.then_some((deletion_set, logs)))
}

fn logs_of(rows: &BTreeMap<ThreadId, CachedThreadRow>, deleted: &[ThreadId]) -> Vec<i64> {
    deleted.iter().filter_map(|id| rows.get(id)?.log).collect()
}

/// Prunes threads. Also returns the logs whose data must be removed.
pub(super) async fn prune_threads(tenant: &Tenant, request: PruneRequest) -> Result<(Pruned, Vec<i64>)> {
    request.check()?;
    let pruned = prune_idle(tenant, request).await?;
    while !request.dry_run && forget_deleted_ids(tenant).await? == BATCH_IDS {}
    Ok(pruned)
}

async fn prune_idle(tenant: &Tenant, request: PruneRequest) -> Result<(Pruned, Vec<i64>)> {
    for _ in 0..MAX_ROUNDS {
        let mut transaction = DeletionTransaction::begin(tenant).await?;
        let decision_time = tenant.db().clock.decision_time()?;
        let selection = choose_idle_threads(&mut transaction, PruneSelection::new(request, decision_time.now)?).await?;
        let chosen = selection.chosen();
        let rows = load_rows(transaction.tenant, &mut transaction.connection, chosen.iter()).await?;
        // A thread that was written to after it was chosen must not be pruned (TH-27).
        let is_unused =
            |id| rows.get(id).and_then(|row| row.thread.as_ref()).is_some_and(|found| selection.is_unused(found));
        let all_unused = chosen.iter().all(is_unused);
        let is_done = request.dry_run
            || (all_unused
                && (chosen.is_empty()
                    || write_deletion(
                        tenant,
                        &mut transaction.connection,
                        (&rows, decision_time.now),
                        (chosen, &[]),
                        decision_time,
                    )
                    .await?));
        transaction.connection.finish(is_done).await?;
        if is_done {
            let logs = if request.dry_run { Vec::new() } else { logs_of(&rows, chosen) };
            return Ok((selection.pruned(chosen.to_vec()), logs));
        }
    }
    Err(Error::unavailable("other callers kept writing to the threads at the same time"))
}

async fn choose_idle_threads(
    transaction: &mut DeletionTransaction<'_>,
    mut selection: PruneSelection,
) -> Result<PruneSelection> {
    let idle_before = signed(selection.idle_before().as_millis())?;
    let mut after = (i64::MIN, String::new());
    while !selection.is_full() {
        let mut arguments = transaction.tenant_arguments()?;
        add(&mut arguments, idle_before)?;
        add(&mut arguments, after.0)?;
        add(&mut arguments, after.1.as_str())?;
        let rows = transaction.connection.read(|sql| &sql.list_idle, arguments).await?;
        let Some(last) = rows.last() else { break };
        after = (read_i64(last, 1)?, read_text(last, 0)?);
        for row in rows.iter().filter(|row| read_u64(row, 3).is_ok_and(|children| children == 0)) {
            let mut next = Some(decode::<StoredThread>("thread", &read_text(row, 2)?)?);
            while let Some(stored) = next.take() {
                let Some(parent) = selection.offer(&stored) else { break };
                let children = if selection.has_child_count(&parent) {
                    0
                } else {
                    length(transaction.children(&parent).await?.len())
                };
                if selection.count_chosen_child(&parent, children) {
                    next = load_rows(transaction.tenant, &mut transaction.connection, [&parent].into_iter())
                        .await?
                        .remove(&parent)
                        .and_then(|row| row.thread);
                }
            }
            if selection.is_full() {
                break;
            }
        }
    }
    Ok(selection)
}

/// Forgets a batch of ids that were deleted long enough ago (TH-25). Returns their number.
async fn forget_deleted_ids(tenant: &Tenant) -> Result<u64> {
    let deleted_before = tenant.db().clock.now()?.saturating_sub(thread::DELETED_ID_RETENTION);
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    add(&mut arguments, signed(deleted_before.as_millis())?)?;
    add(&mut arguments, signed(BATCH_IDS)?)?;
    let rows = tenant
        .db()
        .any_connection()
        .write(|sql| &sql.forget_deleted_ids, arguments)
        .await
        .map_err(|failed| failed.error)?;
    for row in &rows {
        tenant.remove_cached(&read_text(row, 0)?.parse()?);
    }
    Ok(length(rows.len()))
}
