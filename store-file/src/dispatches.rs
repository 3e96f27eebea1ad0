//! The mailbox of a tenant in the index, as the rules of core ask for it.

use std::sync::Arc;

use store_core::{
    DedupeKey, DispatchId, Error, Json, Result, TenantId, ThreadId, Timestamp,
    mailbox::{MailboxView, StoredDispatch, StoredInterrupt, StoredMailboxThread},
};

use crate::{
    codec::damaged,
    dispatch_rows::{DispatchRow, MailboxRows},
    index::Direction,
    line,
    names::mailbox_log_id,
    records,
    shared::Shared,
    table::{self, MailboxList},
    tails::Tails,
    walk::Walk,
};

/// The mailbox of a tenant, read through `rows`.
pub(crate) struct MailboxTable<'a, R> {
    rows: &'a R,
    shared: &'a Shared,
    tenant: &'a TenantId,
    /// The lines that the writer has planned and not written yet. Readers have none.
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

    /// For the writer of the log of the mailbox, which gives claim numbers out.
    pub(crate) fn claiming(mut self, now: Timestamp) -> Result<Self> {
        self.incarnation = self.rows.claims(self.tenant, now)? + self.shared.meta.incarnation();
        Ok(self)
    }

    /// For calls that show dispatches with their payloads.
    pub(crate) const fn with_payloads(mut self) -> Self {
        self.has_payloads = true;
        self
    }

    /// For calls that end dispatches which cannot be claimed any more, as the log of their thread is damaged (MB-55).
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
            Some(tails) => records::read_beside(self.shared, tails, (row.log, row.span), line::decode_dispatch_payload),
            None => records::read(self.shared, row.log, row.span, line::decode_dispatch_payload),
        }
    }
}

impl<R: Walk> MailboxView for MailboxTable<'_, R> {
    fn claim_incarnation(&self) -> u64 {
        self.incarnation
    }

    fn mailbox(&self, thread: &ThreadId) -> Result<Option<StoredMailboxThread>> {
        self.shared.check_damage(self.tenant, &mailbox_log_id()?)?;
        // The log of the thread may have had a settlement.
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

/// Refuses to read a mailbox whose log is damaged.
pub(crate) fn check(shared: &Shared, tenant: &TenantId) -> Result<(), Error> {
    shared.check_damage(tenant, &mailbox_log_id()?)
}
