//! What a message loses when it becomes lines of Agent Core.

use store_core::{Block, BlockKind, Message, Role, Visibility};

use crate::export::Losses;

/// Notes what a message loses.
pub(super) fn note_message(losses: &mut Losses<'_>, message: &Message) {
    let default_visibility = if message.role == Role::System { Visibility::Aside } else { Visibility::All };
    if message.visibility != default_visibility {
        losses.add("/visibility", ("visibility", "the format has no field for it", "dropped"));
    }
    if message.usage.is_some() {
        losses.add("/usage", ("usage", "the format has no field for it", "dropped"));
    }
    if message.stop.is_some() {
        losses.add("/stop", ("stop", "the format has no field for it", "dropped"));
    }
    if message.provenance.as_ref().is_some_and(|provenance| provenance.message_id.is_some()) {
        losses.add("/provenance/message_id", ("item_id", "the format has no field for it", "dropped"));
    }
    if matches!(message.role, Role::Tool) && !message.metadata.is_empty() {
        losses.add("/metadata", ("metadata", "the format has no field for it in a result", "dropped"));
    }
    let mut order = BlockOrder::default();
    for (at, block) in message.blocks.iter().enumerate() {
        note_block(losses, (&format!("/blocks/{at}"), block), &mut order);
    }
}

fn note_block(losses: &mut Losses<'_>, (path, block): (&str, &Block), order: &mut BlockOrder) {
    if block.opaque.is_some() {
        losses.add(format!("{path}/opaque"), ("signature", "the format has no field for it", "dropped"));
    }
    match &block.kind {
        BlockKind::Text(_) => {
            if order.texts > 0 {
                losses.add(path, ("merged", "the format has one text in a message", "moved"));
            }
            order.texts += 1;
            order.note_if_moved(losses, path, 1);
        }
        BlockKind::Thinking(thinking) if thinking.redacted => {
            losses.add(path, ("redacted", "the format has no field for it", "dropped"));
        }
        BlockKind::Thinking(thinking) => {
            if thinking.signature.is_some() {
                losses.add(format!("{path}/signature"), ("signature", "the format has no field for it", "dropped"));
            }
            if order.thoughts > 0 {
                losses.add(path, ("merged", "the format has one thinking text in a message", "moved"));
            }
            order.thoughts += 1;
            order.note_if_moved(losses, path, 0);
        }
        BlockKind::Image(_) | BlockKind::Document(_) | BlockKind::Audio(_) | BlockKind::Video(_) => {
            losses.add(path, ("unsupported_media", "the format has text only", "dropped"));
        }
        BlockKind::ToolUse(_) => order.note_if_moved(losses, path, 2),
        BlockKind::ToolResult(result) => {
            let mut inner = BlockOrder::default();
            for (at, block) in result.blocks.iter().enumerate() {
                note_block(losses, (&format!("{path}/blocks/{at}"), block), &mut inner);
            }
        }
        _ => losses.add(path, ("unknown_block", "the format has no field for it", "dropped")),
    }
}

/// The blocks of a message that have been visited. The format has thinking first, then text, then calls. Blocks in
/// another order are moved, which is a loss.
#[derive(Default)]
struct BlockOrder {
    texts: u32,
    thoughts: u32,
    /// The greatest part so far: 0 for thinking, 1 for text, 2 for calls.
    greatest_part: u32,
}

impl BlockOrder {
    /// Notes a loss if a block of a later part came before this block.
    fn note_if_moved(&mut self, losses: &mut Losses<'_>, path: &str, part: u32) {
        if part < self.greatest_part {
            losses.add(path, ("order", "the format has thinking, text and calls in this order", "moved"));
        }
        self.greatest_part = self.greatest_part.max(part);
    }
}
