//! Tests of exports of threads to pi, versions 3 and 4. The threads were not imported from pi.

use std::sync::Arc;

use serde_json::Value;
use sessions::{ExportOptions, ExportTarget, Exported, ToolFolders, export, tool_place};
use store_core::{
    Block, BlockKind, Body, Commit, CommitCoordinator, Compaction, ContextRequest, Custom, Entry, EntryId, Expect,
    Interval, Json, Label, Media, MediaSource, Message, NewBody, NewEntry, Opaque, Origin, ParentRef, Provenance,
    RewindTo, Role, Thinking, ThreadFields, ThreadId, Timestamp, TokenCounts, ToolResult, Usage, UsageRecord,
    Visibility,
};
use tempfile::tempdir;

use crate::helpers::{entries, entry_of, format, import_one, new_store, write_file};

pub(crate) const VERSIONS: [&str; 2] = ["pi-v3", "pi-v4"];

pub(crate) fn id(text: &str) -> EntryId {
    EntryId::new(text).unwrap()
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn entry(name: &str, body: impl Into<NewBody>) -> NewEntry {
    NewEntry::new(body).with_id(id(name)).with_timestamp(Timestamp::from_millis(1_767_607_201_000).unwrap())
}

fn compaction(from: &str, to: &str, summary: &str) -> Compaction {
    let mut compaction = Compaction::default();
    compaction.covers = Some(Interval::new(id(from), id(to)));
    compaction.summary = vec![Block::text(summary)];
    compaction
}

fn media(kind: fn(Media) -> BlockKind, media_type: &str, source: MediaSource) -> Block {
    Block::new(kind(Media::new(Some(media_type.to_owned()), source)))
}

async fn commit(commits: &dyn CommitCoordinator, thread: &str, list: Vec<NewEntry>) -> ThreadId {
    let commit = Commit::new(ThreadId::new(thread).unwrap()).expecting(Expect::Absent).entries(list);
    commits.commit(commit).await.unwrap().thread
}

/// The export of a thread, and the thread that the import of this export makes.
pub(crate) struct Reimport {
    pub(crate) report: Exported,
    pub(crate) text: String,
    pub(crate) commits: Arc<dyn CommitCoordinator>,
    pub(crate) thread: ThreadId,
}

impl Reimport {
    fn lines(&self) -> Vec<Value> {
        self.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub(crate) fn losses(&self) -> Vec<String> {
        self.report.losses.iter().map(|loss| format!("{} {} {}", entry_of(loss), loss.path, loss.kind)).collect()
    }

    async fn entries(&self) -> Vec<Arc<Entry>> {
        entries(&*self.commits, &self.thread).await
    }
}

/// Exports a thread and imports the result. The import may report new roots, NUL characters and open calls, but no
/// other issues.
async fn export_and_import(commits: &dyn CommitCoordinator, thread: &ThreadId, version: &str) -> Reimport {
    let mut out = Vec::new();
    let options = ExportOptions::new(format(version));
    let report = export(&*commits.threads(), thread, &options, ExportTarget::Stream(&mut out)).await.unwrap();
    let text = String::from_utf8(out).unwrap();
    let folder = tempdir().unwrap();
    let other_store = new_store();
    let import_report = import_one(&*other_store, &write_file(folder.path(), "copy.jsonl", &text)).await;
    let codes: Vec<_> = import_report.issue_counts.keys().map(|code| code.name()).collect();
    let is_unexpected = |code: &&&str| !matches!(**code, "new_root" | "nul" | "open_call");
    assert_eq!(codes.iter().filter(is_unexpected).count(), 0, "{:?}\n{text}", import_report.issues);
    assert_eq!(import_report.format, Some(format(version).name()));
    Reimport { report, text, commits: other_store, thread: import_report.thread.unwrap() }
}

/// The messages of a context, as roles with blocks. A message with several results counts as several messages.
pub(crate) async fn context(commits: &dyn CommitCoordinator, thread: &ThreadId) -> Vec<(Role, String)> {
    let context = commits.threads().load_context(thread, ContextRequest::head()).await.unwrap().context;
    let mut messages = Vec::new();
    for mut message in context.messages.into_iter().map(|found| found.message) {
        // A raw text of arguments that is equal to their JSON adds nothing, so it is not compared.
        for block in &mut message.blocks {
            if let BlockKind::ToolUse(call) = &mut block.kind {
                call.raw.take_if(|raw| raw == call.input.as_str());
            }
        }
        let encode = |blocks: &[Block]| serde_json::to_string(blocks).unwrap();
        match message.role {
            Role::Tool => messages.extend(message.blocks.chunks(1).map(|block| (Role::Tool, encode(block)))),
            role => messages.push((role, encode(&message.blocks))),
        }
    }
    messages
}

#[tokio::test]
async fn a_plain_thread_loses_nothing() {
    let origin = Origin::new("anthropic").with_api("anthropic-messages").with_model("m");
    let mut thinking = Thinking::new("hm");
    thinking.signature = Some("sig".to_owned());
    thinking.origin = Some(origin.clone());
    let mut text = Block::text("signed");
    text.opaque = Some(Opaque::new(origin.clone(), json("\"msg_1\"")));
    let blocks = vec![
        Block::new(BlockKind::Thinking(thinking)),
        text,
        Block::tool_use("c1", "read", json(r#"{"p":1.0,"big":12345678901234567890}"#)),
    ];
    let mut provenance = Provenance::default();
    provenance.origin = Some(origin);
    let mut usage = Usage::from(TokenCounts::new(3, 4));
    usage.cost = Some(json(r#"{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0.5}"#));
    let mut answer = Message::new(Role::Assistant, blocks).with_provenance(provenance).with_usage(usage);
    answer.stop = Some("toolUse".to_owned());
    let mut result = ToolResult::new("c1", vec![Block::text("no\u{2028}\0file")]);
    result.is_error = Some(true);
    result.details = Some(json(r#"{"code":2}"#));
    let mut note = Message::user("only for the model").with_visibility(Visibility::Internal);
    note.metadata.insert("source".to_owned(), json("\"hook\""));
    let commits = new_store();
    let list = vec![
        entry(
            "a0000001",
            Message::new(
                Role::User,
                vec![
                    Block::text("look"),
                    media(BlockKind::Image, "image/png", MediaSource::Base64("iVBORw0KGgo=".to_owned())),
                ],
            ),
        ),
        entry("second", answer),
        entry("third", Message::new(Role::Tool, vec![Block::new(BlockKind::ToolResult(result))])),
        entry("note", note),
        entry("hidden", Message::user("not sent").with_visibility(Visibility::Aside)),
    ];
    let thread = commit(&*commits, "plain", list).await;
    for version in VERSIONS {
        let copy = export_and_import(&*commits, &thread, version).await;
        assert_eq!(copy.losses(), [""; 0], "{version}");
        assert_eq!(context(&*commits, &thread).await, context(&*copy.commits, &copy.thread).await);
        let found = copy.entries().await;
        let message = |id: &str| found.iter().find(|entry| entry.id.as_str() == id).unwrap().message().unwrap();
        let (original, copied) = (&entries(&*commits, &thread).await[1], message("second"));
        assert_eq!(original.message().unwrap().provenance, copied.provenance);
        assert_eq!(original.message().unwrap().usage.as_ref().unwrap().tokens, copied.usage.as_ref().unwrap().tokens);
        assert_eq!(
            (message("note").visibility, message("hidden").visibility),
            (Visibility::Internal, Visibility::Aside)
        );
        let head = copy.commits.threads().load_thread(&copy.thread).await.unwrap().unwrap().head;
        assert_eq!(head, Some(id("hidden")));
        assert_eq!(copy.thread.as_str(), "plain");
    }
}

#[tokio::test]
async fn entries_that_pi_has_no_line_for_survive_export_and_import() {
    let mut usage = UsageRecord::default();
    usage.spent = Some(TokenCounts::new(3, 4));
    let commits = new_store();
    let list = vec![
        entry("u1", Message::user("first")),
        entry("k1", NewBody::Checkpoint { number: None, label: Some("start".to_owned()) }),
        entry("a1", Message::assistant("answer")),
        entry("s1", usage),
        entry("l1", Label::new(id("u1"), Some("here".to_owned()))),
        entry("x1", Custom::new("note", json(r#"{"n":1e2}"#))),
        entry("y1", Custom::new("side", json("[1]"))).with_side(true),
        entry("m1", Message::user("beside")).with_side(true),
        entry("n1", NewBody::Unknown { kind: "hologram".to_owned(), data: json("[1.50]") }),
        entry("u2", Message::user("another root")).with_parent(ParentRef::Root),
        entry("r1", RewindTo::Entry(id("a1"))),
        entry("u3", Message::user("a branch")),
        entry("r2", RewindTo::Entry(id("x1"))),
    ];
    let thread = commit(&*commits, "all", list).await;
    for version in VERSIONS {
        let copy = export_and_import(&*commits, &thread, version).await;
        assert_eq!(copy.losses(), [""; 0], "{version}");
        assert_eq!(context(&*commits, &thread).await, context(&*copy.commits, &copy.thread).await, "{version}");
        let found = copy.entries().await;
        for original in entries(&*commits, &thread).await {
            let is_copy = |other: &&Arc<Entry>| match &*original.body {
                Body::Label(_) => other.body == original.body,
                _ => other.id == original.id,
            };
            let copied = found.iter().find(is_copy).unwrap_or_else(|| panic!("{version}: {}", original.id));
            let is_message = original.message().is_some() && !original.side;
            if is_message {
                assert_eq!(copied.message().unwrap().blocks, original.message().unwrap().blocks);
            } else {
                assert_eq!(copied.body, original.body, "{version}: {}", original.id);
            }
            let is_label = matches!(&*original.body, Body::Label(_));
            assert!(is_label || copied.side == original.side, "{version}: {}", original.id);
            assert_eq!(copied.timestamp, original.timestamp);
        }
        let head = copy.commits.threads().load_thread(&copy.thread).await.unwrap().unwrap().head;
        assert_eq!(head, Some(id("x1")), "{version}");
    }
}

/// A thread with content that pi cannot represent.
pub(crate) async fn thread_that_pi_cannot_represent(commits: &dyn CommitCoordinator) -> ThreadId {
    let foreign = Origin::new("google").with_model("g");
    let mut redacted = Thinking::new("");
    redacted.signature = Some("sig".to_owned());
    redacted.origin = Some(foreign.clone());
    redacted.redacted = true;
    let mut signed = Block::text("signed");
    signed.opaque = Some(Opaque::new(foreign.clone(), json("\"sig\"")));
    let blocks = vec![
        Block::new(BlockKind::Thinking(redacted)),
        signed,
        Block::new(BlockKind::Opaque(Opaque::new(foreign, json(r#"{"type":"search"}"#)))),
        Block::tool_use("c1", "read", json("[1]")),
    ];
    let mut provenance = Provenance::default();
    provenance.origin = Some(Origin::new("anthropic").with_model("m"));
    provenance.message_id = Some("msg_1".to_owned());
    let mut answer = Message::new(Role::Assistant, blocks).with_provenance(provenance);
    answer.stop = Some("end_turn".to_owned());
    let results = vec![
        Block::tool_result("c1", vec![media(BlockKind::Audio, "audio/wav", MediaSource::Base64("AA==".to_owned()))]),
        Block::text("beside"),
    ];
    let list = vec![
        entry("s1", Message::new(Role::System, vec![Block::text("be brief")])),
        entry(
            "u1",
            Message::new(
                Role::User,
                vec![
                    media(BlockKind::Document, "application/pdf", MediaSource::Base64("AA==".to_owned())),
                    media(BlockKind::Image, "image/png", MediaSource::Url("https://x.test/a.png".to_owned())),
                    Block::new(BlockKind::Unknown { kind: "hologram".to_owned(), data: json("1") }),
                ],
            ),
        ),
        entry("a1", answer),
        entry("t1", Message::new(Role::Tool, results)),
    ];
    let mut fields = ThreadFields::default();
    fields.metadata.insert("owner".to_owned(), json("\"me\""));
    fields.title = Some("A title".to_owned());
    let new = Commit::new(ThreadId::new("odd").unwrap()).expecting(Expect::Absent).creating(fields).entries(list);
    commits.commit(new).await.unwrap().thread
}

#[tokio::test]
async fn everything_that_pi_cannot_represent_is_listed() {
    let commits = new_store();
    let thread = thread_that_pi_cannot_represent(&*commits).await;
    let expected = [
        "s1  system",
        "u1 /blocks/0 unsupported_media",
        "u1 /blocks/1 unsupported_media",
        "u1 /blocks/2 unknown_block",
        "a1 /provenance/message_id item_id",
        "a1 /blocks/0 redacted",
        "a1 /blocks/1/opaque signature",
        "a1 /blocks/2 unknown_block",
        "a1 /blocks/3/input bad_arguments",
        "a1 /stop stop",
        "t1 /blocks/0/is_error is_error",
        "t1 /blocks/0/blocks/0 unsupported_media",
        "t1 /blocks text",
        "t1 /blocks split",
    ];
    for version in VERSIONS {
        let copy = export_and_import(&*commits, &thread, version).await;
        let mut losses = copy.losses();
        if version == "pi-v3" {
            assert_eq!(losses.remove(0), " /metadata/owner metadata");
        }
        losses.sort();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(losses, expected, "{version}");
        let found = context(&*copy.commits, &copy.thread).await;
        let texts: Vec<_> = found.iter().map(|(role, text)| format!("{role} {text}")).collect();
        assert_eq!(
            texts[1],
            r#"user [{"text":"[document: application/pdf]"},{"text":"[image: image/png, https://x.test/a.png]"}]"#
        );
        assert_eq!(texts.last().unwrap(), r#"user [{"text":"beside"}]"#);
        // Content that a message of pi cannot hold is still somewhere in the file.
        for lost in ["AA==", "hologram", "be brief", "{\\\"type\\\":\\\"search\\\"}"] {
            assert!(copy.text.contains(&lost.replace("\\\"", "\"")), "{version}: {lost}");
        }
        let copied = copy.commits.threads().load_thread(&copy.thread).await.unwrap().unwrap();
        assert_eq!(copied.title.as_deref(), Some("A title"));
    }
}

#[tokio::test]
async fn signatures_have_the_form_that_pi_sends() {
    let block = |kind: BlockKind, origin: &Origin, data: &str| {
        let mut block = Block::new(kind);
        block.opaque = Some(Opaque::new(origin.clone(), json(data)));
        block
    };
    let answer = |origin: Origin, blocks: Vec<Block>| {
        let mut provenance = Provenance::default();
        provenance.origin = Some(origin);
        Message::new(Role::Assistant, blocks).with_provenance(provenance)
    };
    let gemini = Origin::new("google").with_api("google-generative-ai").with_model("g");
    let call = BlockKind::ToolUse(store_core::ToolUse::new("c1", "ls", json("{}")));
    let signed_call = block(call, &gemini, r#"{"part":{"set":{"/thoughtSignature":"CiQB"}}}"#);
    let openai = Origin::new("openai").with_api("openai-responses").with_model("o");
    let mut thinking = Thinking::new("why");
    thinking.signature = Some("gAAA".to_owned());
    thinking.origin = Some(openai.clone());
    let signed_thinking = block(BlockKind::Thinking(thinking), &openai, r#"{"part":{"set":{"/id":"rs_1"}}}"#);
    let commits = new_store();
    let list = vec![entry("g1", answer(gemini, vec![signed_call])), entry("o1", answer(openai, vec![signed_thinking]))];
    let thread = commit(&*commits, "signed", list).await;
    let copy = export_and_import(&*commits, &thread, "pi-v3").await;
    let expected =
        ["g1 /blocks/0/opaque signature", "o1 /blocks/0/opaque signature", "o1 /blocks/0/signature signature"];
    assert_eq!(copy.losses(), expected);
    let lines = copy.lines();
    assert_eq!(lines[1]["message"]["content"][0]["thoughtSignature"], "CiQB");
    let item = lines[2]["message"]["content"][0]["thinkingSignature"].as_str().unwrap();
    let expected_item = r#"{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"why"}],"encrypted_content":"gAAA"}"#;
    assert_eq!(item, expected_item);
}

#[tokio::test]
async fn compactions_keep_the_context() {
    let commits = new_store();
    let mut replacing_compaction = compaction("u2", "u2", "");
    replacing_compaction.summary.clear();
    replacing_compaction.replacement = Some(vec![Message::user("two, shorter")]);
    let list = vec![
        entry("u1", Message::user("one")),
        entry("u2", Message::user("two")),
        entry("e1", replacing_compaction),
        entry("u3", Message::user("three")),
        entry("z1", compaction("u1", "u2", "S")),
        entry("u4", Message::user("four")),
        entry("z2", compaction("u3", "u4", "inner")),
        entry("u5", Message::user("five")),
        entry("z3", compaction("u1", "u5", "all")),
        entry("u6", Message::user("six")),
    ];
    let thread = commit(&*commits, "compacted", list).await;
    for version in VERSIONS {
        let copy = export_and_import(&*commits, &thread, version).await;
        assert_eq!(copy.losses(), [""; 0], "{version}");
        let context_at = |commits: Arc<dyn CommitCoordinator>, thread: ThreadId, name: &'static str| async move {
            let request = ContextRequest::at(id(name));
            let context = commits.threads().load_context(&thread, request).await.unwrap().context;
            let blocks = context.messages.iter().map(|found| serde_json::to_string(&found.message.blocks).unwrap());
            blocks.collect::<Vec<_>>()
        };
        for name in ["u2", "e1", "u3", "z1", "u4", "z2", "u5", "z3", "u6"] {
            let before = context_at(Arc::clone(&commits), thread.clone(), name).await;
            let after = context_at(Arc::clone(&copy.commits), copy.thread.clone(), name).await;
            assert_eq!(before, after, "{version}: {name}\n{}", copy.text);
        }
        let lines = copy.lines();
        let first_kept = |name: &str| {
            let line = lines.iter().find(|line| line["id"] == name).unwrap();
            (line["firstKeptEntryId"].as_str().map(str::to_owned), line["retainedTail"].is_array())
        };
        if version == "pi-v3" {
            assert_eq!(first_kept("z3"), (Some("z3".to_owned()), false));
            assert_eq!(first_kept("z2"), (Some("z2".to_owned()), true));
        }
    }
}

#[tokio::test]
async fn each_result_of_a_message_becomes_a_line() {
    let commits = new_store();
    let calls = vec![Block::tool_use("c1", "read", json("{}")), Block::tool_use("c2", "write", json("{}"))];
    let results = |text: &str| {
        let mut blocks = Vec::new();
        for call in ["c1", "c2"] {
            let mut result = ToolResult::new(call, vec![Block::text(text)]);
            result.is_error = Some(false);
            blocks.push(Block::new(BlockKind::ToolResult(result)));
        }
        Message::new(Role::Tool, blocks)
    };
    let list = vec![
        entry("a1", Message::new(Role::Assistant, calls)),
        entry("t1", results("done")),
        entry("u1", Message::user("go on")),
        entry("r1", RewindTo::Entry(id("t1"))),
    ];
    let thread = commit(&*commits, "results", list).await;
    for version in VERSIONS {
        let copy = export_and_import(&*commits, &thread, version).await;
        assert_eq!(copy.losses(), ["t1 /blocks split"], "{version}");
        assert_eq!(context(&*commits, &thread).await, context(&*copy.commits, &copy.thread).await);
        let names: Vec<_> =
            copy.lines().iter().filter_map(|line| line["message"]["toolName"].as_str().map(str::to_owned)).collect();
        assert_eq!(names, ["read", "write"]);
        let second = &copy.lines()[3];
        let new_id = second["id"].as_str().unwrap();
        assert!(new_id.len() == 8 && new_id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{new_id}");
    }
}

#[tokio::test]
async fn the_file_has_the_name_and_the_place_that_pi_expects() {
    let commits = new_store();
    let thread = commit(&*commits, "my/thread", vec![entry("u1", Message::user("hi"))]).await;
    let record = commits.threads().load_thread(&thread).await.unwrap().unwrap();
    let folder = tempdir().unwrap();
    let options = ExportOptions::new(format("pi")).with_working_folder("/home/user/app");
    let target = ExportTarget::Folder(folder.path());
    let report = export(&*commits.threads(), &thread, &options, target).await.unwrap();
    let name = report.files[0].file_name().unwrap().to_str().unwrap().to_owned();
    assert!(name.ends_with("Z_my-thread.jsonl") && !name.contains(':'), "{name}");
    let text = std::fs::read_to_string(&report.files[0]).unwrap();
    let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((header["cwd"].as_str(), header["version"].as_u64()), (Some("/home/user/app"), Some(3)));
    assert_eq!(header["id"], record.id.as_str());
    let folders = ToolFolders::new("/home/user", "/home/user/app");
    let place = tool_place(&*commits.threads(), &thread, &options, &folders).await.unwrap();
    let sessions = "/home/user/.pi/agent/sessions/--home-user-app--";
    assert_eq!(place.folder.to_str().unwrap(), sessions);
    assert_eq!(place.command, format!("pi --session {sessions}/{name}"));
    let mut folders_with_variable = folders;
    folders_with_variable.variables.insert("PI_CODING_AGENT_DIR".to_owned(), "/elsewhere".to_owned());
    let place = tool_place(&*commits.threads(), &thread, &options, &folders_with_variable).await.unwrap();
    assert_eq!(place.folder.to_str().unwrap(), "/elsewhere/sessions/--home-user-app--");
}
