//! Reading the mailbox.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::{PgArguments, PgRow};
use store_core::{
    CursorScope, Direction, Dispatch, DispatchCounts, DispatchId, DispatchOrder, DispatchQuery, Error, MailboxReader,
    Page, PageBuilder, PageRequest, Position, Purge, ReadyThread, Result, ThreadId, Timestamp,
    commit::DecisionContext,
    length,
    mailbox::{self, DispatchBody, DispatchScope, DispatchState, StoredDispatch, StoredMailbox},
};

use super::PostgresMailbox;
use crate::{
    cache::{self, MailboxLookup, RecordCache, decode},
    columns::{read_i64, read_u64, text},
    db::{Connection, add, signed, unsigned},
    tenant::Tenant,
};

/// How many rows of a page are read at once.
const CHUNK: usize = 256;
/// The priority at which threads with expired leases are listed, after all others.
const EXPIRED_LEASE_RANK: u64 = 256;

#[async_trait]
impl MailboxReader for PostgresMailbox {
    async fn load_dispatch(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        let id = id.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut reader = Reader::open(&tenant).await?;
            reader.load(super::dispatches_lookup([&id])).await?;
            let found = reader.run_rule(|cache| {
                let stored = mailbox::MailboxView::dispatch(cache, &id)?;
                stored.map(|stored| mailbox::visible_dispatch(cache, &stored)).transpose()
            });
            let found = found.await?;
            reader.connection.finish(true).await?;
            Ok(found)
        };
        self.tenant.read(None, call).await
    }

    async fn list_dispatches(&self, query: DispatchQuery) -> Result<Page<Dispatch>> {
        query.check()?;
        let call = |tenant: Arc<Tenant>| async move {
            let mut page = PageBuilder::new(query.page.checked_limit()?);
            let scope = CursorScope::new(&tenant.constants.tenant, "list_dispatches", &query.binding());
            let mut after = Position::open(&tenant.constants.cursors, &scope, query.page.cursor.as_ref())?;
            let mut reader = Reader::open(&tenant).await?;
            let mut chunk = (query.page.checked_limit()? + 1).min(CHUNK);
            'all: loop {
                let rows = load_rows(&tenant, &mut reader.connection, &query, (after.as_ref(), chunk)).await?;
                let is_last = rows.len() < chunk;
                for (position, seen) in reader.load_visible(rows).await? {
                    after = Some(position.clone());
                    let bytes = seen.payload.as_ref().map_or(0, |payload| payload.as_str().len());
                    let item = query.filter.admits(&seen).then_some(seen);
                    if !page.offer(position, length(bytes), item) {
                        break 'all;
                    }
                }
                if is_last {
                    break;
                }
                chunk = CHUNK;
            }
            reader.connection.finish(true).await?;
            Ok(page.finish(|at| at.seal(&tenant.constants.cursors, &scope)))
        };
        self.tenant.read(None, call).await
    }

    async fn count_dispatches(&self, thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        let thread = thread.cloned();
        let call = |tenant: Arc<Tenant>| async move {
            let mut with = PgArguments::default();
            add(&mut with, tenant.constants.tenant.as_str())?;
            add(&mut with, thread.as_ref().map(ThreadId::as_str))?;
            let rows = tenant.db().any().read(|sql| &sql.mailboxes, with).await?;
            rows.iter().try_fold(DispatchCounts::default(), |sum, row| {
                Ok(sum.plus(&decode::<StoredMailbox>("mailbox", &text(row, 0)?)?.counts))
            })
        };
        self.tenant.read(None, call).await
    }

    async fn list_ready_threads(&self, page: PageRequest) -> Result<Page<ReadyThread>> {
        let call = |tenant: Arc<Tenant>| async move { ready(&tenant, &page).await };
        if self.tenant.common.config.read_only {
            return self.tenant.read(None, call).await;
        }
        self.tenant.write(None, call).await
    }

    async fn load_epoch(&self, thread: &ThreadId) -> Result<u64> {
        let id = thread.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut with = PgArguments::default();
            add(&mut with, tenant.constants.tenant.as_str())?;
            add(&mut with, id.as_str())?;
            let rows = tenant.db().any().read(|sql| &sql.load_epoch, with).await?;
            rows.first().map_or(Ok(0), |row| read_u64(row, 0))
        };
        self.tenant.read(Some(thread.clone()), call).await
    }
}

/// A reader of the mailbox. All its reads see one snapshot.
struct Reader<'a> {
    tenant: &'a Tenant,
    connection: Connection<'a>,
    cache: RecordCache,
}

impl<'a> Reader<'a> {
    async fn open(tenant: &'a Tenant) -> Result<Self> {
        Ok(Self::on(tenant, tenant.db().snapshot().await?))
    }

    fn on(tenant: &'a Tenant, connection: Connection<'a>) -> Self {
        let mut cache = RecordCache::new(Arc::clone(&tenant.constants), None);
        cache.is_fresh = true;
        Self { tenant, connection, cache }
    }

    /// Makes all due dispatches available, then returns a reader. In a store that is opened for reading only, this
    /// change is rolled back in the end.
    async fn with_due_promoted(tenant: &'a Tenant) -> Result<Self> {
        let mut with = PgArguments::default();
        add(&mut with, tenant.constants.tenant.as_str())?;
        let db = tenant.db();
        let mut trial = if tenant.common.config.read_only { Some(db.transaction().await?) } else { None };
        let turned = trial.as_mut().unwrap_or(&mut db.any()).write(|sql| &sql.turn_all, with).await;
        turned.map_err(|failed| failed.error)?;
        match trial {
            Some(trial) => Ok(Self::on(tenant, trial)),
            None => Self::open(tenant).await,
        }
    }

    async fn load(&mut self, look: MailboxLookup) -> Result<()> {
        cache::load_mailbox(&mut self.connection, &mut self.cache, look, false).await
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
    async fn ready(&mut self, after: Option<&Position>, chunk: usize) -> Result<Vec<(Position, Option<ReadyThread>)>> {
        let mut with = PgArguments::default();
        add(&mut with, self.tenant.constants.tenant.as_str())?;
        add(&mut with, after.map_or(Ok(-1), |at| signed(at.bound))?)?;
        add(&mut with, after.map_or(Ok(-1), |at| signed(at.rank))?)?;
        add(&mut with, after.map_or("", |at| at.id.as_str()))?;
        add(&mut with, signed(EXPIRED_LEASE_RANK)?)?;
        add(&mut with, i64::try_from(chunk).unwrap_or(i64::MAX))?;
        let rows = self.connection.read(|sql| &sql.ready, with).await?;
        let position = |row: &PgRow| {
            let at = Position::new(unsigned(read_i64(row, 1)?)?, text(row, 2)?);
            Ok(Position { bound: unsigned(read_i64(row, 0)?)?, ..at })
        };
        let positions = rows.iter().map(position).collect::<Result<Vec<_>>>()?;
        let threads = positions.iter().map(|at| at.id.parse()).collect::<Result<Vec<ThreadId>>>()?;
        self.load(MailboxLookup { threads: threads.iter().cloned().collect(), ..MailboxLookup::default() }).await?;
        let (now, config) = (self.tenant.db().clock.now()?, &self.tenant.common.config);
        let found = self.run_rule(|cache| {
            let setting = DecisionContext::new(now, &config.limits, &*config.ids);
            let found: Vec<_> = threads.iter().map(|thread| mailbox::ready_thread(cache, thread, setting)).collect();
            found.into_iter().collect::<Result<Vec<_>>>()
        });
        Ok(positions.into_iter().zip(found.await?).collect())
    }

    /// Returns dispatches in the form in which callers get them. The missing records of all are loaded together.
    async fn load_visible(&mut self, rows: Vec<(Position, StoredDispatch)>) -> Result<Vec<(Position, Dispatch)>> {
        self.run_rule(|cache| {
            let seen: Vec<_> = rows.iter().map(|(_, stored)| mailbox::visible_dispatch(cache, stored)).collect();
            let places = rows.iter().map(|(position, _)| position.clone());
            places.zip(seen).map(|(position, seen)| Ok((position, seen?))).collect()
        })
        .await
    }
}

fn decode_dispatch(row: &PgRow, at: usize) -> Result<StoredDispatch> {
    let body = Arc::new(decode::<DispatchBody>("dispatch", &text(row, at)?)?);
    Ok(StoredDispatch::new(body, decode::<DispatchState>("dispatch", &text(row, at + 1)?)?))
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
    for scope in query.filter.scopes() {
        if let DispatchScope::Status(status) = scope {
            statuses.push(status.name());
        }
    }
    let is_by_status = query.filter.thread.is_none() && query.filter.statuses.is_some();
    let scope = match query.order {
        DispatchOrder::Creation if thread.is_some() => 1,
        DispatchOrder::Creation if is_by_status => 2,
        DispatchOrder::Creation => 0,
        DispatchOrder::End => 3,
        DispatchOrder::Claim => 4,
    };
    if scope == 3 {
        thread = None;
    }
    let end = if is_forward { -1 } else { i64::MAX };
    let mut with = PgArguments::default();
    add(&mut with, tenant.constants.tenant.as_str())?;
    add(&mut with, thread)?;
    add(&mut with, statuses)?;
    // In the order of claims, the priority comes first.
    let of_claims = query.order == DispatchOrder::Claim;
    let first = after.map_or(Ok(end), |at| signed(if of_claims { at.bound } else { at.rank }))?;
    add(&mut with, first)?;
    add(&mut with, after.map_or(Ok(end), |at| signed(at.rank))?)?;
    add(&mut with, after.map_or("", |at| at.id.as_str()))?;
    add(&mut with, i64::try_from(chunk).unwrap_or(i64::MAX))?;
    let rows = connection.read(|sql| sql.lists.dispatches(scope, is_forward), with).await?;
    let read = |row: &PgRow| {
        let stored = decode_dispatch(row, 2)?;
        let position = if of_claims {
            Position { bound: unsigned(read_i64(row, 0)?)?, ..Position::new(unsigned(read_i64(row, 1)?)?, "") }
        } else {
            Position::new(unsigned(read_i64(row, 0)?)?, stored.id().as_str())
        };
        Ok((position, stored))
    };
    rows.iter().map(read).collect()
}

/// Returns the dispatches that ended before a time, oldest first.
pub(super) async fn ended(tenant: &Tenant, request: &Purge) -> Result<Vec<DispatchId>> {
    let mut with = PgArguments::default();
    add(&mut with, tenant.constants.tenant.as_str())?;
    add(&mut with, signed(request.before.as_millis())?)?;
    add(&mut with, i64::from(request.limit))?;
    let rows = tenant.db().any().read(|sql| &sql.ended, with).await?;
    rows.iter().map(|row| text(row, 0)?.parse()).collect()
}

async fn ready(tenant: &Tenant, request: &PageRequest) -> Result<Page<ReadyThread>> {
    let limit = request.checked_limit()?;
    let mut page = PageBuilder::new(limit);
    let scope = CursorScope::new(&tenant.constants.tenant, "list_ready_threads", "");
    let mut after = Position::open(&tenant.constants.cursors, &scope, request.cursor.as_ref())?;
    let malformed = |e: Error| Error::invalid_cursor("it is malformed").with_source(e);
    if let Some(after) = &after {
        ThreadId::new(&after.id).map_err(malformed)?;
        Timestamp::from_millis(after.rank).map_err(malformed)?;
    }
    let mut reader = Reader::with_due_promoted(tenant).await?;
    'all: loop {
        let found = reader.ready(after.as_ref(), limit + 1).await?;
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
    reader.connection.finish(false).await?;
    Ok(page.finish(|at| at.seal(&tenant.constants.cursors, &scope)))
}
