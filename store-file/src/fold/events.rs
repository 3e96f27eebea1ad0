//! What lines about events change in the index. Several logs may have events of one scope, and an event may stand in
//! two of them after a crash. The result is the same for every order in which the logs are read.

use store_core::{
    EventId, EventKey, Result, Scope, TenantId, Timestamp, WriterId,
    codec::Codec,
    event::{ScopeState, StoredEvent},
};

use super::{Lines, Owner};
use crate::{
    codec::{EventKeyRow, EventRow, PlaceRow, Rows},
    line::{EventKeyLine, Line},
    log::Span,
    staged::Staged,
    table,
};

/// Works what a group has of events into the index, and nothing else of it.
pub(crate) fn lines(staged: &mut Staged<'_>, owner: &Owner, group: &Lines) -> Result<()> {
    for (line, span) in &group.lines {
        self::line(staged, owner, (line, *span), group.commit.time)?;
    }
    Ok(())
}

pub(super) fn line(staged: &mut Staged<'_>, owner: &Owner, line: (&Line, Span), time: Timestamp) -> Result<()> {
    let (line, span) = line;
    match line {
        Line::Event(stored) => event(staged, owner, (stored, span), time),
        Line::EventKey(line) => key(staged, &owner.tenant, owner.log, line),
        Line::Trim(scope, floor) => trim(staged, &owner.tenant, scope, *floor),
        Line::Count(scope, count) => self::count(staged, &owner.tenant, scope, *count),
        Line::Scope(line) => scope(staged, &owner.tenant, &line.0, &line.1),
        Line::Collection(_) | Line::Document(_) | Line::DamagedDocument(_) | Line::DocumentGone(_) => {
            match owner.generation {
                0 => super::documents::line(staged, owner, (line, span)),
                // Documents of a deleted thread are deleted with it.
                _ => Ok(()),
            }
        }
        _ => super::outbox::line(staged, owner, (line, span)),
    }
}

fn event(staged: &mut Staged<'_>, owner: &Owner, what: (&StoredEvent, Span), time: Timestamp) -> Result<()> {
    let (stored, span) = what;
    let Owner { tenant, log, .. } = owner;
    let id = &stored.event.id;
    for (scope, seq) in stored.scope_numbers() {
        let mut state = staged.scope_state(tenant, &scope)?;
        state.count = state.count.max(seq);
        state.last_time = state.last_time.max(Some(time.max(stored.event.created_at)));
        staged.put(table::scope(tenant, &scope), state.encode());
        staged.tell(tenant, &scope);
    }
    let former = staged.event_row(tenant, id)?;
    let redacted = stored.event.redacted;
    if !redacted && former.as_ref().is_some_and(|former| former.redacted) {
        // The logs are read in another order than they were written.
        staged.put(table::erased(*log).number(span.offset), span.encode());
        return Ok(());
    }
    let mut key = former.as_ref().and_then(|former| former.key.clone());
    if redacted {
        if let Some(former) = former.as_ref().filter(|former| (former.log, former.span) != (*log, span)) {
            staged.put(table::erased(former.log).number(former.span.offset), former.span.encode());
        }
        if let Some((writer, name)) = key.take() {
            forget_key(staged, tenant, &writer, &name)?;
        }
    }
    let row = EventRow { log: *log, span, places: stored.scope_numbers().collect(), key, redacted };
    if !staged.is_in_scope(tenant, &row)? {
        return Ok(());
    }
    if let Some(former) = former {
        staged.delete(table::log_events(former.log).number(former.span.offset));
    }
    put(staged, tenant, &row, id)
}

/// Removes what is remembered of a key.
fn forget_key(staged: &mut Staged<'_>, tenant: &TenantId, writer: &WriterId, name: &EventKey) -> Result<()> {
    let Some(row) = staged.event_key_row(tenant, writer, name)? else { return Ok(()) };
    staged.delete(table::log_event_key(row.log, writer, name));
    staged.delete(table::event_key(tenant, writer, name));
    for id in &row.record.events {
        if let Some(mut event) = staged.event_row(tenant, id)? {
            event.key = None;
            staged.put(table::event(tenant, id), event.encode());
        }
    }
    Ok(())
}

/// Writes an event and its places.
pub(crate) fn put(staged: &mut Staged<'_>, tenant: &TenantId, row: &EventRow, id: &EventId) -> Result<()> {
    for (scope, seq) in &row.places {
        if *seq > staged.scope_state(tenant, scope)?.floor {
            let place = PlaceRow { log: row.log, span: row.span, id: id.clone() };
            staged.put(table::event_places(tenant, scope).number(*seq), place.encode());
        }
    }
    staged.put(table::log_events(row.log).number(row.span.offset), id.as_str());
    staged.put(table::event(tenant, id), row.encode());
    Ok(())
}

/// Writes what is remembered of a key; the newest record counts, if one was forgotten and used again.
pub(crate) fn key(staged: &mut Staged<'_>, tenant: &TenantId, log: u64, line: &EventKeyLine) -> Result<()> {
    let EventKeyLine { writer, key, record } = line;
    if let Some(former) = staged.event_key_row(tenant, writer, key)? {
        if former.record.created_at > record.created_at {
            return Ok(());
        }
        staged.delete(table::log_event_key(former.log, writer, key));
    }
    for id in &record.events {
        if staged.event_row(tenant, id)?.is_some_and(|row| row.redacted) {
            return Ok(());
        }
    }
    for id in &record.events {
        if let Some(mut row) = staged.event_row(tenant, id)? {
            row.key = Some((writer.clone(), key.clone()));
            staged.put(table::event(tenant, id), row.encode());
        }
    }
    let row = EventKeyRow { log, record: record.clone() };
    staged.put(table::event_key(tenant, writer, key), row.encode());
    staged.put(table::log_event_key(log, writer, key), []);
    Ok(())
}

/// The events stand in other logs, which may be damaged.
fn count(staged: &mut Staged<'_>, tenant: &TenantId, scope: &Scope, count: u64) -> Result<()> {
    let mut state = staged.scope_state(tenant, scope)?;
    state.count = state.count.max(count);
    staged.put(table::scope(tenant, scope), state.encode());
    Ok(())
}

/// How a scope stood in another store.
fn scope(staged: &mut Staged<'_>, tenant: &TenantId, scope: &Scope, restored: &ScopeState) -> Result<()> {
    let mut state = staged.scope_state(tenant, scope)?.after_trim(restored.floor);
    state.count = state.count.max(restored.count);
    state.last_time = state.last_time.max(restored.last_time);
    staged.put(table::scope(tenant, scope), state.encode());
    staged.tell(tenant, scope);
    Ok(())
}

/// The events themselves are removed by [`sweep`](crate::events::sweep).
fn trim(staged: &mut Staged<'_>, tenant: &TenantId, scope: &Scope, floor: u64) -> Result<()> {
    let mut state = staged.scope_state(tenant, scope)?;
    state.count = state.count.max(floor);
    staged.put(table::scope(tenant, scope), state.after_trim(floor).encode());
    staged.tell(tenant, scope);
    Ok(())
}
