//! Brings a log into order at its first opening: walks it, sets a torn tail aside, writes again what may not be
//! durable.

use std::{io, ops::ControlFlow};

use store_core::Result;

use super::{Group, Header, Known, Position, Scanner, Tail, check_version, classify, read_header, tail::each_chunk};
use crate::{
    error,
    vfs::{FilePath, Open, Vfs, VfsFile, ensure_dir},
};

/// What the caller knows about a log before it is opened.
#[derive(Debug, Clone, Copy)]
pub struct Recovery {
    /// Where to begin, `None` for the header. What stands before it was read and proved earlier.
    pub from: Option<Position>,
    /// An offset up to which the log is known to have been acknowledged, 0 if nothing is known.
    pub acknowledged: u64,
    /// The last batch that was committed: what later ones left is set aside.
    pub last_batch: u64,
    /// Of a log without a journal, after an unclean close: an offset up to which it is durable. What follows is written
    /// again and synced (FI-6).
    pub rewrite_from: Option<u64>,
    /// For a store that is open for reading: nothing is written, and what stands after the last good group is left
    /// alone (FI-15).
    pub read_only: bool,
}

impl Default for Recovery {
    fn default() -> Self {
        Self { from: None, acknowledged: 0, last_batch: u64::MAX, rewrite_from: None, read_only: false }
    }
}

/// What was found and done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// The header line, if it was read and is there. Without one the log holds nothing: remove it and make it anew.
    pub header: Option<String>,
    /// Where the log goes on.
    pub end: Position,
    /// What was set aside, to be reported.
    pub aside: Option<Aside>,
}

/// A torn tail that was set aside (FI-3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    /// The log.
    pub log: FilePath,
    /// Where the tail started.
    pub offset: u64,
    /// How many bytes it had; 0 if the log is shorter than it is known to have been.
    pub bytes: u64,
    /// Where the bytes are now; nothing if there were none.
    pub path: Option<FilePath>,
    /// Whether the bytes are known to have been acknowledged: damage, not a crash.
    pub acknowledged: bool,
}

/// Walks a log, calls `each` for every good group, and leaves a log whose every byte is good and durable.
///
/// # Errors
/// `Corrupt` with name and offset for damage before the last record (FI-4), `SchemaMismatch` for what a later release
/// wrote, and nothing is changed then; an error of `each`; otherwise an error of the operating system.
pub fn recover(
    vfs: &dyn Vfs,
    path: &FilePath,
    known: Recovery,
    mut each: impl FnMut(&Group<'_>) -> Result<()>,
) -> Result<Recovered> {
    let fail = |source| error::io(path, source);
    let file = vfs.open(path, if known.read_only { Open::Read } else { Open::Write }).map_err(fail)?;
    let len = file.len().map_err(fail)?;
    let (header, from) = match known.from {
        Some(from) => (None, Some(from)),
        None => match read_header(&*file).map_err(fail)? {
            Header::Good(line, from) => (Some(line), Some(from)),
            Header::Bad => (None, None),
        },
    };
    if let Some(line) = &header {
        check_version(path, line.as_bytes())?;
    }
    let mut end = from.unwrap_or_default();
    if let Some(from) = from {
        let mut scanner = Scanner::new(&*file, from, len).up_to_batch(known.last_batch);
        while let Some(group) = scanner.next_group().map_err(fail)? {
            each(&group)?;
        }
        end = scanner.position();
    }
    let judged = Known { acknowledged: known.acknowledged, last_batch: known.last_batch };
    let aside = match classify(&*file, end.offset, len, judged).map_err(fail)? {
        Tail::Corrupt { offset } => return Err(error::corrupt(path, Some(offset))),
        Tail::Torn { bytes, acknowledged, .. } if known.read_only => {
            acknowledged.then(|| Aside { log: path.clone(), offset: end.offset, bytes, path: None, acknowledged })
        }
        Tail::Torn { from, acknowledged, .. } => {
            let aside = set_aside(vfs, path, &*file, from).map_err(fail)?;
            Some(Aside { acknowledged, ..aside })
        }
        Tail::Clean => None,
    };
    if let Some(from) = known.rewrite_from.filter(|_| !known.read_only) {
        rewrite_tail(&*file, from, end.offset).map_err(fail)?;
        vfs.sync_dir(&path.parent()).map_err(fail)?;
    }
    Ok(Recovered { header, end, aside })
}

/// Moves the bytes of a log from `offset` on into a file of their own in `aside/`, durably, then cuts the log there,
/// durably. A crash in between leaves the bytes in the log, and at worst a second copy of them.
///
/// # Errors
/// An error of the operating system.
pub fn set_aside(vfs: &dyn Vfs, path: &FilePath, file: &dyn VfsFile, offset: u64) -> io::Result<Aside> {
    let len = file.len()?;
    let bytes = len.saturating_sub(offset);
    let mut aside = Aside { log: path.clone(), offset, bytes, path: None, acknowledged: false };
    if bytes == 0 {
        return Ok(aside);
    }
    let folder = FilePath::new("aside").map_err(io::Error::other)?;
    ensure_dir(vfs, &folder)?;
    let name = format!("{}.{offset}", path.as_str().replace('/', "+"));
    let (target, copy) = new_file(vfs, &folder, &name)?;
    let mut at = 0;
    each_chunk(file, offset, len, |chunk| {
        copy.write_at(chunk, at)?;
        at += chunk.len() as u64;
        Ok(ControlFlow::Continue(()))
    })?;
    copy.sync_data()?;
    vfs.sync_dir(&folder)?;
    file.truncate(offset)?;
    file.sync_data()?;
    aside.path = Some(target);
    Ok(aside)
}

/// Writes bytes that a log should have, from `offset` on, into a file of their own in `aside/`, durably.
///
/// # Errors
/// An error of the operating system.
pub(crate) fn put_aside(vfs: &dyn Vfs, path: &FilePath, offset: u64, bytes: &[u8]) -> io::Result<Aside> {
    let folder = FilePath::new("aside").map_err(io::Error::other)?;
    ensure_dir(vfs, &folder)?;
    let (target, copy) = new_file(vfs, &folder, &format!("{}.{offset}", path.as_str().replace('/', "+")))?;
    copy.write_at(bytes, 0)?;
    copy.sync_data()?;
    vfs.sync_dir(&folder)?;
    let (log, bytes) = (path.clone(), bytes.len() as u64);
    Ok(Aside { log, offset, bytes, path: Some(target), acknowledged: true })
}

/// A new file of that name, or of that name with a number: what was set aside earlier stays.
fn new_file(vfs: &dyn Vfs, folder: &FilePath, name: &str) -> io::Result<(FilePath, std::sync::Arc<dyn VfsFile>)> {
    let mut path = folder.join(name).map_err(io::Error::other)?;
    let mut number = 1_u32;
    loop {
        match vfs.open(&path, Open::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                path = folder.join(&format!("{name}.{number}")).map_err(io::Error::other)?;
                number += 1;
            }
            other => return other.map(|file| (path, file)),
        }
    }
}

/// Writes the bytes from `from` to `to` again where they are, and syncs them (FI-6).
///
/// After a failed sync the operating system may take bytes for clean that never reached the disk. Only a new write
/// makes it write them.
///
/// # Errors
/// An error of the operating system.
pub fn rewrite_tail(file: &dyn VfsFile, from: u64, to: u64) -> io::Result<()> {
    let mut at = from;
    each_chunk(file, from, to, |chunk| {
        file.write_at(chunk, at)?;
        at += chunk.len() as u64;
        Ok(ControlFlow::Continue(()))
    })?;
    if at < to {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    file.sync_data()
}
