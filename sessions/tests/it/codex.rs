//! Tests of the import of rollouts of Codex.

use std::path::Path;

use providers::{CompileOptions, Target, compile};
use serde_json::{Value, json};
use sessions::ImportReport;
use store_core::{
    Block, BlockKind, Body, CommitCoordinator, Context, ContextRequest, Entry, Message, Role, ThreadId, TokenCounts,
    Visibility,
};
use tempfile::tempdir;

use crate::helpers::{
    custom_kind, entries, export_bytes, fixtures, format, has_no_message, head_path, import_one, new_store,
    text_count_and_hash, write_file,
};

/// The number of calls that an expectation counts as calls without a result, although they need none because the
/// provider runs their tools.
pub(crate) fn calls_that_need_no_result(expect: &Value) -> u64 {
    u64::from(expect["entries_by_type"]["response_item/web_search_call"].is_u64())
}

/// Compares the thread of a rollout with its expectation. The texts are compared in the order of the file, and include
/// those that a rollback removed from the path of the head.
pub(crate) async fn check_thread(path: &Path, expect: &Value, commits: &dyn CommitCoordinator, report: &ImportReport) {
    let name = path.display();
    let id = report.thread.as_ref().unwrap();
    let thread = commits.threads().load_thread(id).await.unwrap().unwrap();
    let found = entries(commits, id).await;
    let conversation: Vec<_> = found.iter().filter(|entry| !entry.side).cloned().collect();
    assert_eq!(u64::from(thread.leaves), report.leaves, "{name}");
    assert_eq!(report.leaves == 0, conversation.is_empty(), "{name}");
    let (pieces, hash) = text_count_and_hash(&conversation);
    assert_eq!(pieces as u64, expect["main_path_text_pieces"].as_u64().unwrap(), "{name}");
    assert_eq!(hash, expect["main_path_text_sha256"].as_str().unwrap(), "{name}");
    let items: u64 = expect["entries_by_type"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(kind, _)| kind.starts_with("response_item/"))
        .map(|(_, count)| count.as_u64().unwrap())
        .sum();
    assert_eq!(report.messages, items, "{name}");
    let count = |is_counted: fn(&BlockKind) -> bool| {
        let messages = conversation.iter().filter_map(|entry| entry.message());
        messages.flat_map(|message| &message.blocks).filter(|block| is_counted(&block.kind)).count() as u64
    };
    let run_by_provider: u64 = ["response_item/web_search_call", "response_item/image_generation_call"]
        .iter()
        .map(|kind| expect["entries_by_type"][kind].as_u64().unwrap_or_default())
        .sum();
    let calls = count(|kind| matches!(kind, BlockKind::ToolUse(_)));
    assert_eq!(calls, expect["tool_calls"].as_u64().unwrap() - run_by_provider, "{name}");
    let results = count(|kind| matches!(kind, BlockKind::ToolResult(_)));
    assert_eq!(results, expect["tool_results"].as_u64().unwrap(), "{name}");
    let count_messages = |role: Role| {
        let is_text = |block: &Block| matches!(block.kind, BlockKind::Text(_));
        let messages = conversation.iter().filter_map(|entry| entry.message());
        messages.filter(|message| message.role == role && message.blocks.iter().any(is_text)).count() as u64
    };
    let expected = |names: &[&str]| -> u64 {
        names.iter().map(|name| expect["messages_by_role"][name].as_u64().unwrap_or_default()).sum()
    };
    assert_eq!(count_messages(Role::User), expected(&["user"]), "{name}");
    assert_eq!(count_messages(Role::Assistant), expected(&["assistant"]), "{name}");
    assert_eq!(count_messages(Role::System), expected(&["developer", "system"]), "{name}");
    let blank = expect["blank_lines"].as_array().unwrap().len() as u64;
    let line_entries = found.iter().filter(|entry| entry.origin.as_ref().unwrap().line > 0).count() as u64;
    assert_eq!(line_entries, report.lines - blank, "{name}");
}

/// A short text for each block of a context, with the role of its message.
pub(crate) fn short_texts(context: &Context) -> Vec<String> {
    let blocks = context.messages.iter().flat_map(|found| {
        let role = found.message.role;
        found.message.blocks.iter().map(move |block| format!("{role}: {}", short_block(block)))
    });
    blocks.collect()
}

fn short_block(block: &Block) -> String {
    match &block.kind {
        BlockKind::Text(text) => text.clone(),
        BlockKind::Thinking(thinking) => format!("thinking {} {:?}", thinking.text, thinking.signature),
        BlockKind::ToolUse(call) => format!("call {} {} {}", call.id, call.name, call.input),
        BlockKind::ToolResult(result) => {
            let blocks: Vec<_> = result.blocks.iter().map(short_block).collect();
            format!("result {} {}", result.tool_use_id, blocks.join(" + "))
        }
        BlockKind::Image(media) => format!("image {:?} {:?}", media.media_type, media.source),
        BlockKind::Opaque(opaque) => format!("opaque {}", opaque.data),
        other => format!("{other:?}"),
    }
}

pub(crate) async fn context_of(commits: &dyn CommitCoordinator, thread: &ThreadId) -> Context {
    commits.threads().load_context(thread, ContextRequest::head()).await.unwrap().context
}

async fn import_fixture(name: &str) -> (std::sync::Arc<dyn CommitCoordinator>, ImportReport) {
    let commits = new_store();
    let report = import_one(&*commits, &fixtures().join("codex").join(name)).await;
    (commits, report)
}

fn message_of(entries: &[std::sync::Arc<Entry>], line: u64) -> &Message {
    let entry = entries.iter().find(|entry| entry.origin.as_ref().unwrap().line == line).unwrap();
    entry.message().unwrap()
}

#[tokio::test]
async fn a_rollout_becomes_messages_of_its_model() {
    let (commits, report) = import_fixture("turns.jsonl").await;
    assert_eq!((report.issues.len(), report.version.as_deref()), (0, Some("0.98.0")), "{:?}", report.issues);
    let id = report.thread.unwrap();
    assert_eq!(id.as_str(), "019b9b10-0000-7000-8000-000000000001");
    let thread = commits.threads().load_thread(&id).await.unwrap().unwrap();
    assert_eq!(thread.title.as_deref(), Some("Files of the app"));
    let metadata: Vec<_> = thread.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let expected = [
        ("cwd", "\"/work/app\""),
        ("session_id", "\"019b9b10-0000-7000-8000-000000000001\""),
        ("version", "\"0.98.0\""),
    ];
    assert_eq!(metadata, expected);
    let found = entries(&*commits, &id).await;
    assert_eq!(message_of(&found, 2).role, Role::System);
    assert_eq!(message_of(&found, 3).visibility, Visibility::Internal);
    assert_eq!(message_of(&found, 5).visibility, Visibility::All);
    assert_eq!(message_of(&found, 21).visibility, Visibility::Aside);
    let BlockKind::Thinking(thinking) = &message_of(&found, 7).blocks[0].kind else { panic!() };
    let origin = thinking.origin.as_ref().unwrap();
    assert_eq!((thinking.text.as_str(), thinking.signature.as_deref()), ("Listing them.", Some("Z0FBQUE=")));
    let origin = (origin.provider.as_str(), origin.api.as_deref(), origin.model.as_deref(), origin.endpoint.as_deref());
    assert_eq!(origin, ("openai", Some("openai-responses"), Some("gpt-5"), None));
    let BlockKind::ToolResult(result) = &message_of(&found, 13).blocks[0].kind else { panic!() };
    assert_eq!((result.tool_use_id.as_str(), result.is_error), ("call_3", Some(true)));
    let kinds: Vec<_> = found.iter().filter(|entry| entry.side).map(|entry| custom_kind(entry)).collect();
    let (events, none) = ("codex.event_msg", "");
    let expected = ["import.line", "codex.turn_context", events, events, none, none, events, "codex.world_state"];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn repeated_token_counts_are_counted_once() {
    let (commits, report) = import_fixture("turns.jsonl").await;
    let found = entries(&*commits, &report.thread.unwrap()).await;
    let usage: Vec<_> = found
        .iter()
        .filter_map(|entry| match &*entry.body {
            Body::Usage(usage) => Some(usage.clone()),
            _ => None,
        })
        .collect();
    let mut tokens = TokenCounts::new(20, 20);
    tokens.cache_read = 80;
    tokens.reasoning = 5;
    assert_eq!((usage[0].spent.as_ref(), usage[0].context_size), (Some(&tokens), Some(120)));
    assert_eq!((usage[1].spent.as_ref(), usage[1].context_size), (None, Some(120)));
    assert_eq!(usage[0].model.as_deref(), Some("gpt-5"));
}

#[tokio::test]
async fn the_model_of_a_rollout_gets_the_items_unchanged() {
    let (commits, report) = import_fixture("turns.jsonl").await;
    let context = context_of(&*commits, &report.thread.unwrap()).await;
    let mut options = CompileOptions::default();
    options.settings = Some(store_core::Json::parse("{\"store\":false}").unwrap());
    let target = Target::new("openai-responses".parse().unwrap(), "gpt-5");
    let body = compile(&context, &target, &options).unwrap().body;
    let body: Value = serde_json::from_str(body.as_str()).unwrap();
    let input = body["input"].as_array().unwrap();
    let text = std::fs::read_to_string(fixtures().join("codex/turns.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let is_sent = |line: &&Value| line["type"] == "response_item" && line["payload"]["type"] != "ghost_snapshot";
    let items: Vec<_> = lines.iter().filter(is_sent).map(|line| line["payload"].clone()).collect();
    assert_eq!(input.len(), items.len(), "{body:#}");
    for (sent, item) in input.iter().zip(&items) {
        match item["type"].as_str().unwrap() {
            // The text of an item may also be sent as one string. A failed command is sent as a text that says so.
            "message" => assert_eq!(texts(sent), texts(item)),
            "function_call_output" if item["output"].is_object() => {
                assert_eq!(sent["output"], json!("[error] no such file"));
            }
            _ => assert_eq!(sent, item),
        }
    }
}

fn texts(item: &Value) -> (Value, Vec<Value>) {
    let parts = item["content"].as_array().into_iter().flatten();
    let mut texts: Vec<_> = parts.map(|part| part["text"].clone()).collect();
    texts.extend(item["content"].as_str().map(Value::from));
    (item["role"].clone(), texts)
}

#[tokio::test]
async fn results_of_parallel_calls_follow_all_calls() {
    let folder = tempdir().unwrap();
    let header = r#"{"timestamp":1,"type":"session_meta","payload":{"id":"s","timestamp":1}}"#;
    let item = |fields: &str| format!(r#"{{"timestamp":1,"type":"response_item","payload":{{{fields}}}}}"#);
    let call = |id: &str| item(&format!(r#""type":"function_call","call_id":"{id}","name":"n","arguments":"{{}}""#));
    let result = |id: &str| item(&format!(r#""type":"function_call_output","call_id":"{id}","output":"{id}""#));
    let lines = [header.to_owned(), call("a"), call("b"), result("a"), result("b"), call("c"), result("c")];
    let commits = new_store();
    let report = import_one(&*commits, &write_file(folder.path(), "calls.jsonl", lines.join("\n") + "\n")).await;
    let context = context_of(&*commits, &report.thread.unwrap()).await;
    let calls = |id: &str| format!("assistant: call {id} n {{}}");
    let results = |id: &str| format!("tool: result {id} {id}");
    assert_eq!(short_texts(&context), [calls("a"), calls("b"), results("a"), results("b"), calls("c"), results("c")]);
    assert_eq!(context.messages.iter().filter(|found| found.message.role == Role::Assistant).count(), 2);
}

#[tokio::test]
async fn after_a_compaction_the_context_begins_with_its_replacement() {
    let (commits, report) = import_fixture("compacted.jsonl").await;
    assert_eq!(report.issues, []);
    let id = report.thread.unwrap();
    let expected = ["user: [summary of the earlier conversation]", "user: Counted to four.", "user: Stop."];
    assert_eq!(short_texts(&context_of(&*commits, &id).await), expected);
    let at = ContextRequest::at(store_core::EntryId::new("L8").unwrap());
    let earlier = commits.threads().load_context(&id, at).await.unwrap().context;
    let expected = [
        "user: Count to three.",
        "assistant: opaque {\"type\":\"compaction\",\"encrypted_content\":\"b3BhcXVl\"}",
        "user: And on?",
        "assistant: Four.",
    ];
    assert_eq!(short_texts(&earlier), expected);
    let found = entries(&*commits, &id).await;
    let Body::Compaction(compaction) = &*found.iter().find(|entry| entry.id.as_str() == "L9").unwrap().body else {
        panic!()
    };
    let covers = compaction.covers.as_ref().unwrap();
    assert_eq!((covers.from.as_str(), covers.to.as_str()), ("L3", "L8"));
}

#[tokio::test]
async fn a_rollback_rewinds_turns_of_the_user() {
    let (commits, report) = import_fixture("rolled-back.jsonl").await;
    assert_eq!((report.issues.len(), report.leaves), (0, 2));
    let id = report.thread.unwrap();
    assert_eq!(head_path(&*commits, &id).await.len(), 0);
    let third = ContextRequest::at(store_core::EntryId::new("L10").unwrap());
    let third = commits.threads().load_context(&id, third).await.unwrap().context;
    let expected = ["user: First.", "assistant: One.", "user: Third.", "assistant: Three."];
    assert_eq!(short_texts(&third), expected);
    let found = entries(&*commits, &id).await;
    let rewinds: Vec<_> = found
        .iter()
        .filter_map(|entry| match &*entry.body {
            Body::Rewind(rewind) => Some(rewind.to.as_ref().map(|to| to.as_str().to_owned())),
            _ => None,
        })
        .collect();
    assert_eq!(rewinds, [Some("L4".to_owned()), None]);
}

#[tokio::test]
async fn a_fork_is_a_child_of_the_session_that_it_was_made_from() {
    let folder = tempdir().unwrap();
    for name in ["fork.jsonl", "turns.jsonl"] {
        std::fs::copy(fixtures().join("codex").join(name), folder.path().join(name)).unwrap();
    }
    let commits = new_store();
    let reports = sessions::import(&*commits, folder.path(), &sessions::ImportOptions::default()).await.unwrap();
    let thread = reports[0].thread.clone().unwrap();
    let fork = commits.threads().load_thread(&thread).await.unwrap().unwrap();
    assert_eq!(fork.id.as_str(), "019b9b10-0000-7000-8000-000000000004");
    assert_eq!(fork.parent_thread_id.unwrap().as_str(), "019b9b10-0000-7000-8000-000000000001");
    assert_eq!(fork.metadata["cwd"].as_str(), "\"/work/fork\"");
    let found = entries(&*commits, &thread).await;
    assert_eq!(custom_kind(&found[1]), "codex.session_meta");
    let origin = message_of(&found, 5).provenance.as_ref().unwrap().origin.as_ref().unwrap();
    assert_eq!((origin.model.as_deref(), origin.endpoint.as_deref()), (Some("local"), Some("ollama")));
}

#[tokio::test]
async fn a_rollout_in_the_old_shape_is_read_like_a_new_one() {
    let (commits, report) = import_fixture("old-shape.jsonl").await;
    assert_eq!((report.issues.len(), report.messages, report.leaves), (0, 5, 1), "{:?}", report.issues);
    let id = report.thread.unwrap();
    assert_eq!(id.as_str(), "019b9b10-0000-7000-8000-00000000000a");
    let expected = [
        "user: Name a colour.",
        "assistant: thinking Any will do. None",
        "assistant: call call_1 shell {\"command\":[\"true\"]}",
        "tool: result call_1 ok",
        "assistant: Green.",
    ];
    assert_eq!(short_texts(&context_of(&*commits, &id).await), expected);
    let found = entries(&*commits, &id).await;
    assert_eq!((custom_kind(&found[2]), found[2].side), ("codex.state", true));
    assert_eq!(message_of(&found, 7).provenance.as_ref().unwrap().origin.as_ref().unwrap().model, None);
    let (bytes, exact) = export_bytes(&*commits, &id, format("codex")).await;
    assert!(exact && bytes == std::fs::read(fixtures().join("codex/old-shape.jsonl")).unwrap());
}

#[tokio::test]
async fn lines_before_the_first_record_are_kept() {
    let folder = tempdir().unwrap();
    let mut text = std::fs::read_to_string(fixtures().join("codex/late-wrapper.jsonl")).unwrap();
    text += r#"{"timestamp":1,"type":"response_item","payload":{"role":"user","content":[]}}"#;
    let commits = new_store();
    let report = import_one(&*commits, &write_file(folder.path(), "late-wrapper.jsonl", text + "\n")).await;
    let codes: Vec<_> = report.issues.iter().map(|issue| (issue.line.unwrap(), issue.code.name())).collect();
    assert_eq!(codes, [(1, "missing_header"), (1, "unknown_type"), (2, "unknown_type"), (3, "unknown_type")]);
    let id = report.thread.unwrap();
    assert_eq!(id.as_str(), "late-wrapper");
    let found = entries(&*commits, &id).await;
    let kinds: Vec<_> = found.iter().map(|entry| custom_kind(entry)).collect();
    assert_eq!(kinds, ["import.line", "codex.line", "codex.function_call", "codex.line", "codex.world_state", ""]);
}

#[tokio::test]
async fn a_rollout_may_grow_after_a_rollback() {
    let folder = tempdir().unwrap();
    let bytes = std::fs::read(fixtures().join("codex/rolled-back.jsonl")).unwrap();
    let commits = new_store();
    for end in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1) {
        // The second import reads only a part of the next line. The next import reads the whole line.
        for end in [end, (end + 30).min(bytes.len())] {
            let path = write_file(folder.path(), "grown.jsonl", &bytes[..end]);
            let report = import_one(&*commits, &path).await;
            if has_no_message(&report) {
                continue;
            }
            let (exported_bytes, exact) =
                export_bytes(&*commits, report.thread.as_ref().unwrap(), format("codex")).await;
            assert!(exact && exported_bytes == bytes[..end], "{end} bytes");
        }
    }
    let whole = new_store();
    let id = import_one(&*whole, &fixtures().join("codex/rolled-back.jsonl")).await.thread.unwrap();
    let grown = commits.threads().load_thread(&id).await.unwrap().unwrap();
    let at_once = whole.threads().load_thread(&id).await.unwrap().unwrap();
    assert_eq!((grown.head, grown.leaves), (at_once.head, at_once.leaves));
}
