//! Which lines of the logs of ids are needed.

use store_core::{Result, TenantId};

use crate::{codec::Rows, dispatch_rows::MailboxRows, index::Snapshot, line::Line, log::Span, table};

/// Which lines are erased in a walk over the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    /// All but deletions of documents.
    Values,
    /// Deletions of documents. What they deleted was erased before.
    Deletions,
}

/// Tells which lines of a log are needed.
pub(super) struct Needs<'a> {
    pub(super) snapshot: Snapshot,
    pub(super) tenant: &'a TenantId,
    pub(super) log: u64,
    pub(super) pass: Pass,
}

impl Needs<'_> {
    /// Whether a line is needed: to answer a read, or to make the index anew. A line that is not needed never becomes
    /// needed again.
    pub(super) fn line(&self, line: &Line, span: Span) -> Result<bool> {
        let (rows, tenant) = (&self.snapshot, self.tenant);
        if self.pass == Pass::Deletions {
            // The keys of documents are text of callers, too.
            return Ok(!matches!(line, Line::DocumentGone(_)));
        }
        Ok(match line {
            Line::Event(stored) => match rows.event_row(tenant, &stored.event.id)? {
                Some(row) => (row.log, row.span) == (self.log, span) && rows.is_in_scope(tenant, &row)?,
                None => false,
            },
            Line::EventKey(line) => {
                let row = rows.event_key_row(tenant, &line.writer, &line.key)?;
                row.is_some_and(|row| row.record == line.record)
            }
            Line::Outbox(line) => rows.outbox_payload(tenant, &line.stored.id)? == Some((self.log, span)),
            Line::OutboxState(stored) => rows.outbox_row(tenant, &stored.id)?.is_some(),
            Line::Dispatch(body) => self.is_current(&body.id, body.number)?,
            Line::DispatchState(line) => self.is_current(&line.id, line.number)?,
            Line::Interrupt(line) if line.interrupt.is_some() => {
                rows.interrupt_row(tenant, &line.thread, line.epoch)?.is_some()
            }
            Line::Document(document) => {
                self.is_document(&table::document(tenant, &document.to_ref(), self.log), span)?
            }
            Line::DamagedDocument(line) => {
                self.is_document(&table::document(tenant, &line.document, self.log), span)?
            }
            // They have ids and numbers, and the index is made of them.
            _ => true,
        })
    }

    /// An id can be used again after a purge, with another number.
    fn is_current(&self, id: &store_core::DispatchId, number: u64) -> Result<bool> {
        Ok(self.snapshot.dispatch_row(self.tenant, id)?.is_some_and(|row| row.body.number == number))
    }

    fn is_document(&self, key: &crate::index::Key, span: Span) -> Result<bool> {
        Ok(self.snapshot.document_row(key)?.is_some_and(|row| (row.log, row.span) == (self.log, span)))
    }
}
