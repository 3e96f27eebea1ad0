//! Turns the messages of a thread into messages in the form of kimi-cli, and notes what is lost.

use store_core::{
    Block, BlockKind, Media, MediaSource, Message, Opaque, Origin, Role, Thinking, ToolResult, ToolUse, Visibility,
};

use crate::{
    blocks::{joined_text, with_provenance},
    export::{Losses, NO_FIELD},
    kimi_cli::{
        encode,
        message::{FAILURE_MARKER, SYSTEM_PROMPT_ROLE, first_text},
        parts,
    },
};

const ONLY_ITS_PROVIDER: &str = "only its provider understands it";

/// The messages that a message becomes. A message with several results becomes one for each result.
pub(super) fn adapt(message: &Message, losses: &mut Losses<'_>) -> Vec<Message> {
    note_fields(message, losses);
    if message.role == Role::Tool {
        return adapt_results(message, losses);
    }
    let mut adapted = Message::new(message.role, Vec::new());
    let mut calls = Vec::new();
    for (at, block) in message.blocks.iter().enumerate() {
        let path = format!("/blocks/{at}");
        if let BlockKind::ToolUse(call) = &block.kind {
            calls.push(adapt_call(block, call, &path, losses));
        } else if let Some(part) = adapt_part(block, &path, losses) {
            if !calls.is_empty() {
                losses.add(path, ("order", "the format has the calls after the parts of a message", "moved"));
            }
            adapted.blocks.push(part);
        }
    }
    adapted.blocks.extend(calls);
    vec![adapted]
}

/// The line with the instructions, which contains one text. Returns `None` if the message contains anything else.
pub(super) fn adapt_prompt(message: &Message, losses: &mut Losses<'_>) -> Option<Message> {
    if message.blocks.is_empty() || message.blocks.iter().any(|block| !matches!(block.kind, BlockKind::Text(_))) {
        return None;
    }
    note_fields(message, losses);
    for (at, block) in message.blocks.iter().enumerate() {
        note_attached(block, &format!("/blocks/{at}"), losses);
    }
    if message.blocks.len() > 1 {
        losses.add("/blocks", ("merged", "the format has one text in the instructions", "replaced"));
    }
    let prompt = Message::new(Role::System, vec![Block::text(joined_text(&message.blocks))]);
    Some(with_provenance(prompt, None, Some(&format!("kimi-cli.{SYSTEM_PROMPT_ROLE}"))))
}

/// The parts of a summary or of a result.
pub(super) fn adapt_parts(blocks: &[Block], path: &str, losses: &mut Losses<'_>) -> Vec<Block> {
    let adapt = |(at, block)| adapt_part(block, &format!("{path}/{at}"), losses);
    blocks.iter().enumerate().filter_map(adapt).collect()
}

/// Notes which fields of a message are lost.
fn note_fields(message: &Message, losses: &mut Losses<'_>) {
    if message.visibility != Visibility::All {
        losses.add("/visibility", ("visibility", NO_FIELD, "dropped"));
    }
    if message.usage.is_some() {
        losses.add("/usage", ("usage", "the format has only the size of the context", "replaced"));
    }
    if message.stop.is_some() {
        losses.add("/stop", ("stop", NO_FIELD, "dropped"));
    }
    if !message.metadata.is_empty() {
        losses.add("/metadata", ("metadata", NO_FIELD, "dropped"));
    }
    if !message.extra.is_empty() {
        losses.add("", ("unknown_field", NO_FIELD, "dropped"));
    }
    let Some(provenance) = &message.provenance else { return };
    if provenance.message_id.is_some() {
        losses.add("/provenance/message_id", ("item_id", NO_FIELD, "dropped"));
    }
    let has_own_format = provenance.format.as_ref().is_none_or(|format| format.starts_with("kimi-cli."));
    if provenance.origin.is_some() || provenance.agent.is_some() || !has_own_format {
        losses.add("/provenance", ("provenance", NO_FIELD, "dropped"));
    }
}

/// Notes the data attached to a block, which the format cannot hold.
fn note_attached(block: &Block, path: &str, losses: &mut Losses<'_>) {
    if block.opaque.is_some() {
        losses.add(format!("{path}/opaque"), ("signature", ONLY_ITS_PROVIDER, "dropped"));
    }
    if !block.extra.is_empty() {
        losses.add(path, ("unknown_field", NO_FIELD, "dropped"));
    }
}

fn is_of_kimi_cli(origin: &Origin) -> bool {
    *origin == parts::origin()
}

fn adapt_part(block: &Block, path: &str, losses: &mut Losses<'_>) -> Option<Block> {
    let kind = match &block.kind {
        BlockKind::Text(text) => BlockKind::Text(text.clone()),
        BlockKind::Thinking(thinking) => BlockKind::Thinking(adapt_thinking(thinking, path, losses)?),
        BlockKind::Image(media) => BlockKind::Image(adapt_media(media, path, losses)?),
        BlockKind::Audio(media) => BlockKind::Audio(adapt_media(media, path, losses)?),
        BlockKind::Video(media) => BlockKind::Video(adapt_media(media, path, losses)?),
        BlockKind::Opaque(opaque) if is_of_kimi_cli(&opaque.origin) => {
            return Some(Block::new(BlockKind::Opaque(Opaque::new(opaque.origin.clone(), opaque.data.clone()))));
        }
        BlockKind::Opaque(_) => {
            losses.add(path, ("opaque", ONLY_ITS_PROVIDER, "dropped"));
            return None;
        }
        BlockKind::Document(_) => {
            losses.add(path, ("unsupported_media", "the format has no documents", "dropped"));
            return None;
        }
        _ => {
            losses.add(path, ("unknown_block", "the format has no such part", "dropped"));
            return None;
        }
    };
    let mut part = Block::new(kind);
    let is_media = matches!(part.kind, BlockKind::Image(_) | BlockKind::Audio(_) | BlockKind::Video(_));
    let is_id = |opaque: &&Opaque| is_media && is_of_kimi_cli(&opaque.origin) && encode::media_id(opaque).is_some();
    part.opaque = block.opaque.as_ref().filter(is_id).cloned();
    if part.opaque.is_none() || !block.extra.is_empty() {
        note_attached(block, path, losses);
    }
    Some(part)
}

/// Thinking without its signature, unless kimi-cli itself stored that signature.
fn adapt_thinking(thinking: &Thinking, path: &str, losses: &mut Losses<'_>) -> Option<Thinking> {
    let is_of_kimi_cli = thinking.origin.as_ref().is_some_and(is_of_kimi_cli);
    if thinking.redacted && !is_of_kimi_cli {
        losses.add(path, ("redacted", ONLY_ITS_PROVIDER, "dropped"));
        return None;
    }
    if thinking.redacted {
        losses.add(format!("{path}/redacted"), ("redacted", NO_FIELD, "dropped"));
    }
    let mut adapted = Thinking::new(&thinking.text);
    if is_of_kimi_cli {
        adapted.signature.clone_from(&thinking.signature);
    } else if thinking.signature.is_some() {
        losses.add(format!("{path}/signature"), ("signature", ONLY_ITS_PROVIDER, "dropped"));
    }
    Some(adapted)
}

fn adapt_media(media: &Media, path: &str, losses: &mut Losses<'_>) -> Option<Media> {
    if media.title.is_some() {
        losses.add(format!("{path}/title"), ("title", NO_FIELD, "dropped"));
    }
    let media_type = media.media_type.as_ref().filter(|media_type| !media_type.is_empty());
    match &media.source {
        MediaSource::Base64(data) => {
            if media_type.is_none() {
                losses.add(format!("{path}/media_type"), ("media_type", "the format needs one", "replaced"));
            }
            let media_type = media_type.map_or("application/octet-stream", String::as_str);
            Some(Media::new(Some(media_type.to_owned()), MediaSource::Base64(data.clone())))
        }
        MediaSource::Url(url) => {
            if media_type.is_some() {
                losses.add(format!("{path}/media_type"), ("media_type", NO_FIELD, "dropped"));
            }
            Some(Media::new(None, MediaSource::Url(url.clone())))
        }
        MediaSource::Blob(_) => {
            losses.add(path, ("unsupported_media", "its bytes are not in the thread", "dropped"));
            None
        }
    }
}

/// A call whose arguments are text.
fn adapt_call(block: &Block, call: &ToolUse, path: &str, losses: &mut Losses<'_>) -> Block {
    let mut adapted = ToolUse::new(&call.id, &call.name, call.input.clone());
    adapted.raw = Some(call.raw.clone().unwrap_or_else(|| call.input.as_str().to_owned()));
    let mut adapted = Block::new(BlockKind::ToolUse(adapted));
    adapted.opaque = block.opaque.as_ref().filter(|opaque| encode::call_extras(opaque).is_some()).cloned();
    if adapted.opaque.is_none() || !block.extra.is_empty() {
        note_attached(block, path, losses);
    }
    adapted
}

fn adapt_results(message: &Message, losses: &mut Losses<'_>) -> Vec<Message> {
    let mut adapted = Vec::new();
    for (at, block) in message.blocks.iter().enumerate() {
        let path = format!("/blocks/{at}");
        if let BlockKind::ToolResult(result) = &block.kind {
            note_attached(block, &path, losses);
            let result = adapt_result(result, &path, losses);
            adapted.push(Message::new(Role::Tool, vec![Block::new(BlockKind::ToolResult(result))]));
        } else {
            losses.add(path, ("text", "a line with a result contains nothing else", "dropped"));
        }
    }
    if adapted.len() > 1 {
        losses.add("/blocks", ("split", "a line of the format can contain only one result", "replaced"));
    }
    adapted
}

fn adapt_result(result: &ToolResult, path: &str, losses: &mut Losses<'_>) -> ToolResult {
    let mut adapted = ToolResult::new(&result.tool_use_id, Vec::new());
    adapted.blocks = adapt_parts(&result.blocks, &format!("{path}/blocks"), losses);
    adapted.is_error = result.is_error;
    if result.details.is_some() {
        losses.add(format!("{path}/details"), ("details", "only the wire file has a field for it", "moved"));
        adapted.details.clone_from(&result.details);
    }
    match result.is_error {
        None => {
            let loss = ("is_error", "the format always says whether a tool failed", "replaced");
            losses.add(format!("{path}/is_error"), loss);
        }
        Some(true) if first_text(&adapted.blocks).is_none_or(|text| !text.starts_with(FAILURE_MARKER)) => {
            let loss = ("is_error", "the format marks a failure in the text of the result", "replaced");
            losses.add(format!("{path}/is_error"), loss);
            mark_failure(&mut adapted.blocks);
        }
        Some(_) => {}
    }
    adapted
}

/// Marks the first text of a result as kimi-cli marks the message of a failed tool.
fn mark_failure(blocks: &mut Vec<Block>) {
    let marked = |text: &str| Block::text(format!("{FAILURE_MARKER} {text}</system>"));
    match blocks.first_mut() {
        Some(first) if matches!(first.kind, BlockKind::Text(_)) => {
            *first = marked(&joined_text(std::slice::from_ref(first)));
        }
        _ => blocks.insert(0, marked("the tool failed")),
    }
}
