//! Reading the mailbox.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgRow};
use store_core::{
    CursorScope, Direction, Dispatch, DispatchCounts, DispatchId, DispatchOrder, DispatchQuery, Error, MailboxReader,
    Page, PageBuilder, PageRequest, Position, Purge, ReadyThread, Result, ThreadId, Timestamp,
    commit::DecisionContext,
    length,
    mailbox::{self, DispatchBody, DispatchListKey, DispatchState, StoredDispatch, StoredMailboxThread},
};

use super::PostgresMailbox;
use crate::{
    cache::{self, MailboxLookup, RecordCache, decode},
    columns::{read_i64, read_text, read_u64},
    db::{Connection, add, signed, unsigned},
    tenant::Tenant,
};

/// How many rows of a page are read at once.
const CHUNK: usize = 256;
/// The rank of threads with expired leases in the list of ready threads. It is above every priority (0 to 255), so that
/// these threads come last.
const EXPIRED_LEASE_RANK: u64 = 256;

#[async_trait]
impl MailboxReader for PostgresMailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        let id = id.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut reader = MailboxSnapshot::open(&tenant).await?;
            reader.load(super::dispatches_lookup([&id])).await?;
            let found = reader.run_rule(|cache| {
                let stored = mailbox::MailboxView::dispatch(cache, &id)?;
                stored.map(|stored| mailbox::visible_dispatch(cache, &stored)).transpose()
            });
            let found = found.await?;
            reader.connection.commit().await?;
            Ok(found)
        };
        self.tenant.run_read(None, call).await
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        query.check()?;
        let call = |tenant: Arc<Tenant>| async move {
            let mut page = PageBuilder::new(query.page.checked_limit()?);
            let scope = CursorScope::new(&tenant.constants.tenant, "list_dispatches", &query.cursor_binding());
            let mut after = Position::from_cursor(&tenant.constants.cursor_key, &scope, query.page.cursor.as_ref())?;
            let mut reader = MailboxSnapshot::open(&tenant).await?;
            let mut chunk = (query.page.checked_limit()? + 1).min(CHUNK);
            'all: loop {
                let rows = load_rows(&tenant, &mut reader.connection, &query, (after.as_ref(), chunk)).await?;
                let is_last = rows.len() < chunk;
                for (position, dispatch) in reader.load_visible(rows).await? {
                    after = Some(position.clone());
                    let bytes = dispatch.payload.as_ref().map_or(0, |payload| payload.as_str().len());
                    let item = query.filter.admits(&dispatch).then_some(dispatch);
                    if !page.offer(position, length(bytes), item) {
                        break 'all;
                    }
                }
                if is_last {
                    break;
                }
                chunk = CHUNK;
            }
            reader.connection.commit().await?;
            Ok(page.finish(|at| at.to_cursor(&tenant.constants.cursor_key, &scope)))
        };
        self.tenant.run_read(None, call).await
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        let thread = thread.cloned();
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, thread.as_ref().map(ThreadId::as_str))?;
            let rows = tenant.db().any_connection().read(|sql| &sql.load_mailboxes, arguments).await?;
            rows.iter().try_fold(DispatchCounts::default(), |sum, row| {
                Ok(sum.plus(&decode::<StoredMailboxThread>("mailbox", &read_text(row, 0)?)?.counts))
            })
        };
        self.tenant.run_read(None, call).await
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        let call = |tenant: Arc<Tenant>| async move { list_ready(&tenant, &page).await };
        if self.tenant.shared.config.read_only {
            return self.tenant.run_read(None, call).await;
        }
        self.tenant.run_write(None, call).await
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        let id = thread.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, id.as_str())?;
            let rows = tenant.db().any_connection().read(|sql| &sql.load_epoch, arguments).await?;
            rows.first().map_or(Ok(0), |row| read_u64(row, 0))
        };
        self.tenant.run_read(Some(thread.clone()), call).await
    }
}

/// A reader of the mailbox. All its reads see one snapshot of the database.
struct MailboxSnapshot<'a> {
    tenant: &'a Tenant,
    connection: Connection<'a>,
    cache: RecordCache,
}

impl<'a> MailboxSnapshot<'a> {
    async fn open(tenant: &'a Tenant) -> Result<Self> {
        Ok(Self::with_connection(tenant, tenant.db().begin_snapshot().await?))
    }

    fn with_connection(tenant: &'a Tenant, connection: Connection<'a>) -> Self {
        let mut cache = RecordCache::new(Arc::clone(&tenant.constants), None);
        cache.is_fresh = true;
        Self { tenant, connection, cache }
    }

    /// Makes all due dispatches available, then returns a reader. In a store that is opened for reading only, this
    /// change is rolled back in the end.
    async fn with_due_dispatches_available(tenant: &'a Tenant) -> Result<Self> {
        let mut arguments = PgArguments::default();
        add(&mut arguments, tenant.constants.tenant.as_str())?;
        let db = tenant.db();
        let mut trial_transaction =
            if tenant.shared.config.read_only { Some(db.begin_transaction().await?) } else { None };
        let made_available = trial_transaction
            .as_mut()
            .unwrap_or(&mut db.any_connection())
            .write(|sql| &sql.make_due_available, arguments)
            .await;
        made_available.map_err(|failed| failed.error)?;
        match trial_transaction {
            Some(trial_transaction) => Ok(Self::with_connection(tenant, trial_transaction)),
            None => Self::open(tenant).await,
        }
    }

    async fn load(&mut self, lookup: MailboxLookup) -> Result<()> {
        cache::load_mailbox(&mut self.connection, &mut self.cache, lookup, false).await
    }

    /// Runs a rule, and loads the records that are missing, until no more are missing.
    async fn run_rule<T>(&mut self, rule: impl Fn(&RecordCache) -> Result<T>) -> Result<T> {
        loop {
            let answer = rule(&self.cache);
            match self.cache.take_missing() {
                Some(missing) => self.load(missing.mailbox).await?,
                None => return answer,
            }
        }
    }

    /// Returns the positions of the next threads that may be ready, each with the thread, or `None` if it is not ready.
    async fn next_ready(
        &mut self,
        after: Option<&Position>,
        chunk: usize,
    ) -> Result<Vec<(Position, Option<ReadyThread>)>> {
        let mut arguments = PgArguments::default();
        add(&mut arguments, self.tenant.constants.tenant.as_str())?;
        add(&mut arguments, after.map_or(Ok(-1), |at| signed(at.extra_number))?)?;
        add(&mut arguments, after.map_or(Ok(-1), |at| signed(at.rank))?)?;
        add(&mut arguments, after.map_or("", |at| at.id.as_str()))?;
        add(&mut arguments, signed(EXPIRED_LEASE_RANK)?)?;
        add(&mut arguments, i64::try_from(chunk).unwrap_or(i64::MAX))?;
        let rows = self.connection.read(|sql| &sql.list_ready_threads, arguments).await?;
        let position = |row: &PgRow| {
            let at = Position::new(unsigned(read_i64(row, 1)?)?, read_text(row, 2)?);
            Ok(Position { extra_number: unsigned(read_i64(row, 0)?)?, ..at })
        };
        let positions = rows.iter().map(position).collect::<Result<Vec<_>>>()?;
        let threads = positions.iter().map(|at| at.id.parse()).collect::<Result<Vec<ThreadId>>>()?;
        self.load(MailboxLookup { threads: threads.iter().cloned().collect(), ..MailboxLookup::default() }).await?;
        let (now, config) = (self.tenant.db().clock.now()?, &self.tenant.shared.config);
        let found = self.run_rule(|cache| {
            let decision_context = DecisionContext::new(now, &config.limits, &*config.ids);
            let found: Vec<_> =
                threads.iter().map(|thread| mailbox::ready_thread(cache, thread, decision_context)).collect();
            found.into_iter().collect::<Result<Vec<_>>>()
        });
        Ok(positions.into_iter().zip(found.await?).collect())
    }

    /// Returns dispatches in the form in which callers get them. The missing records of all are loaded together.
    async fn load_visible(&mut self, rows: Vec<(Position, StoredDispatch)>) -> Result<Vec<(Position, Dispatch)>> {
        self.run_rule(|cache| {
            let dispatches: Vec<_> = rows.iter().map(|(_, stored)| mailbox::visible_dispatch(cache, stored)).collect();
            let positions = rows.iter().map(|(position, _)| position.clone());
            positions.zip(dispatches).map(|(position, dispatch)| Ok((position, dispatch?))).collect()
        })
        .await
    }
}

fn decode_dispatch(row: &PgRow, at: usize) -> Result<StoredDispatch> {
    let body = Arc::new(decode::<DispatchBody>("dispatch", &read_text(row, at)?)?);
    Ok(StoredDispatch::new(body, decode::<DispatchState>("dispatch", &read_text(row, at + 1)?)?))
}

/// Returns the next dispatches of a list, with their positions.
async fn load_rows(
    tenant: &Tenant,
    connection: &mut Connection<'_>,
    query: &DispatchQuery,
    (after, chunk): (Option<&Position>, usize),
) -> Result<Vec<(Position, StoredDispatch)>> {
    let is_forward = query.direction == Direction::Forward;
    let (mut statuses, mut thread) = (Vec::new(), query.filter.thread.as_ref().map(ThreadId::as_str));
    for key in query.filter.list_keys() {
        if let DispatchListKey::Status(status) = key {
            statuses.push(status.name());
        }
    }
    let is_by_status = query.filter.thread.is_none() && query.filter.statuses.is_some();
    let list_index = match query.order {
        DispatchOrder::Creation if thread.is_some() => 1,
        DispatchOrder::Creation if is_by_status => 2,
        DispatchOrder::Creation => 0,
        DispatchOrder::End => 3,
        DispatchOrder::Claim => 4,
    };
    if query.order == DispatchOrder::End {
        // The statement lists the dispatches of all threads. The filter of the caller is applied to the rows later.
        thread = None;
    }
    let start = if is_forward { -1 } else { i64::MAX };
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    add(&mut arguments, thread)?;
    add(&mut arguments, statuses)?;
    // In the order of claims, the priority comes first.
    let in_claim_order = query.order == DispatchOrder::Claim;
    let first = after.map_or(Ok(start), |at| signed(if in_claim_order { at.extra_number } else { at.rank }))?;
    add(&mut arguments, first)?;
    add(&mut arguments, after.map_or(Ok(start), |at| signed(at.rank))?)?;
    add(&mut arguments, after.map_or("", |at| at.id.as_str()))?;
    add(&mut arguments, i64::try_from(chunk).unwrap_or(i64::MAX))?;
    let rows = connection.read(|sql| sql.lists.dispatches(list_index, is_forward), arguments).await?;
    let read = |row: &PgRow| {
        let stored = decode_dispatch(row, 2)?;
        let position = if in_claim_order {
            Position { extra_number: unsigned(read_i64(row, 0)?)?, ..Position::new(unsigned(read_i64(row, 1)?)?, "") }
        } else {
            Position::new(unsigned(read_i64(row, 0)?)?, stored.id().as_str())
        };
        Ok((position, stored))
    };
    rows.iter().map(read).collect()
}

/// Returns the dispatches that a purge names, or else those that ended before a time, oldest first.
pub(super) async fn ended_before(tenant: &Tenant, request: &Purge) -> Result<Vec<DispatchId>> {
    if !request.ids.is_empty() {
        return Ok(request.ids.clone());
    }
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    add(&mut arguments, signed(request.before.as_millis())?)?;
    add(&mut arguments, i64::from(request.limit))?;
    let rows = tenant.db().any_connection().read(|sql| &sql.list_ended_before, arguments).await?;
    rows.iter().map(|row| read_text(row, 0)?.parse()).collect()
}

async fn list_ready(tenant: &Tenant, request: &PageRequest) -> Result<Page<ReadyThread>> {
    let limit = request.checked_limit()?;
    let mut page = PageBuilder::new(limit);
    let scope = CursorScope::new(&tenant.constants.tenant, "list_ready_threads", "");
    let mut after = Position::from_cursor(&tenant.constants.cursor_key, &scope, request.cursor.as_ref())?;
    let malformed = |e: Error| Error::invalid_cursor("it is malformed").with_source(e);
    if let Some(after) = &after {
        ThreadId::new(&after.id).map_err(malformed)?;
        Timestamp::from_millis(after.rank).map_err(malformed)?;
    }
    let mut reader = MailboxSnapshot::with_due_dispatches_available(tenant).await?;
    'all: loop {
        let found = reader.next_ready(after.as_ref(), limit + 1).await?;
        let is_last = found.len() <= limit;
        for (position, item) in found {
            after = Some(position.clone());
            if !page.offer(position, 0, item) {
                break 'all;
            }
        }
        if is_last {
            break;
        }
    }
    reader.connection.roll_back().await?;
    Ok(page.finish(|at| at.to_cursor(&tenant.constants.cursor_key, &scope)))
}
