//! Reads the content blocks of pi.

use store_core::{Block, BlockKind, Opaque, Thinking};

use crate::{
    blocks::{MessageBlocks, SourceCall},
    json::{Object, json_string, parse_json_array, parse_json_string},
};

/// Reads `content`: text, or a list of blocks.
pub(super) fn read_content(
    message: &Object<'_>,
    is_assistant: bool,
    blocks: &mut MessageBlocks<'_>,
) -> Result<(), String> {
    let raw = message.raw("content").ok_or("`content` is missing")?;
    if let Some(text) = parse_json_string(raw) {
        blocks.push_text(text);
        return Ok(());
    }
    for raw in parse_json_array(raw).ok_or("`content` is neither text nor a list")? {
        read_block(raw, is_assistant, blocks);
    }
    Ok(())
}

fn read_block(raw: &str, is_assistant: bool, blocks: &mut MessageBlocks<'_>) {
    let Some(item) = Object::parse(raw) else { return blocks.push_unknown(raw) };
    match item.text("type").as_deref() {
        Some("text") => match item.text("text") {
            Some(text) => {
                blocks.push_text(text);
                attach_signature(item.text("textSignature"), blocks);
            }
            None => blocks.push_malformed(raw, "a text block without text"),
        },
        Some("thinking") => match item.text("thinking") {
            Some(text) => {
                let mut thinking = Thinking::new(text);
                thinking.signature = item.text("thinkingSignature");
                thinking.origin = thinking.signature.as_ref().map(|_| blocks.origin.clone());
                thinking.redacted = item.bool("redacted") == Some(true);
                blocks.list.push(Block::new(BlockKind::Thinking(thinking)));
            }
            None => blocks.push_malformed(raw, "a thinking block without text"),
        },
        Some("image") => blocks.push_image(raw, item.text("data"), item.text("mimeType")),
        Some("toolCall") if is_assistant => {
            let call = SourceCall { id: item.text("id"), name: item.text("name"), arguments: item.raw("arguments") };
            if blocks.push_call(raw, call).is_some() {
                attach_signature(item.text("thoughtSignature"), blocks);
            }
        }
        Some("toolCall") => blocks.push_malformed(raw, "a call outside of an assistant message"),
        _ => blocks.push_unknown(raw),
    }
}

/// Attaches a signature of the provider to the last block.
fn attach_signature(signature: Option<String>, blocks: &mut MessageBlocks<'_>) {
    let origin = blocks.origin.clone();
    if let (Some(signature), Some(block)) = (signature, blocks.list.last_mut()) {
        block.opaque = Some(Opaque::new(origin, json_string(&signature)));
    }
}
