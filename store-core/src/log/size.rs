//! A lower bound for the size of an encoded body. It is the sum of the sizes of the body's texts and values.
//!
//! With it, a body that is far too large is refused before memory is spent on encoding it (ER-9).

use super::{Block, BlockKind, Compaction, Media, MediaSource, Message, NewBody};
use crate::{json::Json, limits::length};

fn json_bytes(value: &Json) -> u64 {
    length(value.as_str().len())
}

fn text_bytes(text: &str) -> u64 {
    length(text.len())
}

impl NewBody {
    /// Returns a lower bound for the size of the encoded body, in bytes.
    pub(crate) fn min_encoded_bytes(&self) -> u64 {
        match self {
            Self::Message(message) => message.min_encoded_bytes(),
            Self::Compaction(Compaction { summary, replacement, .. }) => {
                let replacement_bytes = replacement.iter().flatten().map(Message::min_encoded_bytes);
                blocks_bytes(summary) + replacement_bytes.sum::<u64>()
            }
            Self::Custom(custom) => text_bytes(&custom.kind) + json_bytes(&custom.data),
            Self::Unknown { kind, data } => text_bytes(kind) + json_bytes(data),
            Self::Usage(usage) => usage.cost.as_ref().map_or(0, json_bytes),
            Self::Checkpoint { .. } | Self::Label(_) | Self::Rewind(_) | Self::Decision(_) => 0,
        }
    }
}

impl Message {
    /// Returns a lower bound for the size of the encoded message, in bytes.
    pub(crate) fn min_encoded_bytes(&self) -> u64 {
        blocks_bytes(&self.blocks)
            + self.metadata.iter().map(|(key, value)| text_bytes(key) + json_bytes(value)).sum::<u64>()
    }
}

impl Block {
    /// Returns a lower bound for the size of the encoded block, in bytes.
    pub(crate) fn min_encoded_bytes(&self) -> u64 {
        block_bytes(&self.kind) + self.opaque.as_ref().map_or(0, |opaque| json_bytes(&opaque.data))
    }
}

fn blocks_bytes(blocks: &[Block]) -> u64 {
    blocks.iter().map(Block::min_encoded_bytes).sum()
}

fn block_bytes(kind: &BlockKind) -> u64 {
    match kind {
        BlockKind::Text(text) => text_bytes(text),
        BlockKind::Thinking(thinking) => {
            text_bytes(&thinking.text) + thinking.signature.as_deref().map_or(0, text_bytes)
        }
        BlockKind::Image(media) | BlockKind::Document(media) | BlockKind::Audio(media) | BlockKind::Video(media) => {
            media_bytes(media)
        }
        BlockKind::ToolUse(call) => json_bytes(&call.input) + call.raw.as_deref().map_or(0, text_bytes),
        BlockKind::ToolResult(result) => blocks_bytes(&result.blocks) + result.details.as_ref().map_or(0, json_bytes),
        BlockKind::Opaque(opaque) => json_bytes(&opaque.data),
        BlockKind::Unknown { data, .. } => json_bytes(data),
    }
}

fn media_bytes(media: &Media) -> u64 {
    match &media.source {
        MediaSource::Base64(text) | MediaSource::Url(text) | MediaSource::Blob(text) => text_bytes(text),
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, Compaction, Media, MediaSource, Message, NewBody};
    use crate::{Custom, Opaque, Origin, Role, Thinking, ToolResult, codec::Codec, json::Json, pending::PendingBody};

    /// A message with every kind of block, each with 1,000 bytes.
    fn message_with_every_block_kind() -> Message {
        let long_text = || "x".repeat(1_000);
        let value = || Json::of(&"x".repeat(998)).unwrap();
        let result = ToolResult::new("call", vec![Block::text(long_text())]);
        let mut thought = Thinking::new("");
        thought.signature = Some(long_text());
        let mut block_with_opaque_data = Block::text("");
        block_with_opaque_data.opaque = Some(Opaque::new(Origin::new("provider"), value()));
        let image = Media::new(None, MediaSource::Base64(long_text()));
        let mut message = Message::new(Role::Assistant, vec![Block::text(long_text()), block_with_opaque_data]);
        message.blocks.push(Block::tool_use("call", "tool", value()));
        for kind in [
            super::BlockKind::ToolResult(result),
            super::BlockKind::Thinking(thought),
            super::BlockKind::Image(image),
            super::BlockKind::Opaque(Opaque::new(Origin::new("provider"), value())),
            super::BlockKind::Unknown { kind: "later".to_owned(), data: value() },
        ] {
            message.blocks.push(Block::new(kind));
        }
        message.metadata.insert(String::new(), value());
        message
    }

    #[test]
    fn a_body_is_never_smaller_than_its_lower_bound() {
        let message = message_with_every_block_kind();
        let encoded_bytes = PendingBody::Message(message.clone()).encode().len() as u64;
        assert_eq!(message.min_encoded_bytes(), 9_000);
        assert!(encoded_bytes > 9_000, "{encoded_bytes}");
        let custom = Custom::new("kind", Json::parse("[1,2,3]").unwrap());
        assert_eq!(NewBody::from(custom).min_encoded_bytes(), 11);
        let (summary, replacement) = (vec![Block::text("summary")], Some(vec![message]));
        let compaction = Compaction { summary, replacement, ..Compaction::default() };
        assert_eq!(NewBody::from(compaction).min_encoded_bytes(), 9_007);
    }
}
