//! Builds the blocks that several formats have: calls with arguments of any kind, media, and blocks of unknown types.

use store_core::{Block, BlockKind, Json, Media, MediaSource, Message, Opaque, Origin, ToolUse};

use crate::{
    issue::{IssueCode, Issues},
    json::{Object, parse_json_string},
    lines::note_bad_field,
};

/// The blocks of one message that were read so far, and the line for which issues are noted.
pub(crate) struct MessageBlocks<'a> {
    pub(crate) line: u64,
    pub(crate) origin: Origin,
    pub(crate) issues: &'a mut Issues,
    pub(crate) list: Vec<Block>,
}

impl<'a> MessageBlocks<'a> {
    pub(crate) const fn new(line: u64, origin: Origin, issues: &'a mut Issues) -> Self {
        Self { line, origin, issues, list: Vec::new() }
    }

    pub(crate) fn push_text(&mut self, text: String) {
        self.list.push(Block::text(text));
    }

    /// Adds a block of an unknown type, as an opaque block: only the provider that made it understands it.
    pub(crate) fn push_unknown(&mut self, raw: &str) {
        let kind = Object::parse(raw).and_then(|object| object.text("type")).unwrap_or_default();
        self.issues.add(
            self.line,
            IssueCode::UnknownType,
            format!("a block of type `{kind}`"),
            "kept as an opaque block",
        );
        self.push_opaque(raw);
    }

    /// Adds a block of a known type with a wrong field, as an opaque block.
    pub(crate) fn push_malformed(&mut self, raw: &str, detail: impl Into<String>) {
        note_bad_field(self.issues, self.line, detail);
        self.push_opaque(raw);
    }

    fn push_opaque(&mut self, raw: &str) {
        let data = Json::parse(raw).unwrap_or_else(|_| Json::null());
        self.list.push(Block::new(BlockKind::Opaque(Opaque::new(self.origin.clone(), data))));
    }

    /// Whether the message already contains a call with this id.
    pub(crate) fn has_call(&self, id: &str) -> bool {
        self.list.iter().any(|block| matches!(&block.kind, BlockKind::ToolUse(call) if call.id == id))
    }

    /// Adds a call, and returns its block. A call without an id or a name, or with an id that the message already
    /// contains, is added as an opaque block instead, and the result is `None`.
    pub(crate) fn push_call(&mut self, raw: &str, call: SourceCall<'_>) -> Option<&mut Block> {
        let SourceCall { id, name, arguments } = call;
        let (Some(id), Some(name)) =
            (id.filter(|id| !id.trim().is_empty()), name.filter(|name| !name.trim().is_empty()))
        else {
            self.push_malformed(raw, "a call without an id or a name");
            return None;
        };
        if self.has_call(&id) {
            self.push_malformed(raw, format!("a second call with the id `{id}`"));
            return None;
        }
        let call = self.tool_use(id, name, arguments);
        self.list.push(Block::new(BlockKind::ToolUse(call)));
        self.list.last_mut()
    }

    /// Builds a call. If its arguments are text, the call keeps the text. Its input is then the JSON in the text, or an
    /// empty object if the text is not JSON.
    pub(crate) fn tool_use(&mut self, id: String, name: String, arguments: Option<&str>) -> ToolUse {
        let empty_object = || Json::parse("{}").unwrap_or_else(|_| Json::null());
        let Some(raw) = arguments.filter(|raw| *raw != "null") else { return ToolUse::new(id, name, empty_object()) };
        let Some(argument_text) = parse_json_string(raw) else {
            return ToolUse::new(id, name, Json::parse(raw).unwrap_or_else(|_| empty_object()));
        };
        let input = match Json::parse(&argument_text) {
            Ok(input) => input,
            Err(_) if argument_text.is_empty() => empty_object(),
            Err(_) => {
                let detail = format!("the arguments of `{id}` are not JSON");
                self.issues.add(self.line, IssueCode::BadArguments, detail, "raw text kept");
                empty_object()
            }
        };
        let mut call = ToolUse::new(id, name, input);
        call.raw = Some(argument_text);
        call
    }

    /// Adds an image with inline bytes.
    pub(crate) fn push_image(&mut self, raw: &str, data: Option<String>, media_type: Option<String>) {
        match data {
            Some(data) => {
                let media = Media::new(media_type, MediaSource::Base64(data));
                self.list.push(Block::new(BlockKind::Image(media)));
            }
            None => self.push_malformed(raw, "an image without data"),
        }
    }
}

/// A call as a source contains it.
pub(crate) struct SourceCall<'a> {
    pub(crate) id: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) arguments: Option<&'a str>,
}

/// The text blocks of a list of blocks, joined by LF.
pub(crate) fn joined_text(blocks: &[Block]) -> String {
    let texts = blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// Cuts a text to at most 1 KiB, the limit for titles and labels.
pub(crate) fn cut_to_1_kib(text: &str) -> String {
    let mut end = text.len().min(1 << 10);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

/// Returns the message with this origin and this format as its provenance.
pub(crate) fn with_provenance(mut message: Message, origin: Option<&Origin>, format: Option<&str>) -> Message {
    if origin.is_some() || format.is_some() {
        let mut provenance = store_core::Provenance::default();
        provenance.origin = origin.cloned();
        provenance.format = format.map(str::to_owned);
        message.provenance = Some(provenance);
    }
    message
}
