//! Pending input that refers to blobs, and whose large blocks become blobs.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use async_trait::async_trait;

use super::{
    commits::RecordBlobs,
    moved::{self, Blocks, MovedBytes},
    reads::load_moved,
    record::BlobHash,
    rules,
};
use crate::{
    document::{DocumentChange, WriteDocuments},
    error::{Detail, Error, Result, Subject},
    id::{EntryId, ThreadId},
    page::{Page, PageRequest},
    pending::{AppendPending, AppendedInputs, PendingInput, PendingQueue, PendingStore, PendingUpdate, Reorder},
};

/// The number of blobs to which one write refers.
const WRITTEN_AT_ONCE: usize = 200;

/// Pending input that uses blobs.
pub(super) struct PendingWithBlobs {
    inner: Arc<dyn PendingStore>,
    blobs: RecordBlobs,
}

impl PendingWithBlobs {
    pub(super) const fn new(inner: Arc<dyn PendingStore>, blobs: RecordBlobs) -> Self {
        Self { inner, blobs }
    }

    /// Moves large blocks out of inputs, stores them, and lets the thread refer to all blobs that the inputs name.
    ///
    /// It does so before the inputs are written: a reference that nothing uses costs little, and an input whose blob is
    /// gone could never be delivered. An append may create its thread; then the reference is written before the thread.
    /// Returns the blobs for which this was so.
    async fn prepare<'a>(
        &self,
        thread: &ThreadId,
        bodies: impl Iterator<Item = &'a mut (impl Blocks + 'a)> + Send,
    ) -> Result<BTreeSet<BlobHash>> {
        let (mut moved_bytes, mut names) = (MovedBytes::new(), BTreeSet::<BlobHash>::new());
        for (index, body) in bodies.enumerate() {
            // A block that is moved may name a blob itself.
            moved::add_named(body, &mut names).map_err(|error| error.in_part(format!("inputs[{index}]")))?;
            if let Some(above) = self.blobs.options.move_above {
                moved::move_out(body, (above, usize::MAX), &mut moved_bytes)?;
            }
        }
        names.extend(moved_bytes.keys().cloned());
        self.blobs.put_moved(moved_bytes).await?;
        let all: Vec<_> = names.into_iter().collect();
        let mut early = BTreeSet::new();
        for names in all.chunks(WRITTEN_AT_ONCE) {
            let names = names.iter().cloned().collect();
            if !self.refer(thread, &names).await? {
                early.extend(names);
            }
        }
        Ok(early)
    }

    /// Lets a thread refer to blobs. Returns false if the thread does not exist, so that it refers to them only early.
    async fn refer(&self, thread: &ThreadId, names: &BTreeSet<BlobHash>) -> Result<bool> {
        let (mut changes, mut early_changes) = (Vec::new(), Vec::new());
        rules::add_references(&mut changes, thread, names)?;
        for hash in names {
            early_changes.extend(rules::early_reference_changes(thread, hash)?);
        }
        match self.write(names, changes).await {
            Err(error) if is_about_thread(&error, thread) => self.write(names, early_changes).await.map(|()| false),
            written => written.map(|()| true),
        }
    }

    async fn write(&self, names: &BTreeSet<BlobHash>, changes: Vec<DocumentChange>) -> Result<()> {
        let (write, documents) = (WriteDocuments::new(changes), &self.blobs.layer.store.documents);
        self.blobs.write(names, || documents.write_documents(write.clone())).await.map(drop)
    }

    /// Puts back what was moved out of inputs.
    async fn put_back(&self, inputs: &mut [PendingInput]) -> Result<()> {
        let mut wanted = BTreeMap::new();
        for input in &*inputs {
            moved::add_moved(&input.body, &mut wanted)?;
        }
        let loaded = load_moved(&self.blobs.layer, &wanted).await?;
        inputs.iter_mut().try_for_each(|input| moved::put_back(&mut input.body, &loaded))
    }
}

/// Returns whether a write was refused because its thread does not exist.
fn is_about_thread(error: &Error, thread: &ThreadId) -> bool {
    matches!(error.detail(), Detail::NotFound { what } if *what == Subject::new("thread", thread))
}

#[async_trait]
impl PendingStore for PendingWithBlobs {
    async fn append_pending(&self, mut request: AppendPending) -> Result<AppendedInputs> {
        let thread = request.thread.clone();
        let early = self.prepare(&thread, request.inputs.iter_mut().map(|input| &mut input.body)).await?;
        let appended = self.inner.append_pending(request).await?;
        let early: Vec<_> = early.into_iter().collect();
        for names in early.chunks(WRITTEN_AT_ONCE) {
            // The thread exists now, and gets references of its own. If that fails, the early ones still count.
            let _stays_early = self.refer(&thread, &names.iter().cloned().collect()).await;
        }
        Ok(appended)
    }

    async fn load_queue(&self, thread: &ThreadId) -> Result<PendingQueue> {
        let mut queue = self.inner.load_queue(thread).await?;
        self.put_back(&mut queue.inputs).await?;
        Ok(queue)
    }

    async fn update_pending(&self, mut request: PendingUpdate) -> Result<PendingInput> {
        let _early = self.prepare(&request.thread, request.message.iter_mut()).await?;
        let mut updated = [self.inner.update_pending(request).await?];
        self.put_back(&mut updated).await?;
        let [updated] = updated;
        Ok(updated)
    }

    async fn retract_pending(&self, thread: &ThreadId, id: &EntryId) -> Result<PendingInput> {
        let mut retracted = [self.inner.retract_pending(thread, id).await?];
        self.put_back(&mut retracted).await?;
        let [retracted] = retracted;
        Ok(retracted)
    }

    async fn reorder_pending(&self, request: Reorder) -> Result<u64> {
        self.inner.reorder_pending(request).await
    }

    async fn list_threads_with_pending(&self, page: PageRequest) -> Result<Page<ThreadId>> {
        self.inner.list_threads_with_pending(page).await
    }
}
