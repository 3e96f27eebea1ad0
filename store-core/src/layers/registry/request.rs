//! Requests to the registry, and their results.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::{DefinitionRef, DefinitionVersion, VersionContent, VersionRef};
use crate::{id::PublicationId, json::Json, layers::audit::NewAudit};

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
    /// The audit record of the change, which is written only if the version is new (AU-1).
    pub audit: Option<NewAudit>,
    /// The older version that this one is a copy of.
    pub(super) copied_from: Option<u64>,
}

impl NewVersion {
    /// Makes a version with schema version 1 and no metadata.
    #[must_use]
    pub const fn new(definition: DefinitionRef, value: Json) -> Self {
        Self { definition, schema_version: 1, value, metadata: None, audit: None, copied_from: None }
    }

    /// Adds an audit record.
    #[must_use]
    pub fn audited(mut self, audit: NewAudit) -> Self {
        self.audit = Some(audit);
        self
    }

    /// Makes a copy of an older version.
    pub(super) fn copy_of(version: &DefinitionVersion) -> Self {
        let VersionContent { schema_version, value, metadata, .. } = version.content.clone();
        let VersionRef { definition, version } = version.name.clone();
        Self { definition, schema_version, value, metadata, audit: None, copied_from: Some(version) }
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
    /// The audit record of the publication, and of each new version that has none of its own (AU-1).
    pub audit: Option<NewAudit>,
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
            audit: None,
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

    /// Adds an audit record.
    #[must_use]
    pub fn audited(mut self, audit: NewAudit) -> Self {
        self.audit = Some(audit);
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

/// Which publication a manifest is loaded from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManifestChoice {
    /// The publication with the highest snapshot number.
    Latest,
    /// The publication with this id.
    Publication(PublicationId),
    /// The publication with this snapshot number.
    Snapshot(u64),
}

/// A request to remove versions that nothing needs (RG-11).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgeVersions {
    /// How many of the newest versions of each definition stay. The current version always stays.
    pub keep_newest: u64,
    /// The only definition whose versions are removed; all definitions if absent.
    pub definition: Option<DefinitionRef>,
    /// Whether to report the number of versions without removing them.
    pub dry_run: bool,
}

impl PurgeVersions {
    /// Requests the removal of all versions that nothing needs, except the newest ones of each definition.
    #[must_use]
    pub const fn keeping_newest(keep_newest: u64) -> Self {
        Self { keep_newest, definition: None, dry_run: false }
    }

    /// Restricts the request to one definition.
    #[must_use]
    pub fn of(mut self, definition: DefinitionRef) -> Self {
        self.definition = Some(definition);
        self
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// The result of a removal of versions or of a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[non_exhaustive]
pub struct PurgedVersions {
    /// The versions that were removed, or would be.
    pub versions: Vec<VersionRef>,
    /// Whether the removal was stopped before its end.
    pub stopped: bool,
}
