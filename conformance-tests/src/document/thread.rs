//! Documents of threads.

use std::sync::Arc;

use store_core::{
    DeleteRequest, DocumentStore, ErrorKind, IgnoreProgress, NewThread, PageRequest, ThreadRunStore, WriteDocuments,
};

use super::helpers::{
    all_notes, documents, expect_keys, expect_write_refused, list, load, load_existing, note, note_of_thread,
    notes_of_thread, put, put_at, text, write, write_notes,
};
use crate::{
    Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, run_two_concurrently},
};

/// A document of a thread can be written only while the thread exists.
pub(super) async fn a_document_of_a_thread_needs_the_thread(given: &Given) -> Verdict {
    let request = || WriteDocuments::new([put("a", "x"), put_at(note_of_thread("t", "a"), "x")]);
    let error = expect_write_refused(given, request(), ErrorKind::NotFound).await?;
    expect_eq(error.part(), Some("documents[1]"))?;
    given.create_empty_thread("t").await?;
    let _written = documents(given)?.write_documents(request()).await?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_write_refused(given, request(), ErrorKind::NotFound).await.map(drop)
}

/// Documents are deleted with their thread. Those of the tenant and of other threads stay.
pub(super) async fn documents_are_deleted_with_their_thread(given: &Given) -> Verdict {
    for name in ["t", "child", "u"] {
        let mut fields = store_core::ThreadFields::default();
        fields.parent_thread_id = (name == "child").then(|| id("t"));
        given.threads()?.create_thread(NewThread::new(id(name)).with_fields(fields)).await?;
        write(given, ["a", "b"].map(|note| put_at(note_of_thread(name, note), name))).await?;
    }
    write_notes(given, &["a"]).await?;
    let cascade = DeleteRequest { children: store_core::ChildStrategy::Cascade, ..DeleteRequest::default() };
    given.threads()?.delete_thread(&id("t"), cascade).await?;
    for deleted in ["t", "child"] {
        expect_eq(load(given, &note_of_thread(deleted, "a")).await?, None)?;
        expect_keys(given, notes_of_thread(deleted), "").await?;
    }
    given.threads()?.purge_deleted(&IgnoreProgress).await?;
    expect_keys(given, notes_of_thread("u"), "a b").await?;
    expect_keys(given, all_notes(), "a").await
}

/// A thread that is created under a deleted id has none of the old documents. Its documents have larger revisions, and
/// no cursor of the old thread works.
pub(super) async fn a_recreated_thread_has_no_old_documents(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    let changes = || ["a", "b"].map(|name| put_at(note_of_thread("t", name), "x"));
    let revision = write(given, changes()).await?.revision;
    let first_page = notes_of_thread("t").with_page(PageRequest::first(1));
    let cursor = documents(given)?.list_documents(first_page).await?.next;
    let next_page = PageRequest::first(1).after(expect_some(cursor, "cursor")?);
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    given.create_empty_thread("t").await?;
    expect_keys(given, notes_of_thread("t"), "").await?;
    expect(write(given, changes()).await?.revision > revision, "the revision did not grow")?;
    let old_page = notes_of_thread("t").with_page(next_page);
    expect_kind(documents(given)?.list_documents(old_page).await, ErrorKind::InvalidCursor).map(drop)
}

/// Two threads and the tenant have documents of their own under one key.
pub(super) async fn every_thread_has_its_own_documents(given: &Given) -> Verdict {
    for name in ["t", "u"] {
        given.create_empty_thread(name).await?;
        write(given, [put_at(note_of_thread(name, "a"), name)]).await?;
    }
    write(given, [put("a", "tenant")]).await?;
    for (document, wanted) in [(note("a"), "tenant"), (note_of_thread("t", "a"), "t"), (note_of_thread("u", "a"), "u")]
    {
        expect_eq(text(&load_existing(given, &document).await?).as_str(), wanted)?;
    }
    expect_eq(list(given, notes_of_thread("u")).await?.len(), 1)
}

/// A write concerns documents of one thread at most, besides those of the tenant.
pub(super) async fn a_write_concerns_one_thread_at_most(given: &Given) -> Verdict {
    for name in ["t", "u"] {
        given.create_empty_thread(name).await?;
    }
    let changes = [put("a", "x"), put_at(note_of_thread("t", "a"), "x"), put_at(note_of_thread("u", "a"), "x")];
    let error = expect_write_refused(given, WriteDocuments::new(changes), ErrorKind::Invalid).await?;
    expect_eq(error.part(), Some("documents[2]"))?;
    expect_eq(load(given, &note_of_thread("t", "a")).await?, None)?;
    write(given, [put("a", "x"), put_at(note_of_thread("t", "a"), "x"), put_at(note_of_thread("t", "b"), "x")])
        .await
        .map(drop)
}

/// Documents of a thread do not change its version, its revision or its times, and the thread can be pruned although
/// it has documents.
pub(super) async fn documents_do_not_change_their_thread(given: &Given) -> Verdict {
    let before = given.create_thread_with_messages("t", &["x"]).await?;
    given.advance(std::time::Duration::from_secs(60)).await;
    write(given, [put_at(note_of_thread("t", "a"), "x")]).await?;
    expect_eq(given.thread(&id("t")).await?, before)?;
    let prune = store_core::PruneRequest { idle: std::time::Duration::from_secs(30), limit: 10, dry_run: false };
    expect_eq(given.threads()?.prune_threads(prune).await?.threads, vec![id("t")])?;
    expect_eq(load(given, &note_of_thread("t", "a")).await?, None)
}

/// A write that races with the deletion of its thread is refused, or its documents are deleted with the thread. No
/// thread that is created later has them.
pub(super) async fn no_document_outlives_a_deletion_that_it_races_with(given: &Given) -> Verdict {
    const ROUNDS: usize = 40;
    for round in 0..ROUNDS {
        let name = format!("t-{round}");
        given.create_empty_thread(&name).await?;
        let (store, threads, thread) = (documents(given)?, given.threads()?, id(&name));
        let request = WriteDocuments::new([put_at(note_of_thread(&name, "a"), "x")]);
        let writing = {
            let store: Arc<dyn DocumentStore> = Arc::clone(&store);
            async move { store.write_documents(request).await.map(drop) }
        };
        let deleting = {
            let threads: Arc<dyn ThreadRunStore> = Arc::clone(&threads);
            async move { threads.delete_thread(&thread, DeleteRequest::default()).await.map(drop) }
        };
        let (written, deleted) = run_two_concurrently(writing, deleting).await;
        deleted?;
        if written.is_err() {
            expect_kind(written, ErrorKind::NotFound)?;
        }
        given.create_empty_thread(&name).await?;
        expect_eq(load(given, &note_of_thread(&name, "a")).await?, None)?;
    }
    Ok(())
}
