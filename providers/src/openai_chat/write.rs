//! Writes requests.

use store_core::{BlockKind, Result, Role, Thinking, ToolResult, ToolUse};

use super::{
    CUSTOM, LIST, REFUSAL, THINKING_FIELDS, call_object, custom_call_object, media_part, refusal_part, text_part,
};
use crate::{
    calls::IdRule,
    compile::{Compiler, Part, opaque_message},
    loss::{Action, LossKind},
    native::FormDiff,
    value::{Object, Value},
};

/// The API refuses longer ids (agno-agi/agno#5382).
const ID_RULE: IdRule = IdRule { max_length: 40, plain_only: false };
/// The text that a result without content gets. The API refuses such a result.
const NO_OUTPUT: &str = "(no output)";
/// The beginning of the text of a failed result. The API has no field for failures.
const ERROR_PREFIX: &str = "[error] ";

pub(super) fn write(compiler: &mut Compiler<'_>) -> Result<Object> {
    let mut writer = Writer::default();
    for mut part in std::mem::take(&mut compiler.parts) {
        if part.role == Role::Tool {
            compiler.drop_message_form(&mut part);
        }
        writer.add(&part, compiler)?;
    }
    writer.flush();
    compiler.require_messages(&writer.messages)?;
    let body = Object::new().with_text("model", &compiler.target.model);
    Ok(body.with("messages", Value::List(writer.messages)))
}

/// A message that is being written.
struct Draft {
    role: &'static str,
    form: FormDiff,
    content: Vec<Value>,
    calls: Vec<Value>,
    /// Fields beside the content.
    fields: Object,
}

#[derive(Default)]
struct Writer {
    messages: Vec<Value>,
    draft: Option<Draft>,
    /// The content of the results of a turn that is not text. It goes to a user message after all results of the turn.
    content_after_results: Vec<Value>,
}

impl Writer {
    fn add<'a>(&mut self, part: &Part<'a>, compiler: &mut Compiler<'a>) -> Result<()> {
        if let BlockKind::ToolResult(result) = &part.block.kind {
            return self.add_result(part, result, compiler);
        }
        if part.role == Role::Tool {
            let content = content_part(part, compiler)?;
            self.content_after_results.extend(content);
            return Ok(());
        }
        if let BlockKind::Opaque(opaque) = &part.block.kind {
            if let Some(data) = compiler.accepted_opaque_value(part, opaque)? {
                self.add_opaque(part, data, compiler);
            }
            return Ok(());
        }
        match &part.block.kind {
            BlockKind::ToolUse(call) => {
                let call = write_call(part, call, compiler)?;
                self.draft(part).calls.push(call);
            }
            BlockKind::Thinking(thinking) => self.add_thinking(part, thinking, compiler),
            BlockKind::Text(text) if part.has_flag(REFUSAL) && part.native.part.diff.is_empty() => {
                // A refusal is a field of its own, unless it is a part of a list.
                self.draft(part).fields.set("refusal", Value::text(text));
            }
            _ => {
                let content = content_part(part, compiler)?;
                self.draft(part).content.extend(content);
            }
        }
        Ok(())
    }

    fn draft(&mut self, part: &Part<'_>) -> &mut Draft {
        let role = match part.role {
            Role::System => "system",
            Role::User | Role::Tool => "user",
            Role::Assistant => "assistant",
        };
        if part.begins_message || self.draft.as_ref().is_none_or(|draft| draft.role != role) {
            self.flush();
        }
        self.draft.get_or_insert_with(|| Draft {
            role,
            form: part.native.message.clone().unwrap_or_default(),
            content: Vec::new(),
            calls: Vec::new(),
            fields: Object::new(),
        })
    }

    fn flush(&mut self) {
        if !self.content_after_results.is_empty() {
            let content = Value::List(std::mem::take(&mut self.content_after_results));
            self.messages.push(Object::new().with_text("role", "user").with("content", content).into());
        }
        self.messages.extend(self.draft.take().and_then(Draft::finish));
    }

    fn add_opaque(&mut self, part: &Part<'_>, data: Value, compiler: &mut Compiler<'_>) {
        if let Some(raw) = opaque_message(&data) {
            let is_missing = |name| match raw.get(name) {
                Some(Value::List(items)) => items.is_empty(),
                value => value.is_none_or(|value| *value == Value::Null),
            };
            if is_missing("content") && is_missing("audio") && is_missing("function_call") {
                return compiler.report_empty_message(part);
            }
            self.flush();
            self.messages.push(raw.clone().into());
            return;
        }
        let is_call =
            data.as_object().is_some_and(|data| data.get("function").is_some() || data.get("custom").is_some());
        let draft = self.draft(part);
        if is_call { draft.calls.push(data) } else { draft.content.push(data) }
    }

    fn add_thinking<'a>(&mut self, part: &Part<'a>, thinking: &'a Thinking, compiler: &mut Compiler<'a>) {
        let field = THINKING_FIELDS.into_iter().find(|field| part.has_flag(field) || is_name_of(field, thinking));
        match field.filter(|_| compiler.accepts_thinking(part, thinking)) {
            Some(field) => {
                let fields = &mut self.draft(part).fields;
                let existing = fields.text(field).unwrap_or_default();
                let joined_text = format!("{existing}{}", thinking.text);
                fields.set(field, Value::Text(joined_text));
            }
            None => {
                if let Some(text) = compiler.thinking_text(part, thinking) {
                    self.draft(part).content.push(text_part(text).into());
                }
            }
        }
    }

    fn add_result<'a>(&mut self, part: &Part<'a>, result: &'a ToolResult, compiler: &mut Compiler<'a>) -> Result<()> {
        let Some(call) = compiler.answered_call(part, result) else { return Ok(()) };
        self.messages.extend(self.draft.take().and_then(Draft::finish));
        let mut texts: Vec<Object> = Vec::new();
        if let Some(raw) = &call.malformed_arguments {
            texts.push(text_part(&format!("The arguments of the call were not JSON: {raw}")));
        }
        for part in compiler.parts_of_result(part, result)? {
            if let BlockKind::Text(text) = &part.block.kind {
                texts.push(part.in_native_form(text_part(text)));
                continue;
            }
            if let Some(content) = content_part(&part, compiler)? {
                let number = self.content_after_results.iter().filter(|part| !is_text(part)).count() + 1;
                let reason = "results hold only text; the media follow all results of the turn";
                compiler.losses.add(&part.position, LossKind::MediaInResult, Action::Moved, reason);
                texts.push(text_part(&format!("[{number}: see the next message]")));
                self.content_after_results.push(text_part(&format!("[{number}, of {}]", call.name)).into());
                self.content_after_results.push(content);
            }
        }
        if compiler.error_as_text(part, result) {
            let first = texts.first().and_then(|first| first.text("text")).unwrap_or_default();
            let marked = text_part(&format!("{ERROR_PREFIX}{first}"));
            match texts.first_mut() {
                Some(first) => *first = marked,
                None => texts.push(marked),
            }
        }
        if texts.is_empty() {
            compiler.losses.add(
                &part.position,
                LossKind::Empty,
                Action::Made,
                "the API refuses results without content",
            );
            texts.push(text_part(NO_OUTPUT));
        }
        let content = content_value(texts.into_iter().map(Value::from).collect(), part.has_flag(LIST));
        let message =
            Object::new().with_text("role", "tool").with_text("tool_call_id", call.id).with("content", content);
        self.messages.push(part.in_native_form(message).into());
        Ok(())
    }
}

impl Draft {
    fn finish(self) -> Option<Value> {
        let has_calls = !self.calls.is_empty();
        if self.content.is_empty() && !has_calls && self.fields.is_empty() {
            return None;
        }
        let content = if self.content.is_empty() {
            // Only a message with calls or with a refusal may be without content.
            if has_calls || self.fields.get("refusal").is_some() { Value::Null } else { Value::text("") }
        } else {
            content_value(self.content, self.form.has(LIST))
        };
        let mut message = Object::new().with_text("role", self.role).with("content", content);
        if has_calls {
            message.set("tool_calls", Value::List(self.calls));
        }
        for (name, value) in self.fields.iter() {
            message.set(name, value.clone());
        }
        self.form.diff.apply(&mut message);
        Some(message.into())
    }
}

/// Returns whether the signature of thinking is the name of this field. Some tools store the name of the field there.
fn is_name_of(field: &str, thinking: &Thinking) -> bool {
    thinking.signature.as_deref() == Some(field)
}

fn is_text(part: &Value) -> bool {
    part.as_object().and_then(|part| part.text("type")) == Some("text")
}

/// Returns content as a list, or as a text if it is one plain text and `as_list` is false.
fn content_value(content: Vec<Value>, as_list: bool) -> Value {
    if let [Value::Object(part)] = content.as_slice()
        && !as_list
        && let Some(text) = part.get("content").or_else(|| part.get("text"))
        && (part.get("content").is_some() || *part == text_part(text.as_text().unwrap_or_default()))
    {
        return text.clone();
    }
    Value::List(content)
}

/// Returns a block as a part of the content of a message.
fn content_part<'a>(part: &Part<'a>, compiler: &mut Compiler<'a>) -> Result<Option<Value>> {
    let object = match &part.block.kind {
        BlockKind::Text(text) if part.has_flag(REFUSAL) => refusal_part(text),
        BlockKind::Text(text) => text_part(text),
        BlockKind::Opaque(opaque) => return compiler.accepted_opaque_value(part, opaque),
        BlockKind::Image(media) | BlockKind::Document(media) | BlockKind::Audio(media) | BlockKind::Video(media) => {
            let is_accepted = matches!(part.role, Role::User | Role::Tool);
            match media_part(&part.block.kind).filter(|_| is_accepted) {
                Some(object) => {
                    compiler.report_media_type_of_url(part, media);
                    if !matches!(part.block.kind, BlockKind::Document(_)) {
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

fn write_call<'a>(part: &Part<'a>, call: &'a ToolUse, compiler: &mut Compiler<'a>) -> Result<Value> {
    let id = compiler.call_id(part, call, ID_RULE);
    if part.has_flag(CUSTOM) {
        let input = Value::of(&call.input)?;
        let object = custom_call_object(&id, &call.name, input.as_text().unwrap_or_default());
        return Ok(part.in_native_form(object).into());
    }
    let arguments = compiler.text_arguments(part, call)?;
    Ok(part.in_native_form(call_object(&id, &call.name, &arguments)).into())
}
