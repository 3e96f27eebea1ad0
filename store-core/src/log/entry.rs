//! Entries: what a thread's log is made of.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;

use super::{Block, Message, Origin, TokenCounts};
use crate::{
    codec::{Codec, DecodeError, Extra, Fields, Object, names, record, serde_by_codec},
    id::{EntryId, RunId},
    json::Json,
    time::Timestamp,
};

/// An entry of a thread's log, as it is stored. Once committed it never changes (EN-2).
///
/// Cheap to clone: the body is shared.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// Unique in the thread.
    pub id: EntryId,
    /// The position in the log, from 1, without a gap (EN-1).
    pub seq: u64,
    /// The entry that it hangs below; absent for a root.
    pub parent: Option<EntryId>,
    /// Whether it hangs below its parent but lies on no path (EN-6).
    pub side: bool,
    /// When it happened: as given, or store time.
    pub timestamp: Timestamp,
    /// The run that produced it.
    pub run: Option<RunId>,
    /// The step of the run that produced it.
    pub step: Option<u32>,
    /// Where it was imported from.
    pub origin: Option<ImportOrigin>,
    /// What it holds.
    pub body: Arc<Body>,
    /// Fields of a newer release.
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
    /// The message, if this is one.
    #[must_use]
    pub fn message(&self) -> Option<&Message> {
        match &*self.body {
            Body::Message(message) => Some(message),
            _ => None,
        }
    }

    /// The kind of the body.
    #[must_use]
    pub fn kind(&self) -> BodyKind {
        self.body.kind()
    }
}

/// Where an entry was imported from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportOrigin {
    /// The format, as `pi-v3`.
    pub format: String,
    /// The line of the source, from 1; 0 for an entry that no line stands for.
    pub line: u64,
    /// The bytes of the line, where the typed form does not reproduce them. Without the line's end.
    pub raw: Option<Bytes>,
    /// Fields of a newer release.
    pub extra: Extra,
}

impl ImportOrigin {
    /// Line `line` of a file of this format.
    #[must_use]
    pub fn new(format: impl Into<String>, line: u64) -> Self {
        Self { format: format.into(), line, raw: None, extra: Extra::default() }
    }

    /// The same with the bytes of the line.
    #[must_use]
    pub fn with_raw(mut self, raw: Bytes) -> Self {
        self.raw = Some(raw);
        self
    }
}

/// Raw bytes stand as text where they are UTF-8, else as base64.
impl Codec for ImportOrigin {
    fn write(&self, out: &mut String) {
        let mut object = Object::open(out);
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
            Some(Bytes::from(BASE64.decode(text).map_err(|_| DecodeError::new("is no base64").within("raw_base64"))?))
        } else {
            None
        };
        Ok(Self { format, line, raw, extra: fields.rest()? })
    }
}

serde_by_codec!(ImportOrigin);

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "nearly all are messages, and a box would cost each of them")]
pub enum Body {
    /// A message.
    Message(Message),
    /// A summary that stands for part of the path; nothing is deleted.
    Compaction(Compaction),
    /// A numbered point of the path; a labelled one is a snapshot.
    Checkpoint(Checkpoint),
    /// What was spent; beside the path by default.
    Usage(UsageRecord),
    /// A name for another entry; beside the path by default.
    Label(Label),
    /// Moves the head; always beside the path.
    Rewind(Rewind),
    /// Anything else; never sent to a model.
    Custom(Custom),
    /// What somebody decided about a ticket of a waiting run; never sent to a model.
    Decision(Decision),
    /// A kind that this release does not know: kept as it is (ID-11), never sent to a model.
    Unknown {
        /// The name of the kind.
        kind: String,
        /// Its data.
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
    /// Anything of the application.
    Custom,
    /// A decision on a ticket.
    Decision,
    /// A kind of a newer release.
    Unknown,
}

names!(BodyKind as "body kind" {
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
    /// The kind.
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

    /// The provider and model that a message came from, or the last message of a compaction's replacement.
    pub(crate) fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Message(message) => message.origin(),
            Self::Compaction(compaction) => compaction.replacement.iter().flatten().rev().find_map(Message::origin),
            _ => None,
        }
    }
}

/// `{"<kind>": …}`.
impl Codec for Body {
    fn write(&self, out: &mut String) {
        let mut object = Object::open(out);
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

/// Two entries of one path and what lies between them, both included.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interval {
    /// The first entry.
    pub from: EntryId,
    /// The last entry, not before the first.
    pub to: EntryId,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Interval { from: req, to: req });

impl Interval {
    /// From `from` to `to`.
    #[must_use]
    pub fn new(from: EntryId, to: EntryId) -> Self {
        Self { from, to, extra: Extra::default() }
    }
}

/// A summary that stands for part of the path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Compaction {
    /// What it stands for; without it the summary stands before the first message.
    pub covers: Option<Interval>,
    /// The summary.
    pub summary: Vec<Block>,
    /// What stands there instead of the summary, if given.
    pub replacement: Option<Vec<Message>>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Compaction { covers: opt, summary: def, replacement: opt });

/// A numbered point of the path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The number (EN-21).
    pub number: u64,
    /// The name that makes it a snapshot.
    pub label: Option<String>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Checkpoint { number: req, label: opt });

impl Checkpoint {
    /// Checkpoint `number`.
    #[must_use]
    pub fn new(number: u64, label: Option<String>) -> Self {
        Self { number, label, extra: Extra::default() }
    }
}

/// What was spent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct UsageRecord {
    /// Counts that are summed per thread and run (EN-26).
    pub spent: Option<TokenCounts>,
    /// How many tokens the context had at last; never summed (EN-29).
    pub context_size: Option<u64>,
    /// The cost, kept and never summed.
    pub cost: Option<Json>,
    /// The model.
    pub model: Option<String>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(UsageRecord { spent: opt, context_size: opt, cost: opt, model: opt });

/// A name for another entry; the newest of a target counts (EN-25).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Label {
    /// The entry that is named.
    pub target: EntryId,
    /// The name; none clears it.
    pub text: Option<String>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Label { target: req, text: opt });

impl Label {
    /// The name `text` for `target`.
    #[must_use]
    pub fn new(target: EntryId, text: Option<String>) -> Self {
        Self { target, text, extra: Extra::default() }
    }
}

/// Moves the head (EN-7).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Rewind {
    /// The new head; absent: before the first entry.
    pub to: Option<EntryId>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Rewind { to: opt });

/// Anything of the application.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Custom {
    /// What it is; the application's own word.
    pub kind: String,
    /// The data.
    pub data: Json,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Custom { kind: req, data: req });

impl Custom {
    /// `data` of this kind.
    #[must_use]
    pub fn new(kind: impl Into<String>, data: Json) -> Self {
        Self { kind: kind.into(), data, extra: Extra::default() }
    }
}

/// What somebody decided about a ticket of a waiting run (RU-16).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// The run that waits.
    pub run: RunId,
    /// The ticket, by its id.
    pub ticket: String,
    /// What is to be done.
    pub action: DecisionAction,
    /// What the run goes on with.
    pub result: Option<Json>,
    /// Words for people.
    pub reason: Option<String>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Decision { run: req, ticket: req, action: req, result: opt, reason: opt });

impl Decision {
    /// This action for the ticket of a run.
    #[must_use]
    pub fn new(run: RunId, ticket: impl Into<String>, action: DecisionAction) -> Self {
        Self { run, ticket: ticket.into(), action, result: None, reason: None, extra: Extra::default() }
    }

    /// The same with this result.
    #[must_use]
    pub fn with_result(mut self, result: Json) -> Self {
        self.result = Some(result);
        self
    }

    /// The same with this reason.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }
}

/// What is to be done about a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecisionAction {
    /// The run goes on with what the ticket is about.
    Resume,
    /// It goes on without.
    Cancel,
}

names!(DecisionAction as "decision" { Resume = "resume", Cancel = "cancel", });

#[cfg(test)]
mod tests {
    use super::Entry;
    use crate::codec::Codec;

    #[test]
    fn an_entry_of_a_newer_release_comes_back_as_it_was() {
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
