//! Definitions, their versions, publications, manifests and the entries of the feed.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::Serialize;

use super::keys::{self, decode};
use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, record, serde_by_codec},
    document::{Document, KeySegment},
    error::{Error, Result},
    event::{Event, NewEvent},
    id::{DefinitionId, DefinitionKind, EventKind, PublicationId},
    json::Json,
    layers::{audit::AuditResource, escape_part, unescape_part},
    limits::{check_limit, length},
    page::Cursor,
    time::Timestamp,
};

/// The maximum length of the kind of a definition, in bytes. With it, the key of every document of the registry fits,
/// whatever the ids.
pub const MAX_DEFINITION_KIND_BYTES: usize = 64;

/// Names a definition: its kind and its id.
///
/// It is written as `KIND/ID`, each of them as [`escape_part`](crate::layers::escape_part) writes it, and read back.
///
/// ```
/// use store_core::{DefinitionRef, VersionRef};
///
/// let definition = DefinitionRef::new("agent".parse()?, "team/coder".parse()?)?;
/// assert_eq!(definition.to_string(), "agent/team%2Fcoder");
/// assert_eq!("agent/team%2Fcoder".parse::<DefinitionRef>()?, definition);
/// assert_eq!("agent/team%2Fcoder@3".parse::<VersionRef>()?, definition.at(3));
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DefinitionRef {
    kind: DefinitionKind,
    id: DefinitionId,
}

impl DefinitionRef {
    /// Names a definition.
    ///
    /// # Errors
    /// `LimitExceeded` for a kind of more than [`MAX_DEFINITION_KIND_BYTES`].
    pub fn new(kind: DefinitionKind, id: DefinitionId) -> Result<Self> {
        let bytes = length(kind.as_str().len());
        check_limit("bytes of a definition kind", bytes, length(MAX_DEFINITION_KIND_BYTES))?;
        Ok(Self { kind, id })
    }

    /// Returns the kind.
    #[must_use]
    pub const fn kind(&self) -> &DefinitionKind {
        &self.kind
    }

    /// Returns the id.
    #[must_use]
    pub const fn id(&self) -> &DefinitionId {
        &self.id
    }

    /// Returns the resource of audit records about the definition: `definition/KIND/ID`.
    ///
    /// # Errors
    /// None for any name.
    pub fn resource(&self) -> Result<AuditResource> {
        AuditResource::of(["definition", self.kind.as_str(), self.id.as_str()])
    }

    /// Names a version of the definition.
    #[must_use]
    pub const fn at(self, version: u64) -> VersionRef {
        VersionRef { definition: self, version }
    }
}

impl fmt::Display for DefinitionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", escape_part(self.kind.as_str()), escape_part(self.id.as_str()))
    }
}

impl FromStr for DefinitionRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('/').filter(|(_, id)| !text.contains('@') && !id.contains('/'));
        let form = "it must be `KIND/ID`; in a kind and an id, write `%2F` for `/` and `%40` for `@`";
        let (kind, id) = parts.ok_or_else(|| Error::invalid("definition", form))?;
        Self::new(unescape_part(kind)?.parse()?, unescape_part(id)?.parse()?)
    }
}

/// Written as `{"kind": …, "id": …}`.
impl Codec for DefinitionRef {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("kind", &self.kind).field("id", &self.id);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let too_long = |_| DecodeError::new("is too long").within("kind");
        Self::new(fields.take("kind")?, fields.take("id")?).map_err(too_long)
    }
}

serde_by_codec!(DefinitionRef);

/// Names a version of a definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct VersionRef {
    /// The definition.
    pub definition: DefinitionRef,
    /// The number of the version, from 1.
    pub version: u64,
}

impl fmt::Display for VersionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.definition, self.version)
    }
}

impl FromStr for VersionRef {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let form = "it must be `KIND/ID@VERSION`; in a kind and an id, write `%2F` for `/` and `%40` for `@`";
        let invalid = || Error::invalid("version", form);
        let (definition, version) = text.rsplit_once('@').ok_or_else(invalid)?;
        Ok(definition.parse::<DefinitionRef>()?.at(version.parse().map_err(|_| invalid())?))
    }
}

/// A definition, without the content of its versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Definition {
    /// The name.
    pub name: DefinitionRef,
    /// The number of the current version, which is the newest.
    pub current: u64,
    /// The content hash of the current version.
    pub hash: String,
    /// Whether the definition is archived: nothing of it can be published.
    pub archived: bool,
    /// When the first version was published; set by the store.
    pub created_at: Timestamp,
    /// When the definition last changed; set by the store.
    pub updated_at: Timestamp,
}

impl Definition {
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        let DefinitionState { current, hash, archived, .. } = decode(document)?;
        let (created_at, updated_at) = (document.created_at, document.updated_at);
        Ok(Self { name: DefinitionRef::from_document(document)?, current, hash, archived, created_at, updated_at })
    }
}

/// What is stored of a definition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DefinitionState {
    pub(super) current: u64,
    pub(super) hash: String,
    pub(super) archived: bool,
    pub(super) extra: Extra,
}

record!(DefinitionState { current: req, hash: req, archived: def });

/// A version of a definition. It never changes (RG-2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DefinitionVersion {
    /// The name.
    pub name: VersionRef,
    /// The content.
    pub content: VersionContent,
    /// When the version was made; set by the store.
    pub created_at: Timestamp,
}

impl DefinitionVersion {
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        let name = VersionRef::from_document(document)?;
        Ok(Self { name, content: decode(document)?, created_at: document.created_at })
    }
}

/// The content of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionContent {
    /// The content hash: it covers schema version and value (RG-3).
    pub hash: String,
    /// The version of the schema of the value, counted from 1.
    pub schema_version: u32,
    /// The value.
    pub value: Json,
    /// What the writer says about the version.
    pub metadata: Option<Json>,
    /// The older version of the definition that this one is a copy of (RG-5).
    pub copied_from: Option<u64>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(VersionContent { hash: req, schema_version: req, value: req, metadata: opt, copied_from: opt });

/// A publication: versions that were published together. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Publication {
    /// The snapshot number. Snapshots are numbered from 1 without gaps (RG-7).
    pub snapshot: u64,
    /// The content.
    pub content: PublicationContent,
    /// When it was published; set by the store.
    pub published_at: Timestamp,
}

impl Publication {
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        let segments = document.key.segments();
        let [KeySegment::Number(snapshot)] = segments.as_slice() else { return Err(keys::unreadable(document)) };
        Ok(Self { snapshot: *snapshot, content: decode(document)?, published_at: document.created_at })
    }
}

/// The content of a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublicationContent {
    /// The id, unique in the tenant.
    pub id: PublicationId,
    /// The versions, each definition once.
    pub entries: Vec<PublicationEntry>,
    /// Who published.
    pub by: Option<String>,
    /// What the publisher says about it.
    pub metadata: Option<Json>,
    /// The revisions of the configs that the publication was made from, by names that the publisher chooses.
    pub config_revisions: BTreeMap<String, u64>,
    /// The snapshot whose contents this publication has again (RG-13).
    pub rollback_of: Option<u64>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(PublicationContent { id: req, entries: req, by: opt, metadata: opt, config_revisions: def, rollback_of: opt });

/// A version in a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublicationEntry {
    /// The definition.
    pub definition: DefinitionRef,
    /// The number of the version.
    pub version: u64,
    /// The content hash of the version.
    pub hash: String,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(PublicationEntry { definition: req, version: req, hash: req });

impl PublicationEntry {
    /// Names the version.
    #[must_use]
    pub fn name(&self) -> VersionRef {
        self.definition.clone().at(self.version)
    }
}

/// The pinned versions of a publication, with their contents. A run names it by the id of the publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Manifest {
    /// The publication.
    pub publication: Publication,
    /// The versions, in the order of the publication.
    pub versions: Vec<DefinitionVersion>,
}

impl Manifest {
    /// Returns the pinned version of a definition, if the manifest has one.
    #[must_use]
    pub fn version_of(&self, definition: &DefinitionRef) -> Option<&DefinitionVersion> {
        self.versions.iter().find(|version| version.name.definition == *definition)
    }
}

/// Something that happened in the registry: an entry of the feed (RG-12).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistryChange {
    /// What happened.
    pub fact: RegistryFact,
    /// When it happened; set by the store.
    pub at: Timestamp,
    /// The position from which a subscription continues.
    pub cursor: Cursor,
}

/// What happened in the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegistryFact {
    /// Versions were published together.
    Published {
        /// The snapshot number.
        snapshot: u64,
        /// The id of the publication.
        id: PublicationId,
    },
    /// A definition was archived.
    Archived(DefinitionRef),
    /// A definition was taken out of the archive.
    Unarchived(DefinitionRef),
}

impl RegistryFact {
    pub(super) fn event(&self) -> Result<NewEvent> {
        let mut payload = String::new();
        let kind = match self {
            Self::Published { snapshot, id } => {
                let mut object = ObjectWriter::open(&mut payload);
                object.field("snapshot", snapshot).field("publication", id);
                object.close();
                "registry.published"
            }
            Self::Archived(definition) => {
                definition.write(&mut payload);
                "registry.archived"
            }
            Self::Unarchived(definition) => {
                definition.write(&mut payload);
                "registry.unarchived"
            }
        };
        Ok(NewEvent::new(EventKind::new(kind)?, [keys::feed()?]).with_payload(Json::parse(&payload)?))
    }
}

impl RegistryChange {
    pub(super) fn from_event(event: &Event) -> Result<Self> {
        let read = || {
            let payload = event.payload.as_ref().ok_or_else(|| DecodeError::new("is missing").within("payload"))?;
            match event.kind.as_str() {
                "registry.published" => {
                    let mut fields = Fields::parse(payload.as_str())?;
                    let (snapshot, id) = (fields.take("snapshot")?, fields.take("publication")?);
                    Ok(RegistryFact::Published { snapshot, id })
                }
                "registry.archived" => DefinitionRef::read(payload.as_str()).map(RegistryFact::Archived),
                "registry.unarchived" => DefinitionRef::read(payload.as_str()).map(RegistryFact::Unarchived),
                _ => Err(DecodeError::new("is not that of a change of the registry").within("kind")),
            }
        };
        let corrupt = || Error::corrupt(format!("the entry of the registry's feed in event {}", event.id));
        let fact = read().map_err(|e: DecodeError| corrupt().with_source(e))?;
        let cursor = event.cursor(&keys::feed()?).cloned().ok_or_else(corrupt)?;
        Ok(Self { fact, at: event.created_at, cursor })
    }
}
