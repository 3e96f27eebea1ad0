//! One half of the journal: a file that is filled from its beginning, and used again when nothing in it is needed.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use super::frame::{FRAME, Frame, HalfHeader, SECTOR};
use crate::{
    error,
    vfs::{FilePath, Open, Vfs, VfsFile, replace},
};

/// The two files.
pub(super) const NAMES: [&str; 2] = ["journal.0", "journal.1"];
/// Space for a half is reserved in steps of this many bytes, so that a small root stays small.
const STEP: u64 = 1 << 20;
/// Where less than this is free, a half takes no more than it needs.
const AMPLE: u64 = 16 << 20;

/// A half that is open for writing.
#[derive(Debug)]
pub(super) struct Half {
    file: Arc<dyn VfsFile>,
    /// Where the next batch goes.
    pub(super) end: u64,
    /// Up to where space is reserved.
    reserved: u64,
    /// The last batch in it.
    pub(super) last: u64,
    /// The highest `base` that one of its batches states.
    pub(super) told: u64,
    /// Whether the logs still need what is in it.
    pub(super) is_needed: bool,
    /// The logs whose numbers it explains.
    pub(super) named: BTreeSet<u64>,
    /// The logs that its batches wrote to, and that were not dropped since.
    pub(super) written: BTreeMap<u64, FilePath>,
    /// The folders in which its batches changed names.
    pub(super) folders: BTreeSet<FilePath>,
}

impl Half {
    /// Empties both files, or makes them. As soon as one of the two headers is durable, batches below `header.next` are
    /// ignored. If the files exist, no space is needed, so a root on a full disk can be opened and closed.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(super) fn fresh(vfs: &dyn Vfs, header: &HalfHeader) -> store_core::Result<[Self; 2]> {
        let sector = header.encode()?;
        let [first, second] = NAMES.map(|name| begin(vfs, name, &sector).map_err(|source| error::io(name, source)));
        let files = [first?, second?];
        for (file, name) in files.iter().zip(NAMES) {
            // The old batches are removed before a new one is written. A power cut may have torn one of them and left
            // the next one whole: this one could look like the successor of a new batch.
            let emptied = file.truncate(SECTOR).and_then(|()| file.sync_data());
            emptied.map_err(|source| error::io(name, source))?;
        }
        Ok(files.map(|file| Self {
            file,
            end: SECTOR,
            reserved: SECTOR,
            last: 0,
            told: 0,
            is_needed: false,
            named: BTreeSet::new(),
            written: BTreeMap::new(),
            folders: BTreeSet::new(),
        }))
    }

    /// Makes sure that so many more bytes have space, and one sector more, for a control batch.
    ///
    /// # Errors
    /// An error of the operating system. Nothing was written.
    pub(super) fn reserve(&mut self, vfs: &dyn Vfs, bytes: u64) -> io::Result<()> {
        let end = self.end.saturating_add(bytes + SECTOR);
        if end <= self.reserved {
            return Ok(());
        }
        // If little space is left, other files need it.
        let is_ample = vfs.free_space()? >= AMPLE;
        let wanted = if is_ample { end.next_multiple_of(STEP) } else { end };
        self.file.allocate(wanted)?;
        self.reserved = wanted;
        Ok(())
    }

    /// Writes a batch after the last one. It counts as written when [`Half::advance`] is called.
    ///
    /// # Errors
    /// An error of the operating system. Any part of the batch may have been written.
    pub(super) fn write(&self, batch: &[u8]) -> io::Result<()> {
        self.file.write_at(batch, self.end)
    }

    /// Says that a batch was written, and how long it is.
    pub(super) const fn advance(&mut self, frame: &Frame, bytes: u64) {
        self.end += bytes;
        self.last = frame.number;
        self.told = frame.base;
        self.is_needed = true;
    }

    /// Removes, durably, what a failed write has left: the beginning of a batch.
    ///
    /// # Errors
    /// An error of the operating system. The next opening may then find the batch or not.
    pub(super) fn erase_head(&self) -> io::Result<()> {
        self.file.write_at(&[0; FRAME], self.end)?;
        self.file.sync_data()
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Begins the file again. Nothing in it may be needed. `last` and `told` keep the values of the former use until
    /// the next batch. `reserved` stays, because the file keeps its length.
    pub(super) fn reuse(&mut self) {
        self.end = SECTOR;
        self.named.clear();
        self.written.clear();
        self.folders.clear();
    }
}

/// Writes the header of a file, durably; a file that is not there appears with it.
fn begin(vfs: &dyn Vfs, name: &str, sector: &[u8]) -> io::Result<Arc<dyn VfsFile>> {
    let path = FilePath::new(name).map_err(io::Error::other)?;
    match vfs.open(&path, Open::Write) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => replace(vfs, &path, sector)?,
        opened => {
            let file = opened?;
            file.write_at(sector, 0)?;
            file.sync_data()?;
            return Ok(file);
        }
    }
    vfs.open(&path, Open::Write)
}
