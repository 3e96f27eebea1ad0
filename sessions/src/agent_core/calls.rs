//! Decides which `tool` lines are calls. If a result names no call, decides which call it answers.

use super::{CallRole, LineData};
use crate::{
    compact::{digest, to_u32},
    json::Object,
    lines::ObjectLine,
    tree::Tree,
};

/// What a line says about calls.
#[derive(Debug, Default)]
pub(super) struct CallsOfLine {
    pub(super) role: CallRole,
    /// The ids of the calls in it.
    pub(super) calls: Vec<String>,
    /// The ids of the calls that it answers.
    pub(super) results: Vec<String>,
    /// The id that is made for the call of a `tool` line without `toolCallId`.
    pub(super) made_id: Option<String>,
}

/// Reads what a line says about calls. `id` is the id of the line.
pub(super) fn read_calls(line: &ObjectLine<'_>, id: Option<&str>) -> CallsOfLine {
    let object = &line.object;
    let call = object.text("toolCallId");
    if has_wrong_call_id(object) {
        // No call is guessed for a wrong field.
        return CallsOfLine::default();
    }
    match object.text("type").as_deref() {
        Some("assistant") => CallsOfLine { calls: declared_call_ids(object), ..CallsOfLine::default() },
        Some("tool") => CallsOfLine {
            role: CallRole::Tool { has_call_id: call.is_some() },
            made_id: call.is_none().then(|| made_call_id(id, line.number)),
            calls: call.into_iter().collect(),
            ..CallsOfLine::default()
        },
        Some("tool_result") => CallsOfLine {
            role: if call.is_some() { CallRole::Other } else { CallRole::ResultWithoutId },
            results: call.into_iter().collect(),
            ..CallsOfLine::default()
        },
        _ => CallsOfLine::default(),
    }
}

/// Whether the field that names a call is not a text.
pub(super) fn has_wrong_call_id(object: &Object<'_>) -> bool {
    object.has("toolCallId") && object.text("toolCallId").is_none()
}

/// The id that is made for the call of a `tool` line without `toolCallId`.
pub(super) fn made_call_id(id: Option<&str>, line: u64) -> String {
    id.map_or_else(|| format!("L{line}.0"), |id| format!("{id}.0"))
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

/// The lines that declare calls, and the `tool` lines.
#[derive(Debug, Default)]
pub(super) struct KnownCalls {
    /// For each call of a line: the digest of the id of the call, and the number of the line. The list is sorted after
    /// the first pass.
    lines: Vec<([u8; 16], u32)>,
}

impl KnownCalls {
    /// Notes the calls of a line.
    pub(super) fn note<'a>(&mut self, line: u64, ids: impl Iterator<Item = &'a String>) {
        ids.for_each(|id| self.lines.push((digest(id), to_u32(line))));
    }

    pub(super) fn sort(&mut self) {
        self.lines.sort_unstable();
    }

    /// Whether an ancestor of a `tool` line has the same call. If not, the line is the call itself.
    pub(super) fn is_declared_by_ancestor(&self, tree: &Tree<LineData>, at: usize, id: &str) -> bool {
        let digest = digest(id);
        let first = self.lines.partition_point(|(other, _)| *other < digest);
        let with_same_digest = self.lines.iter().skip(first).take_while(|(other, _)| *other == digest);
        let mut nodes = with_same_digest.filter_map(|(_, line)| tree.position(u64::from(*line)));
        nodes.any(|other| other != at && tree.is_on_path(at, other))
    }
}

/// Returns the nearest earlier call on the path that has no id of its own and is not answered by a result in between.
pub(super) fn nearest_unanswered_call(tree: &Tree<LineData>, at: usize) -> Option<String> {
    let mut answered = 0_usize;
    for ancestor in tree.path(at).skip(1) {
        match tree.data(ancestor)?.role {
            CallRole::ResultWithoutId => answered += 1,
            CallRole::Tool { has_call_id: false } if answered == 0 => {
                return Some(made_call_id(tree.source_id(ancestor).as_deref(), tree.line(ancestor)?));
            }
            CallRole::Tool { has_call_id: false } => answered -= 1,
            CallRole::Tool { .. } | CallRole::Other => {}
        }
    }
    None
}
