//! A bounded number of open files, the least recently used closed first (FI-13).

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    error,
    vfs::{FilePath, Open, Vfs, VfsFile},
};

/// How many files stay open if nothing else is said.
pub(crate) const DEFAULT_OPEN_FILES: usize = 256;

/// Open files by their paths. Beside the files that are kept here, only files that a call works with are open.
#[derive(Debug)]
pub(crate) struct Files {
    vfs: Arc<dyn Vfs>,
    how: Open,
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    files: HashMap<FilePath, (Arc<dyn VfsFile>, u64)>,
    /// The paths by their last use.
    uses: BTreeMap<u64, FilePath>,
    clock: u64,
    /// Counts the calls of [`Files::forget`], for any path. A file whose opening began before such a call is not kept,
    /// because its name may have been removed or given to another file. It is opened again when it is needed.
    forgotten: u64,
}

impl Files {
    /// Keeps at most `limit` files open.
    pub(crate) fn new(vfs: Arc<dyn Vfs>, how: Open, limit: usize) -> Self {
        Self { vfs, how, limit, kept: Mutex::default() }
    }

    /// The file, opened as all of them are. A missing one is `NotFound`.
    pub(crate) fn open(&self, path: &FilePath) -> io::Result<Arc<dyn VfsFile>> {
        let forgotten = {
            let mut kept = self.kept();
            if let Some(file) = kept.touch(path) {
                return Ok(file);
            }
            kept.forgotten
        };
        let file = self.vfs.open(path, self.how)?;
        let mut kept = self.kept();
        if kept.forgotten == forgotten {
            kept.keep(path, Arc::clone(&file), self.limit);
        }
        Ok(file)
    }

    /// The file to be read: also on a disk that takes no writes any more, or has no space to finish a compression.
    pub(crate) fn open_to_read(&self, path: &FilePath) -> io::Result<Arc<dyn VfsFile>> {
        self.open(path).or_else(|error| match error.kind() {
            io::ErrorKind::ReadOnlyFilesystem => self.vfs.open(path, Open::Read),
            _ if error::is_full(&error) => self.vfs.open(path, Open::Read),
            _ => Err(error),
        })
    }

    /// Closes a file, before or after its name is removed or given to another one.
    pub(crate) fn forget(&self, path: &FilePath) {
        let mut kept = self.kept();
        kept.forgotten += 1;
        if let Some((_, used)) = kept.files.remove(path) {
            kept.uses.remove(&used);
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn touch(&mut self, path: &FilePath) -> Option<Arc<dyn VfsFile>> {
        let (file, used) = self.files.get_mut(path)?;
        self.clock += 1;
        self.uses.remove(used);
        self.uses.insert(self.clock, path.clone());
        *used = self.clock;
        Some(Arc::clone(file))
    }

    fn keep(&mut self, path: &FilePath, file: Arc<dyn VfsFile>, limit: usize) {
        self.clock += 1;
        if let Some((_, used)) = self.files.insert(path.clone(), (file, self.clock)) {
            self.uses.remove(&used);
        }
        self.uses.insert(self.clock, path.clone());
        while self.files.len() > limit {
            let Some((_, oldest)) = self.uses.pop_first() else { break };
            self.files.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Files;
    use crate::vfs::{FilePath, Open, Vfs, sim::SimDisk};

    fn path(number: usize) -> FilePath {
        FilePath::new(format!("f{number}")).unwrap()
    }

    fn disk(count: usize) -> Arc<SimDisk> {
        let disk = SimDisk::new();
        (0..count).for_each(|number| drop(disk.open(&path(number), Open::CreateNew).unwrap()));
        Arc::new(disk)
    }

    #[test]
    fn the_least_recently_used_file_is_closed() {
        let files = Files::new(disk(4), Open::Write, 2);
        let first = files.open(&path(0)).unwrap();
        files.open(&path(1)).unwrap();
        assert!(Arc::ptr_eq(&first, &files.open(&path(0)).unwrap()));
        files.open(&path(2)).unwrap();
        assert!(Arc::ptr_eq(&first, &files.open(&path(0)).unwrap()));
        assert_eq!(files.kept().files.len(), 2);
        assert!(!files.kept().files.contains_key(&path(1)));
        assert_eq!(files.kept().uses.len(), 2);
    }

    #[test]
    fn a_forgotten_file_is_opened_again() {
        let vfs = disk(1);
        let files = Files::new(Arc::clone(&vfs) as _, Open::Write, 2);
        let first = files.open(&path(0)).unwrap();
        vfs.unlink(&path(0)).unwrap();
        files.forget(&path(0));
        assert!(files.open(&path(0)).is_err());
        vfs.open(&path(0), Open::CreateNew).unwrap();
        assert!(!Arc::ptr_eq(&first, &files.open(&path(0)).unwrap()));
    }
}
