//! The rows of mailboxes in the index: dispatches, the records of threads, and their places.

use std::sync::Arc;

use store_core::{
    DispatchId, Result, TenantId, ThreadId, Timestamp,
    codec::{Codec, DecodeError, Fields, ObjectWriter},
    mailbox::{DispatchBody, DispatchState, StoredDispatch, StoredInterrupt, StoredMailboxThread, ThreadPositions},
};

use crate::{
    codec::{Rows, damaged},
    log::Span,
    table,
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
        object.field("log", &self.log).field("span", &self.span).field("body", &self.body);
        object.field("payload", &self.has_payload);
        object.field("state_log", &self.state_log).field("state", &self.state);
        object.close();
    }

    fn read(raw: &str) -> std::result::Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self {
            log: fields.take("log")?,
            span: fields.take("span")?,
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
        self.decoded("dispatch", &table::dispatch(tenant, id))
    }

    fn mailbox_row(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Option<MailboxRow>> {
        self.decoded("mailbox", &table::mailbox(tenant, thread))
    }

    fn interrupt_row(&self, tenant: &TenantId, thread: &ThreadId, epoch: u64) -> Result<Option<StoredInterrupt>> {
        self.decoded("interrupt", &table::interrupt(tenant, thread, epoch))
    }

    fn placed_row(&self, tenant: &TenantId, thread: &ThreadId) -> Result<PlacedRow> {
        Ok(self.decoded("place of a thread", &table::placed(tenant, thread))?.unwrap_or_default())
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

impl<R: Rows> MailboxRows for R {}
