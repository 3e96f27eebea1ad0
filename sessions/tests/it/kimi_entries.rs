//! Tests of the entries that an import makes from kimi-cli files: from rotated and damaged files, media, times,
//! failures and state.

use std::{path::Path, sync::Arc};

use serde_json::json;
use sessions::{ImportReport, IssueCode};
use store_core::{BlockKind, Body, Entry};

use crate::{
    contexts::check_thread,
    helpers::{custom_kind, entries, fixtures, new_store},
    kimi::import_session,
};

fn find<'a>(all: &'a [Arc<Entry>], id: &str) -> &'a Entry {
    all.iter().find(|entry| entry.id.as_str() == id).unwrap()
}

/// Imports a session. Returns the report and the entries of its first thread.
async fn import_first_thread(folder: &Path) -> (ImportReport, Vec<Arc<Entry>>) {
    let commits = new_store();
    let report = import_session(&*commits, folder).await.remove(0);
    let all = entries(&*commits, report.thread.as_ref().unwrap()).await;
    (report, all)
}

fn is_error(entry: &Entry) -> Option<bool> {
    match &entry.message().unwrap().blocks[0].kind {
        BlockKind::ToolResult(result) => result.is_error,
        _ => None,
    }
}

#[tokio::test]
async fn damaged_lines_are_stored_and_reported() {
    let (report, all) = import_first_thread(&fixtures().join("bad/kimi-context")).await;
    let issues: Vec<_> = report.issues.iter().map(|issue| (issue.line.unwrap(), issue.code.name())).collect();
    let expected = [
        (4, "malformed_line"),
        (5, "bad_field"),
        (6, "bad_field"),
        (7, "bad_field"),
        (8, "bad_field"),
        (9, "unknown_type"),
        (10, "orphan_result"),
        (11, "bad_field"),
        (12, "control_character"),
    ];
    assert_eq!(issues, expected);
    assert!(report.issues.iter().all(|issue| issue.file.as_deref() == Some("context.jsonl")));
    let kinds = ["L4", "L5", "L6", "L7", "L8", "L9"].map(|id| custom_kind(find(&all, id)));
    let line = "kimi-cli.line";
    assert_eq!(kinds, ["import.line", line, line, "kimi-cli._usage", "kimi-cli._checkpoint", "kimi-cli._future"]);
    assert!(matches!(find(&all, "L11").message().unwrap().blocks[0].kind, BlockKind::Opaque(_)));
    let (report, _) = import_first_thread(&fixtures().join("kimi-cli/parts")).await;
    let issues: Vec<_> = report.issues.iter().map(|issue| (issue.line.unwrap(), issue.code.name())).collect();
    assert_eq!(issues, [(5, "malformed_line"), (6, "bad_field")]);
}

#[tokio::test]
async fn media_and_thinking_become_blocks_of_their_types() {
    let (_, all) = import_first_thread(&fixtures().join("kimi-cli/parts")).await;
    let message = serde_json::to_value(find(&all, "L2").message().unwrap()).unwrap();
    let opaque = |id: &str| json!({"origin": {"provider": "kimi-cli"}, "data": {"id": id}});
    let origin = json!({"provider": "kimi-cli"});
    let expected = json!([
        {"thinking": {"text": "Three files.", "signature": "sig-7", "origin": origin}},
        {"text": "I look at them."},
        {"image": {"url": "https://example.com/a.png"}, "opaque": opaque("img-1")},
        {"audio": {"url": "https://example.com/a.mp3"}, "opaque": opaque("aud-1")},
        {"video": {"url": "ms://film"}, "opaque": opaque("vid-1")},
        {"tool_use": {"id": "call-1", "name": "describe", "input": {"detail": "full"}, "raw": "{\"detail\":\"full\"}"}}
    ]);
    assert_eq!(message["blocks"], expected);
    let (_, all) = import_first_thread(&fixtures().join("kimi-cli/media")).await;
    let image = serde_json::to_value(&find(&all, "L3").message().unwrap().blocks[1]).unwrap();
    assert_eq!(image, json!({"image": {"media_type": "image/png", "base64": "AAAA"}, "opaque": opaque("img-1")}));
}

#[tokio::test]
async fn times_and_failures_come_from_the_wire_file() {
    let (report, all) = import_first_thread(&fixtures().join("kimi-cli/tool-calls")).await;
    assert_eq!((report.version.as_deref(), report.issues.len()), (Some("1.8"), 0));
    let time = |id: &str| find(&all, id).timestamp.as_millis();
    assert_eq!(["L3", "L7", "L9"].map(time), [1_767_690_000_125, 1_767_690_000_500, 1_767_690_001_500]);
    assert_eq!(["L1", "L4", "L5"].map(time), [1_767_690_000_125; 3]);
    assert_eq!(time("L10"), time("L9"));
    assert_eq!(is_error(find(&all, "L9")), Some(true));
    let parent = |id: &str| find(&all, id).parent.as_ref().map(|id| id.as_str().to_owned());
    assert_eq!(
        ["wire.L2", "wire.L4", "wire.L5", "wire.L8"].map(parent),
        ["L3", "L7", "L7", "L9"].map(|id| Some(id.into()))
    );
    let (_, all) = import_first_thread(&fixtures().join("kimi-cli/media")).await;
    // The text of the message is not that of the turn in the wire file, but the order shows which turn the message
    // began.
    assert_eq!(find(&all, "L10").timestamp.as_millis(), 1_767_690_212_125);
    let (_, all) = import_first_thread(&fixtures().join("kimi-cli/rotated")).await;
    assert_eq!((is_error(find(&all, "L8")), is_error(find(&all, "2.L8"))), (Some(true), Some(false)));
}

#[tokio::test]
async fn title_and_metadata_come_from_the_state_file() {
    let commits = new_store();
    for (name, title) in [("rotated", Some("Build it")), ("media", None), ("broken-state", None)] {
        let reports = import_session(&*commits, &fixtures().join("kimi-cli").join(name)).await;
        let id = reports[0].thread.as_ref().unwrap();
        let thread = commits.threads().load_thread(id).await.unwrap().unwrap();
        assert_eq!((thread.id.as_str(), thread.title.as_deref()), (name, title));
        assert_eq!(thread.metadata["session_id"].as_str(), format!("\"{name}\""));
        assert_eq!(thread.metadata.contains_key("state"), name == "rotated");
    }
    let reports = import_session(&*commits, &fixtures().join("kimi-cli/broken-state")).await;
    let issues: Vec<_> = reports[0].issues.iter().map(|issue| (issue.file.as_deref(), issue.code)).collect();
    assert_eq!(issues, [(Some("state.json"), IssueCode::BadField)]);
    let all = entries(&*commits, reports[0].thread.as_ref().unwrap()).await;
    let state = all.iter().find(|entry| entry.id.as_str().starts_with("state.")).unwrap();
    assert_eq!(
        (custom_kind(state), state.origin.as_ref().unwrap().raw.as_deref()),
        ("import.line", Some(&b"{\"custom_title\": "[..]))
    );
}

#[tokio::test]
async fn a_folder_of_work_dirs_imports_every_session() {
    let commits = new_store();
    let reports = import_session(&*commits, &fixtures().join("kimi-cli/work-dirs")).await;
    let threads: Vec<_> = reports.iter().map(|report| report.thread.as_ref().unwrap().as_str()).collect();
    assert_eq!(threads, ["app-1", "app-2", "box-1"]);
    assert!(reports.iter().all(|report| report.lines == 3 && report.issues.is_empty()));
}

#[tokio::test]
async fn a_rotated_session_is_one_tree() {
    let commits = new_store();
    let reports = import_session(&*commits, &fixtures().join("kimi-cli/rotated")).await;
    let thread = reports[0].thread.as_ref().unwrap();
    check_thread(&*commits, thread, None, "kimi-rotated.context.json").await;
    check_thread(&*commits, thread, Some("2.L14"), "kimi-rotated.2.L14.context.json").await;
    check_thread(&*commits, thread, Some("L10"), "kimi-rotated.L10.context.json").await;
    assert_eq!((reports[0].issues.len(), reports[0].leaves), (0, 2));
    let request = store_core::ContextRequest::head();
    let context = commits.threads().load_context(thread, request).await.unwrap();
    assert_eq!((context.context_size, context.next_checkpoint), (Some(60), 2));
    let all = entries(&*commits, thread).await;
    // The references to the lines that the summary keeps are stored before the summary. If an import stopped in
    // between, a summary with only some of them would cover other lines.
    let seq = |id: &str| find(&all, id).seq;
    assert!(seq("3.L4.shared") < seq("3.L3") && seq("3.L5.shared") < seq("3.L3"));
    let rewinds: Vec<_> = all.iter().filter(|entry| matches!(&*entry.body, Body::Rewind(_))).collect();
    let [rewind] = rewinds.as_slice() else { panic!("{rewinds:?}") };
    assert!(matches!(&*rewind.body, Body::Rewind(rewind) if rewind.to.as_ref().unwrap().as_str() == "L5"));
}
