//! Threads whose entries get back what was moved to blobs (BL-3).

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::{self, TryStreamExt};

use super::{
    moved::{self, MovedBytes},
    record::BlobHash,
    store::{BlobLayer, BlobStoreExt},
};
use crate::{
    context::{Budget, ContextMessage, ContextRequest, ThreadContext},
    error::{Error, ErrorKind, Result},
    id::{EntryId, RunId, ThreadId},
    log::{BranchPoint, Entry, EntryQuery, Leaf, LogReader, Message, Snapshot},
    page::{MAX_BYTES_READ, Page, PageRequest},
    progress::Progress,
    run::{Run, RunFilter, RunQuery, RunReader},
    thread::{
        DeleteRequest, Deletion, NewThread, PruneRequest, Pruned, Thread, ThreadAdmin, ThreadFilter, ThreadPatch,
        ThreadQuery, ThreadReader, ThreadRunStore,
    },
    version::Expect,
};

/// Counts the tokens of a message.
type Counter = Arc<dyn Fn(&Message) -> u64 + Send + Sync>;

/// The number of blobs that are read at the same time.
const READ_AT_ONCE: usize = 4;

/// Loads the blobs that have to be put back, with the lengths that the records name.
///
/// # Errors `Corrupt` if one of them does not exist or is longer: the record that names it is acknowledged, so it
/// should be there.
pub(super) async fn load_moved(blobs: &BlobLayer, wanted: &BTreeMap<BlobHash, u64>) -> Result<MovedBytes> {
    let wanted: Vec<_> = wanted.iter().map(|(hash, bytes)| (hash.clone(), *bytes)).collect();
    let loads = wanted.into_iter().map(|(hash, bytes)| Ok(load_one(blobs.clone(), hash, bytes)));
    stream::iter(loads).try_buffer_unordered(READ_AT_ONCE).try_collect().await
}

async fn load_one(blobs: BlobLayer, hash: BlobHash, bytes: u64) -> Result<(BlobHash, Bytes)> {
    let read = blobs.read_blob(&hash, bytes).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::LimitExceeded => {
            Error::corrupt(format!("blob {hash}: what a record names is not there")).with_source(error)
        }
        _ => error,
    });
    Ok((hash, read?))
}

/// Adds what was moved out of an entry.
fn add_moved_of_entry(entry: &Entry, wanted: &mut BTreeMap<BlobHash, u64>) -> Result<()> {
    moved::add_moved(&*entry.body, wanted)?;
    entry.origin.iter().try_for_each(|origin| moved::add_moved_raw(origin, wanted))
}

/// Returns how many of the first entries have at most as many bytes together as a page may read, counted with what was
/// moved out of them; at least one.
fn count_that_fits(entries: &[Arc<Entry>]) -> Result<usize> {
    let mut bytes = 0_u64;
    for (index, entry) in entries.iter().enumerate() {
        let mut wanted = BTreeMap::new();
        add_moved_of_entry(entry, &mut wanted)?;
        bytes = wanted.values().fold(bytes, |bytes, moved| bytes.saturating_add(*moved));
        if bytes > MAX_BYTES_READ {
            return Ok(index.max(1));
        }
    }
    Ok(entries.len())
}

/// Threads whose reads give back what was moved to blobs.
pub(super) struct ThreadsWithBlobs {
    inner: Arc<dyn ThreadRunStore>,
    blobs: BlobLayer,
}

impl ThreadsWithBlobs {
    pub(super) const fn new(inner: Arc<dyn ThreadRunStore>, blobs: BlobLayer) -> Self {
        Self { inner, blobs }
    }

    /// Puts back what was moved out of entries.
    async fn put_back(&self, entries: &mut [Arc<Entry>]) -> Result<()> {
        let mut wanted = BTreeMap::new();
        for entry in &*entries {
            add_moved_of_entry(entry, &mut wanted)?;
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let loaded = load_moved(&self.blobs, &wanted).await?;
        for entry in entries {
            let mut of_entry = BTreeMap::new();
            add_moved_of_entry(entry, &mut of_entry)?;
            if !of_entry.is_empty() {
                let entry = Arc::make_mut(entry);
                moved::put_back(Arc::make_mut(&mut entry.body), &loaded)?;
                entry.origin.iter_mut().try_for_each(|origin| moved::put_raw_back(origin, &loaded))?;
            }
        }
        Ok(())
    }

    /// Loads a context within a budget of tokens, which the caller counts in whole messages. So the blobs have to be
    /// known before the messages are counted: a first call finds out which they are.
    async fn load_counted_context(
        &self,
        thread: &ThreadId,
        request: ContextRequest,
        (max, counter): (u64, Counter),
    ) -> Result<(ThreadContext, MovedBytes)> {
        let seen = Arc::new(Mutex::new((BTreeMap::new(), None)));
        let count = {
            let (seen, counter) = (Arc::clone(&seen), Arc::clone(&counter));
            move |message: &Message| {
                let (wanted, error) = &mut *seen.lock().unwrap_or_else(PoisonError::into_inner);
                *error = moved::add_moved(message, wanted).err().or_else(|| error.take());
                counter(message)
            }
        };
        let counted = request.clone().within(Budget::Tokens { max, counter: Arc::new(count) });
        let context = self.inner.load_context(thread, counted).await?;
        let (wanted, error) = std::mem::take(&mut *seen.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(error) = error {
            return Err(error);
        }
        if wanted.is_empty() {
            return Ok((context, MovedBytes::new()));
        }
        let loaded = Arc::new(load_moved(&self.blobs, &wanted).await?);
        let count = {
            let loaded = Arc::clone(&loaded);
            move |message: &Message| {
                let mut whole = message.clone();
                // A block that cannot be read is found when it is put back.
                let _unreadable = moved::put_back(&mut whole, &loaded);
                counter(&whole)
            }
        };
        let counted = request.within(Budget::Tokens { max, counter: Arc::new(count) });
        let context = self.inner.load_context(thread, counted).await?;
        Ok((context, Arc::unwrap_or_clone(loaded)))
    }
}

#[async_trait]
impl LogReader for ThreadsWithBlobs {
    async fn load_entry(&self, thread: &ThreadId, entry: &EntryId) -> Result<Option<Arc<Entry>>> {
        let Some(entry) = self.inner.load_entry(thread, entry).await? else { return Ok(None) };
        let mut entry = [entry];
        self.put_back(&mut entry).await?;
        let [entry] = entry;
        Ok(Some(entry))
    }

    async fn list_entries(&self, thread: &ThreadId, query: EntryQuery) -> Result<Page<Arc<Entry>>> {
        let mut page = self.inner.list_entries(thread, query.clone()).await?;
        let fitting = count_that_fits(&page.items)?;
        if fitting < page.items.len() {
            // With what was moved, the page would be too large for memory. A shorter one has a cursor of its own.
            let limit = u32::try_from(fitting).unwrap_or(u32::MAX);
            let request = PageRequest { limit: Some(limit), cursor: query.page.cursor.clone() };
            page = self.inner.list_entries(thread, query.with_page(request)).await?;
        }
        self.put_back(&mut page.items).await?;
        Ok(page)
    }

    async fn list_leaves(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Leaf>> {
        self.inner.list_leaves(thread, page).await
    }

    async fn list_branch_points(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BranchPoint>> {
        self.inner.list_branch_points(thread, page).await
    }

    async fn list_snapshots(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<Snapshot>> {
        self.inner.list_snapshots(thread, page).await
    }

    async fn load_context(&self, thread: &ThreadId, request: ContextRequest) -> Result<ThreadContext> {
        let (mut context, mut loaded) = match request.budget.clone() {
            Some(Budget::Tokens { max, counter }) => self.load_counted_context(thread, request, (max, counter)).await?,
            _ => (self.inner.load_context(thread, request).await?, MovedBytes::new()),
        };
        let mut wanted = BTreeMap::new();
        for ContextMessage { message, .. } in &context.context.messages {
            moved::add_moved(message, &mut wanted)?;
        }
        wanted.retain(|hash, _| !loaded.contains_key(hash));
        loaded.extend(load_moved(&self.blobs, &wanted).await?);
        for ContextMessage { message, .. } in &mut context.context.messages {
            moved::put_back(message, &loaded)?;
        }
        Ok(context)
    }
}

#[async_trait]
impl ThreadReader for ThreadsWithBlobs {
    async fn load_thread(&self, id: &ThreadId) -> Result<Option<Thread>> {
        self.inner.load_thread(id).await
    }

    async fn list_threads(&self, query: ThreadQuery) -> Result<Page<Thread>> {
        self.inner.list_threads(query).await
    }

    async fn count_threads(&self, filter: &ThreadFilter) -> Result<u64> {
        self.inner.count_threads(filter).await
    }

    async fn validate_parent(&self, thread: &ThreadId, parent: &ThreadId) -> Result<()> {
        self.inner.validate_parent(thread, parent).await
    }
}

#[async_trait]
impl ThreadAdmin for ThreadsWithBlobs {
    async fn create_thread(&self, thread: NewThread) -> Result<Thread> {
        self.inner.create_thread(thread).await
    }

    async fn update_thread(&self, id: &ThreadId, patch: ThreadPatch, expect: Expect) -> Result<Thread> {
        self.inner.update_thread(id, patch, expect).await
    }

    async fn delete_thread(&self, id: &ThreadId, request: DeleteRequest) -> Result<Deletion> {
        self.inner.delete_thread(id, request).await
    }

    async fn prune_threads(&self, request: PruneRequest) -> Result<Pruned> {
        self.inner.prune_threads(request).await
    }

    async fn purge_deleted(&self, progress: &dyn Progress) -> Result<u64> {
        self.inner.purge_deleted(progress).await
    }

    async fn reset_fence(&self, id: &ThreadId) -> Result<()> {
        self.inner.reset_fence(id).await
    }
}

#[async_trait]
impl RunReader for ThreadsWithBlobs {
    async fn load_run(&self, id: &RunId) -> Result<Option<Run>> {
        self.inner.load_run(id).await
    }

    async fn list_runs(&self, query: RunQuery) -> Result<Page<Run>> {
        self.inner.list_runs(query).await
    }

    async fn count_runs(&self, filter: &RunFilter) -> Result<u64> {
        self.inner.count_runs(filter).await
    }
}
