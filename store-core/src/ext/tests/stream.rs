//! Streams of entries (EN-32).

use std::{future::poll_fn, pin::pin, sync::atomic::Ordering};

use futures_core::Stream;

use super::{Log, id, thread};
use crate::{Cursor, EntryQuery, ErrorKind, LogReader, LogReaderExt, PageRequest, Result, log::Direction};

/// Returns the sequence numbers of a query, read through a trait object.
async fn walk(log: &dyn LogReader, query: EntryQuery) -> Vec<Result<u64>> {
    let mut entries = pin!(log.stream_entries(&thread(), query));
    let mut found = Vec::new();
    while let Some(entry) = poll_fn(|cx| entries.as_mut().poll_next(cx)).await {
        found.push(entry.map(|entry| entry.seq));
    }
    found
}

#[track_caller]
fn check(log: &str, query: EntryQuery, expected: &[u64]) {
    let log = Log::new(log);
    let found = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(walk(&log, query));
    assert_eq!(found.into_iter().map(Result::unwrap).collect::<Vec<_>>(), expected);
}

fn pages_of(limit: u32, query: EntryQuery) -> EntryQuery {
    query.with_page(PageRequest::first(limit))
}

#[test]
fn a_stream_gives_every_page() {
    check("", EntryQuery::all(), &[]);
    check("- 1 2 2 4", EntryQuery::all(), &[1, 2, 3, 4, 5]);
    check("- 1 2 2 4", pages_of(2, EntryQuery::all()), &[1, 2, 3, 4, 5]);
    check("- 1 2 2", pages_of(2, EntryQuery::all()), &[1, 2, 3, 4]);
    check("- 1 2 2 4", pages_of(1, EntryQuery::path_of(id("5"))), &[1, 2, 4, 5]);
    let backward = EntryQuery::path_of(id("5")).with_direction(Direction::Backward);
    check("- 1 2 2 4", pages_of(3, backward), &[5, 4, 2, 1]);
}

#[test]
fn a_stream_continues_after_any_entry() {
    let log = Log::new("- 1 2 2 4");
    let second = log.find(&id("2")).unwrap();
    check("- 1 2 2 4", pages_of(2, EntryQuery::all()).after_entry(second), &[3, 4, 5]);
    check("- 1 2 2 4", EntryQuery::path_of(id("5")).after_entry(second), &[4, 5]);
    let backward = EntryQuery::path_of(id("5")).with_direction(Direction::Backward);
    check("- 1 2 2 4", backward.clone().after_entry(second), &[1]);
    check("- 1 2 2 4", backward.clone().after_entry(second).after_entry(log.find(&id("5")).unwrap()), &[1]);
    check("- 1 2 2 4", backward.after_entry(log.find(&id("1")).unwrap()), &[]);
}

#[tokio::test]
async fn a_stream_reads_pages_on_demand() {
    let log = Log::new("- 1 2 3 4");
    let mut entries = pin!(log.stream_entries(&thread(), pages_of(2, EntryQuery::all())));
    assert_eq!(log.pages.load(Ordering::SeqCst), 0);
    for pages in [1, 1, 2, 2, 3] {
        assert!(poll_fn(|cx| entries.as_mut().poll_next(cx)).await.is_some());
        assert_eq!(log.pages.load(Ordering::SeqCst), pages);
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_error() {
    let mut query = EntryQuery::all();
    query.page.cursor = Some(Cursor::from_text("forged"));
    let found = walk(&Log::new("- 1"), query).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].as_ref().unwrap_err().kind(), ErrorKind::InvalidCursor);
}
