//! The threads of a tenant: reading, creating and changing them.

mod admin;
mod delete;

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use store_core::{
    CursorScope, Direction, Error, Page, PageBuilder, Position, Result, Thread, ThreadFilter, ThreadId, ThreadListKey,
    ThreadOrder, ThreadQuery, ThreadReader, Timestamp, length,
    thread::{self, StoredThread},
};

pub(crate) use self::delete::apply_deletion;
use crate::{
    cache::decode,
    columns::{read_text, read_u64},
    db::{Connection, add, signed},
    sql::ThreadList,
    store::TenantHandle,
    tenant::Tenant,
};

/// How many rows are read at once.
const CHUNK: usize = 256;

/// The threads of a tenant, with their logs and runs.
#[derive(Debug, Clone)]
pub(crate) struct PostgresThreads {
    pub(crate) tenant: TenantHandle,
}

impl PostgresThreads {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }
}

#[async_trait]
impl ThreadReader for PostgresThreads {
    async fn load_thread(&self, id: &ThreadId) -> Result<Option<Thread>> {
        let thread = id.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, thread.as_str())?;
            let rows = tenant.db().any_connection().read(|sql| &sql.load_thread, arguments).await?;
            let stored = rows.first().map(|row| decode::<StoredThread>("thread", &read_text(row, 0)?)).transpose()?;
            Ok(stored.map(|stored| stored.thread))
        };
        self.tenant.run_read(Some(id.clone()), call).await
    }

    async fn list_threads(&self, query: ThreadQuery) -> Result<Page<Thread>> {
        let call = |tenant: Arc<Tenant>| async move {
            let mut page = PageBuilder::new(query.page.checked_limit()?);
            let scope = CursorScope::new(&tenant.constants.tenant, "list_threads", &query.cursor_binding());
            let after = Position::from_cursor(&tenant.constants.cursor_key, &scope, query.page.cursor.as_ref())?;
            let mut connection = tenant.db().begin_snapshot().await?;
            let ascends_by_activity = (query.order, query.direction) == (ThreadOrder::LastActivity, Direction::Forward);
            // A list that ascends by activity would return a thread a second time if the thread is written in the
            // meantime. So the list leaves out threads that were written by transactions that began after the first
            // page of the list was read.
            let stamp_bound = match &after {
                _ if !ascends_by_activity => u64::MAX,
                Some(after) => after.extra_number,
                None => next_transaction(&mut connection).await?,
            };
            let mut walk = ThreadWalk::new(&tenant, &query, after.as_ref().map(decode_position).transpose()?)?;
            walk.chunk = (query.page.checked_limit()? + 1).min(CHUNK);
            'all: loop {
                let rows = walk.next(&mut connection).await?;
                let is_last = rows.len() < walk.chunk;
                for (stamp, stored) in rows {
                    let thread = stored.thread;
                    let time = walk.sort_time(&thread);
                    walk.after = Some((time, thread.id.clone()));
                    let position =
                        Position { extra_number: stamp_bound, ..Position::new(time.as_millis(), thread.id.as_str()) };
                    let approximate_bytes = approximate_bytes(&thread);
                    let item = (stamp < stamp_bound && query.filter.admits(&thread)).then_some(thread);
                    if !page.offer(position, approximate_bytes, item) {
                        break 'all;
                    }
                }
                if is_last {
                    break;
                }
                walk.chunk = CHUNK;
            }
            connection.commit().await?;
            Ok(page.finish(|at| at.to_cursor(&tenant.constants.cursor_key, &scope)))
        };
        self.tenant.run_read(None, call).await
    }

    async fn count_threads(&self, filter: &ThreadFilter) -> Result<u64> {
        let mut query = ThreadQuery::default();
        query.filter = filter.clone();
        query.order = ThreadOrder::Creation;
        let call = |tenant: Arc<Tenant>| async move {
            let mut connection = tenant.db().begin_snapshot().await?;
            if query.filter == ThreadFilter::default() {
                let mut arguments = PgArguments::default();
                add(&mut arguments, tenant.constants.tenant.as_str())?;
                let rows = connection.read(|sql| &sql.count_threads, arguments).await?;
                connection.commit().await?;
                return rows.first().map_or(Ok(0), |row| read_u64(row, 0));
            }
            let mut walk = ThreadWalk::new(&tenant, &query, None)?;
            let mut count = 0;
            loop {
                let rows = walk.next(&mut connection).await?;
                count += length(rows.iter().filter(|(_, stored)| query.filter.admits(&stored.thread)).count());
                let Some((_, last)) = rows.last().filter(|_| rows.len() == walk.chunk) else { break };
                walk.after = Some((walk.sort_time(&last.thread), last.thread.id.clone()));
            }
            connection.commit().await?;
            Ok(count)
        };
        self.tenant.run_read(None, call).await
    }

    async fn validate_parent(&self, thread: &ThreadId, parent: &ThreadId) -> Result<()> {
        let (thread, parent) = (thread.clone(), parent.clone());
        let call = |tenant: Arc<Tenant>| async move {
            let mut connection = tenant.db().begin_snapshot().await?;
            let thread_lineage = lineage(&tenant, &mut connection, &thread).await?;
            let parent_lineage = lineage(&tenant, &mut connection, &parent).await?;
            connection.commit().await?;
            if thread_lineage.is_empty() {
                return Err(Error::not_found("thread", &thread));
            }
            thread::check_parent(&thread, &parent, &parent_lineage)
        };
        self.tenant.run_read(None, call).await
    }
}

/// Returns a thread and its ancestors, the thread first; nothing if it does not exist.
pub(crate) async fn lineage(tenant: &Tenant, connection: &mut Connection<'_>, id: &ThreadId) -> Result<Vec<ThreadId>> {
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    add(&mut arguments, id.as_str())?;
    let rows = connection.read(|sql| &sql.load_lineage, arguments).await?;
    rows.iter().map(|row| read_text(row, 0)?.parse()).collect()
}

/// Returns the number of the first transaction that has not begun yet.
async fn next_transaction(connection: &mut Connection<'_>) -> Result<u64> {
    let rows = connection.read(|sql| &sql.next_transaction, PgArguments::default()).await?;
    rows.first().map_or(Ok(0), |row| read_u64(row, 0))
}

/// A walk over threads in the order of their last activity or of their creation.
struct ThreadWalk<'a> {
    tenant: &'a Tenant,
    query: &'a ThreadQuery,
    list: ThreadList,
    /// The parent or the resource whose threads the list contains. `None` for all threads.
    parent_or_resource: Option<String>,
    /// The first time of the list, and the time before which it ends.
    window: (i64, i64),
    after: Option<(Timestamp, ThreadId)>,
    chunk: usize,
}

impl<'a> ThreadWalk<'a> {
    fn new(tenant: &'a Tenant, query: &'a ThreadQuery, after: Option<(Timestamp, ThreadId)>) -> Result<Self> {
        let filter = &query.filter;
        let bound = |time: Option<Timestamp>| time.map(|time| signed(time.as_millis())).transpose();
        let (from, before) = match query.order {
            ThreadOrder::LastActivity => (filter.active_after, filter.active_before),
            ThreadOrder::Creation => (filter.created_after, filter.created_before),
        };
        let by_creation = query.order == ThreadOrder::Creation;
        let (list_index, parent_or_resource) = match filter.list_key() {
            ThreadListKey::Of(parent) => (1, Some(parent.to_string())),
            ThreadListKey::Resource(resource) => (2, Some(resource.to_string())),
            ThreadListKey::All | ThreadListKey::Roots => (0, None),
        };
        let list = ThreadList { list_index, by_creation, is_forward: query.direction == Direction::Forward };
        let window = (bound(from)?.unwrap_or(i64::MIN), bound(before)?.unwrap_or(i64::MAX));
        Ok(Self { tenant, query, list, parent_or_resource, window, after, chunk: CHUNK })
    }

    fn sort_time(&self, thread: &Thread) -> Timestamp {
        match self.query.order {
            ThreadOrder::LastActivity => thread.updated_at,
            ThreadOrder::Creation => thread.created_at,
        }
    }

    async fn next(&mut self, connection: &mut Connection<'_>) -> Result<Vec<(u64, StoredThread)>> {
        let start = if self.list.is_forward { i64::MIN } else { i64::MAX };
        let after = self.after.as_ref().map(|(time, id)| signed(time.as_millis()).map(|time| (time, id.as_str())));
        let (time, id) = after.transpose()?.unwrap_or((start, ""));
        let mut arguments = PgArguments::default();
        add(&mut arguments, self.tenant.constants.tenant.as_str())?;
        add(&mut arguments, self.parent_or_resource.as_deref())?;
        add(&mut arguments, self.window.0)?;
        add(&mut arguments, self.window.1)?;
        add(&mut arguments, time)?;
        add(&mut arguments, id)?;
        add(&mut arguments, i64::try_from(self.chunk).unwrap_or(i64::MAX))?;
        let list = self.list;
        let rows = connection.read(|sql| sql.lists.threads(list), arguments).await?;
        rows.iter().map(|row| Ok((read_u64(row, 0)?, decode::<StoredThread>("thread", &read_text(row, 1)?)?))).collect()
    }
}

fn decode_position(at: &Position) -> Result<(Timestamp, ThreadId)> {
    let malformed = |e: Error| Error::invalid_cursor("it is malformed").with_source(e);
    Ok((Timestamp::from_millis(at.rank).map_err(malformed)?, ThreadId::new(&at.id).map_err(malformed)?))
}

/// Returns the size in bytes of the parts of a thread that may be large.
fn approximate_bytes(thread: &Thread) -> u64 {
    length(thread.metadata.iter().map(|(key, value)| key.len() + value.as_str().len()).sum())
}
