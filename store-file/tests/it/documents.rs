//! Documents and topics on files: the part of the script of calls, what a store shows of them, and rewrites of the logs
//! of collections (DO-3, DO-8, DO-10).

use std::{fmt::Write, fs, path::PathBuf, sync::Arc};

use store_core::{
    AppendEvents, ClaimNumber, ClaimToken, Commit, DeleteRequest, Direction, Document, DocumentChange, DocumentExpect,
    DocumentKey, DocumentQuery, DocumentScope, DocumentStore, ErrorKind, EventQuery, Expect, Fence, IgnoreProgress,
    Json, KeySegment, NewEvent, PageRequest, Result, Scope, Store, TenantId, WriteDocuments,
};
use store_file::FileStore;

use crate::{
    folder::{Place, say, threads},
    script::Part,
    world::{Call, agree, saying, thread},
};

const COLLECTIONS: [&str; 2] = ["notes", "large"];

fn key(collection: &str, segments: &[&str]) -> DocumentKey {
    let segments = segments.iter().map(|segment| KeySegment::id(segment).unwrap());
    DocumentKey::new(collection.parse().unwrap(), segments).unwrap()
}

fn note(name: &str) -> DocumentKey {
    key("notes", &[name])
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn topic(name: &str) -> Scope {
    Scope::Topic(name.parse().unwrap())
}

fn fact(kind: &str, scopes: &[Scope]) -> AppendEvents {
    AppendEvents::new([NewEvent::new(kind.parse().unwrap(), scopes.to_vec())])
}

fn large(name: &str, letter: &str, bytes: usize) -> DocumentChange {
    DocumentChange::put(key("large", &[name]), json(&format!("\"{}\"", letter.repeat(bytes))))
}

/// The script of calls about documents and topics.
pub(crate) fn calls() -> Part {
    let one = |call: Call| ("default", 0, vec![call]);
    let write = |request: WriteDocuments| one(Call::Documents(Box::new(request)));
    let commit = |commit: Commit| one(Call::Commit(Box::new(commit)));
    let (both, of_topic) = ([topic("a"), topic("t"), Scope::Thread(thread("a"))], [topic("t")]);
    let first = WriteDocuments::new([
        DocumentChange::put(note("x"), json("{\"n\":1.50}")).expecting(DocumentExpect::Absent),
        DocumentChange::put(key("notes", &["x", "y"]), json("[1]")),
    ]);
    let changes =
        || [DocumentChange::put(note("x").in_thread(thread("dd")), json("true")), DocumentChange::delete(note("x"))];
    let claim = ClaimNumber { incarnation: 0, counter: 4 };
    let fence = Fence::new("d-9".parse().unwrap(), ClaimToken::new("token"), 0, claim);
    let of_dd = WriteDocuments::new([
        DocumentChange::put(note("z").in_thread(thread("dd")), json("2")),
        DocumentChange::put(note("z"), json("3")),
    ]);
    let refused = DocumentChange::put(note("none"), json("0")).expecting(DocumentExpect::Present);
    vec![
        write(first.with_events(fact("written", &both))),
        commit(
            saying("dd", "do1", &["with documents"]).with_documents(changes()).with_events(fact("turn", &both[..2])),
        ),
        write(of_dd.clone()),
        // Refused: nothing is written.
        write(WriteDocuments::new([refused, DocumentChange::delete(note("z"))])),
        write(WriteDocuments::new([DocumentChange::put(note("f"), json("4"))]).fenced(thread("f-9"), fence)),
        (
            "other",
            0,
            vec![Call::Documents(Box::new(WriteDocuments::new([DocumentChange::put(note("x"), json("\"other\""))])))],
        ),
        write(WriteDocuments::new([large("a", "a", 9_000), large("b", "b", 9_000)])),
        write(WriteDocuments::new([large("a", "c", 30_000)]).with_events(fact("large", &of_topic))),
        write(WriteDocuments::new([large("a", "d", 30_000), large("c", "e", 100)])),
        write(WriteDocuments::new([large("a", "f", 1_000), DocumentChange::delete(key("large", &["b"]))])),
        one(Call::Purge),
        write(WriteDocuments::new([large("a", "g", 10), DocumentChange::delete(key("large", &["c"]))])),
        one(Call::Trim(topic("t"), 10_000)),
        one(Call::Delete(thread("dd"), store_core::ChildStrategy::Detach)),
        commit(saying("dd", "do2", &["of the next generation"]).expecting(Expect::Absent)),
        write(of_dd.with_events(fact("again", &both))),
    ]
}

/// What a write answered, without revisions: they contain the number of a batch.
pub(crate) async fn write(documents: &dyn DocumentStore, request: WriteDocuments) -> Result<String> {
    let written = documents.write_documents(request).await?;
    Ok(format!("{:?} {:?} {}", written.revision.is_some(), written.time, written.events.len()))
}

/// What a store shows of the documents of the tenant and of a thread.
pub(crate) async fn show(out: &mut String, documents: &dyn DocumentStore) -> Result<()> {
    for scope in [DocumentScope::Tenant, DocumentScope::Thread(thread("dd"))] {
        for collection in COLLECTIONS {
            let query = DocumentQuery::new(collection.parse()?).in_scope(scope.clone());
            let forward = documents.list_documents(query.clone().with_page(PageRequest::first(1_000))).await?.items;
            let mut backward = documents.list_documents(query.with_direction(Direction::Backward)).await?.items;
            backward.reverse();
            agree(forward == backward, format!("the documents of {collection}"))?;
            let references: Vec<_> = forward.iter().map(Document::to_ref).collect();
            let loaded = documents.load_documents(&references).await?;
            agree(loaded.into_iter().flatten().eq(forward.iter().cloned()), format!("documents of {collection}"))?;
            for Document { key, value, created_at, updated_at, .. } in forward {
                let _ = writeln!(out, "{scope:?} {key} {value:?} {created_at} {updated_at}");
            }
        }
    }
    Ok(())
}

fn documents(store: &FileStore) -> Arc<dyn DocumentStore> {
    store.tenant(&TenantId::default_tenant()).unwrap().documents.unwrap()
}

async fn put(store: &FileStore, changes: impl IntoIterator<Item = DocumentChange>) -> u64 {
    documents(store).write_documents(WriteDocuments::new(changes)).await.unwrap().revision.unwrap()
}

async fn all(store: &FileStore) -> Vec<Document> {
    documents(store).list_documents(DocumentQuery::new("large".parse().unwrap())).await.unwrap().items
}

/// The logs of collections.
fn logs(place: &Place) -> Vec<PathBuf> {
    let name = |log: &PathBuf| log.file_name().unwrap().to_str().unwrap().to_owned();
    place.logs().into_iter().filter(|log| name(log).starts_with("_documents_")).collect()
}

async fn expect_sound(store: &FileStore) {
    let found = store.inspector().unwrap().verify(&IgnoreProgress).await.unwrap();
    assert!(found.findings.is_empty(), "{:?}", found.findings);
}

/// A collection of which little exists: 40 documents were put 20 times, and half of them deleted.
async fn filled(store: &FileStore) -> Vec<Document> {
    for round in 0..20 {
        let letter = ["x", "y"][round % 2];
        put(store, (0..40).map(|n| large(&format!("k-{n:02}"), letter, 200 + round))).await;
    }
    let gone = (0..20).map(|n| DocumentChange::delete(key("large", &[&format!("k-{n:02}")])));
    documents(store).write_documents(WriteDocuments::new(gone)).await.unwrap();
    all(store).await
}

/// What was overwritten or deleted goes while the store is open, and nothing else changes. The log of a collection has
/// at most about twice the bytes of its documents then (DO-10).
#[tokio::test]
async fn a_log_of_documents_is_rewritten_do_10() {
    let place = Place::new();
    let store = place.open();
    let expected = filled(&store).await;
    assert_eq!(expected.len(), 20);
    // Rewrites also run in the background. This one comes after those.
    threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
    let logs = logs(&place);
    assert_eq!(logs.len(), 1, "{logs:?}");
    assert!(!logs[0].file_name().unwrap().to_str().unwrap().starts_with("_documents_0_"), "{logs:?}");
    assert!(fs::metadata(&logs[0]).unwrap().len() < 80 << 10);
    assert_eq!(all(&store).await, expected);
    expect_sound(&store).await;
    store.close().await.unwrap();
    let again = place.open();
    assert_eq!(all(&again).await, expected);
    expect_sound(&again).await;
    again.close().await.unwrap();
}

/// The revision of a document is larger than every earlier one of its key, after it was deleted, after its thread was
/// deleted, and after the index was lost (DO-3).
#[tokio::test]
async fn revisions_grow_whatever_was_deleted_do_3() {
    let place = Place::new();
    let store = place.open();
    say(&store, "t", "hello").await.unwrap();
    let own = || DocumentChange::put(note("x").in_thread(thread("t")), json("1"));
    let mut last = put(&store, [own(), DocumentChange::put(note("x"), json("1"))]).await;
    documents(&store).write_documents(WriteDocuments::new([DocumentChange::delete(note("x"))])).await.unwrap();
    threads(&store).delete_thread(&thread("t"), DeleteRequest::default()).await.unwrap();
    threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
    store.close().await.unwrap();
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let store = place.open();
    let again = crate::folder::saying("t", "hello again").expecting(Expect::Absent);
    crate::folder::commit(&store, again).await.unwrap();
    let loaded = documents(&store).load_documents(&[note("x").into(), note("x").in_thread(thread("t"))]).await;
    assert_eq!(loaded.unwrap(), [None, None]);
    for _ in 0..3 {
        let next = put(&store, [own(), DocumentChange::put(note("x"), json("2"))]).await;
        assert!(next > last);
        last = next;
    }
    store.close().await.unwrap();
}

/// The index is made anew from logs of collections of which one was rewritten, and gives the same documents with the
/// same revisions (FI-10).
#[tokio::test]
async fn an_index_made_anew_has_the_same_documents_fi_10() {
    let place = Place::new();
    let store = place.open();
    let expected = filled(&store).await;
    store.close().await.unwrap();
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let store = place.open();
    assert_eq!(all(&store).await, expected);
    expect_sound(&store).await;
    let old = expected[0].revision;
    let stale = large("k-20", "z", 1).expecting(DocumentExpect::Revision(old - 1));
    let refused = documents(&store).write_documents(WriteDocuments::new([stale])).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert!(put(&store, [large("k-20", "z", 1).expecting(DocumentExpect::Revision(old))]).await > old);
    store.close().await.unwrap();
}

/// A reader beside the holder finds the documents of a log that the holder has rewritten (FI-15).
#[tokio::test]
async fn a_reader_sees_documents_of_a_log_that_is_rewritten_fi_15() {
    let place = Place::new();
    let store = place.open();
    put(&store, [large("k-39", "x", 100)]).await;
    let reader = FileStore::open(place.root(), place.config().read_only()).unwrap();
    let expected = filled(&store).await;
    threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
    // The log that the reader knows is gone, so it reads what the holder wrote.
    let seen = all(&reader).await;
    assert_eq!(seen, expected);
    store.close().await.unwrap();
}

/// A reader that knew a document of a log beside others sees that it was deleted before the log was removed.
#[tokio::test]
async fn a_reader_sees_that_a_document_of_a_removed_log_was_deleted_fi_15() {
    let place = Place::new();
    let store = place.open();
    // Another log comes first, so that the logs of the reader have other numbers than those of the holder.
    let commit = Commit::new(thread("x")).expecting(Expect::Absent).with_documents([DocumentChange::delete(note("x"))]);
    crate::folder::commit(&store, commit).await.unwrap();
    put(&store, [large("k-gone", "x", 100)]).await;
    let reader = FileStore::open(place.root(), place.config().read_only()).unwrap();
    let delete = WriteDocuments::new([DocumentChange::delete(key("large", &["k-gone"]))]);
    documents(&store).write_documents(delete).await.unwrap();
    let expected = filled(&store).await;
    threads(&store).purge_deleted(&IgnoreProgress).await.unwrap();
    assert_eq!(all(&reader).await, expected);
    store.close().await.unwrap();
}

/// A topic, a thread and a run with one name have logs and numbers of their own, whatever their names are.
#[tokio::test]
async fn a_topic_meets_no_thread_with_its_name() {
    let place = Place::new();
    let store = place.open();
    let events = store.tenant(&TenantId::default_tenant()).unwrap().events.unwrap();
    let long = "x".repeat(256);
    let names = ["x", "#topic:x", "#documents.0:notes", "#documents", long.as_str()];
    for name in names {
        for scope in [topic(name), Scope::Thread(thread(name)), Scope::Run(name.parse().unwrap())] {
            events.append_events(fact("made", &[scope])).await.unwrap();
        }
    }
    put(&store, [DocumentChange::put(note("x"), json("1"))]).await;
    store.close().await.unwrap();
    fs::remove_dir_all(place.root().join("index")).unwrap();
    let store = place.open();
    let events = store.tenant(&TenantId::default_tenant()).unwrap().events.unwrap();
    for name in names {
        for scope in [topic(name), Scope::Thread(thread(name)), Scope::Run(name.parse().unwrap())] {
            assert_eq!(events.list_events(EventQuery::new(scope.clone())).await.unwrap().items.len(), 1, "{scope}");
        }
    }
    let commit = Commit::new(thread("x")).expecting(Expect::Absent).with_documents([DocumentChange::delete(note("x"))]);
    crate::folder::commit(&store, commit).await.unwrap();
    expect_sound(&store).await;
    store.close().await.unwrap();
}
