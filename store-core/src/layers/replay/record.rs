//! Replay streams and their records, as writers pass them, as readers see them, and as they are stored.

use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde::Serialize;

use crate::{
    codec::{Codec, DecodeError, Extra, record},
    document::Document,
    error::{Error, Result},
    event::Event,
    id::{EventId, ProjectorVersion, ReplayStreamId, WireEventId, WireEventType, WireProtocol, WireProtocolVersion},
    json::Json,
    layers::encoded,
    limits::{check_limit, length},
    page::{Cursor, Position},
    time::Timestamp,
};

/// The maximum length of the name of a wire protocol, and of its version, in bytes. With it, the key of every document
/// of the replay log fits, whatever the ids.
pub const MAX_PROTOCOL_BYTES: usize = 64;

/// Names a replay stream: its id, the wire protocol and the version of the protocol. Two versions of a protocol are two
/// streams (RP-1).
///
/// ```
/// use store_core::ReplayStreamRef;
///
/// let stream = ReplayStreamRef::new("run-1".parse()?, "ag-ui".parse()?, "1".parse()?)?;
/// assert_eq!(stream.to_string(), "ag-ui/1/run-1");
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ReplayStreamRef {
    stream: ReplayStreamId,
    protocol: WireProtocol,
    version: WireProtocolVersion,
}

impl ReplayStreamRef {
    /// Names a stream.
    ///
    /// # Errors
    /// `LimitExceeded` for a name or a version of a protocol of more than [`MAX_PROTOCOL_BYTES`].
    pub fn new(stream: ReplayStreamId, protocol: WireProtocol, version: WireProtocolVersion) -> Result<Self> {
        for text in [protocol.as_str(), version.as_str()] {
            check_limit("bytes of a wire protocol or its version", length(text.len()), length(MAX_PROTOCOL_BYTES))?;
        }
        Ok(Self { stream, protocol, version })
    }

    /// Returns the id of the stream.
    #[must_use]
    pub const fn stream(&self) -> &ReplayStreamId {
        &self.stream
    }

    /// Returns the name of the protocol.
    #[must_use]
    pub const fn protocol(&self) -> &WireProtocol {
        &self.protocol
    }

    /// Returns the version of the protocol.
    #[must_use]
    pub const fn version(&self) -> &WireProtocolVersion {
        &self.version
    }
}

impl fmt::Display for ReplayStreamRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.protocol, self.version, self.stream)
    }
}

/// A stored event from which a record was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplaySource {
    /// The id of the event.
    pub id: EventId,
    /// The position of the event in the scope that the projector reads, from which it continues.
    pub cursor: Option<Cursor>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(ReplaySource { id: req, cursor: opt });

impl ReplaySource {
    /// Names an event.
    #[must_use]
    pub fn new(id: EventId) -> Self {
        Self { id, cursor: None, extra: Extra::default() }
    }

    /// Sets the position of the event in the scope that the projector reads.
    #[must_use]
    pub fn at(mut self, cursor: Cursor) -> Self {
        self.cursor = Some(cursor);
        self
    }
}

/// A record to be appended to a replay stream.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewReplay {
    /// The id on the wire, unique for the protocol and its version (RP-3).
    pub wire_id: WireEventId,
    /// The type on the wire.
    pub wire_type: WireEventType,
    /// What is sent, at least one byte.
    pub bytes: Vec<u8>,
    /// The version of the code that made the bytes.
    pub projector_version: Option<ProjectorVersion>,
    /// The stored events from which the bytes were made (RP-9).
    pub sources: Vec<ReplaySource>,
    /// From this time on, the record is not listed, and may be purged; absent if it stays (RP-5). A repeat may state
    /// another time.
    pub expires_at: Option<Timestamp>,
}

impl NewReplay {
    /// Makes a record that stays, without projector and sources.
    #[must_use]
    pub fn new(wire_id: WireEventId, wire_type: WireEventType, bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        Self { wire_id, wire_type, bytes, projector_version: None, sources: Vec::new(), expires_at: None }
    }

    /// Sets the version of the code that made the bytes.
    #[must_use]
    pub fn projected_by(mut self, version: ProjectorVersion) -> Self {
        self.projector_version = Some(version);
        self
    }

    /// Adds a stored event from which the bytes were made.
    #[must_use]
    pub fn from_source(mut self, source: ReplaySource) -> Self {
        self.sources.push(source);
        self
    }

    /// Sets the time of the expiry. The record is no longer listed when it has come.
    #[must_use]
    pub const fn expiring_at(mut self, time: Timestamp) -> Self {
        self.expires_at = Some(time);
        self
    }
}

/// Shows the number of bytes only, because the bytes may be what a user must not see.
impl fmt::Debug for NewReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wire_id, wire_type, bytes, projector_version, sources, expires_at } = self;
        f.debug_struct("NewReplay")
            .field("wire_id", wire_id)
            .field("wire_type", wire_type)
            .field("bytes", &bytes.len())
            .field("projector_version", projector_version)
            .field("sources", sources)
            .field("expires_at", expires_at)
            .finish()
    }
}

/// What a record contains.
#[derive(Clone, PartialEq, Eq)]
pub enum ReplayContent {
    /// The bytes, exactly as they were appended (RP-2).
    Bytes(Vec<u8>),
    /// The bytes were removed for good (RP-6).
    Redacted {
        /// Store time of the redaction.
        at: Timestamp,
    },
}

/// Shows the number of bytes only.
impl fmt::Debug for ReplayContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Redacted { at } => write!(f, "redacted at {at}"),
        }
    }
}

/// A record of a replay stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayRecord {
    /// The id, unique in the tenant; set by the store.
    pub id: EventId,
    /// The stream.
    pub stream: ReplayStreamRef,
    /// The number of the record in its stream, counted from 1 without gaps.
    pub sequence: u64,
    /// The position after the record, from which lists and subscriptions continue.
    pub cursor: Cursor,
    /// The id on the wire.
    pub wire_id: WireEventId,
    /// The type on the wire.
    pub wire_type: WireEventType,
    /// What was sent.
    pub content: ReplayContent,
    /// The version of the code that made the bytes.
    pub projector_version: Option<ProjectorVersion>,
    /// The stored events from which the bytes were made.
    pub sources: Vec<ReplaySource>,
    /// The time of the expiry. The record is no longer listed when it has come.
    pub expires_at: Option<Timestamp>,
    /// Store time of the append.
    pub created_at: Timestamp,
}

impl ReplayRecord {
    /// Returns the bytes; none if the record was redacted.
    #[must_use]
    pub fn bytes(&self) -> Option<&[u8]> {
        match &self.content {
            ReplayContent::Bytes(bytes) => Some(bytes),
            ReplayContent::Redacted { .. } => None,
        }
    }
}

/// What the event of a record contains: everything but the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReplayPayload {
    pub(super) stream: ReplayStreamId,
    pub(super) protocol: WireProtocol,
    pub(super) version: WireProtocolVersion,
    pub(super) wire_id: WireEventId,
    pub(super) wire_type: WireEventType,
    /// The number of bytes. A page ends before it has read too many.
    pub(super) size: u64,
    pub(super) projector: Option<ProjectorVersion>,
    pub(super) sources: Vec<ReplaySource>,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) extra: Extra,
}

record!(ReplayPayload {
    stream: req,
    protocol: req,
    version: req,
    wire_id: req,
    wire_type: req,
    size: req,
    projector: opt,
    sources: def,
    expires_at: opt,
});

/// What the document of a record contains: the bytes, and where the event of the record is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredReplay {
    pub(super) stream: ReplayStreamId,
    /// A position in the stream before the record; absent for the beginning.
    pub(super) after: Option<Cursor>,
    pub(super) expires_at: Option<Timestamp>,
    /// In base64; absent once the record is redacted.
    pub(super) bytes: Option<String>,
    pub(super) extra: Extra,
}

record!(StoredReplay { stream: req, after: opt, expires_at: opt, bytes: opt });

impl StoredReplay {
    pub(super) fn new(stream: &ReplayStreamRef, after: Option<Cursor>, new: &NewReplay) -> Self {
        let bytes = Some(BASE64.encode(&new.bytes));
        Self { stream: stream.stream.clone(), after, expires_at: new.expires_at, bytes, extra: Extra::default() }
    }

    pub(super) fn from_document(document: &Document) -> Result<Self> {
        Self::read(document.value.as_str()).map_err(|e| unreadable(document).with_source(e))
    }

    /// Returns the same without the bytes.
    pub(super) fn redacted(self) -> Self {
        Self { bytes: None, ..self }
    }

    pub(super) fn value(&self) -> Result<Json> {
        encoded(self)
    }

    /// Returns whether the document belongs to the record with this number in a stream. The document of a purged record
    /// may have been followed by that of a later record with the same wire id.
    pub(super) fn belongs_to(&self, stream: &ReplayStreamId, sequence: u64) -> bool {
        self.stream == *stream && sequence > self.after.as_ref().and_then(Position::unchecked_rank).unwrap_or_default()
    }

    /// Returns what the record contains.
    pub(super) fn content(&self, document: &Document) -> Result<ReplayContent> {
        let Some(text) = &self.bytes else { return Ok(ReplayContent::Redacted { at: document.updated_at }) };
        BASE64.decode(text).map(ReplayContent::Bytes).map_err(|_| unreadable(document))
    }
}

/// What the document that finds expired records contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredExpiry {
    pub(super) stream: ReplayStreamId,
    /// Whether a purge has removed the document of the record, and not yet its event.
    pub(super) removed: bool,
    pub(super) extra: Extra,
}

record!(StoredExpiry { stream: req, removed: def });

impl StoredExpiry {
    pub(super) fn of(stream: &ReplayStreamRef) -> Self {
        Self { stream: stream.stream.clone(), removed: false, extra: Extra::default() }
    }

    pub(super) fn from_document(document: &Document) -> Result<Self> {
        Self::read(document.value.as_str()).map_err(|e| unreadable(document).with_source(e))
    }
}

/// A record as its event describes it, without its content.
#[derive(Debug, Clone)]
pub(super) struct PlacedRecord {
    pub(super) id: EventId,
    pub(super) stream: ReplayStreamRef,
    pub(super) sequence: u64,
    pub(super) cursor: Cursor,
    pub(super) created_at: Timestamp,
    pub(super) payload: ReplayPayload,
}

impl PlacedRecord {
    /// Reads the record that an event describes.
    ///
    /// # Errors
    /// `Corrupt` if the event describes no record.
    pub(super) fn from_event(event: &Event) -> Result<Self> {
        let corrupt = || Error::corrupt(format!("event {}: it is no record of the replay log", event.id));
        let payload = || -> Result<ReplayPayload, DecodeError> {
            let payload = event.payload.as_ref().ok_or_else(|| DecodeError::new("is missing").within("payload"))?;
            ReplayPayload::read(payload.as_str())
        };
        let payload = payload().map_err(|e| corrupt().with_source(e))?;
        let stream = ReplayStreamRef::new(payload.stream.clone(), payload.protocol.clone(), payload.version.clone())?;
        let scope = stream.scope()?;
        let place = event.cursor(&scope).cloned().zip(event.number(&scope));
        let (cursor, sequence) = place.ok_or_else(corrupt)?;
        Ok(Self { id: event.id.clone(), stream, sequence, cursor, created_at: event.created_at, payload })
    }

    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.payload.expires_at.is_some_and(|time| time <= now)
    }

    /// Returns the record with its content.
    pub(super) fn with_content(self, content: ReplayContent) -> ReplayRecord {
        let Self { id, stream, sequence, cursor, created_at, payload } = self;
        let ReplayPayload { wire_id, wire_type, projector: projector_version, sources, expires_at, .. } = payload;
        ReplayRecord {
            id,
            stream,
            sequence,
            cursor,
            wire_id,
            wire_type,
            content,
            projector_version,
            sources,
            expires_at,
            created_at,
        }
    }
}

pub(super) fn unreadable(document: &Document) -> Error {
    Error::corrupt(format!("document {}: it is not what the replay log writes there", document.key))
}
