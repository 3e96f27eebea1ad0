//! Joins the chunks of a streamed reply.

use store_core::{Error, Result};

use crate::value::{Object, Value};

/// Joins the chunks to one reply. Neighbouring texts of the same kind become one part, unless one of them has a
/// signature, which stays on its part.
pub(super) fn join(events: &[Value]) -> Result<Object> {
    let mut reply = Object::new();
    let mut candidate = Object::new();
    let mut role = None;
    let mut parts: Option<Vec<Value>> = None;
    for chunk in events.iter().filter_map(Value::as_object) {
        for (name, value) in chunk.iter().filter(|(name, _)| *name != "candidates") {
            reply.set(name, value.clone());
        }
        let first = chunk.list("candidates").and_then(|candidates| candidates.first()).and_then(Value::as_object);
        for (name, value) in first.into_iter().flat_map(Object::iter).filter(|(name, _)| *name != "content") {
            candidate.set(name, value.clone());
        }
        let Some(content) = first.and_then(|candidate| candidate.object("content")) else { continue };
        role = content.get("role").cloned().or(role);
        if let Some(new) = content.list("parts") {
            let parts = parts.get_or_insert_default();
            new.iter().for_each(|part| add(parts, part));
        }
    }
    let mut content = Object::new();
    if let Some(parts) = parts {
        content.set("parts", Value::List(parts));
    }
    let role = role.ok_or_else(|| Error::invalid("body", "the events have no content"))?;
    content.set("role", role);
    candidate.set("content", content);
    reply.set("candidates", Value::List(vec![candidate.into()]));
    Ok(reply)
}

fn add(parts: &mut Vec<Value>, part: &Value) {
    let plain_text = |part: &Value| {
        let object = part.as_object()?;
        let is_plain = object.iter().all(|(name, _)| matches!(name, "text" | "thought"));
        Some((object.text("text").filter(|_| is_plain)?.to_owned(), object.get("thought").cloned()))
    };
    let (previous, next) = (parts.last().and_then(plain_text), plain_text(part));
    if let (Some((_, thought)), Some((next, next_thought))) = (previous, next)
        && thought == next_thought
        && let Some(Value::Object(last)) = parts.last_mut()
        && let Some(last_text) = last.get_mut("text")
    {
        last_text.append_text(&Value::Text(next));
        return;
    }
    parts.push(part.clone());
}
