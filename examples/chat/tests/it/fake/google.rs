//! Google Gemini `generateContent`.

use serde_json::{Value, json};

use super::{Answer, IssuedPart, LastInput, is_issued, items, pieces, require};

/// The signature that the documentation of the API gives for calls that another model made.
const ANY_SIGNATURE: &str = "skip_thought_signature_validator";

/// Checks a request. A content that has signatures must be repeated unchanged, and a call of the current turn must have
/// a signature.
pub(super) fn check(body: &Value, model: &str, issued: &[IssuedPart]) -> Result<LastInput, String> {
    require(body["tools"][0]["functionDeclarations"][0]["name"] == "add", "it has no tool")?;
    let contents = items(&body["contents"]);
    let names_in = |content: &Value, field: &str| -> Vec<Value> {
        items(&content["parts"]).iter().filter_map(|part| part.get(field)).map(|it| it["name"].clone()).collect()
    };
    let is_question = |content: &&Value| content["role"] == "user" && names_in(content, "functionResponse").is_empty();
    let turn = contents.iter().rposition(|content| is_question(&content)).unwrap_or_default();
    let mut open_calls = Vec::new();
    for (at, content) in contents.iter().enumerate() {
        let role = if at % 2 == 0 { "user" } else { "model" };
        require(content["role"] == role && !items(&content["parts"]).is_empty(), "the roles do not alternate")?;
        require(names_in(content, "functionResponse") == open_calls, "the results do not answer the calls before")?;
        open_calls = names_in(content, "functionCall");
        let signatures: Vec<_> =
            items(&content["parts"]).iter().filter_map(|part| part["thoughtSignature"].as_str()).collect();
        if signatures.iter().any(|signature| *signature != ANY_SIGNATURE) {
            require(is_issued(issued, model, content), "a signed content was changed, or is of another model")?;
        }
        let is_signed = at < turn || open_calls.is_empty() || !signatures.is_empty();
        require(is_signed, "a call of the current turn has no signature")?;
    }
    let last = contents.last().filter(|last| last["role"] == "user").ok_or("the last content is not of the user")?;
    let parts = items(&last["parts"]);
    if let Some(text) = parts.last().and_then(|part| part["text"].as_str()) {
        return Ok(LastInput::Question(text.to_owned()));
    }
    let output = |part: &Value| part["functionResponse"]["response"]["output"].as_str().map(str::to_owned);
    Ok(LastInput::Results(parts.iter().filter_map(output).collect()))
}

pub(super) fn reply(answer: &Answer) -> (Vec<Value>, Value) {
    let signature = format!("c2lnbmVk{}", answer.number);
    let mut parts = vec![json!({"text": "Let me see.", "thought": true})];
    let mut streamed = parts.clone();
    if !answer.text.is_empty() {
        parts.push(json!({"text": answer.text}));
        streamed.extend(pieces(&answer.text).map(|text| json!({"text": text})));
    }
    let end = match &answer.call_arguments {
        Some(input) => json!({"functionCall": {"name": "add", "args": input}, "thoughtSignature": signature}),
        None => json!({"text": "", "thoughtSignature": signature}),
    };
    parts.push(end.clone());
    streamed.push(end);
    let count = streamed.len();
    let event = |(at, part): (usize, Value)| {
        let mut candidate = json!({"index": 0, "content": {"role": "model", "parts": [part]}});
        if at + 1 == count {
            candidate["finishReason"] = json!("STOP");
        }
        let usage = json!({"promptTokenCount": 10, "candidatesTokenCount": 20});
        json!({"candidates": [candidate], "usageMetadata": usage, "modelVersion": answer.model,
            "responseId": format!("resp-{}", answer.number)})
    };
    let events = streamed.into_iter().enumerate().map(event).collect();
    (events, json!({"role": "model", "parts": parts}))
}
