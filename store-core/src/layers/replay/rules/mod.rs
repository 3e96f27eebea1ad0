//! The rules of the replay log: which appends are well formed, what repeats a record, what is written, what is a hole.

use std::collections::BTreeSet;

use super::{
    keys,
    plan::{PlannedReplay, ReplayPlan},
    record::{
        NewReplay, PlacedRecord, ReplayContent, ReplayPayload, ReplayRecord, ReplayStreamRef, StoredExpiry,
        StoredReplay,
    },
    request::AppendReplay,
};
use crate::{
    codec::Extra,
    document::{DocumentChange, DocumentExpect},
    error::{Detail, Error, Result},
    event::{Event, EventVisibility, NewEvent},
    id::WireEventId,
    layers::encoded,
    limits::length,
    log::Direction,
    page::{Cursor, MAX_BYTES_READ},
    time::Timestamp,
};

/// Refuses an append that no store accepts.
///
/// # Errors
/// `Invalid` for no record, a record without bytes, a wire id that is named twice, and a claim without its thread.
pub(super) fn check_append(request: &AppendReplay) -> Result<()> {
    if request.fence.is_some() && request.thread.is_none() {
        return Err(Error::invalid("fence", "it needs the thread that it belongs to"));
    }
    check_records(&request.records)
}

pub(super) fn check_records(records: &[NewReplay]) -> Result<()> {
    if records.is_empty() {
        return Err(Error::invalid("replay", "there are no records in the call"));
    }
    let mut wire_ids = BTreeSet::new();
    for (index, record) in records.iter().enumerate() {
        let refused = |reason| Err(Error::invalid("replay record", reason).in_part(format!("records[{index}]")));
        if record.bytes.is_empty() {
            return refused("it has no bytes");
        }
        if !wire_ids.insert(&record.wire_id) {
            return refused("its wire id is named twice");
        }
    }
    Ok(())
}

/// Returns the error for a wire id that belongs to another record.
pub(super) fn mismatch(wire_id: &WireEventId) -> Error {
    Error::new(Detail::IdempotencyMismatch { key: wire_id.to_string() })
}

/// Refuses a record under the wire id of an earlier one with other content (RP-3).
///
/// The time of the expiry does not count: a writer that starts again states a later one. Nor do the bytes of a record
/// that was redacted: no digest of them is kept, because a short text can be found by its digest.
///
/// # Errors
/// `IdempotencyMismatch`.
pub(super) fn check_repeat(known: &ReplayRecord, new: &NewReplay) -> Result<()> {
    let same_bytes = match &known.content {
        ReplayContent::Bytes(bytes) => *bytes == new.bytes,
        ReplayContent::Redacted { .. } => true,
    };
    let same_sources = known.sources.iter().map(|source| &source.id).eq(new.sources.iter().map(|source| &source.id));
    let same_type = (&known.wire_type, &known.projector_version) == (&new.wire_type, &new.projector_version);
    if same_bytes && same_sources && same_type { Ok(()) } else { Err(mismatch(&new.wire_id)) }
}

/// The document of an expired record whose event is gone: a purge was interrupted. A new record replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Remnant {
    pub(super) revision: u64,
    pub(super) expires_at: Timestamp,
}

/// What is stored under a wire id.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    Remnant(Remnant),
    Record(Box<ReplayRecord>),
}

impl ReplayPlan {
    pub(super) const fn empty() -> Self {
        Self { changes: Vec::new(), events: Vec::new(), records: Vec::new() }
    }

    /// Plans a new record. `after` is a position that the stream has already reached.
    pub(super) fn add(
        &mut self,
        stream: &ReplayStreamRef,
        new: &NewReplay,
        after: Option<&Cursor>,
        remnant: Option<Remnant>,
    ) -> Result<()> {
        let stored = StoredReplay::new(stream, after.cloned(), new).value()?;
        let expect = remnant.map_or(DocumentExpect::Absent, |remnant| DocumentExpect::Revision(remnant.revision));
        self.changes.push(DocumentChange::put(stream.document(&new.wire_id)?, stored).expecting(expect));
        if let Some(time) = new.expires_at {
            let expiry = stream.expiry_document(&new.wire_id, time)?;
            self.changes.push(DocumentChange::put(expiry, encoded(&StoredExpiry::of(stream))?));
        }
        // Otherwise the next purge would remove the new record for the old one.
        if let Some(old) = remnant.map(|remnant| remnant.expires_at).filter(|old| new.expires_at != Some(*old)) {
            self.changes.push(DocumentChange::delete(stream.expiry_document(&new.wire_id, old)?));
        }
        let payload = ReplayPayload {
            stream: stream.stream().clone(),
            protocol: stream.protocol().clone(),
            version: stream.version().clone(),
            wire_id: new.wire_id.clone(),
            wire_type: new.wire_type.clone(),
            size: length(new.bytes.len()),
            projector: new.projector_version.clone(),
            sources: new.sources.clone(),
            expires_at: new.expires_at,
            extra: Extra::default(),
        };
        let event = NewEvent::new(keys::event_kind()?, [stream.scope()?]).with_payload(encoded(&payload)?);
        self.events.push(event.with_visibility(EventVisibility::Internal));
        self.records.push(PlannedReplay::New(Box::new(new.clone())));
        Ok(())
    }
}

/// Reads the event after the one with the number `previous` in the direction of a walk, and raises `previous`. Without
/// a number the walk begins at an end of the stream, wherever that is.
///
/// # Errors
/// `Corrupt` if the event describes no record, or if records before it are missing: retention removes the oldest ones
/// only, and a walk after these is refused (RP-9).
pub(super) fn next_in_order(event: &Event, previous: &mut Option<u64>, direction: Direction) -> Result<PlacedRecord> {
    let placed = PlacedRecord::from_event(event)?;
    let expected = previous.map(|previous| match direction {
        Direction::Forward => previous.saturating_add(1),
        Direction::Backward => previous.saturating_sub(1),
    });
    if let Some(expected) = expected.filter(|expected| *expected != placed.sequence) {
        return Err(Error::corrupt(format!("replay stream {}: record {expected} is missing", placed.stream)));
    }
    *previous = Some(placed.sequence);
    Ok(placed)
}

/// Cuts a page after as many records as may be read at once (PG-10), but never before its first one. Returns the cursor
/// after the page, if it was cut.
pub(super) fn cut_page(records: &mut Vec<PlacedRecord>) -> Option<Cursor> {
    let mut bytes = 0_u64;
    let is_too_much = |record: &PlacedRecord| {
        bytes = bytes.saturating_add(record.payload.size);
        bytes > MAX_BYTES_READ
    };
    let kept = records.iter().position(is_too_much)?.max(1);
    if kept >= records.len() {
        return None;
    }
    records.truncate(kept);
    records.last().map(|record| record.cursor.clone())
}

#[cfg(test)]
mod tests;
