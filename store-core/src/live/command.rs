//! Commands to running work, and their encoding.

use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, record, serde_by_codec},
    id::EntryId,
    json::Json,
    log::{Custom, Decision, Message},
};

/// A command to an attempt while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LiveCommand {
    /// Messages, each with the id of its future entry. The receiver that accepts the command commits these entries.
    Input(Vec<LiveInput>),
    /// The queue of pending input of the thread has changed.
    PendingChanged,
    /// The worker should stop the work.
    Cancel,
    /// A decision on a [`Ticket`](crate::Ticket) of the run.
    Decision(Decision),
    /// Any command of the application.
    Custom(Custom),
    /// A command of a kind that this release does not know. It can be passed on unchanged. A
    /// [`LiveReceiver`](super::LiveReceiver) refuses such a command and does not return it; the sender gets an error
    /// (LV-6).
    Unknown {
        /// The name of the kind.
        kind: String,
        /// The data of the command.
        data: Json,
    },
}

/// Written as `{"<kind>": …}`.
impl Codec for LiveCommand {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        match self {
            Self::Input(inputs) => drop(object.field("input", inputs)),
            Self::PendingChanged => object.key("pending_changed").push_str("{}"),
            Self::Cancel => object.key("cancel").push_str("{}"),
            Self::Decision(decision) => drop(object.field("decision", decision)),
            Self::Custom(custom) => drop(object.field("custom", custom)),
            Self::Unknown { kind, data } => drop(object.field(kind, data)),
        }
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let name = fields.first().ok_or_else(|| DecodeError::new("is an empty command"))?.0.to_owned();
        Ok(match name.as_str() {
            "input" => Self::Input(fields.take(&name)?),
            "pending_changed" => Self::PendingChanged,
            "cancel" => Self::Cancel,
            "decision" => Self::Decision(fields.take(&name)?),
            "custom" => Self::Custom(fields.take(&name)?),
            _ => Self::Unknown { data: fields.take(&name)?, kind: name },
        })
    }
}

serde_by_codec!(LiveCommand);

/// A message for running work.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveInput {
    /// The id of the entry that the message becomes, whether it is delivered or queued (LV-12).
    pub id: EntryId,
    /// The content.
    pub message: Message,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(LiveInput { id: req, message: req });

impl LiveInput {
    /// Makes an input from `message`, to become the entry `id`.
    #[must_use]
    pub fn new(id: EntryId, message: Message) -> Self {
        Self { id, message, extra: Extra::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::{LiveCommand, LiveInput};
    use crate::{
        EntryId, Json, RunId,
        codec::Codec,
        log::{Custom, Decision, DecisionAction, Message},
    };

    fn expect_round_trip(command: &LiveCommand, prefix: &str) {
        let text = command.encode();
        assert!(text.starts_with(prefix), "{text}");
        assert_eq!(LiveCommand::read(&text).as_ref(), Ok(command), "{text}");
    }

    #[test]
    fn every_live_command_round_trips() {
        let input = LiveInput::new(EntryId::new("e").unwrap(), Message::user("x"));
        expect_round_trip(&LiveCommand::Input(vec![input]), r#"{"input":[{"id":"e","message":{"role":"user""#);
        expect_round_trip(&LiveCommand::PendingChanged, r#"{"pending_changed":{}}"#);
        expect_round_trip(&LiveCommand::Cancel, r#"{"cancel":{}}"#);
        let decision = Decision::new(RunId::new("r").unwrap(), "ticket", DecisionAction::Resume);
        expect_round_trip(&LiveCommand::Decision(decision), r#"{"decision":{"run":"r","ticket":"ticket""#);
        let data = Json::parse("1e2").unwrap();
        expect_round_trip(
            &LiveCommand::Custom(Custom::new("k", data.clone())),
            r#"{"custom":{"kind":"k","data":1e2}}"#,
        );
        expect_round_trip(&LiveCommand::Unknown { kind: "pause".to_owned(), data }, r#"{"pause":1e2}"#);
    }

    #[test]
    fn an_invalid_command_cannot_be_read() {
        for text in ["", "{}", "[]", r#"{"input":{}}"#, r#"{"decision":1}"#] {
            assert!(LiveCommand::read(text).is_err(), "{text}");
        }
    }
}
