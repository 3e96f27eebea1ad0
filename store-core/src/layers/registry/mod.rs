//! The registry: definitions with versions that never change, published together and pinned by runs.

mod keys;
mod manifest;
mod record;
mod references;
mod retention;
mod rules;
mod store;
mod writer;

pub use self::{
    manifest::{Manifest, ManifestChoice, PurgeVersions, PurgedVersions, RegistryChange, RegistryFact, RegistryStream},
    record::{
        Definition, DefinitionRef, DefinitionVersion, MAX_DEFINITION_KIND_BYTES, NewVersion, Publication,
        PublicationContent, PublicationEntry, PublishAll, PublishedVersion, RollbackPublication, VersionContent,
        VersionRef,
    },
    references::{Reference, ReferenceError, resolve_references},
    rules::{content_hash, pin_changes, unpin_changes},
    store::{RegistryLayer, RegistryReader, RegistryRetention, RegistryStore, RegistryWriter},
};
