//! The removal of what deletions left, in the index and on the disk, in bounded steps.

use store_core::{Error, ErrorKind, EventId, Outcome, Result, RunId, TenantId};

use crate::{
    codec::{LogRow, Rows, read},
    decoded::remove_run,
    error,
    index::{Direction, Key},
    journal::LogName,
    line::{self, EventKeyLine, Line},
    mutex::guard,
    names::{Part, events_log_id, log_path, mailbox_log_id, outbox_log_id},
    records,
    shared::Shared,
    table,
    writer::{How, Round, alone},
};

/// How many keys a step removes.
const KEYS: usize = 1_000;
/// About how many bytes of events a step moves: so many fit where the reserve was.
const BYTES: u64 = 128 << 10;

/// Removes what deletions left, in the index and on the disk (TH-20). `of` names a tenant, none means all.
pub(crate) fn all(shared: &Shared, of: Option<&TenantId>) -> Result<()> {
    let mut first = Ok(());
    for (log, row) in left_behind(shared, of)? {
        // One log that cannot be read keeps no other from its purge.
        first = first.and(purge(shared, log, &row));
        shared.check_sound()?;
    }
    first
}

/// Removes as much of what deletions left as can be removed now. What is refused is left for the next purge.
///
/// # Errors
/// `CommitUnknown` after a failed write; `Closed`.
pub(crate) fn what_can_be(shared: &Shared, of: Option<&TenantId>) -> Result<()> {
    match all(shared, of) {
        Err(error) if error.outcome() == Outcome::NotApplied && error.kind() != ErrorKind::Closed => Ok(()),
        done => done,
    }
}

/// Purges one log.
pub(crate) fn purge(shared: &Shared, log: u64, row: &LogRow) -> Result<()> {
    while step(shared, log, row)? == Step::Goes {}
    Ok(())
}

/// The logs of deleted threads.
pub(crate) fn left_behind(shared: &Shared, of: Option<&TenantId>) -> Result<Vec<(u64, LogRow)>> {
    shared.check_writable()?;
    let snapshot = shared.index.snapshot();
    let mut logs = Vec::new();
    for pair in snapshot.prefix(table::purges().as_bytes(), Direction::Forward) {
        let (key, value) = pair?;
        let log = table::read_log(&key).ok_or_else(|| crate::codec::damaged("purge"))?;
        let row: LogRow = read("purge", &value)?;
        if of.is_none_or(|tenant| *tenant == row.tenant) {
            logs.push((log, row));
        }
    }
    Ok(logs)
}

/// How a purge of a log stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// There may be more of it.
    Goes,
    /// This step removed the last of it.
    Ends,
    /// Another purge had removed it.
    Gone,
}

/// Removes what is left of a log, up to a bound.
pub(crate) fn step(shared: &Shared, log: u64, row: &LogRow) -> Result<Step> {
    let key = (row.tenant.clone(), row.thread.clone(), Part::of(row.generation));
    // This waits for readers that began before the deletion, while other calls write. Later readers do not see the
    // thread.
    shared.readers.wait_for_earlier_readers();
    alone(shared, key, How::Frees, |round| plan(round, log, row))
}

fn plan(round: &mut Round<'_>, log: u64, row: &LogRow) -> Result<Step> {
    let shared = round.shared;
    if shared.index.get(table::purge(log).as_bytes())?.is_none() {
        return Ok(Step::Gone);
    }
    // Events and rows of the outbox outlive their thread, and not their tenant. A log that has no thread waits for its
    // purge if its tenant is removed, or if it was rewritten. Nothing in it is needed.
    let is_dropped = shared.index.get(table::dropping(&row.tenant).as_bytes())?.is_some();
    let has_more = !is_dropped && row.generation > 0;
    // It is unknown which events are in the log.
    if has_more && shared.damage.unread.contains(&(row.tenant.clone(), row.thread.clone(), row.generation)) {
        return Ok(Step::Gone);
    }
    shared.make_room(0).map_err(|source| error::io("the index", source))?;
    if has_more && (adopt(round, log, row)? || adopt_rows(round, log, row)? || adopt_states(round, log, row)?) {
        return Ok(Step::Goes);
    }
    let snapshot = shared.index.snapshot();
    let mut keys = 0;
    let under = table::OF_LOG.iter().chain(&table::LEFT_BY_LOG).map(|sort| table::of_log(*sort, log));
    for prefix in under {
        for pair in snapshot.prefix(prefix.as_bytes(), Direction::Forward).take(KEYS - keys) {
            let (key, _) = pair?;
            if let Some(run) = table::read_log_run(&key) {
                remove_run(&mut round.staged, (log, &row.tenant), &RunId::new(run)?)?;
            }
            round.staged.delete(Key::from_bytes(&key));
            keys += 1;
        }
    }
    if keys > 0 {
        return Ok(Step::Goes);
    }
    let path = log_path(&row.tenant, &row.thread, row.generation)?;
    round.drop_log(LogName { number: log, path });
    round.staged.delete(table::purge(log));
    Ok(Step::Ends)
}

/// Nothing is written to a tenant that is closed.
pub(crate) fn check_tenant(shared: &Shared, tenant: &TenantId) -> Result<()> {
    let is_closed = guard(&shared.tenants).get(tenant).is_some_and(|tenant| tenant.is_closed());
    if is_closed { Err(Error::closed()) } else { Ok(()) }
}

/// Writes events that outlive their thread, and what is remembered of their keys, to the log of events of its id, up to
/// a bound. Whether there was anything to do.
fn adopt(round: &mut Round<'_>, log: u64, row: &LogRow) -> Result<bool> {
    let shared = round.shared;
    let snapshot = shared.index.snapshot();
    let (mut lines, mut bytes, mut found) = (Vec::new(), 0, false);
    for pair in snapshot.prefix(table::log_events(log).as_bytes(), Direction::Forward).take(KEYS) {
        let (key, value) = pair?;
        found = true;
        let id = String::from_utf8(value).ok().and_then(|id| EventId::new(id).ok());
        let id = id.ok_or_else(|| crate::codec::damaged("event"))?;
        match snapshot.event_row(&row.tenant, &id)?.filter(|event| event.log == log) {
            // It may have been trimmed.
            Some(event) if snapshot.is_in_scope(&row.tenant, &event)? => {
                bytes += u64::from(event.span.len);
                lines.push(Line::Event(Box::new(records::read(shared, log, event.span, line::decode_event)?)));
            }
            event => {
                round.staged.delete(Key::from_bytes(&key));
                if event.is_some() {
                    round.staged.delete(table::event(&row.tenant, &id));
                }
            }
        }
        if bytes > BYTES {
            break;
        }
    }
    if !found {
        for pair in snapshot.prefix(table::log_event_keys(log).as_bytes(), Direction::Forward).take(KEYS) {
            let (key, _) = pair?;
            found = true;
            let (writer, name) = table::read_log_event_key(&key).ok_or_else(|| crate::codec::damaged("event key"))?;
            match snapshot.event_key_row(&row.tenant, &writer, &name)?.filter(|found| found.log == log) {
                Some(found) => {
                    let line = EventKeyLine { writer, key: name, record: found.record };
                    lines.push(Line::EventKey(Box::new(line)));
                }
                None => round.staged.delete(Key::from_bytes(&key)),
            }
        }
    }
    if !lines.is_empty() {
        check_tenant(shared, &row.tenant)?;
        round.enter((row.tenant.clone(), events_log_id(row.thread.as_str())?, Part::Events))?;
        round.put_events(lines)?;
    }
    Ok(found)
}

/// Writes rows of the outbox that outlive their thread to the log of the outbox, up to a bound. Whether there was
/// anything to do.
fn adopt_rows(round: &mut Round<'_>, log: u64, row: &LogRow) -> Result<bool> {
    let snapshot = round.shared.index.snapshot();
    let (mut ids, mut bytes) = (Vec::new(), 0);
    for pair in snapshot.prefix(table::log_outbox(log).as_bytes(), Direction::Forward).take(KEYS) {
        let id = table::read_log_outbox(&pair?.0).ok_or_else(|| crate::codec::damaged("outbox row"))?;
        bytes += snapshot.outbox_payload(&row.tenant, &id)?.map_or(0, |(_, span)| u64::from(span.len));
        ids.push(id);
        if bytes > BYTES {
            break;
        }
    }
    if ids.is_empty() {
        return Ok(false);
    }
    check_tenant(round.shared, &row.tenant)?;
    round.enter((row.tenant.clone(), outbox_log_id()?, Part::Events))?;
    round.move_rows(log, &ids)?;
    // What was moved, or is gone, does not stand under this log any more.
    ids.iter().for_each(|id| round.staged.delete(table::log_outbox(log).text(id.as_str())));
    Ok(true)
}

/// Writes what settlements that came with commits made of dispatches to the log of the mailbox, up to a bound. Whether
/// there was anything to do.
fn adopt_states(round: &mut Round<'_>, log: u64, row: &LogRow) -> Result<bool> {
    let snapshot = round.shared.index.snapshot();
    let keys = snapshot.prefix(table::log_mailbox(log).as_bytes(), Direction::Forward);
    let ids = keys.filter_map(|pair| pair.map(|(key, _)| table::read_log_mailbox(&key)).transpose());
    let mut ids = ids.take(KEYS).collect::<Result<Vec<_>>>()?;
    if ids.is_empty() {
        return Ok(false);
    }
    check_tenant(round.shared, &row.tenant)?;
    round.enter((row.tenant.clone(), mailbox_log_id()?, Part::Events))?;
    ids.truncate(round.move_states((log, BYTES), &ids)?);
    // What was moved, or is gone, does not stand under this log any more.
    ids.iter().for_each(|id| round.staged.delete(table::log_mailbox(log).text(id.as_str())));
    Ok(true)
}
