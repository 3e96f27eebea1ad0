//! The data of each kind of error, and its message.

use std::{borrow::Cow, fmt};

use serde::ser::SerializeMap;

use super::ErrorKind;
use crate::{
    document::{DocumentExpect, DocumentRef},
    id::CommitKey,
    layers,
    time::Timestamp,
    version::Version,
};

/// The type and id of the record that an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The type of the record: `thread`, `run`.
    pub noun: Cow<'static, str>,
    /// The id of the record.
    pub id: String,
}

impl Subject {
    /// Makes the subject for the record of type `noun` with this id.
    #[must_use]
    pub fn new(noun: impl Into<Cow<'static, str>>, id: impl AsRef<str>) -> Self {
        Self { noun: noun.into(), id: id.as_ref().to_owned() }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.noun, Quoted(&self.id))
    }
}

/// A value in backticks. A value of more than 64 bytes is cut (ER-6).
pub(crate) struct Quoted<'a>(pub(crate) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MAX: usize = 64;
        if self.0.len() <= MAX {
            return write!(f, "`{}`", self.0);
        }
        let end = (0..=MAX - '…'.len_utf8()).rev().find(|&end| self.0.is_char_boundary(end)).unwrap_or(0);
        write!(f, "`{}…`", self.0.get(..end).unwrap_or_default())
    }
}

/// Displays a version, or `none`.
struct OptionalVersion<'a>(&'a Option<Version>);

impl fmt::Display for OptionalVersion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(version) => version.fmt(f),
            None => f.write_str("none"),
        }
    }
}

/// Displays what a document contains: the record of a layer, by its name, or a document of the application.
struct DocumentName<'a>(&'a DocumentRef);

impl fmt::Display for DocumentName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match layers::record_in(self.0) {
            Some(record) => record.fmt(f),
            None => write!(f, "document {}", Quoted(&self.0.to_string())),
        }
    }
}

/// Displays the number of a snapshot, or `none` for 0.
struct SnapshotNumber<'a>(&'a u64);

impl fmt::Display for SnapshotNumber<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self.0 == 0 { f.write_str("none") } else { self.0.fmt(f) }
    }
}

/// Displays what was found instead of the expected document.
struct FoundDocument<'a>(&'a Option<u64>);

impl fmt::Display for FoundDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(revision) => write!(f, "revision {revision}"),
            None => f.write_str("none"),
        }
    }
}

/// Displays what to do after an unknown outcome.
struct RepeatAdvice<'a>(&'a Option<CommitKey>);

impl fmt::Display for RepeatAdvice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, "repeat it with its key {}", Quoted(key.as_str())),
            None => f.write_str("read the store before you repeat it"),
        }
    }
}

/// Why a store is not available. The cause decides which advice a user gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnavailableCause {
    /// The server cannot be reached, is busy, or refuses the connection.
    Server,
    /// Another process has the store open, and only one process at a time may open it.
    Held,
    /// A write buffer is attached to the store, and the store was opened without it.
    Buffered,
    /// Another cause, which is stated in the reason.
    Other,
}

impl UnavailableCause {
    /// Returns the name in JSON documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Held => "held",
            Self::Buffered => "buffered",
            Self::Other => "other",
        }
    }
}

/// What to do about a store whose schema this release cannot use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaRemedy {
    /// The store has no schema yet: a write creates it.
    Create,
    /// A migration creates or updates the schema.
    Migrate,
    /// Only another release can read the schema, or no release of agentstore can.
    Release,
}

impl SchemaRemedy {
    /// Returns the name in JSON documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            // The variant was once called `Make`. Programs read the JSON, so this name stays.
            Self::Create => "make",
            Self::Migrate => "migrate",
            Self::Release => "release",
        }
    }
}

/// Formats the message for an id or a key that is in use.
struct AlreadyExistsMessage<'a>(&'a Subject, &'a Option<String>);

impl fmt::Display for AlreadyExistsMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(key) => write!(f, "key {} is already used by {}", Quoted(key), self.0),
            None => write!(f, "{} already exists", self.0),
        }
    }
}

/// A kind of error with its data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the kinds are described at `ErrorKind`, and the fields are named as in the contract")]
pub enum Detail {
    #[error("invalid {what}: {reason}")]
    Invalid { what: String, reason: String },
    #[error("{actual} exceeds the limit of {max} for {limit}")]
    LimitExceeded { limit: &'static str, max: u64, actual: u64 },
    #[error("{what} does not exist")]
    NotFound { what: Subject },
    #[error("{}", AlreadyExistsMessage(what, key))]
    AlreadyExists { what: Subject, key: Option<String> },
    #[error("conflict in {what}: expected {}, but found {}", OptionalVersion(expected), OptionalVersion(actual))]
    Conflict { what: &'static str, expected: Option<Version>, actual: Option<Version> },
    #[error("conflict in {}: expected {expected}, but found {}", DocumentName(document), FoundDocument(actual))]
    DocumentConflict { document: Box<DocumentRef>, expected: DocumentExpect, actual: Option<u64> },
    #[error(
        "conflict in the latest snapshot: expected {}, but found {}",
        SnapshotNumber(expected),
        SnapshotNumber(actual)
    )]
    SnapshotConflict { expected: u64, actual: u64 },
    #[error("{what} cannot go from {from} to {to}")]
    InvalidTransition { what: Subject, from: String, to: String },
    #[error("the thread has {count} children")]
    HasChildren { count: u64 },
    #[error("key {} was already used with different content", Quoted(key))]
    IdempotencyMismatch { key: String },
    #[error("pending input {} is already in the log", Quoted(id))]
    AlreadyConsumed { id: String },
    #[error("the claim on {what} {} is lost", Quoted(id))]
    ClaimLost { what: &'static str, id: String },
    #[error("the claim is stale: made under {expected}, but {actual} is current")]
    StaleEpoch { expected: String, actual: String },
    #[error("invalid cursor: {reason}")]
    InvalidCursor { reason: &'static str },
    #[error("events after the position of the cursor were trimmed; continue after {floor}")]
    CursorExpired { floor: u64 },
    #[error("{operation} is not supported by this store")]
    Unsupported { operation: &'static str },
    #[error("the store is not available: {reason}")]
    Unavailable { reason: String, cause: UnavailableCause },
    #[error("the store is closed")]
    Closed,
    #[error("the commit may or may not have been applied; {}", RepeatAdvice(key))]
    CommitUnknown { key: Option<CommitKey> },
    #[error("no space left on the device")]
    StorageFull,
    #[error("{what} has accepted no writes since a failure at {since}; open it again")]
    Poisoned { what: String, since: Timestamp },
    #[error("{what} accepts no writes: write {sequence} is in quarantine, because the inner store refused it")]
    Quarantined { what: Subject, sequence: u64 },
    #[error("stored data is damaged: {location}")]
    Corrupt { location: String },
    #[error("unsupported schema: found {found}, but this release reads {supported}")]
    SchemaMismatch { found: String, supported: String, remedy: SchemaRemedy },
    #[error("{setting} may lose acknowledged data; allow it with {option}")]
    UnsafeDurability { setting: String, option: String },
}

impl Detail {
    pub(super) const fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid { .. } => ErrorKind::Invalid,
            Self::LimitExceeded { .. } => ErrorKind::LimitExceeded,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::AlreadyExists { .. } => ErrorKind::AlreadyExists,
            Self::Conflict { .. } | Self::DocumentConflict { .. } | Self::SnapshotConflict { .. } => {
                ErrorKind::Conflict
            }
            Self::InvalidTransition { .. } => ErrorKind::InvalidTransition,
            Self::HasChildren { .. } => ErrorKind::HasChildren,
            Self::IdempotencyMismatch { .. } => ErrorKind::IdempotencyMismatch,
            Self::AlreadyConsumed { .. } => ErrorKind::AlreadyConsumed,
            Self::ClaimLost { .. } => ErrorKind::ClaimLost,
            Self::StaleEpoch { .. } => ErrorKind::StaleEpoch,
            Self::InvalidCursor { .. } => ErrorKind::InvalidCursor,
            Self::CursorExpired { .. } => ErrorKind::CursorExpired,
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Unavailable { .. } => ErrorKind::Unavailable,
            Self::Closed => ErrorKind::Closed,
            Self::CommitUnknown { .. } => ErrorKind::CommitUnknown,
            Self::StorageFull => ErrorKind::StorageFull,
            Self::Poisoned { .. } => ErrorKind::Poisoned,
            Self::Quarantined { .. } => ErrorKind::Quarantined,
            Self::Corrupt { .. } => ErrorKind::Corrupt,
            Self::SchemaMismatch { .. } => ErrorKind::SchemaMismatch,
            Self::UnsafeDurability { .. } => ErrorKind::UnsafeDurability,
        }
    }

    /// Writes the fields of the kind into the JSON document of the error.
    pub(super) fn write_fields<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Invalid { what, reason } => write_two_fields(map, ("what", what), ("reason", reason)),
            Self::LimitExceeded { limit, max, actual } => {
                map.serialize_entry("limit", limit)?;
                write_two_fields(map, ("max", max), ("actual", actual))
            }
            Self::NotFound { what } | Self::AlreadyExists { what, key: None } => {
                write_two_fields(map, ("what", &what.noun), ("id", &what.id))
            }
            Self::AlreadyExists { what, key: Some(key) } => {
                write_two_fields(map, ("what", &what.noun), ("id", &what.id))?;
                map.serialize_entry("key", key)
            }
            Self::Conflict { what, expected, actual } => {
                map.serialize_entry("what", what)?;
                write_two_fields(map, ("expected", expected), ("actual", actual))
            }
            Self::DocumentConflict { document, expected, actual } => {
                match layers::record_in(document) {
                    Some(record) => write_two_fields(map, ("what", &record.noun), ("id", &record.id))?,
                    None => map.serialize_entry("what", "document")?,
                }
                map.serialize_entry("document", document)?;
                write_two_fields(map, ("expected", expected), ("actual", actual))
            }
            Self::SnapshotConflict { expected, actual } => {
                map.serialize_entry("what", "the latest snapshot")?;
                write_two_fields(map, ("expected", expected), ("actual", actual))
            }
            Self::InvalidTransition { what, from, to } => {
                write_two_fields(map, ("what", &what.noun), ("id", &what.id))?;
                write_two_fields(map, ("from", from), ("to", to))
            }
            Self::HasChildren { count } => map.serialize_entry("count", count),
            Self::IdempotencyMismatch { key } => map.serialize_entry("key", key),
            Self::AlreadyConsumed { id } => map.serialize_entry("id", id),
            Self::ClaimLost { what, id } => write_two_fields(map, ("what", what), ("id", id)),
            Self::StaleEpoch { expected, actual } => write_two_fields(map, ("expected", expected), ("actual", actual)),
            Self::InvalidCursor { reason } => map.serialize_entry("reason", reason),
            Self::CursorExpired { floor } => map.serialize_entry("floor", floor),
            Self::Unsupported { operation } => map.serialize_entry("operation", operation),
            Self::Unavailable { reason, cause } => write_two_fields(map, ("reason", reason), ("cause", cause.name())),
            Self::CommitUnknown { key } => map.serialize_entry("key", key),
            Self::Poisoned { what, since } => write_two_fields(map, ("what", what), ("since", since)),
            Self::Quarantined { what, sequence } => {
                write_two_fields(map, ("what", &what.noun), ("id", &what.id))?;
                map.serialize_entry("sequence", sequence)
            }
            Self::Corrupt { location } => map.serialize_entry("location", location),
            Self::SchemaMismatch { found, supported, remedy } => {
                write_two_fields(map, ("found", found), ("supported", supported))?;
                // The field of the JSON document keeps its first name, because programs read it.
                map.serialize_entry("mend", remedy.name())
            }
            Self::UnsafeDurability { setting, option } => {
                write_two_fields(map, ("setting", setting), ("option", option))
            }
            Self::Closed | Self::StorageFull => Ok(()),
        }
    }
}

fn write_two_fields<M, A, B>(map: &mut M, first: (&str, &A), second: (&str, &B)) -> Result<(), M::Error>
where
    M: SerializeMap,
    A: serde::Serialize + ?Sized,
    B: serde::Serialize + ?Sized,
{
    map.serialize_entry(first.0, first.1)?;
    map.serialize_entry(second.0, second.1)
}
