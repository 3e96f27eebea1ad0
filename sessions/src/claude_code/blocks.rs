//! Reads the content blocks of Anthropic's API.

use store_core::{
    Block, BlockKind, Json, Media, MediaSource, Opaque, Thinking, ToolResult, codec::ObjectWriter as Writer,
};

use crate::{
    blocks::{MessageBlocks, SourceCall},
    export::json_pointer,
    json::{Object, parse_json_array, parse_json_string},
};

/// Where content stands. This decides which blocks it may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentPlace {
    User,
    Assistant,
    Result,
}

/// Reads `content`: text, or a list of blocks.
pub(super) fn read_content(raw: &str, place: ContentPlace, blocks: &mut MessageBlocks<'_>) -> Result<(), String> {
    if let Some(text) = parse_json_string(raw) {
        blocks.push_text(text);
        return Ok(());
    }
    for raw in parse_json_array(raw).ok_or("`content` is neither text nor a list")? {
        read_block(raw, place, blocks);
    }
    Ok(())
}

fn read_block(raw: &str, place: ContentPlace, blocks: &mut MessageBlocks<'_>) {
    let Some(item) = Object::parse(raw) else { return blocks.push_unknown(raw) };
    let kind = item.text("type").unwrap_or_default();
    match kind.as_str() {
        "text" => match item.text("text") {
            Some(text) => push(blocks, BlockKind::Text(text), &item, &["text"]),
            None => blocks.push_malformed(raw, "a text block without text"),
        },
        "thinking" => match item.text("thinking") {
            Some(text) => {
                let mut thinking = Thinking::new(text);
                thinking.signature = item.text("signature");
                thinking.origin = thinking.signature.as_ref().map(|_| blocks.origin.clone());
                push(blocks, BlockKind::Thinking(thinking), &item, &["thinking", "signature"]);
            }
            None => blocks.push_malformed(raw, "a thinking block without text"),
        },
        "redacted_thinking" => match item.text("data") {
            Some(data) => {
                let mut thinking = Thinking::default();
                (thinking.signature, thinking.redacted) = (Some(data), true);
                thinking.origin = Some(blocks.origin.clone());
                push(blocks, BlockKind::Thinking(thinking), &item, &["data"]);
            }
            None => blocks.push_malformed(raw, "redacted thinking without data"),
        },
        "image" | "document" => match media_of(&item) {
            Some(media) if kind == "image" => push(blocks, BlockKind::Image(media), &item, &["source"]),
            Some(media) => push(blocks, BlockKind::Document(media), &item, &["source", "title"]),
            None => blocks.push_malformed(raw, "media without a source that can be read"),
        },
        "tool_use" if place == ContentPlace::Assistant => {
            let call = SourceCall { id: item.text("id"), name: item.text("name"), arguments: item.raw("input") };
            if blocks.push_call(raw, call).is_some() {
                attach_other_fields(blocks, &item, &["id", "name", "input"]);
            }
        }
        "tool_result" if place == ContentPlace::User => read_result(raw, &item, blocks),
        "tool_use" | "tool_result" => blocks.push_malformed(raw, format!("a `{kind}` block in a wrong place")),
        _ => blocks.push_unknown(raw),
    }
}

fn read_result(raw: &str, item: &Object<'_>, blocks: &mut MessageBlocks<'_>) {
    let Some(call) = item.text("tool_use_id").filter(|id| !id.trim().is_empty()) else {
        return blocks.push_malformed(raw, "a result without the id of its call");
    };
    let mut content = MessageBlocks::new(blocks.line, blocks.origin.clone(), blocks.issues);
    let outcome = match item.raw("content") {
        None | Some("null") => Ok(()),
        Some(raw) => read_content(raw, ContentPlace::Result, &mut content),
    };
    let content = content.list;
    if let Err(detail) = outcome {
        return blocks.push_malformed(raw, format!("a result: {detail}"));
    }
    let mut result = ToolResult::new(call, content);
    result.is_error = match item.raw("is_error") {
        None | Some("null") => None,
        Some(_) => match item.bool("is_error") {
            Some(is_error) => Some(is_error),
            None => return blocks.push_malformed(raw, "`is_error` of a result is not a boolean"),
        },
    };
    push(blocks, BlockKind::ToolResult(result), item, &["tool_use_id", "content", "is_error"]);
}

fn push(blocks: &mut MessageBlocks<'_>, kind: BlockKind, item: &Object<'_>, read_fields: &[&str]) {
    blocks.list.push(Block::new(kind));
    attach_other_fields(blocks, item, read_fields);
}

/// Attaches to the last block the fields of its item that were not read. They have the form from which the crate
/// `providers` restores them: `{"part":{"set":{POINTER:VALUE}}}`.
fn attach_other_fields(blocks: &mut MessageBlocks<'_>, item: &Object<'_>, read_fields: &[&str]) {
    let other_fields: Vec<_> = item.iter().filter(|(name, _)| *name != "type" && !read_fields.contains(name)).collect();
    let origin = blocks.origin.clone();
    if let (false, Some(block)) = (other_fields.is_empty(), blocks.list.last_mut()) {
        let mut set = String::new();
        let mut object = Writer::open(&mut set);
        for (name, raw) in other_fields {
            object.key(&json_pointer("", name)).push_str(raw);
        }
        object.close();
        let data = Json::parse(&format!("{{\"part\":{{\"set\":{set}}}}}")).unwrap_or_else(|_| Json::null());
        block.opaque = Some(Opaque::new(origin, data));
    }
}

/// The fields that [`read_content`] attached to a block, if the opaque data is of this form.
pub(super) fn attached_fields(opaque: &Opaque) -> Option<Vec<(String, String)>> {
    let data = Object::parse(opaque.data.as_str())?;
    let part = data.object("part").filter(|part| data.iter().count() == 1 && part.iter().count() == 1)?;
    let set = part.object("set")?;
    let fields = set.iter().map(|(pointer, raw)| {
        let name = pointer.strip_prefix('/').filter(|name| !name.contains('/'))?;
        Some((name.replace("~1", "/").replace("~0", "~"), raw.to_owned()))
    });
    fields.collect()
}

fn media_of(item: &Object<'_>) -> Option<Media> {
    use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

    let source = item.object("source")?;
    let media_source = match source.text("type")?.as_str() {
        "base64" => MediaSource::Base64(source.text("data")?),
        "text" => MediaSource::Base64(BASE64.encode(source.text("data")?)),
        "url" => MediaSource::Url(source.text("url")?),
        _ => return None,
    };
    let mut media = Media::new(source.text("media_type"), media_source);
    media.title = item.text("title").filter(|_| item.text("type").as_deref() == Some("document"));
    Some(media)
}
