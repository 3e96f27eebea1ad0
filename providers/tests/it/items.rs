//! Tests of messages that are written one by one as items of OpenAI Responses.

use providers::{ItemWriter, Target, normalize};
use serde_json::{Value, json};
use store_core::{Block, ContextMessage, Detail, EntryId, ErrorKind, Json, Message, Role};

fn target() -> Target {
    Target::new("openai-responses".parse().unwrap(), "gpt-5")
}

fn message(message: Message) -> ContextMessage {
    ContextMessage::new(EntryId::new("e").unwrap(), false, message)
}

/// Reads items one by one, and writes each again.
fn rewritten_items(items: &[Value]) -> Vec<Value> {
    let mut writer = ItemWriter::new();
    let mut rewritten = Vec::new();
    for item in items {
        let body = Json::of(&json!({"input": [item]})).unwrap();
        for read in normalize(&target(), &body).unwrap().messages {
            let written = writer.write(&message(read), &target()).unwrap();
            assert_eq!(written.losses, []);
            rewritten.extend(written.items.iter().map(|item| serde_json::from_str(item.as_str()).unwrap()));
        }
    }
    rewritten
}

#[test]
fn items_of_the_target_are_written_unchanged() {
    let items = [
        json!({"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}),
        json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}),
        json!({"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** text", "status": "completed"}),
        json!({"type": "custom_tool_call_output", "call_id": "c1", "output": "done"}),
        json!({"type": "local_shell_call", "call_id": "c2", "status": "completed", "action": {"type": "exec", "command": ["ls"]}}),
        json!({"type": "function_call_output", "call_id": "c2", "output": "a.txt"}),
        json!({"type": "tool_search_call", "call_id": "c3", "execution": "client", "arguments": {"query": "mail"}}),
        json!({"type": "tool_search_output", "call_id": "c3", "execution": "client", "tools": [{"name": "send"}]}),
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed"}),
    ];
    assert_eq!(rewritten_items(&items), items);
}

#[test]
fn a_command_of_the_local_shell_is_a_call_for_other_models() {
    let item =
        json!({"type": "local_shell_call", "call_id": "c", "status": "completed", "action": {"command": ["ls"]}});
    let messages = normalize(&target(), &Json::of(&json!({"input": [item]})).unwrap()).unwrap().messages;
    let store_core::BlockKind::ToolUse(call) = &messages[0].blocks[0].kind else { panic!("{messages:?}") };
    assert_eq!((call.name.as_str(), call.input.as_str()), ("local_shell", r#"{"command":["ls"]}"#));
}

#[test]
fn a_result_is_written_only_after_its_call() {
    let result = || message(Message::new(Role::Tool, vec![Block::tool_result("c", vec![Block::text("x")])]));
    let mut writer = ItemWriter::new();
    let orphan = writer.write(&result(), &target()).unwrap();
    assert_eq!((orphan.items.len(), orphan.losses[0].kind.name()), (0, "orphan_result"));
    writer.expect_call("c");
    assert_eq!(writer.write(&result(), &target()).unwrap().items.len(), 1);
    let error = writer.write(&result(), &Target::new("anthropic".parse().unwrap(), "m")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(matches!(error.detail(), Detail::Invalid { what, .. } if what == "target"), "{error}");
}
