//! The documents in which datasets are kept.

use super::record::DatasetVersionRef;
use crate::{
    codec::Codec,
    document::{Document, DocumentKey, DocumentQuery, DocumentRef, KeySegment},
    error::{Error, Result, Subject},
    id::{CaseId, CollectionId, DatasetId},
    layers::escape_part,
};

// The collections, with what their keys consist of. The names are stored and never change.

/// Dataset: its current version.
pub(super) const DATASETS: &str = "layer.datasets";
/// Dataset, version: how the version differs from the one before.
pub(super) const VERSIONS: &str = "layer.datasets.versions";
/// Dataset, case, version: in which versions the case has which content.
///
/// The row of the content that a case has now is under the number [`LIVE`]. When the case changes, its row moves to
/// the number of the version in which the case got the content. Such a number is larger than those of all earlier rows
/// of the case, and smaller than `LIVE`. So a walk that a change overtakes finds the row at one of both places, once.
pub(super) const CASES: &str = "layer.datasets.cases";
/// Dataset, hash: a content. Contents are never removed, because a version may refer to them.
const CONTENTS: &str = "layer.datasets.contents";

/// The number under which the row of the content that a case has now is kept.
const LIVE: u64 = u64::MAX;

fn document(collection: &str, segments: impl IntoIterator<Item = KeySegment>) -> Result<DocumentRef> {
    Ok(DocumentKey::new(CollectionId::new(collection)?, segments)?.into())
}

pub(super) fn query(collection: &str, prefix: impl IntoIterator<Item = KeySegment>) -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(collection)?).starting_with(prefix))
}

pub(super) fn dataset(id: &DatasetId) -> Result<DocumentRef> {
    document(DATASETS, [KeySegment::id(id)?])
}

pub(super) fn version(name: &DatasetVersionRef) -> Result<DocumentRef> {
    document(VERSIONS, [KeySegment::id(&name.dataset)?, KeySegment::Number(name.version)])
}

/// Names the row of the content that a case has now.
pub(super) fn live_row(dataset: &DatasetId, case: &CaseId) -> Result<DocumentRef> {
    earlier_row(dataset, case, LIVE)
}

/// Names the row of the content that a case got in the version `from` and has lost since.
pub(super) fn earlier_row(dataset: &DatasetId, case: &CaseId, from: u64) -> Result<DocumentRef> {
    document(CASES, row_segments(dataset, case, from)?)
}

pub(super) fn row_segments(dataset: &DatasetId, case: &CaseId, from: u64) -> Result<[KeySegment; 3]> {
    Ok([KeySegment::id(dataset)?, KeySegment::id(case)?, KeySegment::Number(from)])
}

/// Returns the query for the rows of a case that belong to contents which it got up to a version and has lost since.
pub(super) fn earlier_rows(name: &DatasetVersionRef, case: &CaseId) -> Result<DocumentQuery> {
    let prefix = [KeySegment::id(&name.dataset)?, KeySegment::id(case)?];
    let end = prefix.iter().cloned().chain([KeySegment::Number(name.version.saturating_add(1))]).collect::<Vec<_>>();
    Ok(query(CASES, prefix)?.before(end))
}

pub(super) fn content(dataset: &DatasetId, hash: &str) -> Result<DocumentRef> {
    document(CONTENTS, [KeySegment::id(dataset)?, KeySegment::id(hash)?])
}

pub(super) fn dataset_of(document: &Document) -> Result<DatasetId> {
    match document.key.segments().first() {
        Some(KeySegment::Id(id)) => DatasetId::new(id),
        _ => Err(unreadable(document)),
    }
}

pub(super) fn case_of(row: &Document) -> Result<CaseId> {
    match row.key.segments().get(1) {
        Some(KeySegment::Id(id)) => CaseId::new(id),
        _ => Err(unreadable(row)),
    }
}

/// Returns the record of a dataset that the document with this key contains; none if there is none.
pub(in crate::layers) fn record_in(key: &DocumentKey) -> Option<Subject> {
    match (key.collection().as_str(), key.segments().as_slice()) {
        (DATASETS, [id]) => Some(Subject::new("dataset", escape_part(&id.to_string()))),
        (VERSIONS, [id, version]) => {
            Some(Subject::new("dataset version", format!("{}@{version}", escape_part(&id.to_string()))))
        }
        (CASES, [_, case, _]) => Some(Subject::new("case", case.to_string())),
        _ => None,
    }
}

pub(super) fn unreadable(document: &Document) -> Error {
    Error::corrupt(format!("document {}: it is not what a dataset writes there", document.key))
}

/// Reads the value of a document.
pub(super) fn decode<T: Codec>(document: &Document) -> Result<T> {
    T::read(document.value.as_str()).map_err(|e| unreadable(document).with_source(e))
}
