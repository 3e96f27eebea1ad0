//! A simulated disk whose syncs can be left out or held up.

use std::{fmt, io, sync::Arc, time::SystemTime};

use store_file::testing::{Entry, FilePath, Identity, Open, SimDisk, Vfs, VfsFile};

/// Says of each sync whether it is done.
type Ask = Arc<dyn Fn() -> bool + Send + Sync>;

/// A disk that asks before each sync.
#[derive(Clone)]
pub(crate) struct Syncing(SimDisk, Ask);

struct SyncingFile(Arc<dyn VfsFile>, Ask);

impl Syncing {
    pub(crate) fn new(disk: SimDisk, ask: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(disk, Arc::new(ask))
    }
}

impl fmt::Debug for Syncing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for SyncingFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Vfs for Syncing {
    fn open(&self, path: &FilePath, how: Open) -> io::Result<Arc<dyn VfsFile>> {
        Ok(Arc::new(SyncingFile(self.0.open(path, how)?, Arc::clone(&self.1))))
    }

    fn rename(&self, from: &FilePath, to: &FilePath) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn unlink(&self, path: &FilePath) -> io::Result<()> {
        self.0.unlink(path)
    }

    fn create_dir(&self, path: &FilePath) -> io::Result<()> {
        self.0.create_dir(path)
    }

    fn remove_dir(&self, path: &FilePath) -> io::Result<()> {
        self.0.remove_dir(path)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.0.free_space()
    }

    fn list(&self, path: &FilePath) -> io::Result<Vec<Entry>> {
        self.0.list(path)
    }

    fn sync_dir(&self, path: &FilePath) -> io::Result<()> {
        if (self.1)() { self.0.sync_dir(path) } else { Ok(()) }
    }

    fn identity(&self) -> io::Result<Identity> {
        self.0.identity()
    }
}

impl VfsFile for SyncingFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn sync_data(&self) -> io::Result<()> {
        if (self.1)() { self.0.sync_data() } else { Ok(()) }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.0.allocate(len)
    }

    fn modified(&self) -> io::Result<SystemTime> {
        self.0.modified()
    }

    fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.0.set_modified(time)
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.0.try_lock()
    }
}
