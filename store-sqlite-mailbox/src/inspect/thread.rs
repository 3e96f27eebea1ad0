//! The check of one thread: whether its records can be read, and whether the columns agree with the records.

use rusqlite::{Connection, Row, params};
use store_core::{
    DispatchId, DispatchStatus, ErrorKind, Result,
    commit::DecisionContext,
    inspect::{Finding, FindingKind},
    mailbox::MailboxView,
};

use crate::{
    rows::{Rows, TenantRow, get, query_all, unsigned},
    sql,
};

/// The number of dispatches checked at once.
const CHUNK: usize = 1_000;

/// The creation time and id of a dispatch, from which a check continues.
pub(super) type CheckPosition = (i64, String);
/// The position before all dispatches.
pub(super) const BEGINNING: CheckPosition = (-1, String::new());

/// The row of a thread.
#[derive(Debug, Clone)]
pub(super) struct ThreadRow {
    pub(super) thread: String,
    row_number: i64,
}

/// Lists the threads of a tenant that come after the thread `after`, in the order of their ids.
pub(super) fn list_threads(conn: &Connection, tenant_row: TenantRow, after: &str) -> Result<Vec<ThreadRow>> {
    query_all(conn, sql::MAILBOX_RECORDS, (tenant_row.row_number, after), |row| {
        Ok(ThreadRow { thread: get(row, 2)?, row_number: get(row, 3)? })
    })
}

/// The progress of the check of a thread.
#[derive(Debug, Clone)]
pub(super) struct CheckProgress {
    after: CheckPosition,
    pub(super) has_ended: bool,
    /// Whether a dispatch that cannot be read was found. It blocks claims from the thread.
    pub(super) has_unreadable_dispatch: bool,
}

fn damaged_finding(location: String, detail: &impl ToString) -> Finding {
    Finding::new(FindingKind::Damaged, location, detail.to_string())
}

impl Default for CheckProgress {
    fn default() -> Self {
        Self { after: BEGINNING, has_ended: false, has_unreadable_dispatch: false }
    }
}

impl CheckProgress {
    /// Checks the next dispatches of a thread and, after the last one, the record of the thread.
    pub(super) fn check_batch(&mut self, rows: &Rows<'_>, thread_row: &ThreadRow) -> Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let ids = rows.next_positions(thread_row.row_number, &self.after)?;
        for (_, id) in &ids {
            let found = check_dispatch(rows, id)?;
            self.has_unreadable_dispatch |= found.as_ref().is_some_and(|finding| finding.kind == FindingKind::Damaged);
            findings.extend(found);
        }
        self.has_ended = ids.len() < CHUNK;
        self.after = ids.into_iter().next_back().unwrap_or(BEGINNING);
        if self.has_ended {
            findings.extend(check_mailbox_record(rows, thread_row)?);
        }
        Ok(findings)
    }
}

/// Checks that a dispatch can be read and that its columns agree with its record.
fn check_dispatch(rows: &Rows<'_>, id: &str) -> Result<Option<Finding>> {
    let location = || format!("dispatch `{id}`");
    rows.set_payloads_included();
    let stored = match id.parse::<DispatchId>().map(|id| rows.dispatch(&id)) {
        Ok(Ok(Some(stored))) => stored,
        Ok(Err(error)) if error.kind() == ErrorKind::Corrupt => return Ok(Some(damaged_finding(location(), &error))),
        Ok(Err(error)) => return Err(error),
        Ok(Ok(None)) | Err(_) => {
            return Ok(Some(damaged_finding(location(), &"an index names it, but it does not exist")));
        }
    };
    let columns_match = rows.dispatch_columns_match(&stored)?;
    Ok((!columns_match)
        .then(|| Finding::new(FindingKind::StaleIndex, location(), "its columns differ from its record")))
}

/// Checks the record of the thread: its counts, its running dispatch, its columns and its interrupts.
fn check_mailbox_record(rows: &Rows<'_>, thread_row: &ThreadRow) -> Result<Vec<Finding>> {
    let location = || format!("mailbox of thread `{}`", thread_row.thread);
    let thread = match thread_row.thread.parse() {
        Ok(thread) => thread,
        Err(error) => return Ok(vec![damaged_finding(location(), &error)]),
    };
    let record = match rows.mailbox(&thread) {
        Ok(Some(record)) => record,
        Ok(None) => return Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(vec![damaged_finding(location(), &error)]),
        Err(error) => return Err(error),
    };
    let mut findings = Vec::new();
    let actual_counts = record.count(rows.count_by_status_and_epoch(thread_row.row_number)?);
    if actual_counts != record.counts {
        let detail = format!("it counts {:?}, but there are {actual_counts:?}", record.counts);
        findings.push(Finding::new(FindingKind::WrongSum, location(), detail));
    }
    if let Some(running) = &record.running
        && rows.dispatch(&running.dispatch).is_ok_and(|found| found.is_none())
    {
        let detail = format!("dispatch `{}`, which is claimed, does not exist", running.dispatch);
        findings.push(Finding::new(FindingKind::DanglingReference, location(), detail));
    }
    if !rows.mailbox_columns_match(thread_row.row_number, &record)? {
        findings.push(Finding::new(FindingKind::StaleIndex, location(), "its columns differ from its record"));
    }
    for epoch in rows.interrupt_epochs(thread_row.row_number)? {
        match rows.interrupt(&thread, unsigned(epoch)?) {
            Err(error) if error.kind() == ErrorKind::Corrupt => {
                findings.push(damaged_finding(format!("interrupt {epoch} of thread `{thread}`"), &error));
            }
            found => drop(found?),
        }
    }
    Ok(findings)
}

/// Repairs the columns of some dispatches of a thread and, after the last dispatch, those of the thread.
///
/// An unreadable dispatch is taken out of the queue: its row is kept, but it no longer blocks claims of others (MB-55).
/// Returns the position from which to continue, or `None` if the thread is finished.
pub(super) fn repair_batch(
    rows: &Rows<'_>,
    thread_row: &ThreadRow,
    after: &CheckPosition,
    decision_context: DecisionContext<'_>,
) -> Result<Option<CheckPosition>> {
    rows.set_payloads_included();
    let ids = rows.next_positions(thread_row.row_number, after)?;
    for (_, id) in &ids {
        let found = id.parse::<DispatchId>().map(|id| rows.dispatch(&id));
        match found {
            Ok(Ok(Some(stored))) => rows.repair_columns(thread_row.row_number, &stored, decision_context.now)?,
            Ok(Err(error)) if error.kind() == ErrorKind::Corrupt => rows.take_out_of_queue(id)?,
            Ok(Err(error)) => return Err(error),
            Ok(Ok(None)) | Err(_) => {}
        }
    }
    if ids.len() == CHUNK {
        return Ok(ids.into_iter().next_back());
    }
    let Ok(thread) = thread_row.thread.parse() else { return Ok(None) };
    let Ok(Some(mut record)) = rows.mailbox(&thread) else { return Ok(None) };
    let running_dispatch = record.running.as_ref().map(|running| rows.dispatch(&running.dispatch));
    let is_claimed =
        running_dispatch.is_some_and(|found| found.is_ok_and(|found| found.is_some_and(|found| found.is_claimed())));
    record.correct(
        record.count(rows.count_by_status_and_epoch(thread_row.row_number)?),
        is_claimed,
        decision_context.now,
    );
    rows.write_record_and_positions(&thread, thread_row.row_number, record)?;
    Ok(None)
}

impl Rows<'_> {
    fn next_positions(&self, row_number: i64, (created, id): &CheckPosition) -> Result<Vec<CheckPosition>> {
        let max_count = i64::try_from(CHUNK).unwrap_or(i64::MAX);
        let parameters = params![row_number, created, id, max_count];
        query_all(self.conn(), sql::IDS_OF_MAILBOX, parameters, |row| Ok((get(row, 0)?, get(row, 1)?)))
    }

    fn interrupt_epochs(&self, row_number: i64) -> Result<Vec<i64>> {
        query_all(self.conn(), sql::INTERRUPT_EPOCHS, [row_number], |row| get(row, 0))
    }

    fn count_by_status_and_epoch(&self, row_number: i64) -> Result<Vec<(DispatchStatus, u64, u64)>> {
        let read = |row: &Row<'_>| {
            let number: i64 = get(row, 0)?;
            let status =
                DispatchStatus::ALL.iter().copied().find(|status| crate::rows::status_number(*status) == number);
            let status = status.ok_or_else(|| crate::error::corrupt("the status of a dispatch"))?;
            Ok((status, unsigned(get(row, 1)?)?, unsigned(get(row, 2)?)?))
        };
        query_all(self.conn(), sql::COUNT_BY_STATUS, [row_number], read)
    }
}
