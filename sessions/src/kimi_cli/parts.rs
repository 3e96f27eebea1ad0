//! Reads the parts of messages: text, thinking and media.

use store_core::{Block, BlockKind, Json, Media, MediaSource, Opaque, Origin, Thinking};

use crate::{
    blocks::MessageBlocks,
    json::{Object, parse_json_array, parse_json_string},
};

/// The origin of signatures and opaque data. A file does not say which provider kimi-cli used, so the origin is
/// kimi-cli itself.
pub(super) fn origin() -> Origin {
    Origin::new("kimi-cli")
}

/// Reads `content`: text, a list of parts, or nothing.
pub(super) fn read_content(raw: &str, blocks: &mut MessageBlocks<'_>) -> Result<(), String> {
    if raw == "null" {
        return Ok(());
    }
    if let Some(text) = parse_json_string(raw) {
        blocks.push_text(text);
        return Ok(());
    }
    for raw in parse_json_array(raw).ok_or("`content` is neither text nor a list")? {
        read_part(raw, blocks);
    }
    Ok(())
}

fn read_part(raw: &str, blocks: &mut MessageBlocks<'_>) {
    let Some(item) = Object::parse(raw) else { return blocks.push_unknown(raw) };
    let kind = item.text("type").unwrap_or_default();
    match kind.as_str() {
        "text" => match item.text("text") {
            Some(text) => blocks.push_text(text),
            None => blocks.push_malformed(raw, "a text part without text"),
        },
        "think" => read_thinking(raw, &item, blocks),
        "image_url" => read_media(raw, item.object("image_url"), BlockKind::Image, blocks),
        "audio_url" => read_media(raw, item.object("audio_url"), BlockKind::Audio, blocks),
        "video_url" => read_media(raw, item.object("video_url"), BlockKind::Video, blocks),
        "image" => read_media(raw, Some(item), BlockKind::Image, blocks),
        "audio" => read_media(raw, Some(item), BlockKind::Audio, blocks),
        "video" => read_media(raw, Some(item), BlockKind::Video, blocks),
        _ => blocks.push_unknown(raw),
    }
}

fn read_thinking(raw: &str, item: &Object<'_>, blocks: &mut MessageBlocks<'_>) {
    let Some(text) = item.text("think") else { return blocks.push_malformed(raw, "a think part without text") };
    if item.has("encrypted") && item.text("encrypted").is_none() {
        return blocks.push_malformed(raw, "a think part whose `encrypted` is not a string");
    }
    let mut thinking = Thinking::new(text);
    thinking.signature = item.text("encrypted");
    thinking.origin = thinking.signature.as_ref().map(|_| blocks.origin.clone());
    blocks.list.push(Block::new(BlockKind::Thinking(thinking)));
}

fn read_media(raw: &str, item: Option<Object<'_>>, kind: fn(Media) -> BlockKind, blocks: &mut MessageBlocks<'_>) {
    let Some((item, url)) = item.and_then(|item| item.text("url").map(|url| (item, url))) else {
        return blocks.push_malformed(raw, "a medium without a url");
    };
    let media = match split_data_url(&url) {
        Some((media_type, data)) => Media::new(Some(media_type.to_owned()), MediaSource::Base64(data.to_owned())),
        None => Media::new(None, MediaSource::Url(url)),
    };
    let mut block = Block::new(kind(media));
    let id = item.raw("id").filter(|id| *id != "null").and_then(|id| Json::parse(&format!("{{\"id\":{id}}}")).ok());
    block.opaque = id.map(|id| Opaque::new(blocks.origin.clone(), id));
    blocks.list.push(block);
}

/// The media type and the data of a base64 `data:` URL.
fn split_data_url(url: &str) -> Option<(&str, &str)> {
    let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
    (!media_type.is_empty()).then_some((media_type, data))
}
