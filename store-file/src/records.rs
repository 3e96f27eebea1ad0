//! Records as the logs have them, and what is read of several of them.

use store_core::{Event, Result, Scope, TenantId, Thread, ThreadId, Version, codec::DecodeError, thread::StoredThread};

use crate::{
    codec::{PlaceRow, Rows, damaged},
    error,
    index::{Direction, after_prefix},
    line,
    log::{Span, decode_line, read_line, read_lines},
    shared::Shared,
    table,
    tails::Tails,
    vfs::read_exact_at,
};

/// Reads one line of a log.
pub(crate) fn read<T>(
    shared: &Shared,
    log: u64,
    span: Span,
    decode: impl FnOnce(&str) -> std::result::Result<T, DecodeError>,
) -> Result<T> {
    let (file, path) = shared.open_log(log)?;
    decode_line(&path, span, &read_line(&*file, &path, span)?, decode)
}

/// Reads the bytes in the place of a line, whatever they are.
///
/// # Errors
/// `Corrupt` if the log is not the one that the index knows, or too short; an error of the operating system.
pub(crate) fn read_unproved(shared: &Shared, log: u64, span: Span) -> Result<Vec<u8>> {
    let (file, path) = shared.open_log(log)?;
    let mut bytes = vec![0; usize::try_from(span.len).unwrap_or(usize::MAX)];
    read_exact_at(&*file, &mut bytes, span.offset).map_err(|source| error::io(&path, source))?;
    Ok(bytes)
}

/// Reads one line of a log that may not be written yet.
pub(crate) fn read_beside<T>(
    shared: &Shared,
    tails: &Tails,
    at: (u64, Span),
    decode: impl FnOnce(&str) -> std::result::Result<T, DecodeError>,
) -> Result<T> {
    let (log, span) = at;
    match tails.line(log, span) {
        Some((line, path)) => decode_line(path, span, line, decode),
        None => read(shared, log, span, decode),
    }
}

/// Reads several lines of a log, in the order of `spans`.
pub(crate) fn read_all<T>(
    shared: &Shared,
    log: u64,
    spans: &[Span],
    decode: fn(&str) -> std::result::Result<T, DecodeError>,
) -> Result<Vec<T>> {
    let (file, path) = shared.open_log(log)?;
    let lines = read_lines(&*file, &path, spans)?;
    lines.iter().zip(spans).map(|(line, span)| decode_line(&path, *span, line, decode)).collect()
}

/// The thread with the incarnation of the store in its versions.
pub(crate) fn stamp(mut stored: StoredThread, incarnation: u64) -> StoredThread {
    stamp_thread(&mut stored.thread, incarnation);
    stored
}

/// Sets the incarnation of the store in a thread's versions: logs and index do not know it.
pub(crate) fn stamp_thread(thread: &mut Thread, incarnation: u64) {
    for version in [&mut thread.version, &mut thread.revision] {
        *version = Version::new(version.number(), version.generation(), incarnation);
    }
}

/// A thread's parent and all above it, the nearest first; empty if it does not exist.
pub(crate) fn ancestors(
    shared: &Shared,
    rows: &impl Rows,
    tenant: &TenantId,
    parent: &ThreadId,
) -> Result<Vec<ThreadId>> {
    let mut found = Vec::new();
    let mut next = Some(parent.clone());
    while let Some(id) = next {
        let Some(row) = shared.known_thread(rows, tenant, &id)? else { break };
        found.push(id);
        next = row.stored.thread.parent_thread_id;
    }
    Ok(found)
}

/// The events of a scope after a sequence number, for a trim by time.
pub(crate) fn oldest(
    shared: &Shared,
    tenant: &TenantId,
    scope: &Scope,
    floor: u64,
) -> impl Iterator<Item = Result<Event>> {
    let snapshot = shared.index.snapshot();
    let list = table::event_places(tenant, scope);
    let end = after_prefix(list.as_bytes());
    let mut at = list.number(floor).into_bytes();
    std::iter::from_fn(move || {
        at.push(0);
        let next = snapshot.range(&at, &end, Direction::Forward).next()?;
        let found = next.and_then(|(key, value)| {
            at = key;
            let place = PlaceRow::decode(&value).ok_or_else(|| damaged("place of an event"))?;
            read(shared, place.log, place.span, line::decode_event)
        });
        Some(found.map(|stored| stored.event))
    })
}
