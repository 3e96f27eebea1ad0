//! The number of tokens of a context: a count of its messages, and the size that a provider reported.

use std::sync::Arc;

use store_core::{Block, BlockKind, ContextMessage, Message, ThreadContext};

/// Counts the tokens of a message.
pub(super) type TokenCounter = Arc<dyn Fn(&Message) -> u64 + Send + Sync>;

/// The bytes of text that the estimate counts as one token.
const BYTES_PER_TOKEN: usize = 4;
/// The tokens that the estimate adds for each message, for its role and the markers around it.
const TOKENS_PER_MESSAGE: u64 = 4;
/// The tokens that the estimate counts for an image, a document, audio or a video. The number of bytes of such a block
/// says little about its tokens.
const TOKENS_PER_MEDIA_BLOCK: u64 = 1_600;

/// The number of tokens of a context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextTokens {
    /// The tokens of the messages, as counted by the counter of the [`Compactor`](super::Compactor).
    pub counted: u64,
    /// The newest size of the context that a provider reported on the path, if there is one (EN-29). It includes
    /// content that is not in the log, such as tools, but not the messages that were added since.
    pub reported: Option<u64>,
}

impl ContextTokens {
    pub(super) fn of(found: &ThreadContext, counter: &TokenCounter) -> Self {
        Self { counted: count(&found.context.messages, counter), reported: found.context_size }
    }

    /// Returns the larger of the two numbers.
    #[must_use]
    pub fn size(self) -> u64 {
        self.reported.map_or(self.counted, |reported| reported.max(self.counted))
    }
}

pub(super) fn count(messages: &[ContextMessage], counter: &TokenCounter) -> u64 {
    messages.iter().map(|message| counter(&message.message)).fold(0, u64::saturating_add)
}

/// Estimates the tokens of a message without the tokenizer of a model: one token for every four bytes of text, and
/// a fixed number for each image, document, audio or video.
///
/// ```
/// use agentstore::{Message, estimate_tokens};
///
/// assert_eq!(estimate_tokens(&Message::user("x".repeat(400))), 104);
/// ```
#[must_use]
pub fn estimate_tokens(message: &Message) -> u64 {
    message.blocks.iter().map(estimate_block).fold(TOKENS_PER_MESSAGE, u64::saturating_add)
}

fn estimate_block(block: &Block) -> u64 {
    match &block.kind {
        BlockKind::Text(text) => tokens_of_bytes(text.len()),
        BlockKind::Thinking(thinking) => {
            tokens_of_bytes(thinking.text.len().max(thinking.signature.as_deref().map_or(0, str::len)))
        }
        BlockKind::Image(_) | BlockKind::Document(_) | BlockKind::Audio(_) | BlockKind::Video(_) => {
            TOKENS_PER_MEDIA_BLOCK
        }
        BlockKind::ToolUse(call) => {
            let input = call.raw.as_deref().unwrap_or_else(|| call.input.as_str());
            tokens_of_bytes(call.id.len() + call.name.len() + input.len())
        }
        BlockKind::ToolResult(result) => result
            .blocks
            .iter()
            .map(estimate_block)
            .fold(tokens_of_bytes(result.tool_use_id.len()), u64::saturating_add),
        BlockKind::Opaque(opaque) => tokens_of_bytes(opaque.data.as_str().len()),
        BlockKind::Unknown { data, .. } => tokens_of_bytes(data.as_str().len()),
        // A kind that a later version of `store-core` adds.
        _ => 0,
    }
}

fn tokens_of_bytes(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(BYTES_PER_TOKEN)).unwrap_or(u64::MAX)
}
