//! Turns lines into messages and other entries.

use store_core::{Block, Custom, Json, JsonMap, Message, NewBody, Origin, Role, Thinking, ToolResult, Visibility};

use super::{
    AgentCore, LineData, METADATA_KIND, TOOL_KIND,
    calls::{self, has_wrong_call_id},
    migrated,
};
use crate::{
    blocks::{MessageBlocks, SourceCall, with_provenance},
    field_types::{FieldType, note_wrong_types},
    issue::{IssueCode, Issues},
    json::Object,
    lines::{AGENTSTORE, AgentstoreField, BodyAndTime, LinePosition, LineTime, ObjectLine, note_bad_field},
    time,
};

/// The second pass: returns the body and the time of a line.
pub(super) fn read_body_and_time(
    line: &ObjectLine<'_>,
    position: &LinePosition<'_, LineData>,
    format: &AgentCore,
    issues: &mut Issues,
) -> BodyAndTime {
    let time = match line.object.raw("timestamp") {
        None => LineTime::NotGiven,
        Some(raw) => time::read(raw).map_or(LineTime::Invalid, LineTime::At),
    };
    let body = match agentstore_field(&line.object) {
        Some(agentstore_field) => agentstore_field.body(line.object.text("parentId").as_deref(), position),
        None => read_message(line, position, format, issues),
    };
    let body = body.unwrap_or_else(|detail| {
        note_bad_field(issues, line.number, detail);
        custom_of_line(line)
    });
    BodyAndTime { body, time }
}

/// The body of a line that has an unknown type or would be an invalid message: a custom body whose kind is the type of
/// the line, with all other fields of the line.
fn custom_of_line(line: &ObjectLine<'_>) -> NewBody {
    let kind = line.object.text("type").unwrap_or_else(|| "line".to_owned());
    Custom::new(format!("agent-core.{kind}"), remaining_fields(line)).into()
}

fn remaining_fields(line: &ObjectLine<'_>) -> Json {
    line.object.without_fields(&["id", "parentId", "type", "timestamp"])
}

type BodyResult = Result<NewBody, String>;

fn read_message(
    line: &ObjectLine<'_>,
    position: &LinePosition<'_, LineData>,
    format: &AgentCore,
    issues: &mut Issues,
) -> BodyResult {
    let current_origin = position.at.and_then(|at| format.origins.get(at)).map(|origin| &**origin);
    let kind = line.object.text("type").unwrap_or_default();
    match kind.as_str() {
        "user" => read_plain_message(line, Role::User, issues),
        "system" => read_plain_message(line, Role::System, issues),
        "assistant" => read_assistant(line, current_origin, issues),
        "tool" => read_tool_line(line, position, (format, current_origin, issues)),
        "tool_result" => read_result(line, position),
        "metadata" => {
            Ok(Custom::new(METADATA_KIND, line.object.json("metadata").ok_or("`metadata` is missing")?).into())
        }
        _ => {
            issues.add(line.number, IssueCode::UnknownType, format!("the type `{kind}`"), "kept as a custom entry");
            Ok(custom_of_line(line))
        }
    }
}

/// Reads a user or system line.
fn read_plain_message(line: &ObjectLine<'_>, role: Role, issues: &mut Issues) -> BodyResult {
    let mut blocks = MessageBlocks::new(line.number, Origin::new("agent-core"), issues);
    migrated::read_content(&line.object, &mut blocks)?;
    let mut message = Message::new(role, std::mem::take(&mut blocks.list));
    message.metadata = metadata(&line.object)?;
    if role == Role::System {
        message.visibility = Visibility::Aside;
    }
    Ok(message.into())
}

fn metadata(object: &Object<'_>) -> Result<JsonMap, String> {
    if !object.has("metadata") {
        return Ok(JsonMap::new());
    }
    let fields = object.object("metadata").ok_or("`metadata` is not an object")?;
    Ok(fields.iter().filter_map(|(name, raw)| Some((name.to_owned(), Json::parse(raw).ok()?))).collect())
}

fn read_assistant(line: &ObjectLine<'_>, current_origin: Option<&Origin>, issues: &mut Issues) -> BodyResult {
    let object = &line.object;
    let origin = migrated::origin_of_line(object).or_else(|| current_origin.cloned());
    let mut blocks = MessageBlocks::new(line.number, origin.unwrap_or_else(|| Origin::new("agent-core")), issues);
    let original = migrated::original_message(object);
    let is_migrated = original.is_some() || migrated::is_migrated(object);
    if is_migrated {
        migrated::read_provider_message(original.as_ref().unwrap_or(object), &mut blocks)?;
    } else {
        if let Some(text) = object.text("thinking") {
            blocks.list.push(Block::new(store_core::BlockKind::Thinking(Thinking::new(text))));
        }
        migrated::read_content(object, &mut blocks)?;
    }
    read_tool_calls(object, &mut blocks, is_migrated);
    let mut message = Message::new(Role::Assistant, std::mem::take(&mut blocks.list));
    message.metadata = metadata(object)?;
    Ok(with_provenance(message, current_origin, None).into())
}

/// Reads `toolCalls`, the format's own list of calls. In a migrated line the list may repeat calls of the content.
/// These are the same calls and are not added again.
fn read_tool_calls(object: &Object<'_>, blocks: &mut MessageBlocks<'_>, is_migrated: bool) {
    let lists = ["toolCalls", "tool_calls", "functionCalls", "parts"].map(|name| (name, FieldType::List));
    note_wrong_types(blocks.issues, blocks.line, object, &lists);
    note_wrong_types(blocks.issues, blocks.line, object, &[("thinking", FieldType::Text)]);
    for raw in object.list("toolCalls").unwrap_or_default() {
        let Some(item) = Object::parse(raw) else {
            blocks.push_malformed(raw, "a call that is not an object");
            continue;
        };
        let id = item.text("id");
        if !is_migrated || !id.as_deref().is_some_and(|id| blocks.has_call(id)) {
            blocks.push_call(raw, SourceCall { id, name: item.text("name"), arguments: item.raw("params") });
        }
    }
}

/// Reads a `tool` line: a note that a call ran, or the call itself.
fn read_tool_line(
    line: &ObjectLine<'_>,
    position: &LinePosition<'_, LineData>,
    (format, current_origin, issues): (&AgentCore, Option<&Origin>, &mut Issues),
) -> BodyResult {
    let at = position.at.ok_or("a `tool` line outside of the tree")?;
    if has_wrong_call_id(&line.object) {
        return Err("`toolCallId` is not a string".to_owned());
    }
    let made_id = || calls::made_call_id(line.object.text("id").as_deref(), line.number);
    let id = line.object.text("toolCallId").unwrap_or_else(made_id);
    let name = line.object.text("name").filter(|name| !name.trim().is_empty());
    if format.calls.is_declared_by_ancestor(position.tree, at, &id) {
        return Ok(Custom::new(TOOL_KIND, remaining_fields(line)).into());
    }
    if id.trim().is_empty() {
        return Err("`toolCallId` is blank".to_owned());
    }
    let mut blocks = MessageBlocks::new(line.number, Origin::new("agent-core"), issues);
    let call = blocks.tool_use(id, name.ok_or("`name` is missing")?, line.object.raw("params"));
    let message = Message::new(Role::Assistant, vec![Block::new(store_core::BlockKind::ToolUse(call))]);
    Ok(with_provenance(message, current_origin, Some(TOOL_KIND)).into())
}

fn read_result(line: &ObjectLine<'_>, position: &LinePosition<'_, LineData>) -> BodyResult {
    let object = &line.object;
    let nearest_call =
        || if has_wrong_call_id(object) { None } else { calls::nearest_unanswered_call(position.tree, position.at?) };
    let call = object.text("toolCallId").or_else(nearest_call);
    let call = call.filter(|call| !call.trim().is_empty()).ok_or("a result without a call")?;
    let output = object.text("output").ok_or("`output` is not a string")?;
    let mut result = ToolResult::new(call, vec![Block::text(output)]);
    result.details = object.json("details");
    result.is_error = match object.raw("success") {
        None => None,
        Some(_) => Some(!object.bool("success").ok_or("`success` is not a boolean")?),
    };
    Ok(Message::new(Role::Tool, vec![Block::new(store_core::BlockKind::ToolResult(result))]).into())
}

/// Reads `metadata.agentstore` of a line, if the export of this crate wrote the line.
pub(super) fn agentstore_field(object: &Object<'_>) -> Option<AgentstoreField> {
    if object.text("type")? != "metadata" {
        return None;
    }
    let field = AgentstoreField::read(&object.object("metadata")?.object(AGENTSTORE)?)?;
    // Without a parent, the line does not say what the head is.
    let is_complete = !matches!(field, AgentstoreField::Head) || object.text("parentId").is_some();
    is_complete.then_some(field)
}
