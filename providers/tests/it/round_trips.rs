//! Tests that requests and replies of each API are the same after they were read and written again for the same model
//! (SE-8).

use providers::{CompileOptions, Target, compile, normalize};
use serde_json::{Value, json};
use store_core::{Context, ContextMessage, EntryId, Json, Message, Role};

fn target(provider: &str) -> Target {
    Target::new(provider.parse().unwrap(), "model-1")
}

fn messages(target: &Target, body: &Value) -> Vec<Message> {
    normalize(target, &Json::of(body).unwrap()).unwrap().messages
}

fn context(messages: &[Message]) -> Context {
    let mut context = Context::default();
    for (at, message) in messages.iter().enumerate() {
        let id = EntryId::new(at.to_string()).unwrap();
        context.messages.push(ContextMessage::new(id, false, message.clone()));
    }
    context
}

/// Checks that a body becomes the same body again, apart from the settings.
#[track_caller]
fn check_round_trip(provider: &str, body: &Value) {
    let target = target(provider);
    let compiled = compile(&context(&messages(&target, body)), &target, &CompileOptions::default()).unwrap();
    let mut written_body: Value = serde_json::from_str(compiled.body.as_str()).unwrap();
    let fields = written_body.as_object_mut().unwrap();
    fields.retain(|name, _| body.get(name).is_some());
    assert_eq!(written_body, *body);
    assert!(compiled.losses.is_empty(), "{:?}", compiled.losses);
}

#[test]
fn requests_of_anthropic_are_written_unchanged() {
    check_round_trip(
        "anthropic",
        &json!({"system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}], "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "EqQB"}, {"type": "redacted_thinking", "data": "EmwK"},
                {"type": "text", "text": "Looking.", "citations": null},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
                {"type": "tool_use", "id": "toolu_A", "name": "weather", "input": {"n": 1}},
                {"type": "tool_use", "id": "toolu_B", "name": "weather", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_A", "content": [{"type": "text", "text": "4 C"},
                 {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}]},
                {"type": "tool_result", "tool_use_id": "toolu_B", "is_error": false},
                {"type": "text", "text": "Go on."}]},
            {"role": "user", "content": "And tomorrow?"},
            {"role": "user", "content": [{"type": "document", "title": "t", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}}]},
        ]}),
    );
}

#[test]
fn requests_of_openai_chat_are_written_unchanged() {
    check_round_trip(
        "openai-chat",
        &json!({"messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "name": "ann", "content": [{"type": "text", "text": "What is this?"},
             {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw==", "detail": "low"}},
             {"type": "file", "file": {"file_id": "file-1"}}]},
            {"role": "assistant", "content": null, "refusal": null, "annotations": [], "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{\"at\": 1.50}"}},
                {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "print(1)"}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": "a cat"},
            {"role": "tool", "tool_call_id": "call_2", "content": [{"type": "text", "text": "1"}]},
            {"role": "assistant", "content": "A cat.", "reasoning_content": "It has ears."},
            {"role": "assistant", "content": null, "refusal": "I may not say more."},
            {"role": "user", "content": ""},
        ]}),
    );
}

#[test]
fn requests_of_openai_responses_are_written_unchanged() {
    check_round_trip(
        "openai-responses",
        &json!({"instructions": "Be brief.", "input": [
            {"role": "developer", "content": "Use tools."},
            {"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}, {"type": "input_text", "text": "Weather?"}]},
        {"role": "user", "content": [{"type": "input_file", "file_id": "file-2"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
            {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "weather", "arguments": "{}", "status": "completed"},
            {"type": "custom_tool_call", "call_id": "call_2", "name": "run", "input": "x"},
            {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "4 C"},
             {"type": "input_image", "image_url": "https://example.com/a.png", "detail": "auto"}]},
            {"type": "custom_tool_call_output", "call_id": "call_2", "output": "y"},
            {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "final_answer", "content": [
                {"type": "output_text", "text": "4 degrees.", "annotations": [], "logprobs": []}, {"type": "refusal", "refusal": "No."}]},
            {"role": "assistant", "content": "Ask me more."},
            {"role": "user", "content": "Thanks."},
        ]}),
    );
}

#[test]
fn requests_of_google_are_written_unchanged() {
    check_round_trip(
        "google",
        &json!({"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": [
            {"role": "user", "parts": [{"text": "Weather?"}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}]},
            {"role": "model", "parts": [{"text": "Two calls.", "thought": true},
                {"functionCall": {"name": "weather", "args": {"n": 1.50}}, "thoughtSignature": "CiQB"},
                {"functionCall": {"id": "c2", "name": "weather", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "weather", "response": {"output": "4 C"}}},
                {"functionResponse": {"id": "c2", "name": "weather", "response": {"a": [1], "b": null}}}]},
            {"role": "model", "parts": [{"executableCode": {"language": "PYTHON", "code": "1"}}, {"text": "Sunny."}, {"text": "", "thoughtSignature": "CiQC"}]},
            {"role": "model"},
            {"parts": [{"fileData": {"mimeType": "video/mp4", "fileUri": "gs://bucket/file"}}]},
        ]}),
    );
}

/// No Rust string can hold half of a surrogate pair. The provider still gets such a text back unchanged.
#[test]
fn numbers_and_halves_of_surrogate_pairs_keep_their_spelling() {
    let target = target("anthropic");
    let raw = r#"{"role":"user","content":[{"type":"text","text":"a\ud800b"}]}"#;
    let call = r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{"x":1e2,"y":12345678901234567890123}}]}"#;
    let body = Json::parse(&format!(r#"{{"messages":[{raw},{call}]}}"#)).unwrap();
    let messages = normalize(&target, &body).unwrap().messages;
    let compiled = compile(&context(&messages), &target, &CompileOptions::default()).unwrap();
    assert!(compiled.body.as_str().contains(raw) && compiled.body.as_str().contains(call), "{:?}", compiled.body);
}

#[test]
fn the_events_of_a_stream_are_joined_to_one_reply() {
    let events = [
        (
            "anthropic",
            json!([
                {"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [], "usage": {"input_tokens": 3, "output_tokens": 1}}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Easy."}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "EqQB"}},
                {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "n", "input": {}}},
                {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{\"a\":"}},
                {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "1.0}"}},
                {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}}
            ]),
            "tool_use",
            9,
        ),
        (
            "openai-chat",
            json!([
                {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
                {"choices": [{"index": 0, "delta": {"content": "Hel"}}]}, {"choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
                {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 9}}
            ]),
            "stop",
            9,
        ),
        (
            "openai-responses",
            json!([
                {"type": "response.created", "response": {"id": "resp_1", "output": []}},
                {"type": "response.output_item.done", "item": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}},
                {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": [], "usage": {"input_tokens": 3, "output_tokens": 9}}}
            ]),
            "completed",
            9,
        ),
        (
            "google",
            json!([
                {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hel"}]}}]},
                {"candidates": [{"content": {"role": "model", "parts": [{"text": "lo"}]}, "finishReason": "STOP"}],
                 "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "thoughtsTokenCount": 5}}
            ]),
            "STOP",
            9,
        ),
    ];
    for (provider, events, stop, output) in events {
        let reply = messages(&target(provider), &events);
        assert_eq!(reply.len(), 1, "{provider}");
        assert_eq!((reply[0].role, reply[0].stop.as_deref()), (Role::Assistant, Some(stop)), "{provider}");
        assert_eq!(reply[0].usage.as_ref().unwrap().tokens.output, output, "{provider}");
        let text = serde_json::to_string(&reply[0].blocks).unwrap();
        assert!(text.contains("Hello") || text.contains("EqQB") && text.contains(r#""a":1.0"#), "{provider}: {text}");
    }
}

#[test]
fn tokens_written_to_a_cache_are_not_counted_as_input() {
    let details = json!({"cached_tokens": 10, "cache_write_tokens": 20});
    let chat = json!({"choices": [{"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": details}});
    let responses = json!({"status": "completed", "output": [{"type": "message", "id": "m", "role": "assistant",
        "status": "completed", "content": [{"type": "output_text", "text": "Hi.", "annotations": []}]}],
        "usage": {"input_tokens": 100, "output_tokens": 7, "input_tokens_details": details}});
    for (provider, body) in [("openai-chat", chat), ("openai-responses", responses)] {
        let reply = messages(&target(provider), &body);
        let tokens = &reply[0].usage.as_ref().unwrap().tokens;
        let counts = (tokens.input, tokens.output, tokens.cache_read, tokens.cache_write);
        assert_eq!(counts, (70, 7, 10, 20), "{provider}");
    }
}

#[test]
fn a_reply_with_several_answers_is_refused() {
    let choice = json!({"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"});
    let candidate = json!({"content": {"role": "model", "parts": [{"text": "Hi."}]}, "finishReason": "STOP"});
    for (provider, field, answer) in [("openai-chat", "choices", choice), ("google", "candidates", candidate)] {
        let reply = |answers: &[&Value]| Json::of(&json!({field: answers})).unwrap();
        assert!(normalize(&target(provider), &reply(&[&answer])).is_ok(), "{provider}");
        let error = normalize(&target(provider), &reply(&[&answer, &answer])).unwrap_err();
        assert!(error.to_string().contains("2 answers"), "{error}");
    }
}

#[test]
fn a_system_instruction_that_cannot_be_read_is_refused() {
    let parts = json!({"parts": [{"text": "Be brief."}]});
    for system in
        [json!({"systemInstruction": "Be brief."}), json!({"systemInstruction": parts, "system_instruction": parts})]
    {
        let mut body = json!({"contents": []});
        body.as_object_mut().unwrap().extend(system.as_object().unwrap().clone());
        assert!(normalize(&target("google"), &Json::of(&body).unwrap()).is_err(), "{body}");
    }
}

#[test]
fn a_body_of_another_api_is_refused() {
    for provider in ["anthropic", "openai-chat", "openai-responses", "google"] {
        for body in [json!({}), json!(1), json!([]), json!({"messages": [1]}), json!({"messages": [{"role": "king"}]})]
        {
            assert!(normalize(&target(provider), &Json::of(&body).unwrap()).is_err(), "{provider}: {body}");
        }
    }
}
