//! Lists of the whole tenant.

use std::sync::Arc;

use store_core::{
    OutboxId, Result, RunId, ThreadId,
    event::ScopeState,
    mailbox::{StoredDispatch, StoredInterrupt},
    outbox::StoredOutboxRow,
    records::{RecordKey, StoredRecord},
};

use super::{Dump, Page};
use crate::{
    codec::{DocumentRow, EventKeyRow, EventRow, Rows as _, RunRow, damaged, read},
    dispatch_rows::{DispatchRow, MailboxRow, MailboxRows as _},
    dispatches::MailboxTable,
    index::{Key, KeyReader},
    line, records, table,
    writer::DOCUMENT_PLACES,
};

/// The kinds of scopes in the order of their names, each with its mark in the index.
const SCOPES: [(&str, u8); 3] = [("run", 1), ("thread", 0), ("topic", 2)];

impl Dump<'_> {
    pub(super) fn newest_document_revision(&self) -> Result<u64> {
        let batch = self.snapshot.number(&table::fact("batch"))?.unwrap_or_default();
        let restored = self.snapshot.number(&table::fact("documents"))?.unwrap_or_default();
        Ok(restored.saturating_add(batch.saturating_add(1).saturating_mul(DOCUMENT_PLACES)))
    }

    /// The key after which the page begins, in a list whose keys are one text.
    fn after_text(&self, list: &Key) -> Option<Key> {
        self.after().map(|after| list.clone().text(after.text(0)))
    }

    pub(super) fn runs(&self, page: &mut Page<'_>) -> Result<()> {
        let list = table::runs(self.tenant);
        for pair in self.rows(&list, self.after_text(&list)) {
            if page.is_full() {
                break;
            }
            let (key, value) = pair?;
            let (_, id) = table::read_run(&key).ok_or_else(|| damaged("run"))?;
            let row: RunRow = read("run", &value)?;
            // A run of a deleted thread waits for its purge.
            if self.snapshot.live_run_row(self.tenant, &RunId::new(id)?)?.is_some() {
                let run = records::read(self.shared, row.log, row.span, line::decode_run)?;
                page.put(StoredRecord::Run(Box::new(run)), row.span.len as usize);
            }
        }
        Ok(())
    }

    /// The documents of a list of the index, whose keys continue with collection and encoded key. The parts of `after`
    /// from `place` on are those.
    pub(super) fn documents(&self, page: &mut Page<'_>, list: &Key, place: usize) -> Result<()> {
        let key = |after: &RecordKey| list.clone().text(after.text(place)).text(after.text(place + 1));
        self.documents_after(page, list, self.after().map(key))
    }

    pub(super) fn documents_after(&self, page: &mut Page<'_>, list: &Key, after: Option<Key>) -> Result<()> {
        for pair in self.rows(list, after) {
            if page.is_full() {
                break;
            }
            let row = DocumentRow::decode(&pair?.1).ok_or_else(|| damaged("document"))?;
            let document = records::read(self.shared, row.log, row.span, line::decode_document)?;
            page.put(StoredRecord::Document(Box::new(document)), row.span.len as usize);
        }
        Ok(())
    }

    pub(super) fn scopes(&self, page: &mut Page<'_>) -> Result<()> {
        let first = self.after().map_or("", |after| after.text(0));
        for (kind, mark) in SCOPES.into_iter().filter(|(kind, _)| *kind >= first) {
            let list = table::scopes(self.tenant).mark(mark);
            let after = self.after().filter(|after| after.text(0) == kind);
            for pair in self.rows(&list, after.map(|after| list.clone().text(after.text(1)))) {
                if page.is_full() {
                    return Ok(());
                }
                let (key, value) = pair?;
                let (_, scope) = table::read_scope(&key).ok_or_else(|| damaged("scope"))?;
                let state: ScopeState = read("scope", &value)?;
                page.put(StoredRecord::Scope { scope, state }, value.len());
            }
        }
        Ok(())
    }

    pub(super) fn events(&self, page: &mut Page<'_>) -> Result<()> {
        let list = table::events(self.tenant);
        for pair in self.rows(&list, self.after_text(&list)) {
            if page.is_full() {
                break;
            }
            let (_, value) = pair?;
            let row: EventRow = read("event", &value)?;
            // What is trimmed waits for its removal.
            if self.snapshot.is_in_scope(self.tenant, &row)? {
                let stored = records::read(self.shared, row.log, row.span, line::decode_event)?;
                page.put(StoredRecord::Event(Box::new(stored)), row.span.len as usize);
            }
        }
        Ok(())
    }

    pub(super) fn event_keys(&self, page: &mut Page<'_>) -> Result<()> {
        let list = table::event_keys(self.tenant);
        let after = self.after().map(|after| list.clone().text(after.text(0)).text(after.text(1)));
        for pair in self.rows(&list, after) {
            if page.is_full() {
                break;
            }
            let (key, value) = pair?;
            let (writer, key) = table::read_event_key(&key).ok_or_else(|| damaged("event key"))?;
            let row: EventKeyRow = read("event key", &value)?;
            page.put(StoredRecord::EventKey { writer, key, record: Box::new(row.record) }, value.len());
        }
        Ok(())
    }

    pub(super) fn outbox(&self, page: &mut Page<'_>) -> Result<()> {
        let list = table::outbox_rows(self.tenant);
        for pair in self.rows(&list, self.after_text(&list)) {
            if page.is_full() {
                break;
            }
            let (key, value) = pair?;
            let (_, id) = table::read_outbox_row(&key).ok_or_else(|| damaged("outbox row"))?;
            let row: StoredOutboxRow = read("outbox row", &value)?;
            let place = self.snapshot.outbox_payload(self.tenant, &OutboxId::new(id)?)?;
            let (log, span) = place.ok_or_else(|| damaged("outbox row"))?;
            let payload = records::read(self.shared, log, span, line::decode_payload)?;
            page.put(StoredRecord::Outbox(Box::new((row, payload))), span.len as usize);
        }
        Ok(())
    }

    pub(super) fn mailboxes(&self, page: &mut Page<'_>) -> Result<()> {
        let list = table::mailboxes(self.tenant);
        for pair in self.rows(&list, self.after_text(&list)) {
            if page.is_full() {
                break;
            }
            let (key, value) = pair?;
            let (_, thread) = table::read_mailbox(&key).ok_or_else(|| damaged("mailbox"))?;
            let row: MailboxRow = read("mailbox", &value)?;
            let (thread, record) = (ThreadId::new(thread)?, Box::new(row.mailbox));
            page.put(StoredRecord::Mailbox { thread, record }, value.len());
        }
        Ok(())
    }

    pub(super) fn interrupts(&self, page: &mut Page<'_>) -> Result<()> {
        let list = table::interrupts(self.tenant);
        let after = self.after().map(|after| list.clone().text(after.text(0)).number(after.number(1)));
        for pair in self.rows(&list, after) {
            if page.is_full() {
                break;
            }
            let (key, value) = pair?;
            let thread = KeyReader::below(&list, &key).and_then(|mut reader| reader.text());
            let thread = ThreadId::new(thread.ok_or_else(|| damaged("interrupt"))?)?;
            let interrupt: StoredInterrupt = read("interrupt", &value)?;
            page.put(StoredRecord::Interrupt { thread, interrupt: Box::new(interrupt) }, value.len());
        }
        Ok(())
    }

    pub(super) fn dispatches(&self, page: &mut Page<'_>) -> Result<()> {
        let list = table::dispatches(self.tenant);
        let mailbox = MailboxTable::new(self.snapshot, self.shared, self.tenant);
        for pair in self.rows(&list, self.after_text(&list)) {
            if page.is_full() {
                break;
            }
            let (_, value) = pair?;
            let mut row: DispatchRow = read("dispatch", &value)?;
            row.body.payload = mailbox.payload(&row)?;
            let bytes = value.len() + row.span.len as usize;
            let stored = StoredDispatch::new(Arc::new(row.body), row.state);
            page.put(StoredRecord::Dispatch(Box::new(stored)), bytes);
        }
        Ok(())
    }
}
