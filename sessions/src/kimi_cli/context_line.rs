//! What the import keeps of each line of a context file between the two passes.

use std::hash::{DefaultHasher, Hash, Hasher};

use store_core::{BlockKind, NewBody, Role};

use super::{
    line::LineBody,
    message::{COMPACTION_MARKER, SYSTEM_PROMPT_ROLE, comparable_form, first_text, is_injected, plain_text},
};
use crate::{json::Object, source::Line};

/// What is kept of a line of a context file.
#[derive(Debug, Clone)]
pub(super) struct ContextLine {
    pub(super) kind: ContextLineKind,
    /// The hash and the number of its bytes. Lines for which both are equal count as equal.
    pub(super) fingerprint: (u64, usize),
    /// For a message: a hash of its content, which does not depend on how the JSON is written.
    pub(super) content_hash: u64,
    /// For a user message: a hash of its text.
    pub(super) text_hash: Option<u64>,
    /// The ids of the calls in it.
    pub(super) calls: Vec<String>,
    /// The id of the call that it answers.
    pub(super) answered_call: Option<String>,
}

/// What a line of a context file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContextLineKind {
    /// A blank line.
    Blank,
    /// A line that becomes a side entry: usage, a line of an unknown type, or a line that is not a JSON object.
    SideEntry,
    /// The system prompt.
    Prompt,
    /// A checkpoint.
    Checkpoint(u64),
    /// A message.
    Message(Role),
    /// A user message that kimi-cli itself inserted, such as a reminder or a checkpoint.
    Injected,
    /// The message with the summary of a compaction.
    Summary,
}

impl ContextLineKind {
    /// Whether an entry of the tree represents it.
    pub(super) const fn is_node(self) -> bool {
        !matches!(self, Self::Blank | Self::SideEntry)
    }

    /// Whether it is a message of the history.
    pub(super) const fn is_message(self) -> bool {
        matches!(self, Self::Message(_) | Self::Injected | Self::Summary)
    }

    /// Whether it is a message of the user or the assistant. A compaction keeps the last two of these messages.
    pub(super) const fn is_user_or_assistant(self) -> bool {
        matches!(self, Self::Message(Role::User | Role::Assistant) | Self::Injected | Self::Summary)
    }

    /// Whether every history begins with such lines.
    pub(super) const fn is_opening(self) -> bool {
        matches!(self, Self::Prompt | Self::Checkpoint(0))
    }
}

impl ContextLine {
    /// Describes a line that is blank or not a JSON object.
    pub(super) fn blank_or_broken(line: &Line) -> Self {
        let kind = if line.is_blank() { ContextLineKind::Blank } else { ContextLineKind::SideEntry };
        let fingerprint = (hash(&line.bytes), line.bytes.len());
        Self { kind, fingerprint, content_hash: 0, text_hash: None, calls: Vec::new(), answered_call: None }
    }

    /// Describes a line that is an object.
    pub(super) fn of(line: &Line, object: &Object<'_>, line_body: &LineBody) -> Self {
        let mut row = Self::blank_or_broken(line);
        if line_body.side {
            return row;
        }
        let message = match &line_body.body {
            NewBody::Checkpoint { number: Some(number), .. } => {
                row.kind = ContextLineKind::Checkpoint(*number);
                return row;
            }
            NewBody::Message(message) => message,
            _ => return row,
        };
        row.kind = ContextLineKind::Message(message.role);
        row.content_hash = hash(&comparable_form(object));
        for block in &message.blocks {
            match &block.kind {
                BlockKind::ToolUse(call) => row.calls.push(call.id.clone()),
                BlockKind::ToolResult(result) => row.answered_call = Some(result.tool_use_id.clone()),
                _ => {}
            }
        }
        let text = first_text(&message.blocks);
        if object.text("role").as_deref() == Some(SYSTEM_PROMPT_ROLE) {
            row.kind = ContextLineKind::Prompt;
        } else if message.role == Role::User && text == Some(COMPACTION_MARKER) {
            row.kind = ContextLineKind::Summary;
        } else if message.role == Role::User && is_injected(text) {
            row.kind = ContextLineKind::Injected;
        } else if message.role == Role::User {
            row.text_hash = object.raw("content").and_then(plain_text).map(|text| hash(&text));
        }
        row
    }
}

/// A hash for comparisons within one import. It is never stored.
pub(super) fn hash<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
