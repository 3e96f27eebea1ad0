//! Tests of threads that are exported as new sessions of kimi-cli: what their files contain, and what is lost.

use std::sync::Arc;

use serde_json::{Value, json};
use store_core::{
    Block, BlockKind, Body, Compaction, Custom, Entry, Expect, Interval, Json, Label, Media, MediaSource, Message,
    NewBody, NewEntry, Opaque, Origin, ParentRef, RewindTo, Role, Thinking, ThreadPatch, Timestamp, TokenCounts,
    ToolResult, UsageRecord, Visibility,
};
use tempfile::TempDir;

use crate::{
    helpers::{entries, fixtures, import_one, new_store},
    kimi_exports::{
        append, check_exact, check_same_context, comparable_context, create, entry, export_session, id, import_copy,
        import_copy_without_issues, kinds, lines,
    },
};

/// The roles of the lines of a context, with the numbers of checkpoints.
fn roles(folder: &TempDir, name: &str) -> String {
    let role = |line: String| {
        let line: Value = serde_json::from_str(&line).unwrap();
        match line["role"].as_str().unwrap() {
            "_system_prompt" => "prompt".to_owned(),
            "_checkpoint" => line["id"].to_string(),
            "_usage" => format!("usage:{}", line["token_count"]),
            role => role.to_owned(),
        }
    };
    lines(folder, name).into_iter().map(role).collect::<Vec<_>>().join(" ")
}

fn entry_at(seconds: u64, name: &str, body: impl Into<NewBody>) -> NewEntry {
    let mut entry = entry(name, body);
    entry.timestamp = Some(Timestamp::from_millis(1_767_690_000_125 + seconds * 1_000).unwrap());
    entry
}

fn system(text: &str) -> Message {
    Message::new(Role::System, vec![Block::text(text)])
}

fn call(id: &str) -> Message {
    Message::new(
        Role::Assistant,
        vec![Block::text("look"), Block::tool_use(id, "read", Json::parse("{\"p\":1.0}").unwrap())],
    )
}

fn result(id: &str, text: &str) -> Message {
    let mut result = ToolResult::new(id, vec![Block::text(text)]);
    result.is_error = Some(false);
    Message::new(Role::Tool, vec![Block::new(BlockKind::ToolResult(result))])
}

fn failed_result(id: &str, text: &str) -> Message {
    let mut result = ToolResult::new(id, vec![Block::text(text)]);
    result.is_error = Some(true);
    Message::new(Role::Tool, vec![Block::new(BlockKind::ToolResult(result))])
}

fn compaction(from: &str, to: &str, summary: &str) -> Compaction {
    let mut compaction = Compaction::default();
    compaction.covers = Some(Interval::new(id(from), id(to)));
    compaction.summary = vec![Block::text(summary)];
    compaction
}

#[tokio::test]
async fn a_conversation_is_written_as_kimi_cli_writes_it() {
    let commits = new_store();
    let thread = create(
        &*commits,
        "talk",
        vec![
            entry_at(0, "s1", system("be brief")),
            entry_at(1, "u1", Message::user("first")),
            entry_at(2, "a1", call("c1")),
            entry_at(3, "t1", result("c1", "one")),
            entry_at(4, "a2", Message::assistant("answer").with_usage(TokenCounts::new(30, 4).into())),
            entry_at(5, "u2", Message::user("second")),
            entry_at(6, "a3", call("c1")),
            entry_at(7, "t2", failed_result("c1", "no such file")),
            entry_at(8, "a4", Message::assistant("it failed")),
        ],
    )
    .await;
    let mut patch = ThreadPatch::default();
    patch.title = Some(Some("Talk".to_owned()));
    let _thread = commits.threads().update_thread(&thread, patch, Expect::Any).await.unwrap();
    let (folder, exported) = export_session(&*commits, &thread).await;
    assert_eq!(kinds(&exported.losses), [("a2", "usage"), ("t2", "is_error")]);
    let context = roles(&folder, "context.jsonl");
    assert_eq!(context, "prompt 0 user assistant tool assistant usage:34 1 user assistant tool assistant");
    assert_eq!(
        lines(&folder, "context.jsonl")[10],
        r#"{"role":"tool","content":"<system>ERROR: no such file</system>","tool_call_id":"c1"}"#
    );
    assert_eq!(
        lines(&folder, "context.jsonl")[3],
        r#"{"role":"assistant","content":"look","tool_calls":[{"type":"function","id":"c1","function":{"name":"read","arguments":"{\"p\":1.0}"}}]}"#
    );
    let wire = lines(&folder, "wire.jsonl");
    assert_eq!(wire[0], r#"{"type": "metadata", "protocol_version": "1.10"}"#);
    let types = wire[1..].iter().map(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        record["message"]["type"].as_str().unwrap().to_owned()
    });
    let turn = "TurnBegin StepBegin ContentPart ToolCall ToolResult StepBegin ContentPart TurnEnd";
    assert_eq!(types.collect::<Vec<_>>().join(" "), format!("{turn} {turn}"));
    let failed = r#""is_error": true, "output": [], "message": "no such file", "display": [], "extras": null"#;
    assert!(wire.iter().any(|record| record.contains(failed)), "{wire:?}");
    let (other_store, copy) = import_copy_without_issues(folder.path()).await;
    let title = other_store.threads().load_thread(&copy).await.unwrap().unwrap().title;
    assert_eq!(title.as_deref(), Some("Talk"));
    let mut expected = comparable_context(&*commits, &thread).await;
    expected[7][1][0]["tool_result"]["blocks"] = json!([{"text": "<system>ERROR: no such file</system>"}]);
    assert_eq!(comparable_context(&*other_store, &copy).await, expected);
    // After the import, every message that the wire file records has the same time as before the export.
    let (before, after) = (entries(&*commits, &thread).await, entries(&*other_store, &copy).await);
    let times = |all: &[Arc<Entry>]| -> Vec<u64> {
        let messages = all.iter().filter(|entry| entry.message().is_some_and(|message| message.role != Role::System));
        messages.map(|entry| entry.timestamp.as_millis()).collect()
    };
    assert_eq!(times(&after), times(&before));
}

/// An assistant message with every kind of block that it can have.
fn assistant_of_everything(provider: &Origin) -> Message {
    let opaque = || Opaque::new(provider.clone(), Json::parse("1").unwrap());
    let mut thinking = Thinking::new("hm");
    thinking.signature = Some("s".to_owned());
    thinking.origin = Some(provider.clone());
    let mut redacted = Thinking::default();
    redacted.redacted = true;
    let mut signed = Block::text("signed");
    signed.opaque = Some(opaque());
    let blocks = vec![
        Block::new(BlockKind::Thinking(thinking)),
        Block::new(BlockKind::Thinking(redacted)),
        signed,
        Block::tool_use("c1", "read", Json::parse("[]").unwrap()),
        Block::tool_use("c2", "read", Json::parse("{}").unwrap()),
        Block::text("after the calls"),
        Block::new(BlockKind::Opaque(opaque())),
        Block::new(BlockKind::Unknown { kind: "hologram".to_owned(), data: Json::null() }),
    ];
    let mut message = Message::new(Role::Assistant, blocks);
    message.stop = Some("end".to_owned());
    message.metadata.insert("k".to_owned(), Json::null());
    let mut provenance = store_core::Provenance::default();
    provenance.origin = Some(provider.clone());
    provenance.message_id = Some("m1".to_owned());
    message.with_provenance(provenance)
}

/// A user message with media of every kind and from every source.
fn user_of_everything() -> Message {
    let media = |source| Media::new(None, source);
    let base64 = || MediaSource::Base64("AAAA".to_owned());
    let blocks = vec![
        Block::new(BlockKind::Image(Media::new(Some("image/png".to_owned()), base64()))),
        Block::new(BlockKind::Image(media(base64()))),
        Block::new(BlockKind::Audio(media(MediaSource::Url("https://example.com/a.mp3".to_owned())))),
        Block::new(BlockKind::Video(media(MediaSource::Blob("00".to_owned())))),
    ];
    Message::new(Role::User, blocks)
}

/// A message with two results and a text. One of the results has details.
fn results_of_everything() -> Message {
    let document = Media::new(None, MediaSource::Url("u".to_owned()));
    let mut with_details = ToolResult::new("c1", vec![Block::new(BlockKind::Document(document))]);
    with_details.details = Some(Json::parse("{\"n\":1}").unwrap());
    let blocks = vec![
        Block::new(BlockKind::ToolResult(with_details)),
        Block::tool_result("c2", vec![Block::text("two")]),
        Block::text("between"),
    ];
    Message::new(Role::Tool, blocks)
}

/// The entries of a thread with every kind of body.
fn entries_of_everything() -> Vec<NewEntry> {
    let mut usage = UsageRecord::default();
    usage.spent = Some(TokenCounts::new(3, 4));
    usage.context_size = Some(50);
    vec![
        entry("u1", user_of_everything()),
        entry("k1", NewBody::Checkpoint { number: None, label: Some("start".to_owned()) }),
        entry("a1", assistant_of_everything(&Origin::new("p"))),
        entry("t1", results_of_everything()),
        entry("n1", usage),
        entry("i1", Message::user("internal").with_visibility(Visibility::Internal)),
        entry("x1", Message::user("aside").with_visibility(Visibility::Aside)),
        entry("a2", call("c9")),
        entry("o1", result("c8", "orphan")),
        entry("u2", Message::user("go on")),
        entry("l1", Label::new(id("u2"), Some("here".to_owned()))),
        entry("c1", Custom::new("note", Json::null())),
        entry("y1", NewBody::Unknown { kind: "hologram".to_owned(), data: Json::null() }),
        entry("m1", Message::user("beside")).with_side(true),
        entry("a3", Message::assistant("end")),
    ]
}

/// The losses of a thread with `entries_of_everything`, sorted by entry.
const LOSSES_OF_EVERYTHING: &[(&str, &str)] = &[
    ("a1", "item_id"),
    ("a1", "metadata"),
    ("a1", "opaque"),
    ("a1", "order"),
    ("a1", "provenance"),
    ("a1", "redacted"),
    ("a1", "signature"),
    ("a1", "signature"),
    ("a1", "stop"),
    ("a1", "unknown_block"),
    ("a2", "open_call"),
    ("c1", "custom"),
    ("i1", "visibility"),
    ("k1", "label"),
    ("l1", "label"),
    ("m1", "side_entry"),
    ("n1", "usage"),
    ("o1", "orphan_result"),
    ("t1", "details"),
    ("t1", "is_error"),
    ("t1", "is_error"),
    ("t1", "split"),
    ("t1", "text"),
    ("t1", "unsupported_media"),
    ("u1", "media_type"),
    ("u1", "unsupported_media"),
    ("x1", "visibility"),
    ("y1", "unknown_body"),
];

#[tokio::test]
async fn everything_that_the_format_cannot_hold_is_a_listed_loss() {
    let commits = new_store();
    let thread = create(&*commits, "all", entries_of_everything()).await;
    let (folder, exported) = export_session(&*commits, &thread).await;
    let mut found = kinds(&exported.losses);
    found.sort_unstable();
    assert_eq!(found, LOSSES_OF_EVERYTHING);
    let (other_store, copy) = import_copy_without_issues(folder.path()).await;
    let audio = json!({"audio": {"url": "https://example.com/a.mp3"}});
    let image = |media_type: &str| json!({"image": {"media_type": media_type, "base64": "AAAA"}});
    let read = |id: &str, input: Value| json!({"tool_use": {"id": id, "name": "read", "input": input}});
    let answer = |id: &str, blocks: Value, is_error: bool| json!(["tool", [{"tool_result": {"tool_use_id": id, "blocks": blocks, "is_error": is_error}}]]);
    let texts = [json!({"text": "signed"}), json!({"text": "after the calls"})];
    let expected = json!([
        ["user", [image("image/png"), image("application/octet-stream"), audio]],
        ["assistant", [{"thinking": {"text": "hm"}}, texts[0], texts[1], read("c1", json!([])), read("c2", json!({}))]],
        answer("c1", json!([]), false),
        answer("c2", json!([{"text": "two"}]), false),
        ["user", [{"text": "internal"}]],
        ["assistant", [{"text": "look"}, read("c9", json!({"p": 1.0}))]],
        answer("c9", json!([{"text": "<system>ERROR: no result was recorded</system>"}]), true),
        ["user", [{"text": "go on"}]],
        ["assistant", [{"text": "end"}]]
    ]);
    assert_eq!(comparable_context(&*other_store, &copy).await, expected);
    let request = store_core::ContextRequest::head();
    assert_eq!(other_store.threads().load_context(&copy, request).await.unwrap().context_size, Some(50));
    let wire = std::fs::read_to_string(folder.path().join("wire.jsonl")).unwrap();
    assert!(wire.contains(r#""extras": {"details": {"n": 1}}"#), "{wire}");
}

#[tokio::test]
async fn other_leaves_become_earlier_context_files_and_the_head_the_current_one() {
    let commits = new_store();
    let thread = create(
        &*commits,
        "tree",
        vec![
            entry("s1", system("be brief")),
            entry("u1", Message::user("first")),
            entry("a1", Message::assistant("one")),
            entry("u2", Message::user("left")),
            entry("a2", Message::assistant("left answer")),
            entry("u3", Message::user("right")).with_parent(ParentRef::Entry(id("a1"))),
            entry("a3", Message::assistant("right answer")),
            entry("u4", Message::user("another root")).with_parent(ParentRef::Root),
            entry("r1", RewindTo::Entry(id("a2"))),
        ],
    )
    .await;
    let (folder, exported) = check_same_context(&*commits, &thread).await;
    assert_eq!(exported.losses, []);
    assert_eq!(roles(&folder, "context_1.jsonl"), "prompt 0 user assistant 1 user assistant");
    assert_eq!(roles(&folder, "context_2.jsonl"), "0 user");
    assert!(lines(&folder, "context_1.jsonl")[6].contains("right answer"));
    assert!(lines(&folder, "context.jsonl")[6].contains("left answer"));
    let (other_store, copy) = import_copy_without_issues(folder.path()).await;
    let leaves = other_store.threads().list_leaves(&copy, store_core::PageRequest::first(10)).await.unwrap();
    assert_eq!(leaves.items.len(), 3);
    let messages: Vec<_> =
        entries(&*other_store, &copy).await.iter().filter_map(|entry| entry.message().cloned()).collect();
    assert!(messages.contains(&Message::assistant("right answer")));
}

#[tokio::test]
async fn a_rewound_thread_continues_at_its_head() {
    let commits = new_store();
    let thread = create(
        &*commits,
        "rewound",
        vec![
            entry("u1", Message::user("first")),
            entry("a1", Message::assistant("one")),
            entry("u2", Message::user("second")),
            entry("a2", Message::assistant("two")),
            entry("r1", RewindTo::Entry(id("a1"))),
        ],
    )
    .await;
    let (folder, exported) = check_same_context(&*commits, &thread).await;
    assert_eq!(exported.losses, []);
    assert_eq!(roles(&folder, "context.jsonl"), "0 user assistant");
    assert_eq!(roles(&folder, "context_1.jsonl"), "0 user assistant 1 user assistant");
    append(&*commits, &thread, vec![entry("r2", RewindTo::Start)]).await;
    let (folder, _) = check_same_context(&*commits, &thread).await;
    assert_eq!(lines(&folder, "context.jsonl").len(), 0);
}

#[tokio::test]
async fn a_compaction_starts_a_new_context_with_the_kept_messages() {
    let commits = new_store();
    let first_entries = || {
        vec![
            entry("s1", system("be brief")),
            entry("u1", Message::user("first")),
            entry("a1", Message::assistant("one")),
            entry("u2", Message::user("second")),
            entry("a2", call("c1")),
            entry("t2", result("c1", "ok")),
        ]
    };
    let mut new = first_entries();
    new.extend([
        entry("z1", compaction("u1", "a1", "in short")),
        entry("u3", Message::user("third")),
        entry("a3", Message::assistant("three")),
        entry("z2", compaction("u1", "u2", "shorter")),
        entry("u4", Message::user("fourth")),
    ]);
    let thread = create(&*commits, "compacted", new).await;
    let (folder, exported) = check_same_context(&*commits, &thread).await;
    assert_eq!(exported.losses, []);
    assert_eq!(roles(&folder, "context_1.jsonl"), "prompt 0 user assistant 1 user assistant tool");
    assert_eq!(roles(&folder, "context_2.jsonl"), "prompt 0 user user assistant tool 1 user assistant");
    assert_eq!(roles(&folder, "context.jsonl"), "prompt 0 user assistant tool user assistant 1 user");
    let summary = r#"{"role":"user","content":[{"type":"text","text":"<system>Previous context has been compacted. Here is the compaction output:</system>"},{"type":"text","text":"in short"}]}"#;
    assert_eq!(lines(&folder, "context_2.jsonl")[2], summary);
    let (other_store, copy) = import_copy_without_issues(folder.path()).await;
    let all = entries(&*other_store, &copy).await;
    let summaries: Vec<_> = all.iter().filter(|entry| matches!(&*entry.body, Body::Compaction(_))).collect();
    let [first_summary, _] = summaries.as_slice() else { panic!("{summaries:?}") };
    // After the import, the first summary covers the same messages as before the export. So the import does not add the
    // kept messages again.
    let Body::Compaction(found) = &*first_summary.body else { panic!() };
    assert_eq!(found.covers.as_ref().map(|covers| covers.to.as_str()), Some("L5"));
    assert_eq!(all.iter().filter(|entry| entry.message() == Some(&Message::user("second"))).count(), 1);
}

#[tokio::test]
async fn a_branch_after_a_compaction_becomes_an_earlier_context_file_with_its_summary() {
    let commits = new_store();
    let thread = create(
        &*commits,
        "both",
        vec![
            entry("u1", Message::user("first")),
            entry("a1", Message::assistant("one")),
            entry("z1", compaction("u1", "a1", "in short")),
            entry("u2", Message::user("left")),
            entry("u3", Message::user("right")).with_parent(ParentRef::Entry(id("z1"))),
            entry("u4", Message::user("before")).with_parent(ParentRef::Entry(id("a1"))),
            entry("r1", RewindTo::Entry(id("u3"))),
        ],
    )
    .await;
    let (folder, exported) = check_same_context(&*commits, &thread).await;
    assert_eq!(exported.losses, []);
    let names = ["context_1.jsonl", "context_2.jsonl", "context_3.jsonl", "context_4.jsonl", "context.jsonl"];
    let found = names.map(|name| roles(&folder, name));
    assert_eq!(
        found,
        ["0 user assistant", "0 user 1 user", "0 user assistant 1 user", "0 user assistant", "0 user 1 user"]
    );
}

#[tokio::test]
async fn a_summary_that_is_not_at_the_beginning_is_an_ordinary_message() {
    let commits = new_store();
    let mut replacing_compaction = compaction("u3", "u3", "");
    replacing_compaction.summary.clear();
    replacing_compaction.replacement = Some(vec![Message::user("instead")]);
    let thread = create(
        &*commits,
        "middle",
        vec![
            entry("u1", Message::user("first")),
            entry("a1", Message::assistant("one")),
            entry("u2", Message::user("second")),
            entry("a2", Message::assistant("two")),
            entry("z1", compaction("u2", "a2", "in short")),
            entry("u3", Message::user("third")),
            entry("z2", replacing_compaction),
            entry("a3", Message::assistant("three")),
        ],
    )
    .await;
    let (folder, exported) = export_session(&*commits, &thread).await;
    assert_eq!(kinds(&exported.losses), [("z1", "compaction"), ("z2", "compaction")]);
    let (other_store, copy) = import_copy_without_issues(folder.path()).await;
    let found = comparable_context(&*other_store, &copy).await.to_string();
    let marker = "<system>Previous context has been compacted. Here is the compaction output:</system>";
    let found = found.replace(marker, "[summary of the earlier conversation]");
    assert_eq!(found, comparable_context(&*commits, &thread).await.to_string());
}

#[tokio::test]
async fn threads_of_other_formats_keep_their_context() {
    for name in ["pi/v3-tree", "pi/v2-branches", "pi/v3-compacted-twice", "pi/v1-turns", "bad/pi-dangling-and-cycle"] {
        let commits = new_store();
        let thread = import_one(&*commits, &fixtures().join(name).with_extension("jsonl")).await.thread.unwrap();
        let (folder, exported) = export_session(&*commits, &thread).await;
        let (other_store, report) = import_copy(folder.path()).await;
        let copy = report.thread.unwrap();
        check_exact(&*other_store, &copy, folder.path()).await;
        let roles = |context: &Value| -> Vec<String> {
            context.as_array().unwrap().iter().map(|message| message[0].to_string()).collect()
        };
        let (before, after) =
            (comparable_context(&*commits, &thread).await, comparable_context(&*other_store, &copy).await);
        assert_eq!(roles(&before), roles(&after), "{name}: {:?}", exported.losses);
    }
}
