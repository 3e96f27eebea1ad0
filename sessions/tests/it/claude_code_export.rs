//! Tests of threads that are written as sessions of Claude Code.

use std::path::Path;

use serde_json::Value;
use sessions::{ExportOptions, ExportTarget, Exported, ImportOptions, ToolFolders, export, import, tool_place};
use store_core::{
    Block, BlockKind, Body, Commit, CommitCoordinator, Compaction, ContextRequest, Custom, EntryId, Expect, Interval,
    Json, Media, MediaSource, Message, NewBody, NewEntry, Opaque, Origin, Provenance, Role, Thinking, ThreadFields,
    ThreadId, TokenCounts, ToolResult, ToolUse, Usage, Visibility,
};
use tempfile::tempdir;

use crate::{
    exports::thread_of_everything,
    helpers::{entries, entry_of, fixtures, format, head_path, import_one, new_store, write_file},
};

fn options() -> ExportOptions {
    ExportOptions::new(format("claude-code"))
}

fn id(text: &str) -> EntryId {
    EntryId::new(text).unwrap()
}

fn entry(name: &str, body: impl Into<NewBody>) -> NewEntry {
    NewEntry::new(body).with_id(id(name))
}

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

fn origin(provider: &str) -> Origin {
    Origin::new(provider).with_api("anthropic-messages").with_model("claude-sonnet-4-5")
}

fn signed_thinking(provider: &str) -> Block {
    Block::new(BlockKind::Thinking(thinking_with_signature("hm", provider)))
}

fn redacted_thinking(provider: &str) -> Block {
    let mut thinking = thinking_with_signature("", provider);
    thinking.redacted = true;
    Block::new(BlockKind::Thinking(thinking))
}

fn thinking_with_signature(text: &str, provider: &str) -> Thinking {
    let mut thinking = Thinking::new(text);
    thinking.signature = Some("sig".to_owned());
    thinking.origin = Some(origin(provider));
    thinking
}

async fn commit(commits: &dyn CommitCoordinator, thread: &str, entries: Vec<NewEntry>) -> ThreadId {
    let commit = Commit::new(ThreadId::new(thread).unwrap()).expecting(Expect::Absent).entries(entries);
    commits.commit(commit).await.unwrap().thread
}

/// Appends a message of the user below the head.
async fn append_question(commits: &dyn CommitCoordinator, thread: &ThreadId) {
    append(commits, thread, entry("q", Message::user("And now?"))).await;
}

async fn append(commits: &dyn CommitCoordinator, thread: &ThreadId, entry: NewEntry) {
    let version = commits.threads().load_thread(thread).await.unwrap().unwrap().version;
    let commit = Commit::new(thread.clone()).expecting(Expect::Version(version)).entry(entry);
    let _receipt = commits.commit(commit).await.unwrap();
}

pub(crate) async fn export_text(commits: &dyn CommitCoordinator, thread: &ThreadId) -> (Exported, String) {
    let mut out = Vec::new();
    let target = ExportTarget::Stream(&mut out);
    let exported = export(&*commits.threads(), thread, &options(), target).await.unwrap();
    (exported, String::from_utf8(out).unwrap())
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The entry, the path and the kind of each loss.
fn losses(exported: &Exported) -> Vec<(&str, &str, &str)> {
    exported.losses.iter().map(|loss| (entry_of(loss), loss.path.as_str(), loss.kind)).collect()
}

/// The blocks of a context with their roles. Two contexts are equal even if one has its tool results in one message and
/// the other in several.
pub(crate) async fn context_blocks(commits: &dyn CommitCoordinator, thread: &ThreadId) -> Vec<(Role, String)> {
    let context = commits.threads().load_context(thread, ContextRequest::head()).await.unwrap().context;
    let messages = context.messages.iter().map(|found| &found.message);
    let blocks = messages.flat_map(|message| message.blocks.iter().map(|block| (message.role, block)));
    blocks.map(|(role, block)| (role, serde_json::to_string(block).unwrap())).collect()
}

/// Imports a text as a session.
pub(crate) async fn reimport(text: &str) -> (std::sync::Arc<dyn CommitCoordinator>, ThreadId) {
    let folder = tempdir().unwrap();
    let other = new_store();
    let report = import_one(&*other, &write_file(folder.path(), "copy.jsonl", text)).await;
    // The export writes the head last, so entries below the head come before their parent. A thread may have several
    // roots.
    let expected = ["open_call", "orphan_result", "unknown_type", "forward_parent", "new_root"];
    let codes: Vec<_> =
        report.issue_counts.keys().map(|code| code.name()).filter(|code| !expected.contains(code)).collect();
    assert!(codes.is_empty(), "{:?}\n{text}", report.issues);
    (other, report.thread.unwrap())
}

#[tokio::test]
async fn a_thread_with_everything_has_the_same_context_after_export_and_import() {
    let commits = new_store();
    let thread = thread_of_everything(&*commits).await;
    let (exported, text) = export_text(&*commits, &thread).await;
    assert!(!exported.exact);
    assert_eq!(losses(&exported), []);
    let (other, copy) = reimport(&text).await;
    assert_eq!(context_blocks(&*other, &copy).await, context_blocks(&*commits, &thread).await, "{text}");
    let bodies = |entries: &[std::sync::Arc<store_core::Entry>]| -> Vec<String> {
        let kept = entries.iter().filter(|entry| {
            matches!(&*entry.body, Body::Custom(c) if c.kind == "note")
                || matches!(&*entry.body, Body::Checkpoint(_) | Body::Usage(_))
        });
        kept.map(|entry| serde_json::to_string(&*entry.body).unwrap()).collect()
    };
    assert_eq!(bodies(&entries(&*other, &copy).await), bodies(&entries(&*commits, &thread).await));
    let found = entries(&*other, &copy).await;
    let named = found.iter().find_map(|entry| match &*entry.body {
        Body::Label(label) => found.iter().find(|other| other.id == label.target),
        _ => None,
    });
    assert_eq!(named.unwrap().message().unwrap().blocks, Message::user("go on").blocks);
    let last = lines(&text).pop().unwrap();
    assert_eq!(last["message"]["content"][0]["tool_use_id"], "c2");
    let times: Vec<_> = lines(&text).iter().map(|line| line["timestamp"].as_str().unwrap().to_owned()).collect();
    assert!(times[..times.len() - 1].iter().all(|time| time < times.last().unwrap()), "{times:?}");
}

#[tokio::test]
async fn lines_have_the_fields_that_claude_code_writes() {
    let commits = new_store();
    let session = "0198c0de-0000-7000-8000-00000000000a";
    let entry_id = "0198c0de-0000-7000-8000-00000000000b";
    let mut answer = Message::new(Role::Assistant, vec![signed_thinking("anthropic"), Block::text("Hi.")]);
    let mut provenance = Provenance::default();
    provenance.origin = Some(origin("anthropic"));
    provenance.message_id = Some("msg_1".to_owned());
    answer.provenance = Some(provenance);
    answer.stop = Some("end_turn".to_owned());
    let mut usage = Usage::from(TokenCounts::new(1, 2));
    usage.raw = Some(json(r#"{"input_tokens":1,"output_tokens":2,"service_tier":"standard"}"#));
    answer.usage = Some(usage);
    let thread =
        commit(&*commits, session, vec![entry(entry_id, Message::user("Hello.")), entry("a1", answer.clone())]).await;
    let mut out = Vec::new();
    let in_folder = options().with_working_folder("/work/app");
    let target = ExportTarget::Stream(&mut out);
    let _exported = export(&*commits.threads(), &thread, &in_folder, target).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines = lines(&text);
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["user", "assistant", "assistant"]);
    assert_eq!((lines[0]["uuid"].as_str().unwrap(), &lines[0]["parentUuid"]), (entry_id, &Value::Null));
    assert_eq!(lines[0]["message"], serde_json::json!({"role": "user", "content": "Hello."}));
    for (line, previous) in lines[1..].iter().zip(&lines) {
        assert_eq!((&line["parentUuid"], &line["sessionId"]), (&previous["uuid"], &Value::from(session)));
        assert_eq!((&line["cwd"], &line["isSidechain"]), (&Value::from("/work/app"), &Value::Bool(false)));
        assert_eq!((&line["userType"], &line["message"]["id"]), (&Value::from("external"), &Value::from("msg_1")));
        assert_eq!(line["message"]["usage"]["service_tier"], "standard");
        assert_eq!(line["uuid"].as_str().unwrap().len(), 36);
        assert!(line.get("agentstore").is_none() && line["version"].is_string());
    }
    assert_eq!(lines[1]["message"]["content"][0]["signature"], "sig");
    let (other, copy) = reimport(&text).await;
    let path = head_path(&*other, &copy).await;
    assert_eq!(path.len(), 3);
    assert_eq!((&path[2].message().unwrap().usage, &path[1].message().unwrap().usage), (&answer.usage, &None));
    assert_eq!(path[2].message().unwrap().provenance, answer.provenance);
    assert_eq!(other.threads().load_thread(&copy).await.unwrap().unwrap().usage, TokenCounts::new(1, 2));
}

/// A thread with blocks of every kind.
pub(crate) async fn thread_of_all_blocks(commits: &dyn CommitCoordinator) -> ThreadId {
    let media = |media_type: &str, source: MediaSource| Media::new(Some(media_type.to_owned()), source);
    let base64 = || MediaSource::Base64("aGk=".to_owned());
    let mut call = ToolUse::new("Shell:0", "sh", json("{}"));
    call.raw = Some("{broken".to_owned());
    let opaque = |provider: &str, data: &str| Block::new(BlockKind::Opaque(Opaque::new(origin(provider), json(data))));
    let mut failed =
        ToolResult::new("Shell:0", vec![Block::text("no"), Block::new(BlockKind::Image(media("image/png", base64())))]);
    (failed.is_error, failed.details) = (Some(true), Some(json(r#"{"code":1.0}"#)));
    let user = vec![
        Block::text("see"),
        Block::new(BlockKind::Image(media("image/png", base64()))),
        Block::new(BlockKind::Image(media("image/tiff", base64()))),
        Block::new(BlockKind::Document(media("application/pdf", MediaSource::Url("https://a/b".to_owned())))),
        Block::new(BlockKind::Document(media("text/plain", base64()))),
        Block::new(BlockKind::Audio(media("audio/wav", base64()))),
        Block::new(BlockKind::Video(media("video/mp4", MediaSource::Blob("00".to_owned())))),
        Block::text(" "),
        Block::new(BlockKind::Unknown { kind: "hologram".to_owned(), data: json("[1.50]") }),
    ];
    let mut foreign = Block::text("said");
    foreign.opaque = Some(Opaque::new(origin("openai"), json("\"item\"")));
    let assistant = vec![
        signed_thinking("anthropic"),
        redacted_thinking("anthropic"),
        signed_thinking("google"),
        foreign,
        opaque("anthropic", r#"{"type":"server_tool_use","id":"s"}"#),
        opaque("openai", "{}"),
        Block::new(BlockKind::ToolUse(call)),
    ];
    let result = Message::new(Role::Tool, vec![Block::new(BlockKind::ToolResult(failed)), Block::text("beside")]);
    let entries = vec![
        entry("s", Message::new(Role::System, vec![Block::text("Be brief.")])),
        entry("u", Message::new(Role::User, user)),
        entry("a", Message::new(Role::Assistant, assistant)),
        entry("t", result.with_visibility(Visibility::Internal)),
        entry("n", Message::user("not sent").with_visibility(Visibility::Aside)),
        entry("e", Message::new(Role::Assistant, vec![signed_thinking("google")])),
        entry("z", Message::user("end")),
    ];
    commit(commits, "blocks", entries).await
}

#[tokio::test]
async fn blocks_that_no_line_can_hold_are_listed_as_losses() {
    let commits = new_store();
    let thread = thread_of_all_blocks(&*commits).await;
    let (exported, text) = export_text(&*commits, &thread).await;
    let expected = [
        ("s", "", "system_position"),
        ("u", "/blocks/2", "unsupported_media"),
        ("u", "/blocks/3/media_type", "media_type"),
        ("u", "/blocks/5", "unsupported_media"),
        ("u", "/blocks/6", "unsupported_media"),
        ("u", "/blocks/7", "empty"),
        ("u", "/blocks/8", "unknown_block"),
        ("a", "/blocks/2", "thinking"),
        ("a", "/blocks/3/opaque", "signature"),
        ("a", "/blocks/5", "unknown_block"),
        ("a", "/blocks/6/id", "tool_id"),
        ("a", "/blocks/6/input", "bad_arguments"),
        ("t", "/blocks/0/id", "tool_id"),
        ("e", "/blocks/0", "thinking"),
    ];
    let found = losses(&exported);
    assert_eq!(found.iter().filter(|loss| loss.2 != "time").copied().collect::<Vec<_>>(), expected, "{text}");
    let (other, copy) = reimport(&text).await;
    let before = context_blocks(&*commits, &thread).await;
    let after = context_blocks(&*other, &copy).await;
    // Every block that is not listed is the same after the import.
    let is_changed = |block: &str| {
        ["image/tiff", "https://a/b", "audio", "video", "hologram", "\" \"", "google", "openai", "Shell:0", "Be brief."]
            .iter()
            .any(|part| block.contains(part))
    };
    let unchanged: Vec<_> = before.iter().filter(|(_, block)| !is_changed(block)).collect();
    assert_eq!(unchanged.len(), 8, "{before:#?}");
    assert!(unchanged.iter().all(|block| after.contains(block)), "{before:#?}\n{after:#?}");
    assert!(after.iter().any(|(role, block)| *role == Role::User && block.contains("<system>Be brief.</system>")));
    let path = head_path(&*other, &copy).await;
    let visibilities: Vec<_> = path.iter().filter_map(|entry| Some(entry.message()?.visibility)).collect();
    assert_eq!(visibilities.iter().filter(|found| **found == Visibility::Aside).count(), 2);
    let result = path.iter().find_map(|entry| entry.message().filter(|message| message.role == Role::Tool)).unwrap();
    let BlockKind::ToolResult(result_block) = &result.blocks[0].kind else { panic!("not a result") };
    assert_eq!(result_block.details, Some(json(r#"{"code":1.0}"#)));
    assert_eq!((result_block.is_error, result.visibility), (Some(true), Visibility::Internal));
}

#[tokio::test]
async fn a_compaction_that_keeps_messages_is_written_with_them() {
    let commits = new_store();
    for (name, from, to, covers_whole_path) in
        [("all", "u1", "a2", true), ("start", "u1", "a1", false), ("middle", "a1", "u2", false)]
    {
        let mut compaction = Compaction::default();
        compaction.covers = Some(Interval::new(id(from), id(to)));
        compaction.summary = vec![Block::text("in short")];
        let call = Message::new(Role::Assistant, vec![Block::text("see"), Block::tool_use("c", "read", json("{}"))]);
        let entries = vec![
            entry("u1", Message::user("one")),
            entry("a1", Message::assistant("two")),
            entry("u2", Message::user("three")),
            entry("a2", call),
            entry("z", compaction),
            entry("t", Message::new(Role::Tool, vec![Block::tool_result("c", vec![Block::text("four")])])),
            entry("u3", Message::user("five")),
        ];
        let thread = commit(&*commits, name, entries).await;
        let (exported, text) = export_text(&*commits, &thread).await;
        let is_listed = losses(&exported).contains(&("z", "/covers", "compaction"));
        assert_eq!(is_listed, !covers_whole_path, "{name}");
        let (other, copy) = reimport(&text).await;
        assert_eq!(context_blocks(&*other, &copy).await, context_blocks(&*commits, &thread).await, "{name}: {text}");
        let boundary = lines(&text).into_iter().find(|line| line["subtype"] == "compact_boundary").unwrap();
        assert!(boundary["parentUuid"].is_null() && boundary["logicalParentUuid"].is_string());
    }
}

#[tokio::test]
async fn a_continued_session_keeps_its_lines() {
    for name in ["parallel-calls", "compacted", "resumed", "fork", "torn", "wrong-messages", "sidechain"] {
        let commits = new_store();
        let path = fixtures().join("claude-code").join(format!("{name}.jsonl"));
        let report = import(&*commits, &path, &ImportOptions::default()).await.unwrap().remove(0);
        let thread = report.thread.unwrap();
        append_question(&*commits, &thread).await;
        let (exported, text) = export_text(&*commits, &thread).await;
        assert!(!exported.exact);
        assert_eq!(losses(&exported), [], "{name}");
        let original = std::fs::read_to_string(&path).unwrap();
        if name != "torn" {
            assert!(original.lines().all(|line| text.lines().any(|other| other == line)), "{name}: {text}");
        }
        let folder = tempdir().unwrap();
        let other = new_store();
        let file = write_file(folder.path(), "copy.jsonl", &text);
        let copy = import(&*other, &file, &ImportOptions::default()).await.unwrap().remove(0).thread.unwrap();
        assert_eq!(context_blocks(&*other, &copy).await, context_blocks(&*commits, &thread).await, "{name}: {text}");
        assert_eq!(lines(text.lines().last().unwrap())[0]["message"]["content"], "And now?", "{name}");
    }
}

#[tokio::test]
async fn every_branch_is_written_and_the_head_comes_last() {
    let commits = new_store();
    let path = fixtures().join("claude-code/fork.jsonl");
    let thread = import_one(&*commits, &path).await.thread.unwrap();
    append(&*commits, &thread, NewEntry::new(store_core::RewindTo::Entry(id("d")))).await;
    let (exported, text) = export_text(&*commits, &thread).await;
    assert_eq!(losses(&exported), [("d", "/timestamp", "time")]);
    let (other, copy) = reimport(&text).await;
    let copied_thread = other.threads().load_thread(&copy).await.unwrap().unwrap();
    assert_eq!((copied_thread.head, copied_thread.leaves), (Some(id("d")), 2));
    assert_eq!(context_blocks(&*other, &copy).await, context_blocks(&*commits, &thread).await);
}

async fn export_folder(commits: &dyn CommitCoordinator, thread: &ThreadId, folder: &Path) -> Exported {
    export(&*commits.threads(), thread, &options(), ExportTarget::Folder(folder)).await.unwrap()
}

#[tokio::test]
async fn a_subagent_that_was_continued_gets_a_file_of_its_own() {
    for (file, child) in [
        ("subagents/5e550000-0000-4000-8000-000000000003", "5e550000-0000-4000-8000-000000000003.agent-a1"),
        ("sidechain", "5e550000-0000-4000-8000-000000000002.agent-L3"),
    ] {
        let commits = new_store();
        let path = fixtures().join("claude-code").join(format!("{file}.jsonl"));
        let reports = import(&*commits, &path, &ImportOptions::default()).await.unwrap();
        let (main, child) = (reports[0].thread.clone().unwrap(), ThreadId::new(child).unwrap());
        append_question(&*commits, &child).await;
        let folder = tempdir().unwrap();
        let exported = export_folder(&*commits, &main, folder.path()).await;
        assert!(!exported.exact);
        let other = new_store();
        let copies = import(&*other, folder.path(), &ImportOptions::default()).await.unwrap();
        assert_eq!(copies.len(), reports.len(), "{file}: {:?}", exported.files);
        let thread_of = |report: &sessions::ImportReport| report.thread.clone().unwrap();
        let main_copy = thread_of(&copies[0]);
        assert_eq!(context_blocks(&*other, &main_copy).await, context_blocks(&*commits, &main).await, "{file}");
        let mut found = Vec::new();
        for copy in &copies[1..] {
            found.push(context_blocks(&*other, &thread_of(copy)).await);
        }
        assert!(found.contains(&context_blocks(&*commits, &child).await), "{file}");
    }
}

#[tokio::test]
async fn a_subagent_can_be_written_as_a_session() {
    let commits = new_store();
    let path = fixtures().join("claude-code/sidechain.jsonl");
    let _reports = import(&*commits, &path, &ImportOptions::default()).await.unwrap();
    let child = ThreadId::new("5e550000-0000-4000-8000-000000000002.agent-L3").unwrap();
    let (exported, text) = export_text(&*commits, &child).await;
    assert!(!exported.exact);
    assert!(lines(&text).iter().all(|line| line["isSidechain"] == false), "{text}");
    let (other, copy) = reimport(&text).await;
    assert_eq!(context_blocks(&*other, &copy).await, context_blocks(&*commits, &child).await);
}

#[tokio::test]
async fn every_import_can_be_written_as_claude_code() {
    for name in [
        "pi/v3-tree",
        "pi/v2-branches",
        "pi/v3-compacted-twice",
        "pi/v1-turns",
        "agent-core/branches",
        "agent-core/open-calls",
    ] {
        let commits = new_store();
        let thread = import_one(&*commits, &fixtures().join(name).with_extension("jsonl")).await.thread.unwrap();
        let (exported, text) = export_text(&*commits, &thread).await;
        let (other, copy) = reimport(&text).await;
        let (before, after) = (context_blocks(&*commits, &thread).await, context_blocks(&*other, &copy).await);
        let is_lossless =
            losses(&exported).iter().all(|(_, _, kind)| ["raw", "time", "metadata", "compaction"].contains(kind));
        if is_lossless {
            assert_eq!(after, before, "{name}: {text}");
        }
        let texts =
            |blocks: &[(Role, String)]| blocks.iter().filter(|(_, block)| block.starts_with("{\"text\":")).count();
        assert_eq!(texts(&after), texts(&before), "{name}: {:?}", losses(&exported));
    }
}

#[tokio::test]
async fn the_title_is_exported_and_the_place_is_where_claude_code_looks() {
    let commits = new_store();
    let mut fields = ThreadFields::default();
    fields.title = Some("A title".to_owned());
    fields.metadata.insert("colour".to_owned(), json("1"));
    let commit = Commit::new(ThreadId::new("titled").unwrap()).expecting(Expect::Absent).creating(fields);
    let commit = commit.entry(entry("u", Message::user("x"))).entry(entry("c", Custom::new("note", json("1"))));
    let thread = commits.commit(commit).await.unwrap().thread;
    let (exported, text) = export_text(&*commits, &thread).await;
    assert_eq!(losses(&exported), [("", "/metadata/colour", "metadata"), ("c", "/timestamp", "time")]);
    let (other, copy) = reimport(&text).await;
    assert_eq!(other.threads().load_thread(&copy).await.unwrap().unwrap().title.as_deref(), Some("A title"));
    let mut folders = ToolFolders::new("/home/me", "/work/my app.v2");
    let place = tool_place(&*commits.threads(), &thread, &options(), &folders).await.unwrap();
    assert_eq!(place.folder, Path::new("/home/me/.claude/projects/-work-my-app-v2"));
    let session = place.command.strip_prefix("claude --resume ").unwrap();
    let folder = tempdir().unwrap();
    let exported = export_folder(&*commits, &thread, folder.path()).await;
    assert_eq!(exported.files, [folder.path().join(format!("{session}.jsonl"))]);
    folders.variables.insert("CLAUDE_CONFIG_DIR".to_owned(), "/etc/claude".to_owned());
    let place = tool_place(&*commits.threads(), &thread, &options(), &folders).await.unwrap();
    assert_eq!(place.folder, Path::new("/etc/claude/projects/-work-my-app-v2"));
}
