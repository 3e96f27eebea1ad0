//! The reads that the rules ask for.

use std::sync::Arc;

use rusqlite::Row;
use store_core::{
    DedupeKey, Dispatch, DispatchCounts, DispatchId, Json, Result, ThreadId, Timestamp,
    mailbox::{
        self, DispatchBody, DispatchState, MailboxView, QueueSummary, StoredDispatch, StoredInterrupt,
        StoredMailboxThread,
    },
};

use super::{BODY, INTERRUPT, MAILBOX, MailboxRow, PAYLOAD, Rows, STATE, get, maybe_time, signed, time};
use crate::{error::corrupt, sql};

/// The position of a thread in the list of ready threads: priority, ready since, thread id.
pub(crate) type ReadyPosition = (u8, Timestamp, ThreadId);

impl MailboxView for Rows<'_> {
    fn claim_incarnation(&self) -> u64 {
        self.tenant_row.get().map_or_else(|| self.next_incarnation.get(), |known| known.incarnation)
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailboxThread>> {
        Ok(self.mailbox_row(thread)?.map(|found| found.record))
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        match self.row_cache.dispatch(self.tenant_row_number(), id, self.with_payloads.get()) {
            Some(known) => Ok(Some(known)),
            None => self
                .query_one(sql::DISPATCH, (self.tenant_row_number(), id.as_str()), |row| self.decode_dispatch(row, id)),
        }
    }

    fn last_dispatch_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>> {
        let Some(found) = self.mailbox_row(thread)? else { return Ok(None) };
        self.query_one(sql::LAST_WITH_KEY, (found.row_number, key.as_str()), |row| {
            parse_dispatch_id(&get::<String>(row, 0)?)
        })
    }

    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        let Some(found) = self.mailbox_row(thread)? else { return Ok(None) };
        let parameters = (found.row_number, signed(epoch)?, signed(now.as_millis())?);
        self.query_one(sql::FIRST_AVAILABLE, parameters, |row| {
            let id = parse_dispatch_id(&get::<String>(row, 5)?)?;
            // The rule then reads the dispatch. Decoding puts it into the cache, where that read finds it.
            if self.row_cache.dispatch(self.tenant_row_number(), &id, self.with_payloads.get()).is_none() {
                self.decode_dispatch(row, &id)?;
            }
            Ok(id)
        })
    }

    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        let Some(found) = self.mailbox_row(thread)? else { return Ok(None) };
        self.query_one(sql::INTERRUPT, (found.row_number, signed(epoch)?), |row| {
            let name = format!("{epoch} of {thread}");
            self.record_name(INTERRUPT, &name).decode(&get::<String>(row, 0)?, get(row, 1)?)
        })
    }
}

pub(super) fn parse_dispatch_id(text: &str) -> Result<DispatchId> {
    DispatchId::new(text).map_err(|e| corrupt("the id of a dispatch").with_source(e))
}

pub(super) fn parse_thread_id(text: &str) -> Result<ThreadId> {
    ThreadId::new(text).map_err(|e| corrupt("the id of a thread").with_source(e))
}

impl Rows<'_> {
    /// Decodes a dispatch from its columns.
    pub(super) fn decode_dispatch(&self, row: &Row<'_>, id: &DispatchId) -> Result<StoredDispatch> {
        let name = id.as_str();
        let mut body: DispatchBody = self.record_name(BODY, name).decode(&get::<String>(row, 0)?, get(row, 1)?)?;
        let payload_row = get::<Option<i64>>(row, 4)?;
        let is_complete = payload_row.is_none() || self.with_payloads.get();
        if let Some(row_number) = payload_row.filter(|_| is_complete) {
            body.payload = Some(self.payload(row_number, id)?);
        }
        let body = Arc::new(body);
        let stored = match get::<Option<String>>(row, 2)? {
            Some(state) => {
                let state: DispatchState = self.record_name(STATE, name).decode(&state, get(row, 3)?)?;
                StoredDispatch::new(body, state)
            }
            None => StoredDispatch::enqueued(body),
        };
        self.row_cache.put_read(self.tenant_row_number(), &stored, is_complete);
        Ok(stored)
    }

    /// Returns the row of a thread, or `None` if nothing was ever written for it.
    pub(super) fn mailbox_row(&self, thread: &ThreadId) -> Result<Option<MailboxRow>> {
        let Some(tenant) = self.tenant_row.get() else { return Ok(None) };
        if let Some(known) = self.row_cache.thread(tenant.row_number, thread) {
            return Ok(known);
        }
        let read = |row: &Row<'_>| {
            let record_name = self.record_name(MAILBOX, thread.as_str());
            let record = record_name.decode(&get::<String>(row, 1)?, get(row, 2)?)?;
            let columns = [get(row, 3)?, get(row, 4)?, get(row, 5)?, get(row, 6)?];
            Ok(MailboxRow { row_number: get(row, 0)?, record, columns })
        };
        let found = self.query_one(sql::MAILBOX, (tenant.row_number, thread.as_str()), read)?;
        self.row_cache.put_thread(tenant.row_number, thread, found.clone());
        Ok(found)
    }

    fn payload(&self, row_number: i64, id: &DispatchId) -> Result<Json> {
        let record_name = self.record_name(PAYLOAD, id.as_str());
        let found = self
            .query_one(sql::PAYLOAD, [row_number], |row| record_name.decode(&get::<String>(row, 0)?, get(row, 1)?))?;
        found.ok_or_else(|| record_name.damaged_error())
    }

    /// Returns a dispatch as callers see it, with its payload.
    pub(crate) fn load(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        self.set_payloads_included();
        self.dispatch(id)?.map(|stored| mailbox::visible_dispatch(self, &stored)).transpose()
    }

    /// Adds the payload to a dispatch that was read without it.
    pub(crate) fn load_payload(&self, dispatch: &mut Dispatch) -> Result<()> {
        let row_number = self.query_one(sql::DISPATCH, (self.tenant_row_number(), dispatch.id.as_str()), |row| {
            get::<Option<i64>>(row, 4)
        })?;
        if let Some(row_number) = row_number.flatten() {
            dispatch.payload = Some(self.payload(row_number, &dispatch.id)?);
        }
        Ok(())
    }

    pub(crate) fn epoch(&self, thread: &ThreadId) -> Result<u64> {
        Ok(self.mailbox_row(thread)?.map_or(0, |found| found.record.epoch))
    }

    /// Returns the counts of a thread, or of all threads.
    pub(crate) fn counts(&self, only_thread: Option<&ThreadId>) -> Result<DispatchCounts> {
        if let Some(only_thread) = only_thread {
            return Ok(self.mailbox_row(only_thread)?.map(|found| found.record.counts).unwrap_or_default());
        }
        let (mut sum, mut after) = (DispatchCounts::default(), String::new());
        loop {
            let records = self.query_all(sql::MAILBOX_RECORDS, (self.tenant_row_number(), after.as_str()), |row| {
                let thread: String = get(row, 2)?;
                let record: StoredMailboxThread =
                    self.record_name(MAILBOX, &thread).decode(&get::<String>(row, 0)?, get(row, 1)?)?;
                Ok((thread, record.counts))
            })?;
            let Some((last, _)) = records.last() else { return Ok(sum) };
            after.clone_from(last);
            sum = records.iter().fold(sum, |sum, (_, counts)| sum.plus(counts));
        }
    }

    /// Summarises the queue of a thread in one epoch.
    pub(super) fn queue_summary(&self, row_number: i64, epoch: u64) -> Result<QueueSummary> {
        let read = |row: &Row<'_>| {
            let first = get::<Option<u8>>(row, 0)?;
            Ok(QueueSummary {
                first_priority: first,
                earliest_due: maybe_time(get(row, 1)?)?,
                next_due: maybe_time(get(row, 2)?)?,
            })
        };
        Ok(self.query_one(sql::QUEUE_SUMMARY, (row_number, signed(epoch)?), read)?.unwrap_or_default())
    }

    /// Returns threads that are not claimed and have an available dispatch, after a position in the list of ready
    /// threads.
    pub(crate) fn ready_threads(&self, after: Option<&ReadyPosition>, limit: u32) -> Result<Vec<ReadyPosition>> {
        let (priority, since, name) = match after {
            Some((priority, since, thread)) => (i64::from(*priority), signed(since.as_millis())?, thread.as_str()),
            None => (-1, -1, ""),
        };
        self.query_all(sql::READY_THREADS, (self.tenant_row_number(), priority, since, name, limit), |row| {
            Ok((get(row, 0)?, time(get(row, 1)?)?, parse_thread_id(&get::<String>(row, 2)?)?))
        })
    }

    /// Returns threads whose lease has expired at `now`, in the order of the ends of the leases, after a position.
    pub(crate) fn expired_leases(
        &self,
        now: Timestamp,
        after: Option<&(Timestamp, ThreadId)>,
        limit: u32,
    ) -> Result<Vec<(Timestamp, ThreadId)>> {
        let (end, name) = match after {
            Some((end, thread)) => (signed(end.as_millis())?, thread.as_str()),
            None => (-1, ""),
        };
        self.query_all(
            sql::EXPIRED_LEASES,
            (self.tenant_row_number(), signed(now.as_millis())?, end, name, limit),
            |row| Ok((time(get(row, 0)?)?, parse_thread_id(&get::<String>(row, 1)?)?)),
        )
    }

    /// Returns threads with a dispatch that is due but not yet made available.
    pub(crate) fn due_threads(&self, now: Timestamp, limit: u32) -> Result<Vec<ThreadId>> {
        self.query_all(sql::DUE_THREADS, (self.tenant_row_number(), signed(now.as_millis())?, limit), |row| {
            parse_thread_id(&get::<String>(row, 0)?)
        })
    }

    /// Returns the earliest time at which a claim may find a dispatch, or `None` if no claim finds one until something
    /// is written.
    pub(crate) fn next_claim_time(&self) -> Result<Option<Timestamp>> {
        let read = |row: &Row<'_>| {
            let times: [Option<i64>; 3] = [get(row, 0)?, get(row, 1)?, get(row, 2)?];
            Ok(times.into_iter().flatten().min())
        };
        maybe_time(self.query_one(sql::NEXT_CLAIM_TIMES, [self.tenant_row_number()], read)?.flatten())
    }
}
