//! Objects: a row for each, and its bytes in chunks.

use std::{ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use sqlx::postgres::PgArguments;
use store_core::{
    ByteStream, CursorScope, Error, ObjectKey, ObjectStore, ObjectUpload, Page, PageBuilder, PageRequest, Position,
    Result, StoredObject, Timestamp, length,
};

use crate::{
    columns::{read_bytes, read_i64, read_text, read_u64},
    db::{add, signed},
    error::corrupt,
    store::TenantHandle,
    tenant::Tenant,
};

/// The number of bytes of a chunk. It is stored by the numbers of the chunks and never changes.
const CHUNK_BYTES: u64 = 1 << 20;

/// The objects of a tenant.
#[derive(Debug, Clone)]
pub(crate) struct PostgresObjects {
    tenant: TenantHandle,
}

impl PostgresObjects {
    pub(crate) const fn new(tenant: TenantHandle) -> Self {
        Self { tenant }
    }
}

/// An object that is being written. It gets a row when its first chunk is full, or when it is finished.
struct PostgresUpload {
    tenant: TenantHandle,
    /// The id of the row, and the number of the next chunk.
    row: Option<(i64, u64)>,
    /// What is not written yet: less than a chunk, unless a write has failed.
    rest: BytesMut,
}

impl PostgresUpload {
    /// Writes a chunk. The first one makes the row.
    async fn write_chunk(&mut self, chunk: Bytes) -> Result<()> {
        let row = self.row.take();
        let call = |tenant: Arc<Tenant>| async move {
            let (id, number) = match row {
                Some(row) => row,
                None => (begin(&tenant).await?, 0),
            };
            let mut arguments = PgArguments::default();
            add(&mut arguments, id)?;
            add(&mut arguments, signed(number)?)?;
            add(&mut arguments, chunk.to_vec())?;
            let written = tenant.db().any_connection().write(|sql| &sql.write_object_chunk, arguments).await;
            if written.map_err(|failed| failed.error)?.is_empty() {
                return Err(discarded());
            }
            Ok((id, number + 1))
        };
        self.row = Some(self.tenant.run_write(None, call).await?);
        Ok(())
    }
}

/// Makes the row of an upload, and returns its id.
async fn begin(tenant: &Tenant) -> Result<i64> {
    let mut arguments = PgArguments::default();
    add(&mut arguments, tenant.constants.tenant.as_str())?;
    let rows = tenant.db().any_connection().write(|sql| &sql.begin_object, arguments).await;
    let rows = rows.map_err(|failed| failed.error)?;
    rows.first().map_or_else(|| Err(corrupt("the id of an upload")), |row| read_i64(row, 0))
}

fn discarded() -> Error {
    Error::unavailable("the upload was discarded, because it was not finished in time")
}

#[async_trait]
impl ObjectUpload for PostgresUpload {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.tenant.check_open()?;
        if length(self.rest.len()) >= CHUNK_BYTES {
            return Err(Error::unavailable("an earlier write of the upload has failed"));
        }
        self.rest.extend_from_slice(&bytes);
        let chunk_bytes = usize::try_from(CHUNK_BYTES).unwrap_or(usize::MAX);
        while self.rest.len() >= chunk_bytes {
            // The bytes leave the buffer when they are written, so that nothing is written after a failed write.
            let chunk = Bytes::copy_from_slice(self.rest.get(..chunk_bytes).unwrap_or_default());
            self.write_chunk(chunk).await?;
            drop(self.rest.split_to(chunk_bytes));
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>, key: &ObjectKey) -> Result<()> {
        self.tenant.check_open()?;
        if length(self.rest.len()) >= CHUNK_BYTES {
            return Err(Error::unavailable("an earlier write of the upload has failed"));
        }
        let (rest, row, key) = (self.rest.split().freeze(), self.row, key.to_string());
        let call = |tenant: Arc<Tenant>| async move {
            let (id, chunks) = row.map_or((None, 0), |(id, chunks)| (Some(id), chunks));
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, key)?;
            add(&mut arguments, signed(chunks * CHUNK_BYTES + length(rest.len()))?)?;
            add(&mut arguments, signed(chunks)?)?;
            add(&mut arguments, rest.to_vec())?;
            let mut connection = tenant.db().any_connection();
            let finished = match id {
                // The common case of a small object: one statement.
                None => connection.write(|sql| &sql.store_object, arguments).await,
                Some(id) => {
                    add(&mut arguments, id)?;
                    connection.write(|sql| &sql.finish_object, arguments).await
                }
            };
            if finished.map_err(|failed| failed.error)?.is_empty() { Err(discarded()) } else { Ok(()) }
        };
        self.tenant.run_write(None, call).await
    }
}

/// The part of an object that is still to be read.
struct Reading {
    tenant: TenantHandle,
    object: i64,
    left: Range<u64>,
}

impl Reading {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>> {
        if self.left.is_empty() {
            return Ok(None);
        }
        let (object, number) = (self.object, self.left.start / CHUNK_BYTES);
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = PgArguments::default();
            add(&mut arguments, object)?;
            add(&mut arguments, signed(number)?)?;
            let rows = tenant.db().any_connection().read(|sql| &sql.load_object_chunk, arguments).await?;
            rows.first().map_or_else(|| Err(corrupt("a chunk of an object")), |row| read_bytes(row, 0))
        };
        let chunk = Bytes::from(self.tenant.run_read(None, call).await?);
        let chunk_start = number * CHUNK_BYTES;
        let end = self.left.end.min(chunk_start + CHUNK_BYTES);
        let at = |offset: u64| usize::try_from(offset - chunk_start).unwrap_or(usize::MAX);
        let (from, to) = (at(self.left.start), at(end));
        if chunk.len() < to {
            return Err(corrupt("the length of a chunk of an object"));
        }
        self.left.start = end;
        Ok(Some((chunk.slice(from..to), self)))
    }
}

#[async_trait]
impl ObjectStore for PostgresObjects {
    async fn begin_upload(&self) -> Result<Box<dyn ObjectUpload>> {
        self.tenant.check_open()?;
        self.tenant.shared.check_writable()?;
        Ok(Box::new(PostgresUpload { tenant: self.tenant.clone(), row: None, rest: BytesMut::new() }))
    }

    async fn open_object(&self, key: &ObjectKey, part: Range<u64>) -> Result<Option<ByteStream>> {
        let key = key.to_string();
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, key)?;
            let rows = tenant.db().any_connection().read(|sql| &sql.load_object, arguments).await?;
            rows.first().map(|row| Ok((read_i64(row, 0)?, read_u64(row, 1)?))).transpose()
        };
        let Some((object, len)) = self.tenant.run_read(None, call).await? else { return Ok(None) };
        let left = part.start.min(len)..part.end.min(len);
        let reading = Reading { tenant: self.tenant.clone(), object, left };
        Ok(Some(Box::pin(stream::try_unfold(reading, Reading::next))))
    }

    async fn delete_objects(&self, keys: &[ObjectKey]) -> Result<()> {
        let keys: Vec<_> = keys.iter().map(ToString::to_string).collect();
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, keys)?;
            let deleted = tenant.db().any_connection().write(|sql| &sql.delete_objects, arguments).await;
            deleted.map(drop).map_err(|failed| failed.error)
        };
        self.tenant.run_write(None, call).await
    }

    async fn list_objects(&self, page: PageRequest) -> Result<Page<StoredObject>> {
        let call = |tenant: Arc<Tenant>| async move {
            let constants = &tenant.constants;
            let (limit, scope) = (page.checked_limit()?, CursorScope::new(&constants.tenant, "list_objects", ""));
            let mut builder = PageBuilder::new(limit);
            let after = Position::from_cursor(&constants.cursor_key, &scope, page.cursor.as_ref())?;
            let mut arguments = PgArguments::default();
            add(&mut arguments, constants.tenant.as_str())?;
            add(&mut arguments, after.map(|after| after.id).unwrap_or_default())?;
            add(&mut arguments, i64::try_from(limit + 1).unwrap_or(i64::MAX))?;
            for row in tenant.db().any_connection().read(|sql| &sql.list_objects, arguments).await? {
                let key = ObjectKey::new(&read_text(&row, 0)?)?;
                let position = Position::new(0, key.as_str());
                let stored = StoredObject::new(key, read_u64(&row, 1)?, Timestamp::from_millis(read_u64(&row, 2)?)?);
                if !builder.offer(position, 0, Some(stored)) {
                    break;
                }
            }
            Ok(builder.finish(|position| position.to_cursor(&constants.cursor_key, &scope)))
        };
        self.tenant.run_read(None, call).await
    }

    async fn discard_uploads(&self, begun_before: Timestamp) -> Result<u64> {
        let call = |tenant: Arc<Tenant>| async move {
            let mut arguments = PgArguments::default();
            add(&mut arguments, tenant.constants.tenant.as_str())?;
            add(&mut arguments, signed(begun_before.as_millis())?)?;
            let rows = tenant.db().any_connection().write(|sql| &sql.discard_uploads, arguments).await;
            rows.map_err(|failed| failed.error)?.first().map_or(Ok(0), |row| read_u64(row, 0))
        };
        self.tenant.run_write(None, call).await
    }
}
