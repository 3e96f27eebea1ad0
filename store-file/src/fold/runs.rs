//! What the record of a run changes in the index.

use store_core::{Result, Run, RunListKey, TenantId, codec::Codec as _};

use super::Owner;
use crate::{
    codec::{Rows, RunRow},
    index::Key,
    log::Span,
    staged::Staged,
    table,
};

/// Writes the row of a run, and moves its places in lists.
pub(super) fn put(staged: &mut Staged<'_>, owner: &Owner, run: &Run, span: Span) -> Result<()> {
    let Owner { tenant, log, .. } = owner;
    let row = RunRow::of(*log, span, run);
    if let Some(old) = staged.run_row(tenant, &run.id)? {
        for place in run_places(tenant, run.id.as_str(), &old) {
            staged.delete(place);
        }
    }
    for place in run_places(tenant, run.id.as_str(), &row) {
        staged.put(place, []);
    }
    staged.put(table::run(tenant, &run.id), row.encode());
    staged.put(table::log_run(*log, &run.id), []);
    Ok(())
}

/// The places of a run in lists.
pub(crate) fn run_places(tenant: &TenantId, id: &str, row: &RunRow) -> Vec<Key> {
    let parent = row.parent_run.as_ref().map(RunListKey::Parent);
    let scopes =
        [RunListKey::All, RunListKey::Thread(&row.thread), RunListKey::Status(row.status)].into_iter().chain(parent);
    scopes.map(|scope| table::place(table::run_list(tenant, scope), row.created_at, id)).collect()
}
