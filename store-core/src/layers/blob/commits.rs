//! Commits that refer to blobs (BL-4), and whose large blocks become blobs (BL-3).

use std::{collections::BTreeSet, sync::Arc};

use async_trait::async_trait;
use futures_util::stream::{self, TryStreamExt};

use super::{
    moved::{self, MovedBytes},
    pending::PendingWithBlobs,
    reads::ThreadsWithBlobs,
    record::BlobHash,
    rules,
    store::{BlobLayer, BlobStore, BlobStoreExt},
};
use crate::{
    commit::{Commit, CommitCoordinator, Receipt},
    document::{DocumentOp, DocumentStore},
    error::Result,
    event::EventStore,
    layers::MAX_CONFLICTS,
    outbox::OutboxStore,
    pending::PendingStore,
    store::TenantStores,
    thread::ThreadRunStore,
    time::Clock,
};

/// The number of bytes above which it is mostly worthwhile to store a block as a blob: 64 KiB (BL-3).
pub const SUGGESTED_MOVED_BYTES: u64 = 64 << 10;

/// The number of changes of documents that a commit can have with default limits.
const MAX_CHANGES: usize = 1_000;

/// The number of blobs that are put at the same time.
const PUT_AT_ONCE: usize = 4;

/// How the records of a store use blobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct BlobOptions {
    /// The number of bytes above which a block of a message, or the raw line of an imported entry, is stored as a blob;
    /// absent by default: all of them stay in their records, so that a log is complete by itself (FI-1). A good number
    /// for large sessions is [`SUGGESTED_MOVED_BYTES`].
    pub move_above: Option<u64>,
}

impl BlobOptions {
    /// Sets the number of bytes above which a block becomes a blob; none for no block at all.
    #[must_use]
    pub const fn moving_above(mut self, bytes: Option<u64>) -> Self {
        self.move_above = bytes;
        self
    }
}

/// Lets the threads, the pending input and the commits of a tenant use its blobs. Without objects, or without
/// documents, nothing changes.
///
/// # Guarantees
/// - A commit, and a pending input, that name a blob are refused with `NotFound` if it does not exist (BL-4). While
///   they exist, so does the blob (BL-5).
/// - A block above the size of the options is stored as a blob. All reads give it back, so that callers do not notice
///   (BL-3, `blob::a_large_block_comes_back_as_it_was`). Calls of tools always stay in their records.
///
/// The digest of a commit is that of the moved blocks. So a commit that is repeated with its key must be repeated with
/// the same options.
///
/// # Errors
/// None for handles of one tenant.
pub fn with_blobs(stores: TenantStores, options: BlobOptions, clock: Arc<dyn Clock>) -> Result<TenantStores> {
    let (Some(commits), Some(_), Some(_)) = (&stores.commits, &stores.objects, &stores.documents) else {
        return Ok(stores);
    };
    let blobs = RecordBlobs { layer: BlobLayer::new(&stores, clock)?, options };
    let commits: Arc<dyn CommitCoordinator> = Arc::new(CommitsWithBlobs { inner: Arc::clone(commits), blobs });
    let (threads, pending) = (Some(commits.threads()), Some(commits.pending()));
    Ok(TenantStores { threads, pending, commits: Some(commits), ..stores })
}

/// The blobs of the records of a tenant.
#[derive(Debug, Clone)]
pub(super) struct RecordBlobs {
    pub(super) layer: BlobLayer,
    pub(super) options: BlobOptions,
}

impl RecordBlobs {
    /// Stores what was moved out of records.
    pub(super) async fn put_moved(&self, moved_bytes: MovedBytes) -> Result<()> {
        let layer = &self.layer;
        let puts = moved_bytes.into_values().map(|bytes| Ok(async move { layer.put_bytes(bytes).await.map(drop) }));
        stream::iter(puts).try_buffer_unordered(PUT_AT_ONCE).try_collect().await
    }

    /// Makes a write that refers to blobs. If it is refused because a collection has marked one of them, the mark is
    /// taken back, and the write is made again.
    ///
    /// # Errors
    /// `NotFound` for a blob that does not exist; any error of the write.
    pub(super) async fn write<T, F>(&self, names: &BTreeSet<BlobHash>, mut write: impl FnMut() -> F + Send) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send,
    {
        let mut conflicts = 0;
        loop {
            match write().await {
                Err(error) if rules::is_about_blobs(&error) && conflicts < MAX_CONFLICTS => {
                    conflicts += 1;
                    let names: Vec<_> = names.iter().cloned().collect();
                    self.layer.touch_blobs(&names).await?;
                }
                written => return written,
            }
        }
    }
}

/// A coordinator whose commits use blobs.
struct CommitsWithBlobs {
    inner: Arc<dyn CommitCoordinator>,
    blobs: RecordBlobs,
}

impl CommitsWithBlobs {
    /// Moves the large blocks of a commit out of it, as many as it can refer to. Returns their bytes.
    fn move_out(&self, commit: &mut Commit, named: usize) -> Result<MovedBytes> {
        let mut moved_bytes = MovedBytes::new();
        let Some(above) = self.blobs.options.move_above else { return Ok(moved_bytes) };
        let changes = commit.documents.len() + rules::REFERENCE_CHANGES * named;
        let bounds = (above, MAX_CHANGES.saturating_sub(changes) / rules::REFERENCE_CHANGES);
        for entry in &mut commit.entries {
            moved::move_out(&mut entry.body, bounds, &mut moved_bytes)?;
            if let Some(origin) = &mut entry.origin {
                moved::move_raw_out(origin, bounds, &mut moved_bytes)?;
            }
        }
        Ok(moved_bytes)
    }
}

/// Returns the blobs that the entries of a commit name. Those of pending input that it consumes were referred to when
/// the input was appended.
fn names_in(commit: &Commit) -> Result<BTreeSet<BlobHash>> {
    let mut names = BTreeSet::new();
    for (index, entry) in commit.entries.iter().enumerate() {
        let in_part = |error: crate::Error| error.in_part(format!("entries[{index}]"));
        moved::add_named(&entry.body, &mut names).map_err(in_part)?;
        if let Some(origin) = &entry.origin {
            moved::add_named_by_origin(origin, &mut names).map_err(in_part)?;
        }
    }
    Ok(names)
}

#[async_trait]
impl CommitCoordinator for CommitsWithBlobs {
    async fn commit(&self, mut commit: Commit) -> Result<Receipt> {
        // A block that is moved may name a blob itself.
        let mut names = names_in(&commit)?;
        let moved_bytes = self.move_out(&mut commit, names.len())?;
        names.extend(moved_bytes.keys().cloned());
        if names.is_empty() {
            return self.inner.commit(commit).await;
        }
        self.blobs.put_moved(moved_bytes).await?;
        let puts_documents = commit.documents.iter().any(|change| matches!(change.op, DocumentOp::Put(_)));
        rules::add_references(&mut commit.documents, &commit.thread, &names)?;
        let mut receipt = self.blobs.write(&names, || self.inner.commit(commit.clone())).await?;
        if !puts_documents {
            // The caller has put no documents, and need not know of the references.
            receipt.document_revision = None;
        }
        Ok(receipt)
    }

    fn threads(&self) -> Arc<dyn ThreadRunStore> {
        Arc::new(ThreadsWithBlobs::new(self.inner.threads(), self.blobs.layer.clone()))
    }

    fn pending(&self) -> Arc<dyn PendingStore> {
        Arc::new(PendingWithBlobs::new(self.inner.pending(), self.blobs.clone()))
    }

    fn events(&self) -> Arc<dyn EventStore> {
        self.inner.events()
    }

    fn outbox(&self) -> Arc<dyn OutboxStore> {
        self.inner.outbox()
    }

    fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        self.inner.documents()
    }
}
