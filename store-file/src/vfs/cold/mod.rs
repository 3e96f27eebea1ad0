//! Logs that are compressed in part (FI-14). Above this module a log is one file.
//!
//! A log `x.jsonl` may have a file `x.jsonl.zst` beside it. This file has the bytes of the log up to some offset, as
//! zstd frames, and `x.jsonl` has the bytes that follow. So an offset is always an offset of the log.
//!
//! To compress a log, `x.jsonl.zst` is made durable first. Then `x.jsonl` is replaced by an empty file. A crash in
//! between leaves both with the same bytes: the end of a compressed file tells. A reader then leaves the plain file
//! out, and an opening for writing finishes the replacement.

mod file;
mod frames;
mod table;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
};

pub(crate) use self::frames::Damaged;
use self::{
    file::LogFile,
    frames::{Cache, Compressed},
    table::TAIL,
};
use super::{Entry, FilePath, Identity, Kind, Open, Vfs, VfsFile};
use crate::mutex::guard;

/// How the name of a log ends.
const LOG: &str = ".jsonl";
/// How the name of its compressed file goes on.
const COMPRESSED: &str = ".zst";
/// The compressed file while it is written. It is in the root, where no log is.
const NEW: &str = "cold.new";
/// An empty file that is about to replace the plain file of the log that is compressed.
const EMPTY: &str = "cold.empty";
/// The same for a log whose compression a crash has cut short.
const REST: &str = "cold.rest";

/// A disk, on which logs may be compressed in part.
#[derive(Debug, Clone)]
pub(crate) struct Cold(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    below: Arc<dyn Vfs>,
    /// Held by who compresses a log: there is one file to write to.
    compressing: Mutex<()>,
    /// Held while the two files of a log are changed, or opened to agree with each other.
    ///
    /// It has the folders that were synced since this disk was opened. The names in the others may be those that a
    /// process left that was killed, and not be durable yet.
    switching: Mutex<BTreeSet<FilePath>>,
    cache: Cache,
}

/// How many bytes a log takes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Its plain file.
    pub(crate) plain: u64,
    /// Its compressed file, 0 if there is none.
    pub(crate) compressed: u64,
}

impl Cold {
    pub(crate) fn over(below: Arc<dyn Vfs>) -> Self {
        let (compressing, switching, cache) = (Mutex::default(), Mutex::default(), Cache::default());
        Self(Arc::new(Inner { below, compressing, switching, cache }))
    }

    /// Removes what a compression left that was cut short. It refers to nothing.
    pub(crate) fn clean(&self) {
        for name in [NEW, EMPTY, REST] {
            let _ = name_in_root(name).and_then(|path| self.0.below.unlink(&path));
        }
    }

    /// Waits until no other log is being compressed. One is as long as the guard is held.
    pub(crate) fn begin(&self) -> MutexGuard<'_, ()> {
        guard(&self.0.compressing)
    }

    /// How many bytes a log takes up on the disk.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn sizes(&self, log: &FilePath) -> io::Result<Sizes> {
        let plain = self.0.below.open(log, Open::Read)?.len()?;
        let compressed = match self.0.below.open(&compressed_path(log)?, Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            opened => opened?.len()?,
        };
        Ok(Sizes { plain, compressed })
    }

    /// The offset of a log at which its plain file begins.
    ///
    /// # Errors
    /// As the system says; [`Damaged`].
    pub(crate) fn plain_begins(&self, log: &FilePath) -> io::Result<u64> {
        Ok(LogFile::open(&self.0, log, Open::Write)?.plain_begins())
    }

    /// Compresses the first `len` bytes of a log, which are all that it has, to a file that [`Cold::switch`] gives its
    /// name. The plain file and its name must be durable before the switch: after a crash the ends of both files are
    /// compared. `patches` are bytes that take the place of others, by their offsets.
    ///
    /// # Errors
    /// As the system says; [`Damaged`]. Nothing of the log has changed.
    pub(crate) fn prepare(&self, log: &FilePath, len: u64, patches: &[(u64, Vec<u8>)]) -> io::Result<()> {
        let prepared = self.write(log, len, patches);
        if prepared.is_err() {
            self.clean();
        }
        prepared
    }

    fn write(&self, log: &FilePath, len: u64, patches: &[(u64, Vec<u8>)]) -> io::Result<()> {
        if len < TAIL as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let below = &*self.0.below;
        let source = LogFile::open(&self.0, log, Open::Write)?;
        let target = empty_file(below, NEW)?;
        frames::write(&source, &*target, (len, source.plain_begins()), patches)?;
        target.sync_data()?;
        empty_file(below, EMPTY)?.sync_data()
    }

    /// Puts the file that was prepared beside its log, and an empty one in the place of the log. Nothing may be
    /// appended to the log since it was prepared, and no handle of it be used for writing any more.
    ///
    /// # Errors
    /// As the system says. It is unknown then what is durable; the log is whole, whatever is.
    pub(crate) fn switch(&self, log: &FilePath) -> io::Result<()> {
        let _one = guard(&self.0.switching);
        let below = &*self.0.below;
        below.rename(&name_in_root(NEW)?, &compressed_path(log)?)?;
        below.sync_dir(&log.parent())?;
        below.rename(&name_in_root(EMPTY)?, log)?;
        below.sync_dir(&log.parent())
    }
}

impl Inner {
    /// Finishes what [`Cold::switch`] has begun. The compressed file may not be durable yet.
    fn finish(&self, log: &FilePath) -> io::Result<()> {
        self.below.sync_dir(&log.parent())?;
        empty_file(&*self.below, REST)?.sync_data()?;
        self.below.rename(&name_in_root(REST)?, log)?;
        self.below.sync_dir(&log.parent())
    }

    fn has_compressed(&self, log: &FilePath) -> io::Result<bool> {
        Ok(Compressed::open(&*self.below, &compressed_path(log)?, &self.cache)?.is_some())
    }
}

fn empty_file(vfs: &dyn Vfs, name: &str) -> io::Result<Arc<dyn VfsFile>> {
    let file = vfs.open(&name_in_root(name)?, Open::Create)?;
    file.truncate(0)?;
    Ok(file)
}

fn name_in_root(name: &str) -> io::Result<FilePath> {
    FilePath::new(name).map_err(io::Error::other)
}

fn is_log(path: &FilePath) -> bool {
    path.as_str().ends_with(LOG)
}

/// The compressed file of a log.
fn compressed_path(log: &FilePath) -> io::Result<FilePath> {
    FilePath::new(format!("{}{COMPRESSED}", log.as_str())).map_err(io::Error::other)
}

impl Vfs for Cold {
    fn open(&self, path: &FilePath, how: Open) -> io::Result<Arc<dyn VfsFile>> {
        if !is_log(path) {
            return self.0.below.open(path, how);
        }
        Ok(Arc::new(LogFile::open(&self.0, path, how)?))
    }

    fn rename(&self, from: &FilePath, to: &FilePath) -> io::Result<()> {
        self.0.below.rename(from, to)
    }

    /// The compressed file of a log goes first: what is left of it in a crash still has the name of the log.
    fn unlink(&self, path: &FilePath) -> io::Result<()> {
        if is_log(path) {
            match self.0.below.unlink(&compressed_path(path)?) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.0.below.unlink(path)
    }

    fn create_dir(&self, path: &FilePath) -> io::Result<()> {
        self.0.below.create_dir(path)
    }

    fn remove_dir(&self, path: &FilePath) -> io::Result<()> {
        self.0.below.remove_dir(path)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.0.below.free_space()
    }

    /// Without the compressed files of logs. One whose log is missing belongs to nothing, and is shown.
    fn list(&self, path: &FilePath) -> io::Result<Vec<Entry>> {
        let mut entries = self.0.below.list(path)?;
        let is_plain = |entry: &Entry| entry.kind == Kind::File && entry.name.ends_with(LOG);
        let logs: Vec<String> =
            entries.iter().filter(|entry| is_plain(entry)).map(|entry| entry.name.clone()).collect();
        entries.retain(|entry| {
            let log = entry.name.strip_suffix(COMPRESSED).filter(|log| log.ends_with(LOG));
            log.is_none_or(|log| logs.binary_search_by(|known| known.as_str().cmp(log)).is_err())
        });
        Ok(entries)
    }

    fn sync_dir(&self, path: &FilePath) -> io::Result<()> {
        self.0.below.sync_dir(path)
    }

    fn identity(&self) -> io::Result<Identity> {
        self.0.below.identity()
    }

    fn root(&self) -> Option<&Path> {
        self.0.below.root()
    }
}
