//! Config records and the entries of their feed.

use std::fmt;

use serde::Serialize;

use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, named_enum, record},
    document::{Document, DocumentKey, DocumentRef, KeySegment},
    error::{Error, Result, Subject},
    event::Event,
    id::{CollectionId, EventKind, SegmentId},
    json::Json,
    layers::{audit::AuditResource, escape_part},
    page::Cursor,
    time::Timestamp,
};

/// The name of a config record: its namespace, and its id in the namespace.
///
/// It is displayed as `NAMESPACE/ID`, each of them as [`escape_part`](crate::layers::escape_part) writes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ConfigName {
    /// The namespace.
    pub namespace: SegmentId,
    /// The id.
    pub id: SegmentId,
}

impl ConfigName {
    /// Makes a name from the texts of a namespace and an id.
    ///
    /// # Errors
    /// `Invalid` if one of them is no id (ID-1).
    pub fn new(namespace: impl AsRef<str>, id: impl AsRef<str>) -> Result<Self> {
        Ok(Self { namespace: SegmentId::new(namespace)?, id: SegmentId::new(id)? })
    }

    /// Returns the resource of audit records about the record: `config/NAMESPACE/ID`.
    ///
    /// # Errors
    /// None for any name.
    pub fn resource(&self) -> Result<AuditResource> {
        AuditResource::of(["config", self.namespace.as_str(), self.id.as_str()])
    }

    pub(super) fn document(&self) -> Result<DocumentRef> {
        let segments = [self.namespace.clone(), self.id.clone()].map(KeySegment::Id);
        DocumentKey::new(collection()?, segments).map(DocumentRef::from)
    }

    fn from_key(key: &DocumentKey) -> Option<Self> {
        match <[KeySegment; 2]>::try_from(key.segments()) {
            Ok([KeySegment::Id(namespace), KeySegment::Id(id)]) => Some(Self { namespace, id }),
            _ => None,
        }
    }
}

impl fmt::Display for ConfigName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", escape_part(self.namespace.as_str()), escape_part(self.id.as_str()))
    }
}

/// The collection of all config records.
const COLLECTION: &str = "layer.config";

/// Returns the collection of all config records.
pub(super) fn collection() -> Result<CollectionId> {
    CollectionId::new(COLLECTION)
}

/// Returns the config record that the document with this key contains; none if it is no config record.
pub(in crate::layers) fn record_in(key: &DocumentKey) -> Option<Subject> {
    let name = (key.collection().as_str() == COLLECTION).then(|| ConfigName::from_key(key)).flatten()?;
    Some(Subject::new("config record", name.to_string()))
}

/// Where a record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConfigSource {
    /// A release of the application ships it.
    Builtin,
    /// A user made it.
    #[default]
    User,
}

named_enum!(ConfigSource as "config source" { Builtin = "builtin", User = "user" });

/// What a config record contains.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigContent {
    /// The value.
    pub value: Json,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether users do not see the record.
    pub hidden: bool,
    /// What a user changed of the value, as a merge patch (RFC 7396). It stays when the value is seeded again.
    pub overrides: Option<Json>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(ConfigContent { value: req, source: def, hidden: def, overrides: opt });

impl ConfigContent {
    /// Makes the visible content of a record from a user.
    #[must_use]
    pub fn new(value: Json) -> Self {
        Self { value, source: ConfigSource::User, hidden: false, overrides: None, extra: Extra::default() }
    }

    /// Sets where the value comes from.
    #[must_use]
    pub const fn from_source(mut self, source: ConfigSource) -> Self {
        self.source = source;
        self
    }

    /// Sets whether users do not see the record.
    #[must_use]
    pub const fn hidden(mut self, hidden: bool) -> Self {
        self.hidden = hidden;
        self
    }

    /// Sets what a user changed of the value.
    #[must_use]
    pub fn with_overrides(mut self, overrides: Json) -> Self {
        self.overrides = Some(overrides);
        self
    }

    /// Returns the value with the changes of the user.
    ///
    /// # Errors
    /// `LimitExceeded` if both together are nested too deeply.
    pub fn effective(&self) -> Result<Json> {
        self.overrides.as_ref().map_or_else(|| Ok(self.value.clone()), |patch| super::rules::merge(&self.value, patch))
    }
}

/// What the document of a config record contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredConfig {
    pub(super) revision: u64,
    pub(super) content: ConfigContent,
    pub(super) extra: Extra,
}

record!(StoredConfig { revision: req, content: req });

impl StoredConfig {
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        let corrupt = |error| Error::corrupt(format!("the config record {}", document.key)).with_source(error);
        Self::read(document.value.as_str()).map_err(corrupt)
    }
}

/// A config record, as readers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigRecord {
    /// The name.
    pub name: ConfigName,
    /// The content.
    pub content: ConfigContent,
    /// The number of the last change of the record in the feed (CF-2).
    pub revision: u64,
    /// When the record was made; set by the store.
    pub created_at: Timestamp,
    /// When the record was last changed; set by the store.
    pub updated_at: Timestamp,
}

impl ConfigRecord {
    /// Reads the record that a document contains.
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        let stored = StoredConfig::from_document(document)?;
        Ok(Self {
            name: Self::name_in(document)?,
            content: stored.content,
            revision: stored.revision,
            created_at: document.created_at,
            updated_at: document.updated_at,
        })
    }

    /// Reads the name of the record that a document contains.
    pub(super) fn name_in(document: &Document) -> Result<ConfigName> {
        let corrupt = || Error::corrupt(format!("the config record {}", document.key));
        ConfigName::from_key(&document.key).ok_or_else(corrupt)
    }
}

/// What happened to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConfigEntryKind {
    /// It was made.
    Created,
    /// It was changed.
    Updated,
    /// It was deleted.
    Deleted,
}

named_enum!(ConfigEntryKind as "kind of a config change" {
    Created = "created",
    Updated = "updated",
    Deleted = "deleted",
});

/// An entry of the feed: one change of one record (CF-5).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigEntry {
    /// The record.
    pub name: ConfigName,
    /// What happened to it.
    pub kind: ConfigEntryKind,
    /// The revision of the record, which is the number of this entry in the feed. Numbers have no gaps.
    pub revision: u64,
    /// Store time of the change.
    pub time: Timestamp,
    /// The position after the entry, from which a subscription continues.
    pub position: ConfigPosition,
}

impl ConfigEntry {
    pub(super) fn payload(name: &ConfigName, revision: u64) -> Result<Json> {
        let mut text = String::new();
        let mut object = ObjectWriter::open(&mut text);
        object.field("namespace", &name.namespace).field("id", &name.id).field("revision", &revision);
        object.close();
        Json::parse(&text)
    }

    pub(super) fn event_kind(kind: ConfigEntryKind) -> Result<EventKind> {
        EventKind::new(format!("config.{}", kind.name()))
    }

    /// Reads the entry that an event of the feed contains.
    pub(super) fn from_event(event: &Event) -> Result<Self> {
        let read = || -> Result<Self, DecodeError> {
            let payload = event.payload.as_ref().ok_or_else(|| DecodeError::new("is missing").within("payload"))?;
            let mut fields = Fields::parse(payload.as_str())?;
            let name = ConfigName { namespace: fields.take("namespace")?, id: fields.take("id")? };
            let kind = event.kind.as_str().strip_prefix("config.").and_then(|name| name.parse().ok());
            let kind = kind.ok_or_else(|| DecodeError::new("is not that of a config change").within("kind"))?;
            let revision = fields.take("revision")?;
            let cursor = super::rules::feed_topic().ok().and_then(|topic| event.cursors.topics.get(&topic).cloned());
            Ok(Self { name, kind, revision, time: event.created_at, position: ConfigPosition { revision, cursor } })
        };
        read().map_err(|e| Error::corrupt(format!("the entry of the config feed in event {}", event.id)).with_source(e))
    }
}

/// A position in the feed: after the entry with this number.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ConfigPosition {
    /// The number of the last entry before the position; 0 at the beginning.
    pub revision: u64,
    /// The cursor of that entry; absent at the beginning.
    pub cursor: Option<Cursor>,
}

/// All records as of a position: they contain every change up to it, and perhaps later ones (CF-6).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigSnapshot {
    /// The records, by namespace and id.
    pub records: Vec<ConfigRecord>,
    /// The position from which to subscribe.
    pub position: ConfigPosition,
}

/// What a watcher of a namespace gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConfigUpdate {
    /// The records of the namespace when the watch began. It comes first, once.
    Present(Vec<ConfigRecord>),
    /// A change after that, and the record as it is now: none if it was deleted. It may already have later changes,
    /// which follow.
    Changed(ConfigEntry, Option<ConfigRecord>),
}

/// The result of a write of config records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenConfig {
    /// The record of each change after the write, in the order given; none if it does not exist.
    pub records: Vec<Option<ConfigRecord>>,
    /// The entries of the feed, in the order of the changes. A change that changed nothing has none.
    pub entries: Vec<ConfigEntry>,
}
