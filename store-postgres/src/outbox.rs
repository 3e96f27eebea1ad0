//! The outbox: claims, settlements, lists.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use store_core::{
    ClaimOutbox, ClaimedOutbox, CursorScope, Direction, Error, ExtendOutbox, Json, OutboxCounts, OutboxFilter,
    OutboxId, OutboxQuery, OutboxRow, OutboxSettlement, OutboxStatus, OutboxStore, Page, PageBuilder, Position,
    PurgeOutbox, RequeueOutbox, Requeued, Result, SettleOutbox, Timestamp,
    commit::DecisionContext,
    length,
    outbox::{self, StoredOutboxRow},
};

use crate::{
    cache::{Lookup, OutboxDraft, OutboxLookup, RecordCache, decode},
    columns::{read_text, read_u64},
    db::{add, signed},
    decide::{CacheUpdate, RuleResult, decide_locked},
    error::corrupt,
    store::TenantHandle,
    tenant::Tenant,
    write::Batch,
};

/// How many rows of a page are read at once.
const CHUNK: usize = 256;

/// The outbox of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct PostgresOutbox {
    tenant: TenantHandle,
}

impl PostgresOutbox {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }

    async fn change<T: Send + 'static>(
        &self,
        likely_records: OutboxLookup,
        rule: impl Fn(&mut OutboxDraft<'_>, DecisionContext<'_>) -> Result<T> + Send + Sync + 'static,
    ) -> Result<T> {
        self.tenant.run_write(None, |tenant| async move { change(&tenant, likely_records, rule).await }).await
    }
}

/// Makes a decision about rows. Locks the rows, so that no other call decides about them at the same time.
async fn change<T: Send>(
    tenant: &Tenant,
    likely_records: OutboxLookup,
    rule: impl Fn(&mut OutboxDraft<'_>, DecisionContext<'_>) -> Result<T> + Send + Sync,
) -> Result<T> {
    let rule = |cache: &RecordCache, decision_context: DecisionContext<'_>| {
        let mut draft = OutboxDraft::new(cache);
        let answer = rule(&mut draft, decision_context)?;
        let mut batch = Batch::default();
        batch.add_outbox_changes(draft.into_changes()?, &[]);
        Ok(RuleResult::Write { batch, cache_update: CacheUpdate::Nothing, answer: Some(answer) })
    };
    decide_locked(tenant, Lookup { outbox: likely_records, ..Lookup::default() }, rule).await
}

async fn settle(tenant: &Tenant, requests: Vec<SettleOutbox>) -> Result<Vec<Result<OutboxStatus>>> {
    let rows = requests.iter().map(|request| request.id.clone()).collect();
    let likely_records = OutboxLookup { rows, ..OutboxLookup::default() };
    change(tenant, likely_records, |draft, decision_context| outbox::settle(draft, requests.clone(), decision_context))
        .await
}

#[async_trait]
impl OutboxStore for PostgresOutbox {
    async fn claim_outbox(&self, request: ClaimOutbox) -> Result<ClaimedOutbox> {
        let call = |tenant: Arc<Tenant>| async move {
            change(&tenant, OutboxLookup::default(), |draft, decision_context| {
                outbox::claim(draft, &request, decision_context)
            })
            .await
        };
        let release = |tenant: Arc<Tenant>, claimed: ClaimedOutbox| async move {
            let releases: Vec<_> = claimed.rows.iter().map(|row| row.settle(OutboxSettlement::Release)).collect();
            if !releases.is_empty() {
                let _released = settle(&tenant, releases).await;
            }
        };
        self.tenant.run_claim(call, release).await
    }

    async fn extend_outbox(&self, request: ExtendOutbox) -> Result<Timestamp> {
        let likely_records = OutboxLookup { rows: [request.id.clone()].into(), ..OutboxLookup::default() };
        self.change(likely_records, move |draft, decision_context| outbox::extend(draft, &request, decision_context))
            .await
    }

    async fn settle_outbox(&self, requests: Vec<SettleOutbox>) -> Result<Vec<Result<OutboxStatus>>> {
        self.tenant.run_write(None, |tenant| async move { settle(&tenant, requests).await }).await
    }

    async fn load_outbox(&self, id: &OutboxId) -> Result<Option<OutboxRow>> {
        let id = id.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, id.as_str())?;
            let rows = tenant.db().any_connection().read(|sql| &sql.load_outbox, arguments).await?;
            rows.first().map(decode_row).transpose()
        };
        self.tenant.run_read(None, call).await
    }

    async fn list_outbox(&self, query: OutboxQuery) -> Result<Page<OutboxRow>> {
        let call = |tenant: Arc<Tenant>| async move {
            let mut page = PageBuilder::new(query.page.checked_limit()?);
            let scope = CursorScope::new(&tenant.constants.tenant, "list_outbox", &query.cursor_binding());
            let after = Position::from_cursor(&tenant.constants.cursor_key, &scope, query.page.cursor.as_ref())?;
            let mut after = after.map(|at| decode_position(&at)).transpose()?;
            let mut connection = tenant.db().begin_snapshot().await?;
            let mut chunk = (query.page.checked_limit()? + 1).min(CHUNK);
            'all: loop {
                let arguments = list_arguments(&tenant, &query, after.as_ref(), chunk)?;
                let (list_index, is_forward) = (list_index_of(&query.filter), query.direction == Direction::Forward);
                let rows = connection.read(|sql| sql.lists.outbox(list_index, is_forward), arguments).await?;
                let is_last = rows.len() < chunk;
                for row in &rows {
                    let row = decode_row(row)?;
                    after = Some((row.created_at, row.id.clone()));
                    let position = Position::new(row.created_at.as_millis(), row.id.as_str());
                    let bytes = length(row.payload.as_str().len());
                    let is_wanted = query.filter.target.as_ref().is_none_or(|target| row.target == *target);
                    if !page.offer(position, bytes, is_wanted.then_some(row)) {
                        break 'all;
                    }
                }
                if is_last {
                    break;
                }
                chunk = CHUNK;
            }
            connection.commit().await?;
            Ok(page.finish(|at| at.to_cursor(&tenant.constants.cursor_key, &scope)))
        };
        self.tenant.run_read(None, call).await
    }

    async fn count_outbox(&self, filter: &OutboxFilter) -> Result<OutboxCounts> {
        let filter = filter.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, filter.lane.as_ref().map(ToString::to_string))?;
            add(&mut arguments, filter.target.as_ref().map(ToString::to_string))?;
            let mut counts = OutboxCounts::default();
            for row in tenant.db().any_connection().read(|sql| &sql.count_outbox, arguments).await? {
                let status: OutboxStatus =
                    read_text(&row, 0)?.parse().map_err(|_| corrupt("the status of an outbox row"))?;
                if filter.accepted_statuses().contains(&status) {
                    counts.add(status, read_u64(&row, 1)?);
                }
            }
            Ok(counts)
        };
        self.tenant.run_read(None, call).await
    }

    async fn requeue_outbox(&self, request: RequeueOutbox) -> Result<Vec<Requeued>> {
        self.change(OutboxLookup::default(), move |draft, decision_context| {
            outbox::requeue(draft, request.clone(), decision_context)
        })
        .await
    }

    async fn purge_outbox(&self, request: PurgeOutbox) -> Result<u64> {
        self.change(OutboxLookup::default(), move |draft, _| outbox::purge(draft, &request)).await
    }
}

fn decode_row(row: &sqlx::postgres::PgRow) -> Result<OutboxRow> {
    let stored = decode::<StoredOutboxRow>("outbox row", &read_text(row, 0)?)?;
    let payload =
        Json::parse(&read_text(row, 1)?).map_err(|e| corrupt("the payload of an outbox row").with_source(e))?;
    Ok(OutboxRow::new(stored, payload))
}

/// Returns the index of the statement that lists the rows of a filter: 0 for all rows, 1 for those of a lane, 2 for
/// those of a target of a lane.
fn list_index_of(filter: &OutboxFilter) -> usize {
    match (&filter.lane, &filter.target) {
        (None, _) => 0,
        (Some(_), None) => 1,
        (Some(_), Some(_)) => 2,
    }
}

fn list_arguments(
    tenant: &Tenant,
    query: &OutboxQuery,
    after: Option<&(Timestamp, OutboxId)>,
    chunk: usize,
) -> Result<PgArguments> {
    let filter = &query.filter;
    let statuses =
        filter.statuses.as_ref().map(|_| filter.accepted_statuses().iter().map(|it| it.name()).collect::<Vec<_>>());
    let start = if query.direction == Direction::Forward { i64::MIN } else { i64::MAX };
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    add(&mut arguments, filter.lane.as_ref().map(ToString::to_string))?;
    add(&mut arguments, filter.target.as_ref().filter(|_| filter.lane.is_some()).map(ToString::to_string))?;
    add(&mut arguments, statuses)?;
    add(&mut arguments, after.map_or(Ok(start), |(time, _)| signed(time.as_millis()))?)?;
    add(&mut arguments, after.map_or("", |(_, id)| id.as_str()))?;
    add(&mut arguments, i64::try_from(chunk).unwrap_or(i64::MAX))?;
    Ok(arguments)
}

fn decode_position(at: &Position) -> Result<(Timestamp, OutboxId)> {
    let malformed = |e: Error| Error::invalid_cursor("it is malformed").with_source(e);
    Ok((Timestamp::from_millis(at.rank).map_err(malformed)?, OutboxId::new(&at.id).map_err(malformed)?))
}
