//! Rules of the APIs that their schemas do not express. The documentation of the captures lists them by the same names,
//! such as A1.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns which rules a body breaks.
pub(crate) fn broken_rules(api: &str, body: &Value) -> Vec<String> {
    match api {
        "anthropic" => anthropic(body),
        "openai-chat" => openai_chat(body),
        "openai-responses" => openai_responses(body),
        _ => google(body),
    }
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the turns of a conversation. Consecutive messages of one role are one turn.
fn turns<'a>(messages: &'a Value, content: &str) -> Vec<(&'a str, Vec<&'a Value>)> {
    let mut turns: Vec<(&str, Vec<&Value>)> = Vec::new();
    for message in items(messages) {
        let role = text(&message["role"]);
        match turns.last_mut().filter(|(last, _)| *last == role) {
            Some((_, parts)) => parts.extend(items(&message[content])),
            None => turns.push((role, items(&message[content]).iter().collect())),
        }
    }
    turns
}

fn of_type<'a>(blocks: &[&'a Value], kind: &str) -> Vec<&'a Value> {
    blocks.iter().copied().filter(|block| block["type"] == kind).collect()
}

fn anthropic(body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let turns = turns(&body["messages"], "content");
    let mut ids = BTreeSet::new();
    let ids_of = |blocks: &[&Value], kind: &str, field: &str| -> Vec<String> {
        of_type(blocks, kind).iter().map(|block| text(&block[field]).to_owned()).collect()
    };
    let mut open_calls: Vec<String> = Vec::new();
    for (at, (role, blocks)) in turns.iter().enumerate() {
        let results = ids_of(blocks, "tool_result", "tool_use_id");
        if results.iter().collect::<BTreeSet<_>>() != open_calls.iter().collect() || results.len() != open_calls.len() {
            broken.push(format!("A1, A2: results {results:?} for calls {open_calls:?}"));
        }
        if let Some(first) = blocks.iter().position(|block| block["type"] != "tool_result") {
            // Text between results of separate messages of one turn is accepted.
            let has_late_result = blocks.iter().skip(first).any(|block| block["type"] == "tool_result");
            if has_late_result && items(&body["messages"]).len() == turns.len() {
                broken.push("A3: a result after other content".to_owned());
            }
        }
        let is_empty = |content: &Value| content.as_str().map_or(items(content).is_empty(), str::is_empty);
        let failed = of_type(blocks, "tool_result").into_iter().filter(|result| result["is_error"] == true);
        if failed.into_iter().any(|result| is_empty(&result["content"])) {
            broken.push("a failed result without content".to_owned());
        }
        open_calls = ids_of(blocks, "tool_use", "id");
        for id in &open_calls {
            if !ids.insert(id.clone()) {
                broken.push(format!("A5: the id {id} twice"));
            }
        }
        if blocks.iter().any(|block| block["type"] == "text" && text(&block["text"]).trim().is_empty()) {
            broken.push("A6: blank text".to_owned());
        }
        let is_thinking = |block: &&Value| text(&block["type"]).ends_with("thinking");
        if *role == "assistant" && blocks.last().is_some_and(is_thinking) {
            broken.push("A9: thinking at the end".to_owned());
        }
        let is_last = at + 1 == turns.len();
        let last_text = blocks.last().filter(|block| block["type"] == "text").map(|block| text(&block["text"]));
        if is_last && *role == "assistant" && last_text.is_some_and(|text| text.ends_with(char::is_whitespace)) {
            broken.push("A7: white space at the end".to_owned());
        }
    }
    if body.to_string().matches("\"cache_control\":{").count() > 4 {
        broken.push("A14: more than four marks for the cache".to_owned());
    }
    broken
}

fn openai_chat(body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let mut open_calls: BTreeSet<&str> = BTreeSet::new();
    for message in items(&body["messages"]) {
        if message["role"] == "tool" {
            if !open_calls.remove(text(&message["tool_call_id"])) {
                broken.push(format!("C2: a result without a call: {message}"));
            }
            continue;
        }
        if !open_calls.is_empty() {
            broken.push(format!("C1: no results for {open_calls:?}"));
        }
        open_calls = items(&message["tool_calls"]).iter().map(|call| text(&call["id"])).collect();
        if open_calls.iter().any(|id| id.chars().count() > 40) {
            broken.push("C3: a long id".to_owned());
        }
        let may_be_null = message["role"] == "assistant" && (!open_calls.is_empty() || message["refusal"].is_string());
        if message.get("content").is_none_or(Value::is_null) && !may_be_null {
            broken.push("C4: no content".to_owned());
        }
    }
    broken
}

fn openai_responses(body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let (mut calls, mut results, mut ids) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let input = items(&body["input"]);
    for (at, item) in input.iter().enumerate() {
        let call_id = text(&item["call_id"]);
        match text(&item["type"]) {
            "function_call" | "custom_tool_call" => {
                if !calls.insert(call_id) {
                    broken.push(format!("R1: the call {call_id} twice"));
                }
                if call_id.chars().count() > 64 {
                    broken.push("R7: a long id".to_owned());
                }
            }
            "function_call_output" | "custom_tool_call_output" => {
                let is_of_program = item["caller"].is_object();
                if !is_of_program && (!calls.contains(call_id) || !results.insert(call_id)) {
                    broken.push(format!("R1: a second result, or no call, for {call_id}"));
                }
            }
            "reasoning" if item["id"].is_string() => {
                let next = input.get(at + 1);
                let follows = next.is_some_and(|next| {
                    next["type"] != "reasoning" && next["role"] != "user" && !text(&next["type"]).ends_with("_output")
                });
                if !follows {
                    broken.push("R2: reasoning without the item that it led to".to_owned());
                }
            }
            _ => {}
        }
        if let Some(id) = item["id"].as_str() {
            let prefixes =
                [("message", "msg_"), ("reasoning", "rs_"), ("function_call", "fc_"), ("custom_tool_call", "ctc_")];
            let wrong_prefix = prefixes.iter().find(|(kind, prefix)| item["type"] == *kind && !id.starts_with(prefix));
            if wrong_prefix.is_some() || id.is_empty() || id.len() > 64 || !ids.insert(id) {
                broken.push(format!("R6: the id {id}"));
            }
        }
    }
    broken.extend(calls.difference(&results).map(|call| format!("R1: no result for {call}")));
    broken
}

fn google(body: &Value) -> Vec<String> {
    let mut broken = Vec::new();
    let mut open_calls: Vec<&str> = Vec::new();
    for (at, (role, parts)) in turns(&body["contents"], "parts").into_iter().enumerate() {
        let names = |field: &str| -> Vec<&str> {
            parts.iter().filter(|part| part[field].is_object()).map(|part| text(&part[field]["name"])).collect()
        };
        let results = names("functionResponse");
        if results != open_calls {
            broken.push(format!("G1: results of {results:?} for calls of {open_calls:?}"));
        }
        open_calls = names("functionCall");
        if !open_calls.is_empty() && at == 0 {
            broken.push("G2: a call at the beginning".to_owned());
        }
        for part in &parts {
            const DATA: [&str; 7] = [
                "text",
                "inlineData",
                "fileData",
                "functionCall",
                "functionResponse",
                "executableCode",
                "codeExecutionResult",
            ];
            let count = DATA.iter().filter(|name| part.get(**name).is_some()).count();
            let is_blank = part["text"].as_str().is_some_and(|text| text.trim().is_empty());
            if count != 1 || is_blank && part.get("thoughtSignature").is_none() {
                broken.push(format!("G6: a part without one kind of data: {part}"));
            }
        }
        // A content without a role comes from the user.
        if !matches!(role, "user" | "model" | "") {
            broken.push(format!("G8: the role {role}"));
        }
    }
    for content in items(&body["contents"]) {
        if content["parts"].as_array().is_some_and(Vec::is_empty) {
            broken.push("G7: no parts".to_owned());
        }
    }
    broken
}
