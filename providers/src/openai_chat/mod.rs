//! OpenAI Chat Completions.
//!
//! Source: <https://platform.openai.com/docs/api-reference/chat/create>.

mod read;
mod stream;
mod write;

use store_core::{BlockKind, Media, MediaSource, Result};

use crate::{
    compile::Compiler,
    native::Native,
    normalize::Reader,
    provider::Api,
    value::{Object, Value, split_data_url},
};

/// Flag: the content of the message was written as a list with one plain text. By default, one plain text is written as
/// a string.
const LIST: &str = "list";
/// Flag: the text is a refusal.
const REFUSAL: &str = "refusal";
/// Flag: the tool that is called takes a text instead of JSON.
const CUSTOM: &str = "custom";
/// The fields in which vendors of compatible APIs put thinking. The flag of a thinking block is the name of its field.
const THINKING_FIELDS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_text"];

pub(crate) struct OpenAiChat;

impl Api for OpenAiChat {
    fn name(&self) -> &'static str {
        "openai-chat"
    }

    fn vendor(&self) -> &'static str {
        "openai"
    }

    fn api_names(&self) -> &'static [Option<&'static str>] {
        &[Some("openai-completions"), Some("openai-chat"), Some("chat-completions")]
    }

    fn fields_bound_to_model(&self) -> &'static [&'static str] {
        &["/audio"]
    }

    fn history_fields(&self) -> &'static [&'static str] {
        &["messages"]
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
        // Other tools store the name of the field as the signature of thinking.
        let field = data.as_text().filter(|text| THINKING_FIELDS.contains(text));
        native.part.flags.extend(field.map(str::to_owned));
        field.is_some()
    }
}

fn text_part(text: &str) -> Object {
    Object::of_type("text").with_text("text", text)
}

fn refusal_part(text: &str) -> Object {
    Object::of_type("refusal").with_text("refusal", text)
}

fn call_object(id: &str, name: &str, arguments: &str) -> Object {
    let function = Object::new().with_text("name", name).with_text("arguments", arguments);
    Object::new().with_text("id", id).with_text("type", "function").with("function", function)
}

fn custom_call_object(id: &str, name: &str, input: &str) -> Object {
    let custom = Object::new().with_text("name", name).with_text("input", input);
    Object::new().with_text("id", id).with_text("type", "custom").with("custom", custom)
}

/// Returns the part of a user message with this media, or `None` if the API does not take it.
fn media_part(kind: &BlockKind) -> Option<Object> {
    match kind {
        BlockKind::Image(media) => {
            let url = match &media.source {
                MediaSource::Url(url) if url.starts_with("http") => url.clone(),
                MediaSource::Base64(data) => format!("data:{};base64,{data}", media.media_type.as_deref()?),
                MediaSource::Url(_) | MediaSource::Blob(_) => return None,
            };
            Some(Object::of_type("image_url").with("image_url", Object::new().with_text("url", url)))
        }
        BlockKind::Audio(media) => {
            let format = match media.media_type.as_deref()? {
                "audio/wav" => "wav",
                "audio/mpeg" => "mp3",
                _ => return None,
            };
            let MediaSource::Base64(data) = &media.source else { return None };
            let audio = Object::new().with_text("data", data).with_text("format", format);
            Some(Object::of_type("input_audio").with("input_audio", audio))
        }
        BlockKind::Document(media) => {
            let MediaSource::Base64(data) = &media.source else { return None };
            let media_type = media.media_type.as_deref().filter(|media_type| *media_type == "application/pdf")?;
            let mut file = Object::new().with_text("file_data", format!("data:{media_type};base64,{data}"));
            if let Some(title) = &media.title {
                file.set("filename", Value::text(title));
            }
            Some(Object::of_type("file").with("file", file))
        }
        _ => None,
    }
}

/// Reads media of a user message. Returns `None` for a file that only the provider has.
fn media_of(part: &Object) -> Option<BlockKind> {
    match part.text("type")? {
        "image_url" => {
            let url = part.object("image_url")?.text("url")?;
            Some(BlockKind::Image(media_of_url(url)))
        }
        "input_audio" => {
            let audio = part.object("input_audio")?;
            let media_type = match audio.text("format")? {
                "wav" => "audio/wav",
                "mp3" => "audio/mpeg",
                _ => return None,
            };
            let source = MediaSource::Base64(audio.text("data")?.to_owned());
            Some(BlockKind::Audio(Media::new(Some(media_type.to_owned()), source)))
        }
        "file" => {
            let file = part.object("file")?;
            let mut media = media_of_url(file.text("file_data")?);
            media.title = file.text("filename").map(str::to_owned);
            Some(BlockKind::Document(media))
        }
        _ => None,
    }
}

fn media_of_url(url: &str) -> Media {
    match split_data_url(url) {
        Some((media_type, data)) => Media::new(Some(media_type), MediaSource::Base64(data.to_owned())),
        None => Media::new(None, MediaSource::Url(url.to_owned())),
    }
}
