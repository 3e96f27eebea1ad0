//! Redo: the changes of a journal are made in the logs once more, whether or not the logs have them.
//!
//! It may be cut short and begun again as often as it takes: every change says where its bytes go, so making it twice
//! is as making it once.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

use rustix::io::Errno;
use store_core::{Error, Result};

use super::{
    batch::Change,
    history::History,
    planted::{Bug, Planted},
    reserve::Reserve,
};
use crate::{
    error,
    vfs::{Damaged, FilePath, Open, Vfs, VfsFile, ensure_dir},
};

/// What a redo came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Redone {
    /// The logs that the journal writes to and does not drop, each with the offset where it ends. Bytes after that are
    /// of no batch that was committed.
    pub(crate) ends: BTreeMap<FilePath, u64>,
    /// Logs that the journal cannot mend. Such a log is missing, or shorter than the offset of its first change in the
    /// journal: the missing bytes were durable once, and something else removed them. Or it cannot be opened, or its
    /// compressed part is damaged. The redo leaves these logs as it found them.
    pub(crate) damaged: BTreeSet<FilePath>,
    /// Logs that the journal drops. Their files are gone.
    pub(crate) dropped: BTreeSet<FilePath>,
}

/// A log during a redo.
#[derive(Debug)]
struct Log {
    path: FilePath,
    /// None before its first change.
    file: Option<Arc<dyn VfsFile>>,
    end: u64,
    is_damaged: bool,
}

/// A redo on its way.
struct Redo<'a> {
    vfs: &'a dyn Vfs,
    names: BTreeMap<u64, FilePath>,
    logs: BTreeMap<u64, Log>,
    /// Logs that a record drops: nothing is written to these.
    dropped: BTreeSet<u64>,
    folders: BTreeSet<FilePath>,
    /// Files in which bytes were written over others.
    overwritten: Vec<(FilePath, Arc<dyn VfsFile>)>,
    redone: Redone,
}

impl History {
    /// Makes every change in the logs, and makes them durable.
    ///
    /// # Errors
    /// An error of the operating system. The redo can be done again.
    pub(crate) fn redo(&self, vfs: &dyn Vfs) -> Result<Redone> {
        self.redo_with(vfs, Planted::default())
    }

    pub(super) fn redo_with(&self, vfs: &dyn Vfs, planted: Planted) -> Result<Redone> {
        if !planted.has(Bug::JournalNotRewritten) {
            self.make_durable(vfs)?;
        }
        let mut dropped = BTreeSet::new();
        for change in self.changes() {
            match change?.1 {
                Change::Drop { log } if !planted.has(Bug::DroppedWritten) => drop(dropped.insert(log)),
                _ => {}
            }
        }
        let (names, logs, folders) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let (overwritten, redone) = (Vec::new(), Redone::default());
        let mut redo = Redo { vfs, names, logs, dropped, folders, overwritten, redone };
        for change in self.changes() {
            redo.change(change?.1)?;
        }
        redo.finish()
    }

    /// The changes of the journal, in their order.
    ///
    /// # Errors
    /// `Corrupt` for a record of an unknown kind.
    pub(crate) fn steps(&self) -> Result<Vec<Step>> {
        let (mut names, mut steps) = (BTreeMap::new(), Vec::new());
        for change in self.changes() {
            let (batch, change) = change?;
            steps.extend(Step::of(batch, change, &mut names)?);
        }
        Ok(steps)
    }

    /// The bytes that the journal has of each log, by offset, and nothing of logs that it drops: for a reader, which
    /// writes nothing. A log that the journal makes has nothing else.
    ///
    /// # Errors
    /// `Corrupt` for a record of an unknown kind.
    pub(crate) fn appends(&self) -> Result<BTreeMap<FilePath, LogAppends>> {
        let mut names = BTreeMap::new();
        let mut logs = BTreeMap::<FilePath, LogAppends>::new();
        for change in self.changes() {
            match change?.1 {
                Change::Name { log, path } => drop(names.insert(log, path)),
                Change::Make { log } => {
                    let made = LogAppends { is_made: true, ..LogAppends::default() };
                    logs.insert(name(&names, log)?, made);
                }
                Change::Append { log, offset, bytes } => {
                    logs.entry(name(&names, log)?).or_default().bytes.insert(offset, bytes.to_vec());
                }
                // Both the former bytes and these can be read.
                Change::Overwrite { .. } => {}
                Change::Drop { log } => {
                    let dropped = LogAppends { is_dropped: true, ..LogAppends::default() };
                    logs.insert(name(&names, log)?, dropped);
                }
            }
        }
        Ok(logs)
    }
}

/// A change of a log, as the journal tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The number of its batch.
    pub(crate) batch: u64,
    /// The number of the log in the index of the process that wrote the batch.
    pub(crate) log: u64,
    /// The log.
    pub(crate) path: FilePath,
    /// What changed.
    pub(crate) kind: StepKind,
}

impl Step {
    /// What a change says of a log; nothing if it only names one, which is remembered.
    pub(super) fn of(batch: u64, change: Change<'_>, names: &mut BTreeMap<u64, FilePath>) -> Result<Option<Self>> {
        let (log, kind) = match change {
            Change::Name { log, path } => {
                names.insert(log, path);
                return Ok(None);
            }
            Change::Make { log } => (log, StepKind::Made),
            Change::Append { log, offset, bytes } => (log, StepKind::Appended(offset, offset + bytes.len() as u64)),
            // It changes nothing of what the log says.
            Change::Overwrite { .. } => return Ok(None),
            Change::Drop { log } => (log, StepKind::Dropped),
        };
        Ok(Some(Self { batch, log, path: name(names, log)?, kind }))
    }
}

/// What changed in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepKind {
    /// It was made.
    Made,
    /// It got bytes, from one offset to another.
    Appended(u64, u64),
    /// It was dropped.
    Dropped,
}

/// What a journal has of one log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LogAppends {
    /// Whether the journal makes the log: it may have no file.
    pub(crate) is_made: bool,
    /// Whether the journal drops the log in the end.
    pub(crate) is_dropped: bool,
    /// The bytes by their offsets.
    pub(crate) bytes: BTreeMap<u64, Vec<u8>>,
}

/// The path of a log that the journal has named.
fn name(names: &BTreeMap<u64, FilePath>, log: u64) -> Result<FilePath> {
    names.get(&log).cloned().ok_or_else(|| Error::corrupt("the journal: a record of a log without a name"))
}

/// Does something that needs space. Where there is none, the reserve is for this.
fn with_reserve<T>(vfs: &dyn Vfs, mut act: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    match act() {
        Err(source) if error::is_full(&source) => {
            Reserve::remove(vfs)?;
            act()
        }
        done => done,
    }
}

/// Whether an error concerns the thread of the log alone: something else has the name of the log, a permission is
/// missing, or its compressed part is damaged.
fn is_in_the_way(source: &io::Error) -> bool {
    let known = [Errno::LOOP, Errno::MLINK, Errno::ISDIR, Errno::ACCESS, Errno::PERM];
    Damaged::of(source).is_some()
        || source.kind() == io::ErrorKind::InvalidInput
        || Errno::from_io_error(source).is_some_and(|errno| known.contains(&errno))
}

impl Redo<'_> {
    /// Notes that names change in the folders above a file.
    fn note_folders(&mut self, path: &FilePath) {
        let mut above = path.parent();
        while !above.as_str().is_empty() {
            self.folders.insert(above.clone());
            above = above.parent();
        }
        self.folders.insert(above);
    }

    fn change(&mut self, change: Change<'_>) -> Result<()> {
        match change {
            Change::Name { log, path } => drop(self.names.insert(log, path)),
            Change::Make { log } if !self.dropped.contains(&log) => self.make(log)?,
            Change::Append { log, offset, bytes } if !self.dropped.contains(&log) => self.append(log, offset, bytes)?,
            Change::Drop { log } if self.dropped.contains(&log) => self.remove(log)?,
            Change::Overwrite { log, offset, bytes } if !self.dropped.contains(&log) => {
                self.overwrite(log, offset, bytes)?;
            }
            Change::Drop { .. } | Change::Make { .. } | Change::Append { .. } | Change::Overwrite { .. } => {}
        }
        Ok(())
    }

    fn make(&mut self, log: u64) -> Result<()> {
        let path = name(&self.names, log)?;
        let fail = |source| error::io(&path, source);
        let vfs = self.vfs;
        with_reserve(vfs, || ensure_dir(vfs, &path.parent())).map_err(fail)?;
        // A file that has the path is not made empty. The journal has all bytes of the log, and the opening sets aside
        // what follows them.
        let file = match with_reserve(vfs, || vfs.open(&path, Open::Create)) {
            Err(source) if is_in_the_way(&source) => None,
            opened => Some(opened.map_err(fail)?),
        };
        self.note_folders(&path);
        let is_damaged = file.is_none();
        self.logs.insert(log, Log { path, file, end: 0, is_damaged });
        Ok(())
    }

    fn append(&mut self, log: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        if !self.logs.contains_key(&log) {
            self.open(log, offset)?;
        }
        let Some(found) = self.logs.get_mut(&log) else { return Ok(()) };
        if let Some(file) = &found.file {
            match with_reserve(self.vfs, || file.write_at(bytes, offset)) {
                // It is compressed, and has other bytes there.
                Err(source) if Damaged::of(&source).is_some() => (found.file, found.is_damaged) = (None, true),
                written => written.map_err(|source| error::io(&found.path, source))?,
            }
        }
        found.end = offset + bytes.len() as u64;
        Ok(())
    }

    /// Writes bytes over others. It does not say where the log ends. A log that cannot be written is judged by what the
    /// journal appends to it, and by its first use.
    fn overwrite(&mut self, log: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let path = name(&self.names, log)?;
        let fail = |source| error::io(&path, source);
        let file = match self.vfs.open(&path, Open::Write) {
            Err(source) if source.kind() == io::ErrorKind::NotFound || is_in_the_way(&source) => return Ok(()),
            opened => opened.map_err(fail)?,
        };
        if file.len().map_err(fail)? < offset + bytes.len() as u64 {
            return Ok(());
        }
        match with_reserve(self.vfs, || file.write_at(bytes, offset)) {
            // It was compressed since then, with these bytes.
            Err(source) if Damaged::of(&source).is_some() => return Ok(()),
            written => written.map_err(fail)?,
        }
        self.overwritten.push((path, file));
        Ok(())
    }

    /// Opens a log that was there before, of which the journal has everything from `offset` on.
    fn open(&mut self, log: u64, offset: u64) -> Result<()> {
        let path = name(&self.names, log)?;
        let fail = |source| error::io(&path, source);
        let file = match with_reserve(self.vfs, || self.vfs.open(&path, Open::Write)) {
            Err(source) if source.kind() == io::ErrorKind::NotFound || is_in_the_way(&source) => None,
            opened => Some(opened.map_err(fail)?),
        };
        let len = file.as_ref().map_or(Ok(0), |file| file.len()).map_err(fail)?;
        let is_damaged = file.is_none() || len < offset;
        let file = file.filter(|_| !is_damaged);
        self.logs.insert(log, Log { path, file, end: offset, is_damaged });
        Ok(())
    }

    fn remove(&mut self, log: u64) -> Result<()> {
        let path = name(&self.names, log)?;
        self.logs.remove(&log);
        match self.vfs.unlink(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(error::io(&path, source)),
            _ => {}
        }
        self.note_folders(&path);
        self.redone.dropped.insert(path);
        Ok(())
    }

    fn finish(mut self) -> Result<Redone> {
        for (_, log) in self.logs {
            if log.is_damaged {
                self.redone.damaged.insert(log.path);
                continue;
            }
            if let Some(file) = &log.file {
                file.sync_data().map_err(|source| error::io(&log.path, source))?;
            }
            self.redone.dropped.remove(&log.path);
            self.redone.ends.insert(log.path, log.end);
        }
        for (path, file) in &self.overwritten {
            file.sync_data().map_err(|source| error::io(path, source))?;
        }
        for folder in &self.folders {
            match self.vfs.sync_dir(folder) {
                // The folder of logs that were all dropped.
                Err(source) if source.kind() == io::ErrorKind::NotFound => {}
                synced => synced.map_err(|source| error::io(folder, source))?,
            }
        }
        Ok(self.redone)
    }
}
