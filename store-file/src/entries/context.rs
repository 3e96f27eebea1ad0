//! The context of a leaf, and the state of a thread.

use store_core::{ContextRequest, Error, Result, TenantId, ThreadContext, ThreadId, ThreadState, context};

use super::load as load_entries;
use crate::{
    codec::{Rows, StoredLog, damaged, read},
    index::{Direction, Snapshot},
    runs,
    shared::Shared,
    table,
    writer::shown,
};

/// Loads the context of a leaf, and what goes with it, as of one moment.
pub(super) fn load(
    shared: &Shared,
    tenant: &TenantId,
    thread: &ThreadId,
    request: &ContextRequest,
) -> Result<ThreadContext> {
    let snapshot = shared.index.snapshot();
    let row = shared.thread_row(&snapshot, tenant, thread)?.ok_or_else(|| Error::not_found("thread", thread))?;
    let log = row.log;
    let leaf = match &request.at {
        Some(id) => Some(snapshot.entry_seq(log, id)?.ok_or_else(|| Error::not_found("entry", id))?),
        None => row.stored.head_seq,
    };
    let mut found = ThreadContext::empty(shown(shared, row.stored));
    if let Some(seq) = leaf {
        let leaf = snapshot.expect_node(log, seq)?;
        let parts = context::parts(&StoredLog(&snapshot, log), &leaf.node)?;
        let rows = parts.iter().map(|part| snapshot.expect_node(log, part.seq())).collect::<Result<Vec<_>>>()?;
        let parts_with_entries = parts.into_iter().zip(load_entries(shared, log, &rows)?).collect();
        found.context = context::build(parts_with_entries, request);
        found.context_size = context::context_size(&leaf.node, &snapshot.marks_of(log, seq)?);
        found.next_checkpoint = context::next_checkpoint(&leaf.node);
        found.at = Some(leaf.id);
    }
    found.state = state(&snapshot, log)?;
    for id in found.thread.latest_run.iter().chain(&found.thread.open_runs) {
        let run = snapshot.live_run_row(tenant, id)?.map(|row| runs::load(shared, &row)).transpose()?;
        let run = run.ok_or_else(|| damaged("run"))?;
        if found.latest_run.is_none() {
            found.latest_run = Some(run);
        } else {
            found.open_runs.push(run);
        }
    }
    Ok(found)
}

/// The state of a thread.
pub(crate) fn state(snapshot: &Snapshot, log: u64) -> Result<ThreadState> {
    let list = table::states(log);
    let mut state = ThreadState::new();
    for pair in snapshot.prefix(list.as_bytes(), Direction::Forward) {
        let (key, value) = pair?;
        let name = table::read_state(&key).ok_or_else(|| damaged("state"))?;
        state.insert(name, read("state", &value)?);
    }
    Ok(state)
}
