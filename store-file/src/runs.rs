//! Runs: reading and listing them.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    CursorScope, Direction, Page, PageBuilder, Position, Result, Run, RunFilter, RunId, RunQuery, RunReader, TenantId,
};

use crate::{
    codec::{Rows, RunRow},
    index::Snapshot,
    line, records,
    shared::Shared,
    table,
    tenant::Tenant,
};

#[async_trait]
impl RunReader for Tenant {
    async fn load_run(&self, id: &RunId) -> Result<Option<Run>> {
        let id = id.clone();
        self.read(None, move |shared, tenant| match shared.index.live_run_row(tenant, &id)? {
            Some(row) => load(shared, &row).map(Some),
            None => Ok(None),
        })
        .await
    }

    async fn list_runs(&self, query: RunQuery) -> Result<Page<Run>> {
        self.read(None, move |shared, tenant| list(shared, tenant, &query)).await
    }

    async fn count_runs(&self, filter: &RunFilter) -> Result<u64> {
        let query = RunQuery::new(filter.clone());
        self.read(None, move |shared, tenant| {
            let mut count = 0;
            walk(shared, &shared.index.snapshot(), (tenant, &query, None), |_, run| {
                count += u64::from(query.filter.admits(&run));
                true
            })?;
            Ok(count)
        })
        .await
    }
}

/// A run from its log.
pub(crate) fn load(shared: &Shared, row: &RunRow) -> Result<Run> {
    records::read(shared, row.log, row.span, line::decode_run)
}

fn list(shared: &Arc<Shared>, tenant: &TenantId, query: &RunQuery) -> Result<Page<Run>> {
    let limit = query.page.checked_limit()?;
    let snapshot = shared.index.snapshot();
    // A cursor of a deleted thread is none of the one that is made anew under its id (TH-24).
    let of_thread = query.filter.thread.as_ref().map(|thread| snapshot.thread_row(tenant, thread)).transpose()?;
    let generation = of_thread.map(|row| row.map_or(0, |row| row.stored.thread.generation()));
    let scope = CursorScope::new(tenant, "runs", &format!("{:?}", (generation, query.cursor_binding())));
    let from = Position::from_cursor(&shared.cursor_key, &scope, query.page.cursor.as_ref())?;
    let mut page = PageBuilder::new(limit);
    walk(shared, &snapshot, (tenant, query, from), |row, run| {
        let position = Position::new(row.created_at.as_millis(), run.id.as_str());
        let bytes = u64::from(row.span.len);
        page.offer(position, bytes, query.filter.admits(&run).then_some(run))
    })?;
    Ok(page.finish(|position| position.to_cursor(&shared.cursor_key, &scope)))
}

/// Walks the list that a query is about, from a position on, as long as `each` wants more.
fn walk(
    shared: &Shared,
    snapshot: &Snapshot,
    what: (&TenantId, &RunQuery, Option<Position>),
    mut each: impl FnMut(&RunRow, Run) -> bool,
) -> Result<()> {
    let (tenant, query, from) = what;
    let from = from.or_else(|| beginning(query));
    let lists = query.filter.list_keys().into_iter().map(|scope| {
        let list = table::run_list(tenant, scope);
        let pairs = crate::pages::places(snapshot, &list, query.direction, from.as_ref());
        pairs.map(move |pair| table::read_place(&list, &pair?.0).ok_or_else(|| crate::codec::damaged("run list")))
    });
    let precedes = |a: &Result<(u64, String)>, b: &Result<(u64, String)>| match (a, b, query.direction) {
        (Ok(a), Ok(b), Direction::Forward) => a < b,
        (Ok(a), Ok(b), Direction::Backward) => a > b,
        (a, ..) => a.is_err(),
    };
    for place in store_core::merge_ordered(lists, precedes) {
        let (time, id) = place?;
        if is_past_end(query, time) {
            break;
        }
        let Some(row) = snapshot.live_run_row(tenant, &RunId::new(id)?)? else { continue };
        let run = load(shared, &row)?;
        if !each(&row, run) {
            break;
        }
    }
    Ok(())
}

/// Where the times begin that a query is about (PR-15).
fn beginning(query: &RunQuery) -> Option<Position> {
    let time = match query.direction {
        Direction::Forward => query.filter.created_after,
        Direction::Backward => query.filter.created_before,
    };
    time.map(|time| Position::new(time.as_millis(), ""))
}

/// Whether the query leaves out everything from this time on.
fn is_past_end(query: &RunQuery, time: u64) -> bool {
    match query.direction {
        Direction::Forward => query.filter.created_before.is_some_and(|before| time >= before.as_millis()),
        Direction::Backward => query.filter.created_after.is_some_and(|after| time < after.as_millis()),
    }
}
