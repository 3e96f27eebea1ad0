//! The pending input of threads.

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use store_core::{
    AppendPending, Appended, CursorScope, EntryId, Page, PageBuilder, PageRequest, PendingBody, PendingInput,
    PendingQueue, PendingStore, PendingUpdate, Position, Reorder, Result, ThreadId,
    commit::DecisionContext,
    pending::{self, QueueChange},
};

use crate::{
    cache::{Lookup, RecordCache, decode},
    columns::{read_u64, text},
    db::add,
    decide::{CacheUpdate, RuleResult, decide},
    store::OpenTenant,
    tenant::Tenant,
    write::Batch,
};

/// The pending input of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct PostgresPending {
    tenant: OpenTenant,
}

impl PostgresPending {
    pub(crate) const fn new(tenant: OpenTenant) -> Self {
        Self { tenant }
    }

    /// Plans a change of a queue and writes it.
    async fn change<T: Send + 'static>(
        &self,
        thread: &ThreadId,
        first: Lookup,
        plan: impl Fn(&RecordCache, DecisionContext<'_>) -> Result<QueueChange<T>> + Send + Sync + 'static,
    ) -> Result<T> {
        let id = thread.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let rule = |cache: &RecordCache, setting: DecisionContext<'_>| {
                let QueueChange { plan, answer } = plan(cache, setting)?;
                let Some(plan) = plan else { return Ok(RuleResult::Answer(answer)) };
                let mut batch = Batch::default();
                batch.queue(&id, &cache.row.clone().unwrap_or_default(), &plan)?;
                Ok(RuleResult::Write { batch, after: CacheUpdate::Queue(plan), answer })
            };
            decide(&tenant, &id, first, rule).await
        };
        self.tenant.write(Some(thread.clone()), call).await
    }
}

#[async_trait]
impl PendingStore for PostgresPending {
    async fn append_pending(&self, request: AppendPending) -> Result<Appended> {
        let mut first = Lookup::default();
        for input in &request.inputs {
            first.entries.extend(input.id.clone());
            first.inputs.extend(input.id.clone());
            if let PendingBody::Decision(decision) = &input.body {
                first.runs.insert(decision.run.clone());
                first.decisions.insert((decision.run.clone(), decision.ticket.clone()));
            }
        }
        let thread = request.thread.clone();
        self.change(&thread, first, move |cache, setting| pending::append(cache, &request, setting)).await
    }

    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue> {
        let id = thread.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut connection = tenant.db().any();
            let mut with = sqlx::postgres::PgArguments::default();
            add(&mut with, tenant.constants.tenant.as_str())?;
            add(&mut with, id.as_str())?;
            let rows = connection.read(|sql| &sql.load_queue, with).await?;
            let Some(first) = rows.first() else { return Ok(PendingQueue::new(0, [])) };
            let stored = decode::<store_core::thread::StoredThread>("thread", &text(first, 0)?)?;
            let inputs = rows.iter().filter(|row| read_u64(row, 1).is_ok());
            let inputs = inputs.map(|row| decode::<PendingInput>("pending input", &text(row, 2)?));
            Ok(PendingQueue::new(stored.queue.revision, inputs.collect::<Result<Vec<_>>>()?))
        };
        self.tenant.read(Some(thread.clone()), call).await
    }

    async fn update_pending(&self, request: PendingUpdate) -> Result<PendingInput> {
        let first = Lookup { inputs: BTreeSet::from([request.id.clone()]), ..Lookup::default() };
        let thread = request.thread.clone();
        self.change(&thread, first, move |cache, setting| pending::update(cache, &request, setting)).await
    }

    async fn retract_pending(&self, thread: &ThreadId, id: &EntryId) -> Result<PendingInput> {
        let (id, first) = (id.clone(), Lookup { inputs: BTreeSet::from([id.clone()]), ..Lookup::default() });
        self.change(thread, first, move |cache, setting| pending::retract(cache, &id, setting)).await
    }

    async fn reorder_pending(&self, request: Reorder) -> Result<u64> {
        let (thread, first) = (request.thread.clone(), Lookup { queue: true, ..Lookup::default() });
        self.change(&thread, first, move |cache, setting| pending::reorder(cache, &request, setting)).await
    }

    async fn list_threads_with_pending(&self, page: PageRequest) -> Result<Page<ThreadId>> {
        let call = |tenant: Arc<Tenant>| async move {
            let mut found = PageBuilder::new(page.checked_limit()?);
            let scope = CursorScope::new(&tenant.constants.tenant, "list_threads_with_pending", "");
            let after = Position::open(&tenant.constants.cursors, &scope, page.cursor.as_ref())?;
            let mut connection = tenant.db().any();
            let mut with = sqlx::postgres::PgArguments::default();
            add(&mut with, tenant.constants.tenant.as_str())?;
            add(&mut with, after.map(|after| after.id).unwrap_or_default())?;
            add(&mut with, i64::try_from(page.checked_limit()? + 1).unwrap_or(i64::MAX))?;
            for row in connection.read(|sql| &sql.list_pending, with).await? {
                let id: ThreadId = text(&row, 0)?.parse()?;
                if !found.offer(Position::new(0, id.as_str()), 0, Some(id)) {
                    break;
                }
            }
            Ok(found.finish(|at| at.seal(&tenant.constants.cursors, &scope)))
        };
        self.tenant.read(None, call).await
    }
}
