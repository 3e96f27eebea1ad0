//! The check of one thread: whether its records can be read, and whether the columns agree with the records.

use rusqlite::{Connection, Row, params};
use store_core::{
    DispatchId, DispatchStatus, ErrorKind, Result,
    commit::Setting,
    inspect::{Finding, FindingKind},
    mailbox::MailboxView,
};

use crate::{
    rows::{Rows, TenantRow, all, get, unsigned},
    sql as text,
};

/// The number of dispatches checked at once.
const CHUNK: usize = 1_000;

/// The creation time and id of a dispatch, from which a check continues.
pub(super) type At = (i64, String);
/// The position before all dispatches.
pub(super) const BEGINNING: At = (-1, String::new());

/// The row of a thread.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) thread: String,
    no: i64,
}

/// Lists the threads of a tenant after a given one.
pub(super) fn list(conn: &Connection, known: TenantRow, after: &str) -> Result<Vec<Place>> {
    all(conn, text::RECORDS, (known.no, after), |row| Ok(Place { thread: get(row, 2)?, no: get(row, 3)? }))
}

/// The progress of the check of a thread.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    after: At,
    pub(super) is_over: bool,
    /// Whether an unreadable record blocks claims.
    pub(super) can_be_put_aside: bool,
}

fn damaged(place: String, detail: &impl ToString) -> Finding {
    Finding::new(FindingKind::Damaged, place, detail.to_string())
}

impl Default for Seen {
    fn default() -> Self {
        Self { after: BEGINNING, is_over: false, can_be_put_aside: false }
    }
}

impl Seen {
    /// Checks the next dispatches of a thread and, after the last one, the record of the thread.
    pub(super) fn batch(&mut self, rows: &Rows<'_>, place: &Place) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let ids = rows.ids_of(place.no, &self.after)?;
        for (_, id) in &ids {
            let found = check(rows, id)?;
            self.can_be_put_aside |= found.as_ref().is_some_and(|finding| finding.kind == FindingKind::Damaged);
            findings.extend(found);
        }
        self.is_over = ids.len() < CHUNK;
        self.after = ids.into_iter().next_back().unwrap_or(BEGINNING);
        if self.is_over {
            findings.extend(whole(rows, place)?);
        }
        Ok(findings)
    }
}

/// Checks that a dispatch can be read and that its columns agree with its record.
fn check(rows: &Rows<'_>, id: &str) -> Result<Option<Finding>> {
    let place = || format!("dispatch `{id}`");
    rows.read_payloads();
    let known = match id.parse::<DispatchId>().map(|id| rows.dispatch(&id)) {
        Ok(Ok(Some(stored))) => stored,
        Ok(Err(error)) if error.kind() == ErrorKind::Corrupt => return Ok(Some(damaged(place(), &error))),
        Ok(Err(error)) => return Err(error),
        Ok(Ok(None)) | Err(_) => return Ok(Some(damaged(place(), &"an index names it, but it does not exist"))),
    };
    let columns_match = rows.columns_match(&known)?;
    Ok((!columns_match).then(|| Finding::new(FindingKind::StaleIndex, place(), "its columns differ from its record")))
}

/// Checks the record of the thread: its counts, its running dispatch, its columns and its interrupts.
fn whole(rows: &Rows<'_>, place: &Place) -> Result<Vec<Finding>> {
    let name = || format!("mailbox of thread `{}`", place.thread);
    let thread = match place.thread.parse() {
        Ok(thread) => thread,
        Err(error) => return Ok(vec![damaged(name(), &error)]),
    };
    let record = match rows.mailbox(&thread) {
        Ok(Some(record)) => record,
        Ok(None) => return Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(vec![damaged(name(), &error)]),
        Err(error) => return Err(error),
    };
    let mut findings = Vec::new();
    let counted = record.count(rows.by_status_and_epoch(place.no)?);
    if counted != record.counts {
        let detail = format!("it counts {:?}, but there are {counted:?}", record.counts);
        findings.push(Finding::new(FindingKind::WrongSum, name(), detail));
    }
    if let Some(running) = &record.running
        && rows.dispatch(&running.dispatch).is_ok_and(|found| found.is_none())
    {
        let detail = format!("dispatch `{}`, which is claimed, does not exist", running.dispatch);
        findings.push(Finding::new(FindingKind::DanglingReference, name(), detail));
    }
    if !rows.is_placed(place.no, &record)? {
        findings.push(Finding::new(FindingKind::StaleIndex, name(), "its columns differ from its record"));
    }
    for epoch in rows.interrupts_of(place.no)? {
        match rows.interrupt(&thread, unsigned(epoch)?) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                findings.push(damaged(format!("interrupt {epoch} of thread `{thread}`"), &error));
            }
            found => drop(found?),
        }
    }
    Ok(findings)
}

/// Repairs the columns of some dispatches of a thread and, after the last dispatch, those of the thread.
///
/// An unreadable dispatch is put aside: it is kept, but no longer blocks claims of others (MB-55). Returns where to
/// continue.
pub(super) fn correct(rows: &Rows<'_>, place: &Place, after: &At, setting: Setting<'_>) -> Result<Option<At>> {
    rows.read_payloads();
    let ids = rows.ids_of(place.no, after)?;
    for (_, id) in &ids {
        let found = id.parse::<DispatchId>().map(|id| rows.dispatch(&id));
        match found {
            Ok(Ok(Some(stored))) => rows.correct(place.no, &stored, setting.now)?,
            Ok(Err(error)) if error.kind() == ErrorKind::Corrupt => rows.quarantine(id)?,
            Ok(Err(error)) => return Err(error),
            Ok(Ok(None)) | Err(_) => {}
        }
    }
    if ids.len() == CHUNK {
        return Ok(ids.into_iter().next_back());
    }
    let Ok(thread) = place.thread.parse() else { return Ok(None) };
    let Ok(Some(mut record)) = rows.mailbox(&thread) else { return Ok(None) };
    let running = record.running.as_ref().map(|running| rows.dispatch(&running.dispatch));
    let is_claimed =
        running.is_some_and(|found| found.is_ok_and(|found| found.is_some_and(|found| found.is_claimed())));
    record.correct(record.count(rows.by_status_and_epoch(place.no)?), is_claimed, setting.now);
    rows.rewrite_places(&thread, place.no, record)?;
    Ok(None)
}

impl Rows<'_> {
    fn ids_of(&self, mailbox: i64, (created, id): &At) -> Result<Vec<At>> {
        let most = i64::try_from(CHUNK).unwrap_or(i64::MAX);
        let with = params![mailbox, created, id, most];
        all(self.conn(), text::IDS_OF_MAILBOX, with, |row| Ok((get(row, 0)?, get(row, 1)?)))
    }

    fn interrupts_of(&self, mailbox: i64) -> Result<Vec<i64>> {
        all(self.conn(), text::INTERRUPTS_OF, [mailbox], |row| get(row, 0))
    }

    fn by_status_and_epoch(&self, mailbox: i64) -> Result<Vec<(DispatchStatus, u64, u64)>> {
        let read = |row: &Row<'_>| {
            let number: i64 = get(row, 0)?;
            let status = DispatchStatus::ALL.iter().copied().find(|status| crate::rows::number(*status) == number);
            let status = status.ok_or_else(|| crate::error::corrupt("the status of a dispatch"))?;
            Ok((status, unsigned(get(row, 1)?)?, unsigned(get(row, 2)?)?))
        };
        all(self.conn(), text::COUNT_BY_STATUS, [mailbox], read)
    }
}
