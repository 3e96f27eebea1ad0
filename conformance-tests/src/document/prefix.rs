//! Counts and deletions of the documents of a prefix.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use store_core::{
    DeleteDocuments, DocumentQuery, DocumentStoreExt, IgnoreProgress, KeySegment, Progress, WriteDocuments,
};

use super::helpers::{
    all_notes, documents, expect_keys, load_existing, note, note_key, note_of_thread, notes_of_thread, put, put_at,
    segment, write, write_notes,
};
use crate::{Given, Verdict, check::expect_eq};

/// Writes the notes `a/0` to `a/…`, `count` of them, and the notes `b/0`, `b/1` and `b/2`.
async fn write_numbered_notes(given: &Given, count: u64) -> Verdict {
    for (first, count) in [("a", count), ("b", 3)] {
        let numbers: Vec<u64> = (0..count).collect();
        for chunk in numbers.chunks(1_000) {
            let key = |number: &u64| note_key(&[segment(first), KeySegment::Number(*number)]);
            let changes: Vec<_> = chunk.iter().map(|number| put_at(key(number).into(), "x")).collect();
            write(given, changes).await?;
        }
    }
    Ok(())
}

fn notes_below(first: &str) -> DocumentQuery {
    all_notes().starting_with([segment(first)])
}

/// The documents of a prefix, of bounds and of a scope are counted, however many pages they fill.
pub(super) async fn documents_of_a_prefix_are_counted(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    write_numbered_notes(given, 1_001).await?;
    write(given, [put("ab", "x"), put_at(note_of_thread("t", "a"), "x")]).await?;
    let store = documents(given)?;
    let key = |number| [segment("a"), KeySegment::Number(number)];
    for (query, count) in [
        (all_notes(), 1_005),
        (notes_below("a"), 1_001),
        (notes_below("ab"), 1),
        (notes_below("c"), 0),
        (all_notes().from(key(1_000)).before([segment("b")]), 2),
        (notes_of_thread("t"), 1),
    ] {
        expect_eq(store.count_documents(query).await?, count)?;
    }
    Ok(())
}

/// The documents of a prefix are deleted, and no others. A dry run counts the same documents and deletes none.
pub(super) async fn documents_of_a_prefix_are_deleted(given: &Given) -> Verdict {
    given.create_empty_thread("t").await?;
    write_numbered_notes(given, 3).await?;
    write(given, [put("a", "x"), put("ab", "x"), put_at(note_of_thread("t", "a"), "x")]).await?;
    let store = documents(given)?;
    let request = || DeleteDocuments::new(notes_below("a"));
    let deleted = store.delete_documents(request().dry(), &IgnoreProgress).await?;
    expect_eq((deleted.documents, deleted.stopped), (4, false))?;
    expect_keys(given, all_notes(), "a a/0 a/1 a/2 ab b/0 b/1 b/2").await?;
    let deleted = store.delete_documents(request(), &IgnoreProgress).await?;
    expect_eq((deleted.documents, deleted.stopped), (4, false))?;
    expect_keys(given, all_notes(), "ab b/0 b/1 b/2").await?;
    expect_keys(given, notes_of_thread("t"), "a").await?;
    expect_eq(store.delete_documents(request(), &IgnoreProgress).await?.documents, 0)
}

/// With a time, only documents that were last put before it are deleted.
pub(super) async fn only_documents_that_were_not_put_since_are_deleted(given: &Given) -> Verdict {
    write_notes(given, &["old", "renewed"]).await?;
    given.advance(Duration::from_secs(60)).await;
    write_notes(given, &["renewed", "new"]).await?;
    let since = load_existing(given, &note("renewed")).await?.updated_at;
    let store = documents(given)?;
    let request = || DeleteDocuments::new(all_notes()).updated_before(since);
    expect_eq(store.delete_documents(request().dry(), &IgnoreProgress).await?.documents, 1)?;
    expect_eq(store.delete_documents(request(), &IgnoreProgress).await?.documents, 1)?;
    expect_keys(given, all_notes(), "new renewed").await?;
    let all = request().updated_before(since.saturating_add(Duration::from_secs(60)));
    expect_eq(store.delete_documents(all, &IgnoreProgress).await?.documents, 2)?;
    expect_keys(given, all_notes(), "").await
}

/// Stops after a number of batches.
#[derive(Debug)]
struct StopAfter(AtomicU64);

impl Progress for StopAfter {
    fn advance(&self, _done: u64, _total: Option<u64>) -> bool {
        self.0.fetch_sub(1, Ordering::SeqCst) > 1
    }
}

/// A deletion runs in batches and can be stopped between two of them. Repeated, it deletes the rest. Documents that are
/// deleted meanwhile are no error.
pub(super) async fn a_deletion_can_be_stopped_between_batches(given: &Given) -> Verdict {
    write_numbered_notes(given, 1_200).await?;
    let store = documents(given)?;
    let request = || DeleteDocuments::new(notes_below("a"));
    let first = store.delete_documents(request(), &StopAfter(AtomicU64::new(1))).await?;
    expect_eq((first.documents, first.stopped), (1_000, true))?;
    expect_eq(store.count_documents(notes_below("a")).await?, 200)?;
    let (left, right) = tokio::join!(
        store.delete_documents(request(), &IgnoreProgress),
        store.delete_documents(request(), &IgnoreProgress)
    );
    expect_eq((left?.stopped, right?.stopped), (false, false))?;
    expect_eq(store.count_documents(notes_below("a")).await?, 0)?;
    expect_eq(store.count_documents(notes_below("b")).await?, 3)?;
    let _written = store.write_documents(WriteDocuments::new([put("a", "x")])).await?;
    expect_eq(store.count_documents(notes_below("a")).await?, 1)
}
