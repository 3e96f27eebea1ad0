//! Objects with a planted bug.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use store_core::{
    ByteStream, ErrorKind, ObjectKey, ObjectStore, ObjectUpload, Page, PageRequest, Result, StoredObject, Timestamp,
    byte_stream,
};

use super::bug::BlobBug;

/// Objects with a planted bug.
pub(super) struct FaultyObjects {
    pub(super) objects: Arc<dyn ObjectStore>,
    pub(super) bug: BlobBug,
    /// The buffer of all uploads.
    pub(super) buffer: Arc<Mutex<Vec<u8>>>,
}

struct FaultyUpload {
    upload: Box<dyn ObjectUpload>,
    objects: Arc<dyn ObjectStore>,
    bug: BlobBug,
    buffer: Arc<Mutex<Vec<u8>>>,
    bytes: usize,
}

async fn store(objects: &dyn ObjectStore, key: &str, bytes: Bytes) -> Result<()> {
    let mut upload = objects.begin_upload().await?;
    upload.write(bytes).await?;
    upload.finish(&ObjectKey::new(key)?).await
}

#[async_trait]
impl ObjectUpload for FaultyUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        let max = match self.bug {
            BlobBug::ObjectsAreShort => 1 << 16,
            BlobBug::LongObjectsAreCut => 1 << 24,
            _ => usize::MAX,
        };
        if self.bug == BlobBug::UnfinishedIsFound {
            store(&*self.objects, "unfinished", bytes.clone()).await?;
        }
        let kept = bytes.slice(..bytes.len().min(max.saturating_sub(self.bytes)));
        self.bytes += kept.len();
        if self.bug == BlobBug::UploadsShareABuffer {
            self.buffer.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&kept);
            return Ok(());
        }
        self.upload.write(kept).await
    }

    async fn finish(mut self: Box<Self>, key: &ObjectKey) -> Result<()> {
        match self.bug {
            BlobBug::SlowPutLeavesItsObject => tokio::time::sleep(Duration::from_millis(2)).await,
            BlobBug::UploadsLeaveObjects => store(&*self.objects, &format!("left.{key}"), Bytes::new()).await?,
            _ => {}
        }
        let shared = std::mem::take(&mut *self.buffer.lock().unwrap_or_else(PoisonError::into_inner));
        if !shared.is_empty() {
            self.upload.write(Bytes::from(shared)).await?;
        }
        self.upload.finish(key).await
    }
}

#[async_trait]
impl ObjectStore for FaultyObjects {
    async fn begin_upload(&self) -> Result<Box<dyn ObjectUpload>> {
        if self.bug == BlobBug::BegunUploadStays {
            store(&*self.objects, "begun", Bytes::new()).await?;
        }
        let (objects, bug, buffer) = (Arc::clone(&self.objects), self.bug, Arc::clone(&self.buffer));
        Ok(Box::new(FaultyUpload { upload: self.objects.begin_upload().await?, objects, bug, buffer, bytes: 0 }))
    }

    async fn open_object(&self, key: &ObjectKey, part: Range<u64>) -> Result<Option<ByteStream>> {
        let part = match self.bug {
            BlobBug::PartBeginsLate if part.start > 0 => part.start + 1..part.end,
            BlobBug::LatePartHasBytes => part.start.min(9)..part.end,
            _ => part,
        };
        let opened = self.objects.open_object(key, part).await?;
        let is_empty_instead = opened.is_none() && self.bug == BlobBug::UnknownObjectIsEmpty;
        Ok(if is_empty_instead { Some(byte_stream(Bytes::new())) } else { opened })
    }

    async fn delete_objects(&self, keys: &[ObjectKey]) -> Result<()> {
        match self.bug {
            BlobBug::SlowPutLeavesItsObject | BlobBug::LeftoversStay => Ok(()),
            BlobBug::OneObjectIsDeleted => self.objects.delete_objects(keys.get(..1).unwrap_or_default()).await,
            _ => self.objects.delete_objects(keys).await,
        }
    }

    async fn list_objects(&self, page: PageRequest) -> Result<Page<StoredObject>> {
        let mut listed = self.objects.list_objects(page.clone()).await;
        match (self.bug, &listed) {
            (BlobBug::ObjectCursorUnbound, Err(error)) if error.kind() == ErrorKind::InvalidCursor => {
                listed = self.objects.list_objects(PageRequest { cursor: None, ..page }).await;
            }
            (BlobBug::ClosedStoreListsObjects, Err(error)) if error.kind() == ErrorKind::Closed => {
                return Ok(Page { items: Vec::new(), next: None });
            }
            _ => {}
        }
        let mut listed = listed?;
        if self.bug == BlobBug::ObjectsUnordered {
            listed.items.reverse();
        }
        Ok(listed)
    }

    async fn discard_uploads(&self, begun_before: Timestamp) -> Result<u64> {
        if self.bug == BlobBug::ObjectsAreDiscarded {
            let listed = self.objects.list_objects(PageRequest::first(1_000)).await?.items;
            let old = listed.into_iter().filter(|object| object.created_at < begun_before);
            self.objects.delete_objects(&old.map(|object| object.key).collect::<Vec<_>>()).await?;
        }
        self.objects.discard_uploads(begun_before).await
    }
}
