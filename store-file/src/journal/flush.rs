//! The flush of a full half: what its batches changed becomes durable in the logs, so that it can be used again.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{Failure, Inner, planted::Bug, writer::Writer};
use crate::{mutex::guard, vfs::FilePath};

/// What a flush makes durable.
#[derive(Debug)]
pub(super) struct Flushing {
    half: usize,
    /// The last batch that is in the logs, durably, when it has ended.
    pub(super) last: u64,
    written: BTreeMap<u64, FilePath>,
    folders: BTreeSet<FilePath>,
}

impl Flushing {
    /// What one half needs.
    pub(super) fn of(writer: &Writer, half: usize) -> Self {
        let [first, second] = &writer.halves;
        let found = if half == 0 { first } else { second };
        Self { half, last: found.last, written: found.written.clone(), folders: found.folders.clone() }
    }
}

impl Inner {
    /// Makes the logs, and what is derived from them, durable; then the half is free.
    pub(super) fn flush(&self, flushing: &Flushing) -> Result<(), Failure> {
        let early = self.planted.has(Bug::HalfReusedEarly);
        let synced = if early { Ok(()) } else { self.sync_logs(flushing) };
        let synced = synced.and_then(|()| (self.persist)(flushing.last));
        let mut writer = guard(&self.writer);
        if let Err(source) = synced {
            return Err(self.poison(writer, source));
        }
        writer.base = flushing.last + 1;
        let [first, second] = &mut writer.halves;
        let half = if flushing.half == 0 { first } else { second };
        half.is_needed = false;
        drop(writer);
        self.flushed.notify_all();
        Ok(())
    }

    /// Flushes in a new thread. A failure, a panic included, poisons the journal: it refuses the next batch. `false` if
    /// the operating system starts no thread.
    pub(super) fn flush_behind(&self, flushing: Flushing) -> bool {
        let Some(inner) = self.this.upgrade() else { return false };
        let flush = move || {
            if catch_unwind(AssertUnwindSafe(|| inner.flush(&flushing))).is_err() {
                let _ = inner.poison(guard(&inner.writer), io::Error::other("the flush panicked"));
            }
        };
        std::thread::Builder::new().name("journal".to_owned()).spawn(flush).is_ok()
    }

    fn sync_logs(&self, flushing: &Flushing) -> io::Result<()> {
        for (log, path) in &flushing.written {
            match self.files.open(path).and_then(|file| file.sync_data()) {
                Err(source) if source.kind() == io::ErrorKind::NotFound => self.check_dropped(*log, source)?,
                synced => synced?,
            }
        }
        if self.planted.has(Bug::NewFileNotSynced) {
            return Ok(());
        }
        for folder in &flushing.folders {
            match self.vfs.sync_dir(folder) {
                // The folder of logs that were dropped.
                Err(source) if source.kind() == io::ErrorKind::NotFound => {}
                synced => synced?,
            }
        }
        Ok(())
    }

    /// Refuses a missing file, unless a later batch has dropped its log.
    fn check_dropped(&self, log: u64, source: io::Error) -> io::Result<()> {
        let is_there = guard(&self.writer).halves.iter().any(|half| half.written.contains_key(&log));
        if is_there { Err(source) } else { Ok(()) }
    }
}
