//! The contract of documents.

use async_trait::async_trait;

use super::{Document, DocumentQuery, DocumentRef, WriteDocuments, WrittenDocuments};
use crate::{error::Result, page::Page};

/// JSON values under ordered keys, with revisions. Commits write documents too, in their own atomic step.
///
/// [`DocumentStoreExt`](crate::DocumentStoreExt) adds what can be said with these methods.
#[async_trait]
pub trait DocumentStore: Send + Sync {
    /// Loads documents as of one moment, in the order given. A document that does not exist is none (DO-5).
    ///
    /// # Guarantees
    /// - No reader sees only a part of a write (DO-1, PR-13).
    /// - One document is loaded whatever its size. So is what one write or one commit has put.
    ///
    /// # Errors
    /// `LimitExceeded` for more than 1,000 documents, and if their values have more than 128 MiB together
    /// ([`Limits::load_bytes`](crate::Limits::load_bytes)). In the second case the part is `documents[n]`: those before
    /// index n can be loaded.
    async fn load_documents(&self, documents: &[DocumentRef]) -> Result<Vec<Option<Document>>>;

    /// Lists the documents of a collection and scope in the order of their keys, in pages (DO-6).
    ///
    /// # Guarantees
    /// - Segment by segment, numbers are ordered by value and ids by their bytes, and numbers come before ids.
    /// - A walk misses no document that stays, and repeats none.
    /// - The cost of a page does not depend on documents that it does not return.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `LimitExceeded` for a prefix or a bound that no key can have;
    /// `InvalidCursor` for a cursor of another list or store, or of a thread that was deleted.
    async fn list_documents(&self, query: DocumentQuery) -> Result<Page<Document>>;

    /// Makes all changes and appends all events, or does nothing of it (DO-1).
    ///
    /// # Guarantees
    /// - The first expectation that does not hold refuses everything (DO-2). Of several writers that expect the same
    ///   revision of a document, exactly one succeeds (DO-4).
    /// - All documents that are put get one revision. It is larger than every revision that any of them ever had, even
    ///   before a deletion (DO-3).
    ///
    /// # Errors
    /// In this order:
    /// - `Invalid` and `LimitExceeded`, which name the part.
    /// - `ClaimLost` and `StaleEpoch` under a fence (DO-13).
    /// - `NotFound` if a document belongs to a thread that does not exist (DO-8).
    /// - `Conflict` for an expectation that does not hold.
    /// - The errors of [`append_events`](crate::EventWriter::append_events).
    ///
    /// After an `Unknown` outcome, load the documents and compare them. If each change expects a revision or the
    /// absence of its document, the write can also be repeated: `Conflict` then means that it was applied, or that
    /// another writer was faster.
    async fn write_documents(&self, request: WriteDocuments) -> Result<WrittenDocuments>;
}
