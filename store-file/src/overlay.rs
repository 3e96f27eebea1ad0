//! A root as its next holder will find it: what its journal has is read as if it were in the logs. Nothing is written.

use std::{collections::BTreeMap, fmt, io, path::Path, sync::Arc};

use rustix::io::Errno;

use crate::{
    journal::LogAppends,
    vfs::{Entry, FilePath, Identity, Kind, Open, Vfs, VfsFile},
};

/// A disk for reading, with what a journal adds to its logs.
pub(crate) struct Overlay {
    below: Arc<dyn Vfs>,
    logs: BTreeMap<FilePath, Arc<LogAppends>>,
}

impl Overlay {
    pub(crate) fn new(below: Arc<dyn Vfs>, logs: BTreeMap<FilePath, LogAppends>) -> Self {
        Self { below, logs: logs.into_iter().map(|(path, log)| (path, Arc::new(log))).collect() }
    }
}

impl fmt::Debug for Overlay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlay").field("below", &self.below).finish_non_exhaustive()
    }
}

fn refused<T>() -> io::Result<T> {
    Err(Errno::ROFS.into())
}

impl Vfs for Overlay {
    fn open(&self, path: &FilePath, how: Open) -> io::Result<Arc<dyn VfsFile>> {
        if how != Open::Read {
            return refused();
        }
        let Some(log) = self.logs.get(path) else { return self.below.open(path, how) };
        if log.is_dropped {
            return Err(Errno::NOENT.into());
        }
        let below = match self.below.open(path, how) {
            Err(error) if log.is_made && error.kind() == io::ErrorKind::NotFound => None,
            // Without the bytes before them, those of the journal are no log.
            opened => Some(opened?),
        };
        Ok(Arc::new(OverlayFile { below, log: Arc::clone(log) }))
    }

    fn rename(&self, _: &FilePath, _: &FilePath) -> io::Result<()> {
        refused()
    }

    fn unlink(&self, _: &FilePath) -> io::Result<()> {
        refused()
    }

    fn create_dir(&self, _: &FilePath) -> io::Result<()> {
        refused()
    }

    fn remove_dir(&self, _: &FilePath) -> io::Result<()> {
        refused()
    }

    fn free_space(&self) -> io::Result<u64> {
        self.below.free_space()
    }

    fn list(&self, path: &FilePath) -> io::Result<Vec<Entry>> {
        let below = self.below.list(path);
        let mut entries: BTreeMap<String, Kind> = BTreeMap::new();
        for (log, appends) in &self.logs {
            let mut at = log.clone();
            // Each folder above a new log is an entry of the one above it.
            while !at.as_str().is_empty() && appends.is_made {
                let name = at.parts().last().unwrap_or_default().to_owned();
                let kind = if at == *log { Kind::File } else { Kind::Folder };
                if at.parent() == *path {
                    entries.insert(name, kind);
                }
                at = at.parent();
            }
        }
        let listed = match below {
            Err(error) if error.kind() == io::ErrorKind::NotFound && !entries.is_empty() => Vec::new(),
            listed => listed?,
        };
        entries.extend(listed.into_iter().map(|entry| (entry.name, entry.kind)));
        for (log, _) in self.logs.iter().filter(|(log, appends)| appends.is_dropped && log.parent() == *path) {
            entries.remove(log.parts().last().unwrap_or_default());
        }
        Ok(entries.into_iter().map(|(name, kind)| Entry { name, kind }).collect())
    }

    fn sync_dir(&self, _: &FilePath) -> io::Result<()> {
        refused()
    }

    fn identity(&self) -> io::Result<Identity> {
        self.below.identity()
    }

    fn root(&self) -> Option<&Path> {
        self.below.root()
    }
}

/// A log with what the journal adds.
#[derive(Debug)]
struct OverlayFile {
    /// None if the journal makes the log, and no file is there yet.
    below: Option<Arc<dyn VfsFile>>,
    log: Arc<LogAppends>,
}

impl VfsFile for OverlayFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let found = self.log.bytes.range(..=offset).next_back();
        let rest = found.and_then(|(start, bytes)| bytes.get(usize::try_from(offset - start).ok()?..));
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            let count = rest.len().min(buffer.len());
            if let (Some(target), Some(source)) = (buffer.get_mut(..count), rest.get(..count)) {
                target.copy_from_slice(source);
            }
            return Ok(count);
        }
        // The offset is before what the journal has, or after it.
        let Some(below) = &self.below else { return Ok(0) };
        let next = self.log.bytes.range(offset..).next().map_or(u64::MAX, |(start, _)| *start);
        let most = usize::try_from(next - offset).unwrap_or(usize::MAX).min(buffer.len());
        below.read_at(buffer.get_mut(..most).unwrap_or_default(), offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        refused()
    }

    fn len(&self) -> io::Result<u64> {
        let journal = self.log.bytes.last_key_value().map_or(0, |(start, bytes)| start + bytes.len() as u64);
        let below = self.below.as_ref().map_or(Ok(0), |below| below.len())?;
        Ok(below.max(journal))
    }

    fn sync_data(&self) -> io::Result<()> {
        refused()
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        refused()
    }

    fn try_lock(&self) -> io::Result<bool> {
        refused()
    }
}
