//! Reads the wire file. Each line records one event. Only this file contains times, and only this file says reliably
//! whether a tool failed.

use store_core::{Custom, NewBody, Timestamp};

use super::{context_line::hash, message::plain_text};
use crate::{
    issue::{IssueCode, Issues},
    json::Object,
    lines::note_bad_field,
    time,
};

/// The version of a wire file that does not name its version.
pub(super) const FIRST_VERSION: &str = "1.1";

/// What the import keeps of a record between the two passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WireRecord {
    pub(super) time: Option<Timestamp>,
    pub(super) event: WireEvent,
}

/// What a record is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WireEvent {
    /// A turn begins, with the hash of what the user said.
    Turn(Option<u64>),
    /// A request to the model begins.
    Step,
    /// The model says something.
    Part,
    /// The model calls a tool.
    Call(String),
    /// A tool answers.
    Result {
        /// The id of the call.
        id: String,
        /// Whether the tool failed.
        is_error: Option<bool>,
    },
    /// Anything else.
    Other,
}

impl WireRecord {
    /// A line without a record, such as a blank line.
    pub(super) const fn without_event() -> Self {
        Self { time: None, event: WireEvent::Other }
    }

    /// Reads a record, and notes what is wrong with its line.
    pub(super) fn read(line: u64, object: &Object<'_>, issues: &mut Issues) -> Self {
        if is_metadata(object) {
            return Self::without_event();
        }
        let time = object.raw("timestamp").and_then(time::read);
        if time.is_none() {
            issues.add(line, IssueCode::BadTime, "the time cannot be read", "the previous time is used");
        }
        let message = object.object("message");
        let kind = message.as_ref().and_then(|message| message.text("type"));
        let Some((message, kind)) = message.zip(kind) else {
            note_bad_field(issues, line, "`message` is not an object with a type");
            return Self { time, event: WireEvent::Other };
        };
        let event = message.object("payload").and_then(|payload| event(&kind, &payload));
        Self { time, event: event.unwrap_or(WireEvent::Other) }
    }
}

fn event(kind: &str, payload: &Object<'_>) -> Option<WireEvent> {
    Some(match kind {
        "TurnBegin" => {
            let said = payload.raw("user_input").and_then(plain_text);
            WireEvent::Turn(said.map(|text| hash(&text)))
        }
        "StepBegin" => WireEvent::Step,
        "ContentPart" => WireEvent::Part,
        "ToolCall" => WireEvent::Call(payload.text("id")?),
        "ToolResult" => {
            let returned = payload.object("return_value");
            let is_error = returned.and_then(|returned| returned.bool("is_error"));
            WireEvent::Result { id: payload.text("tool_call_id")?, is_error }
        }
        _ => return None,
    })
}

/// Whether a line is the metadata of the file, which names the version.
fn is_metadata(object: &Object<'_>) -> bool {
    object.text("type").as_deref() == Some("metadata")
}

/// The version that a line names.
pub(super) fn version(object: &Object<'_>) -> Option<String> {
    object.text("protocol_version").filter(|_| is_metadata(object))
}

/// The body of a record. It contains all fields of the line.
pub(super) fn body(object: &Object<'_>) -> NewBody {
    let kind = match object.object("message").and_then(|message| message.text("type")) {
        Some(kind) => kind,
        None if is_metadata(object) => "metadata".to_owned(),
        None => "line".to_owned(),
    };
    Custom::new(format!("kimi-cli.wire.{kind}"), object.without(&[])).into()
}
