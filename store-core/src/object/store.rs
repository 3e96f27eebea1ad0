//! The contract of objects.

use std::{ops::Range, pin::Pin};

use async_trait::async_trait;
use bytes::Bytes;
use futures_core::Stream;
use futures_util::stream;
use serde::Serialize;

use super::ObjectKey;
use crate::{
    error::Result,
    page::{Page, PageRequest},
    time::Timestamp,
};

/// Bytes, in parts of any size. The stream ends after its first error.
pub type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Returns bytes as a stream of one part.
#[must_use]
pub fn byte_stream(bytes: impl Into<Bytes>) -> ByteStream {
    let bytes = bytes.into();
    Box::pin(stream::once(async move { Ok(bytes) }))
}

/// An object that is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredObject {
    /// The key.
    #[serde(serialize_with = "serialize_key")]
    pub key: ObjectKey,
    /// The number of bytes.
    pub bytes: u64,
    /// When its upload was finished, in store time.
    pub created_at: Timestamp,
}

fn serialize_key<S: serde::Serializer>(key: &ObjectKey, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(key.as_str())
}

impl StoredObject {
    /// Describes a stored object.
    #[must_use]
    pub const fn new(key: ObjectKey, bytes: u64, created_at: Timestamp) -> Self {
        Self { key, bytes, created_at }
    }
}

/// Bytes of any length under keys, for one tenant. An object is written once and never changes.
///
/// A backend implements this trait. Callers use [`BlobStore`](crate::BlobStore), which knows what an object is for.
#[async_trait]
pub trait ObjectStore: Send + Sync {
    /// Begins to write an object.
    ///
    /// # Errors
    /// `Closed`; any error of writing.
    async fn begin_upload(&self) -> Result<Box<dyn ObjectUpload>>;

    /// Reads a part of an object, or all of it. Returns none if there is no such object. A part that ends after the
    /// last byte ends there. Memory does not grow with the length of the object.
    ///
    /// # Errors
    /// Any error of reading, also inside of the stream.
    async fn open_object(&self, key: &ObjectKey, part: Range<u64>) -> Result<Option<ByteStream>>;

    /// Removes objects. Those that do not exist are no error. A stream that was opened before may still give all bytes,
    /// or end with an error.
    ///
    /// # Errors
    /// Any error of writing. The call can be repeated.
    async fn delete_objects(&self, keys: &[ObjectKey]) -> Result<()>;

    /// Lists objects in the order of their keys, in pages.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list.
    async fn list_objects(&self, page: PageRequest) -> Result<Page<StoredObject>>;

    /// Removes what uploads that were begun before a time, and never finished, have left. Returns how many they were.
    /// An upload that is still being written then fails.
    ///
    /// # Errors
    /// Any error of writing. The call can be repeated.
    async fn discard_uploads(&self, begun_before: Timestamp) -> Result<u64>;
}

/// An object that is being written. No reader sees it before it is finished. If it is dropped, what it has written is
/// removed, at the latest by [`ObjectStore::discard_uploads`].
#[async_trait]
pub trait ObjectUpload: Send {
    /// Adds bytes at the end.
    ///
    /// # Errors
    /// Any error of writing. The upload cannot be continued after one.
    async fn write(&mut self, bytes: Bytes) -> Result<()>;

    /// Gives the object its key. When the call returns, all bytes are as durable as a commit.
    ///
    /// # Errors
    /// Any error of writing. After an `Unknown` outcome the object may exist.
    async fn finish(self: Box<Self>, key: &ObjectKey) -> Result<()>;
}
