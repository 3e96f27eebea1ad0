//! Writes any message as messages of pi, and notes what they cannot represent.

use store_core::{
    Block, BlockKind, Json, JsonMap, Media, MediaSource, Message, Opaque, Origin, Role, Timestamp, ToolResult, ToolUse,
    Visibility,
    codec::{Codec, ObjectWriter as Writer},
};

use super::losses::{self, MessageLosses};
use crate::{
    json::{Object, parse_json_string},
    pi::message::NO_PROVIDER,
};

/// What a message of pi contains besides the message of the entry.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageContext<'a> {
    /// The time of the entry.
    pub(super) timestamp: Timestamp,
    /// The names of the tools by the ids of their calls.
    pub(super) tool_names: &'a std::collections::HashMap<String, String>,
}

/// The messages of pi that a message becomes, and the blocks that no message of pi can contain.
#[derive(Debug, Default)]
pub(super) struct PiMessages {
    /// Messages, as JSON.
    pub(super) messages: Vec<String>,
    /// Blocks, each with its path in the message.
    pub(super) moved_blocks: Vec<(String, Block)>,
}

/// Whether the message can be written as a message of pi. Otherwise it is written as a custom line, which pi never
/// sends to a model.
pub(super) fn can_be_pi_message(message: &Message) -> bool {
    let has_failed = matches!(message.stop.as_deref(), Some("error" | "aborted"));
    match message.role {
        Role::System => false,
        Role::Assistant if has_failed => true,
        _ => message.visibility != Visibility::Aside || is_excluded_command(message),
    }
}

fn format_of(message: &Message) -> Option<&str> {
    message.provenance.as_ref()?.format.as_deref()
}

/// Whether the message is a command of the user that pi does not send to a model.
fn is_excluded_command(message: &Message) -> bool {
    let is_excluded = message.metadata.get("excludeFromContext").is_some_and(|value| value.as_str() == "true");
    format_of(message) == Some("pi.bashExecution") && is_excluded
}

/// Writes a message. `path` is its path in the entry.
pub(super) fn encode(message: &Message, context: MessageContext<'_>, losses: &mut MessageLosses<'_, '_>) -> PiMessages {
    let origin = origin_of(message);
    let mut encoder = Encoder { message, context, origin: origin.as_ref(), losses, out: PiMessages::default() };
    losses::note_message(message, encoder.losses);
    match (message.role, format_of(message)) {
        (Role::System, _) => encoder.losses.add("", ("system", "the format has no system messages", "dropped")),
        (Role::User, Some("pi.bashExecution")) => encoder.message_with_metadata("bashExecution", None),
        (Role::User, Some("pi.custom_message")) => encoder.user("custom", &message.blocks, ""),
        (Role::User, _) if message.visibility == Visibility::Internal => encoder.message_for_model_only(),
        (Role::User, _) => encoder.user("user", &message.blocks, ""),
        (Role::Assistant, _) => encoder.assistant(),
        (Role::Tool, _) => encoder.results(),
    }
    encoder.out
}

/// The provider, API and model that the message of pi names. Signatures are valid for them only.
fn origin_of(message: &Message) -> Option<Origin> {
    let origin_of_message = message.provenance.as_ref().and_then(|provenance| provenance.origin.clone());
    let origin_of_block = |block: &Block| match (&block.opaque, &block.kind) {
        (Some(opaque), _) => Some(opaque.origin.clone()),
        (None, BlockKind::Thinking(thinking)) => thinking.origin.clone(),
        _ => None,
    };
    origin_of_message.or_else(|| message.blocks.iter().find_map(origin_of_block))
}

struct Encoder<'a, 'l, 'm, 'n> {
    message: &'a Message,
    context: MessageContext<'a>,
    origin: Option<&'a Origin>,
    losses: &'l mut MessageLosses<'m, 'n>,
    out: PiMessages,
}

impl Encoder<'_, '_, '_, '_> {
    /// Writes a message with its metadata as fields.
    fn message_with_metadata(&mut self, role: &str, content: Option<&str>) {
        self.push(role, |object| {
            if let Some(content) = content {
                object.key("content").push_str(content);
            }
        });
    }

    fn push(&mut self, role: &str, fields: impl FnOnce(&mut Writer<'_>)) {
        let metadata = &self.message.metadata;
        let mut out = String::new();
        let mut object = Writer::open(&mut out);
        object.field("role", &role.to_owned());
        fields(&mut object);
        write_metadata(&mut object, metadata, self.context.timestamp, self.message.role);
        object.close();
        self.out.messages.push(out);
    }

    fn user(&mut self, role: &str, blocks: &[Block], path: &str) {
        let content = self.content(blocks, path);
        self.message_with_metadata(role, Some(&content));
    }

    /// Writes a message that only the model sees.
    fn message_for_model_only(&mut self) {
        let content = self.content(&self.message.blocks, "");
        let metadata = &self.message.metadata;
        let kind = Some(NO_PROVIDER.to_owned()).filter(|_| !metadata.contains_key("customType"));
        let display = Some(false).filter(|_| !metadata.contains_key("display"));
        self.push("custom", |object| {
            object.maybe("customType", kind.as_ref());
            object.key("content").push_str(&content);
            object.maybe("display", display.as_ref());
        });
    }

    fn assistant(&mut self) {
        let content = self.content(&self.message.blocks, "");
        let unknown_origin = Origin::new(NO_PROVIDER);
        let origin = self.origin.unwrap_or(&unknown_origin);
        let unknown = || "unknown".to_owned();
        let (api, model) = (origin.api.clone().unwrap_or_else(unknown), origin.model.clone().unwrap_or_else(unknown));
        let usage = losses::usage(self.message, self.losses);
        let stop = losses::stop_reason(self.message, self.losses);
        let provider = origin.provider.clone();
        self.push("assistant", |object| {
            object.key("content").push_str(&content);
            object.field("api", &api).field("provider", &provider).field("model", &model);
            object.key("usage").push_str(&usage);
            object.field("stopReason", &stop);
        });
    }

    /// Writes one message for each result, and one message of the user for all other blocks.
    fn results(&mut self) {
        let is_result = |block: &&Block| matches!(block.kind, BlockKind::ToolResult(_));
        for (at, block) in self.message.blocks.iter().enumerate() {
            if let BlockKind::ToolResult(result) = &block.kind {
                let path = format!("/blocks/{at}");
                losses::note_unknown_fields(block, &path, self.losses);
                if block.opaque.is_some() {
                    let loss = ("signature", "only messages of the assistant can have signatures", "dropped");
                    self.losses.add(format!("{path}/opaque"), loss);
                }
                self.result(result, &path);
            }
        }
        let other_blocks: Vec<_> = self.message.blocks.iter().filter(|block| !is_result(block)).cloned().collect();
        if !other_blocks.is_empty() {
            self.losses.add("/blocks", ("text", "a result contains nothing else", "moved"));
            self.user("user", &other_blocks, "");
        }
    }

    fn result(&mut self, result: &ToolResult, path: &str) {
        let content = self.content(&result.blocks, path);
        let name_in_message = self.message.metadata.get("toolName").and_then(|name| parse_json_string(name.as_str()));
        let name_of_call = || self.context.tool_names.get(&result.tool_use_id).cloned();
        let name = name_in_message.or_else(name_of_call).unwrap_or_else(|| "unknown".to_owned());
        // The tokens of several results are counted once.
        let counted = self.message.usage.as_ref().filter(|_| self.out.messages.is_empty());
        let usage = counted.map(|_| losses::usage(self.message, self.losses));
        if result.is_error.is_none() {
            self.losses.add(format!("{path}/is_error"), ("is_error", "the format requires this field", "replaced"));
        }
        self.push("toolResult", |object| {
            object.field("toolCallId", &result.tool_use_id).field("toolName", &name);
            object.key("content").push_str(&content);
            object.maybe("details", result.details.as_ref());
            object.field("isError", &result.is_error.unwrap_or_default());
            if let Some(usage) = &usage {
                object.key("usage").push_str(usage);
            }
        });
    }

    /// Writes blocks as a list.
    fn content(&mut self, blocks: &[Block], path: &str) -> String {
        let mut out = "[".to_owned();
        for (at, block) in blocks.iter().enumerate() {
            let path = format!("{path}/blocks/{at}");
            if let Some(text) = self.block(block, &path) {
                if out.len() > 1 {
                    out.push(',');
                }
                out.push_str(&text);
            }
        }
        out.push(']');
        out
    }

    fn block(&mut self, block: &Block, path: &str) -> Option<String> {
        losses::note_unknown_fields(block, path, self.losses);
        match &block.kind {
            BlockKind::Text(text) => {
                let signature = self.signature(block.opaque.as_ref(), path);
                Some(encode_block("text", |object| {
                    object.field("text", text).maybe("textSignature", signature.as_ref());
                }))
            }
            BlockKind::Thinking(_) => self.thinking(block, path),
            BlockKind::Image(media) => Some(self.image(block, media, path)),
            BlockKind::ToolUse(call) => Some(self.call(block, call, path)),
            BlockKind::Document(media) => Some(self.media("document", (block, media), path)),
            BlockKind::Audio(media) => Some(self.media("audio", (block, media), path)),
            BlockKind::Video(media) => Some(self.media("video", (block, media), path)),
            _ => {
                self.losses.add(path, ("unknown_block", "the format has no such block", "moved"));
                self.out.moved_blocks.push((path.to_owned(), block.clone()));
                None
            }
        }
    }

    /// The signature of a block, if its origin is that of the message and pi has a field for it.
    fn signature(&mut self, opaque: Option<&Opaque>, path: &str) -> Option<String> {
        let opaque = opaque?;
        let text = parse_json_string(opaque.data.as_str());
        let is_only_signature = text.is_some();
        let signature = text.or_else(|| native_field(opaque, "/thoughtSignature"));
        let reason = match &signature {
            _ if self.message.role != Role::Assistant => "only messages of the assistant can have signatures",
            _ if self.origin != Some(&opaque.origin) => "its origin is not that of the message",
            None => "in this format, a signature must be a string",
            Some(_) if !is_only_signature => {
                let reason = "of the data from the provider, the format keeps only the signature";
                let loss = ("signature", reason, "replaced");
                self.losses.add(format!("{path}/opaque"), loss);
                return signature;
            }
            Some(_) => return signature,
        };
        self.losses.add(format!("{path}/opaque"), ("signature", reason, "dropped"));
        None
    }

    fn thinking(&mut self, block: &Block, path: &str) -> Option<String> {
        let BlockKind::Thinking(thinking) = &block.kind else { return None };
        if block.opaque.is_some() {
            let loss = ("signature", "the format has one signature for a thought", "dropped");
            self.losses.add(format!("{path}/opaque"), loss);
        }
        let is_foreign = thinking.origin.as_ref().is_some_and(|origin| self.origin != Some(origin));
        if thinking.redacted && (is_foreign || thinking.signature.is_none()) {
            self.losses.add(path, ("redacted", "its origin is not that of the message", "dropped"));
            return None;
        }
        let signature = thinking.signature.clone().filter(|_| !is_foreign);
        let signature = signature.map(|signature| self.thinking_signature(signature, block, path));
        if is_foreign && thinking.signature.is_some() {
            let loss = ("signature", "its origin is not that of the message", "dropped");
            self.losses.add(format!("{path}/signature"), loss);
        }
        if self.message.role != Role::Assistant {
            self.losses.add(path, ("thinking", "only messages of the assistant can have thoughts", "moved"));
            self.out.moved_blocks.push((path.to_owned(), block.clone()));
            return None;
        }
        Some(encode_block("thinking", |object| {
            object.field("thinking", &thinking.text).maybe("thinkingSignature", signature.as_ref());
            object.maybe("redacted", thinking.redacted.then_some(&true));
        }))
    }

    /// The signature of a thought. For OpenAI Responses, pi writes the whole reasoning item as JSON in its place.
    fn thinking_signature(&mut self, signature: String, block: &Block, path: &str) -> String {
        let api = self.origin.and_then(|origin| origin.api.as_deref()).unwrap_or_default();
        let BlockKind::Thinking(thinking) = &block.kind else { return signature };
        if !api.ends_with("responses") || signature.starts_with('{') {
            return signature;
        }
        let loss = ("signature", "the format has the whole item of the provider", "replaced");
        self.losses.add(format!("{path}/signature"), loss);
        let id = block.opaque.as_ref().and_then(|opaque| native_field(opaque, "/id"));
        let summary = match thinking.text.is_empty() {
            true => String::new(),
            false => encode_block("summary_text", |part| {
                part.field("text", &thinking.text);
            }),
        };
        encode_block("reasoning", |item| {
            item.maybe("id", id.as_ref());
            item.key("summary").push_str(&format!("[{summary}]"));
            item.field("encrypted_content", &signature);
        })
    }

    fn image(&mut self, block: &Block, media: &Media, path: &str) -> String {
        let MediaSource::Base64(data) = &media.source else { return self.media("image", (block, media), path) };
        if block.opaque.is_some() {
            let loss = ("signature", "the format has signatures of texts and calls only", "dropped");
            self.losses.add(format!("{path}/opaque"), loss);
        }
        if media.title.is_some() {
            self.losses.add(format!("{path}/title"), ("title", "the format has no titles of images", "dropped"));
        }
        let media_type = media.media_type.clone().unwrap_or_else(|| "image/png".to_owned());
        if media.media_type.is_none() {
            let loss = ("media_type", "the format requires a media type", "replaced");
            self.losses.add(format!("{path}/media_type"), loss);
        }
        encode_block("image", |object| {
            object.field("data", data).field("mimeType", &media_type);
        })
    }

    /// Writes a text that stands for a medium that pi cannot contain.
    fn media(&mut self, kind: &str, (block, media): (&Block, &Media), path: &str) -> String {
        let reason = "the format can contain only texts, and images with inline bytes";
        self.losses.add(path, ("unsupported_media", reason, "moved"));
        self.out.moved_blocks.push((path.to_owned(), block.clone()));
        let url = match &media.source {
            MediaSource::Url(url) => Some(url),
            MediaSource::Base64(_) | MediaSource::Blob(_) => None,
        };
        let parts = [media.title.as_ref(), media.media_type.as_ref(), url];
        let parts: Vec<_> = parts.into_iter().flatten().map(String::as_str).collect();
        let text = if parts.is_empty() { format!("[{kind}]") } else { format!("[{kind}: {}]", parts.join(", ")) };
        encode_block("text", |object| {
            object.field("text", &text);
        })
    }

    fn call(&mut self, block: &Block, call: &ToolUse, path: &str) -> String {
        let signature = self.signature(block.opaque.as_ref(), path);
        if let Some(raw) = call.raw.as_ref().filter(|raw| *raw != call.input.as_str()) {
            let is_equal = Json::parse(raw).ok().as_ref() == Some(&call.input);
            let kind = if is_equal { "arguments" } else { "bad_arguments" };
            self.losses.add(format!("{path}/raw"), (kind, "the format stores an object, not its text", "dropped"));
        }
        let arguments = if call.input.is_object() {
            call.input.as_str().to_owned()
        } else {
            let loss = ("bad_arguments", "in this format, the arguments must be an object", "replaced");
            self.losses.add(format!("{path}/input"), loss);
            format!("{{\"value\":{}}}", call.input)
        };
        encode_block("toolCall", |object| {
            object.field("id", &call.id).field("name", &call.name);
            object.key("arguments").push_str(&arguments);
            object.maybe("thoughtSignature", signature.as_ref());
        })
    }
}

/// A field of the block as the provider sent it, which is part of the opaque data.
fn native_field(opaque: &Opaque, pointer: &str) -> Option<String> {
    Object::parse(opaque.data.as_str())?.object("part")?.object("set")?.text(pointer)
}

fn encode_block(kind: &str, fields: impl FnOnce(&mut Writer<'_>)) -> String {
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    object.field("type", &kind.to_owned());
    fields(&mut object);
    object.close();
    out
}

/// Writes the metadata as fields, the time first. Fields that the message itself has are left out.
fn write_metadata(object: &mut Writer<'_>, metadata: &JsonMap, timestamp: Timestamp, role: Role) {
    match metadata.get("timestamp") {
        Some(given) => object.field("timestamp", given),
        None => object.field("timestamp", &timestamp),
    };
    for (name, value) in metadata.iter().filter(|(name, _)| !losses::is_own_field(role, name)) {
        object.field(name, value);
    }
}

/// The data of a custom line with the blocks of an entry that no message of pi can contain.
pub(super) fn moved_blocks_json(entry: &str, moved_blocks: &[(String, Block)]) -> String {
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    object.field("entry", &entry.to_owned());
    let list = object.key("blocks");
    for (at, (path, block)) in moved_blocks.iter().enumerate() {
        list.push(if at == 0 { '[' } else { ',' });
        let mut item = Writer::open(list);
        item.field("path", path);
        block.write(item.key("block"));
        item.close();
    }
    list.push(']');
    object.close();
    out
}
