//! What writes of documents, and the documents of commits, write: those of a thread to the log of the thread, those of
//! the tenant to the logs of their collections.

use std::collections::BTreeMap;

use store_core::{
    CollectionId, Document, DocumentChange, DocumentOp, Error, Result, Timestamp, WriteDocuments,
    document::{self, DocumentPlan, DocumentWrite, DocumentWriteDecision, DocumentWritePlan},
};

use super::{Answer, Round};
use crate::{
    codec::Rows,
    dispatch_rows::MailboxRows as _,
    fold,
    line::{CollectionLine, CommitLine, Line, event_lines},
    names::{Part, documents_log_id, scope_log_id},
    table,
};

/// More than the writes of documents of one round: their lines alone would have more bytes than a round.
pub(crate) const DOCUMENT_PLACES: u64 = 1 << 16;

/// The lines of a plan.
#[derive(Debug, Default)]
pub(super) struct DocumentLines {
    /// Of the thread.
    pub(super) of_thread: Vec<Line>,
    /// Of the tenant.
    of_tenant: BTreeMap<CollectionId, Vec<Line>>,
}

impl DocumentLines {
    pub(super) fn add_of_tenant(&mut self, collection: CollectionId, line: Line) {
        self.of_tenant.entry(collection).or_default().push(line);
    }
}

impl From<DocumentPlan> for DocumentLines {
    fn from(plan: DocumentPlan) -> Self {
        let mut lines = Self::default();
        for change in plan.changes {
            let document = change.document;
            let (collection, is_of_thread) = (document.key.collection().clone(), document.scope.thread().is_some());
            let line = match change.write {
                DocumentWrite::Put(stored) => Line::Document(Box::new(Document::new(document, stored))),
                DocumentWrite::Delete => Line::DocumentGone(Box::new(document)),
                DocumentWrite::Keep => continue,
            };
            match is_of_thread {
                true => lines.of_thread.push(line),
                false => lines.add_of_tenant(collection, line),
            }
        }
        lines
    }
}

impl Round<'_> {
    pub(super) fn documents(&mut self, request: &WriteDocuments, now: Timestamp) -> Result<Answer> {
        self.number_documents(&request.changes)?;
        let decision = document::plan_write(&self.view(), request, self.setting(now))?;
        let DocumentWriteDecision { plan, answer } = decision;
        let put = self.put_write(plan, request, now);
        // A write that does not come into all of its logs must not show in some of them.
        self.broken |= put.is_err();
        put?;
        Ok(Answer::Documents(Box::new(answer)))
    }

    /// Takes the revision of what a call puts: the number of the batch and a place in it. No batch gets the number of
    /// an earlier one, so this number grows with every write, also after documents and logs were deleted and after the
    /// index was made anew (DO-3).
    pub(super) fn number_documents(&mut self, changes: &[DocumentChange]) -> Result<()> {
        if !changes.iter().any(|change| matches!(change.op, DocumentOp::Put(_))) {
            return Ok(());
        }
        let used_up = || Error::unavailable("one round of the writer cannot take more writes of documents");
        let first = self.first_revision()?;
        let place = self.document_writes;
        if place == DOCUMENT_PLACES {
            return Err(used_up());
        }
        self.document_writes += 1;
        self.revision = first + place;
        Ok(())
    }

    /// The first revision that the round gives: above those of earlier batches, and of what was restored.
    pub(super) fn first_revision(&mut self) -> Result<u64> {
        let used_up = || Error::unavailable("one round of the writer cannot take more writes of documents");
        let restored = self.staged.number(&table::fact("documents"))?.unwrap_or_default();
        let first = self.next_batch()?.checked_mul(DOCUMENT_PLACES).and_then(|first| first.checked_add(restored));
        first.ok_or_else(used_up)
    }

    fn put_write(&mut self, plan: DocumentWritePlan, request: &WriteDocuments, now: Timestamp) -> Result<()> {
        let mut lines = DocumentLines::from(plan.documents);
        let of_thread = std::mem::take(&mut lines.of_thread);
        let fence = plan.id_record.map_or(self.told.id.fence, |(_, record)| record.fence);
        match self.told.stored.clone() {
            Some(stored) if !of_thread.is_empty() || fence != self.told.id.fence => {
                let texts: Vec<String> = of_thread.iter().map(Line::encode).collect();
                let commit = CommitLine { fence, ..self.bare(&stored) };
                self.group(stored.thread.generation(), of_thread, &texts, commit)?;
            }
            Some(_) => {}
            None => self.remember_fence(fence)?,
        }
        self.put_documents(lines, now)?;
        let scopes = request.events.iter().flat_map(|events| &events.drafts).flat_map(|draft| &draft.scopes);
        if let (Some(events), Some(first)) = (plan.events, scopes.min()) {
            self.enter((self.key.0.clone(), scope_log_id(first)?, Part::Events))?;
            self.put_events(event_lines(events))?;
        }
        Ok(())
    }

    /// Writes documents of the tenant. Afterwards the round works on another log.
    pub(super) fn put_documents(&mut self, lines: DocumentLines, now: Timestamp) -> Result<()> {
        for (collection, lines) in lines.of_tenant {
            let known = self.staged.collection_row(&self.key.0, &collection)?;
            match known {
                Some(row) => self.put_collection(&collection, row.rewrites, lines, now)?,
                None => self.begin_collection(&collection, 0, lines, now)?,
            }
        }
        Ok(())
    }

    /// Makes a log of a collection. From now on the documents of the collection are written to it.
    pub(crate) fn begin_collection(
        &mut self,
        collection: &CollectionId,
        rewrites: u64,
        lines: Vec<Line>,
        now: Timestamp,
    ) -> Result<()> {
        let first = Line::Collection(CollectionLine { collection: collection.clone(), rewrites });
        let lines = std::iter::once(first).chain(lines).collect();
        self.put_collection(collection, rewrites, lines, now)
    }

    /// Writes lines to the log of a collection.
    pub(crate) fn put_collection(
        &mut self,
        collection: &CollectionId,
        rewrites: u64,
        lines: Vec<Line>,
        now: Timestamp,
    ) -> Result<()> {
        self.enter((self.key.0.clone(), documents_log_id(collection, rewrites)?, Part::Events))?;
        let texts: Vec<String> = lines.iter().map(Line::encode).collect();
        self.group(0, lines, &texts, CommitLine { time: now, updated_at: now, ..CommitLine::default() })?;
        if let Some(log) = self.log
            && let Some(tail) = self.tails.get(log)
        {
            self.rewrite_due |= fold::is_rewrite_due(tail.end().offset, self.staged.document_bytes(log)?);
        }
        Ok(())
    }
}
