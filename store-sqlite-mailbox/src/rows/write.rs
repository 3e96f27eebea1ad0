//! Writes the plans of rules, and makes due dispatches available.

use rusqlite::params;
use store_core::{
    DispatchId, DispatchStatus, Result, ThreadId, Timestamp, length,
    mailbox::{
        self, DispatchBody, DispatchState, MailboxDecision, MailboxPlan, QueueSummary, StoredDispatch, StoredInterrupt,
        StoredMailboxThread, ThreadPositions, queue_position,
    },
};

use super::{BODY, INTERRUPT, MAILBOX, MailboxRow, PAYLOAD, PositionColumns, Rows, STATE, TenantRow, get, signed};
use crate::sql;

/// Returns the number that stands for a status in a column. Numbers never change their meaning.
pub(crate) const fn status_number(status: DispatchStatus) -> i64 {
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

pub(super) fn position_columns(positions: ThreadPositions) -> Result<PositionColumns> {
    let (priority, since) = positions.ready.unzip();
    Ok([priority.map(i64::from), millis(since)?, millis(positions.due)?, millis(positions.lease)?])
}

/// The columns by which a dispatch is found in lists and queues.
struct DispatchColumns<'a> {
    status: i64,
    epoch: i64,
    /// Whether the dispatch is due. `None` if it is not queued.
    available: Option<bool>,
    due: Option<i64>,
    ended: Option<i64>,
    key: Option<&'a str>,
    /// The encoded state and its checksum. Absent for a new dispatch, whose state follows from its body.
    state: (Option<String>, Option<i64>),
}

impl<'a> DispatchColumns<'a> {
    fn of(rows: &Rows<'_>, stored: &'a StoredDispatch, now: Timestamp) -> Result<Self> {
        let (at, state) = (queue_position(stored), &stored.state);
        let key = stored.body.dedupe_key.as_ref().filter(|_| state.finished_at.is_none());
        let (text, crc) = if stored.is_new() {
            (None, None)
        } else {
            Some(rows.record_name(STATE, stored.id().as_str()).encode(state)).unzip()
        };
        Ok(Self {
            status: status_number(state.status),
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
/// threads have few queued dispatches.
fn planned_queue_summary(plan: &MailboxPlan) -> Option<QueueSummary> {
    let (epoch, now) = (plan.mailbox.epoch, plan.mailbox.last_time);
    let positions: Vec<_> = plan.dispatches.iter().filter_map(queue_position).filter(|at| at.epoch == epoch).collect();
    if plan.mailbox.counts.queued != length(positions.len()) {
        return None;
    }
    let due = || positions.iter().filter(|at| at.due <= now);
    Some(QueueSummary {
        first_priority: due().map(|at| at.priority).min(),
        earliest_due: due().map(|at| at.due).min(),
        next_due: positions.iter().filter(|at| at.due > now).map(|at| at.due).min(),
    })
}

impl Rows<'_> {
    /// Makes a decision and writes its plan. Even a decision that refuses a call may have a plan.
    ///
    /// The inner result is the answer of the call. The outer error says that reading or writing rows failed. In that
    /// case the writes of the call must be rolled back.
    pub(crate) fn decide<T>(&self, decide: impl FnOnce(&Self) -> Result<MailboxDecision<T>>) -> Result<Result<T>> {
        let change = match decide(self) {
            Ok(change) => change,
            // SQLite has rolled the transaction back, so the error is not an answer.
            Err(error) if self.conn.is_autocommit() => return Err(error),
            Err(error) => return Ok(Err(error)),
        };
        if let Some(plan) = change.plan {
            self.write_plan(&plan)?;
        }
        Ok(change.answer)
    }

    fn write_plan(&self, plan: &MailboxPlan) -> Result<()> {
        self.has_written.set(true);
        let thread = &plan.thread;
        let (found, now) = (self.mailbox_row(thread)?, plan.mailbox.last_time);
        let planned_summary = planned_queue_summary(plan);
        let row_number = match &found {
            Some(found) => found.row_number,
            None => {
                let positions = mailbox::thread_positions(&plan.mailbox, planned_summary.unwrap_or_default());
                self.add_mailbox(thread, &plan.mailbox, position_columns(positions)?)?
            }
        };
        for stored in &plan.dispatches {
            let previous_state = self.row_cache.put_written(self.tenant_row_number(), stored);
            self.write_dispatch(row_number, stored, (previous_state.as_ref(), now))?;
        }
        if let Some(id) = &plan.purged {
            self.remove_dispatch(id)?;
            self.row_cache.remove(self.tenant_row_number(), id);
        }
        for (epoch, interrupt) in &plan.interrupts {
            self.put_interrupt((thread, row_number), *epoch, interrupt.as_ref())?;
        }
        if found.as_ref().map(MailboxRow::due).transpose()?.flatten().is_some_and(|due| due <= now) {
            self.execute(sql::PROMOTE_DUE, (row_number, signed(plan.mailbox.epoch)?, signed(now.as_millis())?))?;
        }
        let summary = match planned_summary {
            Some(summary) => summary,
            None => self.queue_summary(row_number, plan.mailbox.epoch)?,
        };
        let columns = position_columns(mailbox::thread_positions(&plan.mailbox, summary))?;
        if found.is_some() || planned_summary.is_none() {
            let previous_columns = found.map(|found| found.columns);
            self.set_mailbox((thread, row_number), &plan.mailbox, (previous_columns, columns))?;
        }
        let row = MailboxRow { row_number, record: plan.mailbox.clone(), columns };
        self.row_cache.put_thread(self.tenant_row_number(), thread, Some(row));
        let from = [self.claimable_from.get(), plan.claimable_from()];
        self.claimable_from.set(from.into_iter().flatten().min());
        Ok(())
    }

    /// Returns the number of the tenant's row, and creates the row if there is none.
    fn ensure_tenant_row(&self) -> Result<i64> {
        if let Some(tenant_row) = self.tenant_row.get() {
            return Ok(tenant_row.row_number);
        }
        let incarnation = self.next_incarnation.get();
        let incarnation_number = signed(incarnation)?;
        self.execute(sql::SET_INCARNATION, [incarnation_number])?;
        self.execute(sql::ADD_TENANT, (self.tenant.as_str(), incarnation_number))?;
        let row_number = self.conn.last_insert_rowid();
        self.tenant_row.set(Some(TenantRow { row_number, incarnation }));
        Ok(row_number)
    }

    pub(super) fn add_mailbox(
        &self,
        thread: &ThreadId,
        record: &StoredMailboxThread,
        columns: PositionColumns,
    ) -> Result<i64> {
        let tenant = self.ensure_tenant_row()?;
        let (text, crc) = self.record_name(MAILBOX, thread.as_str()).encode(record);
        let [priority, since, due, lease] = columns;
        self.execute(sql::ADD_MAILBOX, params![tenant, thread.as_str(), text, crc, priority, since, due, lease])?;
        Ok(self.conn.last_insert_rowid())
    }

    /// Writes the record of a thread and its position columns. `before` contains the previous columns, if these are
    /// known.
    fn set_mailbox(
        &self,
        (thread, row_number): (&ThreadId, i64),
        record: &StoredMailboxThread,
        (before, columns): (Option<PositionColumns>, PositionColumns),
    ) -> Result<()> {
        let (text, crc) = self.record_name(MAILBOX, thread.as_str()).encode(record);
        let [priority, since, due, lease] = columns;
        let result = match before {
            Some(before) if before == columns => self.execute(sql::SET_RECORD, params![row_number, text, crc]),
            Some([old_priority, old_since, old_due, _])
                if [old_priority, old_since, old_due] == [priority, since, due] =>
            {
                self.execute(sql::SET_LEASE, params![row_number, text, crc, lease])
            }
            Some([.., old_due, _]) if old_due == due => {
                self.execute(sql::SET_READY_LEASE, params![row_number, text, crc, priority, since, lease])
            }
            _ => self.execute(sql::SET_MAILBOX, params![row_number, text, crc, priority, since, due, lease]),
        };
        result.map(drop)
    }

    /// Writes a dispatch. `before` is its previous state, if that is known.
    fn write_dispatch(
        &self,
        row_number: i64,
        stored: &StoredDispatch,
        (before, now): (Option<&DispatchState>, Timestamp),
    ) -> Result<()> {
        let (body, columns) = (&*stored.body, DispatchColumns::of(self, stored, now)?);
        let DispatchColumns { status, epoch, available, due, ended, key, state: (state, crc) } = &columns;
        let (tenant, id) = (self.tenant_row_number(), body.id.as_str());
        // The usual changes write only some columns. The indexes of the other columns are then not updated.
        let is_usual = |before: &&DispatchState| before.epoch == stored.state.epoch && before.finished_at.is_none();
        match (before.filter(is_usual).map(|before| before.status), stored.state.status) {
            (Some(DispatchStatus::Claimed), DispatchStatus::Claimed) => {
                return self.execute(sql::SET_STATE, params![tenant, id, state, crc]).map(drop);
            }
            (Some(DispatchStatus::Queued), DispatchStatus::Claimed) => {
                return self.execute(sql::SET_CLAIMED, params![tenant, id, state, crc]).map(drop);
            }
            (Some(DispatchStatus::Claimed), to) if to.is_final() && body.dedupe_key.is_none() => {
                return self.execute(sql::SET_ENDED, params![tenant, id, status, ended, state, crc]).map(drop);
            }
            _ => {}
        }
        if let Some(key) = key {
            // The rule has found that no other dispatch uses this key any more. A row may still contain it.
            self.execute(sql::FREE_KEY, (row_number, key, body.id.as_str()))?;
        }
        if !stored.is_new() {
            let parameters = params![tenant, id, status, epoch, available, due, ended, key, state, crc];
            return self.execute(sql::SET_DISPATCH, parameters).map(drop);
        }
        self.add_dispatch(row_number, stored, columns)
    }

    /// Adds the row of a dispatch.
    fn add_dispatch(&self, row_number: i64, stored: &StoredDispatch, columns: DispatchColumns<'_>) -> Result<()> {
        let (tenant, body, id) = (self.tenant_row_number(), &*stored.body, stored.body.id.as_str());
        let DispatchColumns { status, epoch, available, due, ended, key, state: (state, crc) } = columns;
        let payload = self.add_payload(body)?;
        let (text, body_crc) = self.record_name(BODY, id).encode(&without_payload(body));
        let (created, number) = (signed(body.created_at.as_millis())?, signed(body.number)?);
        let priority = body.priority;
        let parameters = params![
            tenant, id, row_number, created, status, epoch, available, priority, number, due, ended, key, payload,
            text, body_crc, state, crc
        ];
        self.execute(sql::ADD_DISPATCH, parameters).map(drop)
    }

    /// Writes a dispatch as it was in another mailbox, in any state. `holds_key` says whether it has its dedupe key.
    pub(super) fn restore_dispatch(
        &self,
        row_number: i64,
        stored: &StoredDispatch,
        (holds_key, now): (bool, Timestamp),
    ) -> Result<()> {
        let mut columns = DispatchColumns::of(self, stored, now)?;
        columns.key = columns.key.filter(|_| holds_key);
        let (tenant, id) = (self.tenant_row_number(), stored.body.id.as_str());
        self.row_cache.remove(tenant, stored.id());
        if let Some(key) = columns.key {
            self.execute(sql::FREE_KEY, (row_number, key, id))?;
        }
        if self.query_one(sql::DISPATCH, (tenant, id), |_| Ok(()))?.is_none() {
            return self.add_dispatch(row_number, stored, columns);
        }
        let DispatchColumns { status, epoch, available, due, ended, key, state: (state, crc) } = columns;
        let parameters = params![tenant, id, status, epoch, available, due, ended, key, state, crc];
        self.execute(sql::SET_DISPATCH, parameters).map(drop)
    }

    fn add_payload(&self, body: &DispatchBody) -> Result<Option<i64>> {
        let Some(payload) = &body.payload else { return Ok(None) };
        let crc = self.record_name(PAYLOAD, body.id.as_str()).checksum(payload.as_str());
        self.execute(sql::ADD_PAYLOAD, (payload.as_str(), crc))?;
        Ok(Some(self.conn.last_insert_rowid()))
    }

    fn remove_dispatch(&self, id: &DispatchId) -> Result<()> {
        let payload_row = self.query_one(sql::REMOVE_DISPATCH, (self.tenant_row_number(), id.as_str()), |row| {
            get::<Option<i64>>(row, 0)
        })?;
        match payload_row.flatten() {
            Some(row_number) => self.execute(sql::REMOVE_PAYLOAD, [row_number]).map(drop),
            None => Ok(()),
        }
    }

    pub(super) fn put_interrupt(
        &self,
        (thread, row_number): (&ThreadId, i64),
        epoch: u64,
        interrupt: Option<&StoredInterrupt>,
    ) -> Result<()> {
        let epoch_number = signed(epoch)?;
        let Some(interrupt) = interrupt else {
            return self.execute(sql::REMOVE_INTERRUPT, (row_number, epoch_number)).map(drop);
        };
        let (batch, name) = (mailbox::superseded_batch(interrupt), format!("{epoch} of {thread}"));
        let (text, crc) = self.record_name(INTERRUPT, &name).encode(interrupt);
        let batch_epoch = (interrupt.holds > 0).then(|| signed(batch.epoch)).transpose()?;
        let parameters = params![
            row_number,
            epoch_number,
            self.tenant_row_number(),
            signed(batch.at.as_millis())?,
            batch_epoch,
            text,
            crc
        ];
        self.execute(sql::SET_INTERRUPT, parameters).map(drop)
    }

    /// Makes the dispatches of a thread available if they are due at `now`.
    pub(crate) fn promote_due(&self, thread: &ThreadId, now: Timestamp) -> Result<()> {
        let clock_was_set_back = false;
        self.update_availability(thread, now, clock_was_set_back)
    }

    /// After the clock was set back: makes the dispatches of a thread available if they are due at `now`, and makes
    /// those unavailable that are not due any more.
    pub(crate) fn promote_and_demote(&self, thread: &ThreadId, now: Timestamp) -> Result<()> {
        let clock_was_set_back = true;
        self.update_availability(thread, now, clock_was_set_back)
    }

    fn update_availability(&self, thread: &ThreadId, now: Timestamp, clock_was_set_back: bool) -> Result<()> {
        let Some(found) = self.mailbox_row(thread)? else { return Ok(()) };
        let now = mailbox::decision_time(Some(&found.record), now);
        if !clock_was_set_back && found.due()?.is_none_or(|due| due > now) {
            return Ok(());
        }
        self.has_written.set(true);
        let parameters = (found.row_number, signed(found.record.epoch)?, signed(now.as_millis())?);
        self.execute(sql::PROMOTE_DUE, parameters)?;
        if clock_was_set_back {
            self.execute(sql::DEMOTE_NOT_DUE, parameters)?;
        }
        let columns = position_columns(mailbox::thread_positions(
            &found.record,
            self.queue_summary(found.row_number, found.record.epoch)?,
        ))?;
        let [priority, since, due, lease] = columns;
        self.execute(sql::SET_POSITIONS, params![found.row_number, priority, since, due, lease])?;
        self.row_cache.put_thread(self.tenant_row_number(), thread, Some(MailboxRow { columns, ..found }));
        Ok(())
    }
}

/// For checks and repairs: the columns that are derived from records.
impl Rows<'_> {
    /// Whether the columns of a dispatch agree with its record. Two differences are accepted. Whether the dispatch is
    /// available depends on when due dispatches were last made available. And if an interrupt superseded the dispatch,
    /// its key may now belong to another dispatch.
    pub(crate) fn dispatch_columns_match(&self, stored: &StoredDispatch) -> Result<bool> {
        let expected = DispatchColumns::of(self, stored, stored.state.updated_at)?;
        let found = self.query_one(sql::DISPATCH_COLUMNS, (self.tenant_row_number(), stored.id().as_str()), |row| {
            let key: Option<String> = get(row, 5)?;
            Ok(get::<i64>(row, 0)? == expected.status
                && get::<i64>(row, 1)? == expected.epoch
                && get::<bool>(row, 2)? == expected.available.is_none()
                && get::<Option<i64>>(row, 3)? == expected.due
                && get::<Option<i64>>(row, 4)? == expected.ended
                && (key.is_none() || key.as_deref() == expected.key))
        })?;
        Ok(found.unwrap_or_default())
    }

    /// Whether the position columns of a thread agree with its record.
    pub(crate) fn mailbox_columns_match(&self, row_number: i64, record: &StoredMailboxThread) -> Result<bool> {
        let expected =
            position_columns(mailbox::thread_positions(record, self.queue_summary(row_number, record.epoch)?))?;
        let read = |row: &rusqlite::Row<'_>| Ok([get(row, 0)?, get(row, 1)?, get(row, 2)?, get(row, 3)?]);
        Ok(self.query_one(sql::MAILBOX_POSITIONS, [row_number], read)? == Some(expected))
    }

    /// Repairs the columns of a dispatch.
    pub(crate) fn repair_columns(&self, row_number: i64, stored: &StoredDispatch, now: Timestamp) -> Result<()> {
        if self.dispatch_columns_match(stored)? {
            return Ok(());
        }
        let DispatchColumns { status, epoch, available, due, ended, key, state: (state, crc) } =
            DispatchColumns::of(self, stored, now)?;
        if let Some(key) = key {
            self.execute(sql::FREE_KEY, (row_number, key, stored.id().as_str()))?;
        }
        let id = stored.id().as_str();
        let parameters = params![self.tenant_row_number(), id, status, epoch, available, due, ended, key, state, crc];
        self.execute(sql::SET_DISPATCH, parameters).map(drop)
    }

    /// Takes an unreadable dispatch out of the queue.
    pub(crate) fn take_out_of_queue(&self, id: &str) -> Result<()> {
        self.execute(sql::TAKE_OUT_OF_QUEUE, (self.tenant_row_number(), id)).map(drop)
    }

    /// Writes the record of a thread, and repairs its position columns.
    pub(crate) fn write_record_and_positions(
        &self,
        thread: &ThreadId,
        row_number: i64,
        record: StoredMailboxThread,
    ) -> Result<()> {
        let columns =
            position_columns(mailbox::thread_positions(&record, self.queue_summary(row_number, record.epoch)?))?;
        self.set_mailbox((thread, row_number), &record, (None, columns))?;
        self.row_cache.put_thread(self.tenant_row_number(), thread, Some(MailboxRow { row_number, record, columns }));
        Ok(())
    }
}

fn without_payload(body: &DispatchBody) -> DispatchBody {
    let mut body = body.clone();
    body.payload = None;
    body
}
