//! Records: what a line of a rollout contains, in the new shape and in the old one.

use store_core::Json;

use crate::json::Object;

/// The type of the first line in the new shape.
pub(super) const SESSION_META: &str = "session_meta";
/// The type of lines with the settings of the following turns.
pub(super) const TURN_CONTEXT: &str = "turn_context";
/// The type of lines with an item of the conversation.
pub(super) const RESPONSE_ITEM: &str = "response_item";
/// The type of lines with a compaction.
pub(super) const COMPACTED: &str = "compacted";
/// The type of lines with an event for people.
pub(super) const EVENT_MSG: &str = "event_msg";
/// The type of lines with a state of the environment.
pub(super) const WORLD_STATE: &str = "world_state";

/// The types that show that a file is a rollout.
const ROLLOUT_TYPES: &[&str] = &[SESSION_META, TURN_CONTEXT, RESPONSE_ITEM, COMPACTED, EVENT_MSG, WORLD_STATE];
/// The types of items of the old shape, in which a line is an item without a record around it.
const OLD_ITEM_TYPES: &[&str] = &["message", "reasoning", "function_call", "function_call_output", "local_shell_call"];

/// A record: its type and its content.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) kind: String,
    pub(super) payload: Json,
}

impl Record {
    /// Reads a line. Returns `None` if it is not a record. If the file has the old shape, its lines can have the old or
    /// the new one.
    pub(super) fn of(line: &Object<'_>, has_old_shape: bool) -> Option<Self> {
        if let (Some(kind), Some(payload)) = (line.text("type"), line.json("payload")) {
            return Some(Self { kind, payload });
        }
        if !has_old_shape {
            return None;
        }
        if let Some(kind) = line.text("record_type") {
            return Some(Self { kind, payload: line.without_fields(&[]) });
        }
        let is_item = line.text("type").is_some() || line.text("role").is_some();
        is_item.then(|| Self { kind: RESPONSE_ITEM.to_owned(), payload: line.without_fields(&[]) })
    }

    /// The fields of the content, if it is an object.
    pub(super) fn fields(&self) -> Option<Object<'_>> {
        Object::parse(self.payload.as_str())
    }
}

/// Whether a line shows that its file is a rollout of the new shape.
pub(super) fn is_record(line: &Object<'_>) -> bool {
    let has_rollout_type = line.text("type").is_some_and(|kind| ROLLOUT_TYPES.contains(&kind.as_str()));
    has_rollout_type && line.object("payload").is_some() && line.has("timestamp")
}

/// Whether a line is the first of a rollout of the old shape.
pub(super) fn is_old_header(line: &Object<'_>) -> bool {
    let has_header_field = line.raw("instructions").is_some() || line.raw("git").is_some();
    line.text("id").is_some() && line.has("timestamp") && has_header_field && !line.has("type")
}

/// Whether a line can stand after the first line in a rollout of the old shape.
pub(super) fn is_old_line(line: &Object<'_>) -> bool {
    let is_item = line.text("type").is_some_and(|kind| OLD_ITEM_TYPES.contains(&kind.as_str()));
    line.text("record_type").is_some() || is_item && !line.has("payload")
}
