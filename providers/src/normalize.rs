//! Reads the requests and replies of provider APIs as messages.

use store_core::{
    Block, BlockKind, Error, Json, Message, Opaque, Origin, Provenance, Result, Role, Thinking, TokenCounts, ToolUse,
    Usage,
};

use crate::{
    native::{FormDiff, HELD_FOR_FIRST_BLOCK, Native},
    provider::Target,
    value::{Diff, Object, Value, lossy_text},
};

/// The messages of a request or a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Normalized {
    /// The messages, in order. A reply is one message.
    pub messages: Vec<Message>,
    /// The fields of a request that do not belong to the history, such as the model, tools and limits, as one object.
    ///
    /// For a reply it is empty.
    pub settings: Json,
}

/// Reads a request, a reply, or the list of the events of a streamed reply of `source`.
///
/// [`compile`](crate::compile) for the same model gives the same history: bit for bit where blocks are signed or
/// encrypted, and otherwise equal as JSON (SE-8). Fields and block types that are not known are kept.
///
/// # Errors
/// `Invalid` if `body` is not a request, a reply or a list of events of the API of `source`.
///
/// ```
/// use providers::{Target, normalize};
/// use store_core::{Json, Role};
///
/// let source = Target::new("anthropic".parse()?, "claude-sonnet-4-5");
/// let reply = r#"{"role":"assistant","content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn"}"#;
/// let normalized = normalize(&source, &Json::parse(reply)?)?;
/// assert_eq!(normalized.messages[0].role, Role::Assistant);
/// # Ok::<(), store_core::Error>(())
/// ```
pub fn normalize(source: &Target, body: &Json) -> Result<Normalized> {
    let api = source.provider.api;
    let joined_events;
    let body = Value::of(body)?;
    let object = match &body {
        Value::Object(object) => object,
        Value::List(events) => {
            joined_events = api.join(events)?;
            &joined_events
        }
        _ => return Err(Error::invalid("body", "it is neither an object nor a list of events")),
    };
    let mut reader = Reader::new(source.origin());
    api.read(object, &mut reader)?;
    Ok(Normalized { messages: reader.messages, settings: Value::from(reader.settings).to_json()? })
}

/// Collects the messages of a request or a reply while the module of its API reads it.
pub(crate) struct Reader {
    pub(crate) origin: Origin,
    pub(crate) messages: Vec<Message>,
    pub(crate) settings: Object,
}

impl Reader {
    const fn new(origin: Origin) -> Self {
        Self { origin, messages: Vec::new(), settings: Object::new() }
    }

    /// Creates a block of `kind`. `default` is the JSON that is written for it by default, and `raw` is the JSON of the
    /// provider.
    pub(crate) fn block(&self, kind: BlockKind, default: &Object, raw: &Object) -> Result<Block> {
        let part = FormDiff { flags: Vec::new(), diff: Diff::between(default, raw) };
        self.block_of_form(kind, part)
    }

    /// Creates a block of `kind` with a form. `part` is the form: it says how the provider's JSON of the block differs
    /// from the JSON that is written for the block by default.
    pub(crate) fn block_of_form(&self, kind: BlockKind, part: FormDiff) -> Result<Block> {
        let mut block = Block::new(kind);
        self.update_native(&mut block, |native| native.part = part)?;
        Ok(block)
    }

    /// Creates the block for a `content` that is not a list, but a single string with half of a surrogate pair. `json`
    /// is the JSON of that string.
    pub(crate) fn half_surrogate_text(&self, json: &str) -> Result<Block> {
        let text = lossy_text(json);
        let default = Object::new().with_text("content", &text);
        let raw = Object::new().with("content", Value::HalfSurrogate(json.to_owned()));
        self.block(BlockKind::Text(text), &default, &raw)
    }

    /// Creates a block that only the provider understands.
    pub(crate) fn opaque_block(&self, raw: &Value) -> Result<Block> {
        Ok(Block::new(BlockKind::Opaque(Opaque::new(self.origin.clone(), raw.to_json()?))))
    }

    /// Creates a block for a whole message that has no content.
    pub(crate) fn opaque_message(&self, raw: &Object) -> Result<Block> {
        self.opaque_block(&Object::new().with(OPAQUE_MESSAGE, raw.clone()).into())
    }

    pub(crate) fn thinking(&self, text: impl Into<String>, signature: Option<String>) -> Thinking {
        let mut thinking = Thinking::new(text);
        thinking.origin = Some(self.origin.clone());
        thinking.signature = signature;
        thinking
    }

    /// Adds a message. A message of the provider can become several messages. For the first of them, `form` is the form
    /// of the provider's message. For the others it is `None`.
    pub(crate) fn push(&mut self, role: Role, mut blocks: Vec<Block>, form: Option<FormDiff>) -> Result<()> {
        // An opaque block cannot hold a form. The first other block holds it, and if another block comes before that
        // one, a flag says so.
        let holder = blocks.iter_mut().enumerate().find(|(_, block)| !matches!(block.kind, BlockKind::Opaque(_)));
        if let Some((at, block)) = holder {
            match form {
                None => self.update_native(block, |native| native.continues = true)?,
                Some(form) if form.is_empty() => {}
                Some(mut form) => {
                    form.flags.extend((at > 0).then(|| HELD_FOR_FIRST_BLOCK.to_owned()));
                    self.update_native(block, |native| native.message = Some(form))?;
                }
            }
        }
        let mut message = Message::new(role, blocks);
        if role == Role::Assistant {
            let mut provenance = Provenance::default();
            provenance.origin = Some(self.origin.clone());
            message.provenance = Some(provenance);
        }
        self.messages.push(message);
        Ok(())
    }

    /// Returns whether a form would be lost, because no block of the message can hold it.
    pub(crate) fn would_lose_form(blocks: &[Block], form: &FormDiff) -> bool {
        !form.is_empty() && blocks.iter().all(|block| matches!(block.kind, BlockKind::Opaque(_)))
    }

    /// Sets the fields of the last message that describe the reply as a whole.
    pub(crate) fn describe_reply(&mut self, id: Option<&str>, stop: Option<&str>, usage: Option<Usage>) {
        let Some(message) = self.messages.last_mut() else { return };
        if let (Some(id), Some(provenance)) = (id, message.provenance.as_mut()) {
            provenance.message_id = Some(id.to_owned());
        }
        message.stop = stop.map(str::to_owned);
        message.usage = usage;
    }

    /// Records in a block that a message of the provider begins with the block, and the form of that message. An opaque
    /// block cannot hold this, so it stays unchanged.
    pub(crate) fn begin_message(&self, block: &mut Block, form: FormDiff) -> Result<()> {
        if matches!(block.kind, BlockKind::Opaque(_)) {
            return Ok(());
        }
        self.update_native(block, |native| native.message = Some(form))
    }

    fn update_native(&self, block: &mut Block, change: impl FnOnce(&mut Native)) -> Result<()> {
        let data = block.opaque.as_ref().map(|opaque| Value::of(&opaque.data)).transpose()?;
        let mut native = data.as_ref().and_then(Native::of).unwrap_or_default();
        change(&mut native);
        block.opaque = native.to_json()?.map(|data| Opaque::new(self.origin.clone(), data));
        Ok(())
    }
}

/// The name of the only field in the data of an opaque block that holds a whole message.
pub(crate) const OPAQUE_MESSAGE: &str = "message_without_content";

/// Returns whether a block is a text without data that only its provider understands.
pub(crate) fn is_plain_text(block: &Block) -> bool {
    matches!(block.kind, BlockKind::Text(_)) && block.opaque.is_none()
}

/// Creates a call whose arguments came as text. If the text is not JSON, the input is an empty object, and the text is
/// kept.
pub(crate) fn call_with_text_arguments(id: &str, name: &str, arguments: &str) -> Result<ToolUse> {
    let input = Json::parse(arguments).or_else(|_| Json::parse("{}"))?;
    let mut call = ToolUse::new(id, name, input);
    call.raw = Some(arguments.to_owned());
    Ok(call)
}

/// Returns the only answer in a reply. An API may be asked for several answers, but a thread continues with one of
/// them.
///
/// # Errors
/// `Invalid` if there is no answer or more than one.
pub(crate) fn only_answer<'a>(field: &str, answers: &'a [Value]) -> Result<&'a Object> {
    let [answer] = answers else {
        let count = answers.len();
        return Err(Error::invalid(field, format!("it has {count} answers; give a reply with the chosen one only")));
    };
    answer.as_object().ok_or_else(|| Error::invalid(field, "the answer is not an object"))
}

/// Creates usage from counts. `raw` is the provider's own record.
pub(crate) fn usage_with_raw(tokens: TokenCounts, raw: &Object) -> Result<Usage> {
    let mut usage = Usage::from(tokens);
    usage.raw = Some(Value::from(raw.clone()).to_json()?);
    Ok(usage)
}
