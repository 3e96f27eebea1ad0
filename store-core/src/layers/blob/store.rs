//! The contract of blobs, and its implementation over documents and objects.

use std::{fmt, ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, future, stream};
use sha2::{Digest, Sha256};

use super::{
    checksums::{CHUNK_BYTES, Checksums},
    record::{Blob, BlobHash, BlobRef, CollectBlobs, CollectedBlobs, OpenedBlob, RemovedBlobs, StoredBlob},
    rules,
};
use crate::{
    codec::Extra,
    document::{Document, DocumentChange, DocumentExpect, WriteDocuments, WrittenDocuments},
    error::{Detail, Error, Outcome, Result},
    ext::DocumentStoreExt,
    id::ThreadId,
    layers::{LayerStore, encoded, load_in_parts, plan_and_write},
    limits::{check_limit, length},
    object::{ByteStream, ObjectKey, ObjectStore, ObjectUpload, byte_stream},
    page::{Page, PageRequest},
    progress::Progress,
    store::TenantStores,
    thread::ThreadRunStore,
    time::Clock,
};

/// The number of blobs whose documents are loaded at once.
const LOADED_AT_ONCE: usize = 250;

/// Large payloads outside of records: images, files, long outputs of tools. The same bytes are stored once for each
/// tenant (BL-1).
///
/// ```
/// use store_core::{Block, BlockKind, BlobStore, BlobStoreExt, Media, MediaSource, Message, Result, Role};
///
/// async fn message_with_image(blobs: &dyn BlobStore, png: Vec<u8>) -> Result<Message> {
///     let blob = blobs.put_bytes(png).await?;
///     let source = MediaSource::Blob(blob.hash.to_string());
///     let image = Media::new(Some("image/png".to_owned()), source);
///     Ok(Message::new(Role::User, vec![Block::new(BlockKind::Image(image))]))
/// }
/// ```
#[async_trait]
pub trait BlobStore: Send + Sync {
    /// Stores bytes, and returns their hash and length (BL-1). When the call returns, they are as durable as a commit.
    ///
    /// # Guarantees
    /// - Bytes that are stored already are not stored again, also by another caller
    ///   (`blob::the_same_bytes_are_stored_once`).
    /// - The blob stays at least for the grace time of the collection that finds it unused
    ///   (`blob::a_collection_leaves_a_blob_for_the_grace_time`).
    /// - Memory does not grow with the length of the stream.
    ///
    /// # Errors
    /// The first error of the stream; `LimitExceeded` for more bytes than the checksums of one record can describe,
    /// about 1 TiB with default limits; any error of writing. After an `Unknown` outcome, put the bytes again.
    async fn put_blob(&self, bytes: ByteStream) -> Result<BlobRef>;

    /// Reads a blob, whole or a part of it (BL-2). A part that ends after the last byte ends there.
    ///
    /// # Errors `NotFound` for an unknown blob; `Invalid` for a part that begins after its end or after the last byte;
    /// `Corrupt`, also inside of the stream, if bytes are missing or do not match their checksum. No byte that does not
    /// match is given out.
    async fn open_blob(&self, hash: &BlobHash, part: Range<u64>) -> Result<OpenedBlob>;

    /// Returns what is known about a blob; none if it does not exist.
    ///
    /// # Errors
    /// `Corrupt` if its record cannot be read; any error of reading.
    async fn load_blob(&self, hash: &BlobHash) -> Result<Option<Blob>>;

    /// Keeps blobs for another grace time, as if they had been put again (BL-5).
    ///
    /// # Errors
    /// `NotFound` for the first that does not exist; any error of writing. The call may be repeated.
    async fn touch_blobs(&self, hashes: &[BlobHash]) -> Result<()>;

    /// Lists blobs in the order of their hashes, in pages.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list.
    async fn list_blobs(&self, page: PageRequest) -> Result<Page<Blob>>;

    /// Lists the threads that refer to a blob, in pages. A page may be short, as threads that were deleted are left
    /// out.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list.
    async fn list_blob_referrers(&self, hash: &BlobHash, page: PageRequest) -> Result<Page<ThreadId>>;

    /// Lists the blobs that a thread refers to, in pages.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list.
    async fn list_thread_blobs(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BlobHash>>;

    /// Marks blobs that nothing refers to, and removes those that were marked before the grace time (BL-5). It also
    /// removes what interrupted calls have left.
    ///
    /// # Guarantees
    /// - A blob that a thread refers to is never removed, also if the commit that refers to it and the collection run
    ///   at the same time (`blob::a_collection_and_a_commit_exclude_each_other`).
    /// - A blob that was put or touched is kept for the grace time.
    ///
    /// It may be stopped between two batches, and can be repeated.
    ///
    /// # Errors
    /// `Invalid` for a grace time of less than [`MIN_GRACE`](super::MIN_GRACE); any error of reading and writing.
    async fn collect_blobs(&self, request: CollectBlobs, progress: &dyn Progress) -> Result<CollectedBlobs>;

    /// Removes those of some blobs that nothing refers to, without a grace time. A caller that has put one of them, and
    /// has not referred to it yet, is refused with `NotFound` when it does.
    ///
    /// # Errors
    /// Any error of reading and writing. The call can be repeated.
    async fn remove_unreferenced(&self, hashes: &[BlobHash]) -> Result<RemovedBlobs>;
}

/// Bytes that fit into memory.
#[async_trait]
pub trait BlobStoreExt: BlobStore {
    /// Stores bytes.
    ///
    /// # Errors
    /// As [`put_blob`](BlobStore::put_blob).
    async fn put_bytes(&self, bytes: impl Into<Bytes> + Send) -> Result<BlobRef> {
        self.put_blob(byte_stream(bytes)).await
    }

    /// Reads all bytes of a blob of at most `max` bytes.
    ///
    /// # Errors
    /// `LimitExceeded` for a longer blob; otherwise as [`open_blob`](BlobStore::open_blob).
    async fn read_blob(&self, hash: &BlobHash, max: u64) -> Result<Bytes> {
        let mut opened = self.open_blob(hash, 0..u64::MAX).await?;
        check_limit("bytes of a blob", opened.bytes, max)?;
        let mut read = BytesMut::new();
        while let Some(part) = opened.stream.next().await {
            read.extend_from_slice(&part?);
        }
        Ok(read.freeze())
    }
}

impl<S: BlobStore + ?Sized> BlobStoreExt for S {}

/// The blobs of a tenant, kept as objects and documents.
#[derive(Clone)]
pub struct BlobLayer {
    pub(super) store: LayerStore,
    pub(super) threads: Arc<dyn ThreadRunStore>,
    pub(super) objects: Arc<dyn ObjectStore>,
    /// The clock by which a collection compares the time of a mark with the grace time.
    pub(super) clock: Arc<dyn Clock>,
}

impl fmt::Debug for BlobLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobLayer").finish_non_exhaustive()
    }
}

/// A document of a blob, with what it contains.
pub(super) struct Found {
    pub(super) stored: StoredBlob,
    pub(super) document: Document,
    pub(super) mark: Option<Document>,
}

impl Found {
    pub(super) fn to_blob(&self, hash: &BlobHash) -> Blob {
        Blob {
            hash: hash.clone(),
            bytes: self.stored.bytes,
            created_at: self.document.created_at,
            unused_since: self.mark.as_ref().map(|mark| mark.created_at),
        }
    }
}

impl BlobLayer {
    /// Makes the blobs over the documents and the objects of a tenant. The clock should be that of the store.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents, no threads or no objects.
    pub fn new(stores: &TenantStores, clock: Arc<dyn Clock>) -> Result<Self> {
        let unsupported = |operation| Error::new(Detail::Unsupported { operation });
        let threads = stores.threads.clone().ok_or_else(|| unsupported("threads"))?;
        let objects = stores.objects.clone().ok_or_else(|| unsupported("objects"))?;
        Ok(Self { store: LayerStore::new(stores)?, threads, objects, clock })
    }

    /// Loads the documents of blobs, and their marks, in the order given.
    pub(super) async fn load_all(&self, hashes: &[BlobHash]) -> Result<Vec<Option<Found>>> {
        let mut found = Vec::new();
        for hashes in hashes.chunks(LOADED_AT_ONCE) {
            let mut names = Vec::new();
            for hash in hashes {
                names.extend([rules::blob_document(hash)?, rules::mark(hash)?]);
            }
            let mut documents = load_in_parts(&*self.store.documents, &names).await?.into_iter();
            while let (Some(document), Some(mark)) = (documents.next(), documents.next()) {
                let read =
                    |document| Ok::<_, Error>(Found { stored: StoredBlob::from_document(&document)?, document, mark });
                found.push(document.map(read).transpose()?);
            }
        }
        Ok(found)
    }

    async fn load(&self, hash: &BlobHash) -> Result<Option<Found>> {
        Ok(self.load_all(std::slice::from_ref(hash)).await?.pop().flatten())
    }

    /// Takes back the mark of a blob, so that the next collection begins its grace time anew. Returns the blob, or none
    /// if it does not exist.
    async fn touch(&self, hash: &BlobHash) -> Result<Option<Found>> {
        let plan = || async move {
            let found = self.load(hash).await?;
            let write = match &found {
                Some(Found { mark: Some(mark), document, .. }) => {
                    let unmark = DocumentChange::delete(rules::mark(hash)?);
                    let exists = DocumentChange::check(rules::blob_document(hash)?, revision_of(document));
                    Some(WriteDocuments::new([unmark.expecting(revision_of(mark)), exists]))
                }
                _ => None,
            };
            Ok((found, write))
        };
        Ok(plan_and_write(&*self.store.documents, plan).await?.0)
    }

    /// Records a blob whose bytes were uploaded under a key, unless it exists by now. Returns the write if it was
    /// recorded.
    async fn record(&self, blob: &BlobRef, stored: &StoredBlob) -> Result<Option<WrittenDocuments>> {
        let plan = || async move {
            // A blob that another caller has recorded meanwhile is touched instead.
            if self.touch(&blob.hash).await?.is_some() {
                return Ok(((), None));
            }
            let leftover = rules::leftover(&stored.object()?)?;
            if self.store.documents.load_document(&leftover).await?.is_some() {
                let reason = "a collection has removed what was uploaded, because it took longer than the grace time";
                return Err(Error::unavailable(reason));
            }
            let document = rules::blob_document(&blob.hash)?;
            let put = DocumentChange::put(document, encoded(stored)?).expecting(DocumentExpect::Absent);
            let stays = DocumentChange::check(leftover, DocumentExpect::Absent);
            Ok(((), Some(WriteDocuments::new([put, stays]))))
        };
        Ok(plan_and_write(&*self.store.documents, plan).await?.1)
    }

    /// Finishes an upload under a new key, and records the blob. Removes the object if it is not needed.
    async fn finish(&self, upload: Box<dyn ObjectUpload>, blob: &BlobRef, checksums: &Checksums) -> Result<()> {
        let key = ObjectKey::unused(&blob.hash);
        upload.finish(&key).await?;
        let (object, checksums) = (key.to_string(), checksums.encode());
        let stored = StoredBlob { bytes: blob.bytes, object, checksums, extra: Extra::default() };
        match self.record(blob, &stored).await {
            Ok(Some(_)) => Ok(()),
            Ok(None) => self.objects.delete_objects(&[key]).await,
            // The record may exist, so its object stays. A collection removes it if there is no record.
            Err(error) if error.outcome() == Outcome::Unknown => Err(error),
            Err(error) => {
                // The error of the record is the one that counts. A collection removes what stays.
                let _leftover = self.objects.delete_objects(&[key]).await;
                Err(error)
            }
        }
    }

    /// Stores all of a stream, whose first chunk was read, as a new object.
    async fn upload(&self, mut chunks: Chunks, first: Bytes) -> Result<BlobRef> {
        let mut upload = self.objects.begin_upload().await?;
        let (mut digest, mut checksums, mut bytes) = (Sha256::new(), Checksums::default(), 0);
        let mut next = (!first.is_empty()).then_some(first);
        while let Some(chunk) = next.take() {
            bytes += length(chunk.len());
            // A store that writes in another thread does so while the chunk is hashed and the next one is read.
            let writing = upload.write(chunk.clone());
            let hashing = async {
                digest.update(&chunk);
                checksums.add(&chunk);
                chunks.next().await
            };
            let (written, read) = future::join(writing, hashing).await;
            written?;
            next = read?;
        }
        let blob = BlobRef { hash: BlobHash::finish(digest), bytes };
        if self.touch(&blob.hash).await?.is_none() {
            self.finish(upload, &blob, &checksums).await?;
        }
        Ok(blob)
    }
}

/// Returns the expectation that a document has not changed.
pub(super) const fn revision_of(document: &Document) -> DocumentExpect {
    DocumentExpect::Revision(document.revision)
}

/// Cuts a stream into chunks.
struct Chunks {
    bytes: ByteStream,
    buffer: BytesMut,
    has_ended: bool,
}

impl Chunks {
    fn new(bytes: ByteStream) -> Self {
        Self { bytes, buffer: BytesMut::new(), has_ended: false }
    }

    /// Returns the next chunk, or none after the last one.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while !self.has_ended && self.buffer.len() < CHUNK_BYTES {
            match self.bytes.next().await {
                // A part that is a whole chunk is not copied.
                Some(Ok(part)) if self.buffer.is_empty() && part.len() == CHUNK_BYTES => return Ok(Some(part)),
                Some(part) => self.buffer.extend_from_slice(&part?),
                None => self.has_ended = true,
            }
        }
        let size = self.buffer.len().min(CHUNK_BYTES);
        Ok((size > 0).then(|| self.buffer.split_to(size).freeze()))
    }
}

/// Reads the chunks of a blob that contain a part of it, and gives out the part.
struct CheckedChunks {
    chunks: Chunks,
    /// What the read of the next chunk gave, if it was read before it was asked for.
    ahead: Option<Result<Option<Bytes>>>,
    hash: BlobHash,
    checksums: Checksums,
    /// The number of the next chunk.
    number: u64,
    /// The part that is left to give out.
    part: Range<u64>,
}

impl CheckedChunks {
    /// Returns the next bytes of the part, or none after the last ones.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        if self.part.is_empty() {
            return Ok(None);
        }
        let corrupt = |what: &str| Error::corrupt(format!("blob {}: {what}", self.hash));
        let chunk = match self.ahead.take() {
            Some(read) => read,
            None => self.chunks.next().await,
        };
        let chunk = chunk?.ok_or_else(|| corrupt("bytes are missing"))?;
        let chunk_start = self.number * length(CHUNK_BYTES);
        let end = self.part.end.min(chunk_start + length(chunk.len()));
        let (checksums, number) = (&self.checksums, self.number);
        let checking = async { checksums.matches(number, &chunk) };
        // A store that reads in another thread reads the next chunk while this one is checked.
        let is_as_stored = if end < self.part.end {
            let (read, is_as_stored) = future::join(self.chunks.next(), checking).await;
            self.ahead = Some(read);
            is_as_stored
        } else {
            checking.await
        };
        if !is_as_stored {
            return Err(corrupt("its bytes do not match their checksum"));
        }
        let at = |offset: u64| usize::try_from(offset - chunk_start).unwrap_or(usize::MAX).min(chunk.len());
        let given = chunk.slice(at(self.part.start)..at(end));
        self.number += 1;
        self.part.start = end;
        Ok(Some(given))
    }
}

#[async_trait]
impl BlobStore for BlobLayer {
    async fn put_blob(&self, bytes: ByteStream) -> Result<BlobRef> {
        let mut chunks = Chunks::new(bytes);
        let first = chunks.next().await?.unwrap_or_default();
        if first.len() < CHUNK_BYTES {
            // All bytes are known. If they are stored already, nothing has to be written.
            let blob = BlobRef { hash: BlobHash::of(&first), bytes: length(first.len()) };
            if self.touch(&blob.hash).await?.is_some() {
                return Ok(blob);
            }
        }
        self.upload(chunks, first).await
    }

    async fn open_blob(&self, hash: &BlobHash, part: Range<u64>) -> Result<OpenedBlob> {
        let Found { stored, document, .. } = self.load(hash).await?.ok_or_else(|| rules::missing(hash))?;
        if part.start > part.end || part.start > stored.bytes {
            return Err(Error::invalid("part of a blob", format!("it begins at {}, after its end", part.start)));
        }
        let checksums = Checksums::decode(&stored.checksums).filter(|checksums| checksums.is_for(stored.bytes));
        let checksums = checksums.ok_or_else(|| super::record::unreadable(&document))?;
        let part = part.start..part.end.min(stored.bytes);
        let number = part.start / length(CHUNK_BYTES);
        let chunk_end = part.end.div_ceil(length(CHUNK_BYTES)).saturating_mul(length(CHUNK_BYTES));
        let whole_chunks = number * length(CHUNK_BYTES)..chunk_end.min(stored.bytes);
        let bytes = if part.is_empty() {
            byte_stream(Bytes::new())
        } else {
            let opened = self.objects.open_object(&stored.object()?, whole_chunks).await?;
            opened.ok_or_else(|| Error::corrupt(format!("blob {hash}: its bytes are missing")))?
        };
        let checked =
            CheckedChunks { chunks: Chunks::new(bytes), ahead: None, hash: hash.clone(), checksums, number, part };
        let stream = stream::try_unfold(checked, |mut checked| async move {
            Ok(checked.next().await?.map(|bytes| (bytes, checked)))
        });
        Ok(OpenedBlob::new(stored.bytes, Box::pin(stream)))
    }

    async fn load_blob(&self, hash: &BlobHash) -> Result<Option<Blob>> {
        Ok(self.load(hash).await?.map(|found| found.to_blob(hash)))
    }

    async fn touch_blobs(&self, hashes: &[BlobHash]) -> Result<()> {
        for hash in hashes {
            self.touch(hash).await?.ok_or_else(|| rules::missing(hash))?;
        }
        Ok(())
    }

    async fn list_blobs(&self, page: PageRequest) -> Result<Page<Blob>> {
        let page = self.store.documents.list_documents(rules::blobs_query()?.with_page(page)).await?;
        let hashes = page.items.iter().map(rules::hash_in).collect::<Result<Vec<_>>>()?;
        let found = self.load_all(&hashes).await?;
        let blobs = hashes.iter().zip(found).filter_map(|(hash, found)| Some(found?.to_blob(hash)));
        Ok(Page { items: blobs.collect(), next: page.next })
    }

    async fn list_blob_referrers(&self, hash: &BlobHash, page: PageRequest) -> Result<Page<ThreadId>> {
        let page = self.store.documents.list_documents(rules::referrers_query(hash)?.with_page(page)).await?;
        let living = self.living_referrers(hash, &page.items).await?;
        Ok(Page { items: living.into_iter().flatten().collect(), next: page.next })
    }

    async fn list_thread_blobs(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BlobHash>> {
        let page = self.store.documents.list_documents(rules::references_query(thread)?.with_page(page)).await?;
        let hashes = page.items.iter().map(rules::hash_in).collect::<Result<Vec<_>>>()?;
        Ok(Page { items: hashes, next: page.next })
    }

    async fn collect_blobs(&self, request: CollectBlobs, progress: &dyn Progress) -> Result<CollectedBlobs> {
        self.collect(request, progress).await
    }

    async fn remove_unreferenced(&self, hashes: &[BlobHash]) -> Result<RemovedBlobs> {
        let mut result = RemovedBlobs::default();
        for hash in hashes {
            let is_removed = self.remove_if_unreferenced(hash).await?;
            if is_removed { &mut result.removed } else { &mut result.kept }.push(hash.clone());
        }
        Ok(result)
    }
}
