//! The pending input of threads.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use store_core::{
    AppendPending, AppendedInputs, CursorScope, EntryId, Page, PageBuilder, PageRequest, PendingBody, PendingInput,
    PendingQueue, PendingStore, PendingUpdate, Position, Reorder, Result, ThreadId,
    commit::DecisionContext,
    pending::{self, QueueDecision},
};

use crate::{
    cache::{Lookup, RecordCache, decode},
    columns::{read_text, read_u64},
    db::add,
    decide::{CacheUpdate, RuleResult, decide},
    store::TenantHandle,
    tenant::Tenant,
    write::Batch,
};

/// The pending input of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct PostgresPending {
    tenant: TenantHandle,
}

impl PostgresPending {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }

    /// Plans a change of a queue and writes it.
    async fn change<T: Send + 'static>(
        &self,
        thread: &ThreadId,
        likely_records: Lookup,
        plan: impl Fn(&RecordCache, DecisionContext<'_>) -> Result<QueueDecision<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let id = thread.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let rule = |cache: &RecordCache, decision_context: DecisionContext<'_>| {
                let QueueDecision { plan, answer } = plan(cache, decision_context)?;
                let Some(plan) = plan else { return Ok(RuleResult::Answer(answer)) };
                let mut batch = Batch::default();
                batch.add_queue_change(&id, &cache.row.clone().unwrap_or_default(), &plan)?;
                Ok(RuleResult::Write { batch, cache_update: CacheUpdate::Queue(plan), answer })
            };
            decide(&tenant, &id, likely_records, rule).await
        };
        self.tenant.run_write(Some(thread.clone()), call).await
    }
}

#[async_trait]
impl PendingStore for PostgresPending {
    async fn append_pending(&self, request: AppendPending) -> Result<AppendedInputs> {
        let mut likely_records = Lookup::default();
        for input in &request.inputs {
            likely_records.entries.extend(input.id.clone());
            likely_records.inputs.extend(input.id.clone());
            if let PendingBody::Decision(decision) = &input.body {
                likely_records.runs.insert(decision.run.clone());
                likely_records.decisions.insert((decision.run.clone(), decision.ticket.clone()));
            }
        }
        let thread = request.thread.clone();
        self.change(&thread, likely_records, move |cache, decision_context| {
            pending::append(cache, &request, decision_context)
        })
        .await
    }

    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue> {
        let id = thread.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut connection = tenant.db().any_connection();
            let mut arguments = sqlx::postgres::PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, id.as_str())?;
            let rows = connection.read(|sql| &sql.load_queue, arguments).await?;
            let Some(first) = rows.first() else { return Ok(PendingQueue::new(0, [])) };
            let stored = decode::<store_core::thread::StoredThread>("thread", &read_text(first, 0)?)?;
            let inputs = rows.iter().filter(|row| read_u64(row, 1).is_ok());
            let inputs = inputs.map(|row| decode::<PendingInput>("pending input", &read_text(row, 2)?));
            Ok(PendingQueue::new(stored.queue.revision, inputs.collect::<Result<Vec<_>>>()?))
        };
        self.tenant.run_read(Some(thread.clone()), call).await
    }

    async fn update_pending(&self, request: PendingUpdate) -> Result<PendingInput> {
        let likely_records = Lookup { inputs: BTreeSet::from([request.id.clone()]), ..Lookup::default() };
        let thread = request.thread.clone();
        self.change(&thread, likely_records, move |cache, decision_context| {
            pending::update(cache, &request, decision_context)
        })
        .await
    }

    async fn retract_pending(&self, thread: &ThreadId, id: &EntryId) -> Result<PendingInput> {
        let (id, likely_records) = (id.clone(), Lookup { inputs: BTreeSet::from([id.clone()]), ..Lookup::default() });
        self.change(thread, likely_records, move |cache, decision_context| {
            pending::retract(cache, &id, decision_context)
        })
        .await
    }

    async fn reorder_pending(&self, request: Reorder) -> Result<u64> {
        let (thread, likely_records) = (request.thread.clone(), Lookup { queue: true, ..Lookup::default() });
        self.change(&thread, likely_records, move |cache, decision_context| {
            pending::reorder(cache, &request, decision_context)
        })
        .await
    }

    async fn list_threads_with_pending(&self, page: PageRequest) -> Result<Page<ThreadId>> {
        let call = |tenant: Arc<Tenant>| async move {
            let mut found = PageBuilder::new(page.checked_limit()?);
            let scope = CursorScope::new(&tenant.constants.tenant, "list_threads_with_pending", "");
            let after = Position::from_cursor(&tenant.constants.cursor_key, &scope, page.cursor.as_ref())?;
            let mut connection = tenant.db().any_connection();
            let mut arguments = sqlx::postgres::PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, after.map(|after| after.id).unwrap_or_default())?;
            add(&mut arguments, i64::try_from(page.checked_limit()? + 1).unwrap_or(i64::MAX))?;
            for row in connection.read(|sql| &sql.list_pending, arguments).await? {
                let id: ThreadId = read_text(&row, 0)?.parse()?;
                if !found.offer(Position::new(0, id.as_str()), 0, Some(id)) {
                    break;
                }
            }
            Ok(found.finish(|at| at.to_cursor(&tenant.constants.cursor_key, &scope)))
        };
        self.tenant.run_read(None, call).await
    }
}
