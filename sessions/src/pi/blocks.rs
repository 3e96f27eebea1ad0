//! Reads the content blocks of pi.

use store_core::{Block, BlockKind, Opaque, Thinking};

use crate::{
    blocks::{Blocks, SourceCall},
    json::{Object, list, quote, text},
};

/// Reads `content`: text, or a list of blocks.
pub(super) fn read(message: &Object<'_>, is_assistant: bool, blocks: &mut Blocks<'_>) -> Result<(), String> {
    let raw = message.raw("content").ok_or("`content` is missing")?;
    if let Some(text) = text(raw) {
        blocks.push_text(text);
        return Ok(());
    }
    for raw in list(raw).ok_or("`content` is neither text nor a list")? {
        block(raw, is_assistant, blocks);
    }
    Ok(())
}

fn block(raw: &str, is_assistant: bool, blocks: &mut Blocks<'_>) {
    let Some(item) = Object::parse(raw) else { return blocks.push_unknown(raw) };
    match item.text("type").as_deref() {
        Some("text") => match item.text("text") {
            Some(text) => {
                blocks.push_text(text);
                attach(item.text("textSignature"), blocks);
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
                attach(item.text("thoughtSignature"), blocks);
            }
        }
        Some("toolCall") => blocks.push_malformed(raw, "a call outside of an assistant message"),
        _ => blocks.push_unknown(raw),
    }
}

/// Attaches a signature of the provider to the last block.
fn attach(signature: Option<String>, blocks: &mut Blocks<'_>) {
    let origin = blocks.origin.clone();
    if let (Some(signature), Some(block)) = (signature, blocks.list.last_mut()) {
        block.opaque = Some(Opaque::new(origin, quote(&signature)));
    }
}
