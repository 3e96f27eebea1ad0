//! Anthropic Messages.
//!
//! Source: <https://platform.claude.com/docs/en/api/messages>.

mod read;
mod stream;
mod write;

use store_core::{Media, MediaSource, Result};

use crate::{
    compile::Compiler,
    models::Feature,
    normalize::Reader,
    provider::{Api, Target},
    value::{Object, Value, base64_of, text_of_base64},
};

/// Flag: the content of the message was written as a list with one plain text. By default, one plain text is written as
/// a string, except in messages of the assistant.
const LIST: &str = "list";
/// Flag: the content of the assistant's message was written as a string. By default, it is written as a list.
const TEXT: &str = "text";
/// Flag: the system message stands inside the conversation.
const INSIDE: &str = "inside";
/// Flag: the message follows a message of the same role, and is not merged with it.
const SEPARATE: &str = "separate";
/// Flag: the content of the result was written as a list with one plain text. By default, one plain text is written as
/// a string.
const RESULT_LIST: &str = "list";
/// Flag: the result has no content.
const NO_CONTENT: &str = "no content";

pub(crate) struct Anthropic;

impl Api for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn vendor(&self) -> &'static str {
        "anthropic"
    }

    fn api_names(&self) -> &'static [Option<&'static str>] {
        &[Some("anthropic-messages"), None]
    }

    fn fields_bound_to_model(&self) -> &'static [&'static str] {
        &[]
    }

    fn history_fields(&self) -> &'static [&'static str] {
        &["messages", "system"]
    }

    fn read(&self, body: &Object, reader: &mut Reader) -> Result<()> {
        read::read(body, reader)
    }

    fn join(&self, events: &[Value]) -> Result<Object> {
        stream::join(events)
    }

    fn write(&self, compiler: &mut Compiler<'_>) -> Result<Object> {
        write::write(compiler)
    }

    fn warnings(&self, body: &Object, target: &Target) -> Vec<String> {
        let last = body.list("messages").and_then(|messages| messages.last()).and_then(Value::as_object);
        let ends_with_assistant = last.and_then(|last| last.text("role")) == Some("assistant");
        let mut warnings = Vec::new();
        let last_text = last.and_then(|last| match last.get("content")? {
            Value::List(blocks) => blocks.last()?.as_object()?.text("text"),
            content => content.as_text(),
        });
        if ends_with_assistant && last_text.is_some_and(|text| text.ends_with(char::is_whitespace)) {
            warnings.push(
                "a request is refused if its last message is from the assistant and ends in white space".to_owned(),
            );
        }
        if ends_with_assistant && !target.has(Feature::Prefill) {
            warnings.push(format!("`{}` refuses a request that ends with a message of the assistant", target.model));
        }
        if write::has_thinking_enabled(body) && last_turn_lacks_thinking(body) {
            warnings.push(
                "with thinking switched on, a turn whose calls are being answered has to begin with thinking; switch \
                 it off for this request"
                    .to_owned(),
            );
        }
        warnings
    }
}

/// Returns whether the last message has results, and the turn before it has calls but does not begin with thinking. The
/// API takes consecutive messages of the assistant as one turn.
fn last_turn_lacks_thinking(body: &Object) -> bool {
    let messages = body.list("messages").unwrap_or_default();
    let has_role =
        |message: &Value, role: &str| message.as_object().and_then(|message| message.text("role")) == Some(role);
    let content =
        |message: &Value| message.as_object().and_then(|message| message.list("content").map(<[Value]>::to_vec));
    let Some((results, earlier)) = messages.split_last().filter(|(last, _)| has_role(last, "user")) else {
        return false;
    };
    let turn_length = earlier.iter().rev().take_while(|message| has_role(message, "assistant")).count();
    let turn = earlier.get(earlier.len() - turn_length..).unwrap_or_default();
    let has_block = |message: &Value, is_kind: fn(&Value) -> bool| {
        content(message).is_some_and(|blocks| blocks.iter().any(is_kind))
    };
    let begins_with_thinking =
        turn.first().and_then(content).is_some_and(|blocks| blocks.first().is_some_and(write::is_thinking));
    has_block(results, write::is_result)
        && turn.iter().any(|message| has_block(message, write::is_call))
        && !begins_with_thinking
}

fn text_block(text: &str) -> Object {
    Object::of_type("text").with_text("text", text)
}

fn thinking_block(text: &str, signature: &str) -> Object {
    Object::of_type("thinking").with_text("thinking", text).with_text("signature", signature)
}

fn redacted_block(data: &str) -> Object {
    Object::of_type("redacted_thinking").with_text("data", data)
}

fn tool_use_block(id: &str, name: &str, input: impl Into<Value>) -> Object {
    Object::of_type("tool_use").with_text("id", id).with_text("name", name).with("input", input)
}

/// Returns an image or a document, or `None` if the API does not take it.
fn media_block(kind: &str, media: &Media) -> Option<Object> {
    const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
    let media_type = media.media_type.as_deref();
    let source = match (&media.source, kind, media_type) {
        (MediaSource::Url(url), "image" | "document", _) if url.starts_with("http") => {
            Object::of_type("url").with_text("url", url)
        }
        (MediaSource::Base64(data), "document", Some("text/plain")) => {
            Object::of_type("text").with_text("media_type", "text/plain").with_text("data", text_of_base64(data)?)
        }
        (MediaSource::Base64(data), "document", Some("application/pdf")) => base64_source("application/pdf", data),
        (MediaSource::Base64(data), "image", Some(media_type)) if IMAGES.contains(&media_type) => {
            base64_source(media_type, data)
        }
        _ => return None,
    };
    let block = Object::of_type(kind).with("source", source);
    Some(match media.title.as_ref().filter(|_| kind == "document") {
        Some(title) => block.with_text("title", title),
        None => block,
    })
}

fn base64_source(media_type: &str, data: &str) -> Object {
    Object::of_type("base64").with_text("media_type", media_type).with_text("data", data)
}

/// Reads the source of an image or a document. Returns `None` for a file that only the provider has.
fn media_of(block: &Object) -> Option<Media> {
    let source = block.object("source")?;
    let media_type = source.text("media_type").map(str::to_owned);
    let place = match source.text("type")? {
        "base64" => MediaSource::Base64(source.text("data")?.to_owned()),
        "text" => MediaSource::Base64(base64_of(source.text("data")?)),
        "url" => MediaSource::Url(source.text("url")?.to_owned()),
        _ => return None,
    };
    let mut media = Media::new(media_type, place);
    media.title = block.text("title").map(str::to_owned);
    Some(media)
}
