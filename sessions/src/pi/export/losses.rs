//! What a message loses when it becomes messages of pi.

use store_core::{Block, BlockKind, Message, Role, Usage, Visibility, codec::ObjectWriter as Writer};

use crate::{
    export::{Losses, json_pointer},
    json::Object,
};

/// The losses of one message of an entry.
pub(super) struct MessageLosses<'a, 'b> {
    losses: &'a mut Losses<'b>,
    /// The path of the message in the entry. It is empty for the message that is the body of the entry.
    prefix: String,
}

impl<'a, 'b> MessageLosses<'a, 'b> {
    pub(super) fn new(losses: &'a mut Losses<'b>, prefix: impl Into<String>) -> Self {
        Self { losses, prefix: prefix.into() }
    }

    pub(super) fn add(&mut self, path: impl AsRef<str>, loss: (&'static str, &'static str, &'static str)) {
        self.losses.add(format!("{}{}", self.prefix, path.as_ref()), loss);
    }
}

/// Whether the message itself has a field of this name, so that metadata cannot have it.
pub(super) fn is_own_field(role: Role, name: &str) -> bool {
    let fields_of_message: &[&str] = match role {
        Role::User | Role::System => &["role", "content", "timestamp"],
        Role::Assistant => &["role", "content", "timestamp", "api", "provider", "model", "usage", "stopReason"],
        Role::Tool => &["role", "content", "timestamp", "toolCallId", "toolName", "details", "isError", "usage"],
    };
    fields_of_message.contains(&name)
}

/// Notes the fields of a message that are lost, apart from its blocks, usage and stop.
pub(super) fn note_message(message: &Message, losses: &mut MessageLosses<'_, '_>) {
    let is_internal = message.visibility == Visibility::Internal;
    if is_internal && message.role != Role::User {
        losses.add("/visibility", ("visibility", "the format has no field for it", "dropped"));
    }
    if message.usage.is_some() && matches!(message.role, Role::User | Role::System) {
        losses.add("/usage", ("usage", "the format has no field for it", "dropped"));
    }
    if message.stop.is_some() && message.role != Role::Assistant {
        losses.add("/stop", ("stop", "the format has no field for it", "dropped"));
    }
    let kept_names = ["timestamp", "toolName"];
    for name in message.metadata.keys().filter(|name| is_own_field(message.role, name)) {
        if !kept_names.contains(&name.as_str()) {
            let loss = ("metadata", "the format has a field of its own with this name", "dropped");
            losses.add(json_pointer("/metadata", name), loss);
        }
    }
    if !message.extra.is_empty() {
        losses.add("", ("unknown_field", "the format has no field for what a newer release wrote", "dropped"));
    }
    let Some(provenance) = &message.provenance else { return };
    if provenance.agent.is_some() {
        losses.add("/provenance/agent", ("agent", "the format has no field for it", "dropped"));
    }
    if provenance.message_id.is_some() {
        losses.add("/provenance/message_id", ("item_id", "the format has no field for it", "dropped"));
    }
    let is_other = |format: &&str| !matches!(*format, "pi.bashExecution" | "pi.custom_message");
    if provenance.format.as_deref().filter(is_other).is_some() {
        losses.add("/provenance/format", ("format", "the format has no field for it", "dropped"));
    }
    let Some(origin) = &provenance.origin else { return };
    if message.role != Role::Assistant {
        losses.add("/provenance/origin", ("origin", "the format has no field for it", "dropped"));
    } else if origin.endpoint.is_some() {
        losses.add("/provenance/origin/endpoint", ("endpoint", "the format has no field for it", "dropped"));
    }
}

/// Notes that a block has fields that a newer release wrote.
pub(super) fn note_unknown_fields(block: &Block, path: &str, losses: &mut MessageLosses<'_, '_>) {
    let inner_extra = match &block.kind {
        BlockKind::Thinking(thinking) => Some(&thinking.extra),
        BlockKind::Image(media) => Some(&media.extra),
        BlockKind::ToolUse(call) => Some(&call.extra),
        BlockKind::ToolResult(result) => Some(&result.extra),
        _ => None,
    };
    if !block.extra.is_empty() || inner_extra.is_some_and(|extra| !extra.is_empty()) {
        losses.add(path, ("unknown_field", "the format has no field for what a newer release wrote", "dropped"));
    }
}

/// The usage of an answer, as pi writes it.
pub(super) fn usage(message: &Message, losses: &mut MessageLosses<'_, '_>) -> String {
    let Some(usage) = &message.usage else { return encode_usage(&Usage::default()) };
    let usage_of_pi = usage.raw.as_ref().filter(|raw| {
        let fields = Object::parse(raw.as_str());
        fields.is_some_and(|fields| fields.number("input") == Some(usage.tokens.input) && fields.has("cost"))
    });
    if let Some(raw) = usage_of_pi {
        return raw.as_str().to_owned();
    }
    if usage.raw.is_some() || usage.tokens.reasoning > 0 {
        losses.add("/usage", ("usage", "the format has other fields for it", "replaced"));
    }
    if usage.cost.as_ref().is_some_and(|cost| !is_cost_of_pi(cost.as_str())) {
        losses.add("/usage/cost", ("cost", "the format has other fields for it", "dropped"));
    }
    encode_usage(usage)
}

fn is_cost_of_pi(cost: &str) -> bool {
    Object::parse(cost).is_some_and(|cost| cost.has("total"))
}

fn encode_usage(usage: &Usage) -> String {
    let tokens = &usage.tokens;
    let cost = usage.cost.as_ref().map(store_core::Json::as_str).filter(|cost| is_cost_of_pi(cost));
    let mut out = String::new();
    let mut object = Writer::open(&mut out);
    object.field("input", &tokens.input).field("output", &tokens.output);
    object.field("cacheRead", &tokens.cache_read).field("cacheWrite", &tokens.cache_write);
    object.field("totalTokens", &tokens.context_size());
    let no_cost = "{\"input\":0,\"output\":0,\"cacheRead\":0,\"cacheWrite\":0,\"total\":0}";
    object.key("cost").push_str(cost.unwrap_or(no_cost));
    object.close();
    out
}

/// Why an answer ended, in the words of pi.
pub(super) fn stop_reason(message: &Message, losses: &mut MessageLosses<'_, '_>) -> String {
    let calls = message.blocks.iter().any(|block| matches!(block.kind, BlockKind::ToolUse(_)));
    let default = if calls { "toolUse" } else { "stop" };
    let Some(stop) = message.stop.as_deref() else { return default.to_owned() };
    let is_aside = message.visibility == Visibility::Aside;
    let stop_of_pi = match stop {
        "stop" | "length" | "toolUse" => stop,
        // An answer that failed is not sent.
        "error" | "aborted" if is_aside => stop,
        "max_tokens" | "max_output_tokens" | "MAX_TOKENS" => "length",
        _ => default,
    };
    if stop_of_pi != stop {
        losses.add("/stop", ("stop", "the format has other words for it", "replaced"));
    }
    stop_of_pi.to_owned()
}
