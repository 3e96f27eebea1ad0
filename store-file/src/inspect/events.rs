//! What the index says of the events of a log, compared with the log: other logs may have events of the same scopes,
//! and what was trimmed is not there.

use store_core::{EventId, Result, TenantId, codec::Codec};

use crate::{
    codec::{EventRow, Rows, damaged, read},
    fold,
    index::{Direction, Index, Snapshot},
    staged::Staged,
    table,
};

/// An event of a log.
type Found = (EventId, EventRow);

/// The key of something about events that the log gives and the index lacks.
pub(super) fn missing(rebuilt: &Index, stored: &Snapshot, tenant: &TenantId) -> Result<Option<Vec<u8>>> {
    for pair in rebuilt.snapshot().prefix(table::scopes(tenant).as_bytes(), Direction::Forward) {
        let (key, _) = pair?;
        let (_, scope) = table::read_scope(&key).ok_or_else(|| damaged("scope"))?;
        let (given, has) = (rebuilt.scope_state(tenant, &scope)?, stored.scope_state(tenant, &scope)?);
        if given.count > has.count || given.floor > has.floor {
            return Ok(Some(key));
        }
    }
    for (id, row) in events(rebuilt, tenant)? {
        if !stored.is_in_scope(tenant, &row)? {
            continue;
        }
        let mut is_whole = stored.event_row(tenant, &id)?.is_some();
        for (scope, seq) in &row.places {
            let is_there = *seq > stored.scope_state(tenant, scope)?.floor;
            is_whole &= !is_there || stored.event_place(tenant, scope, *seq)?.is_some_and(|place| place.id == id);
        }
        if !is_whole {
            return Ok(Some(table::event(tenant, &id).into_bytes()));
        }
    }
    Ok(None)
}

/// Writes what a log gives of events into the index.
pub(super) fn restore(rebuilt: &Index, staged: &mut Staged<'_>, tenant: &TenantId) -> Result<()> {
    for pair in rebuilt.snapshot().prefix(table::scopes(tenant).as_bytes(), Direction::Forward) {
        let (key, _) = pair?;
        let (_, scope) = table::read_scope(&key).ok_or_else(|| damaged("scope"))?;
        let (given, mut state) = (rebuilt.scope_state(tenant, &scope)?, staged.scope_state(tenant, &scope)?);
        state.count = state.count.max(given.count);
        state.last_time = state.last_time.max(given.last_time);
        staged.put(table::scope(tenant, &scope), state.trimmed(given.floor).encode());
    }
    for (id, row) in events(rebuilt, tenant)? {
        if staged.is_in_scope(tenant, &row)? {
            fold::events::put(staged, tenant, &row, &id)?;
        }
    }
    Ok(())
}

fn events(rebuilt: &Index, tenant: &TenantId) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for pair in rebuilt.snapshot().prefix(table::events(tenant).as_bytes(), Direction::Forward) {
        let (key, value) = pair?;
        let (_, id) = table::read_event(&key).ok_or_else(|| damaged("event"))?;
        found.push((EventId::new(id)?, read("event", &value)?));
    }
    Ok(found)
}
