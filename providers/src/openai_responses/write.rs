//! Writes requests.

use std::collections::BTreeSet;

use store_core::{BlockKind, Result, Role, Thinking, ToolResult, ToolUse};

use super::{
    CONTENT, CUSTOM, INPUT, LIST, REFUSAL, RESULT_LIST, TEXT, call_item, custom_call_item, input_text, media_part,
    output_text, reasoning_item, refusal_part,
};
use crate::{
    calls::IdRule,
    compile::{Compiler, Part},
    loss::{Action, LossKind, Position},
    native::FormDiff,
    normalize::OPAQUE_MESSAGE,
    value::{Object, Value},
};

/// The API refuses longer ids of calls (NousResearch/hermes-agent#72006).
pub(super) const ID_RULE: IdRule = IdRule { max_length: 64, plain_only: false };
/// The output that a result without content gets.
const NO_OUTPUT: &str = "(no output)";
/// The beginning of the text of a failed result. The API has no field for failures.
const ERROR_PREFIX: &str = "[error] ";

pub(super) fn write(compiler: &mut Compiler<'_>) -> Result<Object> {
    let mut writer =
        Writer { replies_are_stored: compiler.settings.get("store") != Some(&Value::Bool(false)), ..Writer::default() };
    writer.add_parts(compiler)?;
    writer.drop_unfollowed_reasoning(compiler);
    writer.simplify_messages_without_id(compiler);
    compiler.require_messages(&writer.items)?;
    let mut body = Object::new().with_text("model", &compiler.target.model);
    if !writer.instructions.is_empty() {
        body.set("instructions", Value::Text(writer.instructions.join("\n\n")));
    }
    Ok(body.with("input", Value::List(writer.items.into_iter().map(|item| item.value).collect())))
}

/// An item of the input.
pub(super) struct Item {
    pub(super) value: Value,
    position: Position,
    /// For a message: the position of each part of its content.
    part_positions: Vec<Position>,
    /// Whether the item comes from the assistant.
    is_output: bool,
}

impl Item {
    fn is_reasoning(&self) -> bool {
        self.value.as_object().and_then(|item| item.text("type")) == Some("reasoning")
    }
}

/// A message item that is being written.
struct Draft {
    role: Role,
    form: FormDiff,
    content: Vec<Value>,
    positions: Vec<Position>,
}

#[derive(Default)]
pub(super) struct Writer {
    instructions: Vec<String>,
    pub(super) items: Vec<Item>,
    draft: Option<Draft>,
    /// Whether leading system messages are items, too. Otherwise they become the instructions.
    pub(super) has_no_instructions: bool,
    /// The ids of the calls of tools that take text.
    pub(super) custom_calls: BTreeSet<String>,
    /// Whether the provider stores replies, so that it can look up items by their id.
    replies_are_stored: bool,
    /// Whether reasoning was left out since the last message that is not of the assistant. Items that the model made
    /// after this reasoning must not have an id.
    pub(super) has_dropped_reasoning: bool,
}

impl Writer {
    /// Adds every part of the context. Another API may begin a reply with an empty text, for example if the reply is
    /// only a call. This text would be a message without content, so it is left out.
    pub(super) fn add_parts(&mut self, compiler: &mut Compiler<'_>) -> Result<()> {
        compiler.drop_refused_texts(|part, text| part.role == Role::Assistant && !part.is_own && text.is_empty());
        for part in std::mem::take(&mut compiler.parts) {
            self.add(&part, compiler)?;
        }
        self.flush();
        Ok(())
    }

    fn add<'a>(&mut self, part: &Part<'a>, compiler: &mut Compiler<'a>) -> Result<()> {
        if part.role != Role::Assistant {
            self.has_dropped_reasoning = false;
        }
        match &part.block.kind {
            BlockKind::Text(text) if part.role == Role::System && self.belongs_to_instructions(part) => {
                if !self.instructions.is_empty() {
                    let reason = "the instructions are one text";
                    compiler.losses.add(&part.position, LossKind::Merged, Action::Moved, reason);
                }
                self.instructions.push(text.clone());
                Ok(())
            }
            BlockKind::Opaque(opaque) => {
                if let Some(data) = compiler.accepted_opaque_value(part, opaque)? {
                    self.add_opaque(part, data, compiler);
                }
                Ok(())
            }
            BlockKind::Thinking(thinking) => {
                self.add_thinking(part, thinking, compiler);
                Ok(())
            }
            BlockKind::ToolUse(call) => self.add_call(part, call, compiler),
            BlockKind::ToolResult(result) => self.add_result(part, result, compiler),
            _ => {
                if let Some(content) = content_part(part, compiler)? {
                    self.add_content(part, content, compiler);
                }
                Ok(())
            }
        }
    }

    /// Returns whether a system message belongs to the instructions: it is before the conversation, and did not come as
    /// an item of the input.
    fn belongs_to_instructions(&self, part: &Part<'_>) -> bool {
        let came_as_item =
            !part.native.part.is_empty() || part.native.message.as_ref().is_some_and(|form| form.has(INPUT));
        !self.has_no_instructions && self.items.is_empty() && self.draft.is_none() && !came_as_item
    }

    fn push(&mut self, part: &Part<'_>, value: Value) {
        self.flush();
        let is_output = part.role == Role::Assistant;
        self.items.push(Item { value, position: part.position.clone(), part_positions: Vec::new(), is_output });
    }

    fn flush(&mut self) {
        if let Some(mut draft) = self.draft.take() {
            let (part_positions, is_output) = (std::mem::take(&mut draft.positions), draft.role == Role::Assistant);
            if let Some(position) = part_positions.first().cloned() {
                self.items.push(Item { value: draft.finish(), position, part_positions, is_output });
            }
        }
    }

    fn add_content(&mut self, part: &Part<'_>, content: Value, compiler: &mut Compiler<'_>) {
        let takes_content = |draft: &&mut Draft| {
            let joins = part.role != Role::Assistant || draft.form.has(LIST);
            draft.role == part.role && !part.begins_message && joins
        };
        if let Some(draft) = self.draft.as_mut().filter(takes_content) {
            draft.content.push(content);
            draft.positions.push(part.position.clone());
            return;
        }
        self.flush();
        let mut form = part.native.message.clone().unwrap_or_default();
        if self.has_dropped_reasoning {
            let field_count = form.diff.set.len();
            form.diff.set.retain(|(pointer, _)| pointer != "/id");
            if form.diff.set.len() < field_count {
                let reason = "the reasoning that it belongs to is left out";
                compiler.losses.add(&part.position.below("/opaque"), LossKind::ItemId, Action::Dropped, reason);
            }
        }
        self.draft =
            Some(Draft { role: part.role, form, content: vec![content], positions: vec![part.position.clone()] });
    }

    fn add_opaque(&mut self, part: &Part<'_>, data: Value, compiler: &mut Compiler<'_>) {
        let object = data.as_object();
        if let Some(raw) = object.and_then(|data| data.object(OPAQUE_MESSAGE)) {
            return self.push(part, raw.clone().into());
        }
        let kind = object.and_then(|data| data.text("type")).unwrap_or_default();
        let is_content = ["input_", "output_"].iter().any(|start| kind.starts_with(start));
        if is_content {
            return self.add_content(part, data, compiler);
        }
        if self.has_dropped_reasoning && object.is_some_and(|data| data.get("id").is_some()) {
            let reason = "the reasoning that it belongs to is left out";
            compiler.losses.add(&part.position, LossKind::ServerTool, Action::Dropped, reason);
            return;
        }
        self.push(part, data);
    }

    fn add_thinking<'a>(&mut self, part: &Part<'a>, thinking: &'a Thinking, compiler: &mut Compiler<'a>) {
        if !compiler.accepts_thinking(part, thinking) {
            self.has_dropped_reasoning = true;
            if let Some(text) = compiler.thinking_text(part, thinking) {
                self.add_content(part, output_text(text).into(), compiler);
            }
            return;
        }
        let item = reasoning_item_of_other_tool(thinking)
            .unwrap_or_else(|| part.in_native_form(reasoning_item(thinking, part.has_flag(CONTENT))));
        // The provider looks up stored reasoning by its id, and reads other reasoning from its encrypted content.
        let is_readable =
            item.text("encrypted_content").is_some() || self.replies_are_stored && item.text("id").is_some();
        if is_readable {
            self.push(part, item.into());
        } else {
            self.has_dropped_reasoning = true;
            let reason = "reasoning that the provider has not stored needs its encrypted content";
            compiler.losses.add(&part.position, LossKind::Thinking, Action::Dropped, reason);
        }
    }

    fn add_call<'a>(&mut self, part: &Part<'a>, call: &'a ToolUse, compiler: &mut Compiler<'a>) -> Result<()> {
        let id = compiler.call_id(part, call, ID_RULE);
        let item = if part.has_flag(CUSTOM) {
            let input = Value::of(&call.input)?;
            self.custom_calls.insert(id.clone());
            custom_call_item(&id, &call.name, input.as_text().unwrap_or_default())
        } else {
            call_item(&id, &call.name, &compiler.text_arguments(part, call)?)
        };
        let mut item = part.in_native_form(item);
        if self.has_dropped_reasoning && item.remove("id").is_some() {
            let reason = "the reasoning that it belongs to is left out";
            compiler.losses.add(&part.position.below("/opaque"), LossKind::ItemId, Action::Dropped, reason);
        }
        self.push(part, item.into());
        Ok(())
    }

    fn add_result<'a>(&mut self, part: &Part<'a>, result: &'a ToolResult, compiler: &mut Compiler<'a>) -> Result<()> {
        let Some(call) = compiler.answered_call(part, result) else { return Ok(()) };
        let mut content: Vec<Value> = Vec::new();
        if let Some(raw) = &call.malformed_arguments {
            content.push(input_text(&format!("The arguments of the call were not JSON: {raw}")).into());
        }
        for part in compiler.parts_of_result(part, result)? {
            content.extend(match &part.block.kind {
                BlockKind::Opaque(opaque) => compiler.accepted_opaque_value(&part, opaque)?,
                _ => content_part(&part, compiler)?,
            });
        }
        if compiler.error_as_text(part, result) {
            mark_as_error(&mut content);
        }
        if content.is_empty() && !part.is_own {
            compiler.losses.add(&part.position, LossKind::Empty, Action::Made, "a result needs some output");
            content.push(input_text(NO_OUTPUT).into());
        }
        let is_custom = part.has_flag(CUSTOM) || self.custom_calls.contains(&call.id);
        let kind = if is_custom { "custom_tool_call_output" } else { "function_call_output" };
        let output = content_value(content, part.has_flag(RESULT_LIST));
        let item = Object::of_type(kind).with_text("call_id", call.id).with("output", output);
        self.push(part, part.in_native_form(item).into());
        Ok(())
    }

    /// Writes messages of the assistant that have no id as texts, because the form with parts requires an id. A message
    /// of another model has no id, because only the model that made a message accepts its id.
    fn simplify_messages_without_id(&mut self, compiler: &mut Compiler<'_>) {
        for item in std::mem::take(&mut self.items) {
            match messages_without_id(&item, compiler) {
                Some(messages) => self.items.extend(messages),
                None => self.items.push(item),
            }
        }
    }

    /// Leaves out reasoning with an id if no other item of the assistant follows it, because the API refuses such
    /// reasoning.
    fn drop_unfollowed_reasoning(&mut self, compiler: &mut Compiler<'_>) {
        let mut is_followed = false;
        let mut kept_items = Vec::with_capacity(self.items.len());
        for item in std::mem::take(&mut self.items).into_iter().rev() {
            let has_id = item.value.as_object().is_some_and(|item| item.get("id").is_some());
            if item.is_reasoning() && has_id && !is_followed {
                let reason = "the item that it led to is missing";
                compiler.losses.add(&item.position, LossKind::Thinking, Action::Dropped, reason);
                continue;
            }
            is_followed = item.is_output && !item.is_reasoning();
            kept_items.push(item);
        }
        kept_items.reverse();
        self.items = kept_items;
    }
}

/// Returns a message of the assistant as messages that need no id, one for each text. Returns `None` if it has an id,
/// or is a text already.
fn messages_without_id(item: &Item, compiler: &mut Compiler<'_>) -> Option<Vec<Item>> {
    let message = item.value.as_object().filter(|message| message.text("role") == Some("assistant"))?;
    let content = message.list("content").filter(|_| message.get("id").is_none())?;
    let reason = "without its id, a message of the assistant is only a text";
    for (name, _) in message.iter().filter(|(name, _)| !matches!(*name, "type" | "role" | "content" | "phase")) {
        compiler.losses.add(&item.position.below("/opaque"), LossKind::of_field(name), Action::Dropped, reason);
    }
    let mut messages = Vec::new();
    for (part, position) in content.iter().filter_map(Value::as_object).zip(&item.part_positions) {
        for (name, value) in part.iter().filter(|(name, _)| !matches!(*name, "type" | "text" | "refusal")) {
            if value.as_list().is_none_or(|items| !items.is_empty()) {
                compiler.losses.add(&position.below("/opaque"), LossKind::of_field(name), Action::Dropped, reason);
            }
        }
        if part.get("refusal").is_some() {
            compiler.losses.add(&position.below("/opaque"), LossKind::Refusal, Action::Text, reason);
        }
        let text = part.text("text").or_else(|| part.text("refusal"))?;
        let mut value = Object::new().with_text("role", "assistant").with_text("content", text);
        if let Some(phase) = message.get("phase") {
            value.set("phase", phase.clone());
        }
        let (position, part_positions) = (position.clone(), vec![position.clone()]);
        messages.push(Item { value: value.into(), position, part_positions, is_output: true });
    }
    Some(messages)
}

impl Draft {
    fn finish(self) -> Value {
        let name = match self.role {
            Role::System => "system",
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        let is_native = !self.form.is_empty();
        let as_list =
            if self.role == Role::Assistant { is_native && !self.form.has(TEXT) } else { self.form.has(LIST) };
        let content = content_value(self.content, as_list);
        let mut message = Object::new().with_text("role", name);
        if content.as_list().is_some() {
            message.set("type", Value::text("message"));
        }
        message.set("content", content);
        self.form.diff.apply(&mut message);
        message.into()
    }
}

/// Returns content as a list, or as a text if it is one plain text and `as_list` is false.
fn content_value(content: Vec<Value>, as_list: bool) -> Value {
    if let [Value::Object(part)] = content.as_slice()
        && !as_list
    {
        let text = part.text("text").unwrap_or_default();
        if *part == input_text(text) || *part == output_text(text) {
            return Value::text(text);
        }
        if let Some(half_surrogate) = part.get("content") {
            return half_surrogate.clone();
        }
    }
    Value::List(content)
}

/// Returns the whole reasoning item, if another tool stored it as the signature of the thinking.
fn reasoning_item_of_other_tool(thinking: &Thinking) -> Option<Object> {
    let item = Value::parse(thinking.signature.as_deref().filter(|text| text.starts_with('{'))?).ok()?;
    item.as_object().filter(|item| item.text("type") == Some("reasoning")).cloned()
}

fn mark_as_error(content: &mut Vec<Value>) {
    match content.first_mut() {
        Some(Value::Object(first)) if first.text("text").is_some() => {
            let text = format!("{ERROR_PREFIX}{}", first.text("text").unwrap_or_default());
            first.set("text", Value::Text(text));
        }
        _ => content.insert(0, input_text(ERROR_PREFIX.trim_end()).into()),
    }
}

/// Returns a block as a part of the content of a message or a result.
fn content_part<'a>(part: &Part<'a>, compiler: &mut Compiler<'a>) -> Result<Option<Value>> {
    let text_part = if part.role == Role::Assistant { output_text } else { input_text };
    let object = match &part.block.kind {
        BlockKind::Text(text) if part.has_flag(REFUSAL) => refusal_part(text),
        BlockKind::Text(text) => text_part(text),
        BlockKind::Image(media) | BlockKind::Document(media) | BlockKind::Audio(media) | BlockKind::Video(media) => {
            match media_part(&part.block.kind).filter(|_| part.role != Role::Assistant) {
                Some(object) => {
                    compiler.report_media_type_of_url(part, media);
                    if matches!(part.block.kind, BlockKind::Image(_)) || object.get("file_url").is_some() {
                        compiler.report_title(part, media);
                    }
                    object
                }
                None => {
                    return Ok(Some(
                        text_part(&compiler.media_text(part, media, "the API takes no such media")).into(),
                    ));
                }
            }
        }
        _ => {
            compiler.report_unknown_block(part);
            return Ok(None);
        }
    };
    Ok(Some(part.in_native_form(object).into()))
}
