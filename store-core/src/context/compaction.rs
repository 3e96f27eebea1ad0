//! When a context should be compacted, which part of it is compacted, and how a model is asked for the summary (CX-15,
//! CX-18).

use super::{Context, ContextMessage};
use crate::log::{Block, BlockKind, Message, Role};

/// The number of tokens that are kept free for an answer if the caller gives no other value.
pub const DEFAULT_RESERVED_TOKENS: u64 = 50_000;

/// The number of user and assistant messages that a compaction does not summarise if the caller gives no other value.
pub const DEFAULT_KEPT_MESSAGES: usize = 2;

/// The instruction at the end of the message that [`compaction_request`] makes.
pub const COMPACTION_PROMPT: &str = "The messages above are the earlier part of a conversation that continues. Write a \
    summary that replaces them. Keep the task and what the user asked for, decisions with their reasons, facts, \
    names and values that are still needed, what was done and with what result, errors and how they were solved, and \
    what is still open. Leave out what no longer matters. Answer with the summary and nothing else.";

/// Returns whether a context of `usage` tokens leaves at most `reserved` tokens free in the `window` of a model.
///
/// ```
/// use store_core::context::{DEFAULT_RESERVED_TOKENS, is_compaction_due};
///
/// assert!(!is_compaction_due(149_999, DEFAULT_RESERVED_TOKENS, 200_000));
/// assert!(is_compaction_due(150_000, DEFAULT_RESERVED_TOKENS, 200_000));
/// ```
#[must_use]
pub const fn is_compaction_due(usage: u64, reserved: u64, window: u64) -> bool {
    usage.saturating_add(reserved) >= window
}

/// The parts of a context: its beginning, which stays; the part to be summarised; and its end, which stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextSplit<'a> {
    /// System messages at the beginning. They stay, because they are instructions.
    pub system: &'a [ContextMessage],
    /// The messages that a summary is to replace; empty if there is nothing to compact.
    pub older: &'a [ContextMessage],
    /// The messages at the end, which stay.
    pub kept: &'a [ContextMessage],
}

impl<'a> ContextSplit<'a> {
    /// Splits a context so that the message with the index `kept_from` and all later ones stay.
    #[must_use]
    pub fn at(context: &'a Context, kept_from: usize) -> Self {
        let messages = context.messages.as_slice();
        let system_end =
            messages.iter().position(|message| message.message.role != Role::System).unwrap_or(messages.len());
        let (before_kept, kept) = messages.split_at_checked(kept_from).unwrap_or((messages, &[]));
        let (system, older) = before_kept.split_at_checked(system_end).unwrap_or((before_kept, &[]));
        Self { system, older, kept }
    }
}

/// Splits a context so that the last `keep` user or assistant messages stay, together with their results. No call is
/// separated from its result (CX-15).
///
/// If there are fewer than `keep` such messages, or if `keep` is 0, everything is kept.
/// [`LogReaderExt::load_compaction_interval`](crate::LogReaderExt::load_compaction_interval) returns the
/// entries that the compaction covers.
#[must_use]
pub fn split_for_compaction(context: &Context, keep: usize) -> ContextSplit<'_> {
    let messages = context.messages.as_slice();
    let role = |message: &ContextMessage| message.message.role;
    let system_end = messages.iter().position(|message| role(message) != Role::System).unwrap_or(messages.len());
    let is_user_or_assistant =
        |(_, message): &(usize, &ContextMessage)| matches!(role(message), Role::User | Role::Assistant);
    let indexed_messages = messages.iter().enumerate().skip(system_end);
    let kept_from = keep.checked_sub(1).and_then(|nth| indexed_messages.rev().filter(is_user_or_assistant).nth(nth));
    ContextSplit::at(context, kept_from.map_or(system_end, |(at, _)| at))
}

/// Makes the message that asks a model to summarise the older part, or none if there is nothing to compact.
///
/// It is one user message that contains the older messages, with calls and results as text and without thinking.
#[must_use]
pub fn compaction_request(split: &ContextSplit<'_>) -> Option<Message> {
    if split.older.is_empty() {
        return None;
    }
    let mut blocks = Vec::new();
    for message in split.older {
        let portable_blocks: Vec<_> = message.message.blocks.iter().flat_map(portable_blocks).collect();
        if !portable_blocks.is_empty() {
            blocks.push(Block::text(format!("## {}", message.message.role)));
            blocks.extend(portable_blocks);
        }
    }
    blocks.push(Block::text(COMPACTION_PROMPT));
    Some(Message::new(Role::User, blocks))
}

/// Returns a block in a form that any model can read: without thinking, and without data that only its provider
/// understands.
fn portable_blocks(block: &Block) -> Vec<Block> {
    let unchanged = |kind: &BlockKind| vec![Block::new(kind.clone())];
    match &block.kind {
        BlockKind::Text(_) => unchanged(&block.kind),
        BlockKind::Image(_) | BlockKind::Document(_) | BlockKind::Audio(_) | BlockKind::Video(_) => {
            unchanged(&block.kind)
        }
        BlockKind::ToolUse(call) => {
            let input = call.raw.as_deref().unwrap_or(call.input.as_str());
            vec![Block::text(format!("[call `{}` of `{}`: {input}]", call.id, call.name))]
        }
        BlockKind::ToolResult(result) => {
            let what = if result.is_error == Some(true) { "error" } else { "result" };
            let heading = Block::text(format!("[{what} of call `{}`]", result.tool_use_id));
            std::iter::once(heading).chain(result.blocks.iter().flat_map(portable_blocks)).collect()
        }
        BlockKind::Thinking(_) | BlockKind::Opaque(_) | BlockKind::Unknown { .. } => Vec::new(),
    }
}
