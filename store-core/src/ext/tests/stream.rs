//! Streams of entries (EN-32). `VecLog::new` explains the notation of logs.

use std::{future::poll_fn, pin::pin, sync::atomic::Ordering};

use futures_core::Stream;

use super::{VecLog, id, thread};
use crate::{Cursor, EntryQuery, ErrorKind, LogReader, LogReaderExt, PageRequest, Result, log::Direction};

/// Returns the sequence numbers of the entries of a query, read through a trait object.
async fn stream_seqs(log: &dyn LogReader, query: EntryQuery) -> Vec<Result<u64>> {
    let mut entries = pin!(log.stream_entries(&thread(), query));
    let mut seqs = Vec::new();
    while let Some(entry) = poll_fn(|cx| entries.as_mut().poll_next(cx)).await {
        seqs.push(entry.map(|entry| entry.seq));
    }
    seqs
}

#[track_caller]
fn expect_entries(log: &str, query: EntryQuery, expected: &[u64]) {
    let log = VecLog::new(log);
    let seqs = tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(stream_seqs(&log, query));
    assert_eq!(seqs.into_iter().map(Result::unwrap).collect::<Vec<_>>(), expected);
}

fn with_page_limit(limit: u32, query: EntryQuery) -> EntryQuery {
    query.with_page(PageRequest::first(limit))
}

#[test]
fn a_stream_returns_the_entries_of_all_pages() {
    expect_entries("", EntryQuery::all(), &[]);
    expect_entries("- 1 2 2 4", EntryQuery::all(), &[1, 2, 3, 4, 5]);
    expect_entries("- 1 2 2 4", with_page_limit(2, EntryQuery::all()), &[1, 2, 3, 4, 5]);
    expect_entries("- 1 2 2", with_page_limit(2, EntryQuery::all()), &[1, 2, 3, 4]);
    expect_entries("- 1 2 2 4", with_page_limit(1, EntryQuery::path_of(id("5"))), &[1, 2, 4, 5]);
    let backward = EntryQuery::path_of(id("5")).with_direction(Direction::Backward);
    expect_entries("- 1 2 2 4", with_page_limit(3, backward), &[5, 4, 2, 1]);
}

#[test]
fn a_stream_continues_after_any_entry() {
    let log = VecLog::new("- 1 2 2 4");
    let second = log.find(&id("2")).unwrap();
    expect_entries("- 1 2 2 4", with_page_limit(2, EntryQuery::all()).after_entry(second), &[3, 4, 5]);
    expect_entries("- 1 2 2 4", EntryQuery::path_of(id("5")).after_entry(second), &[4, 5]);
    let backward = EntryQuery::path_of(id("5")).with_direction(Direction::Backward);
    expect_entries("- 1 2 2 4", backward.clone().after_entry(second), &[1]);
    expect_entries("- 1 2 2 4", backward.clone().after_entry(second).after_entry(log.find(&id("5")).unwrap()), &[1]);
    expect_entries("- 1 2 2 4", backward.after_entry(log.find(&id("1")).unwrap()), &[]);
}

#[tokio::test]
async fn a_stream_reads_pages_on_demand() {
    let log = VecLog::new("- 1 2 3 4");
    let mut entries = pin!(log.stream_entries(&thread(), with_page_limit(2, EntryQuery::all())));
    assert_eq!(log.pages_read.load(Ordering::SeqCst), 0);
    for pages in [1, 1, 2, 2, 3] {
        assert!(poll_fn(|cx| entries.as_mut().poll_next(cx)).await.is_some());
        assert_eq!(log.pages_read.load(Ordering::SeqCst), pages);
    }
}

#[tokio::test]
async fn a_stream_ends_after_an_error() {
    let mut query = EntryQuery::all();
    query.page.cursor = Some(Cursor::from_text("forged"));
    let results = stream_seqs(&VecLog::new("- 1"), query).await;
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].as_ref().unwrap_err().kind(), ErrorKind::InvalidCursor);
}
