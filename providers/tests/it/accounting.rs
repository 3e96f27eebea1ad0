//! Checks that every part of a context is in the compiled body or is reported as a loss (SE-7).

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use providers::Compiled;
use serde_json::Value;
use store_core::{BlockKind, Message};

/// Returns the values of messages that are neither in the body nor in the list of losses.
pub(crate) fn unreported_losses(messages: &[Message], compiled: &Compiled) -> Vec<String> {
    let body: Value = serde_json::from_str(compiled.body.as_str()).unwrap();
    let mut body_values = BodyValues::default();
    body_values.add(&body);
    let made_ids = made_ids(messages);
    let mut unreported = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let blocks = serde_json::to_value(&message.blocks).unwrap();
        visit_innermost(&blocks, &format!("/messages/{at}/blocks"), &mut |pointer, value| {
            let is_listed = compiled.losses.iter().any(|loss| {
                pointer.strip_prefix(loss.path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            });
            // For Gemini, the name of a field says that a tool failed.
            let is_error_field =
                pointer.ends_with("/is_error") && compiled.body.as_str().contains(r#""response":{"error":"#);
            // Chat Completions has the name of a format instead of the media type of audio.
            let is_audio_format =
                pointer.ends_with("/audio/media_type") && compiled.body.as_str().contains(r#""format":"#);
            // Plain text is sent as text, not as base64.
            let decoded =
                value.as_str().filter(|_| pointer.ends_with("/base64")).and_then(|text| STANDARD.decode(text).ok());
            let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
            let is_decoded = decoded.is_some_and(|text| body_values.has(&Value::String(text)));
            let is_in_other_form = is_error_field
                || is_audio_format
                || is_decoded
                || value.as_str().is_some_and(|text| made_ids.contains(text));
            if !is_listed && !is_in_other_form && !is_about_form(pointer) && !body_values.has(value) {
                unreported.push(format!("{pointer}: {value}"));
            }
        });
    }
    unreported
}

/// Returns the ids that were made for calls to which the provider gave none.
fn made_ids(messages: &[Message]) -> BTreeSet<String> {
    let blocks = messages.iter().flat_map(|message| &message.blocks);
    let without_id =
        blocks.filter(|block| block.opaque.as_ref().is_some_and(|o| o.data.as_str().contains("\"no id\"")));
    let ids = without_id.filter_map(|block| match &block.kind {
        BlockKind::ToolUse(call) => Some(call.id.clone()),
        _ => None,
    });
    ids.collect()
}

/// Returns whether a value only says how something is written or where it comes from.
fn is_about_form(pointer: &str) -> bool {
    ["/marks/", "/unset/", "/origin/", "/continues", "/redacted"].iter().any(|part| pointer.contains(part))
}

/// The values of a body.
#[derive(Default)]
struct BodyValues {
    texts: Vec<String>,
    other_values: Vec<String>,
}

impl BodyValues {
    fn add(&mut self, value: &Value) {
        visit_innermost(value, "", &mut |_, value| match value {
            Value::String(text) => self.texts.push(text.clone()),
            other => self.other_values.push(other.to_string()),
        });
        // Arguments and outputs are JSON in a text.
        let inner: Vec<Value> = self.texts.iter().filter_map(|text| parse(text)).collect();
        for value in inner {
            visit_innermost(&value, "", &mut |_, value| match value {
                Value::String(text) => self.texts.push(text.clone()),
                other => self.other_values.push(other.to_string()),
            });
        }
    }

    fn has(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => {
                let parts = parse(text);
                self.texts.iter().any(|sent| sent.contains(text.as_str()))
                    || parts.is_some_and(|json| self.has_all(&json))
            }
            Value::Array(_) | Value::Object(_) => true,
            other => {
                self.other_values.contains(&other.to_string())
                    || self.texts.iter().any(|sent| sent.contains(&other.to_string()))
            }
        }
    }

    fn has_all(&self, json: &Value) -> bool {
        let mut all = true;
        visit_innermost(json, "", &mut |_, value| all &= self.has(value));
        all
    }
}

fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(|value: &Value| value.is_object() || value.is_array())
}

/// Calls `visit` with the JSON pointer and the value of each part that contains no other value.
fn visit_innermost(value: &Value, pointer: &str, visit: &mut impl FnMut(&str, &Value)) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let name = name.replace('~', "~0").replace('/', "~1");
                visit_innermost(value, &format!("{pointer}/{name}"), visit);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, value) in items.iter().enumerate() {
                visit_innermost(value, &format!("{pointer}/{at}"), visit);
            }
        }
        _ => visit(pointer, value),
    }
}
