//! The primitives that the engine asks of a disk: everything above them is the same on a real disk and a simulated one.

#![expect(clippy::missing_errors_doc, reason = "every error here comes from the operating system")]

mod cold;
mod disk;
mod path;
pub(crate) mod sim;

use std::{fmt, io, path::Path, sync::Arc, time::SystemTime};

pub(crate) use self::{
    cold::{Cold, Damaged, Sizes},
    path::{hash_of, hex},
};
pub use self::{
    disk::Disk,
    path::{FilePath, name_of},
};

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A file for reading and writing, made if it is missing.
    Create,
    /// A new file, for reading and writing; it must not exist.
    CreateNew,
}

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A plain file.
    File,
    /// A folder.
    Folder,
    /// Anything else: a symbolic link, a socket. The engine opens none of these.
    Other,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, with what is no UTF-8 replaced.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What tells one root from another, whatever path leads to it: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The device.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

/// A folder on a disk, the root of a store: files by their paths below it.
///
/// No call follows a symbolic link below the root (FI-9). Files are made with mode 0600, folders with 0700. Nothing is
/// durable until it was synced: a file's bytes by [`VfsFile::sync_data`], its name by [`Vfs::sync_dir`] of its folder.
pub trait Vfs: Send + Sync + fmt::Debug {
    /// Opens a file.
    fn open(&self, path: &FilePath, how: Open) -> io::Result<Arc<dyn VfsFile>>;
    /// Gives a file another name, replacing what has it.
    fn rename(&self, from: &FilePath, to: &FilePath) -> io::Result<()>;
    /// Removes a file's name.
    fn unlink(&self, path: &FilePath) -> io::Result<()>;
    /// Makes a folder. One that exists is `AlreadyExists`.
    fn create_dir(&self, path: &FilePath) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_dir(&self, path: &FilePath) -> io::Result<()>;
    /// How many bytes can still be written.
    fn free_space(&self) -> io::Result<u64>;
    /// The entries of a folder, ordered by name.
    fn list(&self, path: &FilePath) -> io::Result<Vec<Entry>>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, path: &FilePath) -> io::Result<()>;
    /// Which root this is.
    fn identity(&self) -> io::Result<Identity>;
    /// Where the root is in the file system, if it is there.
    fn root(&self) -> Option<&Path> {
        None
    }
}

/// An open file.
#[expect(clippy::len_without_is_empty, reason = "no caller asks whether a file is empty")]
pub trait VfsFile: Send + Sync + fmt::Debug {
    /// Reads at `offset` as many bytes as there are, up to the length of `buffer`, and returns their number.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`. After an error any part of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Makes bytes and length durable. After an error it is unknown what is durable, and a later sync does not tell.
    fn sync_data(&self) -> io::Result<()>;
    /// Makes the file `len` bytes long.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Makes sure that the first `len` bytes have space on the disk.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// When the bytes were last changed, or what was set instead.
    fn modified(&self) -> io::Result<SystemTime> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Sets when the bytes were last changed. The next sync makes it durable, or none at all.
    fn set_modified(&self, _time: SystemTime) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Takes the lock of this file, which ends with this handle or its process. `false`: another handle has it.
    fn try_lock(&self) -> io::Result<bool>;
}

/// Makes a folder and those above it durably; `true` if it was missing.
pub fn ensure_dir(vfs: &dyn Vfs, path: &FilePath) -> io::Result<bool> {
    if path.as_str().is_empty() {
        return Ok(false);
    }
    match vfs.create_dir(path) {
        Ok(()) => vfs.sync_dir(&path.parent()).map(|()| true),
        // It may have been made just before a crash, and not be durable: what is cheap to be sure of is made sure of.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => vfs.sync_dir(&path.parent()).map(|()| false),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            ensure_dir(vfs, &path.parent())?;
            vfs.create_dir(path)?;
            vfs.sync_dir(&path.parent()).map(|()| true)
        }
        Err(error) => Err(error),
    }
}

/// Replaces a small file durably: it holds its former bytes or the new ones, even after a power cut (FI-8).
pub fn replace(vfs: &dyn Vfs, path: &FilePath, bytes: &[u8]) -> io::Result<()> {
    let temporary = FilePath::new(format!("{}.new", path.as_str())).map_err(io::Error::other)?;
    let file = vfs.open(&temporary, Open::Create)?;
    file.truncate(0)?;
    file.write_at(bytes, 0)?;
    file.sync_data()?;
    vfs.rename(&temporary, path)?;
    vfs.sync_dir(&path.parent())
}

/// Fills `buffer` from `offset`; a file that ends before is `UnexpectedEof`.
pub fn read_exact_at(file: &dyn VfsFile, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        let count = file.read_at(buffer, offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = buffer.get_mut(count..).unwrap_or_default();
        offset = offset.saturating_add(count as u64);
    }
    Ok(())
}

/// The bytes of a small file, or nothing if it is missing. A file longer than `max` is `InvalidData`.
pub fn read_small(vfs: &dyn Vfs, path: &FilePath, max: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match vfs.open(path, Open::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = file.len()?;
    let size = usize::try_from(len).ok().filter(|_| len <= max).ok_or(io::ErrorKind::InvalidData)?;
    let mut bytes = vec![0; size];
    read_exact_at(&*file, &mut bytes, 0)?;
    Ok(Some(bytes))
}
