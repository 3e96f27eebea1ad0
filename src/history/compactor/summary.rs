//! A summary that replaces messages of a context.

use std::error::Error as StdError;

use store_core::{Block, BlockKind, Message};

/// Why a summary could not be made.
pub type SummaryError = Box<dyn StdError + Send + Sync>;

/// A summary: the blocks that the context contains in place of the summarised messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    blocks: Vec<Block>,
}

impl Summary {
    /// Returns the blocks.
    #[must_use]
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns whether the summary says nothing: all of its text is blank, and it has no image or other media.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        self.blocks.iter().all(|block| match &block.kind {
            BlockKind::Text(text) => text.trim().is_empty(),
            kind => !is_media(kind),
        })
    }

    pub(super) fn into_blocks(self) -> Vec<Block> {
        self.blocks
    }
}

const fn is_media(kind: &BlockKind) -> bool {
    matches!(kind, BlockKind::Image(_) | BlockKind::Document(_) | BlockKind::Audio(_) | BlockKind::Video(_))
}

impl From<String> for Summary {
    fn from(text: String) -> Self {
        Self { blocks: vec![Block::text(text)] }
    }
}

impl From<&str> for Summary {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// Keeps only the text and the media of the blocks, because other blocks cannot be sent to every model.
impl From<Vec<Block>> for Summary {
    fn from(mut blocks: Vec<Block>) -> Self {
        blocks.retain(|block| matches!(block.kind, BlockKind::Text(_)) || is_media(&block.kind));
        Self { blocks }
    }
}

/// Keeps only the text and the media of a model's reply.
impl From<Message> for Summary {
    fn from(message: Message) -> Self {
        message.blocks.into()
    }
}
