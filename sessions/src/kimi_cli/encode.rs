//! Encodes entries as lines exactly as kimi-cli writes them, if the bodies of the entries contain everything.

use store_core::{
    Block, BlockKind, Body, Json, Media, MediaSource, Message, Opaque, Role, ToolUse,
    codec::{Codec, ObjectWriter as Writer},
};

use super::{message::SYSTEM_PROMPT_ROLE, parts};
use crate::json::{Object, parse_json_string};

/// Encodes an entry of a context. Returns `None` if only the raw bytes can reproduce the line.
pub(super) fn encode_context_line(body: &Body) -> Option<String> {
    match body {
        Body::Checkpoint(checkpoint) if checkpoint.label.is_none() => {
            Some(format!("{{\"role\": \"_checkpoint\", \"id\": {}}}", checkpoint.number))
        }
        Body::Usage(usage) if usage.spent.is_none() && usage.cost.is_none() && usage.model.is_none() => {
            Some(format!("{{\"role\": \"_usage\", \"token_count\": {}}}", usage.context_size?))
        }
        Body::Message(message) => encode_message(message),
        _ => None,
    }
}

/// Encodes a record of the wire file: its data, with a space after every colon and comma outside of strings.
pub(super) fn encode_wire_record(body: &Body) -> Option<String> {
    let Body::Custom(custom) = body else { return None };
    Some(with_spaces(custom.data.as_str()))
}

/// A JSON text with a space after every colon and comma outside of strings.
pub(super) fn with_spaces(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 9 / 8);
    let (mut in_string, mut is_escaped) = (false, false);
    for char in json.chars() {
        out.push(char);
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' if in_string => is_escaped = true,
            '"' => in_string = !in_string,
            ':' | ',' if !in_string => out.push(' '),
            _ => {}
        }
    }
    out
}

/// Encodes a message. Returns `None` if a line cannot contain all of it.
pub(super) fn encode_message(message: &Message) -> Option<String> {
    let format = message.provenance.as_ref().and_then(|provenance| provenance.format.as_deref());
    let role = match (format, message.role) {
        (None, role) => role.to_string(),
        (Some(format), Role::System) => {
            format.strip_prefix("kimi-cli.").filter(|role| *role == SYSTEM_PROMPT_ROLE)?.to_owned()
        }
        (Some(_), _) => return None,
    };
    if !message.metadata.is_empty() {
        return None;
    }
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    object.field("role", &role);
    if let [Block { kind: BlockKind::ToolResult(result), .. }] = message.blocks.as_slice() {
        write_content(object.key("content"), result.blocks.iter())?;
        object.field("tool_call_id", &result.tool_use_id);
    } else {
        write_content(object.key("content"), message.blocks.iter().filter(|block| as_tool_use(block).is_none()))?;
        write_calls(&mut object, &message.blocks)?;
    }
    object.close();
    Some(out)
}

pub(super) fn as_tool_use(block: &Block) -> Option<&ToolUse> {
    match &block.kind {
        BlockKind::ToolUse(call) => Some(call),
        _ => None,
    }
}

/// Writes the content of a message. A single text is written as a string.
pub(super) fn write_content<'a>(out: &mut String, parts: impl Iterator<Item = &'a Block>) -> Option<()> {
    let parts: Vec<_> = parts.collect();
    if let [Block { kind: BlockKind::Text(text), opaque: None, .. }] = parts.as_slice() {
        text.write(out);
        return Some(());
    }
    out.push('[');
    for (at, block) in parts.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_part(out, block)?;
    }
    out.push(']');
    Some(())
}

/// Writes a part of a message.
pub(super) fn write_part(out: &mut String, block: &Block) -> Option<()> {
    let (name, media) = match &block.kind {
        BlockKind::Opaque(opaque) => {
            opaque.data.write(out);
            return Some(());
        }
        BlockKind::Text(text) if block.opaque.is_none() => {
            let mut object = Writer::open(out);
            object.field("type", &"text".to_owned()).field("text", text);
            object.close();
            return Some(());
        }
        BlockKind::Thinking(thinking) => {
            let mut object = Writer::open(out);
            object.field("type", &"think".to_owned()).field("think", &thinking.text);
            write_nullable(&mut object, "encrypted", thinking.signature.as_ref());
            object.close();
            return Some(());
        }
        BlockKind::Image(media) => ("image_url", media),
        BlockKind::Audio(media) => ("audio_url", media),
        BlockKind::Video(media) => ("video_url", media),
        _ => return None,
    };
    let id = match &block.opaque {
        Some(opaque) => Some(media_id(opaque)?),
        None => None,
    };
    let mut object = Writer::open(out);
    object.field("type", &name.to_owned());
    let mut inner = Writer::open(object.key(name));
    inner.field("url", &media_url(media)?);
    write_nullable(&mut inner, "id", id.as_ref());
    inner.close();
    object.close();
    Some(())
}

/// The id of a medium. kimi-cli attaches nothing else to a medium.
pub(super) fn media_id(opaque: &Opaque) -> Option<String> {
    parse_json_string(Object::parse(opaque.data.as_str())?.raw("id")?)
}

fn write_nullable(object: &mut Writer<'_>, name: &str, value: Option<&String>) {
    match value {
        Some(value) => object.field(name, value),
        None => object.field(name, &Json::null()),
    };
}

fn media_url(media: &Media) -> Option<String> {
    match &media.source {
        MediaSource::Base64(data) => Some(format!("data:{};base64,{data}", media.media_type.as_ref()?)),
        MediaSource::Url(url) => Some(url.clone()),
        MediaSource::Blob(_) => None,
    }
}

fn write_calls(object: &mut Writer<'_>, blocks: &[Block]) -> Option<()> {
    let calls: Vec<_> = blocks.iter().filter(|block| as_tool_use(block).is_some()).collect();
    if calls.is_empty() {
        return Some(());
    }
    let out = object.key("tool_calls");
    out.push('[');
    for (at, block) in calls.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let mut object = Writer::open(out);
        write_call(&mut object, as_tool_use(block)?)?;
        if let Some(opaque) = &block.opaque {
            object.field("extras", call_extras(opaque)?);
        }
        object.close();
    }
    out.push(']');
    Some(())
}

/// Writes the fields of a call, without those that kimi-cli attaches to it.
pub(super) fn write_call(object: &mut Writer<'_>, call: &ToolUse) -> Option<()> {
    object.field("type", &"function".to_owned()).field("id", &call.id);
    let mut function = Writer::open(object.key("function"));
    function.field("name", &call.name).field("arguments", call.raw.as_ref()?);
    function.close();
    Some(())
}

/// What kimi-cli attached to a call.
pub(super) fn call_extras(opaque: &Opaque) -> Option<&Json> {
    (opaque.origin == parts::origin()).then_some(&opaque.data)
}
