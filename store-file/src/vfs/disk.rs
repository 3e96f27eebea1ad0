//! The real disk: every call starts at the root's own handle and follows no symbolic link.

use std::{
    fs::{File, TryLockError},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use rustix::{
    fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags},
    io::{Errno, retry_on_intr},
};

use super::{Entry, FilePath, Identity, Kind, Open, Vfs, VfsFile};

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o700);

/// A folder of the real file system.
#[derive(Debug)]
pub struct Disk {
    root: OwnedFd,
    path: PathBuf,
}

impl Disk {
    /// Opens the root, which may be a symbolic link (FI-9).
    ///
    /// # Errors
    /// An error of the operating system, `NotFound` for a missing folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = retry_on_intr(|| fs::openat(CWD, path, flags, Mode::empty()))?;
        Ok(Self { root, path: path.canonicalize()? })
    }

    /// Makes the root and the folders above it where they are missing, durably, and opens it.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn create(path: &Path) -> io::Result<Self> {
        match Self::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make_root(path)?,
            other => return other,
        }
        Self::open(path)
    }

    /// Where the root is, for what cannot take a handle.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder at `path`, each step taken without following links.
    fn folder(&self, path: &FilePath) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = self.root.try_clone()?;
        for part in path.parts() {
            folder = retry_on_intr(|| fs::openat(&folder, part, flags, Mode::empty()))?;
        }
        Ok(folder)
    }

    /// The folder of a file, and the file's name in it.
    fn place<'a>(&self, path: &'a FilePath) -> io::Result<(OwnedFd, &'a str)> {
        let name = path.parts().last().ok_or(io::ErrorKind::InvalidInput)?;
        Ok((self.folder(&path.parent())?, name))
    }
}

fn make_root(path: &Path) -> io::Result<()> {
    let above = match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    if !above.try_exists()? {
        make_root(above)?;
    }
    match retry_on_intr(|| fs::mkdirat(CWD, path, FOLDER_MODE)) {
        Ok(()) | Err(Errno::EXIST) => File::open(above)?.sync_all(),
        Err(error) => Err(error.into()),
    }
}

impl Vfs for Disk {
    fn open(&self, path: &FilePath, how: Open) -> io::Result<Arc<dyn VfsFile>> {
        let (folder, name) = self.place(path)?;
        let access = match how {
            Open::Read => OFlags::RDONLY,
            Open::Write => OFlags::RDWR,
            Open::Create => OFlags::RDWR | OFlags::CREATE,
            Open::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        // Not blocking: if a pipe has this name, opening it must not wait for its other end.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = retry_on_intr(|| fs::openat(&folder, name, flags, FILE_MODE))?;
        if FileType::from_raw_mode(fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(Arc::new(DiskFile(File::from(file))))
    }

    fn rename(&self, from: &FilePath, to: &FilePath) -> io::Result<()> {
        let ((from, old_name), (to, new_name)) = (self.place(from)?, self.place(to)?);
        Ok(retry_on_intr(|| fs::renameat(&from, old_name, &to, new_name))?)
    }

    fn unlink(&self, path: &FilePath) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        Ok(retry_on_intr(|| fs::unlinkat(&folder, name, AtFlags::empty()))?)
    }

    fn create_dir(&self, path: &FilePath) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        match retry_on_intr(|| fs::mkdirat(&folder, name, FOLDER_MODE)) {
            // What has the name must be a folder, not a link to one.
            Err(Errno::EXIST) => self.folder(path).and(Err(Errno::EXIST.into())),
            other => Ok(other?),
        }
    }

    fn remove_dir(&self, path: &FilePath) -> io::Result<()> {
        let (folder, name) = self.place(path)?;
        Ok(retry_on_intr(|| fs::unlinkat(&folder, name, AtFlags::REMOVEDIR))?)
    }

    fn free_space(&self) -> io::Result<u64> {
        let space = retry_on_intr(|| fs::fstatvfs(&self.root))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn list(&self, path: &FilePath) -> io::Result<Vec<Entry>> {
        let folder = self.folder(path)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // Some file systems do not tell the type along with the name.
            let file_type = match entry.file_type() {
                FileType::Unknown => {
                    FileType::from_raw_mode(fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
                }
                known => known,
            };
            entries.push(Entry { name: name.to_string_lossy().into_owned(), kind: kind(file_type) });
        }
        entries.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(entries)
    }

    fn sync_dir(&self, path: &FilePath) -> io::Result<()> {
        File::from(self.folder(path)?).sync_all()
    }

    fn identity(&self) -> io::Result<Identity> {
        let metadata = File::from(self.root.try_clone()?).metadata()?;
        Ok(Identity { device: metadata.dev(), inode: metadata.ino() })
    }

    fn root(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

const fn kind(file_type: FileType) -> Kind {
    match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        _ => Kind::Other,
    }
}

#[derive(Debug)]
struct DiskFile(File);

impl VfsFile for DiskFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match FileExt::read_at(&self.0, buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let from = self.len()?;
        if len > from { allocate(&self.0, from, len) } else { Ok(()) }
    }

    fn modified(&self) -> io::Result<SystemTime> {
        self.0.metadata()?.modified()
    }

    fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.0.set_modified(time)
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Reserves the bytes from `from` to `to`, which are beyond the end of the file.
fn allocate(file: &File, from: u64, to: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    match retry_on_intr(|| fs::fallocate(file.as_fd(), fs::FallocateFlags::empty(), from, to - from)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
        other => return Ok(other?),
    }
    let _ = file.as_fd();
    let zeros = [0; 64 * 1024];
    let mut at = from;
    while at < to {
        let count = usize::try_from(to - at).unwrap_or(zeros.len()).min(zeros.len());
        file.write_all_at(zeros.get(..count).unwrap_or_default(), at)?;
        at += count as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::Disk;
    use crate::vfs::{FilePath, Kind, Open, Vfs, ensure_dir, read_small, replace};

    fn path(text: &str) -> FilePath {
        FilePath::new(text).unwrap()
    }

    #[test]
    fn folders_and_files_are_private() {
        let temp = tempfile::tempdir().unwrap();
        let disk = Disk::create(&temp.path().join("a/b")).unwrap();
        assert!(ensure_dir(&disk, &path("x/y")).unwrap());
        assert!(!ensure_dir(&disk, &path("x/y")).unwrap());
        disk.open(&path("x/y/f"), Open::CreateNew).unwrap().write_at(b"abc", 0).unwrap();
        let mode = |name: &str| disk.path().join(name).metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(""), mode("x"), mode("x/y"), mode("x/y/f")), (0o700, 0o700, 0o700, 0o600));
        let names: Vec<_> = disk.list(&path("x")).unwrap().into_iter().map(|entry| (entry.name, entry.kind)).collect();
        assert_eq!(names, [("y".to_owned(), Kind::Folder)]);
    }

    #[test]
    fn a_symbolic_link_is_followed_at_the_root_only() {
        let temp = tempfile::tempdir().unwrap();
        let (real, outside) = (temp.path().join("real"), temp.path().join("outside"));
        std::fs::create_dir_all(real.join("in")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::File::create(outside.join("f")).unwrap();
        symlink(&real, temp.path().join("link")).unwrap();
        symlink(&outside, real.join("folder")).unwrap();
        symlink(outside.join("f"), real.join("file")).unwrap();
        let disk = Disk::open(&temp.path().join("link")).unwrap();
        assert_eq!(disk.identity().unwrap(), Disk::open(&real).unwrap().identity().unwrap());
        for how in [Open::Read, Open::Write, Open::Create, Open::CreateNew] {
            assert!(disk.open(&path("file"), how).is_err(), "{how:?}");
            assert!(disk.open(&path("folder/f"), how).is_err(), "{how:?}");
        }
        assert!(disk.open(&path("in"), Open::Read).is_err());
        assert!(ensure_dir(&disk, &path("folder")).is_err());
        assert!(disk.rename(&path("folder/f"), &path("in/f")).is_err());
        assert!(disk.list(&path("folder")).is_err());
    }

    #[test]
    fn a_file_is_replaced_allocated_and_locked() {
        let temp = tempfile::tempdir().unwrap();
        let disk = Disk::open(temp.path()).unwrap();
        for text in [&b"longer text"[..], b"short"] {
            replace(&disk, &path("f"), text).unwrap();
            assert_eq!(read_small(&disk, &path("f"), 100).unwrap().unwrap(), text);
        }
        assert!(read_small(&disk, &path("f"), 4).is_err());
        assert_eq!(read_small(&disk, &path("none"), 4).unwrap(), None);
        let (file, again) = (disk.open(&path("f"), Open::Write).unwrap(), disk.open(&path("f"), Open::Write).unwrap());
        file.allocate(1000).unwrap();
        assert_eq!(file.len().unwrap(), 1000);
        assert!(file.try_lock().unwrap() && !again.try_lock().unwrap());
        drop(file);
        assert!(again.try_lock().unwrap());
    }
}
