//! Encodes entries as lines. The fields have the order in which Agent Core itself writes them.

use store_core::{
    Block, BlockKind, Body, Custom, Json, Message, Role, ToolResult, ToolUse, codec::ObjectWriter as Writer,
};

use super::{METADATA_KIND, TOOL_KIND};
use crate::{
    blocks::joined_text,
    json::Object,
    lines::{AGENTSTORE, AgentstoreField, EncodableEntry},
};

/// Encodes an entry as a line.
///
/// Returns `None` for a tool message that is not exactly one result. The export writes each of its results with
/// [`encode_result`].
///
/// A side entry becomes a `metadata` line, because the format has no side entries: a reader would take any other line
/// for part of the conversation.
pub(crate) fn encode(entry: &EncodableEntry<'_>) -> Option<String> {
    match entry.body {
        Body::Message(message) if !entry.side => encode_message(entry, message),
        Body::Custom(custom) if custom.kind == TOOL_KIND && !entry.side => {
            Some(encode_tool(entry, custom).unwrap_or_else(|| encode_agentstore_field(entry, entry.body)))
        }
        Body::Custom(custom) if custom.kind == METADATA_KIND && !entry.side => {
            Some(encode_line(entry, "metadata", |out| {
                write_timestamp(out, entry);
                out.field("metadata", &custom.data);
            }))
        }
        body => Some(encode_agentstore_field(entry, body)),
    }
}

fn encode_line(entry: &EncodableEntry<'_>, kind: &str, fields: impl FnOnce(&mut Writer<'_>)) -> String {
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    object.field("id", &entry.id.to_owned()).maybe("parentId", entry.parent.map(str::to_owned).as_ref());
    object.field("type", &kind.to_owned());
    fields(&mut object);
    object.close();
    out
}

fn write_timestamp(out: &mut Writer<'_>, entry: &EncodableEntry<'_>) {
    out.maybe("timestamp", entry.timestamp.as_ref());
}

fn encode_message(entry: &EncodableEntry<'_>, message: &Message) -> Option<String> {
    let is_tool = message.provenance.as_ref().and_then(|provenance| provenance.format.as_deref()) == Some(TOOL_KIND);
    match message.role {
        Role::Tool => {
            let [Block { kind: BlockKind::ToolResult(result), .. }] = message.blocks.as_slice() else { return None };
            Some(encode_result(entry, result))
        }
        Role::Assistant if is_tool && let Some(call) = only_call(message) => Some(encode_call(entry, call)),
        Role::Assistant => Some(encode_line(entry, "assistant", |out| {
            out.field("content", &joined_text(&message.blocks));
            write_timestamp(out, entry);
            out.maybe("thinking", thinking_text(message).as_ref());
            write_calls(out, message);
            write_metadata(out, message);
        })),
        Role::User | Role::System => Some(encode_line(entry, message.role.name(), |out| {
            out.field("content", &joined_text(&message.blocks));
            write_timestamp(out, entry);
            write_metadata(out, message);
        })),
    }
}

fn thinking_text(message: &Message) -> Option<String> {
    let texts = message.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Thinking(thinking) if !thinking.redacted => Some(thinking.text.as_str()),
        _ => None,
    });
    let texts: Vec<_> = texts.collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn write_calls(out: &mut Writer<'_>, message: &Message) {
    let calls = message.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::ToolUse(call) => Some(call),
        _ => None,
    });
    let calls: Vec<_> = calls.collect();
    if calls.is_empty() {
        return;
    }
    let text = out.key("toolCalls");
    for (at, call) in calls.into_iter().enumerate() {
        text.push(if at == 0 { '[' } else { ',' });
        let mut object = Writer::open(text);
        object.field("id", &call.id).field("name", &call.name);
        match &call.raw {
            Some(raw) => object.field("params", raw),
            None => object.field("params", &call.input),
        };
        object.close();
    }
    text.push(']');
}

fn write_metadata(out: &mut Writer<'_>, message: &Message) {
    if !message.metadata.is_empty() {
        out.field("metadata", &message.metadata);
    }
}

/// Encodes one result as a line of its own.
pub(crate) fn encode_result(entry: &EncodableEntry<'_>, result: &ToolResult) -> String {
    encode_line(entry, "tool_result", |out| {
        out.field("toolCallId", &result.tool_use_id).field("output", &joined_text(&result.blocks));
        out.maybe("details", result.details.as_ref());
        out.maybe("success", result.is_error.map(|is_error| !is_error).as_ref());
        write_timestamp(out, entry);
    })
}

fn only_call(message: &Message) -> Option<&ToolUse> {
    let [Block { kind: BlockKind::ToolUse(call), .. }] = message.blocks.as_slice() else { return None };
    Some(call)
}

fn encode_call(entry: &EncodableEntry<'_>, call: &ToolUse) -> String {
    encode_line(entry, "tool", |out| {
        out.field("name", &call.name);
        match &call.raw {
            Some(raw) => out.field("params", raw),
            None => out.field("params", &call.input),
        };
        out.field("toolCallId", &call.id);
        write_timestamp(out, entry);
    })
}

fn encode_tool(entry: &EncodableEntry<'_>, custom: &Custom) -> Option<String> {
    let fields = Object::parse(custom.data.as_str())?;
    Some(encode_line(entry, "tool", |out| {
        for (name, raw) in fields.iter() {
            out.key(name).push_str(raw);
        }
        write_timestamp(out, entry);
    }))
}

/// Encodes an entry for which the format has no line, in a form that the importer of this crate reads back.
fn encode_agentstore_field(entry: &EncodableEntry<'_>, body: &Body) -> String {
    agentstore_line(entry, &AgentstoreField::of_body(body, entry.side))
}

/// Encodes the line that names the head, for a thread whose head is not its last line.
pub(crate) fn encode_head(entry: &EncodableEntry<'_>) -> String {
    agentstore_line(entry, &AgentstoreField::head())
}

fn agentstore_line(entry: &EncodableEntry<'_>, agentstore_json: &str) -> String {
    encode_line(entry, "metadata", |out| {
        write_timestamp(out, entry);
        let mut text = String::new();
        let mut metadata = Writer::open(&mut text);
        metadata.field(AGENTSTORE, &Json::parse(agentstore_json).unwrap_or_else(|_| Json::null()));
        metadata.close();
        out.key("metadata").push_str(&text);
    })
}
