//! Objects: the bytes of blobs.

use std::{
    collections::BTreeMap,
    fmt,
    ops::{Bound, Range},
    sync::Arc,
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use store_core::{
    ByteStream, CursorScope, ObjectKey, ObjectStore, ObjectUpload, Page, PageBuilder, PageRequest, Position, Result,
    StoredObject, Timestamp, length,
};

use crate::tenant::Tenant;

/// The objects of a tenant, by key.
pub(crate) type Objects = BTreeMap<ObjectKey, MemoryObject>;

/// An object: its bytes, in the parts in which they were written.
#[derive(Debug, Clone)]
pub(crate) struct MemoryObject {
    parts: Vec<Bytes>,
    created_at: Timestamp,
}

impl MemoryObject {
    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| length(part.len())).sum()
    }

    /// Returns what the parts have of a range.
    fn slices(&self, range: &Range<u64>) -> Vec<Bytes> {
        let (mut slices, mut start) = (Vec::new(), 0);
        for part in &self.parts {
            let end = start + length(part.len());
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                let at = |offset: u64| usize::try_from(offset - start).unwrap_or(usize::MAX).min(part.len());
                slices.push(part.slice(at(from)..at(to)));
            }
            start = end;
        }
        slices
    }
}

/// The handle for the objects of a tenant.
#[derive(Clone)]
pub(crate) struct MemoryObjects {
    tenant: Arc<Tenant>,
}

impl MemoryObjects {
    pub(crate) const fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant }
    }
}

struct MemoryUpload {
    tenant: Arc<Tenant>,
    parts: Vec<Bytes>,
}

#[async_trait]
impl ObjectUpload for MemoryUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.tenant.check_open()?;
        self.parts.push(bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>, key: &ObjectKey) -> Result<()> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let object = MemoryObject { parts: self.parts, created_at: tenant.now() };
        tenant.objects.write().insert(key.clone(), object);
        Ok(())
    }
}

#[async_trait]
impl ObjectStore for MemoryObjects {
    async fn begin_upload(&self) -> Result<Box<dyn ObjectUpload>> {
        self.tenant.check_open()?;
        Ok(Box::new(MemoryUpload { tenant: Arc::clone(&self.tenant), parts: Vec::new() }))
    }

    async fn open_object(&self, key: &ObjectKey, part: Range<u64>) -> Result<Option<ByteStream>> {
        let tenant = self.tenant.check_open()?;
        let slices = tenant.objects.read().get(key).map(|object| object.slices(&part));
        Ok(slices.map(|slices| Box::pin(stream::iter(slices.into_iter().map(Ok))) as ByteStream))
    }

    async fn delete_objects(&self, keys: &[ObjectKey]) -> Result<()> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let mut objects = tenant.objects.write();
        for key in keys {
            objects.remove(key);
        }
        Ok(())
    }

    async fn list_objects(&self, page: PageRequest) -> Result<Page<StoredObject>> {
        let tenant = self.tenant.check_open()?;
        let (name, cursor_key) = tenant.tenant_and_cursor_key();
        let scope = CursorScope::new(name, "list_objects", "");
        let mut builder = PageBuilder::new(page.checked_limit()?);
        let after = Position::from_cursor(cursor_key, &scope, page.cursor.as_ref())?;
        let after = after.map(|after| ObjectKey::new(&after.id)).transpose()?;
        let range = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        for (key, object) in tenant.objects.read().range(range) {
            let stored = StoredObject::new(key.clone(), object.bytes(), object.created_at);
            if !builder.offer(Position::new(0, key.as_str()), 0, Some(stored)) {
                break;
            }
        }
        Ok(builder.finish(|position| position.to_cursor(cursor_key, &scope)))
    }

    /// Unfinished uploads are in the memory of their callers only.
    async fn discard_uploads(&self, _begun_before: Timestamp) -> Result<u64> {
        self.tenant.check_open()?;
        Ok(0)
    }
}

impl fmt::Debug for MemoryObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryObjects").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}
