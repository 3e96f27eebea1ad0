//! Removing blobs that nothing refers to, beside commits that refer to them (BL-5).

use std::{collections::BTreeMap, time::Duration};

use super::{
    record::{BlobHash, CollectBlobs, CollectedBlobs, MIN_GRACE},
    rules,
    store::{BlobLayer, Found, revision_of},
};
use crate::{
    document::{DeleteDocuments, Document, DocumentChange, DocumentExpect, WriteDocuments},
    error::{Error, ErrorKind, Result},
    ext::DocumentStoreExt,
    id::ThreadId,
    json::Json,
    layers::load_in_parts,
    object::{ObjectKey, StoredObject},
    page::{MAX_PAGE, PageRequest},
    progress::{IgnoreProgress, Progress},
    time::Timestamp,
};

/// The number of blobs, and of what leads to threads, that are looked at together.
const BATCH: u32 = 200;

/// How long the marks of removed objects are kept. No upload is continued after that.
const KEPT_LEFTOVER_MARKS: Duration = Duration::from_hours(30 * 24);

/// What a collection does with a blob that nothing refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It gets a mark. Its grace time begins.
    Marked,
    /// Its grace time is not over.
    Kept,
    /// It is removed.
    Removed,
}

/// Decides about a blob that nothing refers to.
fn fate(marked_at: Option<Timestamp>, now: Timestamp, grace: Duration) -> Fate {
    match marked_at {
        None => Fate::Marked,
        Some(marked_at) if now >= marked_at.saturating_add(grace) => Fate::Removed,
        Some(_) => Fate::Kept,
    }
}

impl BlobLayer {
    /// Marks and removes blobs, and then removes objects without a blob.
    pub(super) async fn collect(&self, request: CollectBlobs, progress: &dyn Progress) -> Result<CollectedBlobs> {
        if request.grace < MIN_GRACE {
            return Err(Error::invalid("grace time", "it must be at least one hour"));
        }
        let now = self.clock.now();
        let mut collected = CollectedBlobs::default();
        let mut next = Some(PageRequest::first(BATCH));
        let mut done = 0;
        while let Some(page) = next.take() {
            let page = self.store.documents.list_documents(rules::blobs_query()?.with_page(page)).await?;
            let hashes = page.items.iter().map(rules::hash_in).collect::<Result<Vec<_>>>()?;
            // The marks are read before the references: while a mark stays, no reference is added.
            for (hash, found) in hashes.iter().zip(self.load_all(&hashes).await?) {
                if let Some(found) = found {
                    self.collect_one(hash, &found, (now, &request), &mut collected).await?;
                }
                done += 1;
            }
            next = page.next.map(|cursor| PageRequest::first(BATCH).after(cursor));
            if next.is_some() && !progress.advance(done, None) {
                collected.stopped = true;
                return Ok(collected);
            }
        }
        self.remove_leftovers(now.saturating_sub(request.grace), request.dry_run, &mut collected).await?;
        Ok(collected)
    }

    /// Collects a blob as it was found. What has changed since then stays as it is: each write expects what was found.
    async fn collect_one(
        &self,
        hash: &BlobHash,
        found: &Found,
        (now, request): (Timestamp, &CollectBlobs),
        collected: &mut CollectedBlobs,
    ) -> Result<()> {
        let is_referenced = self.is_referenced(hash, request.dry_run).await?;
        if is_referenced {
            // A thread was referring to it before it was marked.
            if let (Some(mark), false) = (&found.mark, request.dry_run) {
                self.try_write([DocumentChange::delete(rules::mark(hash)?).expecting(revision_of(mark))]).await?;
            }
            return Ok(());
        }
        match fate(found.mark.as_ref().map(|mark| mark.created_at), now, request.grace) {
            Fate::Kept => {}
            Fate::Marked => {
                if request.dry_run || self.try_mark(hash, found).await? {
                    collected.marked += 1;
                }
            }
            Fate::Removed => {
                if request.dry_run || self.try_remove(hash, found).await? {
                    collected.removed += 1;
                    collected.removed_bytes += found.stored.bytes;
                }
            }
        }
        Ok(())
    }

    /// Writes changes. Returns false if something has changed since they were planned.
    async fn try_write(&self, changes: impl IntoIterator<Item = DocumentChange>) -> Result<bool> {
        match self.store.documents.write_documents(WriteDocuments::new(changes)).await {
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => Ok(false),
            written => written.map(|_| true),
        }
    }

    async fn try_mark(&self, hash: &BlobHash, found: &Found) -> Result<bool> {
        let put = DocumentChange::put(rules::mark(hash)?, Json::parse("{}")?).expecting(DocumentExpect::Absent);
        self.try_write([put, DocumentChange::check(rules::blob_document(hash)?, revision_of(&found.document))]).await
    }

    /// Removes a marked blob that nothing refers to. Its object goes after its documents, so that no reader finds a
    /// blob without its bytes.
    async fn try_remove(&self, hash: &BlobHash, found: &Found) -> Result<bool> {
        let Some(mark) = &found.mark else { return Ok(false) };
        let blob = DocumentChange::delete(rules::blob_document(hash)?).expecting(revision_of(&found.document));
        let unmark = DocumentChange::delete(rules::mark(hash)?).expecting(revision_of(mark));
        let is_removed = self.try_write([blob, unmark]).await?;
        if is_removed {
            self.objects.delete_objects(&[found.stored.object()?]).await?;
        }
        Ok(is_removed)
    }

    /// Removes a blob unless something refers to it, without a grace time. Returns whether it is gone.
    pub(super) async fn remove_if_unreferenced(&self, hash: &BlobHash) -> Result<bool> {
        let load = || async { Ok::<_, Error>(self.load_all(std::slice::from_ref(hash)).await?.pop().flatten()) };
        let Some(mut found) = load().await? else { return Ok(true) };
        if found.mark.is_none() {
            self.try_mark(hash, &found).await?;
            match load().await? {
                Some(marked) => found = marked,
                None => return Ok(true),
            }
        }
        if !self.is_referenced(hash, false).await? {
            return self.try_remove(hash, &found).await;
        }
        if let Some(mark) = &found.mark {
            self.try_write([DocumentChange::delete(rules::mark(hash)?).expecting(revision_of(mark))]).await?;
        }
        Ok(false)
    }

    /// Returns whether a thread refers to a blob. Unless it is a dry run, what deleted threads have left is removed, so
    /// that no later collection looks at it.
    async fn is_referenced(&self, hash: &BlobHash, dry_run: bool) -> Result<bool> {
        let (query, mut next) = (rules::referrers_query(hash)?, Some(PageRequest::first(BATCH)));
        while let Some(page) = next.take() {
            let page = self.store.documents.list_documents(query.clone().with_page(page)).await?;
            let living = self.living_referrers(hash, &page.items).await?;
            if living.iter().any(Option::is_some) {
                return Ok(true);
            }
            if !dry_run && !page.items.is_empty() {
                let remove = |left: &Document| DocumentChange::delete(left.to_ref()).expecting(revision_of(left));
                self.try_write(page.items.iter().map(remove)).await?;
            }
            next = page.next.map(|cursor| PageRequest::first(BATCH).after(cursor));
        }
        Ok(false)
    }

    /// Returns the threads that documents lead to from a blob, in their order; none for a thread that was deleted.
    pub(super) async fn living_referrers(
        &self,
        hash: &BlobHash,
        referrers: &[Document],
    ) -> Result<Vec<Option<ThreadId>>> {
        let threads = referrers.iter().map(rules::thread_of_referrer).collect::<Result<Vec<_>>>()?;
        let names = threads.iter().map(|thread| rules::reference(hash, thread)).collect::<Result<Vec<_>>>()?;
        let references = load_in_parts(&*self.store.documents, &names).await?;
        let mut living = Vec::new();
        for ((thread, referrer), reference) in threads.into_iter().zip(referrers).zip(references) {
            let is_living =
                reference.is_some() || (rules::is_early(referrer) && self.counts_early(&thread, referrer).await?);
            living.push(is_living.then_some(thread));
        }
        Ok(living)
    }

    /// Returns whether a referrer that was written before its thread still counts: its thread exists by now, or may be
    /// about to be created.
    async fn counts_early(&self, thread: &ThreadId, referrer: &Document) -> Result<bool> {
        let is_young = self.clock.now() < referrer.updated_at.saturating_add(MIN_GRACE);
        Ok(is_young || self.threads.load_thread(thread).await?.is_some())
    }

    /// Removes objects that were stored before a time and belong to no blob, and unfinished uploads.
    async fn remove_leftovers(&self, before: Timestamp, dry_run: bool, collected: &mut CollectedBlobs) -> Result<()> {
        let mut next = Some(PageRequest::first(MAX_PAGE));
        while let Some(page) = next.take() {
            let page = self.objects.list_objects(page).await?;
            let old: Vec<_> = page.items.into_iter().filter(|object| object.created_at < before).collect();
            let hashes: Vec<_> = old.iter().filter_map(|object| object.key.hash()).collect();
            let found = self.load_all(&hashes).await?;
            let found: BTreeMap<_, _> = hashes.into_iter().zip(found).collect();
            for StoredObject { key, .. } in &old {
                let blob = key.hash().and_then(|hash| found.get(&hash)?.as_ref());
                let is_of_blob = blob.is_some_and(|blob| blob.stored.object == key.as_str());
                if !is_of_blob && (dry_run || self.remove_leftover(key, blob).await?) {
                    collected.leftovers += 1;
                }
            }
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
        }
        if !dry_run {
            collected.leftovers += self.objects.discard_uploads(before).await?;
            let old_marks = DeleteDocuments::new(rules::leftovers_query()?);
            let old_marks = old_marks.updated_before(before.saturating_sub(KEPT_LEFTOVER_MARKS));
            self.store.documents.delete_documents(old_marks, &IgnoreProgress).await?;
        }
        Ok(())
    }

    /// Removes an object, unless a blob was recorded with it meanwhile. The mark keeps the caller that has uploaded the
    /// object, and was stopped since, from recording a blob without bytes.
    async fn remove_leftover(&self, key: &ObjectKey, blob: Option<&Found>) -> Result<bool> {
        let mut changes = vec![DocumentChange::put(rules::leftover(key)?, Json::parse("{}")?)];
        if let Some(hash) = key.hash() {
            let unchanged = blob.map_or(DocumentExpect::Absent, |blob| revision_of(&blob.document));
            changes.push(DocumentChange::check(rules::blob_document(&hash)?, unchanged));
        }
        let is_marked = self.try_write(changes).await?;
        if is_marked {
            self.objects.delete_objects(std::slice::from_ref(key)).await?;
        }
        Ok(is_marked)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Fate, fate};
    use crate::Timestamp;

    #[test]
    fn a_blob_is_removed_when_the_grace_time_of_its_mark_is_over() {
        let time = |millis| Timestamp::from_millis(millis).unwrap();
        let grace = Duration::from_millis(100);
        assert_eq!(fate(None, time(1_000), grace), Fate::Marked);
        assert_eq!(fate(Some(time(1_000)), time(1_000), grace), Fate::Kept);
        assert_eq!(fate(Some(time(1_000)), time(1_099), grace), Fate::Kept);
        assert_eq!(fate(Some(time(1_000)), time(1_100), grace), Fate::Removed);
        // A clock that was set back.
        assert_eq!(fate(Some(time(1_000)), time(0), grace), Fate::Kept);
    }
}
