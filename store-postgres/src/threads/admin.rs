//! Creating, changing and deleting threads.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use store_core::{
    DeleteRequest, Deletion, Error, Expect, IgnoreProgress, NewThread, Progress, PruneRequest, Pruned, Result, Thread,
    ThreadAdmin, ThreadId, ThreadPatch,
    commit::{CommitView, DecisionContext},
    thread::{self, ThreadChange, ThreadIdRecord},
};

use super::{PostgresThreads, delete};
use crate::{
    cache::{Lookup, RecordCache},
    columns::read_u64,
    db::add,
    decide::{CacheUpdate, RuleResult, decide, decide_in_family},
    tenant::Tenant,
    write::Batch,
};

#[async_trait]
impl ThreadAdmin for PostgresThreads {
    async fn create_thread(&self, new: NewThread) -> Result<Thread> {
        let thread_of_call = Some(new.id.clone());
        let call = |tenant: Arc<Tenant>| async move {
            let parent = new.fields.parent_thread_id.clone();
            let likely_records = Lookup { lineage: parent.iter().cloned().collect(), ..Lookup::default() };
            let rule =
                |cache: &RecordCache, decision_context: DecisionContext<'_>| create(cache, &new, decision_context);
            if parent.is_some() {
                decide_in_family(&tenant, &new.id, likely_records, rule).await
            } else {
                decide(&tenant, &new.id, likely_records, rule).await
            }
        };
        self.tenant.run_write(thread_of_call, call).await
    }

    async fn update_thread(&self, id: &ThreadId, patch: ThreadPatch, expect: Expect) -> Result<Thread> {
        let id = id.clone();
        let thread_of_call = Some(id.clone());
        let call = |tenant: Arc<Tenant>| async move {
            let parent = patch.new_parent().cloned();
            let likely_records = Lookup { lineage: parent.into_iter().collect(), ..Lookup::default() };
            let rule = |cache: &RecordCache, decision_context: DecisionContext<'_>| {
                update(cache, (&id, &patch, expect), decision_context)
            };
            if patch.parent_thread_id.is_some() {
                decide_in_family(&tenant, &id, likely_records, rule).await
            } else {
                decide(&tenant, &id, likely_records, rule).await
            }
        };
        self.tenant.run_write(thread_of_call, call).await
    }

    async fn delete_thread(&self, id: &ThreadId, request: DeleteRequest) -> Result<Deletion> {
        let id = id.clone();
        let call = |tenant: Arc<Tenant>| async move { delete::delete_thread(&tenant, &id, request).await };
        let (deletion, logs) = self.tenant.run_write(None, call).await?;
        self.remove_deleted_data(&logs).await;
        Ok(deletion)
    }

    async fn prune_threads(&self, request: PruneRequest) -> Result<Pruned> {
        let call = |tenant: Arc<Tenant>| async move { delete::prune_threads(&tenant, request).await };
        let (pruned, logs) = self.tenant.run_write(None, call).await?;
        self.remove_deleted_data(&logs).await;
        Ok(pruned)
    }

    async fn purge_deleted(&self, progress: &dyn Progress) -> Result<u64> {
        self.remove_logs(None, progress).await
    }

    async fn reset_fence(&self, id: &ThreadId) -> Result<()> {
        let id = id.clone();
        let thread_of_call = Some(id.clone());
        let call = |tenant: Arc<Tenant>| async move {
            let rule = |cache: &RecordCache, _: DecisionContext<'_>| {
                let stored = cache.thread()?;
                let record = cache.id_record()?;
                if record.fence.is_none() {
                    return Ok(RuleResult::Answer(()));
                }
                Ok(write_thread(cache, &id, (stored, ThreadIdRecord { fence: None, ..record }), ()))
            };
            decide(&tenant, &id, Lookup::default(), rule).await
        };
        self.tenant.run_write(thread_of_call, call).await
    }
}

/// The maximum number of logs that one step of a removal processes. The SQL function `purge_step` has the same limit.
const STEP_LOGS: usize = 256;

impl PostgresThreads {
    /// Removes the data of an acknowledged deletion, but not that of other deletions. A failure does not undo the
    /// deletion: the remaining data is invisible, and the next `purge_deleted` removes it.
    async fn remove_deleted_data(&self, logs: &[i64]) {
        for logs in logs.chunks(STEP_LOGS) {
            if let Err(error) = self.remove_logs(Some(logs), &IgnoreProgress).await {
                tracing::warn!(%error, "deleted data is not removed yet; the next purge of deleted threads removes it");
                return;
            }
        }
    }

    /// Removes the remaining data of these logs, or of all deleted logs, in bounded steps. Returns how many logs were
    /// removed completely.
    async fn remove_logs(&self, logs: Option<&[i64]>, progress: &dyn Progress) -> Result<u64> {
        let mut removed = 0;
        loop {
            let logs = logs.map(<[i64]>::to_vec);
            let call = |tenant: Arc<Tenant>| async move {
                let mut arguments = PgArguments::default();
                add(&mut arguments, tenant.constants.tenant.as_str())?;
                add(&mut arguments, logs)?;
                let rows = tenant
                    .db()
                    .any_connection()
                    .write(|sql| &sql.purge_logs, arguments)
                    .await
                    .map_err(|failed| failed.error)?;
                let row = rows.first().ok_or_else(|| Error::server_unavailable("the server gave no answer"))?;
                Ok((read_u64(row, 0)?, read_u64(row, 1)?))
            };
            let (removed_now, left) = self.tenant.run_write(None, call).await?;
            removed += removed_now;
            if left == 0 || !progress.advance(removed, None) {
                return Ok(removed);
            }
        }
    }
}

fn create(cache: &RecordCache, new: &NewThread, decision_context: DecisionContext<'_>) -> Result<RuleResult<Thread>> {
    let (stored, mut id_record) = (cache.thread()?, cache.id_record()?);
    let now_and_incarnation = (decision_context.now, cache.incarnation());
    let created = thread::create(stored.as_ref(), &id_record, new, decision_context.limits, now_and_incarnation)?;
    if let Some(parent) = &new.fields.parent_thread_id {
        thread::check_parent(&new.id, parent, &cache.lineage(parent)?)?;
    }
    (id_record.generation, id_record.deleted_at) = (created.thread.generation(), None);
    let answer = created.thread.clone();
    Ok(write_thread(cache, &new.id, (Some(created), id_record), answer))
}

fn update(
    cache: &RecordCache,
    request: (&ThreadId, &ThreadPatch, Expect),
    decision_context: DecisionContext<'_>,
) -> Result<RuleResult<Thread>> {
    let ((id, patch, _), mut id_record) = (request, cache.id_record()?);
    let fence = id_record.fence;
    // Parents cannot change while the caller holds the lock of the family.
    let lineage = |parent: &ThreadId| cache.lineage(parent);
    let limits_and_time = (decision_context.limits, decision_context.now);
    let stored = (cache.thread()?, &mut id_record);
    match thread::update(request, stored, cache.fenced_mailbox(), lineage, limits_and_time)? {
        ThreadChange::Unchanged(stored) if id_record.fence == fence => Ok(RuleResult::Answer(stored.thread)),
        ThreadChange::Unchanged(stored) | ThreadChange::Changed(stored) => {
            let answer = stored.thread.clone();
            let mut decided = write_thread(cache, id, (Some(stored), id_record), answer);
            if let (RuleResult::Write { batch, .. }, Some(_)) = (&mut decided, &patch.fence) {
                batch.require_unchanged_claims(cache, id)?;
            }
            Ok(decided)
        }
    }
}

fn write_thread<T>(
    cache: &RecordCache,
    id: &ThreadId,
    after: (Option<thread::StoredThread>, ThreadIdRecord),
    answer: T,
) -> RuleResult<T> {
    let mut batch = Batch::default();
    let row_before = cache.row.clone().unwrap_or_default();
    batch.add_thread(id, &row_before, after.clone());
    let cache_update = CacheUpdate::Thread(after.0.map(Box::new), after.1);
    RuleResult::Write { batch, cache_update, answer }
}
