//! Helpers that make, write, load and list documents, and events in topics.

use std::sync::Arc;

use store_core::{
    Direction, Document, DocumentChange, DocumentKey, DocumentQuery, DocumentRef, DocumentScope, DocumentStore, Error,
    ErrorKind, Event, EventQuery, EventStore, KeySegment, NewEvent, PageRequest, Scope, WriteDocuments,
    WrittenDocuments,
};

use crate::{
    check::{Failure, Verdict, expect_eq, expect_kind, expect_some},
    given::{Given, id, read_all_pages},
    log::{entry_drafts::json, writer::join},
};

/// The documents of the tenant `default`.
pub(super) fn documents(given: &Given) -> Result<Arc<dyn DocumentStore>, Failure> {
    given.stores()?.documents.ok_or_else(|| Failure::new("the store has no documents"))
}

/// The events of the tenant `default`.
pub(super) fn events(given: &Given) -> Result<Arc<dyn EventStore>, Failure> {
    given.stores()?.events.ok_or_else(|| Failure::new("the store has no events"))
}

/// A segment that is an id.
pub(super) fn segment(text: &str) -> KeySegment {
    KeySegment::Id(id(text))
}

/// A key of the collection `notes` with these segments.
pub(super) fn note_key(segments: &[KeySegment]) -> DocumentKey {
    key_in("notes", segments)
}

/// A key of a collection with these segments.
pub(super) fn key_in(collection: &str, segments: &[KeySegment]) -> DocumentKey {
    DocumentKey::new(id(collection), segments.iter().cloned()).expect("a valid key")
}

/// The document of the tenant with this name in the collection `notes`.
pub(super) fn note(name: &str) -> DocumentRef {
    note_key(&[segment(name)]).into()
}

/// The document of a thread with this name in the collection `notes`.
pub(super) fn note_of_thread(thread: &str, name: &str) -> DocumentRef {
    note_key(&[segment(name)]).in_thread(id(thread))
}

/// A change that sets the value of a note to a text.
pub(super) fn put(name: &str, text: &str) -> DocumentChange {
    put_at(note(name), text)
}

/// A change that sets the value of a document to a text.
pub(super) fn put_at(document: DocumentRef, text: &str) -> DocumentChange {
    DocumentChange::put(document, json(&format!("{text:?}")))
}

/// Writes changes in one call.
pub(super) async fn write(
    given: &Given,
    changes: impl IntoIterator<Item = DocumentChange>,
) -> Result<WrittenDocuments, Failure> {
    Ok(documents(given)?.write_documents(WriteDocuments::new(changes)).await?)
}

/// Writes changes of which at least one is a put, and returns their revision.
pub(super) async fn write_and_get_revision(
    given: &Given,
    changes: impl IntoIterator<Item = DocumentChange>,
) -> Result<u64, Failure> {
    expect_some(write(given, changes).await?.revision, "revision")
}

/// Writes notes of the tenant with these names, in one call. The value of each is its name.
pub(super) async fn write_notes(given: &Given, names: &[&str]) -> Result<u64, Failure> {
    let changes: Vec<_> = names.iter().map(|name| put(name, name)).collect();
    write_and_get_revision(given, changes).await
}

/// Loads a document.
pub(super) async fn load(given: &Given, document: &DocumentRef) -> Result<Option<Document>, Failure> {
    let mut found = documents(given)?.load_documents(std::slice::from_ref(document)).await?;
    expect_eq(found.len(), 1)?;
    Ok(found.remove(0))
}

/// Loads a document that must exist.
pub(super) async fn load_existing(given: &Given, document: &DocumentRef) -> Result<Document, Failure> {
    expect_some(load(given, document).await?, "document")
}

/// The text that is the value of a note, or none if there is no such note.
pub(super) async fn text_of(given: &Given, name: &str) -> Result<Option<String>, Failure> {
    Ok(load(given, &note(name)).await?.map(|found| text(&found)))
}

/// The text that is the value of a document.
pub(super) fn text(document: &Document) -> String {
    document.value.as_str().trim_matches('"').to_owned()
}

/// A query for all notes of the tenant.
pub(super) fn all_notes() -> DocumentQuery {
    DocumentQuery::new(id("notes"))
}

/// A query for all notes of a thread.
pub(super) fn notes_of_thread(thread: &str) -> DocumentQuery {
    all_notes().in_scope(DocumentScope::Thread(id(thread)))
}

/// Every document that a query finds.
pub(super) async fn list(given: &Given, query: DocumentQuery) -> Result<Vec<Document>, Failure> {
    list_in_pages(given, query, 200).await
}

/// Every document that a query finds, read in pages of `limit` documents.
async fn list_in_pages(given: &Given, query: DocumentQuery, limit: u32) -> Result<Vec<Document>, Failure> {
    let store = &documents(given)?;
    read_all_pages(PageRequest::first(limit), |page| store.list_documents(query.clone().with_page(page))).await
}

/// The keys of documents without their collection, separated by spaces.
pub(super) fn joined_keys(documents: &[Document]) -> String {
    let key =
        |document: &Document| document.key.segments().iter().map(ToString::to_string).collect::<Vec<_>>().join("/");
    documents.iter().map(key).collect::<Vec<_>>().join(" ")
}

/// Checks that a query finds documents with these keys, in this order, and in the other order backwards. Reads small
/// pages.
pub(super) async fn expect_keys(given: &Given, query: DocumentQuery, expected_keys: &str) -> Verdict {
    expect_eq(joined_keys(&list_in_pages(given, query.clone(), 2).await?), expected_keys)?;
    let mut backward = list_in_pages(given, query.with_direction(Direction::Backward), 2).await?;
    backward.reverse();
    expect_eq(joined_keys(&backward), expected_keys)
}

/// Checks that a write is refused and changes no note of the tenant and no event of the topic `facts`. Returns the
/// error.
pub(super) async fn expect_write_refused(
    given: &Given,
    request: WriteDocuments,
    kind: ErrorKind,
) -> Result<Error, Failure> {
    let notes_before = (list(given, all_notes()).await?, all_events(given, &topic("facts")).await?);
    let error = expect_kind(documents(given)?.write_documents(request).await, kind)?;
    expect_eq((list(given, all_notes()).await?, all_events(given, &topic("facts")).await?), notes_before)?;
    Ok(error)
}

/// The scope of a topic.
pub(super) fn topic(name: &str) -> Scope {
    Scope::Topic(id(name))
}

/// An event of this kind in topics.
pub(super) fn topic_event(kind: &str, topics: &[&str]) -> NewEvent {
    NewEvent::new(id(kind), topics.iter().map(|name| topic(name)))
}

/// Every event of a scope, read in small pages.
pub(super) async fn all_events(given: &Given, scope: &Scope) -> Result<Vec<Event>, Failure> {
    let store = &events(given)?;
    let query = EventQuery::new(scope.clone());
    read_all_pages(PageRequest::first(3), |page| store.list_events(query.clone().with_page(page))).await
}

/// Checks that a scope holds events of these kinds, in this order.
pub(super) async fn expect_event_kinds(given: &Given, scope: &Scope, expected_kinds: &str) -> Verdict {
    expect_eq(join(all_events(given, scope).await?.iter().map(|event| event.kind.as_str())), expected_kinds)
}
