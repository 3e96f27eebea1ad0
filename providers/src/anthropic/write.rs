//! Writes requests.

use store_core::{BlockKind, Result, Role, Thinking, ToolResult, ToolUse};

use super::{
    INSIDE, LIST, NO_CONTENT, RESULT_LIST, TEXT, media_block, redacted_block, text_block, thinking_block,
    tool_use_block,
};
use crate::{
    blank::is_blank,
    calls::IdRule,
    compile::{Compiler, Part, opaque_message},
    loss::{Action, LossKind, Position},
    media::{media_in, media_kind},
    models::Feature,
    native::FormDiff,
    value::{Object, Value},
};

/// No limit on the length is known. The limit here keeps ids readable.
const ID_RULE: IdRule = IdRule { max_length: 512, plain_only: true };
/// The limit of output tokens if the settings contain none. The API requires one.
const MAX_TOKENS: &str = "4096";
/// The text of a user message that is added before a history that begins with the assistant. The API refuses such a
/// history.
const BEGINNING: &str = "(The conversation begins with the assistant.)";
/// The text that a failed result without content gets. The API refuses such a result (jlevy/markform#153).
const NO_OUTPUT: &str = "(no output)";
/// The beginning of a mark for the cache in JSON.
const CACHE_MARK: &str = r#""cache_control":{"#;
/// The maximum number of blocks that have a mark for the cache.
const MAX_CACHE_MARKS: usize = 4;

pub(super) fn write(compiler: &mut Compiler<'_>) -> Result<Object> {
    let mut writer =
        Writer { messages: Vec::new(), system: Vec::new(), system_form: FormDiff::default(), has_begun: false };
    compiler.drop_refused_texts(|_, text| is_blank(text));
    for part in std::mem::take(&mut compiler.parts) {
        writer.add(&part, compiler)?;
    }
    writer.finish(compiler)
}

/// A message of the request.
struct Draft {
    role: &'static str,
    form: FormDiff,
    content: Vec<Content>,
    /// The whole message as it was read. If it is set, `content` is empty.
    raw: Option<Object>,
}

/// A content block, and its position in the context.
struct Content {
    block: Value,
    position: Position,
    /// Whether the model of the target made it.
    is_own: bool,
    /// Whether a message of the context begins with it.
    begins_message: bool,
}

impl Content {
    fn new(part: &Part<'_>, block: Value) -> Self {
        let (is_own, begins_message) = (part.is_own, part.begins_message);
        Self { block, position: part.position.clone(), is_own, begins_message }
    }
}

struct Writer {
    messages: Vec<Draft>,
    system: Vec<Content>,
    system_form: FormDiff,
    /// Whether the conversation has begun. System messages then no longer go to the field `system`.
    has_begun: bool,
}

impl Writer {
    fn add<'a>(&mut self, part: &Part<'a>, compiler: &mut Compiler<'a>) -> Result<()> {
        if let BlockKind::Opaque(opaque) = &part.block.kind {
            if let Some(data) = compiler.accepted_opaque_value(part, opaque)? {
                self.add_opaque(part, data, compiler);
            }
            return Ok(());
        }
        if part.role == Role::System {
            return self.add_system(part, compiler);
        }
        let Some(block) = self.block(part, compiler)? else { return Ok(()) };
        self.has_begun = true;
        let role = if part.role == Role::Assistant { "assistant" } else { "user" };
        self.push(part, role, block, compiler);
        Ok(())
    }

    fn add_opaque(&mut self, part: &Part<'_>, data: Value, compiler: &mut Compiler<'_>) {
        if opaque_message(&data).is_some_and(|raw| raw.list("content").is_some_and(<[Value]>::is_empty)) {
            return compiler.report_empty_message(part);
        }
        self.has_begun = true;
        let role = if part.role == Role::Assistant { "assistant" } else { "user" };
        if let Some(raw) = opaque_message(&data) {
            let draft = Draft { role, form: FormDiff::default(), content: Vec::new(), raw: Some(raw.clone()) };
            self.messages.push(draft);
        } else {
            self.push_block(part, role, data);
        }
    }

    /// Adds a block to the last message, or begins a new one. Consecutive messages of one role are merged, unless they
    /// were separate when they were read.
    fn push(&mut self, part: &Part<'_>, role: &'static str, block: Object, compiler: &mut Compiler<'_>) {
        let is_merged = part.begins_message
            && part.native.message.is_none()
            && self.messages.last().is_some_and(|last| last.role == role && last.raw.is_none());
        if is_merged && part.role != Role::Tool && !is_after_result(self.messages.last()) {
            let reason = "neighbours of one role become one message";
            compiler.losses.add(&part.position, LossKind::Merged, Action::Moved, reason);
        }
        self.push_block(part, role, block.into());
    }

    fn push_block(&mut self, part: &Part<'_>, role: &'static str, block: Value) {
        let content = Content::new(part, block);
        let joins = |last: &&mut Draft| last.role == role && last.raw.is_none() && part.native.message.is_none();
        if let Some(last) = self.messages.last_mut().filter(joins) {
            last.content.push(content);
            return;
        }
        let form = part.native.message.clone().unwrap_or_default();
        self.messages.push(Draft { role, form, content: vec![content], raw: None });
    }

    fn add_system(&mut self, part: &Part<'_>, compiler: &mut Compiler<'_>) -> Result<()> {
        let BlockKind::Text(text) = &part.block.kind else {
            compiler.losses.add(&part.position, LossKind::UnknownBlock, Action::Dropped, "it is not a text");
            return Ok(());
        };
        let was_inside = part.native.message.as_ref().is_some_and(|form| form.has(INSIDE));
        if !self.has_begun && !was_inside {
            if let Some(form) = &part.native.message {
                self.system_form = form.clone();
            }
            let block = part.in_native_form(text_block(text)).into();
            self.system.push(Content::new(part, block));
            return Ok(());
        }
        self.has_begun = true;
        if compiler.target.has(Feature::SystemInside) {
            self.push_block(part, "system", part.in_native_form(text_block(text)).into());
            return Ok(());
        }
        let reason = "the model takes system messages only before the conversation";
        compiler.losses.add(&part.position, LossKind::SystemPosition, Action::Text, reason);
        self.push_block(part, "user", text_block(&format!("<system>{text}</system>")).into());
        Ok(())
    }

    fn block<'a>(&self, part: &Part<'a>, compiler: &mut Compiler<'a>) -> Result<Option<Object>> {
        let block = match &part.block.kind {
            BlockKind::Text(text) => Some(text_block(text)),
            BlockKind::Thinking(thinking) => return Ok(write_thinking(part, thinking, compiler)),
            BlockKind::ToolUse(call) => Some(write_call(part, call, compiler)?),
            BlockKind::ToolResult(result) => return write_result(part, result, compiler),
            _ => return Ok(write_media(part, compiler)),
        };
        Ok(block.map(|block| part.in_native_form(block)))
    }

    fn finish(mut self, compiler: &mut Compiler<'_>) -> Result<Object> {
        self.drop_refused_thinking(compiler);
        self.move_thinking_first(compiler);
        self.trim_last_text(compiler);
        self.limit_cache_marks(compiler);
        compiler.require_messages(&self.messages)?;
        let mut body = Object::new().with_text("model", &compiler.target.model);
        if compiler.settings.get("max_tokens").is_none() {
            body.set("max_tokens", Value::Number(MAX_TOKENS.to_owned()));
        }
        if !self.system.is_empty() {
            let system = self.system.into_iter().map(|content| content.block).collect();
            body.set("system", content_value(system, self.system_form.has(LIST)));
        }
        if let Some(first) = self.messages.first().filter(|first| first.role == "assistant") {
            if let Some(position) = first.content.first().map(|content| content.position.clone()) {
                compiler.report_added_content(&position, LossKind::Empty, "a message of the user has to come first");
            }
            let placeholder = Object::new().with_text("role", "user").with_text("content", BEGINNING);
            let raw = Draft { role: "user", form: FormDiff::default(), content: Vec::new(), raw: Some(placeholder) };
            self.messages.insert(0, raw);
        }
        let messages = self.messages.into_iter().map(Draft::finish).collect();
        Ok(body.with("messages", Value::List(messages)))
    }

    /// Leaves out thinking at the end of a message, which the API refuses, and all thinking if it is switched off.
    fn drop_refused_thinking(&mut self, compiler: &mut Compiler<'_>) {
        let is_off =
            compiler.settings.object("thinking").and_then(|thinking| thinking.text("type")) == Some("disabled");
        for message in &mut self.messages {
            let ends_in_thinking =
                |message: &Draft| message.content.last().is_some_and(|last| is_thinking(&last.block));
            while ends_in_thinking(message) {
                if let Some(last) = message.content.pop() {
                    let reason = "a message cannot end with thinking";
                    compiler.losses.add(&last.position, LossKind::Thinking, Action::Dropped, reason);
                }
            }
            message.content.retain(|content| {
                let is_dropped = is_off && is_thinking(&content.block);
                if is_dropped {
                    let reason = "thinking is switched off";
                    compiler.losses.add(&content.position, LossKind::Thinking, Action::Dropped, reason);
                }
                !is_dropped
            });
        }
        self.messages.retain(|message| message.raw.is_some() || !message.content.is_empty());
    }

    /// If thinking is switched on and the last message of the assistant has calls, moves thinking to the beginning of
    /// that message: the API refuses a turn that begins with anything else. Only thinking is moved with which a message
    /// of the context began before it was merged.
    fn move_thinking_first(&mut self, compiler: &mut Compiler<'_>) {
        if !has_thinking_enabled(&compiler.settings) {
            return;
        }
        let last = self.messages.iter_mut().rfind(|message| message.role == "assistant");
        let Some(last) = last.filter(|last| last.content.iter().any(|content| is_call(&content.block))) else { return };
        let Some(at) = last.content.iter().position(|content| is_thinking(&content.block)) else { return };
        if at == 0 || !last.content.get(at).is_some_and(|content| content.begins_message) {
            return;
        }
        let thinking = last.content.iter().skip(at).take_while(|content| is_thinking(&content.block)).count();
        if let Some(moved) = last.content.get_mut(..at + thinking) {
            moved.rotate_left(at);
        }
        for content in last.content.iter().take(thinking) {
            let reason = "with thinking switched on, a turn begins with thinking";
            compiler.losses.add(&content.position, LossKind::Merged, Action::Moved, reason);
        }
    }

    /// Removes white space from the end of a last text of the assistant, which the API refuses. A text that the model
    /// of the target made stays unchanged, because the caller appends another message before the request is sent.
    fn trim_last_text(&mut self, compiler: &mut Compiler<'_>) {
        let last = self.messages.last_mut().filter(|message| message.role == "assistant");
        let last = last.and_then(|last| last.content.last_mut()).filter(|last| !last.is_own);
        let Some(Content { block: Value::Object(block), position, .. }) = last else { return };
        let Some(text) = block.text("text").filter(|text| text.ends_with(char::is_whitespace)) else { return };
        let trimmed = text.trim_end().to_owned();
        block.set("text", Value::Text(trimmed));
        let reason = "the last text of the assistant cannot end in white space";
        compiler.losses.add(&position.below("/text"), LossKind::Empty, Action::Replaced, reason);
    }

    /// Removes the first marks for the cache if there are more than the API accepts.
    fn limit_cache_marks(&mut self, compiler: &mut Compiler<'_>) {
        let messages = self.messages.iter_mut().rev().flat_map(|message| message.content.iter_mut().rev());
        let marks_in_settings = Value::from(compiler.settings.clone()).encode().matches(CACHE_MARK).count();
        let mut cache_marks = marks_in_settings;
        for content in messages.chain(self.system.iter_mut().rev()) {
            let Value::Object(block) = &mut content.block else { continue };
            cache_marks += Value::from(block.clone()).encode().matches(CACHE_MARK).count();
            if block.get("cache_control").is_some() && cache_marks > MAX_CACHE_MARKS {
                block.remove("cache_control");
                let reason = "the API accepts four marks for the cache";
                compiler.losses.add(
                    &content.position.below("/opaque"),
                    LossKind::CacheControl,
                    Action::Dropped,
                    reason,
                );
            }
        }
    }
}

impl Draft {
    fn finish(self) -> Value {
        if let Some(raw) = self.raw {
            return raw.into();
        }
        let mut content = self.content;
        // The API requires that results come first in their message.
        content.sort_by_key(|content| !is_result(&content.block));
        let (as_list, as_text) = (self.form.has(LIST) || self.role == "assistant", self.form.has(TEXT));
        let content = content.into_iter().map(|content| content.block).collect();
        let content = content_value(content, as_list && !as_text);
        let mut message = Object::new().with_text("role", self.role).with("content", content);
        self.form.diff.apply(&mut message);
        message.into()
    }
}

fn is_after_result(message: Option<&Draft>) -> bool {
    message.and_then(|message| message.content.last()).is_some_and(|content| is_result(&content.block))
}

fn has_type(block: &Value, kinds: &[&str]) -> bool {
    block.as_object().and_then(|block| block.text("type")).is_some_and(|kind| kinds.contains(&kind))
}

pub(super) fn is_result(block: &Value) -> bool {
    has_type(block, &["tool_result"])
}

pub(super) fn is_call(block: &Value) -> bool {
    has_type(block, &["tool_use"])
}

/// Returns whether the settings of a request demand thinking. With adaptive thinking the model decides, and the API
/// does not demand that a turn begins with it.
pub(super) fn has_thinking_enabled(settings: &Object) -> bool {
    settings.object("thinking").and_then(|thinking| thinking.text("type")) == Some("enabled")
}

pub(super) fn is_thinking(block: &Value) -> bool {
    has_type(block, &["thinking", "redacted_thinking"])
}

/// Returns content as a list, or as a text if it is one plain text and `as_list` is false.
fn content_value(content: Vec<Value>, as_list: bool) -> Value {
    if let [Value::Object(block)] = content.as_slice()
        && !as_list
        && let Some(text) = block.text("text")
    {
        if *block == text_block(text) {
            return Value::text(text);
        }
        // The content is one text that contains half of a surrogate pair.
        if let Some(half_surrogate) = block.get("content") {
            return half_surrogate.clone();
        }
    }
    Value::List(content)
}

fn write_thinking(part: &Part<'_>, thinking: &Thinking, compiler: &mut Compiler<'_>) -> Option<Object> {
    match &thinking.signature {
        Some(signature) if compiler.accepts_thinking(part, thinking) => {
            Some(part.in_native_form(if thinking.redacted {
                redacted_block(signature)
            } else {
                thinking_block(&thinking.text, signature)
            }))
        }
        _ => compiler.thinking_text(part, thinking).map(text_block),
    }
}

fn write_call(part: &Part<'_>, call: &ToolUse, compiler: &mut Compiler<'_>) -> Result<Object> {
    let id = compiler.call_id(part, call, ID_RULE);
    let input = compiler.object_arguments(part, call)?;
    Ok(tool_use_block(&id, &call.name, input))
}

fn write_result<'a>(part: &Part<'a>, result: &'a ToolResult, compiler: &mut Compiler<'a>) -> Result<Option<Object>> {
    let Some(call) = compiler.answered_call(part, result) else { return Ok(None) };
    let mut content = Vec::new();
    if let Some(raw) = &call.malformed_arguments {
        content.push(text_block(&format!("The arguments of the call were not JSON: {raw}")).into());
    }
    for part in compiler.parts_of_result(part, result)? {
        let block = match &part.block.kind {
            BlockKind::Opaque(opaque) => compiler.accepted_opaque_value(&part, opaque)?,
            BlockKind::Text(text) if compiler.report_if_blank(&part, text) => None,
            BlockKind::Text(text) => Some(part.in_native_form(text_block(text)).into()),
            _ => write_media(&part, compiler).map(Value::from),
        };
        content.extend(block);
    }
    let mut block = Object::of_type("tool_result").with_text("tool_use_id", call.id);
    if content.is_empty() && result.is_error == Some(true) {
        compiler.report_added_content(
            &part.position,
            LossKind::Empty,
            "the API refuses a failed result without content",
        );
        content.push(text_block(NO_OUTPUT).into());
    }
    if !part.has_flag(NO_CONTENT) || !content.is_empty() {
        block.set("content", content_value(content, part.has_flag(RESULT_LIST)));
    }
    if let Some(is_error) = result.is_error {
        block.set("is_error", Value::Bool(is_error));
    }
    Ok(Some(part.in_native_form(block)))
}

fn write_media(part: &Part<'_>, compiler: &mut Compiler<'_>) -> Option<Object> {
    let Some(media) = media_in(&part.block.kind) else {
        compiler.report_unknown_block(part);
        return None;
    };
    let kind = media_kind(part.block);
    let Some(block) = media_block(kind, media).filter(|_| part.role != Role::Assistant) else {
        return Some(text_block(&compiler.media_text(part, media, "the API takes no such media")));
    };
    compiler.report_media_type_of_url(part, media);
    if kind == "image" {
        compiler.report_title(part, media);
    }
    Some(part.in_native_form(block))
}
