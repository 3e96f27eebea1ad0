//! The objects of a tenant in a copy. Their keys and bytes are copied through the contract of objects. The time of an
//! upload is not kept.

use futures_util::StreamExt as _;
use sha2::{Digest as _, Sha256};

use super::digest::{ListDigest, RunningDigest, hex};
use crate::{
    error::{Error, Result},
    object::{ObjectKey, ObjectStore, StoredObject},
    page::PageRequest,
};

/// The name of the objects in reports and digests.
pub(super) const OBJECTS: &str = "objects";

/// Objects of a page.
const PAGE: u32 = 256;

/// The objects of a tenant, in the order of their keys.
pub(super) struct ObjectWalk<'a> {
    objects: &'a dyn ObjectStore,
    next: Option<PageRequest>,
    page: std::collections::VecDeque<StoredObject>,
}

impl<'a> ObjectWalk<'a> {
    pub(super) fn new(objects: &'a dyn ObjectStore) -> Self {
        Self { objects, next: Some(PageRequest::first(PAGE)), page: std::collections::VecDeque::new() }
    }

    pub(super) async fn next(&mut self) -> Result<Option<StoredObject>> {
        while self.page.is_empty() {
            let Some(request) = self.next.take() else { return Ok(None) };
            let page = self.objects.list_objects(request).await?;
            self.next = page.next.map(|cursor| PageRequest::first(PAGE).after(cursor));
            self.page = page.items.into();
        }
        Ok(self.page.pop_front())
    }
}

/// Copies an object. If the target has it already, nothing is written.
pub(super) async fn copy(from: &dyn ObjectStore, to: &dyn ObjectStore, key: &ObjectKey) -> Result<()> {
    if to.open_object(key, 0..0).await?.is_some() {
        return Ok(());
    }
    let mut bytes = from.open_object(key, 0..u64::MAX).await?.ok_or_else(|| missing(key))?;
    let mut upload = to.begin_upload().await?;
    while let Some(part) = bytes.next().await {
        upload.write(part?).await?;
    }
    upload.finish(key).await
}

/// Returns the SHA-256 digest of the bytes of an object.
pub(super) async fn hash(objects: &dyn ObjectStore, key: &ObjectKey) -> Result<String> {
    let mut bytes = objects.open_object(key, 0..u64::MAX).await?.ok_or_else(|| missing(key))?;
    let mut hash = Sha256::new();
    while let Some(part) = bytes.next().await {
        hash.update(part?);
    }
    Ok(hex(&hash.finalize()))
}

/// Returns the digest of all objects.
pub(super) async fn digest(objects: &dyn ObjectStore) -> Result<Option<ListDigest>> {
    let (mut digest, mut walk) = (RunningDigest::default(), ObjectWalk::new(objects));
    while let Some(object) = walk.next().await? {
        digest.add(object.key.as_str(), &hash(objects, &object.key).await?);
    }
    Ok(digest.finish(OBJECTS))
}

fn missing(key: &ObjectKey) -> Error {
    Error::not_found("object", key.as_str())
}
