//! The mailbox of a tenant in the index, as the rules of core ask for it.

use std::sync::Arc;

use store_core::{
    DedupeKey, DispatchId, Error, Json, Result, TenantId, ThreadId, Timestamp,
    codec::{Codec, DecodeError, Fields, ObjectWriter},
    mailbox::{
        DispatchBody, DispatchState, MailboxView, StoredDispatch, StoredInterrupt, StoredMailboxThread, ThreadPositions,
    },
};

use crate::{
    codec::{Rows, damaged, narrow, read, wide},
    index::Direction,
    line,
    log::Span,
    shared::Shared,
    table::{self, MailboxList},
    tails::Tails,
    view,
    walk::Walk,
};

/// A dispatch, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DispatchRow {
    /// Where its line is.
    pub(crate) log: u64,
    pub(crate) span: Span,
    /// Without the payload, which stays in the log.
    pub(crate) body: DispatchBody,
    pub(crate) has_payload: bool,
    /// Which log has its newest state.
    pub(crate) state_log: u64,
    pub(crate) state: DispatchState,
}

impl DispatchRow {
    /// A dispatch as it was enqueued.
    pub(crate) fn enqueued(log: u64, span: Span, body: &DispatchBody) -> Self {
        let has_payload = body.payload.is_some();
        let mut body = body.clone();
        body.payload = None;
        let state = StoredDispatch::enqueued(Arc::new(body.clone())).state;
        Self { log, span, body, has_payload, state_log: log, state }
    }

    /// The dispatch without its payload.
    pub(crate) fn stored(&self) -> StoredDispatch {
        StoredDispatch::new(Arc::new(self.body.clone()), self.state.clone())
    }
}

impl Codec for DispatchRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("log", &self.log).field("span", &wide(self.span)).field("body", &self.body);
        object.field("payload", &self.has_payload);
        object.field("state_log", &self.state_log).field("state", &self.state);
        object.close();
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self {
            log: fields.take("log")?,
            span: narrow(&fields.take::<Vec<u64>>("span")?)?,
            body: fields.take("body")?,
            has_payload: fields.take("payload")?,
            state_log: fields.take("state_log")?,
            state: fields.take("state")?,
        })
    }
}

/// The record of a thread's mailbox, and which log has the newest one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MailboxRow {
    pub(crate) log: u64,
    pub(crate) mailbox: StoredMailboxThread,
}

impl Codec for MailboxRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("log", &self.log).field("mailbox", &self.mailbox);
        object.close();
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self { log: fields.take("log")?, mailbox: fields.take("mailbox")? })
    }
}

/// Where a thread stands among the others. What of its queue is due up to `until` is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PlacedRow {
    pub(crate) until: Timestamp,
    pub(crate) places: ThreadPositions,
}

impl Codec for PlacedRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("until", &self.until);
        if let Some((priority, since)) = &self.places.ready {
            object.field("priority", priority).field("since", since);
        }
        object.maybe("due", self.places.due.as_ref()).maybe("lease", self.places.lease.as_ref());
        object.close();
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let mut places = ThreadPositions::default();
        if let Some(priority) = fields.maybe("priority")? {
            places.ready = Some((priority, fields.take("since")?));
        }
        (places.due, places.lease) = (fields.maybe("due")?, fields.maybe("lease")?);
        Ok(Self { until: fields.take("until")?, places })
    }
}

/// Typed reads of the mailbox.
pub(crate) trait MailboxRows: Rows {
    fn dispatch_row(&self, tenant: &TenantId, id: &DispatchId) -> Result<Option<DispatchRow>> {
        let bytes = self.get(table::dispatch(tenant, id).as_bytes())?;
        bytes.map(|bytes| read("dispatch", &bytes)).transpose()
    }

    fn mailbox_row(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Option<MailboxRow>> {
        let bytes = self.get(table::mailbox(tenant, thread).as_bytes())?;
        bytes.map(|bytes| read("mailbox", &bytes)).transpose()
    }

    fn interrupt_row(&self, tenant: &TenantId, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        let bytes = self.get(table::interrupt(tenant, thread, epoch).as_bytes())?;
        bytes.map(|bytes| read("interrupt", &bytes)).transpose()
    }

    fn placed_row(&self, tenant: &TenantId, thread: &ThreadId) -> Result<PlacedRow> {
        let bytes = self.get(table::placed(tenant, thread).as_bytes())?;
        bytes.map_or(Ok(PlacedRow::default()), |bytes| read("place of a thread", &bytes))
    }

    /// The time under a key.
    fn time(&self, key: &crate::index::Key) -> Result<Option<Timestamp>> {
        self.number(key)?.map(Timestamp::from_millis).transpose()
    }

    /// A number under a key.
    fn number(&self, key: &crate::index::Key) -> Result<Option<u64>> {
        let Some(bytes) = self.get(key.as_bytes())? else { return Ok(None) };
        table::last_number(&bytes).map(Some).ok_or_else(|| damaged("number"))
    }

    /// The incarnation of a tenant's claim numbers, but for that of the store; a new one is above those of the tenants
    /// that were removed.
    fn claims(&self, tenant: &TenantId, now: Timestamp) -> Result<u64> {
        if let Some(made) = self.number(&table::mailbox_made(tenant))? {
            return Ok(made);
        }
        let removed = self.number(&table::fact("claims"))?;
        Ok(removed.map_or(0, |removed| removed + 1).max(now.as_millis()))
    }

    /// The id of a dispatch under a key.
    fn dispatch_id(&self, key: &[u8]) -> Result<Option<DispatchId>> {
        let Some(bytes) = self.get(key)? else { return Ok(None) };
        let text = String::from_utf8(bytes).map_err(|e| damaged("dispatch").with_source(e))?;
        DispatchId::new(text).map(Some)
    }
}

impl<R: Rows + ?Sized> MailboxRows for R {}

/// The mailbox of a tenant as something shows it.
pub(crate) struct MailboxTable<'a, R> {
    rows: &'a R,
    shared: &'a Shared,
    tenant: &'a TenantId,
    /// What whoever decides is about to write.
    tails: Option<&'a Tails>,
    has_payloads: bool,
    despite_damage: bool,
    incarnation: u64,
}

impl<'a, R: Walk> MailboxTable<'a, R> {
    /// For readers.
    pub(crate) fn new(rows: &'a R, shared: &'a Shared, tenant: &'a TenantId) -> Self {
        Self { rows, shared, tenant, tails: None, has_payloads: false, despite_damage: false, incarnation: 0 }
    }

    /// For the writer, with what is not written yet.
    pub(crate) const fn beside(mut self, tails: &'a Tails) -> Self {
        self.tails = Some(tails);
        self
    }

    /// The same for the writer of the log of the mailbox, who gives claim numbers out.
    pub(crate) fn claiming(mut self, now: Timestamp) -> Result<Self> {
        self.incarnation = self.rows.claims(self.tenant, now)? + self.shared.meta.incarnation();
        Ok(self)
    }

    /// The same with the payloads of dispatches.
    pub(crate) const fn with_payloads(mut self) -> Self {
        self.has_payloads = true;
        self
    }

    /// The same for who ends what cannot be given out any more, as the log of its thread is damaged (MB-55).
    pub(crate) const fn despite_damage(mut self) -> Self {
        self.despite_damage = true;
        self
    }

    /// The payload of a dispatch.
    pub(crate) fn payload(&self, row: &DispatchRow) -> Result<Option<Json>> {
        if !row.has_payload {
            return Ok(None);
        }
        match self.tails {
            Some(tails) => view::read_beside(self.shared, tails, (row.log, row.span), line::decode_dispatch_payload),
            None => view::read(self.shared, row.log, row.span, line::decode_dispatch_payload),
        }
    }
}

impl<R: Walk> MailboxView for MailboxTable<'_, R> {
    fn claim_incarnation(&self) -> u64 {
        self.incarnation
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailboxThread>> {
        self.shared.check_damage(self.tenant, &crate::mailbox::log_id()?)?;
        // Its log may have had a settlement.
        if !self.despite_damage {
            self.shared.check_damage(self.tenant, thread)?;
        }
        Ok(self.rows.mailbox_row(self.tenant, thread)?.map(|row| row.mailbox))
    }

    fn dispatch(&self, id: &DispatchId) -> Result<Option<StoredDispatch>> {
        let Some(mut row) = self.rows.dispatch_row(self.tenant, id)? else { return Ok(None) };
        if self.has_payloads {
            row.body.payload = self.payload(&row)?;
        }
        Ok(Some(StoredDispatch::new(Arc::new(row.body), row.state)))
    }

    fn last_dispatch_with_key(&self, thread: &ThreadId, key: &DedupeKey) -> Result<Option<DispatchId>> {
        self.rows.dispatch_id(table::dispatch_key(self.tenant, thread, key).as_bytes())
    }

    fn first_available(&self, thread: &ThreadId, epoch: u64, now: Timestamp) -> Result<Option<DispatchId>> {
        let list = table::mailbox_list(self.tenant, MailboxList::Available(thread, epoch));
        let mut after = None;
        while let Some(key) = self.rows.next(&list, after, Direction::Forward)? {
            // Time may have gone back since it became available.
            if self.rows.time(&crate::index::Key::from_bytes(&key))?.is_some_and(|due| due <= now) {
                let (priority, number) = table::read_queue_place(&list, &key).ok_or_else(|| damaged("queue"))?;
                let queue = table::mailbox_list(self.tenant, MailboxList::Queue(thread, epoch));
                let id = self.rows.dispatch_id(table::queue_place(queue, priority, number).as_bytes())?;
                return id.map(Some).ok_or_else(|| damaged("queue"));
            }
            after = Some(key);
        }
        Ok(None)
    }

    fn interrupt(&self, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        self.rows.interrupt_row(self.tenant, thread, epoch)
    }
}

/// Refuses to tell of the mailbox where the log that says so is damaged.
pub(crate) fn check(shared: &Shared, tenant: &TenantId) -> Result<(), Error> {
    shared.check_damage(tenant, &crate::mailbox::log_id()?)
}
