//! Losses: what a message contains and a format cannot represent.

use serde::Serialize;
use store_core::{Block, BlockKind, EntryId, Message, Role, Visibility};

/// Something that an export could not write as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Loss {
    /// The entry.
    pub entry: EntryId,
    /// A JSON pointer to what was lost: within the entry for a field of the entry, else within the message. It is empty
    /// for the whole entry.
    pub path: String,
    /// The kind of what was lost, such as `signature`.
    pub kind: &'static str,
    /// Why it was lost.
    pub reason: &'static str,
    /// What the export did about it: `dropped`, `moved` or `replaced`.
    pub action: &'static str,
}

/// Collects the losses of one entry.
pub(super) struct Losses<'a> {
    entry: &'a EntryId,
    list: &'a mut Vec<Loss>,
}

impl<'a> Losses<'a> {
    pub(super) const fn new(entry: &'a EntryId, list: &'a mut Vec<Loss>) -> Self {
        Self { entry, list }
    }

    /// Adds a loss with its kind, its reason and the action of the export.
    pub(super) fn add(&mut self, path: impl Into<String>, what: (&'static str, &'static str, &'static str)) {
        let (kind, reason, action) = what;
        self.list.push(Loss { entry: self.entry.clone(), path: path.into(), kind, reason, action });
    }

    /// Notes what a message loses when it becomes lines of Agent Core.
    pub(super) fn note_message(&mut self, message: &Message) {
        let default_visibility = if message.role == Role::System { Visibility::Aside } else { Visibility::All };
        if message.visibility != default_visibility {
            self.add("/visibility", ("visibility", "the format has no field for it", "dropped"));
        }
        if message.usage.is_some() {
            self.add("/usage", ("usage", "the format has no field for it", "dropped"));
        }
        if message.stop.is_some() {
            self.add("/stop", ("stop", "the format has no field for it", "dropped"));
        }
        if message.provenance.as_ref().is_some_and(|provenance| provenance.message_id.is_some()) {
            self.add("/provenance/message_id", ("item_id", "the format has no field for it", "dropped"));
        }
        if matches!(message.role, Role::Tool) && !message.metadata.is_empty() {
            self.add("/metadata", ("metadata", "the format has no field for it in a result", "dropped"));
        }
        let mut order = BlockOrder::default();
        for (at, block) in message.blocks.iter().enumerate() {
            self.note_block(&format!("/blocks/{at}"), block, &mut order);
        }
    }

    fn note_block(&mut self, path: &str, block: &Block, order: &mut BlockOrder) {
        if block.opaque.is_some() {
            self.add(format!("{path}/opaque"), ("signature", "the format has no field for it", "dropped"));
        }
        match &block.kind {
            BlockKind::Text(_) => {
                if order.texts > 0 {
                    self.add(path, ("merged", "the format has one text in a message", "moved"));
                }
                order.texts += 1;
                order.note_if_moved(self, path, 1);
            }
            BlockKind::Thinking(thinking) if thinking.redacted => {
                self.add(path, ("redacted", "the format has no field for it", "dropped"));
            }
            BlockKind::Thinking(thinking) => {
                if thinking.signature.is_some() {
                    self.add(format!("{path}/signature"), ("signature", "the format has no field for it", "dropped"));
                }
                if order.thoughts > 0 {
                    self.add(path, ("merged", "the format has one thinking text in a message", "moved"));
                }
                order.thoughts += 1;
                order.note_if_moved(self, path, 0);
            }
            BlockKind::Image(_) | BlockKind::Document(_) | BlockKind::Audio(_) | BlockKind::Video(_) => {
                self.add(path, ("unsupported_media", "the format has text only", "dropped"));
            }
            BlockKind::ToolUse(_) => order.note_if_moved(self, path, 2),
            BlockKind::ToolResult(result) => {
                let mut inner = BlockOrder::default();
                for (at, block) in result.blocks.iter().enumerate() {
                    self.note_block(&format!("{path}/blocks/{at}"), block, &mut inner);
                }
            }
            _ => self.add(path, ("unknown_block", "the format has no field for it", "dropped")),
        }
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
