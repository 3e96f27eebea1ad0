//! Removing the spans of traces that are too old or too many, and what deleted threads left behind.

use super::{
    record::{StoredTrace, TraceName},
    request::{PurgeTraces, PurgedTraces, TraceQuery},
    rules,
    store::{FoundTrace, TraceLayer},
};
use crate::{
    document::{Document, DocumentChange, DocumentExpect, WriteDocuments},
    error::{ErrorKind, Result},
    page::{MAX_PAGE, PageRequest},
    progress::Progress,
};

/// How many documents one write removes at most.
const BATCH: u32 = 500;

impl TraceLayer {
    /// Removes what the request says, and returns how much it was.
    pub(super) async fn purge(&self, request: PurgeTraces, progress: &dyn Progress) -> Result<PurgedTraces> {
        let mut purged = PurgedTraces::default();
        if !request.dry_run && !self.remove_leftovers(progress).await? {
            purged.stopped = true;
            return Ok(purged);
        }
        // The newest ones come first, so that they can be counted.
        let (entries, mut seen) = (rules::entries_for(&TraceQuery::default(), None)?, 0_u64);
        let mut next = Some(PageRequest::first(MAX_PAGE));
        while let Some(page) = next.take() {
            let page = self.store.documents.list_documents(entries.clone().with_page(page)).await?;
            for (name, found) in self.load_of_entries(&page.items).await? {
                let Some(found) = found else { continue };
                let is_over = request.keep_newest.is_some_and(|count| seen >= count);
                seen += 1;
                let is_old = request.before.is_some_and(|before| found.0.updated_at < before);
                if (is_over || is_old || found.1.removing) && self.remove(&name, &found, request.dry_run).await? {
                    purged.traces += 1;
                }
            }
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
            if next.is_some() && !progress.advance(purged.traces, None) {
                purged.stopped = true;
                return Ok(purged);
            }
        }
        Ok(purged)
    }

    /// Loads the traces that entries of an order are about; none for an entry that is not about a trace as it is now.
    pub(super) async fn load_of_entries(&self, entries: &[Document]) -> Result<Vec<(TraceName, Option<FoundTrace>)>> {
        let names: Vec<_> = entries.iter().map(rules::name_of_entry).collect::<Result<_>>()?;
        let found = self.load_stored(&names).await?;
        let current = |((entry, name), found): ((&Document, TraceName), Option<FoundTrace>)| {
            let is_current = match &found {
                Some((_, trace)) => rules::is_entry_of(&entry.key, &name, trace)?,
                None => false,
            };
            Ok((name, found.filter(|_| is_current)))
        };
        entries.iter().zip(names).zip(found).map(current).collect()
    }

    /// Removes the spans of a trace, unless a holder keeps it or it has changed meanwhile. Returns whether they were
    /// removed, or would be.
    async fn remove(&self, name: &TraceName, (document, trace): &FoundTrace, dry_run: bool) -> Result<bool> {
        if trace.removing {
            if !dry_run {
                self.finish_removal(name, document, trace).await?;
            }
            return Ok(true);
        }
        let pins = rules::pins_of(name)?.with_page(PageRequest::first(1));
        if !self.store.documents.list_documents(pins).await?.items.is_empty() {
            return Ok(false);
        }
        if dry_run {
            return Ok(true);
        }
        let mark = WriteDocuments::new([rules::plan_mark(name, document, trace)?]);
        let Some(revision) = self.try_write(mark).await? else { return Ok(false) };
        self.finish_removal(name, &Document { revision, ..document.clone() }, trace).await?;
        Ok(true)
    }

    /// Removes the spans of a trace that was marked, and then the trace. Several callers may do this at once.
    pub(super) async fn finish_removal(&self, name: &TraceName, marked: &Document, trace: &StoredTrace) -> Result<()> {
        let spans = rules::spans_of(name)?.with_page(PageRequest::first(BATCH));
        loop {
            let page = self.store.documents.list_documents(spans.clone()).await?;
            if page.items.is_empty() {
                break;
            }
            // Spans that are put after another caller has removed the trace are not those that were listed.
            let guard = DocumentChange::check(marked.to_ref(), DocumentExpect::Revision(marked.revision));
            let deletes = page.items.iter().map(|span| DocumentChange::delete(span.to_ref()));
            if self.try_write(WriteDocuments::new(deletes.chain([guard]))).await?.is_none() {
                return Ok(());
            }
        }
        self.try_write(WriteDocuments::new(rules::plan_end(name, marked, trace)?)).await.map(drop)
    }

    /// Removes entries of traces that do not exist any more, because their threads were deleted. Returns false if the
    /// removal was stopped.
    async fn remove_leftovers(&self, progress: &dyn Progress) -> Result<bool> {
        let mut next = Some(PageRequest::first(MAX_PAGE));
        while let Some(page) = next.take() {
            let page = self.store.documents.list_documents(rules::all_entries()?.with_page(page)).await?;
            let found = self.load_of_entries(&page.items).await?;
            let left = page.items.iter().zip(&found).filter(|(_, (_, found))| found.is_none());
            let delete = |entry: &Document| {
                DocumentChange::delete(entry.to_ref()).expecting(DocumentExpect::Revision(entry.revision))
            };
            let deletes: Vec<_> = left.map(|(entry, _)| delete(entry)).collect();
            for batch in deletes.chunks(BATCH as usize) {
                if self.try_write(WriteDocuments::new(batch.iter().cloned())).await?.is_none() {
                    // An entry was put again meanwhile. The others are still removed.
                    for delete in batch {
                        self.try_write(WriteDocuments::new([delete.clone()])).await?;
                    }
                }
            }
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
            if next.is_some() && !progress.advance(0, None) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes a write, and returns its revision, or 0 if it put nothing. Returns none if something has changed since the
    /// write was planned: spans were put, a holder has pinned the trace, or the thread was deleted.
    async fn try_write(&self, write: WriteDocuments) -> Result<Option<u64>> {
        match self.store.documents.write_documents(write).await {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => Ok(None),
            written => written.map(|written| Some(written.revision.unwrap_or_default())),
        }
    }
}
