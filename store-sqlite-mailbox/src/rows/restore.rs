//! Records that are written as they were in another mailbox. Nothing is decided or derived but the columns.

use std::collections::BTreeSet;

use store_core::{
    DispatchStatus, Result, ThreadId, Timestamp,
    mailbox::{self, QueueSummary, StoredDispatch, StoredMailboxThread},
    records::{StoredRecord, no_list},
};

use super::{MailboxRow, Rows, TenantRow, signed, write::position_columns};
use crate::sql;

impl Rows<'_> {
    /// Writes records. After an error the writes must be rolled back.
    pub(crate) fn restore(&self, records: &[StoredRecord], now: Timestamp) -> Result<()> {
        self.has_written.set(true);
        let mut threads = BTreeSet::new();
        for record in records {
            match record {
                StoredRecord::Numbers(numbers) => self.raise_incarnation(numbers.claim_incarnation)?,
                StoredRecord::Mailbox { thread, record } => self.restore_mailbox(thread, record)?,
                StoredRecord::Interrupt { thread, interrupt } => {
                    let (row_number, _) = self.restored_thread(thread)?;
                    self.put_interrupt((thread, row_number), interrupt.epoch, Some(interrupt))?;
                }
                StoredRecord::Dispatch(stored) => {
                    threads.insert(&stored.body.thread);
                    self.restore_dispatch_of_thread(stored, now)?;
                }
                _ => return Err(no_list(record.list())),
            }
        }
        // The positions of a thread follow from its dispatches.
        for thread in threads {
            let (row_number, record) = self.restored_thread(thread)?;
            self.write_record_and_positions(thread, row_number, record)?;
            self.claimable_from.set(Some(now));
        }
        Ok(())
    }

    /// Raises the incarnation of the claim numbers that are given next (MB-25). A tenant that does not exist yet gets a
    /// higher one with its first row.
    fn raise_incarnation(&self, incarnation: u64) -> Result<()> {
        let number = signed(incarnation)?;
        self.execute(sql::RAISE_INCARNATION, [number])?;
        self.next_incarnation.set(self.next_incarnation.get().max(incarnation.saturating_add(1)));
        if let Some(TenantRow { row_number, .. }) = self.tenant_row().filter(|row| row.incarnation < incarnation) {
            self.execute(sql::RAISE_TENANT, (row_number, number))?;
            self.tenant_row.set(Some(TenantRow { row_number, incarnation }));
        }
        Ok(())
    }

    fn restore_mailbox(&self, thread: &ThreadId, record: &StoredMailboxThread) -> Result<()> {
        match self.mailbox_row(thread)? {
            Some(found) => self.write_record_and_positions(thread, found.row_number, record.clone()),
            None => self.add_restored_thread(thread, record.clone()).map(drop),
        }
    }

    fn add_restored_thread(&self, thread: &ThreadId, record: StoredMailboxThread) -> Result<i64> {
        let columns = position_columns(mailbox::thread_positions(&record, QueueSummary::default()))?;
        let row_number = self.add_mailbox(thread, &record, columns)?;
        self.row_cache.put_thread(self.tenant_row_number(), thread, Some(MailboxRow { row_number, record, columns }));
        Ok(row_number)
    }

    /// Returns the row of a thread and its record. The record comes before what belongs to it.
    fn restored_thread(&self, thread: &ThreadId) -> Result<(i64, StoredMailboxThread)> {
        match self.mailbox_row(thread)? {
            Some(found) => Ok((found.row_number, found.record)),
            None => {
                let record = StoredMailboxThread::default();
                Ok((self.add_restored_thread(thread, record.clone())?, record))
            }
        }
    }

    fn restore_dispatch_of_thread(&self, stored: &StoredDispatch, now: Timestamp) -> Result<()> {
        let (row_number, record) = self.restored_thread(&stored.body.thread)?;
        // What an interrupt superseded has given its key up.
        let is_superseded = stored.state.status == DispatchStatus::Queued && stored.state.epoch < record.epoch;
        self.restore_dispatch(row_number, stored, (!is_superseded, now))
    }
}
