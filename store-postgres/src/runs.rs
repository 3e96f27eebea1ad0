//! Reading runs.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    CursorScope, Direction, Error, Page, PageBuilder, Position, Result, Run, RunFilter, RunId, RunListKey, RunQuery,
    RunReader, Timestamp, length,
};

use crate::{
    cache::decode,
    columns::{read_text, read_u64},
    db::{Connection, add, signed},
    tenant::Tenant,
    threads::PostgresThreads,
};

/// How many rows are read at once.
const CHUNK: usize = 256;

#[async_trait]
impl RunReader for PostgresThreads {
    async fn load_run(&self, id: &RunId) -> Result<Option<Run>> {
        let id = id.clone();
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = sqlx::postgres::PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, id.as_str())?;
            let rows = tenant.db().any_connection().read(|sql| &sql.load_run, arguments).await?;
            rows.first().map(|row| decode::<Run>("run", &read_text(row, 0)?)).transpose()
        };
        self.tenant.run_read(None, call).await
    }

    async fn list_runs(&self, query: RunQuery) -> Result<Page<Run>> {
        let call = |tenant: Arc<Tenant>| async move {
            let mut page = PageBuilder::new(query.page.checked_limit()?);
            let mut connection = tenant.db().begin_snapshot().await?;
            let log_number = match &query.filter.thread {
                Some(id) => Some(log_number(&tenant, &mut connection, id).await?),
                None => None,
            };
            let binding = format!("{:?}", (log_number, query.cursor_binding()));
            let scope = CursorScope::new(&tenant.constants.tenant, "list_runs", &binding);
            let after = Position::from_cursor(&tenant.constants.cursor_key, &scope, query.page.cursor.as_ref())?;
            let after = after.map(|at| decode_position(&at)).transpose()?;
            let mut walk = RunWalk { tenant: &tenant, query: &query, after, chunk: first_chunk(&query)? };
            'all: loop {
                let runs = walk.next(&mut connection).await?;
                let is_last = runs.len() < walk.chunk;
                for run in runs {
                    walk.after = Some((run.created_at, run.id.clone()));
                    let approximate_bytes = approximate_bytes(&run);
                    let position = Position::new(run.created_at.as_millis(), run.id.as_str());
                    let item = query.filter.admits(&run).then_some(run);
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

    async fn count_runs(&self, filter: &RunFilter) -> Result<u64> {
        let query = RunQuery::new(filter.clone());
        let call = |tenant: Arc<Tenant>| async move {
            let mut connection = tenant.db().begin_snapshot().await?;
            let mut walk = RunWalk { tenant: &tenant, query: &query, after: None, chunk: CHUNK };
            let mut count = 0;
            loop {
                let runs = walk.next(&mut connection).await?;
                count += length(runs.iter().filter(|run| query.filter.admits(run)).count());
                let Some(last) = runs.last().filter(|_| runs.len() == CHUNK) else { break };
                walk.after = Some((last.created_at, last.id.clone()));
            }
            connection.commit().await?;
            Ok(count)
        };
        self.tenant.run_read(None, call).await
    }
}

fn first_chunk(query: &RunQuery) -> Result<usize> {
    Ok((query.page.checked_limit()? + 1).min(CHUNK))
}

/// A walk over runs in the order of their creation. Applies the part of the filter that has an index.
struct RunWalk<'a> {
    tenant: &'a Tenant,
    query: &'a RunQuery,
    after: Option<(Timestamp, RunId)>,
    chunk: usize,
}

impl RunWalk<'_> {
    async fn next(&mut self, connection: &mut Connection<'_>) -> Result<Vec<Run>> {
        let filter = &self.query.filter;
        let list_keys = filter.list_keys();
        let (mut thread, mut parent, mut phases) = (None, None, Vec::new());
        for key in &list_keys {
            match key {
                RunListKey::All => {}
                RunListKey::Thread(id) => thread = Some(id.as_str()),
                RunListKey::Parent(id) => parent = Some(id.as_str()),
                RunListKey::Status(phase) => phases.push(phase.name()),
            }
        }
        let bound = |time: Option<Timestamp>| time.map(|time| signed(time.as_millis())).transpose();
        let mut arguments = sqlx::postgres::PgArguments::default();
        add(&mut arguments, self.tenant.constants.tenant.as_str())?;
        add(&mut arguments, thread)?;
        add(&mut arguments, parent)?;
        add(&mut arguments, phases)?;
        add(&mut arguments, bound(filter.created_after)?.unwrap_or(i64::MIN))?;
        add(&mut arguments, bound(filter.created_before)?.unwrap_or(i64::MAX))?;
        let is_forward = self.query.direction == Direction::Forward;
        let start = if is_forward { i64::MIN } else { i64::MAX };
        let after = self.after.as_ref().map(|(time, id)| signed(time.as_millis()).map(|time| (time, id.as_str())));
        let (time, id) = after.transpose()?.unwrap_or((start, ""));
        add(&mut arguments, time)?;
        add(&mut arguments, id)?;
        add(&mut arguments, i64::try_from(self.chunk).unwrap_or(i64::MAX))?;
        let list_index = match (thread, parent) {
            (Some(_), _) => 0,
            (None, Some(_)) => 1,
            (None, None) if matches!(list_keys.as_slice(), [RunListKey::All]) => 2,
            (None, None) => 3,
        };
        let rows = connection.read(|sql| sql.lists.runs(list_index, is_forward), arguments).await?;
        rows.iter().map(|row| decode::<Run>("run", &read_text(row, 0)?)).collect()
    }
}

/// Returns the number of a thread's log, or `None` if the thread does not exist. Every thread has a log of its own,
/// even a thread with the id of a deleted one. Cursors are bound to the log, so that a cursor does not work for a
/// later thread with the same id (TH-24).
async fn log_number(
    tenant: &Tenant,
    connection: &mut Connection<'_>,
    id: &store_core::ThreadId,
) -> Result<Option<u64>> {
    let mut arguments = sqlx::postgres::PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    add(&mut arguments, id.as_str())?;
    let rows = connection.read(|sql| &sql.load_log, arguments).await?;
    rows.first().map(|row| read_u64(row, 0)).transpose()
}

fn decode_position(at: &Position) -> Result<(Timestamp, RunId)> {
    let malformed = |e: Error| Error::invalid_cursor("it is malformed").with_source(e);
    Ok((Timestamp::from_millis(at.rank).map_err(malformed)?, RunId::new(&at.id).map_err(malformed)?))
}

/// Returns the size in bytes of the parts of a run that may be large.
fn approximate_bytes(run: &Run) -> u64 {
    let request = run.request.as_ref().map_or(0, |request| request.as_str().len());
    length(request + run.state.values().map(|value| value.as_str().len()).sum::<usize>())
}
