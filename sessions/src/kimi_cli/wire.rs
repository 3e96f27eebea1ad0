//! Reads the wire file. Each line records one event. Only this file contains times, and only this file says reliably
//! whether a tool failed.

use store_core::{Custom, NewBody, Timestamp};

use super::{context_line::hash, message::plain_text};
use crate::{
    compact::{List, TextTable, to_u32},
    issue::{IssueCode, Issues},
    json::Object,
    lines::note_bad_field,
    time,
};

/// The version of a wire file that does not name its version.
pub(super) const FIRST_VERSION: &str = "1.1";

/// What the import keeps of the records of a wire file between the two passes: about 16 bytes for each. Records are
/// counted from 0.
#[derive(Debug, Default)]
pub(super) struct WireRecords {
    events: List<WireEvent>,
    /// For each record, its time in milliseconds, or `NO_TIME`.
    times: List<u64>,
    /// The records with which turns begin, and the hash of what the user said.
    turns: List<(u32, Option<u64>)>,
}

const NO_TIME: u64 = u64::MAX;

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireEvent {
    /// A turn begins.
    Turn,
    /// A request to the model begins.
    Step,
    /// The model says something.
    Part,
    /// The model calls a tool. The number is that of the call's id.
    Call(u32),
    /// A tool answers.
    Result {
        /// The number of the call's id.
        call: u32,
        /// Whether the tool failed.
        is_error: Option<bool>,
    },
    /// Anything else.
    Other,
}

impl WireRecords {
    pub(super) const fn events(&self) -> &List<WireEvent> {
        &self.events
    }

    pub(super) fn time(&self, record: usize) -> Option<Timestamp> {
        Timestamp::from_millis(*self.times.get(record)?).ok()
    }

    pub(super) fn first_time(&self) -> Option<Timestamp> {
        (0..self.times.len()).find_map(|record| self.time(record))
    }

    /// For the result of a call: whether the tool failed, if the record says it.
    pub(super) fn is_error(&self, record: usize) -> Option<bool> {
        match self.events.get(record)? {
            WireEvent::Result { is_error, .. } => *is_error,
            _ => None,
        }
    }

    /// The records with which turns begin, and the hash of what the user said.
    pub(super) fn turns(&self) -> impl Iterator<Item = (usize, Option<u64>)> {
        self.turns.iter().filter_map(|(record, text_hash)| Some((usize::try_from(*record).ok()?, *text_hash)))
    }

    /// Adds a record, and notes what is wrong with its line. `call_ids` gets the id of the call that it is about.
    pub(super) fn push_object(
        &mut self,
        line: u64,
        object: &Object<'_>,
        issues: &mut Issues,
        call_ids: &mut TextTable,
    ) {
        if is_metadata(object) {
            return self.push(None, WireEvent::Other);
        }
        let time = object.raw("timestamp").and_then(time::read);
        if time.is_none() {
            issues.add(line, IssueCode::BadTime, "the time cannot be read", "the previous time is used");
        }
        let message = object.object("message");
        let kind = message.as_ref().and_then(|message| message.text("type"));
        let Some((message, kind)) = message.zip(kind) else {
            note_bad_field(issues, line, "`message` is not an object with a type");
            return self.push(time, WireEvent::Other);
        };
        let payload = message.object("payload");
        match payload.as_ref().filter(|_| kind == "TurnBegin") {
            Some(payload) => {
                let text = payload.raw("user_input").and_then(plain_text);
                self.push_turn(time, text.map(|text| hash(&text)));
            }
            None => {
                let event = payload.and_then(|payload| event(&kind, &payload, call_ids));
                self.push(time, event.unwrap_or(WireEvent::Other));
            }
        }
    }

    /// Adds a record with which a turn begins, and the hash of what the user said.
    pub(super) fn push_turn(&mut self, time: Option<Timestamp>, text_hash: Option<u64>) {
        self.turns.push((to_u32(self.events.len()), text_hash));
        self.push(time, WireEvent::Turn);
    }

    /// Adds a record that does not begin a turn.
    pub(super) fn push(&mut self, time: Option<Timestamp>, event: WireEvent) {
        self.times.push(time.map_or(NO_TIME, Timestamp::as_millis));
        self.events.push(event);
    }
}

/// The event of a record that does not begin a turn.
fn event(kind: &str, payload: &Object<'_>, call_ids: &mut TextTable) -> Option<WireEvent> {
    let mut number = |field| Some(call_ids.add(&payload.text(field)?)?.0);
    Some(match kind {
        "StepBegin" => WireEvent::Step,
        "ContentPart" => WireEvent::Part,
        "ToolCall" => WireEvent::Call(number("id")?),
        "ToolResult" => {
            let returned = payload.object("return_value");
            let is_error = returned.and_then(|returned| returned.bool("is_error"));
            WireEvent::Result { call: number("tool_call_id")?, is_error }
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
    Custom::new(format!("kimi-cli.wire.{kind}"), object.without_fields(&[])).into()
}
