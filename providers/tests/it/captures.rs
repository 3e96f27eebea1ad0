//! Tests with bodies that were captured from the real APIs (SE-7, SE-8).
//!
//! The captures are not part of this repository. Set `AGENTSTORE_ORACLES` to the folder that contains `providers/`.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use jsonschema::Validator;
use providers::{CompileOptions, Compiled, Target, check, compile, normalize};
use serde_json::Value;
use store_core::{Block, BlockKind, Context, ContextMessage, EntryId, Json, Message, Role};

use crate::{accounting::unreported_losses, rules};

/// The folder of the captures, or `None` if it does not exist.
static FOLDER: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let from_variable = std::env::var_os("AGENTSTORE_ORACLES").map(PathBuf::from);
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/oracles");
    let folder = from_variable.unwrap_or_else(default).join("providers");
    folder.join("index.json").is_file().then_some(folder)
});

/// For each API: its name in the captures, its name in this crate, and the name of the field with the history.
pub(crate) const APIS: [(&str, &str, &str); 4] = [
    ("anthropic", "anthropic", "messages"),
    ("chat-completions", "openai-chat", "messages"),
    ("responses", "openai-responses", "input"),
    ("google", "google", "contents"),
];

fn folder() -> Option<&'static Path> {
    if FOLDER.is_none() {
        println!("not run: no captures; set AGENTSTORE_ORACLES");
    }
    FOLDER.as_deref()
}

fn read(path: &Path) -> Option<Value> {
    let text = fs::read_to_string(path).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

fn json(value: &Value) -> Json {
    Json::of(value).unwrap()
}

fn api_name(capture_name: &str) -> &'static str {
    APIS.iter().find(|(capture, ..)| *capture == capture_name).unwrap().1
}

fn history_field(capture_name: &str) -> &'static str {
    APIS.iter().find(|(capture, ..)| *capture == capture_name).unwrap().2
}

fn target(capture_name: &str, model: &str) -> Target {
    Target::new(api_name(capture_name).parse().unwrap(), model)
}

fn context(messages: Vec<Message>) -> Context {
    let mut context = Context::default();
    for (at, message) in messages.into_iter().enumerate() {
        store_core::log::check_message(&message).unwrap();
        context.messages.push(ContextMessage::new(EntryId::new(at.to_string()).unwrap(), false, message));
    }
    context
}

fn compiled(messages: &[Message], target: &Target) -> Compiled {
    compile(&context(messages.to_vec()), target, &CompileOptions::default()).unwrap()
}

fn body(compiled: &Compiled) -> Value {
    serde_json::from_str(compiled.body.as_str()).unwrap()
}

/// Returns the history of a request: the conversation as a list, and the instructions before it.
fn history(request: &Value, field: &str) -> (Vec<Value>, Value) {
    let conversation = match &request[field] {
        Value::String(text) => vec![serde_json::json!({"role": "user", "content": text})],
        list => list.as_array().unwrap().clone(),
    };
    let system = ["system", "instructions", "systemInstruction", "system_instruction"];
    let system = system.iter().map(|name| &request[*name]).find(|value| !value.is_null()).cloned();
    (conversation, system.unwrap_or_default())
}

/// A captured request, with what the API returned for it.
struct Capture {
    name: String,
    folder: PathBuf,
    /// The entry of the capture in `index.json`.
    index_entry: Value,
}

impl Capture {
    fn all() -> Vec<Self> {
        let Some(folder) = folder() else { return Vec::new() };
        let index = read(&folder.join("index.json")).unwrap();
        let entries = index["snapshots"].as_array().unwrap().iter();
        let capture = |entry: &Value| {
            let (case, provider) = (entry["case"].as_str().unwrap(), entry["provider"].as_str().unwrap());
            let sub = if case == "thinkingSignatureRequest" { "extra" } else { "snapshots" };
            let name = format!("{case}/{provider}");
            Self { folder: folder.join(sub).join(&name), name, index_entry: entry.clone() }
        };
        entries.map(capture).collect()
    }

    fn provider(&self) -> &str {
        let provider = self.index_entry["provider"].as_str().unwrap();
        if provider == "vertex-anthropic" { "anthropic" } else { provider }
    }

    fn target(&self) -> Target {
        target(self.provider(), self.index_entry["model"].as_str().unwrap())
    }

    fn file(&self, name: &str) -> Option<Value> {
        read(&self.folder.join(format!("{name}.json")))
    }

    fn messages(&self, value: &Value) -> Vec<Message> {
        normalize(&self.target(), &json(value)).unwrap_or_else(|e| panic!("{}: {e}", self.name)).messages
    }
}

/// Compiles messages for a model. Returns the first loss, or else the first difference from the expected history, or
/// `None` if there is neither.
fn difference(messages: &[Message], target: &Target, field: &str, expected: &(Vec<Value>, Value)) -> Option<String> {
    let compiled = compiled(messages, target);
    let (conversation, system) = history(&body(&compiled), field);
    let (expected_conversation, expected_system) = expected;
    if let Some(loss) = compiled.losses.first() {
        return Some(format!("a loss: {loss}"));
    }
    if conversation.len() != expected_conversation.len() {
        return Some(format!("{} items instead of {}", conversation.len(), expected_conversation.len()));
    }
    let first_difference = conversation.iter().zip(expected_conversation).find(|(have, want)| have != want);
    if let Some((have, want)) = first_difference {
        return Some(format!("\n  have {have}\n  want {want}"));
    }
    (system != *expected_system).then(|| format!("\n  have {system}\n  want {expected_system}"))
}

#[test]
fn captured_follow_up_requests_are_reproduced() {
    let mut failures = Vec::new();
    let (mut exact_count, mut stream_count) = (0, 0);
    for capture in Capture::all() {
        let (target, field) = (capture.target(), history_field(capture.provider()));
        let Some(request) = capture.file("request") else { continue };
        let mut messages = capture.messages(&request);
        if let Some(streamed) = capture.file("response-streaming") {
            let reply = capture.messages(&streamed);
            let mut recompiled = compiled(&reply, &target);
            let first_body = body(&recompiled);
            let normalized = normalize(&target, &recompiled.body).unwrap();
            recompiled = compiled(&normalized.messages, &target);
            stream_count += 1;
            if body(&recompiled) != first_body {
                failures.push(format!(
                    "{} (streamed): {} instead of {first_body}",
                    capture.name,
                    recompiled.body.as_str()
                ));
            }
        }
        if capture.index_entry["continuation"] != "exact" {
            let text = difference(&messages, &target, field, &history(&request, field));
            if let Some(text) = text.filter(|_| capture.index_entry["request_accepted"] == true) {
                failures.push(format!("{} (request): {text}", capture.name));
            }
            continue;
        }
        messages.extend(capture.messages(&capture.file("response").unwrap()));
        let follow_up = capture.file("followup-request").unwrap();
        let (mut expected, system) = history(&follow_up, field);
        // The follow-up request has the history of the request, the reply, and one more message.
        let added_message = expected.pop().unwrap();
        let mut text = difference(&messages, &target, field, &(expected.clone(), system.clone()));
        if text.is_none() {
            expected.push(added_message);
            let messages = capture.messages(&follow_up);
            text = difference(&messages, &target, field, &(expected, system));
        }
        match text {
            None => exact_count += 1,
            Some(text) => failures.push(format!("{}: {text}", capture.name)),
        }
        let differs = failures.last().is_some_and(|text| text.starts_with(&capture.name));
        println!("{}: {}", capture.name, if differs { "differs" } else { "same" });
    }
    println!("{exact_count} follow-ups reproduced, {stream_count} streamed replies");
    assert!(failures.is_empty(), "{}\n{}", failures.len(), failures.join("\n"));
}

/// Models of each API, to which histories of the other APIs are sent.
const MODELS: [(&str, &str); 6] = [
    ("anthropic", "claude-sonnet-4-5-20250929"),
    ("anthropic", "claude-opus-4-8"),
    ("chat-completions", "gpt-5-nano"),
    ("responses", "gpt-5.4-mini"),
    ("google", "gemini-2.5-flash"),
    ("google", "gemini-3-flash-preview"),
];

/// Returns the schema of the history of an API.
pub(crate) fn schema(capture_name: &str) -> Option<Validator> {
    let schema = read(&folder()?.join(format!("specs/{capture_name}.schema.json")))?;
    Some(jsonschema::validator_for(&schema).unwrap())
}

/// Returns what is wrong with a body: where it breaks the schema or a rule of its API.
fn faults(capture_name: &str, body: &Value, schema: &Validator) -> Vec<String> {
    let errors = schema.iter_errors(body).map(|error| format!("schema, {}: {error}", error.instance_path()));
    let mut faults: Vec<String> = errors.map(|text| text.chars().take(300).collect()).collect();
    faults.extend(rules::broken_rules(api_name(capture_name), body));
    faults
}

/// Adds results for the calls of the last message, as the context of a thread does.
fn answer_open_calls(messages: &mut Vec<Message>) {
    let results: Vec<Block> = messages
        .last()
        .into_iter()
        .flat_map(|message| &message.blocks)
        .filter_map(|block| {
            let BlockKind::ToolUse(call) = &block.kind else { return None };
            Some(Block::tool_result(&call.id, vec![Block::text("no result was recorded")]))
        })
        .collect();
    if !results.is_empty() {
        messages.push(Message::new(Role::Tool, results));
    }
}

#[test]
fn histories_of_one_api_are_valid_for_every_other_api() {
    let mut failures = Vec::new();
    let mut pairs = 0;
    for (name, model) in MODELS {
        let Some(schema) = schema(name) else { return };
        for capture in Capture::all() {
            let Some(request) = capture.file("request") else { continue };
            let mut messages = capture.messages(&request);
            messages.extend(capture.file("response").iter().flat_map(|reply| capture.messages(reply)));
            answer_open_calls(&mut messages);
            let compiled = compiled(&messages, &target(name, model));
            let mut faults = faults(name, &body(&compiled), &schema);
            faults.extend(unreported_losses(&messages, &compiled).into_iter().map(|text| format!("lost: {text}")));
            pairs += 1;
            failures.extend(faults.into_iter().map(|text| format!("{} to {model}: {text}", capture.name)));
        }
    }
    println!("{pairs} pairs of a history and a target");
    assert!(failures.is_empty(), "{}\n{}", failures.len(), failures.join("\n"));
}

/// Removes fields that are null, which the API reads as absent.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

#[test]
fn accepted_translations_compile_to_themselves() {
    let Some(folder) = folder() else { return };
    let index = read(&folder.join("index.json")).unwrap();
    let (mut failures, mut accepted) = (Vec::new(), 0);
    for entry in index["transforms"].as_array().unwrap() {
        let text = |name: &str| entry[name].as_str().unwrap();
        let (name, case) = (text("target"), text("case"));
        let path = folder.join(format!("transforms/{}_to_{name}/{case}/request.json", text("source")));
        let Some(mut request) = read(&path) else { continue };
        if name == "google" {
            without_nulls(&mut request);
        }
        let target = target(name, text("model"));
        let messages = normalize(&target, &json(&request)).unwrap_or_else(|e| panic!("{case} to {name}: {e}")).messages;
        let field = history_field(name);
        accepted += 1;
        let mut faults: Vec<String> =
            difference(&messages, &target, field, &history(&request, field)).into_iter().collect();
        let schema = schema(name).unwrap();
        faults.extend(self::faults(name, &body(&compiled(&messages, &target)), &schema));
        failures.extend(faults.into_iter().map(|text| format!("{}_to_{name}/{case}: {text}", entry["source"])));
    }
    println!("{accepted} accepted translations");
    assert!(failures.is_empty(), "{}\n{}", failures.len(), failures.join("\n"));
}

/// For each request that an API refused because of its history or its tools: a text that the report must contain. The
/// other refused requests were refused because of their options, which this crate does not read.
const REFUSED: [(&str, &str); 5] = [
    ("anthropicMidConversationSystemMessage/anthropic", "system messages only before the conversation"),
    ("chatCompletionsGcsBackedVideoFileParam/chat-completions", "takes no such media"),
    ("chatCompletionsUrlBackedVideoFileParam/chat-completions", "takes no such media"),
    ("exclusiveMinimumToolParam/google", "exclusiveMinimum"),
    ("chat-completions_to_google/chatCompletionsGcsBackedVideoFileParam", "takes no such media"),
];

#[test]
fn the_report_states_why_an_api_refuses_a_request() {
    let Some(folder) = folder() else { return };
    for (name, cause) in REFUSED {
        let (first, second) = name.split_once('/').unwrap();
        let captured = read(&folder.join(format!("snapshots/{name}/request.json")));
        let translated =
            || read(&folder.join(format!("transforms/{name}/refused.json"))).map(|file| file["request"].clone());
        let Some(request) = captured.or_else(translated) else { continue };
        let provider = first.split_once("_to_").map_or(second, |(_, target)| target);
        let model = match name {
            "anthropicMidConversationSystemMessage/anthropic" => "claude-sonnet-4-5-20250929",
            _ => "gemini-2.5-flash",
        };
        let target = target(provider, model);
        let normalized = normalize(&target, &json(&request)).unwrap();
        let mut options = CompileOptions::default();
        options.settings = Some(normalized.settings);
        let report = check(&context(normalized.messages), &target, &options).unwrap();
        let text = serde_json::to_string(&report).unwrap();
        println!("{name}: {text}");
        assert!(text.contains(cause), "{name}: {text}");
        assert!(!report.compatible, "{name}");
    }
}
