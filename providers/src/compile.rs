//! Makes bodies of requests from contexts: the code that all APIs share.

use std::collections::BTreeSet;

use store_core::{
    Block, BlockKind, Context, ContextMessage, Error, Json, Media, MediaSource, Message, Opaque, Result, Role,
    Thinking, ToolResult, ToolUse,
};

use crate::{
    calls::{AnsweredCall, Calls, IdRule, malformed_arguments},
    loss::{Action, Loss, LossKind, Losses, Position},
    media::{describe_media, media_kind},
    native::{FormDiff, HELD_FOR_FIRST_BLOCK, Native, unknown_fields},
    normalize::OPAQUE_MESSAGE,
    provider::Target,
    value::{Object, Value, child_pointer},
};

/// How a context is compiled.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CompileOptions {
    /// Whether thinking that the target does not accept as thinking is sent as text. Otherwise it is left out.
    ///
    /// Encrypted thinking is always left out.
    pub thinking_as_text: bool,
    /// The fields of the request that do not belong to the history, such as tools and limits, as an object in the form
    /// of the target's API. They are added to the body, and replace the defaults of this crate. A `model` among them is
    /// ignored, because the target names the model.
    ///
    /// Some of them decide what the history may contain: without stored replies (`"store":false`), OpenAI Responses
    /// accepts reasoning only with its encrypted content; with thinking switched off
    /// (`"thinking":{"type":"disabled"}`), Anthropic accepts none.
    pub settings: Option<Json>,
}

/// A body that can be sent, and the parts of the context that it lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compiled {
    /// The body of the request.
    pub body: Json,
    /// What the body does not hold, or holds in another form, in the order of the context (SE-2, SE-7).
    ///
    /// The metadata, usage, stop reason and provenance of a message are records about the message. They are never sent,
    /// and do not count as losses.
    pub losses: Vec<Loss>,
}

/// Makes the body of a request for `target` from a context.
///
/// The body has the model, the history, the settings of the options, and the limits that the API requires. Blocks that
/// the same model made on the same platform go back exactly as they came (SE-8). Everything else that the target cannot
/// hold is in the list of losses (SE-7).
///
/// # Errors
/// `Invalid` if the settings are not an object or have a field of the history, or if the context has no message that
/// can be sent.
///
/// ```
/// use providers::{CompileOptions, Target, compile};
/// use store_core::{Context, ContextMessage, EntryId, Message};
///
/// let mut context = Context::default();
/// context.messages.push(ContextMessage::new(EntryId::new("1")?, false, Message::user("Hello")));
/// let target = Target::new("openai-chat".parse()?, "gpt-5-nano");
/// let compiled = compile(&context, &target, &CompileOptions::default())?;
/// assert_eq!(compiled.body.as_str(), r#"{"model":"gpt-5-nano","messages":[{"role":"user","content":"Hello"}]}"#);
/// assert!(compiled.losses.is_empty());
/// # Ok::<(), store_core::Error>(())
/// ```
pub fn compile(context: &Context, target: &Target, options: &CompileOptions) -> Result<Compiled> {
    let mut compiler = Compiler::new(target, options)?;
    compiler.collect_parts(context)?;
    let mut body = target.provider.api.write(&mut compiler)?;
    // A `model` in the settings is ignored, because the body has the signatures of the model that the target names.
    for (name, value) in compiler.settings.iter().filter(|(name, _)| *name != "model") {
        body.set(name, value.clone());
    }
    Ok(Compiled { body: Value::from(body).to_json()?, losses: compiler.losses.into_list() })
}

/// A block of the context, and the facts that decide how it is written for the target.
pub(crate) struct Part<'a> {
    pub(crate) position: Position,
    pub(crate) role: Role,
    pub(crate) block: &'a Block,
    /// The provider's own form of the block, if the block came from the target's API.
    pub(crate) native: Native,
    /// Whether the model of the target made the block, on the same API and platform.
    pub(crate) is_own: bool,
    /// Whether a message of the target begins with the block.
    pub(crate) begins_message: bool,
}

impl Part<'_> {
    pub(crate) fn has_flag(&self, flag: &str) -> bool {
        self.native.part.has(flag)
    }

    /// Returns `default`, the JSON that is written for the block by default, with the changes of its native form.
    pub(crate) fn in_native_form(&self, mut default: Object) -> Object {
        self.native.part.diff.apply(&mut default);
        default
    }
}

/// The compilation of one context.
pub(crate) struct Compiler<'a> {
    pub(crate) target: &'a Target,
    pub(crate) options: &'a CompileOptions,
    /// The fields of the request that do not belong to the history.
    pub(crate) settings: Object,
    pub(crate) parts: Vec<Part<'a>>,
    pub(crate) losses: Losses,
    pub(crate) calls: Calls,
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(target: &'a Target, options: &'a CompileOptions) -> Result<Self> {
        let settings = match options.settings.as_ref().map(Value::of).transpose()? {
            None => Object::new(),
            Some(Value::Object(object)) => object,
            Some(_) => return Err(Error::invalid("settings", "they are not a JSON object")),
        };
        if let Some(field) = target.provider.api.history_fields().iter().find(|field| settings.get(field).is_some()) {
            return Err(Error::invalid(
                "settings",
                format!("`{field}` belongs to the history; append messages instead"),
            ));
        }
        let (losses, calls) = (Losses::default(), Calls::default());
        Ok(Self { target, options, settings, parts: Vec::new(), losses, calls })
    }

    fn collect_parts(&mut self, context: &'a Context) -> Result<()> {
        let mut failed_call_ids = BTreeSet::new();
        for (at, source) in context.messages.iter().enumerate() {
            let position = Position { entry: source.entry.clone(), path: format!("/messages/{at}") };
            if source.message.role == Role::Assistant {
                failed_call_ids.clear();
            }
            if is_failed_turn(&source.message) {
                failed_call_ids.extend(calls(&source.message).map(|call| call.id.as_str()));
                self.losses.add(&position, LossKind::FailedTurn, Action::Dropped, "the turn failed or was aborted");
                continue;
            }
            if source.synthetic && source.message.role == Role::Tool {
                self.losses.add(&position, LossKind::MadeResult, Action::Made, "no result was recorded for the call");
            }
            self.collect_message(&position, source, &failed_call_ids)?;
        }
        Ok(())
    }

    pub(crate) fn collect_message(
        &mut self,
        position: &Position,
        source: &'a ContextMessage,
        failed_call_ids: &BTreeSet<&str>,
    ) -> Result<()> {
        let origin = source.message.provenance.as_ref().and_then(|provenance| provenance.origin.as_ref());
        let is_own = origin.is_some_and(|origin| self.target.is_origin(origin));
        let start = self.parts.len();
        for (at, block) in source.message.blocks.iter().enumerate() {
            let position = position.below(&format!("/blocks/{at}"));
            if let BlockKind::ToolResult(result) = &block.kind
                && failed_call_ids.contains(result.tool_use_id.as_str())
            {
                self.losses.add(&position, LossKind::FailedTurn, Action::Dropped, "its call is of a failed turn");
                continue;
            }
            let mut part = self.part(position, source.message.role, block)?;
            part.is_own |= is_own;
            let is_first = self.parts.len() == start;
            // If the first block is opaque, it cannot hold the form of its message. Then a later block holds the form.
            let form = part.native.message.take_if(|form| !is_first && form.has(HELD_FOR_FIRST_BLOCK));
            if let (Some(form), Some(first_part)) = (form, self.parts.get_mut(start)) {
                first_part.native.message = Some(form);
            }
            part.begins_message = part.native.message.is_some() || is_first && !part.native.continues;
            self.parts.push(part);
        }
        Ok(())
    }

    /// Refuses a history without messages.
    pub(crate) fn require_messages<T>(&self, messages: &[T]) -> Result<()> {
        if messages.is_empty() {
            let reason = "it has no message that can be sent; append a message first";
            return Err(Error::invalid("context", reason));
        }
        Ok(())
    }

    /// Returns the blocks of a result.
    pub(crate) fn parts_of_result(&mut self, part: &Part<'a>, result: &'a ToolResult) -> Result<Vec<Part<'a>>> {
        let mut parts = Vec::with_capacity(result.blocks.len());
        for (at, block) in result.blocks.iter().enumerate() {
            let position = part.position.below(&format!("/tool_result/blocks/{at}"));
            let mut part = self.part(position, part.role, block)?;
            self.drop_message_form(&mut part);
            parts.push(part);
        }
        if result.details.is_some() {
            let position = part.position.below("/tool_result/details");
            self.losses.add(&position, LossKind::Details, Action::Dropped, "details are never sent to a model");
        }
        Ok(parts)
    }

    fn part(&mut self, position: Position, role: Role, block: &'a Block) -> Result<Part<'a>> {
        let mut part = Part { position, role, block, native: Native::default(), is_own: false, begins_message: false };
        for (name, extra) in unknown_fields(block) {
            for (field, _) in extra.iter() {
                let position = part.position.below(&format!("{name}{}", child_pointer("", field)));
                self.losses.add(&position, LossKind::Field, Action::Dropped, "the field is not known");
            }
        }
        if let Some(opaque) = &block.opaque {
            part.is_own = self.target.is_origin(&opaque.origin);
            part.native = self.accepted_native_form(&part.position, opaque, part.is_own)?;
        }
        Ok(part)
    }

    /// Returns the part of opaque data that the target accepts. Reports the rest as losses.
    fn accepted_native_form(&mut self, position: &Position, opaque: &Opaque, is_own: bool) -> Result<Native> {
        let data = Value::of(&opaque.data)?;
        let position = position.below("/opaque/data");
        let api = self.target.provider.api;
        if !self.target.has_api_and_platform_of(&opaque.origin) {
            match Native::of(&data) {
                Some(native) => self.report_native_fields(&position, &native, |_| true),
                None => self.losses.add(&position, LossKind::Signature, Action::Dropped, "it is of another provider"),
            }
            return Ok(Native::default());
        }
        let parsed = Native::of(&data);
        let mut native = parsed.clone().unwrap_or_default();
        native.is_foreign = parsed.is_none();
        if native.is_foreign && !(is_own && api.read_foreign_data(&data, &mut native)) {
            self.losses.add(&position, LossKind::Signature, Action::Dropped, "only its own model accepts it");
            return Ok(Native::default());
        }
        if !is_own {
            let is_bound = |pointer: &str| api.fields_bound_to_model().contains(&pointer);
            self.report_native_fields(&position, &native, is_bound);
            for form in native.message.iter_mut().chain([&mut native.part]) {
                form.diff.set.retain(|(pointer, _)| !is_bound(pointer));
            }
        }
        Ok(native)
    }

    /// Reports the whole native form of a block as lost, because the block is written in another form.
    pub(crate) fn report_native_form(&mut self, part: &Part<'_>) {
        self.report_native_fields(&part.position.below("/opaque/data"), &part.native, |_| true);
    }

    /// Reports the form of the message that began with a block as lost, because no message of the body begins with the
    /// block.
    pub(crate) fn drop_message_form(&mut self, part: &mut Part<'_>) {
        if let Some(message) = part.native.message.take() {
            let is_foreign = part.native.is_foreign;
            let native = Native { message: Some(message), is_foreign, ..Native::default() };
            self.report_native_fields(&part.position.below("/opaque/data"), &native, |_| true);
        }
    }

    /// Adds a loss for each field of a native form whose pointer `is_lost` selects, and for the flag of a refusal.
    fn report_native_fields(&mut self, position: &Position, native: &Native, is_lost: impl Fn(&str) -> bool) {
        if native.is_foreign {
            self.losses.add(position, LossKind::Signature, Action::Dropped, "the block is written in another form");
            return;
        }
        let message = native.message.iter().map(|form| ("message", form));
        for (name, form) in message.chain([("part", &native.part)]) {
            self.report_form(&position.below(&format!("/{name}")), form, &is_lost);
        }
    }

    fn report_form(&mut self, position: &Position, form: &FormDiff, is_lost: &impl Fn(&str) -> bool) {
        for (pointer, value) in form.diff.set.iter().filter(|(pointer, _)| is_lost(pointer)) {
            let field = pointer.split('/').nth(1).unwrap_or_default();
            let kind = match value {
                Value::HalfSurrogate(_) => LossKind::LoneSurrogate,
                _ => LossKind::of_field(field),
            };
            let position = position.below(&child_pointer("/set", pointer));
            self.losses.add(&position, kind, Action::Dropped, "only the API that made it has the field");
        }
        for flag in form.flags.iter().filter(|flag| is_lost(flag)) {
            if flag == "refusal" {
                self.losses.add(position, LossKind::Refusal, Action::Text, "the target has no mark for refusals");
            }
        }
    }

    /// Returns the raw value of a block that only its provider understands. If the target has another API or platform
    /// than the provider, the block is lost.
    pub(crate) fn accepted_opaque_value(&mut self, part: &Part<'_>, opaque: &Opaque) -> Result<Option<Value>> {
        let data = Value::of(&opaque.data)?;
        if self.target.is_origin(&opaque.origin) {
            return Ok(Some(data));
        }
        if self.target.has_api_and_platform_of(&opaque.origin) {
            return Ok(self.without_fields_bound_to_model(part, data));
        }
        let kind = data.as_object().and_then(|data| data.text("type")).unwrap_or_default();
        let is_tool = ["tool_use", "_call", "_result", "_output"].iter().any(|end| kind.ends_with(end));
        let kind = if is_tool { LossKind::ServerTool } else { LossKind::UnknownBlock };
        self.losses.add(&part.position, kind, Action::Dropped, "only its own provider understands it");
        Ok(None)
    }

    /// Removes from a block that another model of the same API made the fields that only that model accepts. A block
    /// that is not valid without them is lost.
    fn without_fields_bound_to_model(&mut self, part: &Part<'_>, mut data: Value) -> Option<Value> {
        let api = self.target.provider.api;
        let is_whole_message = opaque_message(&data).is_some();
        let Value::Object(object) = &mut data else { return Some(data) };
        let inner = if is_whole_message { object.get_mut(OPAQUE_MESSAGE) } else { None };
        let object = match inner {
            Some(Value::Object(message)) => message,
            _ => object,
        };
        for pointer in api.fields_bound_to_model() {
            let name = pointer.trim_start_matches('/');
            if object.remove(name).is_none() {
                continue;
            }
            let reason = "only the model that made it accepts it";
            if !api.keeps_blocks_without_fields_bound_to_model() {
                self.losses.add(&part.position, LossKind::of_field(name), Action::Dropped, reason);
                return None;
            }
            let position = part.position.below(&format!("/opaque/data{pointer}"));
            self.losses.add(&position, LossKind::of_field(name), Action::Dropped, reason);
        }
        Some(data)
    }

    /// Reports content that the body has and the context does not.
    pub(crate) fn report_added_content(&mut self, position: &Position, kind: LossKind, reason: &'static str) {
        self.losses.add(position, kind, Action::Made, reason);
    }

    /// Reports a block of a kind that no target has.
    pub(crate) fn report_unknown_block(&mut self, part: &Part<'_>) {
        self.losses.add(&part.position, LossKind::UnknownBlock, Action::Dropped, "the kind of the block is not known");
    }

    /// Returns whether the target accepts thinking unchanged, because the model of the target made it.
    pub(crate) fn accepts_thinking(&self, part: &Part<'_>, thinking: &Thinking) -> bool {
        thinking.origin.as_ref().map_or(part.is_own, |origin| self.target.is_origin(origin))
    }

    /// Reports thinking that the target does not accept. Returns the text to send in its place, if the options ask for
    /// one.
    pub(crate) fn thinking_text<'t>(&mut self, part: &Part<'_>, thinking: &'t Thinking) -> Option<&'t str> {
        let has_text = self.options.thinking_as_text && !thinking.redacted && !thinking.text.trim().is_empty();
        let action = if has_text { Action::Text } else { Action::Dropped };
        let kind = if thinking.redacted { LossKind::Redacted } else { LossKind::Thinking };
        let reason = "only the model that made thinking accepts it";
        if has_text && thinking.signature.is_some() {
            let position = part.position.below("/thinking/signature");
            self.losses.add(&position, LossKind::Signature, Action::Dropped, reason);
        }
        let position = if has_text { part.position.below("/thinking/text") } else { part.position.clone() };
        self.losses.add(&position, kind, action, reason);
        has_text.then_some(thinking.text.as_str())
    }

    /// Returns the text that stands for media that the target does not take, and reports the loss.
    pub(crate) fn media_text(&mut self, part: &Part<'_>, media: &Media, reason: &'static str) -> String {
        self.losses.add(&part.position, LossKind::UnsupportedMedia, Action::Text, reason);
        describe_media(part.block, media)
    }

    /// Reports the loss of the flag `is_error` of a result, for an API that has no field for it. Returns whether the
    /// tool failed. If it did, the text of the result has to say so.
    pub(crate) fn error_as_text(&mut self, part: &Part<'_>, result: &ToolResult) -> bool {
        if let Some(is_error) = result.is_error {
            let action = if is_error { Action::Text } else { Action::Dropped };
            let position = part.position.below("/tool_result/is_error");
            self.losses.add(&position, LossKind::IsError, action, "the API has no field for it");
        }
        result.is_error == Some(true)
    }

    /// Reports the loss of the media type of media at a URL, because the target does not take it.
    pub(crate) fn report_media_type_of_url(&mut self, part: &Part<'_>, media: &Media) {
        if media.media_type.is_some() && matches!(media.source, MediaSource::Url(_)) {
            let position = part.position.below(&format!("/{}/media_type", media_kind(part.block)));
            self.losses.add(&position, LossKind::Field, Action::Dropped, "the target learns it from the URL");
        }
    }

    /// Reports the loss of the title of media, if there is a title.
    pub(crate) fn report_title(&mut self, part: &Part<'_>, media: &Media) {
        if media.title.is_some() {
            let position = part.position.below(&format!("/{}/title", media_kind(part.block)));
            self.losses.add(&position, LossKind::Name, Action::Dropped, "the target has no field for it");
        }
    }

    /// Returns the id that a call has in the body.
    pub(crate) fn call_id(&mut self, part: &Part<'_>, call: &ToolUse, rule: IdRule) -> String {
        let id = self.calls.add(call, rule);
        if id != call.id {
            let position = part.position.below("/tool_use/id");
            self.losses.add(&position, LossKind::ToolId, Action::Replaced, "the target does not accept this id");
        }
        id
    }

    /// Returns the call that a result answers. The result of an unknown call is lost.
    pub(crate) fn answered_call(&mut self, part: &Part<'_>, result: &ToolResult) -> Option<AnsweredCall> {
        let Some(call) = self.calls.by_stored_id.get(&result.tool_use_id).cloned() else {
            self.losses.add(&part.position, LossKind::OrphanResult, Action::Dropped, "its call is not in the context");
            return None;
        };
        if call.id != result.tool_use_id {
            let position = part.position.below("/tool_result/tool_use_id");
            self.losses.add(&position, LossKind::ToolId, Action::Replaced, "the target does not accept this id");
        }
        Some(call)
    }

    /// Returns the arguments of a call as an object. Other values are wrapped. If the arguments are not JSON, the
    /// object is empty, and the result of the call holds the text of the arguments.
    pub(crate) fn object_arguments(&mut self, part: &Part<'_>, call: &ToolUse) -> Result<Object> {
        if let Some(raw) = malformed_arguments(call) {
            let position = part.position.below("/tool_use/raw");
            self.losses.add(&position, LossKind::BadArguments, Action::Moved, "the arguments are not JSON");
            self.calls.set_malformed_arguments(call, raw);
            return Ok(Object::new());
        }
        Ok(match Value::of(&call.input)? {
            Value::Object(object) => object,
            other => {
                let position = part.position.below("/tool_use/input");
                let kind = if other.as_text().is_some() { LossKind::CustomToolInput } else { LossKind::BadArguments };
                self.losses.add(&position, kind, Action::Replaced, "the target takes only objects as arguments");
                Object::new().with("value", other)
            }
        })
    }

    /// Returns the arguments of a call as text.
    pub(crate) fn text_arguments(&mut self, part: &Part<'_>, call: &ToolUse) -> Result<String> {
        if part.is_own
            && let Some(raw) = &call.raw
        {
            return Ok(raw.clone());
        }
        if malformed_arguments(call).is_none() && call.input.is_object() {
            return Ok(call.raw.clone().unwrap_or_else(|| call.input.as_str().to_owned()));
        }
        Ok(Value::from(self.object_arguments(part, call)?).encode())
    }
}

/// Returns whether a turn ended in an error or was aborted. Such turns are not sent.
pub(crate) fn is_failed_turn(message: &Message) -> bool {
    message.role == Role::Assistant && matches!(message.stop.as_deref(), Some("error" | "aborted"))
}

fn calls(message: &Message) -> impl Iterator<Item = &ToolUse> {
    message.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::ToolUse(call) => Some(call),
        _ => None,
    })
}

/// Returns the raw message of a block that stands for a message without content.
pub(crate) fn opaque_message(data: &Value) -> Option<&Object> {
    data.as_object()?.object(OPAQUE_MESSAGE)
}
