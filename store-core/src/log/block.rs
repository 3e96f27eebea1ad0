//! Blocks: the parts of a message.

use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, record, serde_by_codec},
    json::Json,
};

/// The provider, API, model and endpoint that content comes from.
///
/// Signatures and opaque data keep their origin, because only the origin understands them (EN-20).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Origin {
    /// The name of the provider.
    pub provider: String,
    /// The API of the provider.
    pub api: Option<String>,
    /// The name of the model.
    pub model: Option<String>,
    /// The endpoint, if it is not the provider's own.
    pub endpoint: Option<String>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Origin { provider: req, api: opt, model: opt, endpoint: opt });

impl Origin {
    /// Creates an origin with only the provider set.
    #[must_use]
    pub fn new(provider: impl Into<String>) -> Self {
        Self { provider: provider.into(), api: None, model: None, endpoint: None, extra: Extra::default() }
    }

    /// Sets the model.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the API.
    #[must_use]
    pub fn with_api(mut self, api: impl Into<String>) -> Self {
        self.api = Some(api.into());
        self
    }
}

/// Data that only its origin understands, such as encrypted reasoning or ids of items.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opaque {
    /// The origin that understands the data.
    pub origin: Origin,
    /// The data.
    pub data: Json,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Opaque { origin: req, data: req });

impl Opaque {
    /// Creates opaque data that `origin` understands (EN-20).
    #[must_use]
    pub fn new(origin: Origin, data: Json) -> Self {
        Self { origin, data, extra: Extra::default() }
    }
}

/// Thinking that a model produced.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Thinking {
    /// The text. It may be empty if only the signature counts.
    pub text: String,
    /// The provider's proof that its model produced the thinking.
    pub signature: Option<String>,
    /// The origin that accepts the signature.
    pub origin: Option<Origin>,
    /// Whether the provider removed the text. If so, the signature contains the text in encrypted form.
    pub redacted: bool,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Thinking { text: req, signature: opt, origin: opt, redacted: def });

impl Thinking {
    /// Creates thinking with this text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Where the bytes of an image, a document, audio or a video are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaSource {
    /// In the block itself, as base64.
    Base64(String),
    /// At this URL.
    Url(String),
    /// Outside of the record, as a blob with this SHA-256.
    Blob(String),
}

/// An image, a document, audio or a video.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Media {
    /// The media type, such as `image/png`.
    pub media_type: Option<String>,
    /// Where the bytes are.
    pub source: MediaSource,
    /// The title.
    pub title: Option<String>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

impl Media {
    /// Creates a medium whose bytes are at `source`.
    #[must_use]
    pub fn new(media_type: Option<String>, source: MediaSource) -> Self {
        Self { media_type, source, title: None, extra: Extra::default() }
    }
}

impl Codec for Media {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.maybe("media_type", self.media_type.as_ref());
        match &self.source {
            MediaSource::Base64(text) => object.field("base64", text),
            MediaSource::Url(url) => object.field("url", url),
            MediaSource::Blob(hash) => object.field("blob", hash),
        };
        object.maybe("title", self.title.as_ref()).extra(&self.extra);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let media_type = fields.maybe("media_type")?;
        let source = if let Some(text) = fields.maybe("base64")? {
            MediaSource::Base64(text)
        } else if let Some(url) = fields.maybe("url")? {
            MediaSource::Url(url)
        } else {
            MediaSource::Blob(fields.take("blob")?)
        };
        Ok(Self { media_type, source, title: fields.maybe("title")?, extra: fields.rest()? })
    }
}

serde_by_codec!(Media);

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolUse {
    /// The id that the result refers to.
    ///
    /// It is not blank and is unique in its message. The provider assigns it, so it is plain text and not one of the id
    /// types of this crate.
    pub id: String,
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    pub input: Json,
    /// The arguments as text, if they came as text or are not JSON.
    pub raw: Option<String>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(ToolUse { id: req, name: req, input: req, raw: opt });

impl ToolUse {
    /// Creates the call `id` of the tool `name`.
    #[must_use]
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Json) -> Self {
        Self { id: id.into(), name: name.into(), input, raw: None, extra: Extra::default() }
    }
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolResult {
    /// The id of the call that this result answers.
    pub tool_use_id: String,
    /// The output of the tool.
    pub blocks: Vec<Block>,
    /// Whether the tool failed. If absent, this is unknown.
    pub is_error: Option<bool>,
    /// Details for people, as JSON. They are never sent to a model.
    pub details: Option<Json>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(ToolResult { tool_use_id: req, blocks: req, is_error: opt, details: opt });

impl ToolResult {
    /// Creates the result of the call `tool_use_id`.
    #[must_use]
    pub fn new(tool_use_id: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self { tool_use_id: tool_use_id.into(), blocks, is_error: None, details: None, extra: Extra::default() }
    }
}

/// One part of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Block {
    /// The kind of the block, with its content.
    pub kind: BlockKind,
    /// Data that the provider of the block attached to it.
    pub opaque: Option<Opaque>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

/// The kinds of blocks, with their content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BlockKind {
    /// Text.
    Text(String),
    /// Thinking that a model produced.
    Thinking(Thinking),
    /// An image.
    Image(Media),
    /// A document.
    Document(Media),
    /// Audio.
    Audio(Media),
    /// A video.
    Video(Media),
    /// A call of a tool. It occurs only in assistant messages.
    ToolUse(ToolUse),
    /// The result of a tool call. It occurs only in tool messages.
    ToolResult(ToolResult),
    /// Data that only its origin understands.
    Opaque(Opaque),
    /// A kind that this release does not know, kept unchanged (ID-11).
    Unknown {
        /// The name of the kind.
        kind: String,
        /// The data of the block.
        data: Json,
    },
}

impl BlockKind {
    /// Returns whether `name` is the name of a kind that this release knows.
    #[must_use]
    pub fn is_known(name: &str) -> bool {
        const NAMES: [&str; 9] =
            ["text", "thinking", "image", "document", "audio", "video", "tool_use", "tool_result", "opaque"];
        NAMES.contains(&name)
    }
}

impl Block {
    /// Creates a block of this kind.
    #[must_use]
    pub fn new(kind: BlockKind) -> Self {
        Self { kind, opaque: None, extra: Extra::default() }
    }

    /// Creates a block of text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(BlockKind::Text(text.into()))
    }

    /// Creates a block with a call of a tool.
    #[must_use]
    pub fn tool_use(id: impl Into<String>, name: impl Into<String>, input: Json) -> Self {
        Self::new(BlockKind::ToolUse(ToolUse::new(id, name, input)))
    }

    /// Creates a block with the result of a tool call.
    #[must_use]
    pub fn tool_result(tool_use_id: impl Into<String>, blocks: Vec<Self>) -> Self {
        Self::new(BlockKind::ToolResult(ToolResult::new(tool_use_id, blocks)))
    }
}

/// Written as `{"<kind>": …, "opaque"?: …}`. A block that has only the field `opaque` is an opaque block.
impl Codec for Block {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        match &self.kind {
            BlockKind::Text(text) => object.field("text", text),
            BlockKind::Thinking(thinking) => object.field("thinking", thinking),
            BlockKind::Image(media) => object.field("image", media),
            BlockKind::Document(media) => object.field("document", media),
            BlockKind::Audio(media) => object.field("audio", media),
            BlockKind::Video(media) => object.field("video", media),
            BlockKind::ToolUse(call) => object.field("tool_use", call),
            BlockKind::ToolResult(result) => object.field("tool_result", result),
            BlockKind::Opaque(opaque) => object.field("opaque", opaque),
            BlockKind::Unknown { kind, data } => object.field(kind, data),
        };
        object.maybe("opaque", self.opaque.as_ref()).extra(&self.extra);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        // Other programs may write the fields in another order, and then `opaque` may come before the kind.
        let kind = fields.names().find(|name| *name != "opaque" && BlockKind::is_known(name));
        let first = fields.first().map(|(name, _)| name).ok_or_else(|| DecodeError::new("is an empty block"))?;
        let name = if first == "opaque" { kind.unwrap_or(first) } else { first }.to_owned();
        let kind = match name.as_str() {
            "text" => BlockKind::Text(fields.take(&name)?),
            "thinking" => BlockKind::Thinking(fields.take(&name)?),
            "image" => BlockKind::Image(fields.take(&name)?),
            "document" => BlockKind::Document(fields.take(&name)?),
            "audio" => BlockKind::Audio(fields.take(&name)?),
            "video" => BlockKind::Video(fields.take(&name)?),
            "tool_use" => BlockKind::ToolUse(fields.take(&name)?),
            "tool_result" => BlockKind::ToolResult(fields.take(&name)?),
            "opaque" => BlockKind::Opaque(fields.take(&name)?),
            _ => BlockKind::Unknown { data: fields.take(&name)?, kind: name },
        };
        Ok(Self { kind, opaque: fields.maybe("opaque")?, extra: fields.rest()? })
    }
}

serde_by_codec!(Block);

#[cfg(test)]
mod tests {
    use super::Block;
    use crate::codec::Codec;

    fn check_round_trip(raw: &str) {
        assert_eq!(Block::read(raw).unwrap().encode(), raw);
    }

    #[test]
    fn every_kind_round_trips_with_its_unknown_fields() {
        check_round_trip(r#"{"text":"hi"}"#);
        check_round_trip(r#"{"text":"hi","opaque":{"origin":{"provider":"p"},"data":{"id":1.0}},"later":[1E5]}"#);
        check_round_trip(
            r#"{"thinking":{"text":"","signature":"s","origin":{"provider":"p","model":"m"},"redacted":true}}"#,
        );
        check_round_trip(r#"{"image":{"media_type":"image/png","base64":"AA==","title":"t","dpi":72}}"#);
        check_round_trip(r#"{"document":{"url":"u"}}"#);
        check_round_trip(r#"{"audio":{"blob":"00"}}"#);
        check_round_trip(r#"{"tool_use":{"id":"c","name":"n","input":{"a":1e2,"a":2},"raw":"{"}}"#);
        check_round_trip(
            r#"{"tool_result":{"tool_use_id":"c","blocks":[{"text":"x"}],"is_error":false,"details":null}}"#,
        );
        check_round_trip(r#"{"opaque":{"origin":{"provider":"p"},"data":[]}}"#);
        check_round_trip(r#"{"hologram":{"w":3,"h":1.50},"opaque":{"origin":{"provider":"p"},"data":1}}"#);
    }

    #[test]
    fn the_kind_may_come_after_the_opaque_data() {
        let block = Block::read(r#"{"opaque":{"origin":{"provider":"p"},"data":1},"text":"hi"}"#).unwrap();
        assert_eq!(block.encode(), r#"{"text":"hi","opaque":{"origin":{"provider":"p"},"data":1}}"#);
    }

    #[test]
    fn only_the_last_of_duplicate_fields_is_kept() {
        let block = Block::read(r#"{"tool_use":{"id":"a","name":"n","id":"b","input":1}}"#).unwrap();
        let written = block.encode();
        assert_eq!(written, r#"{"tool_use":{"id":"b","name":"n","input":1}}"#);
        assert_eq!(Block::read(&written).unwrap(), block);
    }

    #[test]
    fn an_invalid_block_is_refused() {
        for raw in ["{}", "1", r#"{"text":1}"#, r#"{"image":{}}"#, r#"{"tool_use":{"id":"c"}}"#] {
            assert!(Block::read(raw).is_err(), "{raw}");
        }
    }
}
