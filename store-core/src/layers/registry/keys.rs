//! The documents in which the registry is kept, and how they are read.

use std::collections::BTreeMap;

use super::record::{DefinitionRef, VersionRef};
use crate::{
    codec::Codec,
    document::{Document, DocumentKey, DocumentQuery, DocumentRef, KeySegment},
    error::{Error, Result},
    event::Scope,
    id::{CollectionId, DefinitionKind, PublicationId, RunId, SegmentId, TopicId},
};

/// The collections of the registry. Their names are stored and never change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Collection {
    /// Kind, id: the state of a definition.
    Definitions,
    /// Kind, id, version: the content of a version.
    Versions,
    /// Kind, id, version: exists if a publication has the version.
    Published,
    /// Kind, id, version: exists if the version must not be removed.
    Protected,
    /// Kind, id, version: exists while a purge decides whether to remove the version.
    Marks,
    /// Kind, id, version, run: exists while a run needs the version.
    Pins,
    /// Snapshot number: the content of a publication.
    Publications,
    /// Id of a publication: its snapshot number.
    PublicationIds,
    /// One document: the number of the latest snapshot.
    Latest,
}

impl Collection {
    const fn name(self) -> &'static str {
        match self {
            Self::Definitions => "agentstore.registry.definitions",
            Self::Versions => "agentstore.registry.versions",
            Self::Published => "agentstore.registry.published",
            Self::Protected => "agentstore.registry.protected",
            Self::Marks => "agentstore.registry.marks",
            Self::Pins => "agentstore.registry.pins",
            Self::Publications => "agentstore.registry.publications",
            Self::PublicationIds => "agentstore.registry.publication_ids",
            Self::Latest => "agentstore.registry.latest",
        }
    }

    fn document(self, segments: impl IntoIterator<Item = KeySegment>) -> Result<DocumentRef> {
        Ok(DocumentKey::new(CollectionId::new(self.name())?, segments)?.into())
    }

    fn query(self, segments: impl IntoIterator<Item = KeySegment>) -> Result<DocumentQuery> {
        Ok(DocumentQuery::new(CollectionId::new(self.name())?).starting_with(segments))
    }

    /// Names the document of a version.
    pub(super) fn of_version(self, version: &VersionRef) -> Result<DocumentRef> {
        self.document(version_segments(version)?)
    }

    /// Returns the query for the documents of all versions of a definition.
    pub(super) fn of_definition(self, definition: &DefinitionRef) -> Result<DocumentQuery> {
        self.query(definition_segments(definition)?)
    }
}

fn definition_segments(definition: &DefinitionRef) -> Result<[KeySegment; 2]> {
    Ok([KeySegment::id(definition.kind())?, KeySegment::id(definition.id())?])
}

fn version_segments(version: &VersionRef) -> Result<[KeySegment; 3]> {
    let [kind, id] = definition_segments(&version.definition)?;
    Ok([kind, id, KeySegment::Number(version.version)])
}

pub(super) fn definition(definition: &DefinitionRef) -> Result<DocumentRef> {
    Collection::Definitions.document(definition_segments(definition)?)
}

pub(super) fn definitions(kind: Option<&DefinitionKind>) -> Result<DocumentQuery> {
    Collection::Definitions.query(kind.map(KeySegment::id).transpose()?)
}

pub(super) fn publication(snapshot: u64) -> Result<DocumentRef> {
    Collection::Publications.document([KeySegment::Number(snapshot)])
}

pub(super) fn publications() -> Result<DocumentQuery> {
    Collection::Publications.query([])
}

pub(super) fn publication_id(id: &PublicationId) -> Result<DocumentRef> {
    Collection::PublicationIds.document([KeySegment::id(id)?])
}

pub(super) fn latest() -> Result<DocumentRef> {
    Collection::Latest.document([KeySegment::Number(0)])
}

pub(super) fn pin(version: &VersionRef, run: &RunId) -> Result<DocumentRef> {
    let [kind, id, number] = version_segments(version)?;
    Collection::Pins.document([kind, id, number, KeySegment::id(run)?])
}

pub(super) fn pins_of(version: &VersionRef) -> Result<DocumentQuery> {
    Collection::Pins.query(version_segments(version)?)
}

/// The topic of the feed of the registry.
pub(super) fn feed() -> Result<Scope> {
    TopicId::new("agentstore.registry").map(Scope::Topic)
}

fn unreadable(document: &Document) -> Error {
    Error::corrupt(format!("document {}: it is not what the registry writes there", document.key))
}

/// Reads the value of a document.
pub(super) fn decode<T: Codec>(document: &Document) -> Result<T> {
    T::read(document.value.as_str()).map_err(|e| unreadable(document).with_source(e))
}

/// Reads the name of a definition from the key of its document, or from that of one of its versions.
pub(super) fn definition_of(document: &Document) -> Result<DefinitionRef> {
    match document.key.segments().as_slice() {
        [KeySegment::Id(kind), KeySegment::Id(id), ..] => {
            DefinitionRef::new(DefinitionKind::new(kind)?, crate::id::DefinitionId::new(id)?)
        }
        _ => Err(unreadable(document)),
    }
}

/// Reads the number of a version from the key of its document.
pub(super) fn version_of(document: &Document) -> Result<VersionRef> {
    match document.key.segments().as_slice() {
        [_, _, KeySegment::Number(number), ..] => Ok(definition_of(document)?.at(*number)),
        _ => Err(unreadable(document)),
    }
}

/// Reads the snapshot number from the key of the document of a publication.
pub(super) fn snapshot_of(document: &Document) -> Result<u64> {
    match document.key.segments().as_slice() {
        [KeySegment::Number(snapshot)] => Ok(*snapshot),
        _ => Err(unreadable(document)),
    }
}

/// Reads the run from the key of a pin.
pub(super) fn run_of(document: &Document) -> Result<RunId> {
    let run: Option<SegmentId> = document.key.segments().pop().and_then(|segment| match segment {
        KeySegment::Id(id) => Some(id),
        KeySegment::Number(_) => None,
    });
    RunId::new(run.ok_or_else(|| unreadable(document))?)
}

/// Documents that were loaded together, as of one moment.
#[derive(Debug, Default)]
pub(super) struct Loaded(BTreeMap<DocumentRef, Document>);

impl FromIterator<Document> for Loaded {
    fn from_iter<I: IntoIterator<Item = Document>>(documents: I) -> Self {
        Self(documents.into_iter().map(|document| (document.to_ref(), document)).collect())
    }
}

impl Loaded {
    /// Returns a document that was loaded, or none if it does not exist.
    pub(super) fn get(&self, document: &DocumentRef) -> Option<&Document> {
        self.0.get(document)
    }

    /// Returns the value of a document, and its revision.
    pub(super) fn value<T: Codec>(&self, document: &DocumentRef) -> Result<Option<(T, u64)>> {
        self.get(document).map(|found| Ok((decode(found)?, found.revision))).transpose()
    }
}
