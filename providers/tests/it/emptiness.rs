//! Tests of histories with empty, missing or unexpected parts, which the APIs refuse, and of what each API gets instead
//! (SE-2).

use providers::{CompileOptions, Compiled, Target, check, compile, normalize};
use serde_json::{Value, json};
use store_core::{Context, ContextMessage, EntryId, Json, Message};

use crate::rules;

const TARGETS: [(&str, &str); 4] = [
    ("anthropic", "claude-sonnet-4-5"),
    ("openai-chat", "gpt-5-nano"),
    ("openai-responses", "gpt-5-nano"),
    ("google", "gemini-2.5-flash"),
];

fn target((provider, model): (&str, &str)) -> Target {
    Target::new(provider.parse().unwrap(), model)
}

fn messages(messages: &Value) -> Vec<Message> {
    serde_json::from_str(&messages.to_string()).unwrap()
}

fn context(messages: Vec<Message>) -> Context {
    let mut context = Context::default();
    for (at, message) in messages.into_iter().enumerate() {
        context.messages.push(ContextMessage::new(EntryId::new(at.to_string()).unwrap(), false, message));
    }
    context
}

fn body(compiled: &Compiled) -> Value {
    serde_json::from_str(compiled.body.as_str()).unwrap()
}

/// Compiles messages for a model, checks the rules of its API, and returns the history and each loss.
fn compiled(target_names: (&str, &str), messages: Vec<Message>) -> (Value, Vec<String>) {
    let compiled = compile(&context(messages), &target(target_names), &CompileOptions::default()).unwrap();
    let body = body(&compiled);
    assert_eq!(rules::broken_rules(target_names.0, &body), Vec::<String>::new(), "{body}");
    let losses = compiled.losses.iter().map(|loss| format!("{} {}", loss.path, loss.kind.name())).collect();
    let history = ["messages", "input", "contents"].iter().find_map(|name| body.get(name)).unwrap();
    (history.clone(), losses)
}

/// A question, a streamed reply of Chat Completions that is only a call, and its result.
fn streamed_call() -> Vec<Message> {
    let events = json!([
        {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
        {"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [
            {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]}}]},
        {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ]);
    let reply = normalize(&target(TARGETS[1]), &Json::of(&events).unwrap()).unwrap().messages;
    let result =
        json!([{"role": "tool", "blocks": [{"tool_result": {"tool_use_id": "call_1", "blocks": [{"text": "4 C"}]}}]}]);
    [vec![Message::user("Weather?")], reply, messages(&result)].concat()
}

#[test]
fn the_empty_text_of_a_streamed_call_goes_only_to_the_api_that_made_it() {
    for (target_names, expected) in [
        (
            TARGETS[0],
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "weather", "input": {}}]}),
        ),
        (
            TARGETS[1],
            json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]}),
        ),
        (TARGETS[2], json!({"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": "{}"})),
        (TARGETS[3], json!({"role": "model", "parts": [{"functionCall": {"name": "weather", "args": {}}}]})),
    ] {
        let (history, losses) = compiled(target_names, streamed_call());
        assert_eq!((&history[1], history.as_array().unwrap().len()), (&expected, 3), "{target_names:?}");
        let is_dropped = losses.iter().any(|loss| loss == "/messages/1/blocks/0 empty");
        assert_eq!(is_dropped, target_names.0 != "openai-chat", "{losses:?}");
    }
}

#[test]
fn a_text_after_an_empty_one_still_begins_its_message() {
    let history = json!([
        {"role": "user", "blocks": [{"text": "a"}]}, {"role": "user", "blocks": [{"text": " "}, {"text": "b"}]}]);
    for (target_names, expected) in [
        (
            TARGETS[0],
            json!([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]),
        ),
        (TARGETS[3], json!([{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}])),
    ] {
        let (written_history, losses) = compiled(target_names, messages(&history));
        assert_eq!(
            (written_history, losses),
            (expected, vec!["/messages/1/blocks/0 empty".to_owned(), "/messages/1/blocks/1 merged".to_owned()]),
            "{target_names:?}"
        );
    }
    let history = json!([
        {"role": "user", "blocks": [{"text": "q"}]}, {"role": "assistant", "blocks": [{"text": ""}, {"text": "b"}]}]);
    let (written_history, losses) = compiled(TARGETS[2], messages(&history));
    assert_eq!(written_history[1], json!({"role": "assistant", "content": "b"}));
    assert_eq!(losses, ["/messages/1/blocks/0 empty"]);
}

#[test]
fn an_empty_turn_is_left_out() {
    let history = json!([
        {"role": "user", "blocks": [{"text": "q"}]}, {"role": "assistant", "blocks": [{"text": ""}]},
        {"role": "user", "blocks": [{"text": "r"}]}]);
    for target_names in [TARGETS[0], TARGETS[2], TARGETS[3]] {
        let (written_history, losses) = compiled(target_names, messages(&history));
        assert!(!written_history.to_string().contains("\"\""), "{target_names:?}: {written_history}");
        assert_eq!(losses[0], "/messages/1/blocks/0 empty", "{target_names:?}");
    }
}

#[test]
fn a_message_without_content_is_left_out_and_reported() {
    for (target_names, field, empty) in [
        (TARGETS[0], "messages", json!({"role": "assistant", "content": []})),
        (TARGETS[1], "messages", json!({"role": "assistant", "content": []})),
        (TARGETS[1], "messages", json!({"role": "assistant", "content": null})),
        (TARGETS[3], "contents", json!({"role": "model", "parts": []})),
    ] {
        let question = match target_names.0 {
            "google" => json!({"role": "user", "parts": [{"text": "q"}]}),
            _ => json!({"role": "user", "content": "q"}),
        };
        let request = json!({field: [question, empty, question]});
        let read = normalize(&target(target_names), &Json::of(&request).unwrap()).unwrap().messages;
        let (written_history, losses) = compiled(target_names, read);
        assert!(
            !written_history.to_string().contains("[]") && !written_history.to_string().contains("null"),
            "{target_names:?}: {written_history}"
        );
        assert_eq!(losses[0], "/messages/1/blocks/0 empty", "{target_names:?}");
    }
}

#[test]
fn a_failed_result_without_content_gets_a_text() {
    for blocks in [json!([]), json!([{"text": ""}])] {
        let history = json!([
            {"role": "user", "blocks": [{"text": "q"}]},
            {"role": "assistant", "blocks": [{"tool_use": {"id": "c", "name": "n", "input": {}}}]},
            {"role": "tool", "blocks": [{"tool_result": {"tool_use_id": "c", "blocks": blocks, "is_error": true}}]}]);
        for target_names in TARGETS {
            let (written_history, losses) = compiled(target_names, messages(&history));
            let has_text = match target_names.0 {
                "anthropic" => written_history[2]["content"][0]["content"] == "(no output)",
                "google" => written_history[2]["parts"][0]["functionResponse"]["response"]["error"].is_string(),
                _ => written_history.to_string().contains("[error]"),
            };
            assert!(has_text, "{target_names:?}: {written_history}");
            assert!(
                target_names.0 != "anthropic" || losses.contains(&"/messages/2/blocks/0 empty".to_owned()),
                "{losses:?}"
            );
        }
    }
}

#[test]
fn histories_with_unusual_orders_of_roles_become_valid_for_every_api() {
    let history = json!([
        {"role": "assistant", "blocks": [{"text": "first"}]},
        {"role": "assistant", "blocks": [{"text": "second"}, {"tool_use": {"id": "c", "name": "n", "input": {}}}]},
        {"role": "tool", "blocks": [{"tool_result": {"tool_use_id": "nobody", "blocks": [{"text": "x"}]}}]},
        {"role": "tool", "blocks": [{"tool_result": {"tool_use_id": "c", "blocks": [{"text": "y"}]}}]},
        {"role": "user", "blocks": [{"text": "third"}]},
        {"role": "user", "blocks": [{"text": "fourth"}]}]);
    for target_names in TARGETS {
        let (written_history, losses) = compiled(target_names, messages(&history));
        for text in ["first", "second", "third", "fourth", "y"] {
            assert!(written_history.to_string().contains(text), "{target_names:?}: {written_history}");
        }
        assert!(losses.contains(&"/messages/2/blocks/0 orphan_result".to_owned()), "{losses:?}");
        let begins_with_user = written_history[0]["role"] == "user";
        assert_eq!(begins_with_user, matches!(target_names.0, "anthropic" | "google"), "{written_history}");
    }
}

#[test]
fn a_call_without_a_result_is_a_warning_for_every_api() {
    let history = json!([
        {"role": "user", "blocks": [{"text": "q"}]},
        {"role": "assistant", "blocks": [{"tool_use": {"id": "open", "name": "n", "input": {}}}]}]);
    for target_names in TARGETS {
        let report = check(&context(messages(&history)), &target(target_names), &CompileOptions::default()).unwrap();
        let is_named = report.warnings.iter().any(|warning| warning.contains("the call `open` has no result"));
        assert!(is_named && !report.compatible, "{target_names:?}: {:?}", report.warnings);
        let mut answered = messages(&history);
        answered.extend(messages(&json!([
            {"role": "tool", "blocks": [{"tool_result": {"tool_use_id": "open", "blocks": [{"text": "x"}]}}]}])));
        let answered = check(&context(answered), &target(target_names), &CompileOptions::default()).unwrap();
        assert_eq!(answered.warnings, Vec::<String>::new(), "{target_names:?}");
    }
}
