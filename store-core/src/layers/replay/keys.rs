//! The topics and documents in which the replay log is kept.

use super::record::{ReplayStreamRef, StoredExpiry, StoredReplay, unreadable};
use crate::{
    document::{Document, DocumentChange, DocumentExpect, DocumentKey, DocumentQuery, DocumentRef, KeySegment},
    error::Result,
    event::Scope,
    id::{CollectionId, EventKind, ThreadId, WireEventId, WireProtocol, WireProtocolVersion},
    layers::{escape_part, topic_of},
    time::Timestamp,
};

// The collections, with what their keys consist of. The names are stored and never change.

/// Protocol, version, wire id: the bytes of a record.
const RECORDS: &str = "layer.replay.records";
/// Time, protocol, version, wire id: the records that expire, in the order of the times.
const EXPIRY: &str = "layer.replay.expiry";

/// Returns the kind of the event of a record.
pub(super) fn event_kind() -> Result<EventKind> {
    EventKind::new("replay.record")
}

impl ReplayStreamRef {
    /// Returns the topic of the stream.
    pub(super) fn scope(&self) -> Result<Scope> {
        let parts = [self.protocol().as_str(), self.version().as_str(), self.stream().as_str()];
        topic_of("layer.replay", &parts.map(escape_part).join("/")).map(Scope::Topic)
    }

    fn segments(&self, wire_id: &WireEventId) -> Result<[KeySegment; 3]> {
        Ok([KeySegment::id(self.protocol())?, KeySegment::id(self.version())?, KeySegment::id(wire_id)?])
    }

    /// Names the document of a record. It does not depend on the id of the stream, so a wire id is unique (RP-3).
    pub(super) fn document(&self, wire_id: &WireEventId) -> Result<DocumentRef> {
        Ok(DocumentKey::new(CollectionId::new(RECORDS)?, self.segments(wire_id)?)?.into())
    }

    /// Names the document with which a purge finds the record.
    pub(super) fn expiry_document(&self, wire_id: &WireEventId, time: Timestamp) -> Result<DocumentRef> {
        let segments = [KeySegment::Number(time.as_millis())].into_iter().chain(self.segments(wire_id)?);
        Ok(DocumentKey::new(CollectionId::new(EXPIRY)?, segments)?.into())
    }
}

/// Returns the query for the records that have expired by a time, oldest expiry first.
pub(super) fn expired_by(now: Timestamp) -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(EXPIRY)?).before([KeySegment::Number(now.as_millis() + 1)]))
}

/// Returns the query for all records.
pub(super) fn records() -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(RECORDS)?))
}

/// Returns the query for the records of a version of a protocol, of all its streams.
pub(super) fn records_of(stream: &ReplayStreamRef) -> Result<DocumentQuery> {
    Ok(records()?.starting_with([KeySegment::id(stream.protocol())?, KeySegment::id(stream.version())?]))
}

/// Returns the query for all records that expire.
pub(super) fn all_expiring() -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(EXPIRY)?))
}

/// Returns the stream of a document of either collection.
pub(super) fn stream_of(document: &Document) -> Result<ReplayStreamRef> {
    let segments = document.key.segments();
    let (segments, stream) = match segments.as_slice() {
        [KeySegment::Number(_), rest @ ..] => (rest, StoredExpiry::from_document(document)?.stream),
        all => (all, StoredReplay::from_document(document)?.stream),
    };
    let [KeySegment::Id(protocol), KeySegment::Id(version), KeySegment::Id(_)] = segments else {
        return Err(unreadable(document));
    };
    ReplayStreamRef::new(stream, WireProtocol::new(protocol)?, WireProtocolVersion::new(version)?)
}

/// Returns a change that changes nothing, and is refused if the thread does not exist (TH-32).
pub(super) fn check_of_thread(thread: &ThreadId) -> Result<DocumentChange> {
    let key = DocumentKey::new(CollectionId::new(RECORDS)?, [KeySegment::Number(0)])?;
    Ok(DocumentChange::check(key.in_thread(thread.clone()), DocumentExpect::Any))
}

/// A record that expires, as a purge finds it.
pub(super) struct ExpiringRecord {
    pub(super) stream: ReplayStreamRef,
    pub(super) wire_id: WireEventId,
    pub(super) document: DocumentRef,
    pub(super) revision: u64,
    pub(super) stored: StoredExpiry,
}

impl ExpiringRecord {
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        let segments = document.key.segments();
        let [KeySegment::Number(_), KeySegment::Id(protocol), KeySegment::Id(version), KeySegment::Id(wire_id)] =
            segments.as_slice()
        else {
            return Err(unreadable(document));
        };
        let stored = StoredExpiry::from_document(document)?;
        let (protocol, version) = (WireProtocol::new(protocol)?, WireProtocolVersion::new(version)?);
        Ok(Self {
            stream: ReplayStreamRef::new(stored.stream.clone(), protocol, version)?,
            wire_id: WireEventId::new(wire_id)?,
            document: document.key.clone().into(),
            revision: document.revision,
            stored,
        })
    }
}
