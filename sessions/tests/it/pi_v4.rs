//! Tests of version 4 of the session format of pi: lanes, records, facts and sequence numbers. A lane of pi is a named
//! branch.

use sessions::{ImportOptions, IssueCode};
use store_core::{Body, Commit, CommitCoordinator, EntryId, NewEntry, PageRequest, RewindTo, TokenCounts};
use tempfile::tempdir;

use crate::{
    helpers::{custom_kind, entries, export_bytes, fixtures, format, import_one, new_store, write_file},
    pi_cases::{Imported, import_lines},
};

const HEADER: &str = r#"{"kind":"header","version":4,"id":"four","createdAt":1767607200000,"cwd":"/x"}"#;

fn user(id: &str, parent: &str, (lane, seq): (&str, u32)) -> String {
    format!(
        r#"{{"kind":"entry","lane":"{lane}","type":"message","id":"{id}","message":{{"role":"user","content":"{id}"}},"parentId":{parent},"seq":{seq},"timestamp":1767607200001}}"#
    )
}

fn lane(name: &str, leaf: &str, seq: u32) -> String {
    format!(r#"{{"kind":"lane","seq":{seq},"lane":"{name}","leafId":{leaf}}}"#)
}

async fn head(imported: &Imported) -> Option<String> {
    let thread = imported.commits.threads().load_thread(&imported.thread).await.unwrap().unwrap();
    thread.head.map(|head| head.as_str().to_owned())
}

/// The label of an entry.
async fn label(commits: &dyn CommitCoordinator, thread: &store_core::ThreadId, id: &str) -> Option<String> {
    let target = EntryId::new(id).unwrap();
    let labels = entries(commits, thread).await;
    let mut of_target = labels.iter().rev().filter_map(|entry| match &*entry.body {
        Body::Label(label) if label.target == target => Some(label.text.clone()),
        _ => None,
    });
    of_target.next().flatten()
}

#[tokio::test]
async fn the_main_lane_is_the_head_and_other_lanes_are_labels() {
    let lines = [
        HEADER.to_owned(),
        user("a", "null", ("main", 1)),
        lane("review", "\"a\"", 2),
        user("b", "\"a\"", ("review", 3)),
        user("c", "\"a\"", ("main", 4)),
        user("d", "\"b\"", ("review", 5)),
    ];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    assert_eq!((head(&imported).await.as_deref(), imported.report.leaves), (Some("c"), 2));
    assert_eq!(label(&*imported.commits, &imported.thread, "d").await.as_deref(), Some("lane:review"));
    assert_eq!(imported.report.issues, []);
    assert_eq!(custom_kind(&*imported.entry("L3").await), "pi.lane");
    let page = imported.commits.threads().list_leaves(&imported.thread, PageRequest::first(9)).await.unwrap();
    assert_eq!(page.items.len(), 2);
    let lines_with_empty_lane = [&lines[..], &[lane("main", "null", 6)]].concat();
    let imported = import_lines(&lines_with_empty_lane, &ImportOptions::default()).await;
    assert_eq!(head(&imported).await, None);
}

#[tokio::test]
async fn the_label_of_a_lane_moves_with_the_lane() {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let lines = [
        HEADER.to_owned(),
        user("a", "null", ("main", 1)),
        user("b", "\"a\"", ("review", 2)),
        user("c", "\"b\"", ("review", 3)),
        lane("review", "\"b\"", 4),
    ];
    let mut thread = None;
    for (line_count, labelled_entry) in [(3, "b"), (4, "c"), (5, "b")] {
        let path = write_file(folder.path(), "grown.jsonl", lines[..line_count].join("\n") + "\n");
        let report = import_one(&*commits, &path).await;
        assert!(thread.is_none() || thread == report.thread);
        for name in ["b", "c"] {
            let found = label(&*commits, report.thread.as_ref().unwrap(), name).await;
            assert_eq!(
                found.as_deref(),
                (name == labelled_entry).then_some("lane:review"),
                "{line_count} lines: {name}"
            );
        }
        thread = report.thread;
    }
}

#[tokio::test]
async fn records_become_side_entries_and_tokens_count_once() {
    let commits = new_store();
    let report = import_one(&*commits, &fixtures().join("pi/v4-lanes.jsonl")).await;
    let id = report.thread.as_ref().unwrap();
    let thread = commits.threads().load_thread(id).await.unwrap().unwrap();
    let mut counted = TokenCounts::new(12, 7);
    (counted.cache_read, counted.cache_write) = (3, 1);
    assert_eq!((&thread.usage, thread.title.as_deref()), (&counted, Some("Example")));
    assert_eq!(
        report.issues.iter().filter(|issue| issue.code != IssueCode::OpenCall).count(),
        0,
        "{:?}",
        report.issues
    );
    let found = entries(&*commits, id).await;
    let kinds: Vec<_> = found.iter().filter(|entry| entry.side).map(|entry| custom_kind(entry)).collect();
    for kind in ["pi.record.operation_started", "pi.record.tool_started", "pi.record.queue_enqueued", "pi.lane"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let usage = found.iter().find(|entry| entry.id.as_str() == "use-1").unwrap();
    assert_eq!((usage.side, usage.parent.as_ref().map(EntryId::as_str)), (true, Some("a1")));
    assert!(matches!(&*usage.body, Body::Usage(usage) if usage.spent.is_none()));
    assert_eq!(label(&*commits, id, "u1").await.as_deref(), Some("start"));
}

#[tokio::test]
async fn sequence_gaps_unknown_kinds_and_new_roots_are_reported() {
    let lines = [
        HEADER.to_owned(),
        user("a", "null", ("main", 1)),
        user("b", "\"a\"", ("main", 3)),
        r#"{"kind":"mystery","seq":4,"x":1}"#.to_owned(),
        user("c", "null", ("main", 5)),
        lane("other", "\"nobody\"", 6),
    ];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    let codes: Vec<_> = imported.report.issues.iter().map(|issue| (issue.line, issue.code.name())).collect();
    let expected =
        [(Some(3), "sequence_gap"), (Some(4), "unknown_type"), (Some(5), "new_root"), (Some(6), "bad_field")];
    assert_eq!(codes, expected);
    assert_eq!(custom_kind(&*imported.entry("L4").await), "pi.mystery");
}

#[tokio::test]
async fn a_lane_with_a_wrong_leaf_moves_nothing_and_is_reported() {
    let lines = [
        HEADER.to_owned(),
        user("a", "null", ("main", 1)),
        lane("main", "7", 2),
        r#"{"kind":"fact","seq":3,"fact":"label","targetId":"a","label":"first"}"#.to_owned(),
        r#"{"kind":"fact","seq":4,"fact":"label","targetId":"a","label":{}}"#.to_owned(),
    ];
    let imported = import_lines(&lines, &ImportOptions::default()).await;
    let codes: Vec<_> = imported.report.issues.iter().map(|issue| (issue.line, issue.code.name())).collect();
    assert_eq!(codes, [(Some(3), "bad_field"), (Some(5), "bad_field")]);
    assert_eq!(head(&imported).await.as_deref(), Some("a"));
    assert_eq!(label(&*imported.commits, &imported.thread, "a").await.as_deref(), Some("first"));
    let lines_with_unknown_leaf = [HEADER.to_owned(), user("a", "null", ("main", 1)), lane("main", "\"nobody\"", 2)];
    let imported = import_lines(&lines_with_unknown_leaf, &ImportOptions::default()).await;
    let codes: Vec<_> = imported.report.issues.iter().map(|issue| (issue.line, issue.code.name())).collect();
    assert_eq!((codes, head(&imported).await.as_deref()), (vec![(None, "bad_field")], Some("a")));
}

/// If two lines have the same id, the entry of the second one has another. The export names the head among them.
#[tokio::test]
async fn the_head_is_written_although_a_later_line_had_its_id() {
    let lines = [HEADER.to_owned(), user("a", "null", ("main", 1)), user("a", "null", ("main", 2))];
    let Imported { commits, thread, .. } = import_lines(&lines, &ImportOptions::default()).await;
    let rewind = NewEntry::new(RewindTo::Entry(EntryId::new("a").unwrap()));
    let commit = Commit::new(thread.clone()).with_key("rewind".parse().unwrap()).entry(rewind);
    let _receipt = commits.commit(commit).await.unwrap();
    let (bytes, _) = export_bytes(&*commits, &thread, format("pi-v4")).await;
    let folder = tempdir().unwrap();
    let other_store = new_store();
    let report = import_one(&*other_store, &write_file(folder.path(), "copy.jsonl", &bytes)).await;
    let copy = other_store.threads().load_thread(&report.thread.unwrap()).await.unwrap().unwrap();
    assert_eq!(copy.head.unwrap().as_str(), "a", "{}", String::from_utf8_lossy(&bytes));
}
