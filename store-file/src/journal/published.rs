//! The last batch that is in all of its logs, for readers in other processes: they read logs one after the other, and
//! leave out what later batches write while they read.
//!
//! The number is in a small file that is written after the logs and never synced. After a crash its number means
//! nothing.

use std::{io, sync::Arc};

use serde_json::Value;

use crate::{
    error,
    log::{add_checksum, verified_checksum},
    vfs::{FilePath, Open, Vfs, VfsFile, read_small},
};

/// The name of the file.
pub(crate) const PUBLISHED: &str = "journal.last";
/// The file is this long, so that a shorter line overwrites all of a longer one.
const BYTES: usize = 64;
/// How many times a reader looks: the file may be read while it is written.
const LOOKS: u32 = 100;

/// The file, open for writing.
#[derive(Debug)]
pub(super) struct Published(Option<Arc<dyn VfsFile>>);

impl Published {
    /// Says that all batches up to this one are in the logs. If there is no space to make the file, this opening says
    /// nothing: readers then use every group that they find, and a batch may show in part. If there is no space to
    /// write to the file, readers see what it contained before.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(super) fn begin(vfs: &dyn Vfs, last: u64) -> io::Result<Self> {
        let file = match vfs.open(&path()?, Open::Create) {
            Err(source) if error::is_full(&source) => None,
            opened => Some(opened?),
        };
        let mut published = Self(file);
        match published.say(last) {
            Err(source) if error::is_full(&source) => published.0 = None,
            said => said?,
        }
        Ok(published)
    }

    /// Says that this batch is in the logs, too.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(super) fn say(&self, last: u64) -> io::Result<()> {
        let Some(file) = &self.0 else { return Ok(()) };
        let (mut line, _) = add_checksum(&format!(r#"{{"batch":{last}}}"#)).map_err(io::Error::other)?;
        line.resize(BYTES, b' ');
        file.write_at(&line, 0)
    }
}

/// The last batch that is in all of its logs, while a store is open for writing. None if there is no file that says so.
/// If the file has no right checksum in any of the looks, this returns 0, so the reader shows no batch.
///
/// # Errors
/// An error of the operating system.
pub(crate) fn published(vfs: &dyn Vfs) -> io::Result<Option<u64>> {
    for _ in 0..LOOKS {
        let Some(bytes) = read_small(vfs, &path()?, BYTES as u64)? else { return Ok(None) };
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let proved = verified_checksum(line).and_then(|_| serde_json::from_slice::<Value>(line).ok());
        if let Some(number) = proved.and_then(|fields| fields.get("batch")?.as_u64()) {
            return Ok(Some(number));
        }
    }
    Ok(Some(0))
}

fn path() -> io::Result<FilePath> {
    FilePath::new(PUBLISHED).map_err(io::Error::other)
}
