//! Reads the items of a rollout as messages. An item has the form of the API OpenAI Responses, so `providers` reads it.

use providers::{Target, normalize};
use store_core::{BlockKind, Json, Message, Role, ToolResult, Visibility};

use super::{canonical_item, origin, turns};
use crate::{
    issue::{IssueCode, Issues},
    json::Object,
    lines::note_bad_field,
};

/// The types of items that Codex writes and that are neither messages nor calls nor results.
const OTHER_TYPES: &[&str] = &[
    "reasoning",
    "web_search_call",
    "image_generation_call",
    "ghost_snapshot",
    "compaction",
    "compaction_summary",
    "context_compaction",
    "agent_message",
    "additional_tools",
];

/// The types of parts that may stand in a message or a result.
const PART_TYPES: &[&str] = &["input_text", "output_text", "text", "input_image", "input_file", "refusal"];

/// The only field of the opaque block that stands for a message without known parts.
const WHOLE_MESSAGE: &str = "message_without_content";

/// The model that made an item, and the platform that served it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ItemOrigin<'a> {
    pub(super) model: Option<&'a str>,
    pub(super) platform: Option<&'a str>,
}

/// The ids of the calls and of the results in an item. Calls of tools that the provider itself runs need no result.
pub(super) fn call_and_result_ids(item: &Object<'_>) -> (Vec<String>, Vec<String>) {
    let id = || canonical_item::call_id(item).into_iter().collect();
    match item.text("type").as_deref() {
        Some("function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call") => (id(), Vec::new()),
        Some(kind) if kind.ends_with("_output") => (Vec::new(), id()),
        _ => (Vec::new(), Vec::new()),
    }
}

/// Whether a model made an item.
pub(super) fn is_of_model(item: &Object<'_>) -> bool {
    match item.text("type").as_deref() {
        None | Some("message") => item.text("role").as_deref() == Some("assistant"),
        Some(kind) => !kind.ends_with("_output"),
    }
}

/// Reads an item as a message. The error says why it cannot be one.
pub(super) fn read(line: u64, raw: &str, item_origin: ItemOrigin<'_>, issues: &mut Issues) -> Result<Message, String> {
    let fields = Object::parse(raw).ok_or("an item that is not an object")?;
    let kind = fields.text("type").unwrap_or_else(|| "message".to_owned());
    let canonical = canonical_item::of(&fields, &kind)?;
    let mut message = normalized(&canonical.json, item_origin)?;
    note_issues(line, &kind, &message, issues);
    for block in &mut message.blocks {
        origin::drop_layout(block);
    }
    if item_origin.model.is_none() {
        origin::remove_models(&mut message);
    }
    if let Some(BlockKind::ToolResult(result)) = message.blocks.first_mut().map(|block| &mut block.kind) {
        result.is_error = canonical.success.map(|success| !success);
    }
    message.visibility = visibility(&kind, &message);
    Ok(message)
}

fn normalized(item: &str, origin: ItemOrigin<'_>) -> Result<Message, String> {
    let provider = "openai-responses".parse().map_err(|e: store_core::Error| e.to_string())?;
    let mut target = Target::new(provider, origin.model.unwrap_or_default());
    target.platform = origin.platform.map(str::to_owned);
    let body = Json::parse(&format!("{{\"input\":[{item}]}}")).map_err(|e| e.to_string())?;
    let messages = normalize(&target, &body).map_err(|e| e.to_string())?.messages;
    messages.into_iter().next().ok_or_else(|| "an item without content".to_owned())
}

/// To whom the message of an item is shown or sent.
fn visibility(kind: &str, message: &Message) -> Visibility {
    let is_added =
        |block: &store_core::Block| matches!(&block.kind, BlockKind::Text(text) if turns::is_added_by_codex(text));
    match kind {
        // A snapshot of the working files, which Codex does not send to a model.
        "ghost_snapshot" => Visibility::Aside,
        _ if message.role == Role::User && message.blocks.first().is_some_and(is_added) => Visibility::Internal,
        _ => Visibility::All,
    }
}

/// Notes what is odd about an item.
fn note_issues(line: u64, kind: &str, message: &Message, issues: &mut Issues) {
    let is_message = kind == "message";
    for block in &message.blocks {
        match &block.kind {
            BlockKind::Opaque(opaque) if is_message => note_part(line, opaque.data.as_str(), issues),
            BlockKind::Opaque(_) if !OTHER_TYPES.contains(&kind) && !kind.starts_with("tool_search") => {
                let detail = format!("an item of type `{kind}`");
                issues.add(line, IssueCode::UnknownType, detail, "kept as an opaque block");
            }
            BlockKind::ToolUse(call) => {
                let is_broken = |raw: &&String| !raw.is_empty() && Json::parse(raw).is_err();
                if call.raw.as_ref().is_some_and(|raw| is_broken(&raw)) {
                    let detail = format!("the arguments of `{}` are not JSON", call.id);
                    issues.add(line, IssueCode::BadArguments, detail, "raw text kept");
                }
            }
            BlockKind::ToolResult(result) if kind != "tool_search_output" => {
                note_parts_of_result(line, result, issues);
            }
            _ => {}
        }
    }
}

fn note_parts_of_result(line: u64, result: &ToolResult, issues: &mut Issues) {
    for part in &result.blocks {
        if let BlockKind::Opaque(opaque) = &part.kind {
            note_part(line, opaque.data.as_str(), issues);
        }
    }
}

/// Notes why a part of a message or a result is only an opaque block.
fn note_part(line: u64, raw: &str, issues: &mut Issues) {
    let part = Object::parse(raw);
    if part.as_ref().is_some_and(|part| part.has(WHOLE_MESSAGE)) {
        return;
    }
    let kind = part.and_then(|part| part.text("type")).unwrap_or_default();
    if PART_TYPES.contains(&kind.as_str()) {
        note_bad_field(issues, line, format!("a part of type `{kind}` with a wrong field"));
    } else if kind != "encrypted_content" {
        issues.add(line, IssueCode::UnknownType, format!("a part of type `{kind}`"), "kept as an opaque block");
    }
}
