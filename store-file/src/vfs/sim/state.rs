//! What a simulated disk holds: what its callers see, and what a power cut would leave.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    io,
    time::SystemTime,
};

use rustix::io::Errno;

use super::{Asked, Entry, Fault, FilePath};
use crate::vfs::Kind;

/// A change of a file that no sync covers yet, with its place in the order of all changes.
#[derive(Debug, Clone)]
pub(super) enum Write {
    Bytes { order: u64, offset: usize, bytes: Vec<u8> },
    Length { order: u64, len: usize },
}

impl Write {
    pub(super) const fn order(&self) -> u64 {
        match self {
            Self::Bytes { order, .. } | Self::Length { order, .. } => *order,
        }
    }

    pub(super) fn apply(&self, target: &mut Vec<u8>) {
        match self {
            Self::Length { len, .. } => target.resize(*len, 0),
            Self::Bytes { offset, bytes, .. } => {
                let end = offset + bytes.len();
                if target.len() < end {
                    target.resize(end, 0);
                }
                if let Some(place) = target.get_mut(*offset..end) {
                    place.copy_from_slice(bytes);
                }
            }
        }
    }
}

/// A file or a folder.
#[derive(Debug, Clone, Default)]
pub(super) struct Inode {
    pub(super) folder: bool,
    /// What callers read.
    pub(super) now: Vec<u8>,
    /// What is durable.
    pub(super) durable: Vec<u8>,
    /// What leads from `durable` to `now`.
    pub(super) pending: Vec<Write>,
    /// Up to where there is space. Beyond the bytes that were written these are zeros, and a power cut takes them.
    pub(super) allocated: u64,
    /// When the file was changed, if its callers have said so.
    pub(super) modified: Option<SystemTime>,
    pub(super) locked: Option<u64>,
}

impl Inode {
    pub(super) fn len(&self) -> u64 {
        self.allocated.max(self.now.len() as u64)
    }

    pub(super) fn sync(&mut self) {
        for write in std::mem::take(&mut self.pending) {
            write.apply(&mut self.durable);
        }
    }

    pub(super) fn forget_pending(&mut self) {
        self.pending.clear();
    }
}

/// A change of names that no sync of the folder covers yet.
#[derive(Debug, Clone)]
pub(super) enum Change {
    Link { path: FilePath, inode: usize },
    Unlink { path: FilePath },
    Rename { from: FilePath, to: FilePath, inode: usize },
}

impl Change {
    pub(super) fn apply(&self, names: &mut BTreeMap<FilePath, usize>) {
        match self {
            Self::Link { path, inode } => {
                names.insert(path.clone(), *inode);
            }
            Self::Unlink { path } => {
                names.remove(path);
            }
            Self::Rename { from, to, inode } => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
        }
    }

    /// The folder whose sync makes the change durable.
    fn folder(&self) -> FilePath {
        match self {
            Self::Link { path, .. } | Self::Unlink { path } => path.parent(),
            Self::Rename { to, .. } => to.parent(),
        }
    }
}

/// Everything of a simulated disk.
#[derive(Debug, Clone, Default)]
pub(super) struct State {
    pub(super) inodes: Vec<Inode>,
    pub(super) names: BTreeMap<FilePath, usize>,
    pub(super) durable_names: BTreeMap<FilePath, usize>,
    pub(super) changes: Vec<Change>,
    pub(super) calls: u64,
    pub(super) fault: Option<(u64, Fault)>,
    /// How many bytes all files may have together.
    pub(super) capacity: Option<u64>,
    /// The first call that was failed.
    pub(super) failed: Option<Asked>,
    pub(super) stopped: bool,
    pub(super) handles: u64,
    pub(super) orders: u64,
}

impl State {
    /// Counts a call that makes files larger by `grows` bytes, and fails it if it is to fail.
    pub(super) fn begin(&mut self, asked: Asked, grows: u64) -> io::Result<()> {
        self.check_power()?;
        let call = self.calls;
        self.calls += 1;
        let struck = match self.fault {
            Some((at, fault)) if at == call => self.strike(fault, asked),
            _ => Ok(()),
        };
        struck.and_then(|()| self.check_room(asked, grows)).inspect_err(|_| {
            self.failed.get_or_insert(asked);
        })
    }

    fn strike(&mut self, fault: Fault, asked: Asked) -> io::Result<()> {
        match fault {
            Fault::Stop => {
                self.stopped = true;
                self.check_power()
            }
            Fault::Eio => Err(Errno::IO.into()),
            Fault::Enospc | Fault::EnospcLate if asked.needs_space() => Err(Errno::NOSPC.into()),
            Fault::Enospc | Fault::EnospcLate => Ok(()),
            Fault::Full => {
                self.set_full(true);
                Ok(())
            }
        }
    }

    /// Whether the call that fails now has had its effect.
    pub(super) fn fails_late(&self) -> bool {
        self.fault.is_some_and(|(at, fault)| fault == Fault::EnospcLate && at + 1 == self.calls)
    }

    fn check_room(&self, asked: Asked, grows: u64) -> io::Result<()> {
        // A name needs a little too: where nothing is free, none is made.
        let grows = if asked == Asked::Make { 1 } else { grows };
        let lacks = asked.needs_space() && self.free_space() < grows;
        if lacks { Err(Errno::NOSPC.into()) } else { Ok(()) }
    }

    pub(super) fn set_full(&mut self, full: bool) {
        self.capacity = full.then(|| self.used());
    }

    pub(super) fn free_space(&self) -> u64 {
        self.capacity.map_or(u64::MAX, |capacity| capacity.saturating_sub(self.used()))
    }

    fn used(&self) -> u64 {
        self.names.values().filter_map(|inode| self.inodes.get(*inode)).map(Inode::len).sum()
    }

    pub(super) fn check_power(&self) -> io::Result<()> {
        if self.stopped { Err(io::Error::other("the simulated disk has no power")) } else { Ok(()) }
    }

    pub(super) fn lookup(&self, path: &FilePath) -> Option<usize> {
        self.names.get(path).copied()
    }

    /// The file of that name.
    pub(super) fn file(&mut self, path: &FilePath) -> io::Result<&mut Inode> {
        let inode = self.lookup(path).ok_or(Errno::NOENT)?;
        self.file_of(inode)
    }

    pub(super) fn file_of(&mut self, inode: usize) -> io::Result<&mut Inode> {
        let inode = self.inodes.get_mut(inode).ok_or(Errno::NOENT)?;
        if inode.folder { Err(Errno::ISDIR.into()) } else { Ok(inode) }
    }

    pub(super) fn check_folder(&self, path: &FilePath) -> io::Result<()> {
        if path.as_str().is_empty() {
            return Ok(());
        }
        let inode = self.lookup(path).and_then(|inode| self.inodes.get(inode)).ok_or(Errno::NOENT)?;
        if inode.folder { Ok(()) } else { Err(Errno::NOTDIR.into()) }
    }

    pub(super) fn entries(&self, path: &FilePath) -> Vec<Entry> {
        let inside = self.names.iter().filter(|(name, _)| name.parent() == *path);
        let entry = |(name, inode): (&FilePath, &usize)| Entry {
            name: name.parts().last().unwrap_or_default().to_owned(),
            kind: if self.inodes.get(*inode).is_some_and(|inode| inode.folder) { Kind::Folder } else { Kind::File },
        };
        inside.map(entry).collect()
    }

    pub(super) fn add_inode(&mut self, inode: Inode) -> usize {
        self.inodes.push(inode);
        self.inodes.len() - 1
    }

    pub(super) const fn next_handle(&mut self) -> u64 {
        self.handles += 1;
        self.handles
    }

    pub(super) fn change_folder(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    pub(super) fn sync_folder(&mut self, path: &FilePath) {
        let (durable, pending) = std::mem::take(&mut self.changes).into_iter().partition(|c| c.folder() == *path);
        self.changes = pending;
        let durable: Vec<Change> = durable;
        for change in durable {
            change.apply(&mut self.durable_names);
        }
    }

    pub(super) fn write(&mut self, inode: usize, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(|_| Errno::FBIG)?;
        let write = Write::Bytes { order: self.next_order(), offset, bytes: bytes.to_vec() };
        self.record(inode, write)
    }

    pub(super) fn truncate(&mut self, inode: usize, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| Errno::FBIG)?;
        self.file_of(inode)?.allocated = 0;
        let write = Write::Length { order: self.next_order(), len };
        self.record(inode, write)
    }

    fn record(&mut self, inode: usize, write: Write) -> io::Result<()> {
        let inode = self.file_of(inode)?;
        write.apply(&mut inode.now);
        inode.pending.push(write);
        Ok(())
    }

    const fn next_order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }

    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, inode) in &self.names {
            path.hash(&mut hasher);
            if let Some(inode) = self.inodes.get(*inode) {
                (inode.folder, &inode.now).hash(&mut hasher);
            }
        }
        hasher.finish()
    }
}
