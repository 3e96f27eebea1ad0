//! Writes blocks in the form of Anthropic's API.

use store_core::{
    Block, BlockKind, Media, MediaSource, Opaque, Origin, Role, Thinking, ToolResult, ToolUse,
    codec::ObjectWriter as Writer,
};

use super::calls::{accepted_arguments, accepted_call_id};
use crate::{
    claude_code::{blocks::attached_fields, message::PROVIDER},
    export::Losses,
};

/// The types of images that the API accepts.
const IMAGE_TYPES: &[&str] = &["image/jpeg", "image/png", "image/gif", "image/webp"];

/// Writes the blocks of one message, and notes what is lost.
pub(super) struct BlockEncoder<'a, 'b> {
    pub(super) role: Role,
    /// The origin of the written line. An import takes it as the origin of everything that a provider attached to the
    /// blocks of the line.
    pub(super) origin: Origin,
    pub(super) losses: &'a mut Losses<'b>,
}

/// The origin of what a provider attached to a block, if the format can hold it.
pub(super) fn origin_of_block(block: &Block) -> Option<&Origin> {
    let origin = match &block.kind {
        BlockKind::Thinking(thinking) => thinking.signature.as_ref().and(thinking.origin.as_ref()),
        BlockKind::Opaque(opaque) => Some(&opaque.origin),
        _ => None,
    };
    origin.or_else(|| Some(&block.opaque.as_ref()?.origin)).filter(|origin| origin.provider == PROVIDER)
}

impl BlockEncoder<'_, '_> {
    /// Encodes a block. Returns `None` if the format cannot hold it. `path` is the JSON pointer to the block.
    pub(super) fn encode(&mut self, path: &str, block: &Block) -> Option<String> {
        if !block.extra.is_empty() {
            self.losses.add_no_field_for(path, "unknown_field");
        }
        match &block.kind {
            BlockKind::Text(text) => self.text(path, block, text),
            BlockKind::Thinking(thinking) => self.thinking(path, block, thinking),
            BlockKind::Image(media) => self.media((path, "image"), block, media),
            BlockKind::Document(media) => self.media((path, "document"), block, media),
            BlockKind::Audio(media) => self.media((path, "audio"), block, media),
            BlockKind::Video(media) => self.media((path, "video"), block, media),
            BlockKind::ToolUse(call) => self.call(path, block, call),
            BlockKind::ToolResult(result) => self.result(path, block, result),
            BlockKind::Opaque(opaque) => self.opaque(path, opaque),
            _ => {
                self.losses.add(path, ("unknown_block", "its kind is unknown", "dropped"));
                None
            }
        }
    }

    fn text(&mut self, path: &str, block: &Block, text: &str) -> Option<String> {
        if text.trim().is_empty() {
            self.losses.add(path, ("empty", "the API refuses a text without content", "dropped"));
            return None;
        }
        Some(self.encode_object(path, block, "text", |out| {
            out.field("text", &text.to_owned());
        }))
    }

    fn thinking(&mut self, path: &str, block: &Block, thinking: &Thinking) -> Option<String> {
        if !thinking.extra.is_empty() {
            self.losses.add_no_field_for(path, "unknown_field");
        }
        let is_anthropic = thinking.origin.as_ref().is_some_and(|origin| origin.provider == PROVIDER);
        let signature = thinking.signature.as_ref().filter(|_| is_anthropic && self.role == Role::Assistant);
        if let Some(origin) = thinking.origin.as_ref().filter(|_| signature.is_some()) {
            self.note_origin(path, origin);
        }
        match signature {
            Some(data) if thinking.redacted => Some(self.encode_object(path, block, "redacted_thinking", |out| {
                out.field("data", data);
            })),
            Some(signature) => Some(self.encode_object(path, block, "thinking", |out| {
                out.field("thinking", &thinking.text).field("signature", signature);
            })),
            None => {
                let kind = if thinking.redacted { "redacted" } else { "thinking" };
                self.losses.add(path, (kind, "the API accepts only thinking that it signed", "dropped"));
                None
            }
        }
    }

    fn media(&mut self, (path, kind): (&str, &str), block: &Block, media: &Media) -> Option<String> {
        if !media.extra.is_empty() {
            self.losses.add_no_field_for(path, "unknown_field");
        }
        let source = source_of(kind, media).filter(|_| self.role != Role::Assistant);
        let Some(source) = source else {
            self.losses.add(path, ("unsupported_media", "the API does not take it here", "replaced"));
            let media_type = media.media_type.as_deref().unwrap_or("unknown type");
            return Some(self.encode_object(path, &Block::text(""), "text", |out| {
                out.field("text", &format!("[{kind} of {media_type}, left out]"));
            }));
        };
        if media.media_type.is_some() && matches!(media.source, MediaSource::Url(_)) {
            self.losses.add(format!("{path}/media_type"), ("media_type", "a URL has no type in the format", "dropped"));
        }
        if media.title.is_some() && kind == "image" {
            self.losses.add(format!("{path}/title"), ("title", "an image has no title in the format", "dropped"));
        }
        Some(self.encode_object(path, block, kind, |out| {
            out.key("source").push_str(&source);
            out.maybe("title", media.title.as_ref().filter(|_| kind == "document"));
        }))
    }

    fn call(&mut self, path: &str, block: &Block, call: &ToolUse) -> Option<String> {
        if !call.extra.is_empty() {
            self.losses.add_no_field_for(path, "unknown_field");
        }
        let id = self.call_id(path, &call.id);
        let input = accepted_arguments(call);
        if input.is_replaced {
            self.losses
                .add(format!("{path}/input"), ("bad_arguments", "the API accepts a JSON object only", "replaced"));
        }
        Some(self.encode_object(path, block, "tool_use", |out| {
            out.field("id", &id).field("name", &call.name).key("input").push_str(&input.json);
        }))
    }

    fn call_id(&mut self, path: &str, id: &str) -> String {
        let accepted = accepted_call_id(id);
        if accepted != id {
            self.losses.add(format!("{path}/id"), ("tool_id", "the API does not accept the id", "replaced"));
        }
        accepted
    }

    fn result(&mut self, path: &str, block: &Block, result: &ToolResult) -> Option<String> {
        if !result.extra.is_empty() {
            self.losses.add_no_field_for(path, "unknown_field");
        }
        let id = self.call_id(path, &result.tool_use_id);
        let content: Vec<_> = result
            .blocks
            .iter()
            .enumerate()
            .filter_map(|(at, block)| Some((block, self.encode(&format!("{path}/blocks/{at}"), block)?)))
            .collect();
        Some(self.encode_object(path, block, "tool_result", |out| {
            out.field("tool_use_id", &id);
            if !content.is_empty() {
                out.key("content").push_str(&content_of(&content));
            }
            out.maybe("is_error", result.is_error.as_ref());
        }))
    }

    fn opaque(&mut self, path: &str, opaque: &Opaque) -> Option<String> {
        if opaque.origin.provider == PROVIDER && opaque.data.is_object() {
            self.note_origin(path, &opaque.origin);
            return Some(opaque.data.as_str().to_owned());
        }
        self.losses.add(path, ("unknown_block", "only its own provider understands it", "dropped"));
        None
    }

    /// Notes a loss if the origin of a block differs from that of its line. An import gives the block the origin of the
    /// line.
    fn note_origin(&mut self, path: &str, origin: &Origin) {
        if *origin != self.origin {
            self.losses.add(format!("{path}/origin"), ("origin", "a line names only the model", "replaced"));
        }
    }

    /// Writes a block with the fields that its provider attached to it.
    fn encode_object(&mut self, path: &str, block: &Block, kind: &str, fields: impl FnOnce(&mut Writer<'_>)) -> String {
        let mut out = String::new();
        let mut object = Writer::open(&mut out);
        object.field("type", &kind.to_owned());
        fields(&mut object);
        if let Some(opaque) = &block.opaque {
            match attached_fields(opaque).filter(|_| opaque.origin.provider == PROVIDER) {
                Some(attached) => {
                    self.note_origin(path, &opaque.origin);
                    for (name, raw) in attached {
                        object.key(&name).push_str(&raw);
                    }
                }
                None => {
                    let loss = ("signature", "only its own provider understands it", "dropped");
                    self.losses.add(format!("{path}/opaque"), loss);
                }
            }
        }
        object.close();
        out
    }
}

/// Writes content: a text if it is one plain text, else a list.
pub(super) fn content_of(content: &[(&Block, String)]) -> String {
    if let [(Block { kind: BlockKind::Text(text), opaque: None, .. }, _)] = content {
        return crate::json::json_string(text).as_str().to_owned();
    }
    let items: Vec<_> = content.iter().map(|(_, json)| json.as_str()).collect();
    format!("[{}]", items.join(","))
}

/// The source of an image or a document, or `None` if the API does not accept it.
fn source_of(kind: &str, media: &Media) -> Option<String> {
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    let media_type = media.media_type.as_deref();
    match (&media.source, kind) {
        (MediaSource::Url(url), "image" | "document") if url.starts_with("http") => {
            object.field("type", &"url".to_owned()).field("url", url);
        }
        (MediaSource::Base64(data), "image") if media_type.is_some_and(|found| IMAGE_TYPES.contains(&found)) => {
            object.field("type", &"base64".to_owned()).maybe("media_type", media.media_type.as_ref());
            object.field("data", data);
        }
        (MediaSource::Base64(data), "document") if media_type == Some("application/pdf") => {
            object.field("type", &"base64".to_owned()).maybe("media_type", media.media_type.as_ref());
            object.field("data", data);
        }
        (MediaSource::Base64(data), "document") if media_type == Some("text/plain") => {
            object.field("type", &"text".to_owned()).maybe("media_type", media.media_type.as_ref());
            object.field("data", &text_of_base64(data)?);
        }
        _ => return None,
    }
    object.close();
    Some(out)
}

fn text_of_base64(data: &str) -> Option<String> {
    use base64::{Engine, engine::general_purpose::STANDARD as BASE64};

    String::from_utf8(BASE64.decode(data).ok()?).ok()
}
