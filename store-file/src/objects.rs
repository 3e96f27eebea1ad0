//! Objects: a file for each, which is complete and durable before it gets its name.

use std::{io, ops::Range, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use store_core::{
    ByteStream, CursorScope, Error, IdSource, ObjectKey, ObjectStore, ObjectUpload, Page, PageBuilder, PageRequest,
    Position, Result, StoredObject, TenantId, Timestamp, UuidSource, length,
};

use crate::{
    error,
    mutex::guard,
    object_files::{self, object_path, upload_path},
    pool::Pending,
    shared::Shared,
    tenant::Tenant,
    vfs::{FilePath, Open, VfsFile, ensure_dir, read_exact_at},
};

/// How many bytes of an object are read at once.
const READ_BYTES: u64 = 1 << 20;

/// After so many bytes an upload is synced, while more bytes come. Otherwise its end would wait for the disk to write
/// all of them.
const SYNC_BYTES: u64 = 16 << 20;

/// An object that is being written to a file of its own.
struct FileUpload {
    tenant: Tenant,
    file: Arc<dyn VfsFile>,
    path: FilePath,
    bytes: u64,
    /// The sync that was begun last.
    syncing: Option<Pending<io::Result<()>>>,
    /// Whether every write and every sync so far has ended well. Otherwise it is unknown what the file has.
    is_whole: bool,
}

impl FileUpload {
    fn check_whole(&self) -> Result<()> {
        if self.is_whole { Ok(()) } else { Err(Error::unavailable("an earlier write of the upload has failed")) }
    }

    /// Waits until the sync that was begun last has ended. The system may report a failure only once, so it counts.
    async fn end_sync(&mut self) -> Result<()> {
        match self.syncing.take() {
            Some(syncing) => syncing.await?.map_err(|source| error::io(&self.path, source)),
            None => Ok(()),
        }
    }
}

impl Drop for FileUpload {
    fn drop(&mut self) {
        // The name is that of a finished upload no more. What cannot be removed now is removed by the next opening.
        let _ = self.tenant.shared.vfs.unlink(&self.path);
    }
}

#[async_trait]
impl ObjectUpload for FileUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.tenant.check_open()?;
        self.check_whole()?;
        let (file, path, at, count) = (Arc::clone(&self.file), self.path.clone(), self.bytes, length(bytes.len()));
        self.is_whole = false;
        let writing = move |shared: &Arc<Shared>, _: &TenantId| {
            let fail = |source| error::io(&path, source);
            shared.check_space(count).map_err(fail)?;
            file.write_at(&bytes, at).map_err(fail)
        };
        self.tenant.change(writing).await?;
        self.bytes = at + count;
        if self.bytes / SYNC_BYTES > at / SYNC_BYTES {
            self.end_sync().await?;
            let file = Arc::clone(&self.file);
            self.syncing = Some(self.tenant.shared.pool.run(move || file.sync_data()));
        }
        self.is_whole = true;
        Ok(())
    }

    async fn finish(mut self: Box<Self>, key: &ObjectKey) -> Result<()> {
        self.tenant.check_open()?;
        self.check_whole()?;
        self.end_sync().await?;
        let (file, path, key) = (Arc::clone(&self.file), self.path.clone(), key.clone());
        let state = Arc::clone(&self.tenant.state);
        let finishing = move |shared: &Arc<Shared>, tenant: &TenantId| {
            shared.check_writable()?;
            let (vfs, target) = (&*shared.vfs, object_path(tenant, &key)?);
            let fail = |source| error::io(&target, source);
            let now = Duration::from_millis(shared.time.now().as_millis());
            file.set_modified(std::time::UNIX_EPOCH + now).map_err(fail)?;
            file.sync_data().map_err(fail)?;
            // While this is held, the objects of the tenant are not removed.
            let held = guard(&state.deleting);
            if state.is_closed() {
                return Err(Error::closed());
            }
            ensure_dir(vfs, &target.parent()).map_err(fail)?;
            vfs.rename(&path, &target).map_err(fail)?;
            drop(held);
            vfs.sync_dir(&target.parent()).map_err(fail)
        };
        self.tenant.change(finishing).await
    }
}

/// The part of an object that is still to be read.
struct Reading {
    tenant: Tenant,
    file: Arc<dyn VfsFile>,
    path: FilePath,
    left: Range<u64>,
    /// One is filled while the reader has what was read into the other. When the reader has dropped that, its memory is
    /// used again: to get new pages from the system for each part would take longer than to read it.
    buffers: [BytesMut; 2],
}

impl Reading {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let at = self.left.start;
        let end = at.saturating_add(READ_BYTES).min(self.left.end);
        let (file, path) = (Arc::clone(&self.file), self.path.clone());
        let [mut buffer, next_buffer] = self.buffers;
        let reading = move |_: &Arc<Shared>, _: &TenantId| {
            buffer.resize(usize::try_from(end - at).unwrap_or_default(), 0);
            read_exact_at(&*file, &mut buffer, at).map_err(|source| error::io(&path, source))?;
            Ok((buffer.split().freeze(), buffer))
        };
        let (bytes, buffer) = self.tenant.read(None, reading).await?;
        (self.left.start, self.buffers) = (end, [next_buffer, buffer]);
        Ok(Some((bytes, self)))
    }
}

#[async_trait]
impl ObjectStore for Tenant {
    async fn begin_upload(&self) -> Result<Box<dyn ObjectUpload>> {
        let path = upload_path(&UuidSource.next_id())?;
        let making = move |shared: &Arc<Shared>, _: &TenantId| {
            shared.check_writable()?;
            let fail = |source| error::io(&path, source);
            ensure_dir(&*shared.vfs, &path.parent()).map_err(fail)?;
            let file = shared.vfs.open(&path, Open::CreateNew).map_err(fail)?;
            Ok((file, path))
        };
        let (file, path) = self.change(making).await?;
        let upload = FileUpload { tenant: self.clone(), file, path, bytes: 0, syncing: None, is_whole: true };
        Ok(Box::new(upload))
    }

    async fn open_object(&self, key: &ObjectKey, part: Range<u64>) -> Result<Option<ByteStream>> {
        let key = key.clone();
        let opening = move |shared: &Arc<Shared>, tenant: &TenantId| {
            let path = object_path(tenant, &key)?;
            let fail = |source| error::io(&path, source);
            match shared.vfs.open(&path, Open::Read) {
                Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
                opened => {
                    let file = opened.map_err(fail)?;
                    let len = file.len().map_err(fail)?;
                    Ok(Some((file, path, len)))
                }
            }
        };
        let Some((file, path, len)) = self.read(None, opening).await? else { return Ok(None) };
        let left = part.start.min(len)..part.end.min(len);
        let reading = Reading { tenant: self.clone(), file, path, left, buffers: Default::default() };
        Ok(Some(Box::pin(stream::try_unfold(reading, Reading::next))))
    }

    async fn delete_objects(&self, keys: &[ObjectKey]) -> Result<()> {
        let keys = keys.to_vec();
        let deleting = move |shared: &Arc<Shared>, tenant: &TenantId| {
            shared.check_writable()?;
            keys.iter().try_for_each(|key| object_files::remove(&*shared.vfs, &object_path(tenant, key)?))
        };
        self.change(deleting).await
    }

    async fn list_objects(&self, page: PageRequest) -> Result<Page<StoredObject>> {
        self.read(None, move |shared, tenant| list(shared, tenant, &page)).await
    }

    /// Unfinished uploads of earlier openings are removed when the root is opened, and each of this opening when its
    /// caller drops it.
    async fn discard_uploads(&self, _begun_before: Timestamp) -> Result<u64> {
        self.check_open()?;
        self.shared.check_writable()?;
        Ok(0)
    }
}

fn list(shared: &Shared, tenant: &TenantId, page: &PageRequest) -> Result<Page<StoredObject>> {
    let scope = CursorScope::new(tenant, "list_objects", "");
    let mut builder = PageBuilder::new(page.checked_limit()?);
    let after = Position::from_cursor(&shared.cursor_key, &scope, page.cursor.as_ref())?;
    let after = after.map(|after| ObjectKey::new(&after.id)).transpose()?;
    object_files::visit_keys(&*shared.vfs, tenant, after.as_ref(), |key| {
        let position = Position::new(0, key.as_str());
        let stored = stored(shared, tenant, key)?;
        // One that was removed meanwhile is left out.
        Ok(stored.is_none() || builder.offer(position, 0, stored))
    })?;
    Ok(builder.finish(|position| position.to_cursor(&shared.cursor_key, &scope)))
}

fn stored(shared: &Shared, tenant: &TenantId, key: ObjectKey) -> Result<Option<StoredObject>> {
    let path = object_path(tenant, &key)?;
    let fail = |source| error::io(&path, source);
    let file = match shared.vfs.open(&path, Open::Read) {
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(fail)?,
    };
    let since = file.modified().map_err(fail)?.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let created_at = Timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or_default())?;
    Ok(Some(StoredObject::new(key, file.len().map_err(fail)?, created_at)))
}
