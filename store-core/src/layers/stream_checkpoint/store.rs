//! The contract of stream checkpoints, and its implementation over documents.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use super::{
    keys::{documents_of, index, indexed},
    record::{StoredCheckpoint, StreamCheckpoint},
    request::{PurgeStreamCheckpoints, PurgedStreamCheckpoints, PutStreamCheckpoint, StreamCheckpointOutcome},
    rules::{is_needed, plan_put, stream_checkpoint_removal},
};
use crate::{
    document::{Document, DocumentChange, DocumentExpect, WriteDocuments},
    error::{Detail, Error, ErrorKind, Result},
    ext::DocumentStoreExt,
    id::{RunId, ThreadId},
    layers::{LayerStore, plan_and_write},
    page::{MAX_PAGE, PageRequest},
    progress::Progress,
    store::TenantStores,
    thread::ThreadRunStore,
};

/// The part of an answer that was received before its stream broke, one checkpoint for each run.
///
/// A checkpoint is never part of the log or of a context (SC-6). The commit that contains the answer removes it
/// ([`stream_checkpoint_removal`]).
#[async_trait]
pub trait StreamCheckpointStore: Send + Sync {
    /// Puts the checkpoint of a run, in place of the stored one (SC-1).
    ///
    /// # Guarantees
    /// - A put whose sequence is not above the stored one is ignored, and says so: a late writer never replaces newer
    ///   text (SC-2).
    ///
    /// # Errors
    /// `NotFound` if the thread does not exist (TH-32); `ClaimLost` and `StaleEpoch` under a claim (CM-44);
    /// `LimitExceeded`. After an `Unknown` outcome, repeat the call: if it was applied, it is ignored. A put that
    /// failed never makes a commit fail (SC-7).
    async fn put_stream_checkpoint(&self, request: PutStreamCheckpoint) -> Result<StreamCheckpointOutcome>;

    /// Loads the checkpoint of a run (SC-1). There is none after a commit has ended the run, whether or not that commit
    /// named the checkpoint, and whatever is put later (SC-4).
    ///
    /// # Errors
    /// `Corrupt` if the checkpoint cannot be read; any error of reading.
    async fn load_stream_checkpoint(&self, thread: &ThreadId, run: &RunId) -> Result<Option<StreamCheckpoint>>;

    /// Removes the checkpoint of a run. An unknown one is no error (SC-3).
    ///
    /// # Errors
    /// Any error of writing. After an `Unknown` outcome, repeat the call.
    async fn delete_stream_checkpoint(&self, thread: &ThreadId, run: &RunId) -> Result<()>;

    /// Removes the checkpoints of runs that are done, and those that were last put before a time (SC-4).
    ///
    /// It may be stopped between two batches, and can be repeated. A checkpoint that is put meanwhile stays.
    ///
    /// # Errors
    /// Any error of reading and writing. After an `Unknown` outcome, repeat the call.
    async fn purge_stream_checkpoints(
        &self,
        request: PurgeStreamCheckpoints,
        progress: &dyn Progress,
    ) -> Result<PurgedStreamCheckpoints>;
}

/// The stream checkpoints of a tenant, kept as documents of the threads.
#[derive(Clone)]
pub struct StreamCheckpointLayer {
    store: LayerStore,
    threads: Arc<dyn ThreadRunStore>,
}

impl StreamCheckpointLayer {
    /// Makes the stream checkpoints over the documents and the runs of a tenant.
    ///
    /// # Errors
    /// `Unsupported` if the store has no documents or no threads.
    pub fn new(stores: &TenantStores) -> Result<Self> {
        let unsupported = || Error::new(Detail::Unsupported { operation: "keeping threads" });
        let threads = stores.threads.clone().ok_or_else(unsupported)?;
        Ok(Self { store: LayerStore::new(stores)?, threads })
    }

    async fn write(&self, changes: impl IntoIterator<Item = DocumentChange> + Send) -> Result<()> {
        self.store.documents.write_documents(WriteDocuments::new(changes)).await.map(drop)
    }

    /// Returns whether a purge removes a checkpoint, or the entry of the index that has no checkpoint any more.
    async fn is_purged(
        &self,
        checkpoint: Option<&Document>,
        run: &RunId,
        request: PurgeStreamCheckpoints,
    ) -> Result<bool> {
        let is_old = checkpoint.is_none_or(|checkpoint| checkpoint.updated_at < request.updated_before);
        Ok(is_old || !is_needed(self.threads.load_run(run).await?.as_ref()))
    }

    /// Removes a checkpoint with its entry of the index, unless they were put again. Returns whether it was removed.
    async fn remove(&self, checkpoint: Option<Document>, entry: Document) -> Result<bool> {
        let remove = |document: Document| {
            let expect = DocumentExpect::Revision(document.revision);
            let name = crate::DocumentRef { scope: document.scope, key: document.key };
            DocumentChange::delete(name).expecting(expect)
        };
        let is_there = checkpoint.is_some();
        let changes = checkpoint.into_iter().chain([entry]).map(remove);
        match self.write(changes.collect::<Vec<_>>()).await {
            Ok(()) => Ok(is_there),
            // A newer checkpoint was put, another purge was faster, or the thread was deleted: the next purge decides.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for StreamCheckpointLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamCheckpointLayer").finish_non_exhaustive()
    }
}

#[async_trait]
impl StreamCheckpointStore for StreamCheckpointLayer {
    async fn put_stream_checkpoint(&self, request: PutStreamCheckpoint) -> Result<StreamCheckpointOutcome> {
        let [name, _] = documents_of(&request.thread, &request.run)?;
        let plan = || async {
            let found = self.store.documents.load_document(&name).await?;
            plan_put(&request, found.as_ref())
        };
        Ok(plan_and_write(&*self.store.documents, plan).await?.0)
    }

    async fn load_stream_checkpoint(&self, thread: &ThreadId, run: &RunId) -> Result<Option<StreamCheckpoint>> {
        let [name, _] = documents_of(thread, run)?;
        let Some(document) = self.store.documents.load_document(&name).await? else { return Ok(None) };
        // The run is read after the checkpoint. So a run that ends in between has none.
        if !is_needed(self.threads.load_run(run).await?.as_ref()) {
            return Ok(None);
        }
        let StoredCheckpoint { sequence, answer, .. } = StoredCheckpoint::from_document(&document)?;
        let (thread, run) = (thread.clone(), run.clone());
        Ok(Some(StreamCheckpoint { thread, run, sequence, answer, updated_at: document.updated_at }))
    }

    async fn delete_stream_checkpoint(&self, thread: &ThreadId, run: &RunId) -> Result<()> {
        match self.write(stream_checkpoint_removal(thread, run)?).await {
            // The checkpoint was deleted with its thread. A purge removes the entry of the index.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            written => written,
        }
    }

    async fn purge_stream_checkpoints(
        &self,
        request: PurgeStreamCheckpoints,
        progress: &dyn Progress,
    ) -> Result<PurgedStreamCheckpoints> {
        let (mut checkpoints, mut next) = (0, Some(PageRequest::first(MAX_PAGE)));
        while let Some(page) = next.take() {
            let page = self.store.documents.list_documents(index()?.with_page(page)).await?;
            for entry in page.items {
                let (thread, run) = indexed(&entry)?;
                let [name, _] = documents_of(&thread, &run)?;
                let checkpoint = self.store.documents.load_document(&name).await?;
                if self.is_purged(checkpoint.as_ref(), &run, request).await? {
                    let is_counted =
                        if request.dry_run { checkpoint.is_some() } else { self.remove(checkpoint, entry).await? };
                    checkpoints += u64::from(is_counted);
                }
            }
            next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
            if next.is_some() && !progress.advance(checkpoints, None) {
                return Ok(PurgedStreamCheckpoints { checkpoints, stopped: true });
            }
        }
        Ok(PurgedStreamCheckpoints { checkpoints, stopped: false })
    }
}
