//! Counts and deletions of many documents, in batches.

use async_trait::async_trait;

use crate::{
    document::{
        DeleteDocuments, DeletedDocuments, Document, DocumentChange, DocumentExpect, DocumentQuery, DocumentRef,
        DocumentStore, WriteDocuments,
    },
    error::{ErrorKind, Result},
    limits::length,
    log::Direction,
    page::{MAX_PAGE, PageRequest},
    progress::Progress,
};

/// How often a deletion reads and decides a batch again because another writer changed one of its documents.
const MAX_CONFLICTS: u32 = 100;

/// What can be done with documents by several calls of a [`DocumentStore`].
#[async_trait]
pub trait DocumentStoreExt: DocumentStore {
    /// Loads one document, or none if it does not exist.
    ///
    /// # Errors
    /// The errors of [`load_documents`](DocumentStore::load_documents).
    async fn load_document(&self, document: &DocumentRef) -> Result<Option<Document>> {
        Ok(self.load_documents(std::slice::from_ref(document)).await?.pop().flatten())
    }

    /// Counts the documents that a query lists, whatever its page (DO-11). It reads them.
    ///
    /// The count is exact if no document of the list is created or deleted meanwhile.
    ///
    /// # Errors
    /// The errors of [`list_documents`](DocumentStore::list_documents).
    async fn count_documents(&self, query: DocumentQuery) -> Result<u64> {
        let (mut count, mut next) = (0, Some(PageRequest::first(MAX_PAGE)));
        while let Some(request) = next.take() {
            let page = self.list_documents(query.clone().with_page(request)).await?;
            count += length(page.items.len());
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
        Ok(count)
    }

    /// Removes the documents that a query lists, in batches (DO-11). With `dry_run` it only counts them.
    ///
    /// # Guarantees
    /// - Each batch is one atomic write.
    /// - With `updated_before`, no document is removed that was put at that time or later, even if it was put while the
    ///   deletion ran.
    /// - The deletion may be stopped between two batches without harm.
    ///
    /// # Errors
    /// The errors of [`list_documents`](DocumentStore::list_documents) and of
    /// [`write_documents`](DocumentStore::write_documents); `Conflict` if other writers keep changing one batch. After
    /// an `Unknown` outcome, or if the call did not end, repeat it.
    async fn delete_documents(&self, request: DeleteDocuments, progress: &dyn Progress) -> Result<DeletedDocuments> {
        let DeleteDocuments { query, updated_before, dry_run } = request;
        let query = query.with_direction(Direction::Forward);
        let (mut deleted, mut batch, mut conflicts) = (0, PageRequest::first(MAX_PAGE), 0);
        loop {
            let page = self.list_documents(query.clone().with_page(batch.clone())).await?;
            let is_old = |document: &&Document| updated_before.is_none_or(|time| document.updated_at < time);
            let old_documents: Vec<_> = page.items.iter().filter(is_old).collect();
            if !dry_run && !old_documents.is_empty() {
                let changes = old_documents.iter().map(|document| {
                    // A document that was put again since it was listed is not old any more.
                    let unchanged = DocumentExpect::Revision(document.revision);
                    let expect = updated_before.map_or(DocumentExpect::Any, |_| unchanged);
                    DocumentChange::delete(document.to_ref()).expecting(expect)
                });
                match self.write_documents(WriteDocuments::new(changes)).await {
                    Ok(_) => {}
                    // Another writer changed a document of the batch. The batch is read and decided again.
                    Err(error) if error.kind() == ErrorKind::Conflict && conflicts < MAX_CONFLICTS => {
                        conflicts += 1;
                        continue;
                    }
                    Err(error) => return Err(error),
                }
            }
            deleted += length(old_documents.len());
            let Some(cursor) = page.next else { return Ok(DeletedDocuments::new(deleted, false)) };
            if !progress.advance(deleted, None) {
                return Ok(DeletedDocuments::new(deleted, true));
            }
            (batch, conflicts) = (batch.after(cursor), 0);
        }
    }
}

impl<S: DocumentStore + ?Sized> DocumentStoreExt for S {}
