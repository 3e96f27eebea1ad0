//! What is lost when a thread becomes lines of Agent Core.

use store_core::{Block, BlockKind, Entry, Message, Role, Thread, Visibility};

use crate::export::{Loss, Losses, NO_FIELD, note_metadata, note_parent};

/// Notes what is lost of the thread itself.
pub(super) fn note_thread(thread: &Thread, list: &mut Vec<Loss>) {
    if thread.title.is_some() {
        Losses::of_thread(list).add_no_field_for("/title", "title");
    }
    note_parent(thread, NO_FIELD, list);
    note_metadata(thread, |_| false, list);
}

/// Notes what is lost of an entry. `is_own` says whether it was imported from this format. Its line then contains the
/// whole message.
pub(super) fn note_entry(entry: &Entry, is_own: bool, list: &mut Vec<Loss>) {
    let mut losses = Losses::new(&entry.id, list);
    if entry.run.is_some() {
        losses.add_no_field_for("/run", "run");
    }
    if !entry.extra.is_empty() {
        losses.add_no_field_for("", "unknown_field");
    }
    // The body of a side entry is written completely, so nothing of it is lost.
    let Some(message) = entry.message().filter(|_| !entry.side && !is_own) else { return };
    note_message(&mut losses, message);
    if message.role == Role::Tool {
        let is_result = |block: &&Block| matches!(block.kind, BlockKind::ToolResult(_));
        let results = message.blocks.iter().filter(is_result).count();
        if results > 1 {
            losses.add("/blocks", ("split", "a line of the format can contain only one result", "replaced"));
        }
        if results < message.blocks.len() {
            losses.add("/blocks", ("text", "a line with a result contains nothing else", "dropped"));
        }
    }
}

/// Notes what a message loses.
fn note_message(losses: &mut Losses<'_>, message: &Message) {
    let default_visibility = if message.role == Role::System { Visibility::Aside } else { Visibility::All };
    let provenance = message.provenance.as_ref();
    for (is_lost, path, kind) in [
        (message.visibility != default_visibility, "/visibility", "visibility"),
        (message.usage.is_some(), "/usage", "usage"),
        (message.stop.is_some(), "/stop", "stop"),
        (message.role == Role::Tool && !message.metadata.is_empty(), "/metadata", "metadata"),
        (!message.extra.is_empty(), "", "unknown_field"),
        (provenance.is_some_and(|provenance| provenance.message_id.is_some()), "/provenance/message_id", "item_id"),
        (provenance.is_some_and(|provenance| provenance.agent.is_some()), "/provenance/agent", "agent"),
        (provenance.is_some_and(|provenance| provenance.format.is_some()), "/provenance/format", "format"),
        (provenance.is_some_and(|provenance| provenance.origin.is_some()), "/provenance/origin", "origin"),
    ] {
        if is_lost {
            losses.add_no_field_for(path, kind);
        }
    }
    let mut order = BlockOrder::default();
    for (at, block) in message.blocks.iter().enumerate() {
        note_block(losses, (&format!("/blocks/{at}"), block), &mut order);
    }
}

fn note_block(losses: &mut Losses<'_>, (path, block): (&str, &Block), order: &mut BlockOrder) {
    if block.opaque.is_some() {
        losses.add_no_field_for(format!("{path}/opaque"), "signature");
    }
    let inner = match &block.kind {
        BlockKind::Thinking(thinking) => Some(&thinking.extra),
        BlockKind::ToolUse(call) => Some(&call.extra),
        BlockKind::ToolResult(result) => Some(&result.extra),
        _ => None,
    };
    if !block.extra.is_empty() || inner.is_some_and(|extra| !extra.is_empty()) {
        losses.add_no_field_for(path, "unknown_field");
    }
    match &block.kind {
        BlockKind::Text(_) => {
            if order.texts > 0 {
                losses.add(path, ("merged", "the format has one text in a message", "moved"));
            }
            order.texts += 1;
            order.note_if_moved(losses, path, MessagePart::Text);
        }
        BlockKind::Thinking(thinking) if thinking.redacted => {
            losses.add_no_field_for(path, "redacted");
        }
        BlockKind::Thinking(thinking) => {
            if thinking.signature.is_some() {
                losses.add_no_field_for(format!("{path}/signature"), "signature");
            }
            if order.thoughts > 0 {
                losses.add(path, ("merged", "the format has one thinking text in a message", "moved"));
            }
            order.thoughts += 1;
            order.note_if_moved(losses, path, MessagePart::Thinking);
        }
        BlockKind::Image(_) | BlockKind::Document(_) | BlockKind::Audio(_) | BlockKind::Video(_) => {
            losses.add(path, ("unsupported_media", "the format has text only", "dropped"));
        }
        BlockKind::ToolUse(_) => order.note_if_moved(losses, path, MessagePart::Calls),
        BlockKind::ToolResult(result) => {
            let mut inner = BlockOrder::default();
            for (at, block) in result.blocks.iter().enumerate() {
                note_block(losses, (&format!("{path}/blocks/{at}"), block), &mut inner);
            }
        }
        _ => losses.add_no_field_for(path, "unknown_block"),
    }
}

/// The parts of a message, in the order in which the format has them.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum MessagePart {
    #[default]
    Thinking,
    Text,
    Calls,
}

/// Counts the visited blocks of a message, and tracks their order. Blocks in another order than that of [`MessagePart`]
/// are moved, which is a loss.
#[derive(Default)]
struct BlockOrder {
    texts: u32,
    thoughts: u32,
    /// The latest part of which a block was visited.
    latest_part: MessagePart,
}

impl BlockOrder {
    /// Notes a loss if a block of a later part came before this block.
    fn note_if_moved(&mut self, losses: &mut Losses<'_>, path: &str, part: MessagePart) {
        if part < self.latest_part {
            losses.add(path, ("order", "the format has thinking, text and calls in this order", "moved"));
        }
        self.latest_part = self.latest_part.max(part);
    }
}
