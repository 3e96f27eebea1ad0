//! Tests of compactions of Claude Code that keep messages.

use sessions::{ImportReport, IssueCode};
use store_core::{BlockKind, CommitCoordinator, ContextRequest};
use tempfile::tempdir;

use crate::helpers::{export_bytes, format, import_one, new_store, write_file};

const SESSION: &str = "5e550000-0000-4000-8000-0000000000b1";

/// A line with these fields besides those that every line has.
fn line(uuid: &str, parent: &str, fields: &str) -> String {
    let parent = if parent.is_empty() { "null".to_owned() } else { format!("\"{parent}\"") };
    format!(
        r#"{{"uuid":"{uuid}","parentUuid":{parent},"isSidechain":false,"sessionId":"{SESSION}","timestamp":"2026-02-01T09:00:00.000Z",{fields}}}"#
    ) + "\n"
}

fn user(uuid: &str, parent: &str) -> String {
    line(uuid, parent, &format!(r#""type":"user","message":{{"role":"user","content":"{uuid}"}}"#))
}

fn assistant(uuid: &str, parent: &str) -> String {
    let message = format!(r#"{{"role":"assistant","content":[{{"type":"text","text":"{uuid}"}}]}}"#);
    line(uuid, parent, &format!(r#""type":"assistant","message":{message}"#))
}

fn boundary(uuid: &str, logical_parent: &str, metadata: &str) -> String {
    let fields = format!(
        r#""type":"system","subtype":"compact_boundary","logicalParentUuid":"{logical_parent}","compactMetadata":{{"trigger":"auto","preTokens":9,{metadata}}}"#
    );
    line(uuid, "", &fields)
}

fn preserved_segment(head: &str, tail: &str, anchor: &str) -> String {
    format!(r#""preservedSegment":{{"headUuid":"{head}","tailUuid":"{tail}","anchorUuid":"{anchor}"}}"#)
}

fn summary(uuid: &str, parent: &str) -> String {
    let fields = format!(
        r#""type":"user","isCompactSummary":true,"message":{{"role":"user","content":[{{"type":"text","text":"{uuid}"}}]}}"#
    );
    line(uuid, parent, &fields)
}

fn attachment(uuid: &str, parent: &str) -> String {
    line(uuid, parent, &format!(r#""type":"attachment","attachment":{{"type":"file","content":"{uuid}"}}"#))
}

/// The lines of four messages, which come before a compaction.
fn four_messages() -> String {
    user("m1", "") + &assistant("m2", "m1") + &user("m3", "m2") + &assistant("m4", "m3")
}

/// The texts of the context.
async fn context(commits: &dyn CommitCoordinator, report: &ImportReport) -> Vec<String> {
    let thread = report.thread.as_ref().unwrap();
    let context = commits.threads().load_context(thread, ContextRequest::head()).await.unwrap().context;
    let texts = context.messages.iter().flat_map(|found| found.message.blocks.clone()).map(|block| match block.kind {
        BlockKind::Text(text) => text,
        other => format!("{other:?}"),
    });
    texts.collect()
}

/// The context of a file, and the report of its import. Checks that the context has the same messages if the file grows
/// by 1, 2 or 3 lines between imports.
async fn context_of(text: &str) -> (Vec<String>, ImportReport) {
    let folder = tempdir().unwrap();
    let path = folder.path().join(format!("{SESSION}.jsonl"));
    let store = new_store();
    std::fs::write(&path, text).unwrap();
    let report = import_one(&*store, &path).await;
    let texts = context(&*store, &report).await;
    let (bytes, exact) = export_bytes(&*store, report.thread.as_ref().unwrap(), format("claude-code")).await;
    assert!(exact && bytes == text.as_bytes());
    for step in [1, 2, 3] {
        let grown_store = new_store();
        let ends: Vec<_> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        let mut last_report = None;
        for end in ends.iter().skip(step - 1).step_by(step).chain(ends.last()) {
            write_file(folder.path(), &format!("{SESSION}.jsonl"), &text[..*end]);
            last_report = Some(import_one(&*grown_store, &path).await);
        }
        let (mut at_once, mut in_steps) = (texts.clone(), context(&*grown_store, &last_report.unwrap()).await);
        let mut imported_texts = ends.iter().skip(step - 1).step_by(step).map(|end| &text[..*end]);
        // If an import ends between a compaction and its summary, the order of the messages may differ.
        if imported_texts.any(|cut| cut.lines().last().is_some_and(|line| line.contains("compact_boundary"))) {
            at_once.sort();
            in_steps.sort();
        }
        assert_eq!(in_steps, at_once, "steps of {step}");
    }
    (texts, report)
}

#[tokio::test]
async fn the_end_of_the_conversation_is_kept_after_the_summary() {
    let start = four_messages() + &boundary("b", "m4", &preserved_segment("m3", "m4", "s")) + &summary("s", "b");
    let (found, report) = context_of(&(start.clone() + &user("m5", "m4") + &assistant("m6", "m5"))).await;
    assert_eq!(found, ["s", "m3", "m4", "m5", "m6"]);
    assert_eq!((report.issues.len(), report.leaves), (0, 1), "{:?}", report.issues);
    let text = start.clone() + &attachment("x", "s") + &user("m5", "x") + &assistant("m6", "m5");
    assert_eq!(context_of(&text).await.0, ["s", "m3", "m4", "x", "m5", "m6"]);
    // If all messages are kept, the summary is still in the context.
    let text = four_messages()
        + &boundary("b", "m4", &preserved_segment("m1", "m4", "s"))
        + &summary("s", "b")
        + &user("m5", "m4");
    let (mut found, _) = context_of(&text).await;
    found.sort();
    assert_eq!(found.last().unwrap(), "s");
}

#[tokio::test]
async fn a_second_compaction_covers_the_first() {
    let start = four_messages()
        + &boundary("b", "m4", &preserved_segment("m3", "m4", "s"))
        + &summary("s", "b")
        + &user("m5", "m4");
    let second = assistant("m6", "m5") + &boundary("c", "m6", &preserved_segment("m6", "m6", "t")) + &summary("t", "c");
    let text = start.clone() + &second + &user("m7", "m6");
    assert_eq!(context_of(&text).await.0, ["t", "m6", "m7"]);
    let text = start + &boundary("c", "m5", r#""preCompactDiscoveredTools":[]"#) + &summary("t", "c");
    assert_eq!(context_of(&text).await.0, ["t"]);
}

#[tokio::test]
async fn the_beginning_of_the_conversation_may_be_kept() {
    let text = four_messages()
        + &boundary("b", "m4", &preserved_segment("m1", "m2", "b"))
        + &summary("s", "b")
        + &user("m5", "s");
    let (found, report) = context_of(&text).await;
    assert_eq!((found, report.issues.len()), (["m1", "m2", "s", "m5"].map(str::to_owned).to_vec(), 0));
}

#[tokio::test]
async fn a_wrong_description_of_kept_lines_is_reported() {
    for metadata in [
        preserved_segment("m3", "unknown", "s"),
        preserved_segment("m4", "m3", "s"),
        preserved_segment("unknown", "m4", "s"),
        r#""preservedSegment":{"headUuid":"m3"}"#.to_owned(),
        r#""preservedSegment":7"#.to_owned(),
        r#""preservedMessages":{"anchorUuid":"s","uuids":["m3"],"allUuids":["m3"]}"#.to_owned(),
    ] {
        let text = four_messages() + &boundary("b", "m4", &metadata) + &summary("s", "b") + &user("m5", "s");
        let (found, report) = context_of(&text).await;
        assert_eq!(found, ["s", "m5"], "{metadata}");
        assert_eq!(report.count(IssueCode::BadField), 1, "{metadata}: {:?}", report.issues);
    }
}
