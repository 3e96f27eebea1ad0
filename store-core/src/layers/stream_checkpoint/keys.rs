//! The documents in which stream checkpoints are kept.

use super::record::unreadable;
use crate::{
    document::{Document, DocumentKey, DocumentQuery, DocumentRef, KeySegment},
    error::Result,
    id::{CollectionId, RunId, ThreadId},
};

// The collections, with what their keys consist of. The names are stored and never change.

/// Run, in the scope of the thread: the checkpoint. It is deleted with the thread.
const CHECKPOINTS: &str = "layer.stream_checkpoints";
/// Thread, run: exists while there is a checkpoint, and perhaps longer. A purge finds checkpoints by it.
const INDEX: &str = "layer.stream_checkpoints.index";

/// Names the two documents of a checkpoint: the checkpoint, and its entry in the index.
pub(super) fn documents_of(thread: &ThreadId, run: &RunId) -> Result<[DocumentRef; 2]> {
    let checkpoint = DocumentKey::new(CollectionId::new(CHECKPOINTS)?, [KeySegment::id(run)?])?;
    let index = DocumentKey::new(CollectionId::new(INDEX)?, [KeySegment::id(thread)?, KeySegment::id(run)?])?;
    Ok([checkpoint.in_thread(thread.clone()), index.into()])
}

/// Returns the query for the whole index.
pub(super) fn index() -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(INDEX)?))
}

/// Returns the query for the entries of a thread in the index.
pub(in crate::layers) fn entries_of(thread: &ThreadId) -> Result<DocumentQuery> {
    Ok(index()?.starting_with([KeySegment::id(thread)?]))
}

/// Reads the thread and the run from an entry of the index.
pub(super) fn indexed(entry: &Document) -> Result<(ThreadId, RunId)> {
    match entry.key.segments().as_slice() {
        [KeySegment::Id(thread), KeySegment::Id(run)] => Ok((ThreadId::new(thread)?, RunId::new(run)?)),
        _ => Err(unreadable(entry)),
    }
}
