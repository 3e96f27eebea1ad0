//! Erasure of streams, and of records that were made from events that are erased.

use std::collections::BTreeSet;

use super::{
    keys,
    record::{PlacedRecord, ReplayStreamRef, StoredReplay},
};
use crate::{
    document::{Document, DocumentChange, DocumentExpect, WriteDocuments},
    error::Result,
    event::{EventQuery, TrimBefore, TrimRequest},
    ext::DocumentStoreExt,
    id::EventId,
    layers::{LayerStore, plan_and_write},
    limits::length,
    page::{MAX_PAGE, PageRequest},
};

/// Returns all streams that have a record.
pub(in crate::layers) async fn streams(store: &LayerStore) -> Result<BTreeSet<ReplayStreamRef>> {
    let found = store.list_all(keys::records()?, keys::stream_of).await?;
    Ok(found.into_iter().collect())
}

/// Removes a stream, and returns how many records it had.
///
/// Its events go first: the documents are what a repetition finds the stream by.
pub(in crate::layers) async fn erase_stream(
    store: &LayerStore,
    stream: &ReplayStreamRef,
    dry_run: bool,
) -> Result<u64> {
    let scope = stream.scope()?;
    let info = store.events.load_scope(&scope).await?;
    let count = info.events;
    if dry_run {
        return Ok(count);
    }
    if let Some(last) = info.last.filter(|_| count > 0) {
        store.events.trim_events(TrimRequest::new(scope, TrimBefore::Cursor(last))).await?;
    }
    for query in [keys::records_of(stream)?, keys::all_expiring()?] {
        let mut next = Some(PageRequest::first(MAX_PAGE));
        while let Some(page) = next.take() {
            let page = store.documents.list_documents(query.clone().with_page(page)).await?;
            let mut changes = Vec::new();
            for document in &page.items {
                if keys::stream_of(document)? == *stream {
                    let expect = DocumentExpect::Revision(document.revision);
                    changes.push(DocumentChange::delete(document.to_ref()).expecting(expect));
                }
            }
            if !changes.is_empty() {
                store.documents.write_documents(WriteDocuments::new(changes)).await?;
            }
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
    }
    Ok(count)
}

/// Removes the bytes of the records of a stream that were made from any of these events. Returns how many there were.
pub(in crate::layers) async fn erase_made_from(
    store: &LayerStore,
    stream: &ReplayStreamRef,
    events: &BTreeSet<EventId>,
    dry_run: bool,
) -> Result<u64> {
    let (query, mut next) = (EventQuery::new(stream.scope()?), Some(PageRequest::first(MAX_PAGE)));
    let mut count = 0;
    while let Some(page) = next.take().filter(|_| !events.is_empty()) {
        let page = store.events.list_events(query.clone().with_page(page)).await?;
        for event in &page.items {
            let placed = PlacedRecord::from_event(event)?;
            if placed.payload.sources.iter().any(|source| events.contains(&source.id)) {
                count += length(usize::from(remove_bytes(store, &placed, dry_run).await?));
            }
        }
        next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
    }
    Ok(count)
}

/// Removes the bytes of a record. Returns whether it had any.
async fn remove_bytes(store: &LayerStore, placed: &PlacedRecord, dry_run: bool) -> Result<bool> {
    let name = placed.stream.document(&placed.payload.wire_id)?;
    let plan = || async {
        let found: Option<Document> = store.documents.load_document(&name).await?;
        let Some(document) = found else { return Ok((false, None)) };
        let stored = StoredReplay::from_document(&document)?;
        if stored.bytes.is_none() || !stored.belongs_to(&placed.payload.stream, placed.sequence) {
            return Ok((false, None));
        }
        let expect = DocumentExpect::Revision(document.revision);
        let change = DocumentChange::put(name.clone(), stored.redacted().value()?).expecting(expect);
        Ok((true, (!dry_run).then(|| WriteDocuments::new([change]))))
    };
    Ok(plan_and_write(&*store.documents, plan).await?.0)
}
