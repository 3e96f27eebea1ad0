//! Tests of the entries that an import makes from the lines of Claude Code.

use std::sync::Arc;

use sessions::{ImportOptions, ImportReport, IssueCode, import};
use store_core::{BlockKind, Body, CommitCoordinator, ContextRequest, Entry, Message, Role, ThreadId, Visibility};
use tempfile::tempdir;

use crate::{
    contexts::check_thread,
    helpers::{custom_kind, entries, export_bytes, fixtures, format, head_path, import_one, new_store, write_file},
};

/// Imports a fixture. Returns its main thread and the report of this thread.
async fn import_fixture(commits: &dyn CommitCoordinator, name: &str) -> (ThreadId, ImportReport) {
    let path = fixtures().join("claude-code").join(format!("{name}.jsonl"));
    let report = import(commits, &path, &ImportOptions::default()).await.unwrap().remove(0);
    (report.thread.clone().unwrap(), report)
}

/// The entry of the line with this number.
fn entry_of_line(entries: &[Arc<Entry>], line: u64) -> &Entry {
    entries.iter().find(|entry| entry.origin.as_ref().unwrap().line == line).unwrap()
}

fn message(entry: &Entry) -> &Message {
    entry.message().unwrap()
}

fn context_texts(context: &store_core::Context) -> Vec<String> {
    let text =
        |blocks: &[store_core::Block]| -> String { blocks.iter().map(|block| format!("{:?}", block.kind)).collect() };
    context.messages.iter().map(|found| format!("{} {}", found.message.role, text(&found.message.blocks))).collect()
}

#[tokio::test]
async fn parallel_calls_on_several_lines_are_one_message_in_the_context() {
    let commits = new_store();
    let (thread, report) = import_fixture(&*commits, "parallel-calls").await;
    assert_eq!(report.issues, []);
    check_thread(&*commits, &thread, None, "claude-code-parallel-calls.context.json").await;
    let path = head_path(&*commits, &thread).await;
    let lines: Vec<_> = path.iter().map(|entry| entry.origin.as_ref().unwrap().line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 6, 7, 8, 9, 10]);
    let details: Vec<_> = path
        .iter()
        .flat_map(|entry| &message(entry).blocks)
        .filter_map(|block| match &block.kind {
            BlockKind::ToolResult(result) => Some(result.details.as_ref().unwrap().as_str().to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(details, [r#"{"lines":1.0}"#, r#""Error: not found""#]);
}

#[tokio::test]
async fn the_usage_of_a_message_counts_once() {
    let commits = new_store();
    let (thread, _) = import_fixture(&*commits, "parallel-calls").await;
    let usage = commits.threads().load_thread(&thread).await.unwrap().unwrap().usage;
    assert_eq!((usage.input, usage.output, usage.cache_read, usage.cache_write), (20, 26, 6, 4));
}

#[tokio::test]
async fn lines_of_subagents_are_not_in_the_main_thread() {
    let commits = new_store();
    let (thread, report) = import_fixture(&*commits, "sidechain").await;
    assert_eq!((report.issues.len(), report.messages), (0, 4));
    let found = entries(&*commits, &thread).await;
    let call = entry_of_line(&found, 2).id.clone();
    for line in 3..=6 {
        let entry = entry_of_line(&found, line);
        assert!(entry.side && custom_kind(entry) == "import.line" && entry.parent.as_ref() == Some(&call), "{line}");
    }
    let child = ThreadId::new("5e550000-0000-4000-8000-000000000002.agent-L3").unwrap();
    let context = commits.threads().load_context(&child, ContextRequest::head()).await.unwrap().context;
    assert_eq!((context.messages.len(), context.repairs.len()), (4, 0));
    let main = commits.threads().load_thread(&thread).await.unwrap().unwrap();
    assert_eq!(main.title.as_deref(), Some("The config"));
}

#[tokio::test]
async fn a_compaction_leaves_out_everything_before_it() {
    let commits = new_store();
    let (thread, report) = import_fixture(&*commits, "compacted").await;
    assert_eq!(report.count(IssueCode::UnknownType), 1, "{:?}", report.issues);
    let context = commits.threads().load_context(&thread, ContextRequest::head()).await.unwrap().context;
    let texts = context_texts(&context);
    assert_eq!(texts.len(), 4, "{texts:#?}");
    assert!(texts[0].contains("Summary: a function") && texts[1].contains("Caveat") && texts[2].contains("Now rename"));
    let found = entries(&*commits, &thread).await;
    let visibilities =
        [(1, Visibility::Internal), (7, Visibility::Internal), (8, Visibility::All), (9, Visibility::Aside)];
    for (line, visibility) in visibilities {
        assert_eq!(message(entry_of_line(&found, line)).visibility, visibility, "{line}");
    }
    let Body::Compaction(compaction) = &*entry_of_line(&found, 5).body else { panic!("line 5 is not a compaction") };
    let covers = compaction.covers.as_ref().unwrap();
    assert_eq!((&covers.from, &covers.to), (&entry_of_line(&found, 1).id, &entry_of_line(&found, 4).id));
    let blocks = &message(entry_of_line(&found, 3)).blocks;
    assert!(matches!(&blocks[0].kind, BlockKind::Thinking(thinking) if thinking.redacted));
    assert!(matches!(&message(entry_of_line(&found, 10)).blocks[1].kind, BlockKind::Opaque(_)));
}

#[tokio::test]
async fn a_resumed_session_keeps_the_lines_of_the_previous_session() {
    let commits = new_store();
    let (thread, report) = import_fixture(&*commits, "resumed").await;
    assert_eq!(report.issues.iter().map(|issue| issue.code).collect::<Vec<_>>(), [IssueCode::DuplicateLine]);
    let found = entries(&*commits, &thread).await;
    let Body::Label(label) = &*entry_of_line(&found, 1).body else { panic!("line 1 is not a label") };
    assert_eq!((label.text.as_deref(), &label.target), (Some("Sorting lists"), &entry_of_line(&found, 7).id));
    assert_eq!(custom_kind(entry_of_line(&found, 2)), "claude-code.summary");
    assert_eq!(custom_kind(entry_of_line(&found, 3)), "claude-code.file-history-snapshot");
    let Body::Compaction(compaction) = &*entry_of_line(&found, 4).body else { panic!("line 4 is not a compaction") };
    assert_eq!(compaction.covers, None);
    let stored_thread = commits.threads().load_thread(&thread).await.unwrap().unwrap();
    assert_eq!(stored_thread.metadata["session_id"].as_str(), "\"5e550000-0000-4000-8000-000000000006\"");
    assert_eq!(stored_thread.metadata["cwd"].as_str(), "\"/work/app\"");
}

#[tokio::test]
async fn lines_without_ids_form_one_path() {
    let commits = new_store();
    let (thread, report) = import_fixture(&*commits, "torn").await;
    assert_eq!(report.issues.iter().map(|issue| issue.code).collect::<Vec<_>>(), [IssueCode::TornLastLine]);
    let path = head_path(&*commits, &thread).await;
    assert_eq!(path.iter().map(|entry| entry.id.as_str()).collect::<Vec<_>>(), ["L1", "L2"]);
    assert_eq!(path.iter().map(|entry| message(entry).role).collect::<Vec<_>>(), [Role::User, Role::Assistant]);
}

#[tokio::test]
async fn messages_of_a_wrong_shape_are_kept_and_reported() {
    let commits = new_store();
    let (thread, report) = import_fixture(&*commits, "wrong-messages").await;
    let found = entries(&*commits, &thread).await;
    assert_eq!(custom_kind(entry_of_line(&found, 2)), "claude-code.assistant");
    assert_eq!(custom_kind(entry_of_line(&found, 3)), "claude-code.user");
    assert_eq!(custom_kind(entry_of_line(&found, 5)), "claude-code.tool_use");
    let issues: Vec<_> = report.issues.iter().map(|issue| (issue.line.unwrap(), issue.code)).collect();
    let expected = [
        (2, IssueCode::BadField),
        (3, IssueCode::BadField),
        (4, IssueCode::BadField),
        (4, IssueCode::UnknownType),
        (5, IssueCode::UnknownType),
        (6, IssueCode::BadField),
    ];
    assert_eq!(issues, expected);
    assert!(matches!(&message(entry_of_line(&found, 4)).blocks[0].kind, BlockKind::Opaque(_)));
}

#[tokio::test]
async fn a_session_that_grows_keeps_its_threads() {
    let folder = tempdir().unwrap();
    for name in ["parallel-calls", "sidechain", "compacted", "resumed"] {
        let whole = std::fs::read(fixtures().join("claude-code").join(format!("{name}.jsonl"))).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let commits = new_store();
        let fresh_store = new_store();
        let (id, _) = import_fixture(&*fresh_store, name).await;
        let mut end = first;
        while end < whole.len() {
            end = (end + 311).min(whole.len());
            let path = write_file(folder.path(), &format!("{id}.jsonl"), &whole[..end]);
            let report = import(&*commits, &path, &ImportOptions::default()).await.unwrap().remove(0);
            // The first line of a session does not always show that the file is a session.
            let Some(thread) = report.thread else { continue };
            assert_eq!(thread, id);
            let (bytes, exact) = export_bytes(&*commits, &thread, format("claude-code")).await;
            assert!(exact && bytes == whole[..end], "{name}, {end} bytes");
        }
        let thread = id;
        let (in_steps, at_once) = (commits.threads(), fresh_store.threads());
        let grown = in_steps.load_context(&thread, ContextRequest::head()).await.unwrap().context;
        let whole = at_once.load_context(&thread, ContextRequest::head()).await.unwrap().context;
        assert_eq!(context_texts(&grown), context_texts(&whole), "{name}");
        let usage = |threads: Option<store_core::Thread>| threads.unwrap().usage.input;
        let (grown, whole) =
            (in_steps.load_thread(&thread).await.unwrap(), at_once.load_thread(&thread).await.unwrap());
        assert_eq!(usage(grown), usage(whole), "{name}: a message counts once");
    }
}

#[tokio::test]
async fn a_message_of_another_model_has_another_origin() {
    let folder = tempdir().unwrap();
    let line = |model: &str, uuid: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"{uuid}","sessionId":"s","timestamp":"2026-02-01T09:00:00.000Z","message":{{"role":"assistant","model":"{model}","content":[{{"type":"thinking","thinking":"t","signature":"s"}}]}}}}"#
        ) + "\n"
    };
    let text = line("claude-opus-4-1", "a") + &line("glm-4.6", "b") + &line("<synthetic>", "c");
    let commits = new_store();
    let report = import_one(&*commits, &write_file(folder.path(), "models.jsonl", text)).await;
    let found = entries(&*commits, &report.thread.unwrap()).await;
    let providers: Vec<_> = (1..=3)
        .map(|line| {
            let provenance = message(entry_of_line(&found, line)).provenance.clone();
            provenance.and_then(|provenance| provenance.origin).map(|origin| origin.provider)
        })
        .collect();
    assert_eq!(providers, [Some("anthropic".to_owned()), Some("claude-code".to_owned()), None]);
}
