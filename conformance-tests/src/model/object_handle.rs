//! The contract of objects on the handle of a tenant.

use std::{ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use store_core::{
    ByteStream, CursorScope, Direction, ObjectKey, ObjectStore, ObjectUpload, Page, PageRequest, Result, StoredObject,
    Timestamp, byte_stream,
};

use super::{handle::TenantHandle, page::PageReader};

/// An object of the model: its bytes, and when it was stored.
#[derive(Debug, Clone)]
pub(super) struct ModelObject {
    bytes: Vec<u8>,
    created_at: Timestamp,
}

struct ModelUpload {
    handle: TenantHandle,
    bytes: Vec<u8>,
}

#[async_trait]
impl ObjectUpload for ModelUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.handle.check_usable()?;
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>, key: &ObjectKey) -> Result<()> {
        let Self { handle, bytes } = *self;
        handle.write(|tenant, env| {
            tenant.objects.insert(key.clone(), Arc::new(ModelObject { bytes, created_at: env.now }));
            Ok(())
        })
    }
}

#[async_trait]
impl ObjectStore for TenantHandle {
    async fn begin_upload(&self) -> Result<Box<dyn ObjectUpload>> {
        self.check_usable()?;
        Ok(Box::new(ModelUpload { handle: self.clone(), bytes: Vec::new() }))
    }

    async fn open_object(&self, key: &ObjectKey, part: Range<u64>) -> Result<Option<ByteStream>> {
        let object = self.read(|view| Ok(view.tenant.objects.get(key).cloned()))?;
        Ok(object.map(|object| {
            let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(object.bytes.len());
            let bytes = object.bytes.get(at(part.start)..at(part.end)).unwrap_or_default();
            byte_stream(bytes.to_vec())
        }))
    }

    async fn delete_objects(&self, keys: &[ObjectKey]) -> Result<()> {
        self.write(|tenant, _| {
            tenant.objects.retain(|key, _| !keys.contains(key));
            Ok(())
        })
    }

    async fn list_objects(&self, page: PageRequest) -> Result<Page<StoredObject>> {
        self.read(|view| {
            let scope = CursorScope::new(view.name, "list_objects", "");
            let reader = PageReader::open(scope, &page, (view.cursors, view.bug))?;
            let objects = view.tenant.objects.iter().map(|(key, object)| {
                let bytes = object.bytes.len() as u64;
                ((0, key.to_string()), StoredObject::new(key.clone(), bytes, object.created_at))
            });
            Ok(reader.page(objects.collect(), Direction::Forward))
        })
    }

    /// Unfinished uploads are in the memory of their callers only.
    async fn discard_uploads(&self, _begun_before: Timestamp) -> Result<u64> {
        self.check_usable()?;
        Ok(0)
    }
}
