//! What the index says of the events of a log, compared with the log: other logs may have events of the same scopes,
//! and what was trimmed is not there.

use store_core::{EventId, EventKey, Result, Scope, TenantId, WriterId, codec::Codec};

use crate::{
    codec::{EventKeyRow, EventRow, Rows, damaged, read},
    fold,
    index::{Direction, Index, Snapshot},
    line::EventKeyLine,
    staged::Staged,
    table,
};

/// An event of a log.
type Found = (EventId, EventRow);

/// The key of something about events that the log gives and the index lacks.
pub(super) fn missing(rebuilt: &Index, stored: &Snapshot, tenant: &TenantId) -> Result<Option<Vec<u8>>> {
    for scope in scopes(rebuilt, tenant)? {
        let (given, has) = (rebuilt.scope_state(tenant, &scope)?, stored.scope_state(tenant, &scope)?);
        if given.count > has.count || given.floor > has.floor {
            return Ok(Some(table::scope(tenant, &scope).into_bytes()));
        }
    }
    for (writer, key, row) in keys(rebuilt, tenant)? {
        // One whose events are trimmed may be forgotten.
        let mut is_needed = false;
        for id in &row.record.events {
            is_needed |= stored.event_row(tenant, id)?.is_some_and(|row| !row.redacted);
        }
        if is_needed && stored.event_key_row(tenant, &writer, &key)?.is_none() {
            return Ok(Some(table::event_key(tenant, &writer, &key).into_bytes()));
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
    for scope in scopes(rebuilt, tenant)? {
        let (given, mut state) = (rebuilt.scope_state(tenant, &scope)?, staged.scope_state(tenant, &scope)?);
        state.count = state.count.max(given.count);
        state.last_time = state.last_time.max(given.last_time);
        staged.put(table::scope(tenant, &scope), state.after_trim(given.floor).encode());
    }
    for (id, row) in events(rebuilt, tenant)? {
        // Of an event that lost its content, the former line may still be there.
        let is_former = !row.redacted && staged.event_row(tenant, &id)?.is_some_and(|found| found.redacted);
        if !is_former && staged.is_in_scope(tenant, &row)? {
            fold::events::put(staged, tenant, &row, &id)?;
        }
    }
    for (writer, key, row) in keys(rebuilt, tenant)? {
        let line = EventKeyLine { writer, key, record: row.record };
        fold::events::key(staged, tenant, row.log, &line)?;
    }
    Ok(())
}

fn scopes(rebuilt: &Index, tenant: &TenantId) -> Result<Vec<Scope>> {
    let mut found = Vec::new();
    for pair in rebuilt.snapshot().prefix(table::scopes(tenant).as_bytes(), Direction::Forward) {
        found.push(table::read_scope(&pair?.0).ok_or_else(|| damaged("scope"))?.1);
    }
    Ok(found)
}

fn keys(rebuilt: &Index, tenant: &TenantId) -> Result<Vec<(WriterId, EventKey, EventKeyRow)>> {
    let mut found = Vec::new();
    for pair in rebuilt.snapshot().prefix(table::event_keys(tenant).as_bytes(), Direction::Forward) {
        let (key, value) = pair?;
        let (writer, name) = table::read_event_key(&key).ok_or_else(|| damaged("event key"))?;
        found.push((writer, name, read("event key", &value)?));
    }
    Ok(found)
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
