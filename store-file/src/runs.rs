//! Runs: reading and listing them.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    CursorScope, Page, PageBuilder, Position, Result, Run, RunFilter, RunId, RunQuery, RunReader, TenantId,
};

use crate::{
    codec::{Rows, RunRow},
    index::Snapshot,
    line,
    shared::Shared,
    table::{self, RunScope},
    tenant::Tenant,
    view,
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
    view::read(shared, row.log, row.span, line::decode_run)
}

fn list(shared: &Arc<Shared>, tenant: &TenantId, query: &RunQuery) -> Result<Page<Run>> {
    let limit = query.page.checked_limit()?;
    let scope = CursorScope::new(tenant, "runs", &query.binding());
    let from = Position::open(&shared.cursor_key, &scope, query.page.cursor.as_ref())?;
    let mut page = PageBuilder::new(limit);
    walk(shared, &shared.index.snapshot(), (tenant, query, from), |row, run| {
        let position = Position::new(row.created_at.as_millis(), run.id.as_str());
        let bytes = u64::from(row.span.len);
        page.offer(position, bytes, query.filter.admits(&run).then_some(run))
    })?;
    Ok(page.finish(|position| position.seal(&shared.cursor_key, &scope)))
}

/// Walks the list that a query is about, from a position on, as long as `each` wants more.
fn walk(
    shared: &Shared,
    snapshot: &Snapshot,
    what: (&TenantId, &RunQuery, Option<Position>),
    mut each: impl FnMut(&RunRow, Run) -> bool,
) -> Result<()> {
    let (tenant, query, from) = what;
    let scope = match (&query.filter.thread, &query.filter.parent_run, query.filter.statuses.as_deref()) {
        (Some(thread), ..) => RunScope::Thread(thread),
        (None, Some(run), _) => RunScope::Parent(run),
        (None, None, Some(&[status])) => RunScope::Status(status),
        (None, None, _) => RunScope::All,
    };
    let list = table::run_list(tenant, scope);
    for pair in crate::pages::places(snapshot, &list, query.direction, from.as_ref()) {
        let (key, _) = pair?;
        let (_, id) = table::read_place(&list, &key).ok_or_else(|| crate::codec::damaged("run list"))?;
        let Some(row) = snapshot.live_run_row(tenant, &RunId::new(id)?)? else { continue };
        let run = load(shared, &row)?;
        if !each(&row, run) {
            break;
        }
    }
    Ok(())
}
