//! OpenAI Responses.

use serde_json::{Value, json};

use super::{Answer, IssuedPart, LastInput, items, pieces, require, text};

/// Checks a request. An item with an id must be an unchanged item of an earlier output of this model, and all items
/// before it in that output must come before it here. Reasoning must be followed by another item.
pub(super) fn check(body: &Value, model: &str, issued: &[IssuedPart]) -> Result<LastInput, String> {
    require(body["stream"] == true && body["tools"][0]["name"] == "add", "it has no tool")?;
    let input = items(&body["input"]);
    let mut open_calls: Vec<&Value> = Vec::new();
    let mut results = Vec::new();
    for (at, item) in input.iter().enumerate() {
        let kind = item["type"].as_str().unwrap_or("message");
        if item["id"].is_string() {
            let output = issued.iter().filter(|it| it.model == model).find(|it| items(&it.value).contains(item));
            let output = output.ok_or("an item was changed, or is of another model")?;
            let place = items(&output.value).iter().position(|it| it == item).unwrap();
            let before = &items(&output.value)[..place];
            require(input[..at].ends_with(before), "an item came without its reasoning")?;
            require(kind != "reasoning" || at + 1 < input.len(), "reasoning without the item that follows it")?;
        }
        match kind {
            "function_call" => {
                results.clear();
                open_calls.push(&item["call_id"]);
            }
            "function_call_output" => {
                let at = open_calls.iter().position(|id| **id == item["call_id"]).ok_or("a result without a call")?;
                open_calls.remove(at);
                results.push(text(&item["output"]));
            }
            "message" => require(item["role"] != "user" || !text(&item["content"]).is_empty(), "a message is empty")?,
            "reasoning" => {}
            other => return Err(format!("the item `{other}` is not known")),
        }
    }
    require(open_calls.is_empty(), "a call without a result")?;
    let last = input.last().ok_or("there is no input")?;
    match last["role"].as_str() {
        Some("user") => Ok(LastInput::Question(text(&last["content"]))),
        None if last["type"] == "function_call_output" => Ok(LastInput::Results(results)),
        _ => Err("the last item is of the model".to_owned()),
    }
}

pub(super) fn reply(answer: &Answer) -> (Vec<Value>, Value) {
    let number = answer.number;
    let (id, encrypted) = (format!("rs_{number}"), format!("gAAA{number}"));
    let reasoning = json!({"type": "reasoning", "id": id, "summary": [], "encrypted_content": encrypted});
    let mut output = vec![reasoning.clone()];
    if !answer.text.is_empty() {
        let part = json!({"type": "output_text", "text": answer.text, "annotations": []});
        output.push(json!({"type": "message", "id": format!("msg_r{number}"), "role": "assistant",
            "status": "completed", "content": [part]}));
    }
    if let Some(input) = &answer.call_arguments {
        output.push(json!({"type": "function_call", "id": format!("fc_{number}"), "status": "completed",
            "call_id": format!("call_r{number}"), "name": "add", "arguments": input.to_string()}));
    }
    let response = |status: &str, output: &Value| {
        json!({"id": format!("resp_{number}"), "object": "response", "model": answer.model, "status": status,
            "error": null, "output": output, "usage": {"input_tokens": 10, "output_tokens": 20}})
    };
    let item = |kind: &str, at: usize, item: &Value| json!({"type": kind, "output_index": at, "item": item});
    let mut events = vec![
        json!({"type": "response.created", "response": response("in_progress", &json!([]))}),
        item("response.output_item.added", 0, &reasoning),
        item("response.output_item.done", 0, &reasoning),
    ];
    let delta = |of: &str, at: usize, text: &str| json!({"type": format!("response.{of}.delta"), "output_index": at, "delta": text});
    for (at, whole) in output.iter().enumerate().skip(1) {
        if let Some(arguments) = whole["arguments"].as_str() {
            let mut begun = whole.clone();
            begun["arguments"] = json!("");
            events.push(item("response.output_item.added", at, &begun));
            let parts = [&arguments[..4], &arguments[4..]];
            events.extend(parts.map(|part| delta("function_call_arguments", at, part)));
        } else {
            events.extend(pieces(&answer.text).map(|text| delta("output_text", at, text)));
        }
        events.push(item("response.output_item.done", at, whole));
    }
    let output = Value::Array(output);
    events.push(json!({"type": "response.completed", "response": response("completed", &output)}));
    (events, output)
}
