//! Tests of the bodies that the APIs get for a stored history, and of the losses (SE-2).

use providers::{CompileOptions, Target, compile};
use serde_json::{Value, json};
use store_core::{Context, ContextMessage, EntryId, Json, Message};

fn context_of(messages: &Value) -> Context {
    let messages: Vec<Message> = serde_json::from_str(&messages.to_string()).unwrap();
    let mut context = Context::default();
    for (at, message) in messages.into_iter().enumerate() {
        store_core::log::check_message(&message).unwrap();
        context.messages.push(ContextMessage::new(EntryId::new(at.to_string()).unwrap(), false, message));
    }
    context
}

/// Compiles messages for a model. Returns the body without `model` and `max_tokens`, and the kinds of the losses.
fn compiled(target: &str, messages: &Value, options: &CompileOptions) -> (Value, Vec<&'static str>) {
    let (provider, model) = target.split_once('/').unwrap();
    let context = context_of(messages);
    let compiled = compile(&context, &Target::new(provider.parse().unwrap(), model), options).unwrap();
    let mut body: Value = serde_json::from_str(compiled.body.as_str()).unwrap();
    let fields = body.as_object_mut().unwrap();
    fields.retain(|name, _| !matches!(name.as_str(), "model" | "max_tokens"));
    (body, compiled.losses.iter().map(|loss| loss.kind.name()).collect())
}

#[track_caller]
fn check(target: &str, messages: &Value, expected: &Value, losses: &[&str]) {
    let (body, loss_kinds) = compiled(target, messages, &CompileOptions::default());
    assert_eq!(body, *expected, "{target}");
    assert_eq!(loss_kinds, losses, "{target}");
}

/// A question, two calls with thinking before them, and their results, one of which is an error.
fn two_calls() -> Value {
    let origin = json!({"provider": "anthropic", "api": "anthropic-messages", "model": "claude-sonnet-4-5"});
    json!([
        {"role": "system", "blocks": [{"text": "Be brief."}]},
        {"role": "user", "blocks": [{"text": "Weather in Oslo and Rome?"}]},
        {"role": "assistant", "blocks": [
            {"thinking": {"text": "Two calls.", "signature": "Eq0B", "origin": origin}}, {"text": "Checking."},
            {"tool_use": {"id": "toolu_A", "name": "weather", "input": {"city": "Oslo"}}},
            {"tool_use": {"id": "toolu_B", "name": "weather", "input": {"city": "Rome"}}}]},
        {"role": "tool", "blocks": [
            {"tool_result": {"tool_use_id": "toolu_B", "blocks": [{"text": "timeout"}], "is_error": true}},
            {"tool_result": {"tool_use_id": "toolu_A", "blocks": [{"text": "4 C"}]}}]},
    ])
}

#[test]
fn parallel_calls_and_thinking_are_written_for_each_api() {
    let question = "Weather in Oslo and Rome?";
    check(
        "anthropic/claude-sonnet-4-5",
        &two_calls(),
        &json!({"system": "Be brief.", "messages": [
            {"role": "user", "content": question},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Two calls.", "signature": "Eq0B"}, {"type": "text", "text": "Checking."},
                {"type": "tool_use", "id": "toolu_A", "name": "weather", "input": {"city": "Oslo"}},
                {"type": "tool_use", "id": "toolu_B", "name": "weather", "input": {"city": "Rome"}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_B", "content": "timeout", "is_error": true},
                {"type": "tool_result", "tool_use_id": "toolu_A", "content": "4 C"}]}
        ]}),
        &[],
    );
    check(
        "openai-chat/gpt-5-nano",
        &two_calls(),
        &json!({"messages": [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": question},
            {"role": "assistant", "content": "Checking.", "tool_calls": [
                {"id": "toolu_A", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}},
                {"id": "toolu_B", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Rome\"}"}}]},
            {"role": "tool", "tool_call_id": "toolu_B", "content": "[error] timeout"},
            {"role": "tool", "tool_call_id": "toolu_A", "content": "4 C"}
        ]}),
        &["thinking", "is_error"],
    );
    check(
        "openai-responses/gpt-5-nano",
        &two_calls(),
        &json!({"instructions": "Be brief.", "input": [
            {"role": "user", "content": question}, {"role": "assistant", "content": "Checking."},
            {"type": "function_call", "call_id": "toolu_A", "name": "weather", "arguments": "{\"city\":\"Oslo\"}"},
            {"type": "function_call", "call_id": "toolu_B", "name": "weather", "arguments": "{\"city\":\"Rome\"}"},
            {"type": "function_call_output", "call_id": "toolu_B", "output": "[error] timeout"},
            {"type": "function_call_output", "call_id": "toolu_A", "output": "4 C"}
        ]}),
        &["thinking", "is_error"],
    );
    check(
        "google/gemini-3-flash",
        &two_calls(),
        &json!({"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": [
            {"role": "user", "parts": [{"text": question}]},
            {"role": "model", "parts": [{"text": "Checking."},
                {"functionCall": {"name": "weather", "args": {"city": "Oslo"}}, "thoughtSignature": "skip_thought_signature_validator"},
                {"functionCall": {"name": "weather", "args": {"city": "Rome"}}}]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "weather", "response": {"output": "4 C"}}},
                {"functionResponse": {"name": "weather", "response": {"error": "timeout"}}}]}
        ]}),
        &["thinking", "tool_id", "tool_id", "tool_id", "tool_id", "signature"],
    );
}

#[test]
fn thinking_becomes_text_only_on_request() {
    let mut options = CompileOptions::default();
    options.thinking_as_text = true;
    let (body, losses) = compiled("openai-chat/gpt-5-nano", &two_calls(), &options);
    assert_eq!(
        body["messages"][2]["content"],
        json!([{"type": "text", "text": "Two calls."}, {"type": "text", "text": "Checking."}])
    );
    assert_eq!(losses, ["signature", "thinking", "is_error"]);
}

#[test]
fn an_image_in_a_result_is_written_where_the_api_accepts_it() {
    let history = json!([
        {"role": "user", "blocks": [{"text": "Look."}]},
        {"role": "assistant", "blocks": [{"tool_use": {"id": "c", "name": "shot", "input": {}}}]},
        {"role": "tool", "blocks": [{"tool_result": {"tool_use_id": "c", "blocks": [{"text": "done"},
            {"image": {"media_type": "image/png", "base64": "iVBORw=="}}]}}]},
    ]);
    let url = "data:image/png;base64,iVBORw==";
    let (body, losses) = compiled("openai-chat/gpt-5-nano", &history, &CompileOptions::default());
    assert_eq!(body["messages"][3]["content"][1], json!({"type": "image_url", "image_url": {"url": url}}));
    assert_eq!(losses, ["media_in_result"]);
    let (body, losses) = compiled("openai-responses/gpt-5-nano", &history, &CompileOptions::default());
    assert_eq!(body["input"][2]["output"][1], json!({"type": "input_image", "image_url": url}));
    assert_eq!(losses, [""; 0]);
    let image = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}});
    let (body, _) = compiled("google/gemini-2.5-flash", &history, &CompileOptions::default());
    assert_eq!(body["contents"][2]["parts"][1], image);
    let (body, _) = compiled("google/gemini-3-flash", &history, &CompileOptions::default());
    assert_eq!(body["contents"][2]["parts"][0]["functionResponse"]["parts"], json!([image]));
}

#[test]
fn written_ids_of_calls_are_valid_and_unique() {
    let call = |id: &str| json!({"role": "assistant", "blocks": [{"tool_use": {"id": id, "name": "n", "input": {}}}]});
    let result = |id: &str| json!({"role": "tool", "blocks": [{"tool_result": {"tool_use_id": id, "blocks": [{"text": "ok"}]}}]});
    let history = json!([{"role": "user", "blocks": [{"text": "x"}]}, call("Shell:0"), result("Shell:0"), call("Shell:0"), result("Shell:0")]);
    let (body, losses) = compiled("anthropic/claude-sonnet-4-5", &history, &CompileOptions::default());
    let ids: Vec<_> = [1, 3].map(|at| body["messages"][at]["content"][0]["id"].as_str().unwrap()).to_vec();
    assert!(ids[0] != ids[1] && ids.iter().all(|id| !id.contains(':')), "{ids:?}");
    for (call, result) in [(1, 2), (3, 4)] {
        assert_eq!(body["messages"][call]["content"][0]["id"], body["messages"][result]["content"][0]["tool_use_id"]);
    }
    assert_eq!(losses, ["tool_id"; 4]);
}

#[test]
fn failed_turns_and_their_results_are_left_out() {
    let history = json!([
        {"role": "user", "blocks": [{"text": "x"}]},
        {"role": "assistant", "stop": "aborted", "blocks": [{"text": "half"}, {"tool_use": {"id": "c", "name": "n", "input": {}}}]},
        {"role": "tool", "blocks": [{"tool_result": {"tool_use_id": "c", "blocks": []}}]},
        {"role": "user", "blocks": [{"text": "again"}]},
    ]);
    check(
        "openai-chat/gpt-5-nano",
        &history,
        &json!({"messages": [
            {"role": "user", "content": "x"}, {"role": "user", "content": "again"}
        ]}),
        &["failed_turn", "failed_turn"],
    );
}

#[test]
fn arguments_that_are_not_json_are_quoted_in_the_result() {
    let history = json!([
        {"role": "user", "blocks": [{"text": "x"}]},
        {"role": "assistant", "blocks": [{"tool_use": {"id": "c", "name": "n", "input": {}, "raw": "{broken"}}]},
        {"role": "tool", "blocks": [{"tool_result": {"tool_use_id": "c", "blocks": [{"text": "bad"}]}}]},
    ]);
    for target in [
        "anthropic/claude-sonnet-4-5",
        "openai-chat/gpt-5-nano",
        "openai-responses/gpt-5-nano",
        "google/gemini-2.5-flash",
    ] {
        let (body, losses) = compiled(target, &history, &CompileOptions::default());
        assert!(
            body.to_string().contains("not JSON: {broken") && losses.contains(&"bad_arguments"),
            "{target}: {body}"
        );
    }
}

#[test]
fn system_messages_are_written_where_the_model_accepts_them() {
    let history = json!([
        {"role": "user", "blocks": [{"text": "x"}]}, {"role": "system", "blocks": [{"text": "Now in French."}]},
    ]);
    check(
        "openai-chat/gpt-5-nano",
        &history,
        &json!({"messages": [
            {"role": "user", "content": "x"}, {"role": "system", "content": "Now in French."}
        ]}),
        &[],
    );
    check(
        "anthropic/claude-opus-4-8",
        &history,
        &json!({"messages": [
            {"role": "user", "content": "x"}, {"role": "system", "content": "Now in French."}
        ]}),
        &[],
    );
    check(
        "anthropic/claude-sonnet-4-5",
        &history,
        &json!({"messages": [{"role": "user", "content": [
            {"type": "text", "text": "x"}, {"type": "text", "text": "<system>Now in French.</system>"}
        ]}]}),
        &["system_position"],
    );
    check(
        "google/gemini-2.5-flash",
        &history,
        &json!({"contents": [{"role": "user", "parts": [
            {"text": "x"}, {"text": "<system>Now in French.</system>"}
        ]}]}),
        &["system_position"],
    );
}

#[test]
fn reasoning_that_the_provider_did_not_store_needs_its_content() {
    let origin = json!({"provider": "openai", "api": "openai-responses", "model": "gpt-5-nano"});
    let opaque = |pointer: &str, id: &str| json!({"origin": origin, "data": {"part": {"set": {pointer: id}}}});
    let history = json!([
        {"role": "user", "blocks": [{"text": "x"}]},
        {"role": "assistant", "blocks": [
            {"thinking": {"text": "", "origin": origin}, "opaque": opaque("/id", "rs_1")},
            {"tool_use": {"id": "call_1", "name": "n", "input": {}}, "opaque": opaque("/id", "fc_1")}]},
        {"role": "tool", "blocks": [{"tool_result": {"tool_use_id": "call_1", "blocks": [{"text": "ok"}]}}]},
    ]);
    let (body, losses) = compiled("openai-responses/gpt-5-nano", &history, &CompileOptions::default());
    assert_eq!(
        (&body["input"][1]["id"], &body["input"][2]["id"]),
        (&json!("rs_1"), &json!("fc_1")),
        "{body} {losses:?}"
    );
    assert_eq!(losses, [""; 0]);
    let mut options = CompileOptions::default();
    options.settings = Some(Json::parse(r#"{"store":false}"#).unwrap());
    let (body, losses) = compiled("openai-responses/gpt-5-nano", &history, &options);
    assert!(!body.to_string().contains("rs_1") && !body.to_string().contains("fc_1"), "{body}");
    assert_eq!(losses, ["thinking", "item_id"]);
}

#[test]
fn a_history_without_messages_is_refused() {
    let context = Context::default();
    let target = Target::new("google".parse().unwrap(), "gemini-2.5-flash");
    let error = compile(&context, &target, &CompileOptions::default()).unwrap_err();
    assert!(error.to_string().contains("append a message first"), "{error}");
}

#[test]
fn settings_do_not_change_the_history_or_the_model() {
    let context = context_of(&two_calls());
    let target = Target::new("anthropic".parse().unwrap(), "claude-sonnet-4-5");
    let mut options = CompileOptions::default();
    options.settings = Some(Json::parse(r#"{"model":"claude-opus-4-8","max_tokens":1}"#).unwrap());
    let body = compile(&context, &target, &options).unwrap().body;
    assert!(
        body.as_str().starts_with(r#"{"model":"claude-sonnet-4-5","system"#)
            && body.as_str().ends_with(r#""max_tokens":1}"#),
        "{body:?}"
    );
    options.settings = Some(Json::parse(r#"{"system":"x"}"#).unwrap());
    assert!(compile(&context, &target, &options).unwrap_err().to_string().contains("`system`"));
}

#[test]
fn data_that_only_another_model_of_the_api_accepts_is_left_out() {
    let google = json!({"provider": "google", "api": "google-generative-ai", "model": "gemini-3-pro"});
    let openai = json!({"provider": "openai", "api": "openai-responses", "model": "gpt-5"});
    let history = json!([{"role": "user", "blocks": [{"text": "x"}]}, {"role": "assistant", "blocks": [
        {"text": "y"},
        {"opaque": {"origin": google, "data": {"executableCode": {"code": "1"}, "thoughtSignature": "S"}}},
        {"opaque": {"origin": openai, "data": {"type": "compaction", "encrypted_content": "gAAA"}}}]}]);
    let (body, losses) = compiled("google/gemini-2.5-flash", &history, &CompileOptions::default());
    assert_eq!(body["contents"][1]["parts"][1], json!({"executableCode": {"code": "1"}}));
    assert_eq!(losses, ["signature", "unknown_block"]);
    let (body, losses) = compiled("openai-responses/gpt-4.1", &history, &CompileOptions::default());
    assert!(!body.to_string().contains("gAAA"), "{body}");
    assert_eq!(losses, ["unknown_block", "encrypted_reasoning"]);
}
