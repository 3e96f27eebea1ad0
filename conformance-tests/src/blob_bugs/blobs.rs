//! Blobs with a planted bug.

use std::{ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use futures_util::StreamExt;
use store_core::{
    Blob, BlobHash, BlobRef, BlobStore, BlobStoreExt, ByteStream, Clock, CollectBlobs, CollectedBlobs, Error,
    ErrorKind, MIN_GRACE, ManualClock, ObjectKey, ObjectStore, OpenedBlob, Page, PageRequest, Progress, RemovedBlobs,
    Result, ThreadId, byte_stream, layers::blob::BlobLayer,
};

use super::bug::BlobBug;

/// Blobs with a planted bug.
pub(super) struct BuggyBlobs {
    pub(super) blobs: BlobLayer,
    /// The same blobs with a clock that is a year ahead.
    pub(super) later: BlobLayer,
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) bug: BlobBug,
}

/// Returns a clock that is far ahead of another one.
pub(super) fn far_ahead(clock: &dyn Clock) -> Arc<dyn Clock> {
    Arc::new(ManualClock::new(clock.now().saturating_add(Duration::from_hours(1_000_000))))
}

impl BuggyBlobs {
    /// Reads the object of a blob without comparing it with anything.
    async fn open_unchecked(&self, hash: &BlobHash, part: Range<u64>) -> Result<OpenedBlob> {
        let mut opened = self.blobs.open_blob(hash, 0..0).await?;
        let listed = self.objects.list_objects(PageRequest::first(1_000)).await?.items;
        let object = listed.into_iter().find(|object| object.key.as_str().starts_with(hash.as_str()));
        if let Some(object) = object
            && let Some(stream) = self.objects.open_object(&object.key, part).await?
        {
            opened.stream = stream;
        }
        Ok(opened)
    }
}

#[async_trait]
impl BlobStore for BuggyBlobs {
    async fn put_blob(&self, mut bytes: ByteStream) -> Result<BlobRef> {
        let (mut read, mut failed) = (Vec::new(), None);
        while let Some(part) = bytes.next().await {
            match part {
                Ok(part) => read.extend_from_slice(&part),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(error) = failed {
            if self.bug == BlobBug::FailedStreamIsStored {
                self.blobs.put_bytes(read).await?;
            }
            return Err(error);
        }
        let hash = BlobHash::of(&read);
        if self.bug == BlobBug::PutKeepsTheMark && self.blobs.load_blob(&hash).await?.is_some() {
            return Ok(BlobRef { hash, bytes: read.len() as u64 });
        }
        if self.bug == BlobBug::EachPutUploads {
            let upload = self.objects.begin_upload().await?;
            upload.finish(&ObjectKey::unused(&hash)).await?;
        }
        let mut blob = self.blobs.put_bytes(read).await?;
        if self.bug == BlobBug::LengthForgotten {
            blob.bytes = 0;
        }
        Ok(blob)
    }

    async fn open_blob(&self, hash: &BlobHash, part: Range<u64>) -> Result<OpenedBlob> {
        let is_whole = part == (0..u64::MAX);
        match self.bug {
            BlobBug::BytesAreUnchecked if is_whole => return self.open_unchecked(hash, part).await,
            BlobBug::PartsAreUnchecked if !is_whole => return self.open_unchecked(hash, part).await,
            BlobBug::PartIsTheRest => return self.blobs.open_blob(hash, part.start..u64::MAX).await,
            _ => {}
        }
        let opened = self.blobs.open_blob(hash, part).await;
        let instead = match (self.bug, opened.as_ref().map_err(Error::kind)) {
            (BlobBug::ImpossiblePartIsEmpty, Err(ErrorKind::Invalid))
            | (BlobBug::MissingBytesAreNone, Err(ErrorKind::Corrupt)) => Some(hash.clone()),
            (BlobBug::UnknownBlobIsEmpty, Err(ErrorKind::NotFound)) => {
                Some(self.blobs.put_blob(byte_stream("")).await?.hash)
            }
            _ => None,
        };
        match instead {
            Some(hash) => self.blobs.open_blob(&hash, 0..0).await,
            None => opened,
        }
    }

    async fn load_blob(&self, hash: &BlobHash) -> Result<Option<Blob>> {
        let mut blob = self.blobs.load_blob(hash).await?;
        if let Some(blob) = blob.as_mut().filter(|_| self.bug == BlobBug::EveryBlobIsUnused) {
            blob.unused_since = Some(blob.created_at);
        }
        Ok(blob)
    }

    async fn touch_blobs(&self, hashes: &[BlobHash]) -> Result<()> {
        if self.bug == BlobBug::TouchDoesNothing { Ok(()) } else { self.blobs.touch_blobs(hashes).await }
    }

    async fn list_blobs(&self, page: PageRequest) -> Result<Page<Blob>> {
        let mut listed = self.blobs.list_blobs(page).await?;
        if self.bug == BlobBug::BlobsUnordered {
            listed.items.reverse();
        }
        Ok(listed)
    }

    async fn list_blob_referrers(&self, hash: &BlobHash, page: PageRequest) -> Result<Page<ThreadId>> {
        self.blobs.list_blob_referrers(hash, page).await
    }

    async fn list_thread_blobs(&self, thread: &ThreadId, page: PageRequest) -> Result<Page<BlobHash>> {
        self.blobs.list_thread_blobs(thread, page).await
    }

    async fn collect_blobs(&self, mut request: CollectBlobs, progress: &dyn Progress) -> Result<CollectedBlobs> {
        match self.bug {
            BlobBug::DryRunRemoves => request.dry_run = false,
            BlobBug::ShortGraceIsLengthened => request.grace = request.grace.max(MIN_GRACE),
            BlobBug::GraceIsIgnored => return self.later.collect_blobs(request, progress).await,
            BlobBug::NothingIsRemoved | BlobBug::RemovedBlobsStay => {
                let mut collected = self.blobs.collect_blobs(request.dry(), progress).await?;
                collected.removed = 0;
                return Ok(collected);
            }
            _ => {}
        }
        let mut collected = self.blobs.collect_blobs(request, progress).await?;
        if self.bug == BlobBug::StopIsNotSaid {
            collected.stopped = false;
        }
        Ok(collected)
    }

    async fn remove_unreferenced(&self, hashes: &[BlobHash]) -> Result<RemovedBlobs> {
        if self.bug == BlobBug::UnreferencedStays {
            return Ok(RemovedBlobs::default());
        }
        self.blobs.remove_unreferenced(hashes).await
    }
}
