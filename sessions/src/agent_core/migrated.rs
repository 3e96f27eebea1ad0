//! Reads lines that Agent Core's migration wrote: content as blocks or parts, and calls in the form of a provider.

use store_core::{Block, BlockKind, Media, MediaSource, Opaque, Origin, Thinking};

use crate::{
    blocks::{MessageBlocks, SourceCall},
    json::{Object, json_string, parse_json_array, parse_json_string},
};

type ReadResult = Result<(), String>;

/// The message in the provider's own form, if the line still contains it. It takes precedence over the other fields.
pub(super) fn original_message<'a>(object: &Object<'a>) -> Option<Object<'a>> {
    let normalized = || object.object("normalized")?.object("metadata");
    let original_format = |metadata: Object<'a>| metadata.object("originalFormat");
    object.object("metadata").and_then(original_format).or_else(|| normalized().and_then(original_format))
}

/// The provider and the model that wrote the content of the line.
pub(super) fn origin_of_line(object: &Object<'_>) -> Option<Origin> {
    let metadata = object.object("metadata");
    let normalized = object.object("normalized").and_then(|normalized| normalized.object("metadata"));
    let provider_name = |metadata: &Object<'_>| metadata.text("migratedFrom").or_else(|| metadata.text("provider"));
    let provider = metadata.as_ref().and_then(provider_name).or_else(|| normalized.as_ref().and_then(provider_name))?;
    let mut origin = Origin::new(provider);
    origin.model = metadata.and_then(|metadata| metadata.text("model"));
    Some(origin)
}

/// Whether the migration wrote the line: it has fields that the format itself does not have, or a list as `content`.
pub(super) fn is_migrated(object: &Object<'_>) -> bool {
    ["parts", "functionCalls", "tool_calls", "normalized"].iter().any(|field| object.has(field))
        || object.list("content").is_some()
}

/// Reads all of a provider's message: thinking, then content or parts, then the calls that these do not contain.
pub(super) fn read_provider_message(object: &Object<'_>, blocks: &mut MessageBlocks<'_>) -> ReadResult {
    if let Some(text) = object.text("thinking") {
        blocks.list.push(Block::new(BlockKind::Thinking(Thinking::new(text))));
    }
    match object.list("parts") {
        Some(parts) => parts.into_iter().for_each(|raw| read_part(raw, blocks)),
        None => read_content(object, blocks)?,
    }
    for raw in object.list("tool_calls").unwrap_or_default() {
        let item = Object::parse(raw);
        let function = item.as_ref().and_then(|item| item.object("function"));
        let (id, name, arguments) = match (&item, &function) {
            (Some(item), Some(function)) => (item.text("id"), function.text("name"), function.raw("arguments")),
            _ => (None, None, None),
        };
        if !id.as_deref().is_some_and(|id| blocks.has_call(id)) {
            blocks.push_call(raw, SourceCall { id, name, arguments });
        }
    }
    for raw in object.list("functionCalls").unwrap_or_default() {
        read_function_call(raw, blocks);
    }
    Ok(())
}

/// Reads `content`: text, or a list of blocks.
pub(super) fn read_content(object: &Object<'_>, blocks: &mut MessageBlocks<'_>) -> ReadResult {
    let raw = object.raw("content").unwrap_or("null");
    if let Some(text) = parse_json_string(raw) {
        if !text.is_empty() {
            blocks.push_text(text);
        }
    } else if let Some(items) = parse_json_array(raw) {
        items.into_iter().for_each(|raw| read_block(raw, blocks));
    } else if raw != "null" || object.text("type").is_some_and(|kind| kind == "user" || kind == "system") {
        return Err("`content` is neither text nor a list".to_owned());
    }
    Ok(())
}

/// Reads a block of an Anthropic message or of an OpenAI chat message.
fn read_block(raw: &str, blocks: &mut MessageBlocks<'_>) {
    let Some(item) = Object::parse(raw) else {
        return match parse_json_string(raw) {
            Some(text) => blocks.push_text(text),
            None => blocks.push_unknown(raw),
        };
    };
    match item.text("type").as_deref() {
        Some("text") if item.text("text").is_some() => blocks.push_text(item.text("text").unwrap_or_default()),
        Some("thinking") => {
            let mut thinking = Thinking::new(item.text("thinking").unwrap_or_default());
            thinking.signature = item.text("signature");
            thinking.origin = thinking.signature.as_ref().map(|_| blocks.origin.clone());
            blocks.list.push(Block::new(BlockKind::Thinking(thinking)));
        }
        Some("redacted_thinking") => {
            let mut thinking = Thinking::new("");
            thinking.signature = item.text("data");
            thinking.origin = Some(blocks.origin.clone());
            thinking.redacted = true;
            blocks.list.push(Block::new(BlockKind::Thinking(thinking)));
        }
        Some("tool_use") => {
            blocks.push_call(
                raw,
                SourceCall { id: item.text("id"), name: item.text("name"), arguments: item.raw("input") },
            );
        }
        Some("image") => read_image(raw, &item, blocks),
        Some("image_url") => match item.object("image_url").and_then(|image| image.text("url")) {
            Some(url) => blocks.list.push(Block::new(BlockKind::Image(Media::new(None, MediaSource::Url(url))))),
            None => blocks.push_malformed(raw, "an image without a url"),
        },
        _ => blocks.push_unknown(raw),
    }
}

fn read_image(raw: &str, item: &Object<'_>, blocks: &mut MessageBlocks<'_>) {
    let Some(source) = item.object("source") else { return blocks.push_malformed(raw, "an image without a source") };
    match source.text("url") {
        Some(url) => blocks.list.push(Block::new(BlockKind::Image(Media::new(None, MediaSource::Url(url))))),
        None => blocks.push_image(raw, source.text("data"), source.text("media_type")),
    }
}

/// Reads a part of a Gemini message.
fn read_part(raw: &str, blocks: &mut MessageBlocks<'_>) {
    let Some(item) = Object::parse(raw) else { return blocks.push_unknown(raw) };
    let count_before = blocks.list.len();
    if item.has("functionCall") {
        read_function_call(item.raw("functionCall").unwrap_or_default(), blocks);
    } else if let Some(data) = item.object("inlineData") {
        blocks.push_image(raw, data.text("data"), data.text("mimeType"));
    } else if let Some(text) = item.text("text") {
        if item.bool("thought") == Some(true) {
            blocks.list.push(Block::new(BlockKind::Thinking(Thinking::new(text))));
        } else {
            blocks.push_text(text);
        }
    } else {
        blocks.push_unknown(raw);
    }
    let signature = item.text("thoughtSignature").filter(|_| blocks.list.len() > count_before);
    // An opaque block contains the whole part, including its signature.
    let block = blocks.list.last_mut().filter(|block| !matches!(block.kind, BlockKind::Opaque(_)));
    if let (Some(signature), Some(block)) = (signature, block) {
        block.opaque = Some(Opaque::new(blocks.origin.clone(), json_string(&signature)));
    }
}

/// Reads a call. If it has no id, its id is made from its line and its position. If `blocks` already contains the same
/// call, it is not added again.
fn read_function_call(raw: &str, blocks: &mut MessageBlocks<'_>) {
    let Some(item) = Object::parse(raw) else { return blocks.push_malformed(raw, "a call that is not an object") };
    let name = item.text("name");
    let arguments = item.json("args");
    let is_repeated = blocks.list.iter().any(|block| match &block.kind {
        BlockKind::ToolUse(call) => match item.text("id") {
            Some(id) => call.id == id,
            None => Some(&call.name) == name.as_ref() && Some(&call.input) == arguments.as_ref(),
        },
        _ => false,
    });
    if !is_repeated {
        let id = item.text("id").unwrap_or_else(|| format!("L{}.{}", blocks.line, blocks.list.len()));
        blocks.push_call(raw, SourceCall { id: Some(id), name, arguments: item.raw("args") });
    }
}
