//! Google Gemini, `generateContent`.
//!
//! Source: <https://ai.google.dev/api/generate-content>.

mod read;
mod schema;
mod stream;
mod write;

use store_core::{BlockKind, Media, MediaSource, Result, Thinking};

use crate::{
    compile::Compiler,
    native::Native,
    normalize::Reader,
    provider::{Api, Target},
    value::{Object, Value},
};

/// Flag: the item of `contents` follows an item with the same role, and is not merged with it.
const SEPARATE: &str = "separate";
/// Flag: the text of the result is the whole `response`, as JSON.
const WHOLE_RESPONSE: &str = "response";
/// Flag: the provider gave the call no id.
const NO_ID: &str = "no id";

pub(crate) struct Google;

impl Api for Google {
    fn name(&self) -> &'static str {
        "google"
    }

    fn vendor(&self) -> &'static str {
        "google"
    }

    fn api_names(&self) -> &'static [Option<&'static str>] {
        &[Some("google-generative-ai"), Some("generate-content"), None]
    }

    fn fields_bound_to_model(&self) -> &'static [&'static str] {
        &["/thoughtSignature", "/functionResponse/id"]
    }

    fn keeps_blocks_without_fields_bound_to_model(&self) -> bool {
        true
    }

    fn history_fields(&self) -> &'static [&'static str] {
        &["contents", "systemInstruction", "system_instruction"]
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

    fn warnings(&self, body: &Object, _target: &Target) -> Vec<String> {
        schema::unknown_keywords(body)
    }

    fn read_foreign_data(&self, data: &Value, native: &mut Native) -> bool {
        // Other tools store only the signature, as a text.
        if data.as_text().is_some() {
            native.part.diff.set.push(("/thoughtSignature".to_owned(), data.clone()));
        }
        data.as_text().is_some()
    }
}

fn text_part(text: &str) -> Object {
    Object::new().with_text("text", text)
}

fn thought_part(thinking: &Thinking) -> Object {
    let mut part = text_part(&thinking.text).with("thought", Value::Bool(true));
    if let Some(signature) = &thinking.signature {
        part.set("thoughtSignature", Value::text(signature));
    }
    part
}

fn call_part(id: Option<&str>, name: &str, args: impl Into<Value>) -> Object {
    let mut call = Object::new();
    if let Some(id) = id {
        call.set("id", Value::text(id));
    }
    Object::new().with("functionCall", call.with_text("name", name).with("args", args))
}

fn result_part(name: &str, response: Object, parts: Option<Vec<Value>>) -> Object {
    let mut result = Object::new().with_text("name", name).with("response", response);
    if let Some(parts) = parts {
        result.set("parts", Value::List(parts));
    }
    Object::new().with("functionResponse", result)
}

/// Returns a part with media, or `None` if the API does not take it. A file of Google Cloud Storage must be registered
/// with the API. This is certain only for a file that came from the API.
fn media_part(media: &Media, came_from_api: bool) -> Option<Object> {
    let media_type = media.media_type.as_deref();
    match &media.source {
        MediaSource::Base64(data) => {
            let blob = Object::new().with_text("mimeType", media_type?).with_text("data", data);
            Some(Object::new().with("inlineData", blob))
        }
        MediaSource::Url(url) if came_from_api || !url.starts_with("gs://") => {
            let mut file = Object::new();
            if let Some(media_type) = media_type {
                file.set("mimeType", Value::text(media_type));
            }
            Some(Object::new().with("fileData", file.with_text("fileUri", url)))
        }
        _ => None,
    }
}

/// Reads media.
fn media_of(part: &Object) -> Option<BlockKind> {
    let (media_type, source) = if let Some(blob) = part.object("inlineData") {
        (blob.text("mimeType"), MediaSource::Base64(blob.text("data")?.to_owned()))
    } else {
        let file = part.object("fileData")?;
        (file.text("mimeType"), MediaSource::Url(file.text("fileUri")?.to_owned()))
    };
    let media = Media::new(media_type.map(str::to_owned), source);
    Some(match media_type.unwrap_or_default().split('/').next() {
        Some("image") => BlockKind::Image(media),
        Some("audio") => BlockKind::Audio(media),
        Some("video") => BlockKind::Video(media),
        _ => BlockKind::Document(media),
    })
}
