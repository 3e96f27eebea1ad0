//! Calls on documents and topics that are all refused.

use store_core::{
    AppendEvents, Commit, DocumentChange, DocumentExpect, DocumentKey, DocumentQuery, DocumentRef, Json, KeySegment,
    NewEvent, PageRequest, Result, Scope, TenantStores, WriteDocuments,
};

use super::refusals::SECRET;
use crate::given::id;

/// The names of calls, and the answers to them.
type Answers = Vec<(&'static str, Result<()>)>;

fn document(collection: &str, segment: &str) -> DocumentRef {
    DocumentKey::new(id(collection), [KeySegment::Id(id(segment))]).expect("a valid key").into()
}

fn put(document: DocumentRef) -> DocumentChange {
    DocumentChange::put(document, Json::of(SECRET).expect("a text"))
}

/// Makes every call on documents that must be refused.
pub(super) async fn refused_document_calls(stores: &TenantStores) -> Answers {
    let (Some(documents), Some(commits)) = (&stores.documents, &stores.commits) else { return Vec::new() };
    let note = || document("notes", "a");
    let event = |topics: Vec<Scope>| AppendEvents::new([NewEvent::new(id("kind"), topics)]);
    let missing = || put(note()).expecting(DocumentExpect::Present);
    let forged = PageRequest::first(1).after(store_core::Cursor::from_text("forged"));
    let write = |changes: Vec<DocumentChange>| documents.write_documents(WriteDocuments::new(changes));
    let nine_topics = (0..9).map(|number| Scope::Topic(id(&number.to_string()))).collect();
    let with_events = WriteDocuments::new([put(note())]).with_events(event(nine_topics));
    let list = |query: DocumentQuery| documents.list_documents(query);
    vec![
        ("write: nothing", write(vec![]).await.map(drop)),
        ("write: twice", write(vec![put(note()), put(note())]).await.map(drop)),
        ("write: missing", write(vec![missing()]).await.map(drop)),
        ("write: thread", write(vec![put(note().key.in_thread(id("unknown")))]).await.map(drop)),
        ("write: topics", documents.write_documents(with_events).await.map(drop)),
        ("load: many", documents.load_documents(&vec![note(); 1_001]).await.map(drop)),
        ("list: cursor", list(DocumentQuery::new(id("notes")).with_page(forged)).await.map(drop)),
        ("list: limit", list(DocumentQuery::new(id("notes")).with_page(PageRequest::first(0))).await.map(drop)),
        ("commit: missing", commits.commit(Commit::new(id("t")).with_documents([missing()])).await.map(drop)),
        (
            "commit: foreign",
            commits
                .commit(Commit::new(id("t")).with_documents([put(note().key.in_thread(id("child")))]))
                .await
                .map(drop),
        ),
    ]
}

/// Makes calls on documents that are all refused, with `longest_id` as an id.
pub(super) async fn refused_calls_with_long_ids(stores: &TenantStores, longest_id: &str) -> Answers {
    let Some(documents) = &stores.documents else { return Vec::new() };
    let note = || document(longest_id, longest_id);
    let missing = WriteDocuments::new([put(note()).expecting(DocumentExpect::Present)]);
    let of_thread = WriteDocuments::new([put(note().key.in_thread(id(longest_id)))]);
    let topic = || Scope::Topic(id(longest_id));
    let wrong_count = AppendEvents::new([NewEvent::new(id("kind"), [topic()])]).expecting(topic(), 77);
    vec![
        ("long document", documents.write_documents(missing).await.map(drop)),
        ("long thread of a document", documents.write_documents(of_thread).await.map(drop)),
        ("long topic", documents.write_documents(WriteDocuments::default().with_events(wrong_count)).await.map(drop)),
    ]
}
