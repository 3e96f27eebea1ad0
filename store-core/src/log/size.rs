//! A lower bound for the size of an encoded body. It is the sum of the sizes of the body's texts and values.
//!
//! With it a body that is far too large is refused before memory is spent on encoding it (ER-9).

use super::{Block, BlockKind, Compaction, Media, MediaSource, Message, NewBody};
use crate::{json::Json, limits::length};

fn json(value: &Json) -> u64 {
    length(value.as_str().len())
}

fn text(text: &str) -> u64 {
    length(text.len())
}

impl NewBody {
    /// Returns a lower bound for the size of the encoded body, in bytes.
    pub(crate) fn least_bytes(&self) -> u64 {
        match self {
            Self::Message(message) => message.least_bytes(),
            Self::Compaction(Compaction { summary, replacement, .. }) => {
                let replaced = replacement.iter().flatten().map(Message::least_bytes);
                blocks(summary) + replaced.sum::<u64>()
            }
            Self::Custom(custom) => text(&custom.kind) + json(&custom.data),
            Self::Unknown { kind, data } => text(kind) + json(data),
            Self::Usage(usage) => usage.cost.as_ref().map_or(0, json),
            Self::Checkpoint { .. } | Self::Label(_) | Self::Rewind(_) | Self::Decision(_) => 0,
        }
    }
}

impl Message {
    /// Returns a lower bound for the size of the encoded message, in bytes.
    pub(crate) fn least_bytes(&self) -> u64 {
        blocks(&self.blocks) + self.metadata.iter().map(|(key, value)| text(key) + json(value)).sum::<u64>()
    }
}

fn blocks(blocks: &[Block]) -> u64 {
    blocks.iter().map(|block| kind(&block.kind) + block.opaque.as_ref().map_or(0, |opaque| json(&opaque.data))).sum()
}

fn kind(kind: &BlockKind) -> u64 {
    match kind {
        BlockKind::Text(own) => text(own),
        BlockKind::Thinking(thinking) => text(&thinking.text) + thinking.signature.as_deref().map_or(0, text),
        BlockKind::Image(media) | BlockKind::Document(media) | BlockKind::Audio(media) | BlockKind::Video(media) => {
            source(media)
        }
        BlockKind::ToolUse(call) => json(&call.input) + call.raw.as_deref().map_or(0, text),
        BlockKind::ToolResult(result) => blocks(&result.blocks) + result.details.as_ref().map_or(0, json),
        BlockKind::Opaque(opaque) => json(&opaque.data),
        BlockKind::Unknown { data, .. } => json(data),
    }
}

fn source(media: &Media) -> u64 {
    match &media.source {
        MediaSource::Base64(own) | MediaSource::Url(own) | MediaSource::Blob(own) => text(own),
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, Compaction, Media, MediaSource, Message, NewBody};
    use crate::{Custom, Opaque, Origin, Role, Thinking, ToolResult, codec::Codec, json::Json, pending::PendingBody};

    /// A message with every kind of block, each with 1,000 bytes.
    fn message() -> Message {
        let long = || "x".repeat(1_000);
        let value = || Json::of(&"x".repeat(998)).unwrap();
        let result = ToolResult::new("call", vec![Block::text(long())]);
        let mut thought = Thinking::new("");
        thought.signature = Some(long());
        let mut carrying = Block::text("");
        carrying.opaque = Some(Opaque::new(Origin::new("provider"), value()));
        let image = Media::new(None, MediaSource::Base64(long()));
        let mut message = Message::new(Role::Assistant, vec![Block::text(long()), carrying]);
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
        let message = message();
        let written = PendingBody::Message(message.clone()).encode().len() as u64;
        assert_eq!(message.least_bytes(), 9_000);
        assert!(written > 9_000, "{written}");
        let custom = Custom::new("kind", Json::parse("[1,2,3]").unwrap());
        assert_eq!(NewBody::from(custom).least_bytes(), 11);
        let (summary, replacement) = (vec![Block::text("summary")], Some(vec![message]));
        let compaction = Compaction { summary, replacement, ..Compaction::default() };
        assert_eq!(NewBody::from(compaction).least_bytes(), 9_007);
    }
}
