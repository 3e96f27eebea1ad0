//! The documents in which the registry is kept.

use std::collections::BTreeMap;

use super::record::{DefinitionRef, DefinitionState, VersionRef};
use crate::{
    codec::Codec,
    document::{Document, DocumentChange, DocumentExpect, DocumentKey, DocumentQuery, DocumentRef, KeySegment},
    error::{Error, Result, Subject},
    event::Scope,
    id::{CollectionId, DefinitionId, DefinitionKind, PublicationId, RunId, TopicId},
    json::Json,
};

// The collections, with what their keys consist of. The names are stored and never change.

/// Kind, id: the state of a definition.
pub(super) const DEFINITIONS: &str = "layer.registry.definitions";
/// Kind, id, version: the content of a version.
pub(super) const VERSIONS: &str = "layer.registry.versions";
/// Kind, id, version, holder: exists while the holder needs the version.
pub(super) const PINS: &str = "layer.registry.pins";
/// Kind, id, version: exists while a purge decides whether to remove the version.
pub(super) const MARKS: &str = "layer.registry.marks";
/// Snapshot number: the content of a publication.
pub(super) const PUBLICATIONS: &str = "layer.registry.publications";
/// Id of a publication: its snapshot number.
const PUBLICATION_IDS: &str = "layer.registry.publication_ids";

/// Returns the topic of the feed.
pub(super) fn feed() -> Result<Scope> {
    TopicId::new("layer.registry").map(Scope::Topic)
}

fn document(collection: &str, segments: Vec<KeySegment>) -> Result<DocumentRef> {
    Ok(DocumentKey::new(CollectionId::new(collection)?, segments)?.into())
}

pub(super) fn query(collection: &str, prefix: Vec<KeySegment>) -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(collection)?).starting_with(prefix))
}

pub(super) fn publication(snapshot: u64) -> Result<DocumentRef> {
    document(PUBLICATIONS, vec![KeySegment::Number(snapshot)])
}

pub(super) fn publication_id(id: &PublicationId) -> Result<DocumentRef> {
    document(PUBLICATION_IDS, vec![KeySegment::id(id)?])
}

impl DefinitionRef {
    pub(super) fn segments(&self) -> Result<Vec<KeySegment>> {
        Ok(vec![KeySegment::id(self.kind())?, KeySegment::id(self.id())?])
    }

    /// Names the document with the state of the definition.
    pub(super) fn document(&self) -> Result<DocumentRef> {
        document(DEFINITIONS, self.segments()?)
    }

    /// Reads the name from the key of a document of the definition or of one of its versions.
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        Self::from_segments(&document.key.segments()).ok_or_else(|| unreadable(document))
    }

    fn from_segments(segments: &[KeySegment]) -> Option<Self> {
        let [KeySegment::Id(kind), KeySegment::Id(id), ..] = segments else { return None };
        Self::new(DefinitionKind::new(kind).ok()?, DefinitionId::new(id).ok()?).ok()
    }
}

impl VersionRef {
    pub(super) fn segments(&self) -> Result<Vec<KeySegment>> {
        let mut segments = self.definition.segments()?;
        segments.push(KeySegment::Number(self.version));
        Ok(segments)
    }

    /// Names the document of the version in one of the collections.
    pub(super) fn in_collection(&self, collection: &str) -> Result<DocumentRef> {
        document(collection, self.segments()?)
    }

    /// Reads the name from the key of a document of the version.
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        Self::from_segments(&document.key.segments()).ok_or_else(|| unreadable(document))
    }

    fn from_segments(segments: &[KeySegment]) -> Option<Self> {
        let [_, _, KeySegment::Number(number), ..] = segments else { return None };
        Some(DefinitionRef::from_segments(segments)?.at(*number))
    }
}

/// Returns the record of the registry that the document with this key contains or belongs to; none if there is none.
pub(in crate::layers) fn record_in(key: &DocumentKey) -> Option<Subject> {
    let segments = key.segments();
    let of_version = |noun| Some(Subject::new(noun, VersionRef::from_segments(&segments)?.to_string()));
    match (key.collection().as_str(), segments.as_slice()) {
        (DEFINITIONS, _) => Some(Subject::new("definition", DefinitionRef::from_segments(&segments)?.to_string())),
        (VERSIONS, _) => of_version("version"),
        (PINS, _) => of_version("pin of version"),
        (MARKS, _) => of_version("mark of version"),
        (PUBLICATIONS, [snapshot]) => Some(Subject::new("snapshot", snapshot.to_string())),
        (PUBLICATION_IDS, [id]) => Some(Subject::new("publication", id.to_string())),
        _ => None,
    }
}

/// Reads the kind of the definition that a document contains, and the segment with which all keys of the kind begin.
pub(super) fn kind_of(document: &Document) -> Result<(DefinitionKind, Vec<KeySegment>)> {
    let kind = DefinitionRef::from_document(document)?.kind().clone();
    let segment = KeySegment::id(&kind)?;
    Ok((kind, vec![segment]))
}

/// What needs a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holder {
    /// A publication, or several of them.
    Publications,
    /// The protection of the version.
    Protection,
    /// A run, while it is not done.
    Run(RunId),
}

impl Holder {
    /// Names the document of the pin. The numbers are stored and never change.
    pub(super) fn pin(&self, version: &VersionRef) -> Result<DocumentRef> {
        let mut segments = version.segments()?;
        segments.push(match self {
            Self::Publications => KeySegment::Number(1),
            Self::Protection => KeySegment::Number(2),
            Self::Run(run) => KeySegment::id(run)?,
        });
        document(PINS, segments)
    }

    /// Returns the change that pins a version, and those that check that no purge has marked or removed it.
    pub(super) fn pin_changes(&self, version: &VersionRef) -> Result<[DocumentChange; 3]> {
        Ok([
            DocumentChange::check(version.in_collection(VERSIONS)?, DocumentExpect::Present),
            DocumentChange::check(version.in_collection(MARKS)?, DocumentExpect::Absent),
            DocumentChange::put(self.pin(version)?, Json::parse("{}")?),
        ])
    }

    pub(super) fn from_pin(pin: &Document) -> Result<Self> {
        match pin.key.segments().pop() {
            Some(KeySegment::Number(1)) => Ok(Self::Publications),
            Some(KeySegment::Number(2)) => Ok(Self::Protection),
            Some(KeySegment::Id(run)) => RunId::new(run).map(Self::Run),
            _ => Err(unreadable(pin)),
        }
    }
}

pub(super) fn unreadable(document: &Document) -> Error {
    Error::corrupt(format!("document {}: it is not what the registry writes there", document.key))
}

/// Reads the value of a document.
pub(super) fn decode<T: Codec>(document: &Document) -> Result<T> {
    T::read(document.value.as_str()).map_err(|e| unreadable(document).with_source(e))
}

/// Documents that were loaded together, as of one moment.
#[derive(Debug, Default)]
pub(super) struct Loaded(pub(super) BTreeMap<DocumentRef, Document>);

impl Loaded {
    /// Returns the value of a document, and its revision.
    pub(super) fn value<T: Codec>(&self, document: &DocumentRef) -> Result<Option<(T, u64)>> {
        self.0.get(document).map(|found| Ok((decode(found)?, found.revision))).transpose()
    }

    /// Returns the state of a definition, and the revision of its document.
    pub(super) fn state(&self, definition: &DefinitionRef) -> Result<Option<(DefinitionState, u64)>> {
        self.value(&definition.document()?)
    }
}
