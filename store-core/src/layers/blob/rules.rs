//! The rules of blobs: where they are kept, who refers to them, what may be removed.

use std::collections::BTreeSet;

use super::record::BlobHash;
use crate::{
    document::{
        Document, DocumentChange, DocumentExpect, DocumentKey, DocumentQuery, DocumentRef, DocumentScope, KeySegment,
    },
    error::{Detail, Error, Result},
    id::{CollectionId, ThreadId},
    json::Json,
    object::ObjectKey,
};

// The collections, with what their keys consist of. The names are stored and never change.

/// Hash: the blob.
const BLOBS: &str = "layer.blobs";
/// Hash: a collection has found that nothing refers to the blob. While the mark exists, nothing can refer to it.
const MARKS: &str = "layer.blobs.marks";
/// Hash; in the scope of a thread: the thread refers to the blob.
const REFERENCES: &str = "layer.blobs.references";
/// Hash, thread: leads from a blob to the threads that refer to it. A thread that was deleted may have left it. Its
/// value says whether the thread had to exist when it was written.
const REFERRERS: &str = "layer.blobs.referrers";

/// Key of an object: a collection removes the object, so no caller may record a blob with it.
const LEFTOVERS: &str = "layer.blobs.leftovers";

/// Thread, hash: the thread is erased, and then the blob, if nothing else refers to it.
const ERASING: &str = "layer.blobs.erasing";

/// The value of a referrer that was written before its thread. It is stored and never changes.
const BEFORE_THREAD: &str = r#"{"before_thread":true}"#;

fn key(collection: &str, segments: impl IntoIterator<Item = KeySegment>) -> Result<DocumentKey> {
    DocumentKey::new(CollectionId::new(collection)?, segments)
}

fn hash_segment(hash: &BlobHash) -> Result<KeySegment> {
    KeySegment::id(hash.as_str())
}

/// Names the document of a blob.
pub(super) fn blob_document(hash: &BlobHash) -> Result<DocumentRef> {
    Ok(key(BLOBS, [hash_segment(hash)?])?.into())
}

/// Names the mark of a blob.
pub(super) fn mark(hash: &BlobHash) -> Result<DocumentRef> {
    Ok(key(MARKS, [hash_segment(hash)?])?.into())
}

/// Names the reference of a thread to a blob.
pub(super) fn reference(hash: &BlobHash, thread: &ThreadId) -> Result<DocumentRef> {
    Ok(key(REFERENCES, [hash_segment(hash)?])?.in_thread(thread.clone()))
}

pub(super) fn referrer(hash: &BlobHash, thread: &ThreadId) -> Result<DocumentRef> {
    Ok(key(REFERRERS, [hash_segment(hash)?, KeySegment::id(thread)?])?.into())
}

/// Names the mark of an object that is removed because it belongs to no blob.
pub(super) fn leftover(object: &ObjectKey) -> Result<DocumentRef> {
    Ok(key(LEFTOVERS, [KeySegment::id(object.as_str())?])?.into())
}

/// Returns the query for the marks of objects that were removed.
pub(super) fn leftovers_query() -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(LEFTOVERS)?))
}

/// Names the note that a blob is erased with a thread.
pub(super) fn erasing(thread: &ThreadId, hash: &BlobHash) -> Result<DocumentRef> {
    Ok(key(ERASING, [KeySegment::id(thread)?, hash_segment(hash)?])?.into())
}

/// Returns the query for the blobs that are erased with a thread.
pub(super) fn erasing_query(thread: &ThreadId) -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(ERASING)?).starting_with([KeySegment::id(thread)?]))
}

/// Returns the query for the blobs that are erased with any thread.
pub(super) fn all_erasing_query() -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(ERASING)?))
}

/// Reads the thread from such a note.
pub(super) fn thread_of_erasing(note: &Document) -> Result<ThreadId> {
    match note.key.segments().as_slice() {
        [KeySegment::Id(thread), _] => ThreadId::new(thread),
        _ => Err(super::record::unreadable(note)),
    }
}

/// Reads the hash from such a note.
pub(super) fn hash_of_erasing(note: &Document) -> Result<BlobHash> {
    match note.key.segments().as_slice() {
        [_, KeySegment::Id(hash)] => BlobHash::new(hash.as_str()),
        _ => Err(super::record::unreadable(note)),
    }
}

/// Returns the query for all blobs.
pub(super) fn blobs_query() -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(BLOBS)?))
}

/// Returns the query for what leads from a blob to the threads that refer to it.
pub(super) fn referrers_query(hash: &BlobHash) -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(REFERRERS)?).starting_with([hash_segment(hash)?]))
}

/// Returns the query for the references of a thread.
pub(super) fn references_query(thread: &ThreadId) -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(REFERENCES)?).in_scope(DocumentScope::Thread(thread.clone())))
}

/// Reads the hash with which the key of a document begins.
pub(super) fn hash_in(document: &Document) -> Result<BlobHash> {
    match document.key.segments().first() {
        Some(KeySegment::Id(hash)) => BlobHash::new(hash.as_str()),
        _ => Err(super::record::unreadable(document)),
    }
}

/// Reads the thread that a referrer leads to.
pub(super) fn thread_of_referrer(document: &Document) -> Result<ThreadId> {
    match document.key.segments().as_slice() {
        [_, KeySegment::Id(thread)] => ThreadId::new(thread),
        _ => Err(super::record::unreadable(document)),
    }
}

/// The number of changes with which a thread refers to a blob.
pub(super) const REFERENCE_CHANGES: usize = 4;

/// Returns the changes with which a thread refers to a blob, for the write that needs it.
///
/// The write is refused with `Conflict` if the blob does not exist, or if a collection has marked it:
/// [`BlobStore::touch_blobs`](super::BlobStore::touch_blobs) then tells the two apart. From this write on, the blob
/// stays as long as the thread. Commits through [`with_blobs`](super::with_blobs) contain these changes for the blobs
/// that their messages name; other values of an application, such as a state that names a blob, need them.
///
/// ```
/// use store_core::{BlobHash, Commit, Result, ThreadId, reference_changes};
///
/// fn commit_with_report(thread: ThreadId, report: &BlobHash) -> Result<Commit> {
///     let changes = reference_changes(&thread, report)?;
///     Ok(Commit::new(thread).with_documents(changes))
/// }
/// ```
///
/// # Errors
/// None for any hash and thread.
pub fn reference_changes(thread: &ThreadId, hash: &BlobHash) -> Result<[DocumentChange; REFERENCE_CHANGES]> {
    let [exists, is_unmarked] = checks(hash)?;
    let nothing = Json::parse("{}")?;
    let refers = DocumentChange::put(reference(hash, thread)?, nothing.clone());
    Ok([exists, is_unmarked, refers, DocumentChange::put(referrer(hash, thread)?, nothing)])
}

/// Returns the checks that a blob exists and that no collection has marked it.
fn checks(hash: &BlobHash) -> Result<[DocumentChange; 2]> {
    Ok([
        DocumentChange::check(blob_document(hash)?, DocumentExpect::Present),
        DocumentChange::check(mark(hash)?, DocumentExpect::Absent),
    ])
}

/// Returns the changes with which a thread that does not exist yet refers to a blob, for a call that creates it after
/// them. The reference counts for the grace time, and then as long as there is a thread of that name.
pub(super) fn early_reference_changes(thread: &ThreadId, hash: &BlobHash) -> Result<[DocumentChange; 3]> {
    let [exists, is_unmarked] = checks(hash)?;
    Ok([exists, is_unmarked, DocumentChange::put(referrer(hash, thread)?, Json::parse(BEFORE_THREAD)?)])
}

/// Returns whether a referrer was written before its thread.
pub(super) fn is_early(referrer: &Document) -> bool {
    referrer.value.as_str() == BEFORE_THREAD
}

/// Adds to the changes of a write those with which a thread refers to blobs, unless they are there already.
pub(super) fn add_references(
    changes: &mut Vec<DocumentChange>,
    thread: &ThreadId,
    hashes: &BTreeSet<BlobHash>,
) -> Result<()> {
    for hash in hashes {
        let wanted = reference(hash, thread)?;
        if !changes.iter().any(|change| change.document == wanted) {
            changes.extend(reference_changes(thread, hash)?);
        }
    }
    Ok(())
}

/// Returns whether a write was refused because a blob does not exist or is marked.
pub(super) fn is_about_blobs(error: &Error) -> bool {
    let Detail::DocumentConflict { document, .. } = error.detail() else { return false };
    [BLOBS, MARKS].contains(&document.key.collection().as_str())
}

/// Returns the error for a blob that does not exist.
pub(super) fn missing(hash: &BlobHash) -> Error {
    Error::not_found("blob", hash.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{add_references, is_about_blobs, reference_changes};
    use crate::{
        BlobHash, Detail, DocumentExpect, Error, ThreadId,
        layers::blob::rules::{blob_document, mark, reference},
    };

    #[test]
    fn a_reference_is_added_once() {
        let (thread, hash) = (ThreadId::new("t").unwrap(), BlobHash::of(b"a"));
        let mut changes = reference_changes(&thread, &hash).unwrap().to_vec();
        let hashes = BTreeSet::from([hash, BlobHash::of(b"b")]);
        add_references(&mut changes, &thread, &hashes).unwrap();
        assert_eq!(changes.len(), 8);
        add_references(&mut changes, &thread, &hashes).unwrap();
        assert_eq!(changes.len(), 8);
    }

    #[test]
    fn only_conflicts_of_blobs_and_marks_are_about_blobs() {
        let (thread, hash) = (ThreadId::new("t").unwrap(), BlobHash::of(b"a"));
        for (document, wanted) in [
            (blob_document(&hash).unwrap(), true),
            (mark(&hash).unwrap(), true),
            (reference(&hash, &thread).unwrap(), false),
        ] {
            let (document, expected) = (Box::new(document), DocumentExpect::Absent);
            let error = Error::new(Detail::DocumentConflict { document, expected, actual: Some(1) });
            assert_eq!(is_about_blobs(&error), wanted);
        }
        assert!(!is_about_blobs(&Error::conflict("thread", None, None)));
    }
}
