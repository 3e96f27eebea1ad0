//! OpenAI Chat Completions.

use serde_json::{Value, json};

use super::{Answer, IssuedPart, LastInput, is_issued, items, pieces, require, text};

/// Checks a request. The calls that this model made must be repeated unchanged. This API signs nothing.
pub(super) fn check(body: &Value, model: &str, issued: &[IssuedPart]) -> Result<LastInput, String> {
    require(body["stream"] == true && body["tools"][0]["function"]["name"] == "add", "it has no tool")?;
    let mut open_calls: Vec<&Value> = Vec::new();
    let mut results = Vec::new();
    for message in items(&body["messages"]) {
        if message["role"] == "tool" {
            let at =
                open_calls.iter().position(|id| **id == message["tool_call_id"]).ok_or("a result without a call")?;
            open_calls.remove(at);
            results.push(text(&message["content"]));
            continue;
        }
        require(open_calls.is_empty(), "a call without a result")?;
        results.clear();
        let calls = items(&message["tool_calls"]);
        for call in calls {
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            require(
                serde_json::from_str::<Value>(arguments).is_ok_and(|it| it.is_object()),
                "arguments are no object",
            )?;
            open_calls.push(&call["id"]);
        }
        let is_own = issued.iter().any(|it| it.model == model && open_calls.contains(&&it.value[0]["id"]));
        if is_own {
            require(is_issued(issued, model, &message["tool_calls"]), "a call was changed")?;
        }
        let is_known = ["user", "assistant"].iter().any(|role| message["role"] == *role);
        require(is_known && (!text(&message["content"]).is_empty() || !calls.is_empty()), "a message is empty")?;
    }
    require(open_calls.is_empty(), "a call without a result")?;
    let last = items(&body["messages"]).last().ok_or("there are no messages")?;
    match last["role"].as_str() {
        Some("user") => Ok(LastInput::Question(text(&last["content"]))),
        Some("tool") => Ok(LastInput::Results(results)),
        _ => Err("the last message is of the assistant".to_owned()),
    }
}

pub(super) fn reply(answer: &Answer) -> (Vec<Value>, Value) {
    let id = format!("chatcmpl-{}", answer.number);
    let chunk = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        json!({"id": id, "object": "chat.completion.chunk", "model": answer.model, "choices": [choice], "usage": null})
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    events.extend(pieces(&answer.text).map(|text| chunk(json!({"content": text}), None)));
    let mut calls = Value::Null;
    if let Some(input) = &answer.call_arguments {
        let (id, arguments) = (format!("call_{}", answer.number), input.to_string());
        let function = |arguments: &str| json!({"name": "add", "arguments": arguments});
        let call = |arguments: &str| json!({"id": id, "type": "function", "function": function(arguments)});
        calls = json!([call(&arguments)]);
        let mut first = call("");
        first["index"] = json!(0);
        events.push(chunk(json!({"tool_calls": [first]}), None));
        for part in [&arguments[..4], &arguments[4..]] {
            events.push(chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}), None));
        }
    }
    events.push(chunk(json!({}), Some(if answer.call_arguments.is_some() { "tool_calls" } else { "stop" })));
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30});
    events.push(json!({"id": id, "object": "chat.completion.chunk", "choices": [], "usage": usage}));
    (events, calls)
}
