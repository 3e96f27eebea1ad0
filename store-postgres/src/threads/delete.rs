//! Deleting threads in one atomic step over all affected threads, and pruning threads without recent writes.

use std::{collections::BTreeMap, sync::Arc};

use sqlx::postgres::PgArguments;
use store_core::{
    ChildStrategy, DeleteRequest, Deletion, Error, PruneRequest, Pruned, Result, ThreadId, length,
    thread::{self, DeletionSet, PruneSelection, StoredThread},
};

use crate::{
    cache::{self, Row, decode},
    clock::Moment,
    columns::{optional, read_i64, read_u64, text},
    db::{Connection, add, signed},
    tenant::Tenant,
    write::{Batch, Written},
};

/// The maximum number of times that a deletion is repeated because of concurrent writes.
const ROUNDS: usize = 64;
/// The maximum number of ids that one batch forgets.
const BATCH: u64 = 1_000;

/// The transaction of a deletion. Until it ends, no other call of the tenant changes parents or deletes threads.
struct DeletionTransaction<'a> {
    tenant: &'a Tenant,
    connection: Connection<'a>,
}

impl<'a> DeletionTransaction<'a> {
    async fn begin(tenant: &'a Tenant) -> Result<Self> {
        let connection = tenant.db().family_transaction(&tenant.constants.tenant).await?;
        Ok(Self { tenant, connection })
    }

    fn tenant_arguments(&self) -> Result<PgArguments> {
        let mut with = PgArguments::default();
        add(&mut with, self.tenant.constants.tenant.as_str())?;
        Ok(with)
    }

    /// Returns the threads that a deletion changes.
    async fn family(&mut self, id: &ThreadId, strategy: ChildStrategy, most: u64) -> Result<DeletionSet> {
        let mut family = DeletionSet::of(id.clone(), self.children(id).await?, strategy);
        while let Some(thread) = family.next_deleted(most) {
            family.add_children(self.children(&thread).await?);
        }
        Ok(family)
    }

    async fn children(&mut self, of: &ThreadId) -> Result<Vec<ThreadId>> {
        let mut with = self.tenant_arguments()?;
        add(&mut with, of.as_str())?;
        let rows = self.connection.read(|sql| &sql.children, with).await?;
        rows.iter().map(|row| text(row, 0)?.parse()).collect()
    }

    async fn rows<'i>(&mut self, ids: impl Iterator<Item = &'i ThreadId>) -> Result<BTreeMap<ThreadId, Row>> {
        let ids: Vec<&str> = ids.map(ThreadId::as_str).collect();
        let mut with = self.tenant_arguments()?;
        add(&mut with, ids)?;
        let rows = self.connection.read(|sql| &sql.load_rows, with).await?;
        let read = |row| {
            let (stamp, log) = (read_i64(row, 1)?, optional(row, 2)?);
            let (record, id): (Option<String>, Option<String>) = (optional(row, 3)?, optional(row, 4)?);
            Ok((text(row, 0)?.parse()?, cache::decode_thread_row(stamp, log, record.as_deref(), id.as_deref())?))
        };
        rows.iter().map(read).collect()
    }

    /// Deletes and detaches threads. Readers see all of these changes at once. If another call has written to one of
    /// the threads in the meantime, writes nothing and returns `false`.
    async fn write(
        &mut self,
        rows: &BTreeMap<ThreadId, Row>,
        (deleted, detached): (&[ThreadId], &[ThreadId]),
        moment: Moment,
    ) -> Result<bool> {
        let mut batch = Batch::default();
        for id in deleted {
            let Some((row, stored)) = rows.get(id).and_then(|row| Some((row, row.thread.as_ref()?))) else { continue };
            batch.thread(id, row, (None, thread::id_record_after_deletion(&row.id, stored, moment.now)));
        }
        for id in detached {
            let Some((row, stored)) = rows.get(id).and_then(|row| Some((row, row.thread.clone()?))) else { continue };
            batch.thread(id, row, (Some(thread::detach(stored, moment.now)), row.id.clone()));
        }
        let written = Arc::new(batch).write(&mut self.connection, self.tenant, moment).await;
        for id in deleted.iter().chain(detached) {
            self.tenant.forget(id);
        }
        Ok(matches!(written.map_err(|failed| failed.error)?, Written::Done(_)))
    }
}

/// Deletes a thread. Also returns the logs whose data must be removed.
pub(super) async fn delete(tenant: &Tenant, id: &ThreadId, request: DeleteRequest) -> Result<(Deletion, Vec<i64>)> {
    for _ in 0..ROUNDS {
        let mut transaction = DeletionTransaction::begin(tenant).await?;
        match try_delete(&mut transaction, id, request).await {
            Ok(Some((family, logs))) => {
                transaction.connection.finish(true).await?;
                return Ok((Deletion::from(family), logs));
            }
            Ok(None) => transaction.connection.finish(false).await?,
            Err(error) => {
                transaction.connection.finish(false).await?;
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
    let limits = &transaction.tenant.common.config.limits;
    let family = transaction.family(id, request.children, limits.deletion_threads).await?;
    let rows = transaction.rows(family.all()).await?;
    family.check(id, rows.get(id).and_then(|row| row.thread.as_ref()), request, limits)?;
    let moment = transaction.tenant.db().clock.moment()?;
    let is_written = transaction.write(&rows, (family.deleted(), family.detached()), moment).await?;
    let logs = logs(&rows, family.deleted());
    Ok(is_written.then_some((family, logs)))
}

fn logs(rows: &BTreeMap<ThreadId, Row>, deleted: &[ThreadId]) -> Vec<i64> {
    deleted.iter().filter_map(|id| rows.get(id)?.log).collect()
}

/// Prunes threads. Also returns the logs whose data must be removed.
pub(super) async fn prune(tenant: &Tenant, request: PruneRequest) -> Result<(Pruned, Vec<i64>)> {
    request.check()?;
    let pruned = prune_idle(tenant, request).await?;
    while !request.dry_run && forget(tenant).await? == BATCH {}
    Ok(pruned)
}

async fn prune_idle(tenant: &Tenant, request: PruneRequest) -> Result<(Pruned, Vec<i64>)> {
    for _ in 0..ROUNDS {
        let mut transaction = DeletionTransaction::begin(tenant).await?;
        let moment = tenant.db().clock.moment()?;
        let choice = choose(&mut transaction, PruneSelection::new(request, moment.now)?).await?;
        let chosen = choice.chosen();
        let rows = transaction.rows(chosen.iter()).await?;
        // A thread that was written to after it was chosen is no longer idle (TH-27).
        let is_idle = |id| rows.get(id).and_then(|row| row.thread.as_ref()).is_some_and(|found| choice.is_idle(found));
        let all_idle = chosen.iter().all(is_idle);
        let is_done = request.dry_run
            || (all_idle && (chosen.is_empty() || transaction.write(&rows, (chosen, &[]), moment).await?));
        transaction.connection.finish(is_done).await?;
        if is_done {
            let logs = if request.dry_run { Vec::new() } else { logs(&rows, chosen) };
            return Ok((choice.pruned(chosen.to_vec()), logs));
        }
    }
    Err(Error::unavailable("other callers kept writing to the threads at the same time"))
}

async fn choose(transaction: &mut DeletionTransaction<'_>, mut choice: PruneSelection) -> Result<PruneSelection> {
    let before = signed(choice.idle_before().as_millis())?;
    let mut after = (i64::MIN, String::new());
    while !choice.is_full() {
        let mut with = transaction.tenant_arguments()?;
        add(&mut with, before)?;
        add(&mut with, after.0)?;
        add(&mut with, after.1.as_str())?;
        let rows = transaction.connection.read(|sql| &sql.list_idle, with).await?;
        let Some(last) = rows.last() else { break };
        after = (read_i64(last, 1)?, text(last, 0)?);
        for row in rows.iter().filter(|row| read_u64(row, 3).is_ok_and(|children| children == 0)) {
            let mut next = Some(decode::<StoredThread>("thread", &text(row, 2)?)?);
            while let Some(stored) = next.take() {
                let Some(parent) = choice.offer(&stored) else { break };
                let children = if choice.has_child_count(&parent) {
                    0
                } else {
                    length(transaction.children(&parent).await?.len())
                };
                if choice.count_chosen_child(&parent, children) {
                    next = transaction.rows([&parent].into_iter()).await?.remove(&parent).and_then(|row| row.thread);
                }
            }
            if choice.is_full() {
                break;
            }
        }
    }
    Ok(choice)
}

/// Forgets a batch of ids that were deleted long enough ago (TH-25). Returns their number.
async fn forget(tenant: &Tenant) -> Result<u64> {
    let before = tenant.db().clock.now()?.saturating_sub(thread::REMEMBERED_FOR);
    let mut with = PgArguments::default();
    add(&mut with, tenant.constants.tenant.as_str())?;
    add(&mut with, signed(before.as_millis())?)?;
    add(&mut with, signed(BATCH)?)?;
    let rows = tenant.db().any().write(|sql| &sql.forget, with).await.map_err(|failed| failed.error)?;
    for row in &rows {
        tenant.forget(&text(row, 0)?.parse()?);
    }
    Ok(length(rows.len()))
}
