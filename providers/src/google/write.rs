//! Writes requests.

use std::collections::BTreeSet;

use store_core::{BlockKind, Result, Role, ToolResult, ToolUse};

use super::{NO_ID, WHOLE_RESPONSE, call_part, media_part, result_part, text_part, thought_part};
use crate::{
    blank::is_blank,
    calls::IdRule,
    compile::{Compiler, Part, opaque_message},
    loss::{Action, LossKind, Position},
    media::media_in,
    models::Feature,
    native::FormDiff,
    value::{Object, Value},
};

/// The API documents no maximum length for the id of a call. This maximum keeps ids readable.
const ID_RULE: IdRule = IdRule { max_length: 512, plain_only: false };
/// The text of a user content that is added before a history that begins with the model. The API refuses such a
/// history.
const BEGINNING: &str = "(The conversation begins with the model.)";
/// The output that a result without content gets.
const NO_OUTPUT: &str = "(no output)";
/// The signature that the API's documentation prescribes for calls of another model, for models that require a
/// signature.
const ANY_SIGNATURE: &str = "skip_thought_signature_validator";

/// Why ids of calls are lost.
const LOST_ID_REASON: &str = "the API pairs calls and results by position";

pub(super) fn write(compiler: &mut Compiler<'_>) -> Result<Object> {
    let mut writer = Writer::default();
    compiler.drop_refused_texts(|part, text| {
        // Later requests have to repeat an empty text with a signature.
        is_blank(text) && part.in_native_form(text_part(text)).get("thoughtSignature").is_none()
    });
    for mut part in std::mem::take(&mut compiler.parts) {
        if part.role == Role::System && !writer.system.is_empty() {
            compiler.drop_message_form(&mut part);
        }
        writer.add(&part, compiler)?;
    }
    writer.finish(compiler)
}

/// A content that is being written.
struct Draft {
    role: &'static str,
    form: FormDiff,
    parts: Vec<DraftPart>,
    /// The whole content as it was read. If it is set, `parts` is empty.
    raw: Option<Object>,
}

/// A part of a content that is being written.
struct DraftPart {
    value: Value,
    position: Position,
    /// For a result: the id of its call in the context.
    answered_id: Option<String>,
    /// For a call: its id in the context.
    call_id: Option<String>,
}

#[derive(Default)]
struct Writer {
    contents: Vec<Draft>,
    system: Vec<Value>,
    system_form: FormDiff,
    /// The ids of the calls that the model of the target made.
    own_call_ids: BTreeSet<String>,
}

impl Writer {
    fn add<'a>(&mut self, part: &Part<'a>, compiler: &mut Compiler<'a>) -> Result<()> {
        let role = if part.role == Role::Assistant { "model" } else { "user" };
        match &part.block.kind {
            BlockKind::Opaque(opaque) => {
                if let Some(data) = compiler.accepted_opaque_value(part, opaque)? {
                    self.add_opaque(part, role, data, compiler);
                }
            }
            _ if part.role == Role::System => self.add_system(part, compiler),
            BlockKind::ToolUse(call) => {
                let (id, value) = write_call(part, call, compiler)?;
                if part.is_own {
                    self.own_call_ids.insert(id);
                }
                self.push(part, role, value, compiler).call_id = Some(call.id.clone());
            }
            BlockKind::ToolResult(result) => self.add_result(part, result, compiler)?,
            BlockKind::Thinking(thinking) if compiler.accepts_thinking(part, thinking) => {
                if thinking.signature.is_some() || !compiler.report_if_blank(part, &thinking.text) {
                    let value = part.in_native_form(thought_part(thinking));
                    self.push(part, role, value, compiler);
                }
            }
            BlockKind::Thinking(thinking) => {
                if let Some(text) = compiler.thinking_text(part, thinking) {
                    self.push(part, role, text_part(text), compiler);
                }
            }
            BlockKind::Text(text) => {
                self.push(part, role, part.in_native_form(text_part(text)), compiler);
            }
            _ => {
                if let Some(value) = write_media(part, compiler) {
                    self.push(part, role, value, compiler);
                }
            }
        }
        Ok(())
    }

    fn add_opaque(&mut self, part: &Part<'_>, role: &'static str, data: Value, compiler: &mut Compiler<'_>) {
        if let Some(raw) = opaque_message(&data) {
            // A content without the field `parts` but with a role was a whole reply. The API accepts it in a request.
            let is_empty = match raw.get("parts") {
                Some(parts) => parts.as_list().is_none_or(<[Value]>::is_empty),
                None => raw.get("role").is_none(),
            };
            if is_empty {
                return compiler.report_empty_message(part);
            }
            let form = FormDiff::default();
            self.contents.push(Draft { role, form, parts: Vec::new(), raw: Some(raw.clone()) });
        } else if part.role == Role::System {
            self.system.push(data);
        } else {
            self.push_part(part, role, data);
        }
    }

    fn add_system(&mut self, part: &Part<'_>, compiler: &mut Compiler<'_>) {
        let BlockKind::Text(text) = &part.block.kind else {
            compiler.losses.add(&part.position, LossKind::UnknownBlock, Action::Dropped, "it is not a text");
            return;
        };
        if self.contents.is_empty() {
            if let Some(form) = &part.native.message {
                self.system_form = form.clone();
            }
            self.system.push(part.in_native_form(text_part(text)).into());
            return;
        }
        let reason = "the API takes system messages only before the conversation";
        compiler.losses.add(&part.position, LossKind::SystemPosition, Action::Text, reason);
        self.push_part(part, "user", text_part(&format!("<system>{text}</system>")).into());
    }

    /// Adds a part like [`Self::push_part`]. If its message is merged with the one before, this is reported as a loss.
    fn push(
        &mut self,
        part: &Part<'_>,
        role: &'static str,
        value: Object,
        compiler: &mut Compiler<'_>,
    ) -> &mut DraftPart {
        let last = self.contents.last().filter(|last| last.role == role && last.raw.is_none());
        let is_after_result = last.and_then(|last| last.parts.last()).is_some_and(|part| part.answered_id.is_some());
        let is_merged = part.begins_message && part.native.message.is_none() && last.is_some();
        if is_merged && part.role != Role::Tool && !is_after_result {
            let reason = "neighbours of one role become one content";
            compiler.losses.add(&part.position, LossKind::Merged, Action::Moved, reason);
        }
        self.push_part(part, role, value.into())
    }

    /// Adds a part to the last content, or begins a new one. Consecutive contents of one role are merged, unless they
    /// were separate when they were read.
    fn push_part(&mut self, part: &Part<'_>, role: &'static str, value: Value) -> &mut DraftPart {
        let new = DraftPart { value, position: part.position.clone(), answered_id: None, call_id: None };
        let joins = |last: &Draft| last.role == role && last.raw.is_none() && part.native.message.is_none();
        if !self.contents.last().is_some_and(joins) {
            let form = part.native.message.clone().unwrap_or_default();
            self.contents.push(Draft { role, form, parts: Vec::new(), raw: None });
        }
        let at = self.contents.len() - 1;
        #[expect(clippy::indexing_slicing, reason = "if no content could take the part, one was just added")]
        let parts = &mut self.contents[at].parts;
        parts.push(new);
        let at = parts.len() - 1;
        #[expect(clippy::indexing_slicing, reason = "the part was just added")]
        &mut parts[at]
    }

    fn add_result<'a>(&mut self, part: &Part<'a>, result: &'a ToolResult, compiler: &mut Compiler<'a>) -> Result<()> {
        let Some(call) = compiler.answered_call(part, result) else { return Ok(()) };
        if !self.own_call_ids.contains(&call.id) {
            let position = part.position.below("/tool_result/tool_use_id");
            compiler.losses.add(&position, LossKind::ToolId, Action::Dropped, LOST_ID_REASON);
        }
        let (mut texts, mut media) = (Vec::new(), Vec::new());
        if let Some(raw) = &call.malformed_arguments {
            texts.push(format!("The arguments of the call were not JSON: {raw}"));
        }
        for part in compiler.parts_of_result(part, result)? {
            match &part.block.kind {
                BlockKind::Text(text) => {
                    compiler.report_native_form(&part);
                    texts.push(text.clone());
                }
                BlockKind::Opaque(opaque) => {
                    media.extend(compiler.accepted_opaque_value(&part, opaque)?.map(|data| (part, data)))
                }
                _ => {
                    let media_value = write_media(&part, compiler);
                    match media_value.as_ref().and_then(|value| value.text("text")) {
                        Some(text) => texts.push(text.to_owned()),
                        None => media.extend(media_value.map(|value| (part, Value::from(value)))),
                    }
                }
            }
        }
        let response = response(part, result, &texts, compiler)?;
        // A result holds only media whose bytes are in the request.
        let takes_media = compiler.target.has(Feature::MediaInResults) || part.is_own;
        let goes_inside =
            |value: &Value| takes_media && value.as_object().is_some_and(|part| part.get("inlineData").is_some());
        let (media_inside, media_after): (Vec<_>, Vec<_>) =
            media.into_iter().partition(|(_, value)| goes_inside(value));
        let parts: Vec<Value> = media_inside.into_iter().map(|(_, value)| value).collect();
        let parts = (!parts.is_empty()).then_some(parts);
        let value = part.in_native_form(result_part(&call.name, response, parts));
        self.push(part, "user", value, compiler).answered_id = Some(result.tool_use_id.clone());
        for (part, value) in media_after {
            let reason = "the result cannot contain this media, so the media follows it";
            compiler.losses.add(&part.position, LossKind::MediaInResult, Action::Moved, reason);
            self.push_part(&part, "user", value);
        }
        Ok(())
    }

    fn finish(mut self, compiler: &mut Compiler<'_>) -> Result<Object> {
        compiler.require_messages(&self.contents)?;
        self.order_results();
        if compiler.target.has(Feature::SignedCalls) {
            self.sign_calls(compiler);
        }
        if let Some(first) = self.contents.first().filter(|first| first.role == "model") {
            if let Some(position) = first.parts.first().map(|part| part.position.clone()) {
                compiler.report_added_content(&position, LossKind::Empty, "a content of the user has to come first");
            }
            let text = Value::List(vec![text_part(BEGINNING).into()]);
            let raw = Object::new().with_text("role", "user").with("parts", text);
            self.contents
                .insert(0, Draft { role: "user", form: FormDiff::default(), parts: Vec::new(), raw: Some(raw) });
        }
        let mut body = Object::new();
        if !self.system.is_empty() {
            let mut system = Object::new().with("parts", Value::List(self.system));
            self.system_form.diff.apply(&mut system);
            body.set("systemInstruction", system);
        }
        let contents = self.contents.into_iter().map(Draft::finish).collect();
        Ok(body.with("contents", Value::List(contents)))
    }

    /// Puts the results of a turn in the order of their calls, before other parts.
    fn order_results(&mut self) {
        let mut call_order: Vec<String> = Vec::new();
        for content in &mut self.contents {
            if content.role == "model" {
                call_order = content.parts.iter().filter_map(|part| part.call_id.clone()).collect();
                continue;
            }
            content.parts.sort_by_key(|part| {
                let answered_id = part.answered_id.as_ref();
                answered_id
                    .map_or(usize::MAX, |id| call_order.iter().position(|call| call == id).unwrap_or(usize::MAX - 1))
            });
        }
    }

    /// Adds a placeholder for a signature to the first call of each step of the current turn, if the call has no
    /// signature. The current turn begins at the last user content with a part that is not a result.
    fn sign_calls(&mut self, compiler: &mut Compiler<'_>) {
        let is_question =
            |content: &Draft| content.role == "user" && content.parts.iter().any(|part| part.answered_id.is_none());
        let begin = self.contents.iter().rposition(is_question).unwrap_or_default();
        for content in self.contents.iter_mut().skip(begin).filter(|content| content.role == "model") {
            let first = content.parts.iter_mut().find(|part| part.call_id.is_some());
            let Some(DraftPart { value: Value::Object(call), position, .. }) = first else { continue };
            if call.get("thoughtSignature").is_none() {
                call.set("thoughtSignature", Value::text(ANY_SIGNATURE));
                let reason = "the model requires a signature, which only its own calls have";
                compiler.losses.add(position, LossKind::Signature, Action::Made, reason);
            }
        }
    }
}

impl Draft {
    fn finish(self) -> Value {
        if let Some(raw) = self.raw {
            return raw.into();
        }
        let parts = self.parts.into_iter().map(|part| part.value).collect();
        let mut content = Object::new().with_text("role", self.role).with("parts", Value::List(parts));
        self.form.diff.apply(&mut content);
        content.into()
    }
}

fn write_call<'a>(part: &Part<'a>, call: &'a ToolUse, compiler: &mut Compiler<'a>) -> Result<(String, Object)> {
    let id = compiler.call_id(part, call, ID_RULE);
    let args = compiler.object_arguments(part, call)?;
    let keeps_id = part.is_own && !part.has_flag(NO_ID);
    if !part.is_own {
        let position = part.position.below("/tool_use/id");
        compiler.losses.add(&position, LossKind::ToolId, Action::Dropped, LOST_ID_REASON);
    }
    let object = part.in_native_form(call_part(keeps_id.then_some(id.as_str()), &call.name, args));
    Ok((id, object))
}

/// Returns the `response` of a result.
fn response(part: &Part<'_>, result: &ToolResult, texts: &[String], compiler: &mut Compiler<'_>) -> Result<Object> {
    if let [text] = texts
        && part.has_flag(WHOLE_RESPONSE)
        && let Ok(Value::Object(object)) = Value::parse(text)
    {
        return Ok(object);
    }
    if texts.len() > 1 {
        let position = part.position.below("/tool_result/blocks");
        compiler.losses.add(&position, LossKind::Merged, Action::Moved, "the output of a result is one text");
    }
    if texts.is_empty() {
        compiler.report_added_content(&part.position, LossKind::Empty, "a result needs some output");
    }
    let text = if texts.is_empty() { NO_OUTPUT.to_owned() } else { texts.join("\n") };
    let has_failed = result.is_error == Some(true);
    if !has_failed && result.is_error.is_some() {
        let position = part.position.below("/tool_result/is_error");
        compiler.losses.add(&position, LossKind::IsError, Action::Dropped, "the API has a field for failures only");
    }
    let field = if has_failed { "error" } else { "output" };
    Ok(Object::new().with_text(field, text))
}

fn write_media(part: &Part<'_>, compiler: &mut Compiler<'_>) -> Option<Object> {
    let Some(media) = media_in(&part.block.kind) else {
        compiler.report_unknown_block(part);
        return None;
    };
    let Some(value) = media_part(media, part.is_own) else {
        return Some(text_part(&compiler.media_text(part, media, "the API takes no such media")));
    };
    compiler.report_title(part, media);
    Some(part.in_native_form(value))
}
