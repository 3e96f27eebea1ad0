//! Joins the chunks of a streamed reply.

use store_core::{Error, Result};

use crate::value::{Object, Value};

/// Joins `chat.completion.chunk` objects to a completion with one choice.
pub(super) fn join(events: &[Value]) -> Result<Object> {
    let mut reply = Object::new();
    let mut choice = Object::new();
    let mut message = Object::new();
    for chunk in events.iter().filter_map(Value::as_object) {
        for name in ["id", "model", "usage"] {
            if let Some(value) = chunk.get(name).filter(|value| **value != Value::Null) {
                reply.set(name, value.clone());
            }
        }
        let is_first = |choice: &&Object| choice.number("index").unwrap_or_default() == 0;
        for part in chunk.list("choices").unwrap_or_default().iter().filter_map(Value::as_object).filter(is_first) {
            if let Some(reason) = part.get("finish_reason").filter(|reason| **reason != Value::Null) {
                choice.set("finish_reason", reason.clone());
            }
            if let Some(delta) = part.object("delta") {
                add(&mut message, delta);
            }
        }
    }
    if message.is_empty() {
        return Err(Error::invalid("body", "the events have no choice"));
    }
    choice.set("message", message);
    reply.set("choices", Value::List(vec![choice.into()]));
    Ok(reply)
}

/// Adds a delta: texts are joined, items of lists are joined by their `index`, and other values are replaced.
fn add(message: &mut Object, delta: &Object) {
    for (name, value) in delta.iter() {
        match (message.get_mut(name), value) {
            (Some(existing), text)
                if existing.is_string() && text.is_string() && !matches!(name, "role" | "id" | "type") =>
            {
                existing.append_text(text);
            }
            (Some(Value::Object(existing)), Value::Object(change)) => add(existing, change),
            (Some(Value::List(existing)), Value::List(changes)) => add_items(existing, changes),
            (None, Value::List(changes)) => {
                let mut items = Vec::new();
                add_items(&mut items, changes);
                message.set(name, Value::List(items));
            }
            (Some(_), Value::Null) => {}
            _ => message.set(name, value.clone()),
        }
    }
}

/// Adds each item of a delta to the item with the same `index`.
fn add_items(items: &mut Vec<Value>, changes: &[Value]) {
    for change in changes {
        let index = change.as_object().and_then(|change| change.number("index"));
        let Some((change, at)) = change.as_object().zip(index.and_then(|at| usize::try_from(at).ok())) else {
            items.push(change.clone());
            continue;
        };
        let mut change = change.clone();
        change.remove("index");
        match items.get_mut(at) {
            Some(Value::Object(item)) => add(item, &change),
            _ => items.push(change.into()),
        }
    }
}
