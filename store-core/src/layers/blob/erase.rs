//! The blobs of a thread that is erased (PV-1).

use super::{
    record::BlobHash,
    rules,
    store::{BlobLayer, BlobStore},
};
use crate::{
    document::{DocumentChange, KeySegment, WriteDocuments},
    error::{Error, Result},
    id::ThreadId,
    json::Json,
    limits::length,
    page::{MAX_PAGE, PageRequest},
};

/// The number of blobs that are noted, or looked at, together.
const BATCH: u32 = 200;

impl BlobLayer {
    /// Notes which blobs a thread refers to, before it is deleted. The notes stay until
    /// [`erase_noted`](Self::erase_noted), so that an erasure that was interrupted can go on.
    pub(in crate::layers) async fn note_erasure(&self, thread: &ThreadId) -> Result<()> {
        let mut next = Some(PageRequest::first(BATCH));
        while let Some(page) = next.take() {
            let page = self.list_thread_blobs(thread, page).await?;
            let note = |hash: &BlobHash| Ok(DocumentChange::put(rules::erasing(thread, hash)?, Json::parse("{}")?));
            let notes = page.items.iter().map(note).collect::<Result<Vec<_>>>()?;
            if !notes.is_empty() {
                self.store.documents.write_documents(WriteDocuments::new(notes)).await?;
            }
            next = page.next.map(|cursor| PageRequest::first(BATCH).after(cursor));
        }
        Ok(())
    }

    /// Removes the blobs that were noted for a thread, which is deleted by now, unless something else refers to them.
    /// Returns how many they were.
    pub(in crate::layers) async fn erase_noted(&self, thread: &ThreadId) -> Result<u64> {
        let mut erased = 0;
        loop {
            // What was looked at is removed, so each page is the first one.
            let query = rules::erasing_query(thread)?.with_page(PageRequest::first(BATCH));
            let page = self.store.documents.list_documents(query).await?;
            let hashes = page.items.iter().map(rules::hash_of_erasing).collect::<Result<Vec<_>>>()?;
            if hashes.is_empty() {
                return Ok(erased);
            }
            let forget = |hash: &BlobHash| Ok(DocumentChange::delete(rules::referrer(hash, thread)?));
            let forgotten = hashes.iter().map(forget).collect::<Result<Vec<_>>>()?;
            self.store.documents.write_documents(WriteDocuments::new(forgotten)).await?;
            erased += length(self.remove_unreferenced(&hashes).await?.removed.len());
            let notes = page.items.iter().map(|note| DocumentChange::delete(note.to_ref()));
            self.store.documents.write_documents(WriteDocuments::new(notes)).await?;
        }
    }

    /// Removes the blobs that were noted for threads which are deleted by now: those of erasures that were interrupted.
    pub(in crate::layers) async fn erase_noted_of_deleted(&self) -> Result<u64> {
        let mut erased = 0;
        let mut after: Option<ThreadId> = None;
        loop {
            let mut query = rules::all_erasing_query()?.with_page(PageRequest::first(1));
            query.after_prefix =
                after.as_ref().map(|thread| Ok::<_, Error>(vec![KeySegment::id(thread)?])).transpose()?;
            let page = self.store.documents.list_documents(query).await?;
            let Some(note) = page.items.first() else { return Ok(erased) };
            let thread = rules::thread_of_erasing(note)?;
            if self.threads.load_thread(&thread).await?.is_none() {
                erased += self.erase_noted(&thread).await?;
            }
            after = Some(thread);
        }
    }

    /// Counts the blobs that only this thread refers to.
    pub(in crate::layers) async fn count_of_thread_alone(&self, thread: &ThreadId) -> Result<u64> {
        let (mut count, mut next) = (0, Some(PageRequest::first(MAX_PAGE)));
        while let Some(page) = next.take() {
            let page = self.list_thread_blobs(thread, page).await?;
            for hash in &page.items {
                count += u64::from(self.is_of_thread_alone(hash, thread).await?);
            }
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
        Ok(count)
    }

    async fn is_of_thread_alone(&self, hash: &BlobHash, thread: &ThreadId) -> Result<bool> {
        let mut next = Some(PageRequest::first(BATCH));
        while let Some(page) = next.take() {
            let page = self.list_blob_referrers(hash, page).await?;
            if page.items.iter().any(|referrer| referrer != thread) {
                return Ok(false);
            }
            next = page.next.map(|cursor| PageRequest::first(BATCH).after(cursor));
        }
        Ok(true)
    }
}
