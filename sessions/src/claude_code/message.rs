//! Reads the messages of user and assistant lines.

use store_core::{BlockKind, Json, Message, Origin, Provenance, Role, TokenCounts, Usage, Visibility};

use super::{
    agentstore::MessageFields,
    blocks::{ContentPlace, read_content},
    line_format::NodeKind,
};
use crate::{
    blocks::MessageBlocks,
    issue::Issues,
    json::{Object, parse_json_string},
    lines::{ObjectLine, note_bad_field},
};

/// The name of the API in the origin of a message.
pub(super) const API: &str = "anthropic-messages";

/// The name of the provider in the origin of a message.
pub(super) const PROVIDER: &str = "anthropic";

/// The model that Claude Code names for messages that it made itself, such as errors.
pub(super) const SYNTHETIC_MODEL: &str = "<synthetic>";

/// The ids of the calls and of the results in a line.
pub(super) fn call_and_result_ids(line: &Object<'_>, kind: NodeKind) -> (Vec<String>, Vec<String>) {
    let content = line.object("message").and_then(|message| message.list("content")).unwrap_or_default();
    let ids = |block: &str, field: &str| -> Vec<String> {
        let items = content.iter().filter_map(|raw| Object::parse(raw));
        items
            .filter(|item| item.text("type").as_deref() == Some(block))
            .filter_map(|item| item.text(field))
            .filter(|id| !id.trim().is_empty())
            .collect()
    };
    match kind {
        NodeKind::Assistant => (ids("tool_use", "id"), Vec::new()),
        NodeKind::User => (Vec::new(), ids("tool_result", "tool_use_id")),
        NodeKind::Boundary | NodeKind::Other => (Vec::new(), Vec::new()),
    }
}

/// The text of the summary of a compaction.
pub(super) fn compact_summary(line: &Object<'_>) -> Option<String> {
    let message = line.object("message").filter(|_| line.bool("isCompactSummary") == Some(true))?;
    let text = parse_json_string(message.raw("content")?);
    text.or_else(|| {
        let blocks = message.list("content")?;
        let texts: Option<Vec<_>> = blocks.into_iter().map(|raw| Object::parse(raw)?.text("text")).collect();
        Some(texts?.join("\n"))
    })
}

/// The origin of what a model made. Claude Code does not say which endpoint answered. It also works with other models,
/// whose signatures only their own endpoints accept.
pub(super) fn origin_of_model(model: Option<&str>) -> Origin {
    match model {
        None => Origin::new(PROVIDER).with_api(API),
        Some(model) if model.contains("claude") => Origin::new(PROVIDER).with_api(API).with_model(model),
        Some(model) => Origin::new(super::NAME.name()).with_api(API).with_model(model),
    }
}

/// Reads a user line. A line with a result becomes a tool message.
pub(super) fn read_user(line: &ObjectLine<'_>, issues: &mut Issues) -> Result<Message, String> {
    let object = &line.object;
    let message = object.object("message").ok_or("`message` is not an object")?;
    let mut blocks = MessageBlocks::new(line.number, origin_of_model(None), issues);
    read_content(message.raw("content").ok_or("`content` is missing")?, ContentPlace::User, &mut blocks)?;
    let mut list = blocks.list;
    let result = list.iter_mut().find_map(|block| match &mut block.kind {
        BlockKind::ToolResult(result) => Some(result),
        _ => None,
    });
    let details = object.json("toolUseResult");
    let (role, details) = match result {
        Some(result) => {
            result.details = details;
            (Role::Tool, None)
        }
        None => (Role::User, details),
    };
    let mut message = Message::new(role, list);
    message.metadata.extend(details.map(|details| ("toolUseResult".to_owned(), details)));
    with_line_fields(message, object)
}

/// Reads an assistant line. `carries_usage` says whether the usage of the message counts at this line.
pub(super) fn read_assistant(
    line: &ObjectLine<'_>,
    carries_usage: bool,
    issues: &mut Issues,
) -> Result<Message, String> {
    let object = &line.object;
    let source = object.object("message").ok_or("`message` is not an object")?;
    let model = source.text("model");
    let is_synthetic = model.as_deref() == Some(SYNTHETIC_MODEL);
    let origin = origin_of_model(model.as_deref());
    let mut blocks = MessageBlocks::new(line.number, origin.clone(), issues);
    read_content(source.raw("content").ok_or("`content` is missing")?, ContentPlace::Assistant, &mut blocks)?;
    let mut message = Message::new(Role::Assistant, blocks.list);
    if is_synthetic || object.bool("isApiErrorMessage") == Some(true) {
        message.visibility = Visibility::Aside;
    }
    if carries_usage {
        message.usage = read_usage(&source, (line.number, issues));
    }
    message.stop = source.text("stop_reason");
    let mut provenance = Provenance::default();
    provenance.message_id = source.text("id").filter(|id| !id.is_empty());
    provenance.origin = model.filter(|_| !is_synthetic).map(|_| origin);
    message.provenance = (provenance != Provenance::default()).then_some(provenance);
    with_line_fields(message, object)
}

/// Returns the message with the fields of its line that every message can have.
fn with_line_fields(mut message: Message, object: &Object<'_>) -> Result<Message, String> {
    if object.bool("isMeta") == Some(true) && message.visibility == Visibility::All {
        message.visibility = Visibility::Internal;
    }
    MessageFields::of(object).apply(&mut message);
    Ok(message)
}

fn read_usage(message: &Object<'_>, (line, issues): (u64, &mut Issues)) -> Option<Usage> {
    let raw = message.json("usage").filter(|raw| raw.as_str() != "null")?;
    let counts = token_counts(&raw);
    if counts.is_none() {
        note_bad_field(issues, line, "`usage` contains something other than whole numbers");
    }
    let mut usage = Usage::from(counts?);
    usage.raw = Some(raw);
    Some(usage)
}

/// The counts in a usage of Anthropic's API. A count that is missing or null is 0.
pub(super) fn token_counts(raw: &Json) -> Option<TokenCounts> {
    let fields = Object::parse(raw.as_str())?;
    let count = |name: &str| match fields.raw(name) {
        None | Some("null") => Some(0),
        Some(_) => fields.number(name),
    };
    let mut tokens = TokenCounts::new(count("input_tokens")?, count("output_tokens")?);
    tokens.cache_read = count("cache_read_input_tokens")?;
    tokens.cache_write = count("cache_creation_input_tokens")?;
    Some(tokens)
}
