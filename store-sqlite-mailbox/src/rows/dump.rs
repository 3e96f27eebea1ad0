//! Pages of records, for copies.

use rusqlite::Row;
use store_core::{
    Result, ThreadId,
    mailbox::{StoredInterrupt, StoredMailboxThread},
    records::{NumbersGiven, RecordKey, RecordList, RecordPage, RecordQuery, StoredRecord},
};

use super::{
    INTERRUPT, MAILBOX, Rows, get,
    read::{parse_dispatch_id, parse_thread_id},
    signed, unsigned,
};
use crate::sql;

/// How many rows a statement reads at once. Rows that do not fit into the page are read again.
const STEP: i64 = 64;
/// About how many bytes a record has without its payload.
const USUAL_BYTES: usize = 512;

impl Rows<'_> {
    /// Returns the next records of a list of the mailbox.
    pub(crate) fn dump(&self, query: &RecordQuery) -> Result<Vec<StoredRecord>> {
        let mut page = RecordPage::new(query);
        if query.list == RecordList::Numbers {
            let claim_incarnation = self.tenant_row().map_or(0, |tenant_row| tenant_row.incarnation);
            page.offer(StoredRecord::Numbers(NumbersGiven { claim_incarnation, ..NumbersGiven::default() }), 0);
            return Ok(if query.after.is_none() { page.into_records() } else { Vec::new() });
        }
        self.set_payloads_included();
        let mut after = query.after.clone().unwrap_or_default();
        while !page.is_full() {
            let found = match query.list {
                RecordList::Mailboxes => self.next_mailboxes(&after)?,
                RecordList::Interrupts => self.next_interrupts(&after)?,
                _ => self.next_dispatches(&after)?,
            };
            let Some((last, _)) = found.last() else { break };
            after = last.key();
            found.into_iter().for_each(|(record, bytes)| page.offer(record, bytes));
        }
        Ok(page.into_records())
    }

    fn next_mailboxes(&self, after: &RecordKey) -> Result<Vec<(StoredRecord, usize)>> {
        self.query_all(sql::MAILBOX_RECORDS, (self.tenant_row_number(), after.text(0)), |row| {
            let thread = read_thread(row, 2)?;
            let record_name = self.record_name(MAILBOX, thread.as_str());
            let record: StoredMailboxThread = record_name.decode(&get::<String>(row, 0)?, get(row, 1)?)?;
            Ok((StoredRecord::Mailbox { thread, record: Box::new(record) }, USUAL_BYTES))
        })
    }

    fn next_interrupts(&self, after: &RecordKey) -> Result<Vec<(StoredRecord, usize)>> {
        let parameters = (self.tenant_row_number(), after.text(0), signed(after.number(1))?, STEP);
        self.query_all(sql::DUMP_INTERRUPTS, parameters, |row| {
            let (thread, epoch) = (read_thread(row, 0)?, unsigned(get(row, 1)?)?);
            let name = format!("{epoch} of {thread}");
            let text: String = get(row, 2)?;
            let interrupt: StoredInterrupt = self.record_name(INTERRUPT, &name).decode(&text, get(row, 3)?)?;
            Ok((StoredRecord::Interrupt { thread, interrupt: Box::new(interrupt) }, USUAL_BYTES))
        })
    }

    fn next_dispatches(&self, after: &RecordKey) -> Result<Vec<(StoredRecord, usize)>> {
        self.query_all(sql::DUMP_DISPATCHES, (self.tenant_row_number(), after.text(0), STEP), |row| {
            let id = parse_dispatch_id(&get::<String>(row, 5)?)?;
            let stored = self.decode_dispatch(row, &id)?;
            let payload = stored.body.payload.as_ref().map_or(0, |payload| payload.as_str().len());
            Ok((StoredRecord::Dispatch(Box::new(stored)), USUAL_BYTES + payload))
        })
    }
}

fn read_thread(row: &Row<'_>, at: usize) -> Result<ThreadId> {
    parse_thread_id(&get::<String>(row, at)?)
}
