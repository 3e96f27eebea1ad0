//! Documents, as readers see them and as stores keep them.

use std::fmt;

use super::{DocumentKey, KeySegment};
use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, record, serde_by_codec},
    id::ThreadId,
    json::Json,
    time::Timestamp,
};

/// What a document belongs to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum DocumentScope {
    /// The tenant.
    #[default]
    Tenant,
    /// A thread. The document is deleted together with it (DO-8).
    Thread(ThreadId),
}

impl DocumentScope {
    /// Returns the thread, if the scope is that of a thread.
    #[must_use]
    pub const fn thread(&self) -> Option<&ThreadId> {
        match self {
            Self::Tenant => None,
            Self::Thread(thread) => Some(thread),
        }
    }
}

/// Names a document: what it belongs to, and its key. Equal keys of two threads name two documents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentRef {
    /// What the document belongs to.
    pub scope: DocumentScope,
    /// The key.
    pub key: DocumentKey,
}

impl From<DocumentKey> for DocumentRef {
    /// Names a document of the tenant. [`DocumentKey::in_thread`] names one of a thread.
    fn from(key: DocumentKey) -> Self {
        Self { scope: DocumentScope::Tenant, key }
    }
}

impl fmt::Display for DocumentRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            DocumentScope::Tenant => self.key.fmt(f),
            DocumentScope::Thread(thread) => write!(f, "{} of thread {thread}", self.key),
        }
    }
}

impl DocumentRef {
    fn write_fields(&self, object: &mut ObjectWriter<'_>) {
        object
            .maybe("thread", self.scope.thread())
            .field("collection", self.key.collection())
            .field("key", &self.key.segments());
    }

    fn read_fields(fields: &mut Fields<'_>) -> Result<Self, DecodeError> {
        let scope = fields.maybe("thread")?.map_or(DocumentScope::Tenant, DocumentScope::Thread);
        let segments: Vec<KeySegment> = fields.take("key")?;
        let key = DocumentKey::new(fields.take("collection")?, segments);
        Ok(Self { scope, key: key.map_err(|_| DecodeError::new("is not the key of a document").within("key"))? })
    }
}

/// Written as `{"thread": …, "collection": …, "key": […]}`; without `thread` for a document of the tenant.
impl Codec for DocumentRef {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        self.write_fields(&mut object);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        Self::read_fields(&mut Fields::parse(raw)?)
    }
}

serde_by_codec!(DocumentRef);

/// A document, as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Document {
    /// What the document belongs to.
    pub scope: DocumentScope,
    /// The key.
    pub key: DocumentKey,
    /// The value.
    pub value: Json,
    /// The number of the write that put the value. It is larger than every earlier one of the key (DO-3).
    pub revision: u64,
    /// When the document was created; set by the store.
    pub created_at: Timestamp,
    /// When the document was last put; set by the store.
    pub updated_at: Timestamp,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

impl Document {
    /// Joins a stored document with its name. Stores keep the name beside the record because they search by it.
    #[must_use]
    pub fn new(document: DocumentRef, stored: StoredDocument) -> Self {
        let StoredDocument { value, revision, created_at, updated_at, extra } = stored;
        Self { scope: document.scope, key: document.key, value, revision, created_at, updated_at, extra }
    }

    /// Returns the state, without the value.
    #[must_use]
    pub const fn state(&self) -> DocumentState {
        DocumentState { revision: self.revision, created_at: self.created_at, updated_at: self.updated_at }
    }

    /// Returns the name of the document.
    #[must_use]
    pub fn to_ref(&self) -> DocumentRef {
        DocumentRef { scope: self.scope.clone(), key: self.key.clone() }
    }
}

impl Codec for Document {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        self.to_ref().write_fields(&mut object);
        object
            .field("value", &self.value)
            .field("revision", &self.revision)
            .field("created_at", &self.created_at)
            .field("updated_at", &self.updated_at)
            .extra(&self.extra);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let DocumentRef { scope, key } = DocumentRef::read_fields(&mut fields)?;
        Ok(Self {
            scope,
            key,
            value: fields.take("value")?,
            revision: fields.take("revision")?,
            created_at: fields.take("created_at")?,
            updated_at: fields.take("updated_at")?,
            extra: fields.rest()?,
        })
    }
}

serde_by_codec!(Document);

/// A document as a store keeps it under its scope and key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredDocument {
    /// The value.
    pub value: Json,
    /// The revision.
    pub revision: u64,
    /// When the document was created.
    pub created_at: Timestamp,
    /// When the document was last put.
    pub updated_at: Timestamp,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(StoredDocument { value: req, revision: req, created_at: req, updated_at: req });

impl StoredDocument {
    /// Makes the record of a document from its parts. Only implementations of a store need this.
    #[must_use]
    pub fn new(value: Json, state: DocumentState) -> Self {
        let DocumentState { revision, created_at, updated_at } = state;
        Self { value, revision, created_at, updated_at, extra: Extra::default() }
    }

    /// Makes the record of a document that is put at `now` over the document in `found`, if there is one.
    pub(super) fn put(value: Json, revision: u64, found: Option<&DocumentState>, now: Timestamp) -> Self {
        let created_at = found.map_or(now, |found| found.created_at);
        let updated_at = found.map_or(now, |found| now.max(found.updated_at));
        Self { value, revision, created_at, updated_at, extra: Extra::default() }
    }

    /// Returns the state, without the value.
    #[must_use]
    pub const fn state(&self) -> DocumentState {
        DocumentState { revision: self.revision, created_at: self.created_at, updated_at: self.updated_at }
    }
}

/// What a decision reads about a stored document: everything but its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentState {
    /// The revision.
    pub revision: u64,
    /// When the document was created.
    pub created_at: Timestamp,
    /// When the document was last put.
    pub updated_at: Timestamp,
}
