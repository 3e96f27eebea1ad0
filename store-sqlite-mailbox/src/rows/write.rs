//! Writes the plans of rules, and makes due dispatches available.

use rusqlite::params;
use store_core::{
    DispatchId, DispatchStatus, Result, ThreadId, Timestamp, length,
    mailbox::{
        self, DispatchBody, DispatchState, MailboxChange, MailboxPlan, Places, QueueEnds, StoredDispatch,
        StoredInterrupt, StoredMailbox, in_queue,
    },
};

use super::{BODY, INTERRUPT, MAILBOX, MailboxRow, PAYLOAD, PlaceColumns, Rows, STATE, TenantRow, get, signed};
use crate::sql;

/// Returns the number that stands for a status in a column. Numbers never change their meaning.
pub(crate) const fn number(status: DispatchStatus) -> i64 {
    match status {
        DispatchStatus::Queued => 0,
        DispatchStatus::Claimed => 1,
        DispatchStatus::Acked => 2,
        DispatchStatus::Cancelled => 3,
        DispatchStatus::Superseded => 4,
        DispatchStatus::DeadLetter => 5,
    }
}

fn millis(time: Option<Timestamp>) -> Result<Option<i64>> {
    time.map(|time| signed(time.as_millis())).transpose()
}

fn columns(places: Places) -> Result<PlaceColumns> {
    let (priority, since) = places.ready.unzip();
    Ok([priority.map(i64::from), millis(since)?, millis(places.due)?, millis(places.lease)?])
}

/// The columns by which a dispatch is found in lists and queues.
struct Columns<'a> {
    status: i64,
    epoch: i64,
    available: Option<bool>,
    due: Option<i64>,
    ended: Option<i64>,
    key: Option<&'a str>,
    state: (Option<String>, Option<i64>),
}

impl<'a> Columns<'a> {
    fn of(rows: &Rows<'_>, stored: &'a StoredDispatch, now: Timestamp) -> Result<Self> {
        let (at, state) = (in_queue(stored), &stored.state);
        let key = stored.body.dedupe_key.as_ref().filter(|_| state.finished_at.is_none());
        let (text, crc) = if stored.is_new() {
            (None, None)
        } else {
            Some(rows.whose(STATE, stored.id().as_str()).encode(state)).unzip()
        };
        Ok(Self {
            status: number(state.status),
            epoch: signed(state.epoch)?,
            available: at.map(|at| at.due <= now),
            due: at.map(|at| signed(at.due.as_millis())).transpose()?,
            ended: millis(state.finished_at)?,
            key: key.map(store_core::DedupeKey::as_str),
            state: (text, crc),
        })
    }
}

/// Summarises the queue of a thread, if the plan contains all its queued dispatches. That is common, because most
/// threads have few.
fn ends_of(plan: &MailboxPlan) -> Option<QueueEnds> {
    let (epoch, now) = (plan.mailbox.epoch, plan.mailbox.last_time);
    let written: Vec<_> = plan.dispatches.iter().filter_map(in_queue).filter(|at| at.epoch == epoch).collect();
    if plan.mailbox.counts.queued != length(written.len()) {
        return None;
    }
    let due = || written.iter().filter(|at| at.due <= now);
    Some(QueueEnds {
        first: due().map(|at| at.priority).min(),
        earliest: due().map(|at| at.due).min(),
        next: written.iter().filter(|at| at.due > now).map(|at| at.due).min(),
    })
}

impl Rows<'_> {
    /// Makes a decision and writes its plan. A refused call may write something, too.
    ///
    /// The inner result is the answer of the call. The outer error says that writing failed. In that case the writes of
    /// the call must be rolled back.
    pub(crate) fn change<T>(&self, decide: impl FnOnce(&Self) -> Result<MailboxChange<T>>) -> Result<Result<T>> {
        let change = match decide(self) {
            Ok(change) => change,
            // SQLite has rolled the transaction back, so the error is not an answer.
            Err(error) if self.conn.is_autocommit() => return Err(error),
            Err(error) => return Ok(Err(error)),
        };
        if let Some(plan) = change.plan {
            self.apply(&plan)?;
        }
        Ok(change.answer)
    }

    fn apply(&self, plan: &MailboxPlan) -> Result<()> {
        self.has_written.set(true);
        let thread = &plan.thread;
        let (found, now) = (self.of_thread(thread)?, plan.mailbox.last_time);
        let planned_ends = ends_of(plan);
        let no = match &found {
            Some(found) => found.no,
            None => {
                let places = mailbox::places(&plan.mailbox, planned_ends.unwrap_or_default());
                self.add_mailbox(thread, &plan.mailbox, columns(places)?)?
            }
        };
        for stored in &plan.dispatches {
            let before = self.row_cache.put_written(self.no(), stored);
            self.put(no, stored, (before.as_ref(), now))?;
        }
        if let Some(id) = &plan.purged {
            self.remove(id)?;
            self.row_cache.remove(self.no(), id);
        }
        for (epoch, interrupt) in &plan.interrupts {
            self.put_interrupt((thread, no), *epoch, interrupt.as_ref())?;
        }
        if found.as_ref().map(MailboxRow::due).transpose()?.flatten().is_some_and(|due| due <= now) {
            self.run(sql::PROMOTE_DUE, (no, signed(plan.mailbox.epoch)?, signed(now.as_millis())?))?;
        }
        let ends = match planned_ends {
            Some(ends) => ends,
            None => self.ends(no, plan.mailbox.epoch)?,
        };
        let columns = columns(mailbox::places(&plan.mailbox, ends))?;
        if found.is_some() || planned_ends.is_none() {
            let before = found.map(|found| found.columns);
            self.set_mailbox((thread, no), &plan.mailbox, (before, columns))?;
        }
        let row = MailboxRow { no, record: plan.mailbox.clone(), columns };
        self.row_cache.put_thread(self.no(), thread, Some(row));
        let from = [self.claimable_from.get(), plan.claimable_from()];
        self.claimable_from.set(from.into_iter().flatten().min());
        Ok(())
    }

    /// Returns the number of the tenant, and creates its row if there is none.
    fn tenant_no(&self) -> Result<i64> {
        if let Some(known) = self.known.get() {
            return Ok(known.no);
        }
        let incarnation = self.next_incarnation.get();
        let kept = signed(incarnation)?;
        self.run(sql::SET_INCARNATION, [kept])?;
        self.run(sql::ADD_TENANT, (self.tenant.as_str(), kept))?;
        let no = self.conn.last_insert_rowid();
        self.known.set(Some(TenantRow { no, incarnation }));
        Ok(no)
    }

    fn add_mailbox(&self, thread: &ThreadId, record: &StoredMailbox, columns: PlaceColumns) -> Result<i64> {
        let tenant = self.tenant_no()?;
        let (text, crc) = self.whose(MAILBOX, thread.as_str()).encode(record);
        let [priority, since, due, lease] = columns;
        self.run(sql::ADD_MAILBOX, params![tenant, thread.as_str(), text, crc, priority, since, due, lease])?;
        Ok(self.conn.last_insert_rowid())
    }

    /// Writes the record of a thread and its position columns. Takes the previous columns, if they are known.
    fn set_mailbox(
        &self,
        (thread, no): (&ThreadId, i64),
        record: &StoredMailbox,
        (before, columns): (Option<PlaceColumns>, PlaceColumns),
    ) -> Result<()> {
        let (text, crc) = self.whose(MAILBOX, thread.as_str()).encode(record);
        let [priority, since, due, lease] = columns;
        let written = match before {
            Some(before) if before == columns => self.run(sql::SET_RECORD, params![no, text, crc]),
            Some([first, second, third, _]) if [first, second, third] == [priority, since, due] => {
                self.run(sql::SET_LEASE, params![no, text, crc, lease])
            }
            Some([.., before, _]) if before == due => {
                self.run(sql::SET_READY_LEASE, params![no, text, crc, priority, since, lease])
            }
            _ => self.run(sql::SET_MAILBOX, params![no, text, crc, priority, since, due, lease]),
        };
        written.map(drop)
    }

    /// Writes a dispatch. Takes its previous state, if it is known.
    fn put(
        &self,
        mailbox: i64,
        stored: &StoredDispatch,
        (before, now): (Option<&DispatchState>, Timestamp),
    ) -> Result<()> {
        let (body, columns) = (&*stored.body, Columns::of(self, stored, now)?);
        let Columns { status, epoch, available, due, ended, key, state: (state, crc) } = columns;
        let (tenant, id) = (self.no(), body.id.as_str());
        // The usual changes write only some columns. The indexes of the other columns are then not updated.
        let is_same = |before: &&DispatchState| before.epoch == stored.state.epoch && before.finished_at.is_none();
        match (before.filter(is_same).map(|before| before.status), stored.state.status) {
            (Some(DispatchStatus::Claimed), DispatchStatus::Claimed) => {
                return self.run(sql::SET_STATE, params![tenant, id, state, crc]).map(drop);
            }
            (Some(DispatchStatus::Queued), DispatchStatus::Claimed) => {
                return self.run(sql::SET_CLAIMED, params![tenant, id, state, crc]).map(drop);
            }
            (Some(DispatchStatus::Claimed), to) if to.is_final() && body.dedupe_key.is_none() => {
                return self.run(sql::SET_ENDED, params![tenant, id, status, ended, state, crc]).map(drop);
            }
            _ => {}
        }
        if let Some(key) = key {
            // A rule found that no dispatch uses the key any more.
            self.run(sql::FREE_KEY, (mailbox, key, body.id.as_str()))?;
        }
        if !stored.is_new() {
            let with = params![tenant, id, status, epoch, available, due, ended, key, state, crc];
            return self.run(sql::SET_DISPATCH, with).map(drop);
        }
        let payload = self.add_payload(body)?;
        let (text, body_crc) = self.whose(BODY, id).encode(&without_payload(body));
        let (created, number) = (signed(body.created_at.as_millis())?, signed(body.number)?);
        let priority = body.priority;
        let with = params![
            tenant, id, mailbox, created, status, epoch, available, priority, number, due, ended, key, payload, text,
            body_crc, state, crc
        ];
        self.run(sql::ADD_DISPATCH, with).map(drop)
    }

    fn add_payload(&self, body: &DispatchBody) -> Result<Option<i64>> {
        let Some(payload) = &body.payload else { return Ok(None) };
        let crc = self.whose(PAYLOAD, body.id.as_str()).checksum(payload.as_str());
        self.run(sql::ADD_PAYLOAD, (payload.as_str(), crc))?;
        Ok(Some(self.conn.last_insert_rowid()))
    }

    fn remove(&self, id: &DispatchId) -> Result<()> {
        let payload = self.one(sql::REMOVE_DISPATCH, (self.no(), id.as_str()), |row| get::<Option<i64>>(row, 0))?;
        match payload.flatten() {
            Some(payload) => self.run(sql::REMOVE_PAYLOAD, [payload]).map(drop),
            None => Ok(()),
        }
    }

    fn put_interrupt(
        &self,
        (thread, mailbox): (&ThreadId, i64),
        epoch: u64,
        interrupt: Option<&StoredInterrupt>,
    ) -> Result<()> {
        let kept = signed(epoch)?;
        let Some(interrupt) = interrupt else {
            return self.run(sql::REMOVE_INTERRUPT, (mailbox, kept)).map(drop);
        };
        let (lot, name) = (mailbox::lot(interrupt), format!("{epoch} of {thread}"));
        let (text, crc) = self.whose(INTERRUPT, &name).encode(interrupt);
        let held = (interrupt.holds > 0).then(|| signed(lot.epoch)).transpose()?;
        let with = params![mailbox, kept, self.no(), signed(lot.at.as_millis())?, held, text, crc];
        self.run(sql::SET_INTERRUPT, with).map(drop)
    }

    /// Makes those dispatches of a thread available that are due at `now`. If the clock was set back, also makes those
    /// unavailable that are not due any more.
    pub(crate) fn promote_due(&self, thread: &ThreadId, now: Timestamp, back: bool) -> Result<()> {
        let Some(found) = self.of_thread(thread)? else { return Ok(()) };
        let now = mailbox::time(Some(&found.record), now);
        if !back && found.due()?.is_none_or(|due| due > now) {
            return Ok(());
        }
        self.has_written.set(true);
        let with = (found.no, signed(found.record.epoch)?, signed(now.as_millis())?);
        self.run(sql::PROMOTE_DUE, with)?;
        if back {
            self.run(sql::DEMOTE_NOT_DUE, with)?;
        }
        let columns = columns(mailbox::places(&found.record, self.ends(found.no, found.record.epoch)?))?;
        let [priority, since, due, lease] = columns;
        self.run(sql::SET_PLACES, params![found.no, priority, since, due, lease])?;
        self.row_cache.put_thread(self.no(), thread, Some(MailboxRow { columns, ..found }));
        Ok(())
    }
}

/// For checks and repairs: whether the position columns agree with the records.
impl Rows<'_> {
    /// Whether the columns of a dispatch agree with its record. Two differences are accepted: its availability depends
    /// on when due dispatches were last made available, and its key may belong to another dispatch if an interrupt
    /// superseded this one.
    pub(crate) fn columns_match(&self, stored: &StoredDispatch) -> Result<bool> {
        let right = Columns::of(self, stored, stored.state.updated_at)?;
        let found = self.one(sql::COLUMNS, (self.no(), stored.id().as_str()), |row| {
            let key: Option<String> = get(row, 5)?;
            Ok(get::<i64>(row, 0)? == right.status
                && get::<i64>(row, 1)? == right.epoch
                && get::<bool>(row, 2)? == right.available.is_none()
                && get::<Option<i64>>(row, 3)? == right.due
                && get::<Option<i64>>(row, 4)? == right.ended
                && (key.is_none() || key.as_deref() == right.key))
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Whether the position columns of a thread agree with its record.
    pub(crate) fn is_placed(&self, no: i64, record: &StoredMailbox) -> Result<bool> {
        let right = columns(mailbox::places(record, self.ends(no, record.epoch)?))?;
        let read = |row: &rusqlite::Row<'_>| Ok([get(row, 0)?, get(row, 1)?, get(row, 2)?, get(row, 3)?]);
        Ok(self.one(sql::PLACES, [no], read)? == Some(right))
    }

    /// Corrects the columns of a dispatch.
    pub(crate) fn correct(&self, mailbox: i64, stored: &StoredDispatch, now: Timestamp) -> Result<()> {
        if self.columns_match(stored)? {
            return Ok(());
        }
        let Columns { status, epoch, available, due, ended, key, state: (state, crc) } =
            Columns::of(self, stored, now)?;
        if let Some(key) = key {
            self.run(sql::FREE_KEY, (mailbox, key, stored.id().as_str()))?;
        }
        let id = stored.id().as_str();
        let with = params![self.no(), id, status, epoch, available, due, ended, key, state, crc];
        self.run(sql::SET_DISPATCH, with).map(drop)
    }

    /// Takes an unreadable dispatch out of the queue.
    pub(crate) fn quarantine(&self, id: &str) -> Result<()> {
        self.run(sql::QUARANTINE, (self.no(), id)).map(drop)
    }

    /// Writes the record of a thread, and corrects its position columns.
    pub(crate) fn rewrite_places(&self, thread: &ThreadId, no: i64, record: StoredMailbox) -> Result<()> {
        let columns = columns(mailbox::places(&record, self.ends(no, record.epoch)?))?;
        self.set_mailbox((thread, no), &record, (None, columns))?;
        self.row_cache.put_thread(self.no(), thread, Some(MailboxRow { no, record, columns }));
        Ok(())
    }
}

fn without_payload(body: &DispatchBody) -> DispatchBody {
    let mut body = body.clone();
    body.payload = None;
    body
}
