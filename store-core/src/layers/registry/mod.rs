//! The registry: definitions with versions that never change, published together and pinned by runs (RG).

mod keys;
mod record;
mod references;
mod request;
mod retention;
mod rules;
mod store;
mod writer;

pub(super) use self::keys::record_in;
pub use self::{
    record::{
        Definition, DefinitionRef, DefinitionVersion, MAX_DEFINITION_KIND_BYTES, Manifest, Publication,
        PublicationContent, PublicationEntry, RegistryChange, RegistryFact, VersionContent, VersionRef,
    },
    references::{Reference, ReferenceError, resolve_references},
    request::{
        ManifestChoice, NewVersion, PublishAll, PublishedVersion, PurgeVersions, PurgedVersions, RollbackPublication,
    },
    rules::{content_hash, pin_changes, unpin_changes},
    store::{RegistryLayer, RegistryReader, RegistryRetention, RegistryStore, RegistryStream, RegistryWriter},
};
