//! Joins the events of a streamed reply.

use store_core::{Error, Result};

use crate::value::{Object, Value};

/// Returns the response of the last event that has one. If that response has no output, it gets the items that are
/// complete.
pub(super) fn join(events: &[Value]) -> Result<Object> {
    let mut response: Option<Object> = None;
    let mut items = Vec::new();
    for event in events.iter().filter_map(Value::as_object) {
        match event.text("type").unwrap_or_default() {
            "response.output_item.done" => items.extend(event.get("item").cloned()),
            "response.created" | "response.completed" | "response.incomplete" | "response.failed" => {
                response = event.object("response").cloned().or(response);
            }
            _ => {}
        }
    }
    let mut response = response.ok_or_else(|| Error::invalid("body", "the events have no response"))?;
    if response.list("output").is_none_or(<[Value]>::is_empty) {
        response.set("output", Value::List(items));
    }
    Ok(response)
}
