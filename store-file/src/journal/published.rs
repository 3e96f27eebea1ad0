//! The last batch that is in all of its logs, for readers in other processes: they read logs one after the other, and
//! leave out what later batches have written meanwhile.
//!
//! The number is in a small file that is written behind the logs and never synced. Behind a crash it says nothing.

use std::{io, sync::Arc};

use crate::{
    error,
    vfs::{FilePath, Open, Vfs, VfsFile, read_small},
};

const NAME: &str = "journal.last";

/// The file, open for writing.
#[derive(Debug)]
pub(super) struct Published(Option<Arc<dyn VfsFile>>);

impl Published {
    /// Says that all batches up to this one are in the logs. Where there is no space for the file, there is none, and
    /// readers see what they find.
    ///
    /// # Errors
    /// As the system says.
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
    /// As the system says.
    pub(super) fn say(&self, last: u64) -> io::Result<()> {
        let Some(file) = &self.0 else { return Ok(()) };
        let number = last.to_be_bytes();
        file.write_at(&[number.as_slice(), crc32c::crc32c(&number).to_be_bytes().as_slice()].concat(), 0)
    }
}

/// The last batch that is in all of its logs, while a writer is at work; nothing if nothing says so.
///
/// # Errors
/// As the system says.
pub(crate) fn published(vfs: &dyn Vfs) -> io::Result<Option<u64>> {
    let Some(bytes) = read_small(vfs, &path()?, 64)? else { return Ok(None) };
    let number = bytes.split_first_chunk::<8>().and_then(|(number, rest)| {
        let sum = rest.first_chunk::<4>()?;
        (crc32c::crc32c(number).to_be_bytes() == *sum).then(|| u64::from_be_bytes(*number))
    });
    Ok(number)
}

fn path() -> io::Result<FilePath> {
    FilePath::new(NAME).map_err(io::Error::other)
}
