//! Definitions, their versions, publications and manifests, and the requests that write them.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, record, serde_by_codec},
    error::Result,
    id::{DefinitionId, DefinitionKind, PublicationId},
    json::Json,
    limits::{check_limit, length},
    time::Timestamp,
};

/// The maximum length of the kind of a definition, in bytes. With it, the key of every document of the registry fits,
/// whatever the ids.
pub const MAX_DEFINITION_KIND_BYTES: usize = 64;

/// Names a definition: its kind and its id.
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

    /// Names a version of the definition.
    #[must_use]
    pub const fn at(self, version: u64) -> VersionRef {
        VersionRef { definition: self, version }
    }
}

impl fmt::Display for DefinitionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.id)
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

/// What is stored of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// A version to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewVersion {
    /// The definition. It is made with its first version.
    pub definition: DefinitionRef,
    /// The version of the schema of the value, counted from 1.
    pub schema_version: u32,
    /// The value.
    pub value: Json,
    /// What the writer says about the version. It is not part of the content hash.
    pub metadata: Option<Json>,
    /// The older version that this one is a copy of.
    pub(super) copied_from: Option<u64>,
}

impl NewVersion {
    /// Makes a version with schema version 1 and no metadata.
    #[must_use]
    pub const fn new(definition: DefinitionRef, value: Json) -> Self {
        Self { definition, schema_version: 1, value, metadata: None, copied_from: None }
    }

    /// Makes a copy of an older version.
    pub(super) fn copy_of(version: &DefinitionVersion) -> Self {
        let VersionContent { schema_version, value, metadata, .. } = version.content.clone();
        let VersionRef { definition, version } = version.name.clone();
        Self { definition, schema_version, value, metadata, copied_from: Some(version) }
    }
}

/// The result of publishing one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PublishedVersion {
    /// The version that has the content now.
    pub name: VersionRef,
    /// The content hash.
    pub hash: String,
    /// Whether the version is new. If not, the current version already had the content, and nothing was written.
    pub created: bool,
}

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

/// A request to publish versions together (RG-6).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishAll {
    /// The id of the publication.
    pub id: PublicationId,
    /// Contents to publish. Content equal to the current version becomes no new version (RG-1).
    pub versions: Vec<NewVersion>,
    /// Existing versions.
    pub existing: Vec<VersionRef>,
    /// The number of the snapshot that must be the latest one; 0 if there must be none (RG-8).
    pub expect_snapshot: Option<u64>,
    /// Who publishes.
    pub by: Option<String>,
    /// What the publisher says about it.
    pub metadata: Option<Json>,
    /// The revisions of the configs that the publication is made from.
    pub config_revisions: BTreeMap<String, u64>,
    /// The snapshot whose contents are published again.
    pub(super) rollback_of: Option<u64>,
}

impl PublishAll {
    /// Requests a publication of nothing; add versions.
    #[must_use]
    pub const fn new(id: PublicationId) -> Self {
        Self {
            id,
            versions: Vec::new(),
            existing: Vec::new(),
            expect_snapshot: None,
            by: None,
            metadata: None,
            config_revisions: BTreeMap::new(),
            rollback_of: None,
        }
    }

    /// Adds content to publish.
    #[must_use]
    pub fn version(mut self, version: NewVersion) -> Self {
        self.versions.push(version);
        self
    }

    /// Adds an existing version.
    #[must_use]
    pub fn existing(mut self, version: VersionRef) -> Self {
        self.existing.push(version);
        self
    }

    /// Sets the number of the snapshot that must be the latest one; 0 if there must be none.
    #[must_use]
    pub const fn expecting_snapshot(mut self, snapshot: u64) -> Self {
        self.expect_snapshot = Some(snapshot);
        self
    }
}

/// A request to publish the contents of an earlier publication again (RG-13).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RollbackPublication {
    /// The snapshot with the contents.
    pub to: u64,
    /// The new publication: its id, its guard, who publishes, metadata. It names no versions.
    pub publication: PublishAll,
}

impl RollbackPublication {
    /// Requests a publication with the contents of the snapshot `to`.
    #[must_use]
    pub const fn new(to: u64, publication: PublishAll) -> Self {
        Self { to, publication }
    }
}
