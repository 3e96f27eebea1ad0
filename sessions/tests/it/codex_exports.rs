//! Tests of exports as rollouts of Codex.

use std::path::Path;

use serde_json::{Value, json};
use sessions::{Error, ExportOptions, ExportTarget, Exported, IssueCode, Loss, ToolFolders, export, tool_place};
use store_core::{
    Block, BlockKind, Commit, CommitCoordinator, Compaction, Custom, EntryId, Expect, Interval, Json, Label, Media,
    MediaSource, Message, NewBody, NewEntry, Origin, ParentRef, Provenance, RewindTo, Role, Thinking, ThreadFields,
    ThreadId, TokenCounts, ToolResult, UsageRecord, Visibility,
};
use tempfile::tempdir;

use crate::{
    codex::{context_of, short_texts},
    helpers::{entry_of, export_bytes, fixtures, format, has_no_message, import_one, new_store, write_file},
};

fn id(text: &str) -> EntryId {
    EntryId::new(text).unwrap()
}

fn entry(name: &str, body: impl Into<NewBody>) -> NewEntry {
    NewEntry::new(body).with_id(id(name))
}

fn json_of(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn with_origin(mut message: Message, provider: &str, api: &str, model: &str) -> Message {
    let mut provenance = Provenance::default();
    provenance.origin = Some(Origin::new(provider).with_api(api).with_model(model));
    message.provenance = Some(provenance);
    message
}

fn signed_thinking(text: &str, provider: &str, api: &str, model: &str) -> Block {
    let mut thinking = Thinking::new(text);
    thinking.signature = Some("c2ln".to_owned());
    thinking.origin = Some(Origin::new(provider).with_api(api).with_model(model));
    Block::new(BlockKind::Thinking(thinking))
}

fn image() -> Block {
    let source = MediaSource::Base64("iVBORw0KGgo=".to_owned());
    Block::new(BlockKind::Image(Media::new(Some("image/png".to_owned()), source)))
}

/// Entries with every kind of block and of body.
pub(crate) fn every_kind_of_entry() -> Vec<NewEntry> {
    let mut usage = UsageRecord::default();
    usage.spent = Some(TokenCounts::new(3, 4));
    let mut pdf = Media::new(Some("application/pdf".to_owned()), MediaSource::Base64("AAAA".to_owned()));
    pdf.title = Some("plan".to_owned());
    let claude =
        |blocks| with_origin(Message::new(Role::Assistant, blocks), "anthropic", "anthropic-messages", "claude-x");
    let gpt = |blocks| with_origin(Message::new(Role::Assistant, blocks), "openai", "openai-responses", "gpt-5.1");
    let mut failed = ToolResult::new("c2", vec![Block::text("no such file")]);
    failed.is_error = Some(true);
    let broken = {
        let mut call = Block::tool_use("c3", "read", json_of("{}"));
        if let BlockKind::ToolUse(call) = &mut call.kind {
            call.raw = Some("{\"p\":".to_owned());
        }
        call
    };
    let mut stopped = claude(vec![Block::text("half")]);
    stopped.stop = Some("aborted".to_owned());
    vec![
        entry("s1", Message::new(Role::System, vec![Block::text("Be brief.")])),
        entry("u1", Message::new(Role::User, vec![Block::text("Look."), image()])),
        entry(
            "a1",
            claude(vec![
                signed_thinking("Hm.", "anthropic", "anthropic-messages", "claude-x"),
                Block::text("I look."),
                Block::tool_use("c1", "read", json_of(r#"{"p":1.0}"#)),
                Block::tool_use("c2", "read", json_of("{}")),
            ]),
        ),
        entry(
            "t1",
            Message::new(
                Role::Tool,
                vec![
                    Block::tool_result("c1", vec![Block::text("one"), image()]),
                    Block::new(BlockKind::ToolResult(failed)),
                ],
            ),
        ),
        entry("k1", NewBody::Checkpoint { number: None, label: Some("start".to_owned()) }),
        entry("n1", usage),
        entry("l1", Label::new(id("u1"), Some("here".to_owned()))),
        entry("x1", Custom::new("note", json_of("{\"n\":1e2}"))),
        entry("f1", stopped),
        entry("v1", Message::user("for people").with_visibility(Visibility::Aside)),
        entry("i1", Message::user("for the model").with_visibility(Visibility::Internal)),
        entry("d1", Message::new(Role::User, vec![Block::text("Read it."), Block::new(BlockKind::Document(pdf))])),
        entry(
            "a2",
            gpt(vec![signed_thinking("Own.", "openai", "openai-responses", "gpt-5.1"), Block::text("Read."), broken]),
        ),
        entry("t2", Message::new(Role::Tool, vec![Block::tool_result("c3", vec![])])),
    ]
}

pub(crate) async fn thread_of(commits: &dyn CommitCoordinator, name: &str, entries: Vec<NewEntry>) -> ThreadId {
    let mut fields = ThreadFields::default();
    fields.title = Some("All of it".to_owned());
    let mut commit = Commit::new(ThreadId::new(name).unwrap()).expecting(Expect::Absent).creating(fields);
    for entry in entries {
        commit = commit.entry(entry);
    }
    commits.commit(commit).await.unwrap().thread
}

async fn export_stream(commits: &dyn CommitCoordinator, thread: &ThreadId) -> (Exported, Vec<Value>, Vec<u8>) {
    let mut out = Vec::new();
    let options = ExportOptions::new(format("codex")).with_working_folder("/work/app");
    let exported = export(&*commits.threads(), thread, &options, ExportTarget::Stream(&mut out)).await.unwrap();
    let lines = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
    (exported, lines, out)
}

/// The type of each line, with that of its payload.
fn types(lines: &[Value]) -> Vec<String> {
    let name = |line: &Value| {
        let kind = line["type"].as_str().unwrap();
        let payload_type = line["payload"]["type"].as_str().filter(|_| matches!(kind, "response_item" | "event_msg"));
        payload_type.map_or_else(|| kind.to_owned(), |payload_type| payload_type.to_owned())
    };
    lines.iter().map(name).collect()
}

async fn import_again(bytes: &[u8]) -> (std::sync::Arc<dyn CommitCoordinator>, ThreadId) {
    let folder = tempdir().unwrap();
    let commits = new_store();
    let report = import_one(&*commits, &write_file(folder.path(), "again.jsonl", bytes)).await;
    let is_unexpected = |issue: &&sessions::Issue| issue.code != IssueCode::BadArguments;
    let issues: Vec<_> = report.issues.iter().filter(is_unexpected).collect();
    assert!(issues.is_empty(), "{issues:?}: {}", String::from_utf8_lossy(bytes));
    (commits, report.thread.unwrap())
}

#[tokio::test]
async fn any_thread_becomes_a_rollout_with_the_same_context_except_for_the_losses() {
    let commits = new_store();
    let thread = thread_of(&*commits, "all", every_kind_of_entry()).await;
    let (exported, lines, bytes) = export_stream(&*commits, &thread).await;
    assert!(!exported.exact);
    let message_and_event = ["message", "user_message"];
    let mut expected = vec!["session_meta", "turn_context", "message"];
    expected.extend(message_and_event);
    expected.extend(["message", "agent_message", "function_call", "function_call"]);
    expected.extend(["function_call_output", "function_call_output"]);
    expected.push("message");
    expected.extend(message_and_event);
    expected.extend(["reasoning", "message", "agent_message", "function_call", "function_call_output"]);
    expected.push("thread_name_updated");
    assert_eq!(types(&lines), expected);
    let (other, copy) = import_again(&bytes).await;
    let copied_thread = other.threads().load_thread(&copy).await.unwrap().unwrap();
    assert_eq!(
        (copied_thread.title.as_deref(), copied_thread.metadata["cwd"].as_str()),
        (Some("All of it"), "\"/work/app\"")
    );
    let expected = [
        "system: Be brief.",
        "user: Look.",
        "user: image Some(\"image/png\") Base64(\"iVBORw0KGgo=\")",
        "assistant: I look.",
        "assistant: call c1 read {\"p\":1.0}",
        "assistant: call c2 read {}",
        "tool: result c1 one + image Some(\"image/png\") Base64(\"iVBORw0KGgo=\")",
        "tool: result c2 [error] no such file",
        "user: for the model",
        "user: Read it.",
        "user: [document `plan`, application/pdf]",
        "assistant: thinking Own. Some(\"c2ln\")",
        "assistant: Read.",
        "assistant: call c3 read {}",
        "tool: result c3 (no output)",
    ];
    assert_eq!(short_texts(&context_of(&*other, &copy).await), expected);
}

#[tokio::test]
async fn everything_that_a_rollout_cannot_hold_is_listed_with_its_entry() {
    let commits = new_store();
    let thread = thread_of(&*commits, "all", every_kind_of_entry()).await;
    let (exported, ..) = export_stream(&*commits, &thread).await;
    let losses: Vec<_> = exported.losses.iter().map(|loss: &Loss| (entry_of(loss), loss.kind)).collect();
    for loss in [
        ("s1", "role"),
        ("a1", "origin"),
        ("a1", "thinking"),
        ("t1", "is_error"),
        ("k1", "checkpoint"),
        ("n1", "usage"),
        ("l1", "label"),
        ("x1", "custom"),
        ("f1", "failed_turn"),
        ("v1", "visibility"),
        ("i1", "visibility"),
        ("d1", "unsupported_media"),
        ("t2", "empty"),
    ] {
        assert!(losses.contains(&loss), "{loss:?}: {losses:?}");
    }
    assert!(losses.iter().all(|(entry, _)| !matches!(*entry, "u1")), "{losses:?}");
}

#[tokio::test]
async fn the_first_lines_are_those_that_codex_needs() {
    let commits = new_store();
    let thread = thread_of(&*commits, "all", every_kind_of_entry()).await;
    let (_, lines, _) = export_stream(&*commits, &thread).await;
    let header = &lines[0]["payload"];
    let session = header["id"].as_str().unwrap();
    assert_eq!((session.len(), header["cwd"].as_str()), (36, Some("/work/app")));
    for name in ["timestamp", "originator", "cli_version", "source", "model_provider"] {
        assert!(header[name].is_string(), "{name}");
    }
    let context = &lines[1]["payload"];
    assert_eq!((context["model"].as_str(), context["cwd"].as_str()), (Some("gpt-5.1"), Some("/work/app")));
    assert!(context["approval_policy"].is_string() && context["sandbox_policy"].is_object());
    let event = lines.iter().find(|line| line["payload"]["type"] == "user_message").unwrap();
    let images = json!(["data:image/png;base64,iVBORw0KGgo="]);
    assert_eq!((&event["payload"]["message"], &event["payload"]["images"]), (&json!("Look."), &images));
    // Codex reads the content of every message as a list.
    for line in lines.iter().filter(|line| line["payload"]["type"] == "message") {
        assert!(line["payload"]["content"].is_array(), "{line}");
    }
}

#[tokio::test]
async fn a_compaction_replaces_everything_before_it() {
    let mut compaction = Compaction::default();
    compaction.covers = Some(Interval::new(id("u1"), id("a1")));
    compaction.summary = vec![Block::text("Before.")];
    let entries = vec![
        entry("u1", Message::user("first")),
        entry("a1", Message::assistant("answer")),
        entry("u2", Message::user("kept")),
        entry("z1", compaction),
        entry("u3", Message::user("after")),
    ];
    let commits = new_store();
    let thread = thread_of(&*commits, "short", entries).await;
    let (exported, lines, bytes) = export_stream(&*commits, &thread).await;
    let compacted = lines.iter().find(|line| line["type"] == "compacted").unwrap();
    assert_eq!(compacted["payload"]["message"], "Before.");
    assert_eq!(compacted["payload"]["replacement_history"].as_array().unwrap().len(), 2);
    let losses: Vec<_> = exported.losses.iter().map(|loss| (entry_of(loss), loss.kind)).collect();
    assert_eq!(losses, [("z1", "compaction")]);
    let (other, copy) = import_again(&bytes).await;
    assert_eq!(short_texts(&context_of(&*other, &copy).await), short_texts(&context_of(&*commits, &thread).await));
}

/// A thread with two leaves. The first one is the head.
async fn branched_thread(commits: &dyn CommitCoordinator) -> ThreadId {
    let below = |name: &str, parent: &str, message| entry(name, message).with_parent(ParentRef::Entry(id(parent)));
    let entries = vec![
        entry("u1", Message::user("first")),
        entry("a1", Message::assistant("answer")),
        entry("u2", Message::user("one way")),
        below("u3", "a1", Message::user("another way")),
        entry("r1", RewindTo::Entry(id("u2"))),
    ];
    thread_of(commits, "branched", entries).await
}

#[tokio::test]
async fn other_branches_are_losses_or_files_of_their_own() {
    let commits = new_store();
    let thread = branched_thread(&*commits).await;
    let (exported, ..) = export_stream(&*commits, &thread).await;
    let losses: Vec<_> = exported.losses.iter().map(|loss| (entry_of(loss), loss.kind)).collect();
    assert_eq!(losses, [("u3", "branch")]);
    let options = ExportOptions::new(format("codex")).with_all_branches();
    let mut out = Vec::new();
    let refused = export(&*commits.threads(), &thread, &options, ExportTarget::Stream(&mut out)).await;
    assert!(matches!(refused, Err(Error::NotExportable { .. })));
    let folder = tempdir().unwrap();
    let target = ExportTarget::Folder(folder.path());
    let exported = export(&*commits.threads(), &thread, &options, target).await.unwrap();
    assert_eq!((exported.losses.len(), exported.files.len()), (0, 2));
    let header = |path: &Path| -> Value {
        let text = std::fs::read_to_string(path).unwrap();
        serde_json::from_str(text.lines().next().unwrap()).unwrap()
    };
    let (main, fork) = (header(&exported.files[0]), header(&exported.files[1]));
    assert_eq!(fork["payload"]["forked_from_id"], main["payload"]["id"]);
    let name = exported.files[1].file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.starts_with("rollout-") && name.contains(fork["payload"]["id"].as_str().unwrap()), "{name}");
    let other = new_store();
    let reports = sessions::import(&*other, folder.path(), &sessions::ImportOptions::default()).await.unwrap();
    let mut contexts = Vec::new();
    for report in &reports {
        contexts.push(short_texts(&context_of(&*other, report.thread.as_ref().unwrap()).await).concat());
    }
    contexts.sort();
    let start = "user: firstassistant: answer";
    assert_eq!(contexts, [format!("{start}user: another way"), format!("{start}user: one way")]);
}

#[tokio::test]
async fn a_continued_rollout_keeps_its_lines() {
    let commits = new_store();
    let source = fixtures().join("codex/turns.jsonl");
    let thread = import_one(&*commits, &source).await.thread.unwrap();
    let version = commits.threads().load_thread(&thread).await.unwrap().unwrap().version;
    let new_message = entry("mine", Message::user("And now?"));
    let commit = Commit::new(thread.clone()).expecting(Expect::Version(version)).entry(new_message);
    let _receipt = commits.commit(commit).await.unwrap();
    let (bytes, exact) = export_bytes(&*commits, &thread, format("codex")).await;
    assert!(!exact);
    let (text, original) = (String::from_utf8(bytes).unwrap(), std::fs::read_to_string(&source).unwrap());
    let lines: Vec<_> = text.lines().collect();
    let original: Vec<_> = original.lines().collect();
    assert_eq!(lines[1..original.len()], original[1..]);
    let added: Vec<Value> = lines[original.len()..].iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(types(&added), ["message", "user_message"]);
    let header: Value = serde_json::from_str(lines[0]).unwrap();
    assert_eq!(
        (&header["payload"]["id"], &header["payload"]["cli_version"]),
        (&json!(thread.as_str()), &json!("0.98.0"))
    );
    let (other, copy) = import_again(text.as_bytes()).await;
    assert_eq!(copy, thread);
    assert_eq!(short_texts(&context_of(&*other, &copy).await), short_texts(&context_of(&*commits, &thread).await));
}

/// Adds a message to an imported thread, exports the thread as a rollout, and imports the rollout. Checks that the
/// context is the same, and returns the codes of the issues of the second import.
pub(crate) async fn check_continued(path: &Path) -> Vec<&'static str> {
    let commits = new_store();
    let report = import_one(&*commits, path).await;
    if has_no_message(&report) {
        return Vec::new();
    }
    let thread = report.thread.unwrap();
    let version = commits.threads().load_thread(&thread).await.unwrap().unwrap().version;
    let new_message = entry("mine", Message::user("And now?"));
    let commit = Commit::new(thread.clone()).expecting(Expect::Version(version)).entry(new_message);
    let _receipt = commits.commit(commit).await.unwrap();
    let (bytes, _) = export_bytes(&*commits, &thread, format("codex")).await;
    let folder = tempdir().unwrap();
    let other = new_store();
    let again = import_one(&*other, &write_file(folder.path(), "again.jsonl", &bytes)).await;
    // A rollout cannot hold reasoning and data of other providers, so they are not compared.
    let is_foreign = |line: &String| line.contains(": thinking ") || line.contains(": opaque ");
    let is_kept = |line: &String| report.format == Some("codex") || !is_foreign(line);
    let mut before = short_texts(&context_of(&*commits, &thread).await);
    let mut after = short_texts(&context_of(&*other, &again.thread.unwrap()).await);
    before.retain(is_kept);
    after.retain(is_kept);
    assert_eq!(after, before, "{}", path.display());
    again.issue_counts.keys().map(|code| code.name()).collect()
}

#[tokio::test]
async fn every_import_with_a_new_message_keeps_its_context() {
    for name in [
        "codex/turns",
        "codex/compacted",
        "codex/old-shape",
        "codex/fork",
        "codex/rolled-back",
        "codex/rollout",
        "pi/v3-tree",
        "pi/v2-branches",
    ] {
        let mut codes = check_continued(&fixtures().join(name).with_extension("jsonl")).await;
        codes.retain(|code| *code != "open_call");
        assert!(codes.is_empty(), "{name}: {codes:?}");
    }
}

#[tokio::test]
async fn codex_finds_the_session_by_its_day_and_its_id() {
    let commits = new_store();
    let thread = import_one(&*commits, &fixtures().join("codex/turns.jsonl")).await.thread.unwrap();
    let options = ExportOptions::new(format("codex"));
    let mut folders = ToolFolders::new("/home/me", "/work/app");
    let place = tool_place(&*commits.threads(), &thread, &options, &folders).await.unwrap();
    assert_eq!(place.folder, Path::new("/home/me/.codex/sessions/2026/01/06"));
    assert_eq!(place.command, "codex resume 019b9b10-0000-7000-8000-000000000001");
    folders.variables.insert("CODEX_HOME".to_owned(), "/codex".to_owned());
    let other = branched_thread(&*commits).await;
    let place = tool_place(&*commits.threads(), &other, &options, &folders).await.unwrap();
    assert!(place.folder.starts_with("/codex/sessions"));
    let (_, lines, _) = export_stream(&*commits, &other).await;
    assert_eq!(place.command, format!("codex resume {}", lines[0]["payload"]["id"].as_str().unwrap()));
    let folder = tempdir().unwrap();
    let target = ExportTarget::Folder(folder.path());
    let exported = export(&*commits.threads(), &thread, &options, target).await.unwrap();
    let name = exported.files[0].file_name().unwrap().to_str().unwrap();
    assert_eq!(name, "rollout-2026-01-06T08-00-00-019b9b10-0000-7000-8000-000000000001.jsonl");
    assert!(exported.exact);
}

#[tokio::test]
async fn a_thread_without_a_head_is_a_rollout_without_items() {
    let commits = new_store();
    let entries = vec![entry("u1", Message::user("first")), entry("r1", RewindTo::Start)];
    let thread = thread_of(&*commits, "rewound", entries).await;
    let (exported, lines, bytes) = export_stream(&*commits, &thread).await;
    assert_eq!(types(&lines), ["session_meta", "turn_context", "thread_name_updated"]);
    assert_eq!(exported.losses.len(), 1);
    let folder = tempdir().unwrap();
    let report = import_one(&*new_store(), &write_file(folder.path(), "again.jsonl", bytes)).await;
    assert!(has_no_message(&report), "{:?}", report.issues);
}
