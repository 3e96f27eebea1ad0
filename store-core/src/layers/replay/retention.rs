//! Redaction of records, and the removal of those that have expired.

use std::collections::BTreeSet;

use super::{
    keys::{self, ExpiringRecord},
    record::{PlacedRecord, ReplayContent, ReplayRecord, ReplayStreamRef, StoredExpiry, StoredReplay},
    request::{PurgeReplay, PurgedReplay},
    store::ReplayLayer,
};
use crate::{
    document::{DocumentChange, DocumentExpect, WriteDocuments},
    error::{Error, ErrorKind, Result},
    event::{EventQuery, TrimBefore, TrimRequest},
    ext::DocumentStoreExt,
    id::EventId,
    layers::{MAX_CONFLICTS, encoded, plan_and_write},
    limits::length,
    page::{MAX_PAGE, PageRequest},
    progress::Progress,
    time::Timestamp,
};

/// The number of records that a purge removes in one step. Each has two documents, and a step changes 1,000 at most.
const PURGE_BATCH: u32 = 200;

impl ReplayLayer {
    pub(super) async fn redact(&self, id: &EventId) -> Result<ReplayRecord> {
        let unknown = || Error::not_found("replay record", id);
        let placed = self.load_placed(id).await?.ok_or_else(unknown)?;
        let name = placed.stream.document(&placed.payload.wire_id)?;
        let plan = || async {
            let found = self.store.documents.load_document(&name).await?;
            let record = self.with_content(placed.clone(), found.clone()).await?.ok_or_else(unknown)?;
            let document = found.filter(|_| record.bytes().is_some());
            let change = document.map(|document| {
                let redacted = StoredReplay::from_document(&document)?.redacted().value()?;
                let expect = DocumentExpect::Revision(document.revision);
                Ok::<_, Error>(DocumentChange::put(name.clone(), redacted).expecting(expect))
            });
            Ok((record, change.transpose()?.map(|change| WriteDocuments::new([change]))))
        };
        let (mut record, written) = plan_and_write(&*self.store.documents, plan).await?;
        if let Some(written) = written {
            record.content = ReplayContent::Redacted { at: written.time };
        }
        Ok(record)
    }

    pub(super) async fn purge(&self, request: PurgeReplay, progress: &dyn Progress) -> Result<PurgedReplay> {
        let now = self.clock.now();
        if request.dry_run {
            let all = self.store.list_all(keys::expired_by(now)?, StoredExpiry::from_document).await?;
            let records = length(all.iter().filter(|expiry| !expiry.removed).count());
            return Ok(PurgedReplay { records, stopped: false });
        }
        let (mut records, mut conflicts) = (0, 0);
        loop {
            // What was listed before is gone, so each page is the first one.
            let query = keys::expired_by(now)?.with_page(PageRequest::first(PURGE_BATCH));
            let page = self.store.documents.list_documents(query).await?;
            if page.items.is_empty() {
                return Ok(PurgedReplay { records, stopped: false });
            }
            let expired = page.items.iter().map(ExpiringRecord::from_document).collect::<Result<Vec<_>>>()?;
            match self.purge_batch(expired, now, &mut records).await {
                // Another purge has removed some of them meanwhile.
                Err(error) if error.kind() == ErrorKind::Conflict && conflicts < MAX_CONFLICTS => conflicts += 1,
                purged => purged?,
            }
            if page.next.is_some() && !progress.advance(records, None) {
                return Ok(PurgedReplay { records, stopped: true });
            }
        }
    }

    /// Removes records in three steps, so that a purge that was interrupted can be repeated: their documents, in the
    /// step that notes this; their events, as far as none that stays is older; and the notes.
    async fn purge_batch(&self, expired: Vec<ExpiringRecord>, now: Timestamp, removed: &mut u64) -> Result<()> {
        let mut changes = Vec::new();
        for record in expired.iter().filter(|record| !record.stored.removed) {
            let note = encoded(&StoredExpiry { removed: true, ..record.stored.clone() })?;
            let expect = DocumentExpect::Revision(record.revision);
            changes.push(DocumentChange::put(record.document.clone(), note).expecting(expect));
            changes.push(DocumentChange::delete(record.stream.document(&record.wire_id)?));
        }
        let (count, mut noted_at) = (length(changes.len() / 2), None);
        if count > 0 {
            noted_at = self.store.documents.write_documents(WriteDocuments::new(changes)).await?.revision;
            *removed += count;
        }
        let streams: BTreeSet<_> = expired.iter().map(|record| &record.stream).collect();
        for stream in streams {
            self.trim_expired(stream, now).await?;
        }
        let notes = expired.into_iter().map(|record| {
            let revision = if record.stored.removed { record.revision } else { noted_at.unwrap_or_default() };
            DocumentChange::delete(record.document).expecting(DocumentExpect::Revision(revision))
        });
        self.store.documents.write_documents(WriteDocuments::new(notes)).await.map(drop)
    }

    /// Removes the oldest events of a stream, up to the first record that has not expired.
    async fn trim_expired(&self, stream: &ReplayStreamRef, now: Timestamp) -> Result<()> {
        let scope = stream.scope()?;
        loop {
            // What was listed before is trimmed, so each page is the first one.
            let query = EventQuery::new(scope.clone()).with_page(PageRequest::first(MAX_PAGE));
            let page = self.store.events.list_events(query).await?;
            let mut last = None;
            for event in &page.items {
                let placed = PlacedRecord::from_event(event)?;
                if !placed.is_expired(now) {
                    break;
                }
                last = Some(placed);
            }
            let Some(last) = last else { return Ok(()) };
            let is_whole_page = page.items.last().is_some_and(|event| event.id == last.id);
            self.store.events.trim_events(TrimRequest::new(scope.clone(), TrimBefore::Cursor(last.cursor))).await?;
            if !is_whole_page || page.next.is_none() {
                return Ok(());
            }
        }
    }
}
