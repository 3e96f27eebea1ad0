//! A simulated disk that knows what a power cut would leave.
//!
//! It keeps what was written apart from what is durable: the bytes of a file become durable with `sync_data` of that
//! file, its name with `sync_dir` of its folder, and nothing else makes them so. Every call is counted; a [`Fault`]
//! stops the disk before a call, or fails the call. [`SimDisk::after_crash`] then gives the disk as a power cut may
//! have left it, as [`Survivors`] chooses.

mod image;
mod state;

use std::{
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use rustix::io::Errno;

pub use self::image::Survivors;
use self::state::{Change, Inode, State};
use super::{Entry, FilePath, Identity, Open, Vfs, VfsFile};

/// What goes wrong at one call of a simulated disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The power goes: this call and all later ones fail, without effect.
    Stop,
    /// The call fails with an input or output error. A write has then reached the file up to its middle; what a failed
    /// sync covered is dropped at a power cut, and a later sync of the same file does not bring it back.
    Eio,
    /// A call that needs space fails, a write after reaching the file up to its middle; other calls are not disturbed.
    Enospc,
    /// A call that needs space fails, a write after reaching the file whole; other calls are not disturbed.
    EnospcLate,
    /// From this call on the disk is full: what makes the files larger together is refused, until space is made.
    Full,
}

/// What a call asks of a simulated disk. Reads are not told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asked {
    /// A new file or folder.
    Make,
    /// Bytes in a file.
    Write,
    /// Space for a file.
    Allocate,
    /// Another length of a file.
    Truncate,
    /// Another name.
    Rename,
    /// A name less.
    Remove,
    /// A file's bytes, durable.
    Sync,
    /// A folder's names, durable.
    SyncFolder,
}

impl Asked {
    const fn needs_space(self) -> bool {
        matches!(self, Self::Make | Self::Write | Self::Allocate)
    }
}

/// A simulated disk. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").field("calls", &self.calls()).finish_non_exhaustive()
    }
}

impl SimDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State::default())))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls were made that change something or make it durable. Reads do not count.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Lets `fault` happen at call number `call`, counted from 0.
    #[must_use]
    pub fn with_fault(self, call: u64, fault: Fault) -> Self {
        self.state().fault = Some((call, fault));
        self
    }

    /// Lets the files together grow no more, from now on, or grow again.
    pub fn set_full(&self, full: bool) {
        self.state().set_full(full);
    }

    /// Whether [`Fault::Stop`] has not come yet.
    #[must_use]
    pub fn has_power(&self) -> bool {
        self.state().check_power().is_ok()
    }

    /// What the first call was asked that failed.
    #[must_use]
    pub fn failed(&self) -> Option<Asked> {
        self.state().failed
    }

    /// The disk as a power cut now may leave it: a new one, without faults, and everything on it is durable.
    #[must_use]
    pub fn after_crash(&self, survivors: Survivors) -> Self {
        Self(Arc::new(Mutex::new(image::image(&self.state(), survivors))))
    }

    /// The disk as a killed process leaves it: a new one, without faults, of which as much is durable as before.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let mut state = self.state().clone();
        (state.fault, state.failed, state.stopped, state.capacity) = (None, None, false, None);
        state.inodes.iter_mut().for_each(|inode| inode.locked = None);
        Self(Arc::new(Mutex::new(state)))
    }

    /// How many bytes the last write had that no sync covers, for [`Survivors::Torn`].
    #[must_use]
    pub fn last_unsynced_write(&self) -> Option<usize> {
        image::last_write(&self.state()).map(|(_, bytes)| bytes)
    }

    /// A number that is equal for disks with the same files and bytes: to count distinct crash states.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        self.state().fingerprint()
    }

    /// Changes one bit of a file, as a failing disk may do.
    ///
    /// # Errors
    /// `NotFound` for a file or an offset that is not there.
    pub fn flip(&self, path: &FilePath, bit: u64) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.file(path)?;
        let at = usize::try_from(bit / 8).map_err(io::Error::other)?;
        for bytes in [&mut inode.now, &mut inode.durable] {
            *bytes.get_mut(at).ok_or(io::ErrorKind::NotFound)? ^= 1 << (bit % 8);
        }
        Ok(())
    }
}

impl Vfs for SimDisk {
    fn open(&self, path: &FilePath, how: Open) -> io::Result<Arc<dyn VfsFile>> {
        let mut state = self.state();
        let found = state.lookup(path);
        let inode = match (found, how) {
            (Some(_), Open::CreateNew) => return Err(Errno::EXIST.into()),
            (Some(inode), _) => inode,
            (None, Open::Read | Open::Write) => return Err(Errno::NOENT.into()),
            (None, Open::Create | Open::CreateNew) => {
                state.check_folder(&path.parent())?;
                state.begin(Asked::Make, 0)?;
                let inode = state.add_inode(Inode::default());
                state.change_folder(Change::Link { path: path.clone(), inode });
                inode
            }
        };
        state.file_of(inode)?;
        let handle = state.next_handle();
        drop(state);
        Ok(Arc::new(SimFile { disk: self.clone(), inode, handle, writable: how != Open::Read }))
    }

    fn rename(&self, from: &FilePath, to: &FilePath) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.lookup(from).ok_or(Errno::NOENT)?;
        state.check_folder(&to.parent())?;
        state.begin(Asked::Rename, 0)?;
        state.change_folder(Change::Rename { from: from.clone(), to: to.clone(), inode });
        Ok(())
    }

    fn unlink(&self, path: &FilePath) -> io::Result<()> {
        let mut state = self.state();
        state.file(path)?;
        state.begin(Asked::Remove, 0)?;
        state.change_folder(Change::Unlink { path: path.clone() });
        Ok(())
    }

    fn create_dir(&self, path: &FilePath) -> io::Result<()> {
        let mut state = self.state();
        if state.lookup(path).is_some() {
            return state.check_folder(path).and(Err(Errno::EXIST.into()));
        }
        state.check_folder(&path.parent())?;
        state.begin(Asked::Make, 0)?;
        let inode = state.add_inode(Inode { folder: true, ..Inode::default() });
        state.change_folder(Change::Link { path: path.clone(), inode });
        Ok(())
    }

    fn remove_dir(&self, path: &FilePath) -> io::Result<()> {
        let mut state = self.state();
        state.check_folder(path)?;
        if !state.entries(path).is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        state.begin(Asked::Remove, 0)?;
        state.change_folder(Change::Unlink { path: path.clone() });
        Ok(())
    }

    fn free_space(&self) -> io::Result<u64> {
        Ok(self.state().free_space())
    }

    fn list(&self, path: &FilePath) -> io::Result<Vec<Entry>> {
        let state = self.state();
        state.check_power()?;
        state.check_folder(path)?;
        Ok(state.entries(path))
    }

    fn sync_dir(&self, path: &FilePath) -> io::Result<()> {
        let mut state = self.state();
        state.check_folder(path)?;
        state.begin(Asked::SyncFolder, 0)?;
        state.sync_folder(path);
        Ok(())
    }

    fn identity(&self) -> io::Result<Identity> {
        Ok(Identity { device: u64::MAX, inode: Arc::as_ptr(&self.0).addr() as u64 })
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: usize,
    handle: u64,
    writable: bool,
}

impl SimFile {
    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(Errno::BADF.into()) }
    }
}

impl VfsFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        state.check_power()?;
        let inode = state.file_of(self.inode)?;
        let left = usize::try_from(inode.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let count = left.min(buffer.len());
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(inode.now.len());
        let rest = inode.now.get(from..).unwrap_or_default();
        // Where space was reserved and nothing written, there are zeros.
        for (target, source) in buffer.iter_mut().take(count).zip(rest.iter().chain(std::iter::repeat(&0))) {
            *target = *source;
        }
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.disk.state();
        let end = offset.saturating_add(bytes.len() as u64);
        let grows = end.saturating_sub(state.file_of(self.inode)?.len());
        let (bytes, outcome) = match state.begin(Asked::Write, grows) {
            Err(error) if state.check_power().is_err() => return Err(error),
            Err(error) if state.fails_late() => (bytes, Err(error)),
            Err(error) => (bytes.get(..bytes.len() / 2).unwrap_or_default(), Err(error)),
            Ok(()) => (bytes, Ok(())),
        };
        state.write(self.inode, bytes, offset)?;
        outcome
    }

    fn len(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.check_power()?;
        Ok(state.file_of(self.inode)?.len())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        match state.begin(Asked::Sync, 0) {
            Err(error) if state.check_power().is_err() => Err(error),
            Err(error) => {
                // As Linux does it: the pages count as clean now, and are not written until they are changed again.
                state.file_of(self.inode)?.forget_pending();
                Err(error)
            }
            Ok(()) => {
                state.file_of(self.inode)?.sync();
                Ok(())
            }
        }
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.disk.state();
        state.begin(Asked::Truncate, 0)?;
        state.truncate(self.inode, len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.disk.state();
        let grows = len.saturating_sub(state.file_of(self.inode)?.len());
        state.begin(Asked::Allocate, grows)?;
        let inode = state.file_of(self.inode)?;
        inode.allocated = inode.allocated.max(len);
        Ok(())
    }

    fn modified(&self) -> io::Result<SystemTime> {
        let mut state = self.disk.state();
        state.check_power()?;
        Ok(state.file_of(self.inode)?.modified.unwrap_or(SystemTime::UNIX_EPOCH))
    }

    fn set_modified(&self, time: SystemTime) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.disk.state();
        state.check_power()?;
        state.file_of(self.inode)?.modified = Some(time);
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.disk.state();
        state.check_power()?;
        let holder = &mut state.file_of(self.inode)?.locked;
        Ok(*holder.get_or_insert(self.handle) == self.handle)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if let Ok(inode) = self.disk.state().file_of(self.inode) {
            inode.locked.take_if(|holder| *holder == self.handle);
        }
    }
}
