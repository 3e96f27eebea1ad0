//! Reads the parts of streamed events that the chat needs at once: texts, calls, errors and the end.
//! `providers::normalize` reads everything else.

use serde_json::Value;

/// Returns the text that an event adds to the answer.
pub(crate) fn text(provider: &str, event: &Value) -> String {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    let text_at = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    match provider {
        "anthropic" if kind == "content_block_delta" => text_at("/delta/text"),
        "openai-chat" => text_at("/choices/0/delta/content"),
        "openai-responses" if kind == "response.output_text.delta" => text_at("/delta"),
        "google" => {
            let parts = event.pointer("/candidates/0/content/parts").and_then(Value::as_array);
            let answer = parts.into_iter().flatten().filter(|part| part.get("thought") != Some(&Value::Bool(true)));
            answer.filter_map(|part| part.get("text")?.as_str()).collect()
        }
        _ => String::new(),
    }
}

/// What an event says of the calls of an answer.
pub(crate) enum CallEvent {
    Begin {
        id: String,
        name: String,
    },
    /// A part of the arguments of the call that has begun.
    Arguments(String),
    /// The arguments were sent in full.
    End,
    /// A call that comes in one event. It may have no id.
    Whole {
        id: Option<String>,
        name: String,
        arguments: String,
    },
}

/// Returns what an event says of the calls of the answer.
pub(crate) fn calls(provider: &str, event: &Value) -> Vec<CallEvent> {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    let item = event.get("item").filter(|item| field(item, "type") == "function_call");
    match (provider, kind) {
        ("anthropic", "content_block_start") => {
            let block = event.get("content_block").filter(|block| field(block, "type") == "tool_use");
            block.map(|block| begin(block, "id", block)).into_iter().collect()
        }
        ("anthropic", "content_block_delta") => {
            let part = event.pointer("/delta/partial_json").and_then(Value::as_str);
            part.map(|part| CallEvent::Arguments(part.to_owned())).into_iter().collect()
        }
        ("anthropic", "content_block_stop") => vec![CallEvent::End],
        ("openai-chat", _) => calls_of_chunk(event),
        ("openai-responses", "response.output_item.added") => {
            item.map(|item| begin(item, "call_id", item)).into_iter().collect()
        }
        ("openai-responses", "response.function_call_arguments.delta") => {
            vec![CallEvent::Arguments(field(event, "delta"))]
        }
        ("openai-responses", "response.output_item.done") => item.map(whole_item).into_iter().collect(),
        ("google", _) => {
            let parts = event.pointer("/candidates/0/content/parts").and_then(Value::as_array);
            let calls = parts.into_iter().flatten().filter_map(|part| part.get("functionCall"));
            calls.map(whole_function_call).collect()
        }
        _ => Vec::new(),
    }
}

fn field(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn begin(with_id: &Value, id: &str, with_name: &Value) -> CallEvent {
    CallEvent::Begin { id: field(with_id, id), name: field(with_name, "name") }
}

fn calls_of_chunk(chunk: &Value) -> Vec<CallEvent> {
    let mut events = Vec::new();
    let parts = chunk.pointer("/choices/0/delta/tool_calls").and_then(Value::as_array);
    for part in parts.into_iter().flatten() {
        let function = part.get("function").unwrap_or(&Value::Null);
        if part.get("id").is_some_and(Value::is_string) {
            events.push(begin(part, "id", function));
        }
        events.push(CallEvent::Arguments(field(function, "arguments")));
    }
    if chunk.pointer("/choices/0/finish_reason").is_some_and(Value::is_string) {
        events.push(CallEvent::End);
    }
    events
}

fn whole_item(item: &Value) -> CallEvent {
    let (id, name) = (Some(field(item, "call_id")), field(item, "name"));
    CallEvent::Whole { id, name, arguments: field(item, "arguments") }
}

fn whole_function_call(call: &Value) -> CallEvent {
    let id = call.get("id").and_then(Value::as_str).map(str::to_owned);
    let arguments = call.get("args").map(Value::to_string).unwrap_or_default();
    CallEvent::Whole { id, name: field(call, "name"), arguments }
}

/// Returns whether this event completes the answer. If no event of an answer does, the connection broke.
pub(crate) fn completes_answer(provider: &str, event: &Value) -> bool {
    let kind = event.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_set = |pointer: &str| event.pointer(pointer).is_some_and(|value| !value.is_null());
    match provider {
        "anthropic" => kind == "message_stop",
        "openai-chat" => is_set("/choices/0/finish_reason"),
        "openai-responses" => matches!(kind, "response.completed" | "response.incomplete"),
        _ => is_set("/candidates/0/finishReason"),
    }
}

/// Returns the error that an event, or the body of a refusal, reports.
pub(crate) fn error(event: &Value) -> Option<String> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str);
    if let Some(reason) = text("/promptFeedback/blockReason") {
        return Some(format!("the request was blocked: {reason}"));
    }
    let message = text("/message").filter(|_| text("/type") == Some("error"));
    text("/error/message").or_else(|| text("/response/error/message")).or(message).map(str::to_owned)
}
