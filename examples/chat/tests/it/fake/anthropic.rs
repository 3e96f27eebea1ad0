//! Anthropic Messages.

use serde_json::{Value, json};

use super::{Answer, IssuedPart, LastInput, is_issued, items, pieces, require, text};

/// Checks a request. A message must be repeated unchanged if it has thinking, or if it has a call that this model made.
pub(super) fn check(body: &Value, model: &str, issued: &[IssuedPart]) -> Result<LastInput, String> {
    require(body["stream"] == true && body["max_tokens"].is_u64(), "it is not streamed, or has no limit")?;
    require(body["tools"][0]["input_schema"]["type"] == "object", "it has no tool")?;
    let mut open_calls: Vec<&Value> = Vec::new();
    let messages = items(&body["messages"]);
    for (at, message) in messages.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "assistant" };
        require(message["role"] == role, "the roles do not alternate")?;
        let content = &message["content"];
        require(!text(content).trim().is_empty() || !items(content).is_empty(), "a message is empty")?;
        let of_type = |kind: &'static str| items(content).iter().filter(move |block| block["type"] == kind);
        let answered: Vec<_> = of_type("tool_result").map(|result| &result["tool_use_id"]).collect();
        require(answered == open_calls, "the results do not answer the calls of the message before")?;
        let results = items(content).iter().take_while(|block| block["type"] == "tool_result");
        require(results.count() == answered.len(), "results have to come first")?;
        open_calls = of_type("tool_use").map(|call| &call["id"]).collect();
        let is_own = open_calls.iter().any(|id| issued.iter().any(|it| it.model == model && has_call(&it.value, id)));
        if is_own || of_type("thinking").next().is_some() {
            require(is_issued(issued, model, content), "thinking is missing, changed or of another model")?;
        }
    }
    let last = messages.last().filter(|last| last["role"] == "user").ok_or("the last message is not of the user")?;
    let blocks = items(&last["content"]);
    if blocks.last().is_some_and(|block| block["type"] == "tool_result") {
        return Ok(LastInput::Results(blocks.iter().map(|result| text(&result["content"])).collect()));
    }
    let last_block = blocks.last().map_or_else(|| text(&last["content"]), |block| text(&json!([block])));
    Ok(LastInput::Question(last_block))
}

fn has_call(content: &Value, id: &Value) -> bool {
    items(content).iter().any(|block| block["type"] == "tool_use" && block["id"] == *id)
}

pub(super) fn reply(answer: &Answer) -> (Vec<Value>, Value) {
    let number = answer.number;
    let signature = format!("c2lnbmF0dXJl{number}==");
    let mut content = vec![json!({"type": "thinking", "thinking": "Let me see.", "signature": signature})];
    let usage = json!({"input_tokens": 10, "output_tokens": 1});
    let message = json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": answer.model,
        "content": [], "stop_reason": null, "usage": usage});
    let start = |at: usize, block: Value| json!({"type": "content_block_start", "index": at, "content_block": block});
    let delta = |at: usize, delta: Value| json!({"type": "content_block_delta", "index": at, "delta": delta});
    let stop = |at: usize| json!({"type": "content_block_stop", "index": at});
    let mut events = vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "ping"}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Let me "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "see."})),
        delta(0, json!({"type": "signature_delta", "signature": signature})),
        stop(0),
    ];
    if !answer.text.is_empty() {
        content.push(json!({"type": "text", "text": answer.text}));
        events.push(start(1, json!({"type": "text", "text": ""})));
        events.extend(pieces(&answer.text).map(|text| delta(1, json!({"type": "text_delta", "text": text}))));
        events.push(stop(1));
    }
    if let Some(input) = &answer.call_arguments {
        let (id, at) = (format!("toolu_{number}"), content.len());
        content.push(json!({"type": "tool_use", "id": id, "name": "add", "input": input}));
        events.push(start(at, json!({"type": "tool_use", "id": id, "name": "add", "input": {}})));
        let json = input.to_string();
        for part in [&json[..4], &json[4..]] {
            events.push(delta(at, json!({"type": "input_json_delta", "partial_json": part})));
        }
        events.push(stop(at));
    }
    let reason = if answer.call_arguments.is_some() { "tool_use" } else { "end_turn" };
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 20}}));
    events.push(json!({"type": "message_stop"}));
    (events, Value::Array(content))
}
