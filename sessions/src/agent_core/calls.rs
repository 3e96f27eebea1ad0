//! Decides which `tool` lines are calls, and which call a result without an id answers.

use std::collections::HashMap;

use super::{CallRole, LineData};
use crate::{json::Object, lines::ObjectLine, tree::Tree};

/// Returns how a line is related to calls, and the ids of the calls and results in it.
pub(super) fn call_role(line: &ObjectLine<'_>, id: Option<&str>) -> (CallRole, Vec<String>, Vec<String>) {
    let object = &line.object;
    let call = object.text("toolCallId");
    if object.has("toolCallId") && call.is_none() {
        // A wrong field names no call, and no call is guessed for it.
        return (CallRole::Other, Vec::new(), Vec::new());
    }
    match object.text("type").as_deref() {
        Some("assistant") => {
            let calls = declared_call_ids(object);
            (CallRole::Declares(calls.clone()), calls, Vec::new())
        }
        Some("tool") => {
            let is_named = call.is_some();
            let named = call.iter().cloned().collect();
            let line_id = id.map_or_else(|| format!("L{}", line.number), str::to_owned);
            let id = call.unwrap_or_else(|| format!("{line_id}.0"));
            (CallRole::Tool { id, is_named, is_call: false }, named, Vec::new())
        }
        Some("tool_result") => match call {
            Some(call) => (CallRole::Result, Vec::new(), vec![call]),
            None => (CallRole::ResultWithoutId(None), Vec::new(), Vec::new()),
        },
        _ => (CallRole::Other, Vec::new(), Vec::new()),
    }
}

/// The ids of the calls of an assistant line, from every field that may contain calls.
fn declared_call_ids(object: &Object<'_>) -> Vec<String> {
    let mut calls = Vec::new();
    for field in ["toolCalls", "tool_calls", "functionCalls", "content"] {
        for raw in object.list(field).unwrap_or_default() {
            let Some(item) = Object::parse(raw) else { continue };
            let is_call = field != "content" || item.text("type").as_deref() == Some("tool_use");
            let id = item.text("id").filter(|id| is_call && !id.trim().is_empty());
            calls.extend(id.filter(|id| !calls.contains(id)));
        }
    }
    calls
}

/// Decides, for each line, what depends on its path: whether a `tool` line is the call itself, and which call a result
/// without an id answers.
pub(super) fn resolve_calls(tree: &mut Tree<LineData>, order: &[usize]) {
    let mut declared: HashMap<String, Vec<usize>> = HashMap::new();
    for &at in order {
        let Some(node) = tree.get(at) else { continue };
        match &node.data.role {
            CallRole::Declares(calls) => {
                for call in calls.clone() {
                    declared.entry(call).or_default().push(at);
                }
            }
            CallRole::Tool { id, .. } => {
                let id = id.clone();
                let above = declared.get(&id).into_iter().flatten();
                let is_declared = above.into_iter().any(|above| tree.is_on_path(at, *above));
                if !is_declared {
                    declared.entry(id).or_default().push(at);
                }
                if let Some(CallRole::Tool { is_call, .. }) = tree.data_mut(at).map(|data| &mut data.role) {
                    *is_call = !is_declared;
                }
            }
            CallRole::ResultWithoutId(_) => {
                let call = nearest_unanswered_call(tree, at);
                if let Some(CallRole::ResultWithoutId(answers)) = tree.data_mut(at).map(|data| &mut data.role) {
                    *answers = call;
                }
            }
            CallRole::Other | CallRole::Result => {}
        }
    }
}

/// Returns the nearest earlier call on the path that has no id of its own and is not answered by a result in between.
fn nearest_unanswered_call(tree: &Tree<LineData>, at: usize) -> Option<String> {
    let mut answered = 0_usize;
    for above in tree.path(at).skip(1) {
        match &tree.get(above)?.data.role {
            CallRole::ResultWithoutId(_) => answered += 1,
            CallRole::Tool { id, is_named: false, .. } if answered == 0 => return Some(id.clone()),
            CallRole::Tool { is_named: false, .. } => answered -= 1,
            _ => {}
        }
    }
    None
}
