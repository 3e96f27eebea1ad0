//! Writes messages: one line for each block of a message of the model, one line for each result, and one line for any
//! other message.

use store_core::{Block, BlockKind, Json, Message, Provenance, Role, Usage, Visibility, codec::ObjectWriter as Writer};

use super::blocks::{BlockEncoder, content_of, origin_of_block};
use crate::{
    blocks::joined_text,
    claude_code::{agentstore, message},
    export::Losses,
    json::json_string,
};

/// What a line with a message contains.
#[derive(Debug)]
pub(super) struct MessagePart {
    /// The value of `content`.
    content: String,
    /// The details of a result.
    details: Option<Json>,
    /// The model that the line names.
    model: Option<String>,
}

/// The model that the line of a block names. If a provider attached data to the block, it is the model of this data,
/// else that of the message.
fn model_of(message: &Message, block: &Block) -> Option<String> {
    let of_message = || message.provenance.as_ref()?.origin.as_ref();
    origin_of_block(block).filter(|_| message.role == Role::Assistant).or_else(of_message)?.model.clone()
}

/// Splits a message into the contents of lines, and notes what is lost. There are no lines if nothing is left.
pub(super) fn parts_of(message: &Message, losses: &mut Losses<'_>) -> Vec<MessagePart> {
    if !message.extra.is_empty() {
        losses.add_no_field_for("", "unknown_field");
    }
    if message.stop.is_some() && message.role != Role::Assistant {
        losses.add_no_field_for("/stop", "stop");
    }
    if message.role == Role::System {
        return system_part(message, losses).into_iter().collect();
    }
    let origin = message::origin_of_model(None);
    let mut encoder = BlockEncoder { role: message.role, origin, losses };
    let mut encoded = Vec::new();
    for (at, block) in message.blocks.iter().enumerate() {
        if message.role == Role::Assistant {
            encoder.origin = message::origin_of_model(model_of(message, block).as_deref());
        }
        if let Some(json) = encoder.encode(&format!("/blocks/{at}"), block) {
            encoded.push((block, json));
        }
    }
    match message.role {
        Role::Assistant => {
            let part = |(block, json): (&Block, String)| MessagePart {
                content: format!("[{json}]"),
                details: None,
                model: model_of(message, block),
            };
            encoded.into_iter().map(part).collect()
        }
        Role::Tool => result_parts(&encoded, message, losses),
        Role::User | Role::System if encoded.is_empty() => Vec::new(),
        Role::User | Role::System => {
            vec![MessagePart { content: content_of(&encoded), details: None, model: None }]
        }
    }
}

/// Whether a message becomes at least one line.
pub(super) fn has_parts(message: &Message) -> bool {
    message.blocks.iter().any(|block| match &block.kind {
        BlockKind::Text(text) => !text.trim().is_empty(),
        _ if message.role == Role::System => false,
        BlockKind::Thinking(_) => message.role == Role::Assistant && origin_of_block(block).is_some(),
        BlockKind::Opaque(opaque) => opaque.data.is_object() && origin_of_block(block).is_some(),
        BlockKind::Image(_) | BlockKind::Document(_) | BlockKind::Audio(_) | BlockKind::Video(_) => true,
        BlockKind::ToolUse(_) | BlockKind::ToolResult(_) => true,
        _ => false,
    })
}

/// Claude Code has its own instructions. Those of a thread become a message of the user, in tags that say what it is.
fn system_part(message: &Message, losses: &mut Losses<'_>) -> Option<MessagePart> {
    for (at, block) in message.blocks.iter().enumerate() {
        if !matches!(block.kind, BlockKind::Text(_)) {
            losses.add(format!("/blocks/{at}"), ("system", "instructions are text only", "dropped"));
        }
    }
    let text = joined_text(&message.blocks);
    if text.trim().is_empty() {
        return None;
    }
    losses.add("", ("system_position", "the format has no instructions in a session", "replaced"));
    let text = json_string(&format!("<system>{text}</system>"));
    Some(MessagePart { content: text.as_str().to_owned(), details: None, model: None })
}

/// Gives each result a line of its own. If there are other blocks besides the results, everything stays in one line,
/// which can have the details of the first result only.
fn result_parts(encoded: &[(&Block, String)], message: &Message, losses: &mut Losses<'_>) -> Vec<MessagePart> {
    let details_of = |block: &Block| match &block.kind {
        BlockKind::ToolResult(result) => Some(result.details.clone()),
        _ => None,
    };
    let part = |content: &[(&Block, String)], details: Option<Json>| {
        let items: Vec<_> = content.iter().map(|(_, json)| json.as_str()).collect();
        MessagePart { content: format!("[{}]", items.join(",")), details, model: None }
    };
    if encoded.iter().all(|(block, _)| details_of(block).is_some()) {
        let part_of = |item: &(&Block, String)| part(std::slice::from_ref(item), details_of(item.0).flatten());
        return encoded.iter().map(part_of).collect();
    }
    let mut details = None;
    let mut is_first = true;
    for (at, block) in message.blocks.iter().enumerate() {
        match details_of(block) {
            Some(found) if is_first => (details, is_first) = (found, false),
            Some(Some(_)) => {
                let loss = ("details", "a line has the details of one result", "dropped");
                losses.add(format!("/blocks/{at}/details"), loss);
            }
            _ => {}
        }
    }
    vec![part(encoded, details)]
}

/// A message that becomes lines.
pub(super) struct MessageLines<'a> {
    pub(super) message: &'a Message,
    /// The id that the lines of a message of the model share.
    pub(super) id: String,
    /// The number of lines.
    pub(super) count: usize,
    /// Whether it is the summary after a compaction.
    pub(super) is_summary: bool,
    /// Whether it begins a branch.
    pub(super) begins_branch: bool,
}

impl MessageLines<'_> {
    /// The type of the lines.
    pub(super) const fn kind(&self) -> &'static str {
        match self.message.role {
            Role::Assistant => "assistant",
            Role::User | Role::Tool | Role::System => "user",
        }
    }

    /// Writes the fields of the line at this position.
    pub(super) fn write(&self, at: usize, part: &MessagePart, line: &mut Writer<'_>) {
        let is_last = at + 1 == self.count;
        let is_meta = self.message.visibility == Visibility::Internal || self.message.role == Role::System;
        line.maybe("isMeta", is_meta.then_some(&true));
        if self.is_summary {
            line.field("isVisibleInTranscriptOnly", &true).field("isCompactSummary", &true);
        }
        let out = line.key("message");
        match self.message.role {
            Role::Assistant => self.write_reply(part, out),
            Role::User | Role::Tool | Role::System => {
                let mut message = Writer::open(out);
                message.field("role", &"user".to_owned()).key("content").push_str(&part.content);
                message.close();
            }
        }
        line.maybe("toolUseResult", part.details.as_ref());
        self.write_other_fields(is_last, part, line);
    }

    fn write_reply(&self, part: &MessagePart, out: &mut String) {
        let mut message = Writer::open(out);
        message.field("id", &self.id).field("type", &"message".to_owned()).field("role", &"assistant".to_owned());
        message.maybe("model", part.model.as_ref()).key("content").push_str(&part.content);
        let stop = self.message.stop.as_deref().map_or_else(Json::null, json_string);
        message.field("stop_reason", &stop).field("stop_sequence", &Json::null());
        message.maybe("usage", self.message.usage.as_ref().map(native_usage).as_ref());
        message.close();
    }

    /// Writes the parts of the message that the fields of Claude Code do not contain.
    fn write_other_fields(&self, is_last: bool, part: &MessagePart, line: &mut Writer<'_>) {
        let mut out = String::new();
        let mut field = Writer::open(&mut out);
        field.maybe(agentstore::FORK, self.begins_branch.then_some(&true));
        field.maybe("provenance", self.other_provenance(part).as_ref());
        if is_last && !self.message.metadata.is_empty() {
            field.field("metadata", &self.message.metadata);
        }
        if let Some(usage) = self.message.usage.as_ref().filter(|usage| is_last && !self.is_in_usage_field(usage)) {
            field.field("usage", usage);
        }
        field.close();
        if out != "{}" {
            line.key(agentstore::FIELD).push_str(&out);
        }
    }

    /// The provenance of the message, unless an import finds the same one in the other fields of the line.
    fn other_provenance(&self, part: &MessagePart) -> Option<Provenance> {
        if self.message.role != Role::Assistant {
            return self.message.provenance.clone();
        }
        let mut native = Provenance::default();
        native.message_id = Some(self.id.clone());
        native.origin = part.model.as_deref().map(|model| message::origin_of_model(Some(model)));
        let mut wanted = self.message.provenance.clone().unwrap_or_default();
        // An import knows by this id which lines belong to one message.
        if self.count > 1 && wanted.message_id.is_none() {
            wanted.message_id = Some(self.id.clone());
        }
        (wanted != native).then_some(wanted)
    }

    /// Whether an import reads this usage from the field `usage` of the line.
    fn is_in_usage_field(&self, usage: &Usage) -> bool {
        let raw = native_usage(usage);
        let mut native = Usage::from(message::token_counts(&raw).unwrap_or_default());
        native.raw = Some(raw);
        self.message.role == Role::Assistant && native == *usage
    }
}

/// The usage in the form of Anthropic's API.
fn native_usage(usage: &Usage) -> Json {
    let raw = usage.raw.as_ref().filter(|raw| message::token_counts(raw).as_ref() == Some(&usage.tokens));
    raw.cloned().unwrap_or_else(|| {
        let mut out = String::new();
        let mut object = Writer::open(&mut out);
        object.field("input_tokens", &usage.tokens.input).field("output_tokens", &usage.tokens.output);
        object.field("cache_creation_input_tokens", &usage.tokens.cache_write);
        object.field("cache_read_input_tokens", &usage.tokens.cache_read);
        object.close();
        Json::parse(&out).unwrap_or_else(|_| Json::null())
    })
}
