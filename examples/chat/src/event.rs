//! Reads the parts of streamed events that the chat needs at once: texts, errors and the end. `providers::normalize`
//! reads everything else.

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
