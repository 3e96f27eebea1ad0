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
        let first = |choice: &&Object| choice.number("index").unwrap_or_default() == 0;
        for part in chunk.list("choices").unwrap_or_default().iter().filter_map(Value::as_object).filter(first) {
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

/// Adds a delta: texts are joined, the items of lists by their `index`, and other values are replaced.
fn add(message: &mut Object, delta: &Object) {
    for (name, value) in delta.iter() {
        let joined = match (message.get(name), value) {
            (Some(Value::Text(before)), Value::Text(text)) if !matches!(name, "role" | "id" | "type") => {
                Value::Text(format!("{before}{text}"))
            }
            (Some(Value::Object(before)), Value::Object(change)) => {
                let mut before = before.clone();
                add(&mut before, change);
                before.into()
            }
            (before, Value::List(changes)) => {
                let before = before.and_then(Value::as_list).unwrap_or_default();
                Value::List(with_changes(before.to_vec(), changes))
            }
            (Some(_), Value::Null) => continue,
            _ => value.clone(),
        };
        message.set(name, joined);
    }
}

fn with_changes(mut items: Vec<Value>, changes: &[Value]) -> Vec<Value> {
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
    items
}
