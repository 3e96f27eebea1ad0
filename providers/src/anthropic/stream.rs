//! Joins the events of a streamed reply.

use store_core::{Error, Result};

use crate::value::{Object, Value};

/// Joins `message_start`, `content_block_*` and `message_delta` events to a message.
pub(super) fn join(events: &[Value]) -> Result<Object> {
    let mut message: Option<Object> = None;
    let mut blocks: Vec<StreamedBlock> = Vec::new();
    for event in events.iter().filter_map(Value::as_object) {
        match event.text("type").unwrap_or_default() {
            "message_start" => message = event.object("message").cloned(),
            "content_block_start" => blocks.extend(event.object("content_block").cloned().map(StreamedBlock::new)),
            "content_block_delta" => {
                let at = event.number("index").and_then(|at| usize::try_from(at).ok());
                let block = at.and_then(|at| blocks.get_mut(at));
                if let (Some(block), Some(delta)) = (block, event.object("delta")) {
                    block.add(delta);
                }
            }
            "message_delta" => {
                for name in ["delta", "usage"] {
                    if let (Some(message), Some(change)) = (message.as_mut(), event.object(name)) {
                        update(message, name, change);
                    }
                }
            }
            _ => {}
        }
    }
    let mut message = message.ok_or_else(|| Error::invalid("body", "the events have no `message_start`"))?;
    let blocks = blocks.into_iter().map(StreamedBlock::finish).collect::<Result<Vec<_>>>()?;
    message.set("content", Value::List(blocks));
    Ok(message)
}

/// Applies the changes of a `message_delta` event: `delta` changes the message, `usage` its usage.
fn update(message: &mut Object, name: &str, change: &Object) {
    let mut usage = message.object("usage").cloned().unwrap_or_default();
    for (field, value) in change.iter() {
        if name == "delta" {
            message.set(field, value.clone());
        } else {
            usage.set(field, value.clone());
        }
    }
    if name == "usage" {
        message.set("usage", usage);
    }
}

/// A content block whose events are being read.
struct StreamedBlock {
    block: Object,
    /// The JSON of the input so far, if it is streamed.
    input: String,
}

impl StreamedBlock {
    const fn new(block: Object) -> Self {
        Self { block, input: String::new() }
    }

    fn add(&mut self, delta: &Object) {
        for (name, value) in delta.iter().filter(|(name, _)| *name != "type") {
            match (name, self.block.get_mut(name), value) {
                ("partial_json", _, Value::Text(json)) => self.input.push_str(json),
                ("citation", _, citation) => self.add_citation(citation),
                (_, Some(existing), text) if existing.is_string() && text.is_string() => existing.append_text(text),
                _ => self.block.set(name, value.clone()),
            }
        }
    }

    fn add_citation(&mut self, citation: &Value) {
        match self.block.get_mut("citations") {
            Some(Value::List(citations)) => citations.push(citation.clone()),
            _ => self.block.set("citations", Value::List(vec![citation.clone()])),
        }
    }

    fn finish(mut self) -> Result<Value> {
        if !self.input.is_empty() {
            // Arguments that were cut off stay text.
            let input = store_core::Json::parse(&self.input).and_then(|json| Value::of(&json));
            self.block.set("input", input.unwrap_or(Value::Text(self.input)));
        }
        Ok(self.block.into())
    }
}
