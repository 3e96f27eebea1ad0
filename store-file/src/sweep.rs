//! Removes from the index what lies below the floor of a scope.

use store_core::{Result, Scope, TenantId, event};

use crate::{
    codec::{PlaceRow, Rows, damaged},
    index::{Direction, Index, Key},
    staged::Staged,
    table,
};

/// How many events a step of a sweep removes.
pub(crate) const STEP: usize = 1_000;

/// One step of a sweep; `false` if there was nothing to do.
pub(crate) fn sweep_step(index: &Index, what: (&TenantId, &Scope), now: store_core::Timestamp) -> Result<bool> {
    let (tenant, scope) = what;
    let snapshot = index.snapshot();
    let floor = snapshot.scope_state(tenant, scope)?.floor;
    let mut staged = Staged::new(index);
    let mut swept = false;
    for pair in snapshot.prefix(table::event_places(tenant, scope).as_bytes(), Direction::Forward).take(STEP) {
        let (key, value) = pair?;
        if table::last_number(&key).is_none_or(|seq| seq > floor) {
            break;
        }
        swept = true;
        staged.delete(Key::from_bytes(&key));
        let place = PlaceRow::decode(&value).ok_or_else(|| damaged("place of an event"))?;
        let Some(row) = staged.event_row(tenant, &place.id)? else { continue };
        if staged.is_in_scope(tenant, &row)? {
            continue;
        }
        staged.delete(table::event(tenant, &place.id));
        staged.delete(table::log_events(row.log).number(row.span.offset));
        if let Some((writer, name)) = &row.key
            && let Some(key) = staged.event_key_row(tenant, writer, name)?
        {
            let mut has_event = false;
            // The last ones go last.
            for id in key.record.events.iter().rev() {
                has_event = staged.event_row(tenant, id)?.is_some();
                if has_event {
                    break;
                }
            }
            if !event::must_keep_event_key(&key.record, has_event, now) {
                staged.delete(table::event_key(tenant, writer, name));
                staged.delete(table::log_event_key(key.log, writer, name));
            }
        }
    }
    index.apply(&staged.into_changes())?;
    Ok(swept)
}
