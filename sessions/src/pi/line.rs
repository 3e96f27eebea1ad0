//! Encodes entries as lines, if their typed form contains everything. The fields have the order in which pi writes
//! them.

use store_core::{
    Block, BlockKind, Body, Json, JsonMap, MediaSource, Message, Role, ToolResult,
    codec::{Codec, ObjectWriter as Writer},
};

use crate::{
    json::{Object, parse_json_string},
    lines::EncodableEntry,
    time,
};

/// Encodes an entry. `has_no_ids` says whether lines contain no ids. Returns `None` if only the raw bytes can reproduce
/// the line.
pub(super) fn encode(entry: &EncodableEntry<'_>, has_no_ids: bool) -> Option<String> {
    if entry.side {
        return None;
    }
    match entry.body {
        Body::Message(message) => {
            let message = encode_message(message)?;
            Some(encode_line(entry, has_no_ids, "message", |line| line.key("message").push_str(&message)))
        }
        Body::Custom(custom) => {
            let fields = Object::parse(custom.data.as_str())?;
            let kind = custom.kind.strip_prefix("pi.")?;
            Some(encode_line(entry, has_no_ids, kind, |line| {
                for (name, raw) in fields.iter() {
                    line.key(name).push_str(raw);
                }
            }))
        }
        Body::Label(label) => Some(encode_line(entry, has_no_ids, "label", |line| {
            line.field("targetId", &label.target.as_str().to_owned()).maybe("label", label.text.as_ref());
        })),
        _ => None,
    }
}

fn encode_line(
    entry: &EncodableEntry<'_>,
    has_no_ids: bool,
    kind: &str,
    fields: impl FnOnce(&mut Writer<'_>),
) -> String {
    let mut out = String::new();
    let mut line = Writer::open(&mut out);
    line.field("type", &kind.to_owned());
    if !has_no_ids {
        line.field("id", &entry.id.to_owned());
        match entry.parent {
            Some(parent) => line.field("parentId", &parent.to_owned()),
            None => line.field("parentId", &Json::null()),
        };
    }
    line.maybe("timestamp", entry.timestamp.map(time::to_iso).as_ref());
    fields(&mut line);
    line.close();
    out
}

fn encode_message(message: &Message) -> Option<String> {
    let format = message.provenance.as_ref().and_then(|provenance| provenance.format.as_ref());
    if format.is_some() {
        return None;
    }
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    match message.role {
        Role::User => {
            object.field("role", &"user".to_owned());
            write_blocks(&mut object, &message.blocks)?;
        }
        Role::Assistant => write_assistant(&mut object, message)?,
        Role::Tool => {
            let [Block { kind: BlockKind::ToolResult(found), .. }] = message.blocks.as_slice() else { return None };
            write_result(&mut object, found, message)?;
        }
        Role::System => return None,
    }
    write_other_fields(&mut object, &message.metadata, &["toolName"]);
    object.close();
    Some(out)
}

/// Writes the other fields of a message, its time first.
fn write_other_fields(object: &mut Writer<'_>, fields: &JsonMap, written: &[&str]) {
    object.maybe("timestamp", fields.get("timestamp"));
    for (name, value) in fields.iter().filter(|(name, _)| *name != "timestamp" && !written.contains(&name.as_str())) {
        object.field(name, value);
    }
}

fn write_assistant(object: &mut Writer<'_>, message: &Message) -> Option<()> {
    object.field("role", &"assistant".to_owned());
    write_blocks(object, &message.blocks)?;
    let origin = message.provenance.as_ref()?.origin.as_ref()?;
    object.maybe("api", origin.api.as_ref()).field("provider", &origin.provider).maybe("model", origin.model.as_ref());
    object.maybe("usage", message.usage.as_ref().and_then(|usage| usage.raw.as_ref()));
    object.maybe("stopReason", message.stop.as_ref());
    Some(())
}

fn write_result(object: &mut Writer<'_>, result: &ToolResult, message: &Message) -> Option<()> {
    object.field("role", &"toolResult".to_owned()).field("toolCallId", &result.tool_use_id);
    object.maybe("toolName", message.metadata.get("toolName"));
    write_blocks(object, &result.blocks)?;
    object.maybe("details", result.details.as_ref()).maybe("isError", result.is_error.as_ref());
    object.maybe("usage", message.usage.as_ref().and_then(|usage| usage.raw.as_ref()));
    Some(())
}

fn write_blocks(object: &mut Writer<'_>, blocks: &[Block]) -> Option<()> {
    let out = object.key("content");
    out.push('[');
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        encode_block(out, block)?;
    }
    out.push(']');
    Some(())
}

fn encode_block(out: &mut String, block: &Block) -> Option<()> {
    if let BlockKind::Opaque(opaque) = &block.kind {
        opaque.data.write(out);
        return Some(());
    }
    // The opaque data of a block of pi is a signature, which is a text.
    let signature = match &block.opaque {
        Some(opaque) => Some(parse_json_string(opaque.data.as_str())?),
        None => None,
    };
    let mut object = Writer::open(out);
    let kind = |name: &str| name.to_owned();
    match &block.kind {
        BlockKind::Text(text) => {
            object.field("type", &kind("text")).field("text", text).maybe("textSignature", signature.as_ref());
        }
        BlockKind::Thinking(thinking) => {
            object.field("type", &kind("thinking")).field("thinking", &thinking.text);
            object.maybe("thinkingSignature", thinking.signature.as_ref());
            object.maybe("redacted", thinking.redacted.then_some(&true));
        }
        BlockKind::Image(media) => {
            let MediaSource::Base64(data) = &media.source else { return None };
            object.field("type", &kind("image")).field("data", data).maybe("mimeType", media.media_type.as_ref());
        }
        BlockKind::ToolUse(call) => {
            object.field("type", &kind("toolCall")).field("id", &call.id).field("name", &call.name);
            match &call.raw {
                Some(raw) => object.field("arguments", raw),
                None => object.field("arguments", &call.input),
            };
            object.maybe("thoughtSignature", signature.as_ref());
        }
        _ => return None,
    }
    object.close();
    Some(())
}
