//! Entries: the records in the log of a thread.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;

use super::{Block, Message, Origin, TokenCounts};
use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, named_enum, record, serde_by_codec},
    id::{EntryId, RunId},
    json::Json,
    time::Timestamp,
};

/// A stored entry in the log of a thread.
///
/// A committed entry never changes (EN-2). Cloning it is cheap, because the body is shared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The id, unique in the thread.
    pub id: EntryId,
    /// The position in the log, from 1, without gaps (EN-1).
    pub seq: u64,
    /// The parent. Absent for a root.
    pub parent: Option<EntryId>,
    /// Whether this is a side entry: it may have a parent, but it is on no path (EN-6).
    pub side: bool,
    /// The time of the entry: the time that the caller gave, or store time.
    pub timestamp: Timestamp,
    /// The run that produced the entry.
    pub run: Option<RunId>,
    /// The step of the run that produced the entry.
    pub step: Option<u32>,
    /// Where the entry was imported from.
    pub origin: Option<ImportOrigin>,
    /// The body.
    pub body: Arc<Body>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Entry {
    seq: req,
    id: req,
    parent: opt,
    side: def,
    timestamp: req,
    run: opt,
    step: opt,
    origin: opt,
    body: req,
});

impl Entry {
    /// Returns the message, if the body is one.
    #[must_use]
    pub fn message(&self) -> Option<&Message> {
        match &*self.body {
            Body::Message(message) => Some(message),
            _ => None,
        }
    }

    /// Returns the kind of the body.
    #[must_use]
    pub fn kind(&self) -> BodyKind {
        self.body.kind()
    }
}

/// The source that an entry was imported from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportOrigin {
    /// The format, such as `pi-v3`.
    pub format: String,
    /// The line of the source, from 1. It is 0 for an entry that corresponds to no line.
    pub line: u64,
    /// The bytes of the line without the line ending. Absent if they can be reproduced from the other fields of the
    /// entry.
    pub raw: Option<Bytes>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

impl ImportOrigin {
    /// Creates the origin for line `line` of a file in this format.
    #[must_use]
    pub fn new(format: impl Into<String>, line: u64) -> Self {
        Self { format: format.into(), line, raw: None, extra: Extra::default() }
    }

    /// Sets the bytes of the line.
    #[must_use]
    pub fn with_raw(mut self, raw: Bytes) -> Self {
        self.raw = Some(raw);
        self
    }
}

/// Raw bytes are written as text if they are UTF-8, otherwise as base64.
impl Codec for ImportOrigin {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("format", &self.format).field("line", &self.line);
        if let Some(raw) = &self.raw {
            match std::str::from_utf8(raw) {
                Ok(text) => object.field("raw", &text.to_owned()),
                Err(_) => object.field("raw_base64", &BASE64.encode(raw)),
            };
        }
        object.extra(&self.extra);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let (format, line) = (fields.take("format")?, fields.take("line")?);
        let raw = if let Some(text) = fields.maybe::<String>("raw")? {
            Some(Bytes::from(text))
        } else if let Some(text) = fields.maybe::<String>("raw_base64")? {
            Some(Bytes::from(BASE64.decode(text).map_err(|_| DecodeError::new("is not base64").within("raw_base64"))?))
        } else {
            None
        };
        Ok(Self { format, line, raw, extra: fields.rest()? })
    }
}

serde_by_codec!(ImportOrigin);

/// The body of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nearly all bodies are messages, and each of them would need a box")]
pub enum Body {
    /// A message.
    Message(Message),
    /// A summary that replaces part of the path in the context. Nothing is deleted.
    Compaction(Compaction),
    /// A checkpoint: a numbered point on a path. A checkpoint with a name is a snapshot.
    Checkpoint(Checkpoint),
    /// A usage record: token counts, context size and cost. A side entry by default.
    Usage(UsageRecord),
    /// A label, which gives another entry a name. A side entry by default.
    Label(Label),
    /// A rewind, which moves the head. Always a side entry.
    Rewind(Rewind),
    /// Any other data. Never sent to a model.
    Custom(Custom),
    /// A decision on a [`Ticket`](crate::Ticket) of a waiting run. Never sent to a model.
    Decision(Decision),
    /// A kind that this release does not know. It is kept unchanged (ID-11) and never sent to a model.
    Unknown {
        /// The name of the kind.
        kind: String,
        /// The data of the body.
        data: Json,
    },
}

/// The kinds of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BodyKind {
    /// A message.
    Message,
    /// A compaction.
    Compaction,
    /// A checkpoint.
    Checkpoint,
    /// A usage record.
    Usage,
    /// A label.
    Label,
    /// A rewind.
    Rewind,
    /// Data of the application.
    Custom,
    /// A decision on a ticket.
    Decision,
    /// A kind of a newer release.
    Unknown,
}

named_enum!(BodyKind as "body kind" {
    Message = "message",
    Compaction = "compaction",
    Checkpoint = "checkpoint",
    Usage = "usage",
    Label = "label",
    Rewind = "rewind",
    Custom = "custom",
    Decision = "decision",
    Unknown = "unknown",
});

impl Body {
    /// Returns the kind of the body.
    #[must_use]
    pub const fn kind(&self) -> BodyKind {
        match self {
            Self::Message(_) => BodyKind::Message,
            Self::Compaction(_) => BodyKind::Compaction,
            Self::Checkpoint(_) => BodyKind::Checkpoint,
            Self::Usage(_) => BodyKind::Usage,
            Self::Label(_) => BodyKind::Label,
            Self::Rewind(_) => BodyKind::Rewind,
            Self::Custom(_) => BodyKind::Custom,
            Self::Decision(_) => BodyKind::Decision,
            Self::Unknown { .. } => BodyKind::Unknown,
        }
    }

    /// Returns the provider and model that a message came from.
    ///
    /// For a compaction, they are those of the last message in its replacement that names them.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Message(message) => message.origin(),
            Self::Compaction(compaction) => compaction.replacement.iter().flatten().rev().find_map(Message::origin),
            _ => None,
        }
    }
}

/// Written as `{"<kind>": …}`.
impl Codec for Body {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        match self {
            Self::Message(body) => object.field("message", body),
            Self::Compaction(body) => object.field("compaction", body),
            Self::Checkpoint(body) => object.field("checkpoint", body),
            Self::Usage(body) => object.field("usage", body),
            Self::Label(body) => object.field("label", body),
            Self::Rewind(body) => object.field("rewind", body),
            Self::Custom(body) => object.field("custom", body),
            Self::Decision(body) => object.field("decision", body),
            Self::Unknown { kind, data } => object.field(kind, data),
        };
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let name = fields.first().ok_or_else(|| DecodeError::new("is an empty body"))?.0.to_owned();
        Ok(match name.as_str() {
            "message" => Self::Message(fields.take(&name)?),
            "compaction" => Self::Compaction(fields.take(&name)?),
            "checkpoint" => Self::Checkpoint(fields.take(&name)?),
            "usage" => Self::Usage(fields.take(&name)?),
            "label" => Self::Label(fields.take(&name)?),
            "rewind" => Self::Rewind(fields.take(&name)?),
            "custom" => Self::Custom(fields.take(&name)?),
            "decision" => Self::Decision(fields.take(&name)?),
            _ => Self::Unknown { data: fields.take(&name)?, kind: name },
        })
    }
}

serde_by_codec!(Body);

/// An interval of entries on one path, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interval {
    /// The first entry.
    pub from: EntryId,
    /// The last entry. It is not before the first.
    pub to: EntryId,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Interval { from: req, to: req });

impl Interval {
    /// Creates the interval from `from` to `to`.
    #[must_use]
    pub fn new(from: EntryId, to: EntryId) -> Self {
        Self { from, to, extra: Extra::default() }
    }
}

/// A summary that replaces part of the path in the context.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Compaction {
    /// The interval that the summary replaces. If absent, the summary replaces nothing, and the context contains it
    /// before the first message.
    pub covers: Option<Interval>,
    /// The summary.
    pub summary: Vec<Block>,
    /// Messages that the context contains instead of the summary, if given.
    pub replacement: Option<Vec<Message>>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Compaction { covers: opt, summary: def, replacement: opt });

/// A numbered point on a path, to which the head can be rewound.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The number (EN-21).
    pub number: u64,
    /// The name. A checkpoint that has a name is a snapshot.
    /// [`LogReader::list_snapshots`](super::LogReader::list_snapshots) lists it, and a rewind can find it by this name.
    pub label: Option<String>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Checkpoint { number: req, label: opt });

impl Checkpoint {
    /// Creates the checkpoint `number`.
    #[must_use]
    pub fn new(number: u64, label: Option<String>) -> Self {
        Self { number, label, extra: Extra::default() }
    }
}

/// A usage record: token counts, context size and cost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UsageRecord {
    /// Token counts that are summed per thread and run (EN-26).
    pub spent: Option<TokenCounts>,
    /// The latest known size of the context in tokens. It is never summed (EN-29).
    pub context_size: Option<u64>,
    /// The cost. It is kept and never summed.
    pub cost: Option<Json>,
    /// The model.
    pub model: Option<String>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(UsageRecord { spent: opt, context_size: opt, cost: opt, model: opt });

/// A name for another entry.
///
/// If several labels have the same target, the newest one applies (EN-25).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Label {
    /// The entry that gets the name.
    pub target: EntryId,
    /// The name. If absent, the label removes the name.
    pub text: Option<String>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Label { target: req, text: opt });

impl Label {
    /// Creates a label that gives `target` the name `text`.
    #[must_use]
    pub fn new(target: EntryId, text: Option<String>) -> Self {
        Self { target, text, extra: Extra::default() }
    }
}

/// A move of the head (EN-7).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Rewind {
    /// The new head. If absent, the head is before the first entry.
    pub to: Option<EntryId>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Rewind { to: opt });

/// Data of the application.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Custom {
    /// The kind of the data. The application chooses the word.
    pub kind: String,
    /// The data.
    pub data: Json,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Custom { kind: req, data: req });

impl Custom {
    /// Creates a body with `data` of this kind.
    #[must_use]
    pub fn new(kind: impl Into<String>, data: Json) -> Self {
        Self { kind: kind.into(), data, extra: Extra::default() }
    }
}

/// A decision on a [`Ticket`](crate::Ticket): the answer to what a waiting run asks (RU-16).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// The waiting run.
    pub run: RunId,
    /// The id of the ticket.
    pub ticket: String,
    /// The action that was decided.
    pub action: DecisionAction,
    /// The result that the run continues with.
    pub result: Option<Json>,
    /// The reason, as text for people.
    pub reason: Option<String>,
    /// Unknown fields that a newer release wrote, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(Decision { run: req, ticket: req, action: req, result: opt, reason: opt });

impl Decision {
    /// Creates a decision for this action on a ticket of a run.
    #[must_use]
    pub fn new(run: RunId, ticket: impl Into<String>, action: DecisionAction) -> Self {
        Self { run, ticket: ticket.into(), action, result: None, reason: None, extra: Extra::default() }
    }

    /// Sets the result.
    #[must_use]
    pub fn with_result(mut self, result: Json) -> Self {
        self.result = Some(result);
        self
    }

    /// Sets the reason.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// The actions that a decision on a ticket can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecisionAction {
    /// The run continues, and does what the ticket asks about.
    Resume,
    /// The run continues, but does not do what the ticket asks about.
    Cancel,
}

named_enum!(DecisionAction as "decision" { Resume = "resume", Cancel = "cancel", });

#[cfg(test)]
mod tests {
    use super::Entry;
    use crate::codec::Codec;

    #[test]
    fn an_entry_of_a_newer_release_round_trips() {
        for raw in [
            r#"{"seq":1,"id":"a","timestamp":5,"body":{"message":{"role":"user","blocks":[{"text":"hi"}]}}}"#,
            r#"{"seq":2,"id":"b","parent":"a","side":true,"timestamp":5,"run":"r","step":3,"body":{"usage":{"spent":{"input":3,"later":1},"cost":0.10}},"new":{"x":1.0}}"#,
            r#"{"seq":3,"id":"c","timestamp":5,"origin":{"format":"pi-v3","line":3,"raw_base64":"/w=="},"body":{"hologram":[1.50]}}"#,
            r#"{"seq":4,"id":"d","timestamp":5,"origin":{"format":"pi-v3","line":3,"raw":"{\"a\": 1}"},"body":{"rewind":{}}}"#,
        ] {
            assert_eq!(Entry::read(raw).unwrap().encode(), raw);
        }
    }
}
