//! Ids of documents and topics: collection, segment, thread, topic.

use store_core::{
    AppendEvents, Document, DocumentChange, DocumentExpect, DocumentKey, DocumentQuery, DocumentRef, DocumentScope,
    DocumentStore, ErrorKind, EventQuery, Json, KeySegment, NewEvent, NewThread, PageRequest, Scope, TenantStores,
    WriteDocuments,
};

use super::{require, sorted};
use crate::{
    Failure, Verdict,
    check::expect_eq,
    given::{id, read_all_pages},
};

fn document(collection: &str, segment: &str) -> DocumentRef {
    DocumentKey::new(id(collection), [KeySegment::Id(id(segment))]).expect("a valid key").into()
}

/// Four documents. The first has `text` as its collection and segment, the second as its segment in a collection that
/// all texts share, the third as its collection, and the fourth as its thread.
fn documents_of(text: &str) -> [DocumentRef; 4] {
    let of_thread = document("threads", "segment").key.in_thread(id(text));
    [document(text, text), document("segments", text), document(text, "segment"), of_thread]
}

/// Writes records with `text` as each of their ids.
pub(super) async fn write_records(stores: &TenantStores, text: &str) -> Verdict {
    match require(&stores.threads)?.create_thread(NewThread::new(id(text))).await {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error.into()),
        _ => {}
    }
    let value = Json::of(text)?;
    let puts = documents_of(text)
        .map(|document| DocumentChange::put(document, value.clone()).expecting(DocumentExpect::Absent));
    let event = NewEvent::new(id("kind"), [Scope::Topic(id(text)), Scope::Topic(id("all topics"))]);
    let request = WriteDocuments::new(puts).with_events(AppendEvents::new([event]));
    let _written = require(&stores.documents)?.write_documents(request).await?;
    Ok(())
}

/// Checks that the documents and the event of `text` are found by each id, and puts the documents again.
pub(super) async fn expect_found_by_each_id(stores: &TenantStores, text: &str) -> Verdict {
    let store = require(&stores.documents)?;
    let refs = documents_of(text);
    let found: Vec<_> = store.load_documents(&refs).await?.into_iter().flatten().collect();
    expect_eq(found.iter().map(Document::to_ref).collect::<Vec<_>>(), refs.to_vec())?;
    for document in &found {
        expect_eq(document.value.to::<String>()?, text.to_owned())?;
    }
    let of_thread = DocumentQuery::new(id("threads")).in_scope(DocumentScope::Thread(id(text)));
    expect_eq(store.list_documents(of_thread).await?.items.len(), 1)?;
    let of_collection = store.list_documents(DocumentQuery::new(id(text))).await?.items;
    expect_eq(of_collection.len(), 2)?;
    let events = require(&stores.events)?.list_events(EventQuery::new(Scope::Topic(id(text)))).await?.items;
    expect_eq(events.len(), 1)?;
    let puts = refs.map(|document| DocumentChange::put(document, Json::null()).expecting(DocumentExpect::Present));
    let _written = store.write_documents(WriteDocuments::new(puts)).await?;
    Ok(())
}

/// Checks the collection `segments`, in which each text is the segment of one document.
pub(super) async fn expect_texts_work_together(documents: &dyn DocumentStore, texts: &[String]) -> Verdict {
    let query = DocumentQuery::new(id("segments"));
    let found: Vec<Document> =
        read_all_pages(PageRequest::first(7), |page| documents.list_documents(query.clone().with_page(page))).await?;
    let segments: Vec<String> = found
        .iter()
        .map(|document| document.key.segments().first().map(ToString::to_string).unwrap_or_default())
        .collect();
    let found_in_order: Vec<&str> = segments.iter().map(String::as_str).collect();
    expect_eq(found_in_order, sorted(texts.iter().map(String::as_str)))
        .map_err(|failure: Failure| failure.about("the segments of all texts"))
}
