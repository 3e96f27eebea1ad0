//! OpenAI Responses.
//!
//! Source: <https://platform.openai.com/docs/api-reference/responses/create>.

mod items;
mod read;
mod stream;
mod write;

use store_core::{BlockKind, Media, MediaSource, Result, Thinking};

pub use self::items::{ItemWriter, WrittenItems};
use crate::{
    compile::Compiler,
    native::Native,
    normalize::Reader,
    provider::Api,
    value::{Object, Value, split_data_url},
};

/// Flag: the content of the message was written as a list. A message of another role than the assistant has this flag
/// only if the list is one plain text, which is written as a string by default.
const LIST: &str = "list";
/// Flag: the content of the assistant's message was written as a string and not as a list.
const TEXT: &str = "text";
/// Flag: the system message is an item of the input.
const INPUT: &str = "input";
/// Flag: the text is a refusal.
const REFUSAL: &str = "refusal";
/// Flag: the tool that is called takes a text instead of JSON. The results of its calls have this flag, too.
const CUSTOM: &str = "custom";
/// Flag: the content of the result was written as a list with one plain text. By default, one plain text is written as
/// a string.
const RESULT_LIST: &str = "list";
/// Flag: the reasoning has its text in the field `content`.
const CONTENT: &str = "content";

pub(crate) struct OpenAiResponses;

impl Api for OpenAiResponses {
    fn name(&self) -> &'static str {
        "openai-responses"
    }

    fn vendor(&self) -> &'static str {
        "openai"
    }

    fn api_names(&self) -> &'static [Option<&'static str>] {
        &[Some("openai-responses"), Some("responses"), Some("openai-codex-responses")]
    }

    fn fields_bound_to_model(&self) -> &'static [&'static str] {
        &["/id", "/encrypted_content"]
    }

    fn history_fields(&self) -> &'static [&'static str] {
        &["input", "instructions"]
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

    fn read_foreign_data(&self, data: &Value, native: &mut Native) -> bool {
        // Other tools store the id of the message item as the signature of a text.
        let Some(text) = data.as_text() else { return false };
        let parsed = Value::parse(text).ok();
        let fields = parsed.as_ref().filter(|_| text.starts_with('{')).and_then(Value::as_object);
        let id = fields.and_then(|fields| fields.text("id")).or_else(|| text.starts_with("msg_").then_some(text));
        let phase = fields.and_then(|fields| fields.text("phase"));
        for (pointer, value) in [("/id", id), ("/phase", phase)] {
            if let Some(value) = value {
                let message = native.message.get_or_insert_default();
                message.diff.set.push((pointer.to_owned(), Value::text(value)));
            }
        }
        id.is_some()
    }
}

fn input_text(text: &str) -> Object {
    Object::of_type("input_text").with_text("text", text)
}

fn output_text(text: &str) -> Object {
    Object::of_type("output_text").with_text("text", text).with("annotations", Value::List(Vec::new()))
}

fn refusal_part(text: &str) -> Object {
    Object::of_type("refusal").with_text("refusal", text)
}

fn call_item(call_id: &str, name: &str, arguments: &str) -> Object {
    let item = Object::of_type("function_call").with_text("call_id", call_id).with_text("name", name);
    item.with_text("arguments", arguments)
}

fn custom_call_item(call_id: &str, name: &str, input: &str) -> Object {
    Object::of_type("custom_tool_call").with_text("call_id", call_id).with_text("name", name).with_text("input", input)
}

/// The name under which other models get a command that the provider's own tool runs on the caller's machine.
const LOCAL_SHELL: &str = "local_shell";
/// The name under which other models get a search for tools that the caller runs.
const TOOL_SEARCH: &str = "tool_search";

/// Returns the item that is written for a result by default.
fn output_item(call_id: &str, output: impl Into<Value>) -> Object {
    Object::of_type("function_call_output").with_text("call_id", call_id).with("output", output)
}

/// Returns the item that is written for reasoning by default. Its text is the summary, or the content if `in_content`.
fn reasoning_item(thinking: &Thinking, in_content: bool) -> Object {
    let part = |kind| Value::from(Object::of_type(kind).with_text("text", &thinking.text));
    let is_empty = thinking.text.is_empty();
    let summary = if is_empty || in_content { Vec::new() } else { vec![part("summary_text")] };
    let mut item = Object::of_type("reasoning").with("summary", Value::List(summary));
    if in_content && !is_empty {
        item.set("content", Value::List(vec![part("reasoning_text")]));
    }
    if let Some(encrypted) = &thinking.signature {
        item.set("encrypted_content", Value::text(encrypted));
    }
    item
}

/// Returns an image or a file, or `None` if the API does not take it.
fn media_part(kind: &BlockKind) -> Option<Object> {
    match kind {
        BlockKind::Image(media) => {
            let url = match &media.source {
                MediaSource::Url(url) if url.starts_with("http") => url.clone(),
                MediaSource::Base64(data) => format!("data:{};base64,{data}", media.media_type.as_deref()?),
                MediaSource::Url(_) | MediaSource::Blob(_) => return None,
            };
            Some(Object::of_type("input_image").with_text("image_url", url))
        }
        BlockKind::Document(media) => {
            let mut file = Object::of_type("input_file");
            match &media.source {
                MediaSource::Url(url) if url.starts_with("http") => file.set("file_url", Value::text(url)),
                MediaSource::Base64(data) => {
                    let media_type = media.media_type.as_deref()?;
                    let is_accepted = media_type == "application/pdf" || media_type.starts_with("text/");
                    let name = media.title.clone().or_else(|| is_accepted.then(|| "document".to_owned()))?;
                    file.set("filename", Value::Text(name));
                    file.set("file_data", Value::text(format!("data:{media_type};base64,{data}")));
                }
                _ => return None,
            }
            Some(file)
        }
        _ => None,
    }
}

/// Reads an image or a file. Returns `None` for a file that only the provider has.
fn media_of(part: &Object) -> Option<BlockKind> {
    let media_of_url = |url: &str| match split_data_url(url) {
        Some((media_type, data)) => Media::new(Some(media_type), MediaSource::Base64(data.to_owned())),
        None => Media::new(None, MediaSource::Url(url.to_owned())),
    };
    match part.text("type")? {
        "input_image" => Some(BlockKind::Image(media_of_url(part.text("image_url")?))),
        "input_file" => {
            let url = part.text("file_data").or_else(|| part.text("file_url"))?;
            let mut media = media_of_url(url);
            media.title = part.text("filename").map(str::to_owned);
            Some(BlockKind::Document(media))
        }
        _ => None,
    }
}
