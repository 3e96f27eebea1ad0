//! Manifests, the feed of the registry, and requests to remove versions.

use std::pin::Pin;

use futures_core::Stream;
use serde::Serialize;

use super::record::{DefinitionRef, DefinitionVersion, Publication, VersionRef};
use crate::{error::Result, id::PublicationId, page::Cursor, time::Timestamp};

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

/// A stream of what happened in the registry. It does not end, except after an error.
pub type RegistryStream = Pin<Box<dyn Stream<Item = Result<RegistryChange>> + Send>>;

/// Something that happened in the registry (RG-12).
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
}
