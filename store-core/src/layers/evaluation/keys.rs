//! The documents in which evaluation runs are kept.

use super::record::ResultKey;
use crate::{
    codec::Codec,
    document::{Document, DocumentKey, DocumentQuery, DocumentRef, KeySegment},
    error::{Error, Result, Subject},
    id::{CaseId, CellId, CollectionId, EvaluationId},
};

// The collections, with what their keys consist of. The names are stored and never change.

/// Evaluation: what is evaluated, and how far it is.
pub(super) const EVALUATIONS: &str = "layer.evaluations";
/// Evaluation, case, cell, sample: a result without its output. Lists, summaries and comparisons read only these.
pub(super) const RESULTS: &str = "layer.evaluations.results";
/// Evaluation, case, cell, sample: the output of a result.
pub(super) const OUTPUTS: &str = "layer.evaluations.outputs";

fn document(collection: &str, segments: Vec<KeySegment>) -> Result<DocumentRef> {
    Ok(DocumentKey::new(CollectionId::new(collection)?, segments)?.into())
}

pub(super) fn all() -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(EVALUATIONS)?))
}

pub(super) fn evaluation(id: &EvaluationId) -> Result<DocumentRef> {
    document(EVALUATIONS, vec![KeySegment::id(id)?])
}

/// Names the document of a result in one of the collections.
pub(super) fn of_result(collection: &str, id: &EvaluationId, key: &ResultKey) -> Result<DocumentRef> {
    let mut segments = cell_segments(id, &key.case, &key.cell)?.to_vec();
    segments.push(KeySegment::Number(key.sample.into()));
    document(collection, segments)
}

/// Returns the segments with which the keys of all results of a case and cell begin.
pub(super) fn cell_segments(id: &EvaluationId, case: &CaseId, cell: &CellId) -> Result<[KeySegment; 3]> {
    Ok([KeySegment::id(id)?, KeySegment::id(case)?, KeySegment::id(cell)?])
}

/// Returns the query for everything of an evaluation run in one of the collections.
pub(super) fn of_evaluation(collection: &str, id: &EvaluationId) -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(collection)?).starting_with([KeySegment::id(id)?]))
}

pub(super) fn evaluation_of(document: &Document) -> Result<EvaluationId> {
    match document.key.segments().first() {
        Some(KeySegment::Id(id)) => EvaluationId::new(id),
        _ => Err(unreadable(document)),
    }
}

pub(super) fn result_key_of(document: &Document) -> Result<ResultKey> {
    key_in(&document.key).ok_or_else(|| unreadable(document))
}

fn key_in(key: &DocumentKey) -> Option<ResultKey> {
    let segments = key.segments();
    let [_, KeySegment::Id(case), KeySegment::Id(cell), KeySegment::Number(sample)] = segments.as_slice() else {
        return None;
    };
    Some(ResultKey::new(CaseId::new(case).ok()?, CellId::new(cell).ok()?, u32::try_from(*sample).ok()?))
}

/// Returns the record of an evaluation run that the document with this key contains; none if there is none.
pub(in crate::layers) fn record_in(key: &DocumentKey) -> Option<Subject> {
    match (key.collection().as_str(), key.segments().as_slice()) {
        (EVALUATIONS, [id]) => Some(Subject::new("evaluation", id.to_string())),
        (RESULTS | OUTPUTS, _) => Some(Subject::new("result", key_in(key)?.to_string())),
        _ => None,
    }
}

pub(super) fn unreadable(document: &Document) -> Error {
    Error::corrupt(format!("document {}: it is not what an evaluation run writes there", document.key))
}

/// Reads the value of a document.
pub(super) fn decode<T: Codec>(document: &Document) -> Result<T> {
    T::read(document.value.as_str()).map_err(|e| unreadable(document).with_source(e))
}
