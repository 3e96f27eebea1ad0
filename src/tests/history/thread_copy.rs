//! Tests of threads that begin as a copy of a path (CX-23).

use store_core::{
    Commit, CommitCoordinatorExt, Compaction, ContextRequest, EntryQuery, ErrorKind, Expect, Fork, Guard, Interval,
    Label, Message, NewBody, NewEntry, PageRequest, ThreadId, TokenCounts, Usage, UsageRecord,
};

use super::{call, commit, id, memory, new_commit, result, thread};
use crate::{COPIED_FROM, copy_thread};

fn thread_id(name: &str) -> ThreadId {
    ThreadId::new(name).unwrap()
}

#[tokio::test]
async fn a_copy_has_the_context_of_the_entry() {
    let (_stores, commits) = memory().await;
    let answer = Message::assistant("b").with_usage(Usage::from(TokenCounts::new(3, 4)));
    commit(&*commits, vec![("1", Message::user("a")), ("2", answer), ("3", call("x")), ("4", result("x", "ok"))]).await;
    let mut compaction = Compaction::default();
    compaction.covers = Some(Interval::new(id("1"), id("2")));
    compaction.summary = vec![store_core::Block::text("short")];
    let later_entries =
        [NewBody::from(compaction), NewBody::Checkpoint { number: Some(7), label: Some("here".into()) }];
    let later_entries =
        later_entries.into_iter().zip(["5", "6"]).map(|(body, name)| NewEntry::new(body).with_id(id(name)));
    let receipt = commits.commit(new_commit().entries(later_entries)).await.unwrap();
    let side_entries =
        [NewBody::Label(Label::new(id("1"), Some("first".into()))), NewBody::Usage(UsageRecord::default())];
    let _receipt = commits.commit(new_commit().entries(side_entries.map(NewEntry::new))).await.unwrap();
    let current = commits.threads().load_thread(&thread()).await.unwrap().unwrap();
    let fork = Fork::below(id("1")).entry(NewEntry::new(Message::user("another way")));
    let _receipt = commits.fork(Guard::from(&current), fork).await.unwrap();

    let copied = copy_thread(&*commits, &thread(), &id("6"), thread_id("copy")).await.unwrap();
    assert_eq!((copied.entries, &copied.head), (6, &id("6")));
    let threads = commits.threads();
    let source = threads.load_context(&thread(), ContextRequest::at(id("6"))).await.unwrap();
    let found = threads.load_context(&thread_id("copy"), ContextRequest::head()).await.unwrap();
    assert_eq!((found.at, found.next_checkpoint), (source.at, 8));
    assert_eq!(found.context, source.context);
    assert_eq!(found.thread.metadata[COPIED_FROM].as_str(), r#"{"entry":"6","thread":"t"}"#);
    let page = EntryQuery::all().with_page(PageRequest::first(100));
    let entries = threads.list_entries(&thread_id("copy"), page).await.unwrap().items;
    assert_eq!(entries.len(), 6, "neither side entries nor other branches are copied");
    let original = threads.load_entry(&thread(), &receipt.entry_ids[0]).await.unwrap().unwrap();
    assert_eq!((&entries[4].body, entries[4].timestamp), (&original.body, original.timestamp));
}

#[tokio::test]
async fn a_long_path_is_copied_in_several_commits_and_a_repetition_adds_nothing() {
    let (_stores, commits) = memory().await;
    for part in 0..3 {
        let entries =
            (0..90).map(|n| NewEntry::new(Message::user("x")).with_id(id(&format!("{part}-{n}")))).collect::<Vec<_>>();
        let _receipt = commits.commit(new_commit().entries(entries)).await.unwrap();
    }
    for _ in 0..2 {
        let copied = copy_thread(&*commits, &thread(), &id("2-80"), thread_id("copy")).await.unwrap();
        assert_eq!(copied.entries, 261);
        let copy = commits.threads().load_thread(&thread_id("copy")).await.unwrap().unwrap();
        assert_eq!((copy.version.number(), copy.head), (261, Some(id("2-80"))));
    }
}

#[tokio::test]
async fn a_copy_needs_an_entry_of_a_path_and_a_new_id() {
    let (_stores, commits) = memory().await;
    commit(&*commits, vec![("1", Message::user("a"))]).await;
    let label = NewEntry::new(Label::new(id("1"), Some("x".into()))).with_id(id("side"));
    let _receipt = commits.commit(new_commit().entry(label)).await.unwrap();
    let error_kind = async |source: &str, at: &str, new: &str| {
        copy_thread(&*commits, &thread_id(source), &id(at), thread_id(new)).await.unwrap_err().kind()
    };
    assert_eq!(error_kind("unknown", "1", "new").await, ErrorKind::NotFound);
    assert_eq!(error_kind("t", "unknown", "new").await, ErrorKind::NotFound);
    assert_eq!(error_kind("t", "side", "new").await, ErrorKind::Invalid);
    let taken = Commit::new(thread_id("taken")).expecting(Expect::Absent).entry(NewEntry::new(Message::user("mine")));
    let _receipt = commits.commit(taken).await.unwrap();
    assert_eq!(error_kind("t", "1", "taken").await, ErrorKind::AlreadyExists);
    assert!(commits.threads().load_thread(&thread_id("new")).await.unwrap().is_none());
}
