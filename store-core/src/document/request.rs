//! Changes of documents, as callers request them, and the result of a write.

use std::fmt;

use serde::Serialize;

use super::DocumentRef;
use crate::{
    claim::Fence,
    codec::{Codec, DecodeError, serde_by_codec},
    event::{AppendEvents, Event},
    id::ThreadId,
    json::Json,
    limits::length,
    time::Timestamp,
};

/// What a document must be like for a change to be made (DO-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DocumentExpect {
    /// Anything: the document may exist or not.
    #[default]
    Any,
    /// The document must not exist.
    Absent,
    /// The document must exist.
    Present,
    /// The document must exist, with this revision.
    Revision(u64),
}

impl DocumentExpect {
    /// Returns whether a document with this revision, or its absence, is as expected.
    #[must_use]
    pub fn holds(self, revision: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => revision.is_none(),
            Self::Present => revision.is_some(),
            Self::Revision(expected) => revision == Some(expected),
        }
    }
}

impl fmt::Display for DocumentExpect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::Absent => f.write_str("none"),
            Self::Present => f.write_str("any revision"),
            Self::Revision(revision) => write!(f, "revision {revision}"),
        }
    }
}

/// Written as `any`, `absent`, `present`, or the number of the revision.
impl Codec for DocumentExpect {
    fn write(&self, out: &mut String) {
        match self {
            Self::Any => out.push_str("\"any\""),
            Self::Absent => out.push_str("\"absent\""),
            Self::Present => out.push_str("\"present\""),
            Self::Revision(revision) => revision.write(out),
        }
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        match raw {
            "\"any\"" => Ok(Self::Any),
            "\"absent\"" => Ok(Self::Absent),
            "\"present\"" => Ok(Self::Present),
            number => u64::read(number).map(Self::Revision),
        }
    }
}

serde_by_codec!(DocumentExpect);

/// What a change does to its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentOp {
    /// Sets the value.
    Put(Json),
    /// Removes the document. A missing document is not an error.
    Delete,
    /// Leaves the document as it is. Only the expectation is checked, in the same atomic step as all other changes.
    Keep,
}

/// A change of one document.
///
/// ```
/// use store_core::{CollectionId, DocumentChange, DocumentExpect, DocumentKey, Json, KeySegment};
///
/// let key = DocumentKey::new(CollectionId::new("profiles")?, [KeySegment::id("ada")?])?;
/// let change = DocumentChange::put(key, Json::parse(r#"{"theme":"dark"}"#)?).expecting(DocumentExpect::Absent);
/// assert_eq!(change.document.to_string(), "profiles/ada");
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentChange {
    /// The document.
    pub document: DocumentRef,
    /// What the document must be like.
    pub expect: DocumentExpect,
    /// What the change does.
    pub op: DocumentOp,
}

impl DocumentChange {
    /// Makes a change that sets the value of a document, whatever it is like.
    #[must_use]
    pub fn put(document: impl Into<DocumentRef>, value: Json) -> Self {
        Self { document: document.into(), expect: DocumentExpect::Any, op: DocumentOp::Put(value) }
    }

    /// Makes a change that removes a document, if it exists.
    #[must_use]
    pub fn delete(document: impl Into<DocumentRef>) -> Self {
        Self { document: document.into(), expect: DocumentExpect::Any, op: DocumentOp::Delete }
    }

    /// Makes a check of a document, which changes nothing.
    #[must_use]
    pub fn check(document: impl Into<DocumentRef>, expect: DocumentExpect) -> Self {
        Self { document: document.into(), expect, op: DocumentOp::Keep }
    }

    /// Sets what the document must be like.
    #[must_use]
    pub const fn expecting(mut self, expect: DocumentExpect) -> Self {
        self.expect = expect;
        self
    }

    pub(crate) fn value_bytes(&self) -> u64 {
        match &self.op {
            DocumentOp::Put(value) => length(value.as_str().len()),
            DocumentOp::Delete | DocumentOp::Keep => 0,
        }
    }
}

/// One atomic write of documents: all of it takes effect, or nothing (DO-1).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WriteDocuments {
    /// The changes. No document may be named twice, and those that belong to threads must belong to one thread.
    pub changes: Vec<DocumentChange>,
    /// Events to append, of any scopes.
    pub events: Option<AppendEvents>,
    /// The claim under which the documents are written, with the thread that it belongs to (DO-13).
    pub fence: Option<(ThreadId, Fence)>,
}

impl WriteDocuments {
    /// Makes a write of these changes.
    #[must_use]
    pub fn new(changes: impl IntoIterator<Item = DocumentChange>) -> Self {
        Self { changes: changes.into_iter().collect(), ..Self::default() }
    }

    /// Sets the events.
    #[must_use]
    pub fn with_events(mut self, events: AppendEvents) -> Self {
        self.events = Some(events);
        self
    }

    /// Sets the claim under which the documents are written, and the thread that it belongs to.
    #[must_use]
    pub fn fenced(mut self, thread: ThreadId, fence: Fence) -> Self {
        self.fence = Some((thread, fence));
        self
    }

    /// Returns the thread that the write is about: that of its fence, or the first one that a document belongs to.
    #[must_use]
    pub fn thread(&self) -> Option<&ThreadId> {
        let of_fence = self.fence.as_ref().map(|(thread, _)| thread);
        of_fence.or_else(|| self.changes.iter().find_map(|change| change.document.scope.thread()))
    }
}

/// The result of a write of documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WrittenDocuments {
    /// The revision of all documents that the write put; absent if it put none.
    pub revision: Option<u64>,
    /// The events, in the order given.
    pub events: Vec<Event>,
    /// Store time of the write.
    pub time: Timestamp,
}

impl WrittenDocuments {
    /// Creates the result of a write. Only implementations of a store need this.
    #[must_use]
    pub const fn new(revision: Option<u64>, events: Vec<Event>, time: Timestamp) -> Self {
        Self { revision, events, time }
    }
}
