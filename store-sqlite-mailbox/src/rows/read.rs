//! The reads that the rules ask for.

use std::sync::Arc;

use rusqlite::Row;
use store_core::{
    DedupeKey, Dispatch, DispatchCounts, DispatchId, Json, Result, ThreadId, Timestamp,
    mailbox::{
        self, DispatchBody, DispatchState, MailboxView, QueueEnds, StoredDispatch, StoredInterrupt, StoredMailbox,
    },
};

use super::{BODY, INTERRUPT, MAILBOX, MailboxRow, PAYLOAD, Rows, STATE, get, maybe_time, signed, time};
use crate::{error::corrupt, sql};

/// The position of a thread in the list of ready threads: priority, ready since, thread id.
pub(crate) type ReadyPlace = (u8, Timestamp, ThreadId);

impl MailboxView for Rows<'_> {
    fn claim_incarnation(&self) -> u64 {
        self.known.get().map_or_else(|| self.next_incarnation.get(), |known| known.incarnation)
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailbox>> {
        Ok(self.of_thread(thread)?.map(|found| found.record))
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        match self.row_cache.dispatch(self.no(), id, self.with_payloads.get()) {
            Some(known) => Ok(Some(known)),
            None => self.one(sql::DISPATCH, (self.no(), id.as_str()), |row| self.stored(row, id)),
        }
    }

    fn last_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>> {
        let Some(found) = self.of_thread(thread)? else { return Ok(None) };
        self.one(sql::LAST_WITH_KEY, (found.no, key.as_str()), |row| id(&get::<String>(row, 0)?))
    }

    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        let Some(found) = self.of_thread(thread)? else { return Ok(None) };
        let with = (found.no, signed(epoch)?, signed(now.as_millis())?);
        self.one(sql::FIRST, with, |row| {
            let id = id(&get::<String>(row, 5)?)?;
            // This puts the dispatch into the cache, where the next read finds it.
            if self.row_cache.dispatch(self.no(), &id, self.with_payloads.get()).is_none() {
                self.stored(row, &id)?;
            }
            Ok(id)
        })
    }

    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        let Some(found) = self.of_thread(thread)? else { return Ok(None) };
        self.one(sql::INTERRUPT, (found.no, signed(epoch)?), |row| {
            let name = format!("{epoch} of {thread}");
            self.whose(INTERRUPT, &name).decode(&get::<String>(row, 0)?, get(row, 1)?)
        })
    }
}

fn id(text: &str) -> Result<DispatchId> {
    DispatchId::new(text).map_err(|e| corrupt("the id of a dispatch").with_source(e))
}

pub(super) fn thread(text: &str) -> Result<ThreadId> {
    ThreadId::new(text).map_err(|e| corrupt("the id of a thread").with_source(e))
}

impl Rows<'_> {
    /// Decodes a dispatch from its columns.
    fn stored(&self, row: &Row<'_>, id: &DispatchId) -> Result<StoredDispatch> {
        let name = id.as_str();
        let mut body: DispatchBody = self.whose(BODY, name).decode(&get::<String>(row, 0)?, get(row, 1)?)?;
        let payload = get::<Option<i64>>(row, 4)?;
        let is_whole = payload.is_none() || self.with_payloads.get();
        if let Some(no) = payload.filter(|_| is_whole) {
            body.payload = Some(self.payload(no, id)?);
        }
        let body = Arc::new(body);
        let stored = match get::<Option<String>>(row, 2)? {
            Some(state) => {
                let state: DispatchState = self.whose(STATE, name).decode(&state, get(row, 3)?)?;
                StoredDispatch::new(body, state)
            }
            None => StoredDispatch::enqueued(body),
        };
        self.row_cache.put_read(self.no(), &stored, is_whole);
        Ok(stored)
    }

    /// Returns the row of a thread, or `None` if nothing was ever written for it.
    pub(super) fn of_thread(&self, thread: &ThreadId) -> Result<Option<MailboxRow>> {
        let Some(tenant) = self.known.get() else { return Ok(None) };
        if let Some(known) = self.row_cache.thread(tenant.no, thread) {
            return Ok(known);
        }
        let read = |row: &Row<'_>| {
            let whose = self.whose(MAILBOX, thread.as_str());
            let record = whose.decode(&get::<String>(row, 1)?, get(row, 2)?)?;
            let columns = [get(row, 3)?, get(row, 4)?, get(row, 5)?, get(row, 6)?];
            Ok(MailboxRow { no: get(row, 0)?, record, columns })
        };
        let found = self.one(sql::MAILBOX, (tenant.no, thread.as_str()), read)?;
        self.row_cache.put_thread(tenant.no, thread, found.clone());
        Ok(found)
    }

    fn payload(&self, no: i64, id: &DispatchId) -> Result<Json> {
        let whose = self.whose(PAYLOAD, id.as_str());
        let found = self.one(sql::PAYLOAD, [no], |row| whose.decode(&get::<String>(row, 0)?, get(row, 1)?))?;
        found.ok_or_else(|| whose.damaged())
    }

    /// Returns a dispatch as callers see it, with its payload.
    pub(crate) fn load(&self, id: &DispatchId) -> Result<Option<Dispatch>> {
        self.read_payloads();
        self.dispatch(id)?.map(|stored| mailbox::seen(self, &stored)).transpose()
    }

    /// Adds the payload to a dispatch that was read without it.
    pub(crate) fn fill(&self, dispatch: &mut Dispatch) -> Result<()> {
        let no = self.one(sql::DISPATCH, (self.no(), dispatch.id.as_str()), |row| get::<Option<i64>>(row, 4))?;
        if let Some(no) = no.flatten() {
            dispatch.payload = Some(self.payload(no, &dispatch.id)?);
        }
        Ok(())
    }

    pub(crate) fn epoch(&self, thread: &ThreadId) -> Result<u64> {
        Ok(self.of_thread(thread)?.map_or(0, |found| found.record.epoch))
    }

    /// Returns the counts of a thread, or of all threads.
    pub(crate) fn counts(&self, of: Option<&ThreadId>) -> Result<DispatchCounts> {
        if let Some(of) = of {
            return Ok(self.of_thread(of)?.map(|found| found.record.counts).unwrap_or_default());
        }
        let (mut sum, mut after) = (DispatchCounts::default(), String::new());
        loop {
            let records = self.all(sql::RECORDS, (self.no(), after.as_str()), |row| {
                let thread: String = get(row, 2)?;
                let record: StoredMailbox =
                    self.whose(MAILBOX, &thread).decode(&get::<String>(row, 0)?, get(row, 1)?)?;
                Ok((thread, record.counts))
            })?;
            let Some((last, _)) = records.last() else { return Ok(sum) };
            after.clone_from(last);
            sum = records.iter().fold(sum, |sum, (_, counts)| sum.plus(counts));
        }
    }

    /// Summarises the queue of a thread in one epoch.
    pub(super) fn ends(&self, mailbox: i64, epoch: u64) -> Result<QueueEnds> {
        let read = |row: &Row<'_>| {
            let first = get::<Option<u8>>(row, 0)?;
            Ok(QueueEnds { first, earliest: maybe_time(get(row, 1)?)?, next: maybe_time(get(row, 2)?)? })
        };
        Ok(self.one(sql::ENDS, (mailbox, signed(epoch)?), read)?.unwrap_or_default())
    }

    /// Returns free threads with an available dispatch, after a position.
    pub(crate) fn ready(&self, after: Option<&ReadyPlace>, most: u32) -> Result<Vec<ReadyPlace>> {
        let (priority, since, name) = match after {
            Some((priority, since, thread)) => (i64::from(*priority), signed(since.as_millis())?, thread.as_str()),
            None => (-1, -1, ""),
        };
        self.all(sql::READY, (self.no(), priority, since, name, most), |row| {
            Ok((get(row, 0)?, time(get(row, 1)?)?, thread(&get::<String>(row, 2)?)?))
        })
    }

    /// Returns threads whose lease has expired at `now`, in the order of the ends of the leases, after a position.
    pub(crate) fn lapsed(
        &self,
        now: Timestamp,
        after: Option<&(Timestamp, ThreadId)>,
        most: u32,
    ) -> Result<Vec<(Timestamp, ThreadId)>> {
        let (end, name) = match after {
            Some((end, thread)) => (signed(end.as_millis())?, thread.as_str()),
            None => (-1, ""),
        };
        self.all(sql::LAPSED, (self.no(), signed(now.as_millis())?, end, name, most), |row| {
            Ok((time(get(row, 0)?)?, thread(&get::<String>(row, 1)?)?))
        })
    }

    /// Returns threads with a dispatch that is due but not yet made available.
    pub(crate) fn due(&self, now: Timestamp, most: u32) -> Result<Vec<ThreadId>> {
        self.all(sql::DUE, (self.no(), signed(now.as_millis())?, most), |row| thread(&get::<String>(row, 0)?))
    }

    /// Returns the earliest time at which a claim may find a dispatch, or `None` if no claim finds one until something
    /// is written.
    pub(crate) fn next_claim(&self) -> Result<Option<Timestamp>> {
        let read = |row: &Row<'_>| {
            let times: [Option<i64>; 3] = [get(row, 0)?, get(row, 1)?, get(row, 2)?];
            Ok(times.into_iter().flatten().min())
        };
        maybe_time(self.one(sql::NEXT_CLAIM, [self.no()], read)?.flatten())
    }
}
