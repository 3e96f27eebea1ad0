//! Which process holds the root, and whether the last holder closed it: the file `lock` (FI-5).

use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, test_kill_process},
};
use serde_json::{Value, json};
use store_core::{Error, Result};

use crate::{
    error,
    log::{add_checksum, verified_checksum},
    vfs::{FilePath, Open, Vfs, VfsFile, read_exact_at},
};

const NAME: &str = "lock";
const MAX_BYTES: u64 = 4096;
/// The file is this long at least, so that a shorter text overwrites all of a longer one.
const BYTES: usize = 512;
/// How long an opener waits for a holder of its own process that is just going (a dropped store ends in the
/// background), or for the record of one that has just come.
const PATIENCE: (u32, Duration) = (200, Duration::from_millis(5));

/// What the lock file says of the last holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The name of its host.
    pub(crate) host: String,
    /// Its process id.
    pub(crate) pid: u32,
    /// Which opening it was, counted from 1.
    pub(crate) session: u64,
    /// The first opening after the last clean close.
    pub(crate) since: u64,
    /// Whether it closed the root, everything being durable.
    pub(crate) clean: bool,
}

impl Holder {
    /// Whether its process may still be there. Of another host that is not known, and counts as yes.
    fn is_alive(&self) -> bool {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        self.host != this_process().0 || pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
    }
}

/// The lock on a root. It ends when this is dropped, and with the process, however that ends.
#[derive(Debug)]
pub(crate) struct Lock {
    /// None once it was given up: nothing is written after that.
    file: Mutex<Option<Arc<dyn VfsFile>>>,
    session: u64,
    since: u64,
    former: Option<Holder>,
}

impl Lock {
    /// Takes the lock, and records that the root is open before anything else is written to it.
    ///
    /// # Errors
    /// `Unavailable`, naming host and process of the holder, if another one has it.
    pub(crate) fn acquire(vfs: &dyn Vfs) -> Result<Self> {
        let path = FilePath::new(NAME)?;
        let fail = |source| error::io(NAME, source);
        let file = vfs.open(&path, Open::Create).map_err(fail)?;
        let mut tries = 0;
        while !file.try_lock().map_err(fail)? {
            // Between its lock and its record a new holder leaves the record of the one before it.
            let holder = read(&*file).map_err(fail)?.filter(|holder| !holder.clean && holder.is_alive());
            tries += 1;
            let passes = holder
                .as_ref()
                .is_none_or(|holder| (&holder.host, holder.pid) == (&this_process().0, this_process().1));
            if !passes || tries > PATIENCE.0 {
                return Err(store_in_use(holder.as_ref()));
            }
            std::thread::sleep(PATIENCE.1);
        }
        let former = read(&*file).map_err(fail)?;
        let session = former.as_ref().map_or(0, |holder| holder.session) + 1;
        let since = former.as_ref().filter(|holder| !holder.clean).map_or(session, |holder| holder.since);
        write(&*file, (session, since), false).map_err(fail)?;
        let lock = Self { file: Mutex::new(Some(file)), session, since, former };
        vfs.sync_dir(&FilePath::root()).map_err(fail)?;
        Ok(lock)
    }

    /// Takes the lock of a root that no process has open for writing, and reads the record of the last holder. Nothing
    /// is written. While this is kept, no process can open the root for writing. None if another opening has the lock.
    ///
    /// # Errors
    /// An error of the operating system.
    pub(crate) fn of_nobody(vfs: &dyn Vfs) -> Result<Option<Self>> {
        let fail = |source| error::io(NAME, source);
        let file = match vfs.open(&FilePath::new(NAME)?, Open::Read) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Some(Self { file: Mutex::default(), session: 0, since: 0, former: None }));
            }
            opened => opened.map_err(fail)?,
        };
        if !file.try_lock().map_err(fail)? {
            return Ok(None);
        }
        let former = read(&*file).map_err(fail)?;
        Ok(Some(Self { file: Mutex::new(Some(file)), session: 0, since: 0, former }))
    }

    /// The holder before this one; none if there was none, or if its record is unreadable, which counts as unclean.
    pub(crate) const fn former(&self) -> Option<&Holder> {
        self.former.as_ref()
    }

    /// The first opening after the last clean close. If the record is unreadable, it may have been any.
    pub(crate) fn since_of_former(&self) -> u64 {
        self.former().map_or(0, |former| former.since)
    }

    /// Whether the root was closed by its last holder.
    pub(crate) fn was_clean(&self) -> bool {
        self.former.as_ref().is_some_and(|holder| holder.clean)
    }

    /// Which opening this is. Derived data that is persisted at the close can carry it: an index of another session is
    /// stale.
    pub(crate) const fn session(&self) -> u64 {
        self.session
    }

    /// Gives the lock up. With `clean` it records that everything is durable, as the last thing that is written;
    /// without that the next opening is unclean.
    ///
    /// # Errors
    /// An error of the operating system. The lock is given up even so.
    pub(crate) fn close(&self, clean: bool) -> Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        match file {
            Some(file) if clean => {
                write(&*file, (self.session, self.since), true).map_err(|source| error::io(NAME, source))
            }
            _ => Ok(()),
        }
    }
}

fn write(file: &dyn VfsFile, (session, since): (u64, u64), clean: bool) -> io::Result<()> {
    let (host, pid) = this_process();
    let record = json!({"v": 1, "host": host, "pid": pid, "session": session, "since": since, "clean": clean});
    let record = record.to_string();
    let (mut line, _) = add_checksum(&record).map_err(io::Error::other)?;
    let end = line.len().max(BYTES);
    line.resize(end, b' ');
    file.write_at(&line, 0)?;
    file.truncate(end as u64)?;
    file.sync_data()
}

/// Its host and its id.
fn this_process() -> (String, u32) {
    let host: String = rustix::system::uname().nodename().to_string_lossy().chars().take(64).collect();
    (host, std::process::id())
}

fn store_in_use(holder: Option<&Holder>) -> Error {
    Error::store_in_use(match holder {
        Some(Holder { host, pid, .. }) => format!("it is held by process {pid} on host `{host}`"),
        None => "it is held by another process".to_owned(),
    })
}

fn read(file: &dyn VfsFile) -> io::Result<Option<Holder>> {
    let len = usize::try_from(file.len()?.min(MAX_BYTES)).unwrap_or_default();
    let mut bytes = vec![0; len];
    read_exact_at(file, &mut bytes, 0)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(verified_checksum(line).and_then(|_| parse(line)))
}

fn parse(line: &[u8]) -> Option<Holder> {
    let record: Value = serde_json::from_slice(line).ok()?;
    let session = record.get("session")?.as_u64()?;
    Some(Holder {
        host: record.get("host")?.as_str()?.to_owned(),
        pid: record.get("pid")?.as_u64()?.try_into().ok()?,
        session,
        // A record of the first release has none.
        since: record.get("since").map_or(Some(session), Value::as_u64)?,
        clean: record.get("clean")?.as_bool()?,
    })
}

#[cfg(test)]
mod tests {
    use store_core::ErrorKind;

    use super::{Lock, NAME, read};
    use crate::vfs::{
        Disk, FilePath, Open, Vfs,
        sim::{Fault, SimDisk, Survivors},
    };

    #[test]
    fn the_error_of_a_second_opener_names_the_lock_holder() {
        let temp = tempfile::tempdir().unwrap();
        let disk = Disk::open(temp.path()).unwrap();
        let lock = Lock::acquire(&disk).unwrap();
        let error = Lock::acquire(&Disk::open(temp.path()).unwrap()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let file = disk.open(&FilePath::new(NAME).unwrap(), Open::Read).unwrap();
        let holder = read(&*file).unwrap().unwrap();
        for part in [holder.host, std::process::id().to_string()] {
            assert!(error.to_string().contains(&part), "{error}");
        }
        drop(lock);
        assert!(!Lock::acquire(&disk).unwrap().was_clean());
    }

    #[test]
    fn a_clean_close_is_recorded_once_and_durably() {
        let disk = SimDisk::new();
        let lock = Lock::acquire(&disk).unwrap();
        assert!(!lock.was_clean() && lock.former().is_none() && lock.session() == 1);
        lock.close(true).unwrap();
        lock.close(true).unwrap();
        let disk = disk.after_crash(Survivors::Synced);
        let lock = Lock::acquire(&disk).unwrap();
        assert!(lock.was_clean() && lock.session() == 2);
        let lock = Lock::acquire(&disk.after_crash(Survivors::Synced)).unwrap();
        assert!(!lock.was_clean() && lock.session() == 3);
    }

    #[test]
    fn a_crash_at_any_call_is_never_taken_for_a_clean_close() {
        for call in 0..12 {
            let disk = SimDisk::new().with_fault(call, Fault::Stop);
            let closed = Lock::acquire(&disk).and_then(|lock| lock.close(true)).is_ok();
            let seeds = (0..20).map(Survivors::Random);
            for survivors in [Survivors::All, Survivors::Synced].into_iter().chain(seeds) {
                let next = Lock::acquire(&disk.after_crash(survivors)).unwrap();
                assert!(!closed || next.was_clean(), "call {call}, {survivors:?}");
            }
            if closed {
                return;
            }
        }
        panic!("it was never closed");
    }
}
