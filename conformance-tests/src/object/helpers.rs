//! Helpers that upload, read and list objects.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use futures_util::TryStreamExt;
use store_core::{BlobHash, ByteStream, ObjectKey, ObjectStore, PageRequest, StoredObject, TenantStores};

use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_some},
    given::read_all_pages,
};

/// The objects among the handles of a tenant.
pub(crate) fn objects_of(stores: &TenantStores) -> Result<Arc<dyn ObjectStore>, Failure> {
    expect_some(stores.objects.clone(), "objects")
}

/// The objects of the tenant `default`.
pub(crate) fn objects(given: &Given) -> Result<Arc<dyn ObjectStore>, Failure> {
    objects_of(&given.stores()?)
}

/// The key with this text.
pub(crate) fn key(text: &str) -> ObjectKey {
    ObjectKey::new(text).expect("a valid key")
}

/// Bytes that differ at every place of a blob, so that a wrong part is noticed.
pub(crate) fn numbered_bytes(len: usize) -> Vec<u8> {
    (0..len.div_ceil(4)).flat_map(|number| u32::try_from(number).unwrap_or_default().to_le_bytes()).take(len).collect()
}

/// Uploads an object, in writes of at most `write_bytes`.
pub(crate) async fn upload(objects: &dyn ObjectStore, key: &ObjectKey, bytes: &[u8], write_bytes: usize) -> Verdict {
    let mut upload = objects.begin_upload().await?;
    for part in bytes.chunks(write_bytes) {
        upload.write(Bytes::copy_from_slice(part)).await?;
    }
    Ok(upload.finish(key).await?)
}

/// Reads all of a stream.
pub(crate) async fn read_stream(stream: ByteStream) -> store_core::Result<Vec<u8>> {
    let add = |mut read: Vec<u8>, part: Bytes| async move {
        read.extend_from_slice(&part);
        Ok(read)
    };
    stream.try_fold(Vec::new(), add).await
}

/// Reads a part of an object; none if it does not exist.
pub(crate) async fn read_part(
    objects: &dyn ObjectStore,
    key: &ObjectKey,
    part: Range<u64>,
) -> Result<Option<Vec<u8>>, Failure> {
    match objects.open_object(key, part).await? {
        Some(stream) => Ok(Some(read_stream(stream).await?)),
        None => Ok(None),
    }
}

/// Checks the bytes of an object. If they differ, only their number is in the failure.
pub(crate) async fn expect_object(objects: &dyn ObjectStore, key: &ObjectKey, expected: &[u8]) -> Verdict {
    let read = expect_some(read_part(objects, key, 0..u64::MAX).await?, "object")?;
    expect_eq((read.len(), BlobHash::of(&read)), (expected.len(), BlobHash::of(expected)))
}

/// All objects, in the order of the list.
pub(crate) async fn list(objects: &dyn ObjectStore) -> Result<Vec<StoredObject>, Failure> {
    read_all_pages(PageRequest::first(100), |page| objects.list_objects(page)).await
}

/// The keys of all objects, in the order of the list.
pub(crate) async fn keys(objects: &dyn ObjectStore) -> Result<Vec<String>, Failure> {
    Ok(list(objects).await?.into_iter().map(|object| object.key.to_string()).collect())
}
