//! An open log: its compressed beginning and its plain rest, as one file.

use std::{
    io,
    sync::{Arc, PoisonError, RwLock},
};

use super::{Damaged, Inner, compressed_path, frames::Compressed};
use crate::{
    mutex::guard,
    vfs::{FilePath, Open, VfsFile},
};

/// How often a reader looks whether the two files of a log belong together, while the holder compresses it again.
const LOOKS: u32 = 100;

/// The two files of a log.
#[derive(Debug)]
struct Parts {
    /// None if nothing of the log is compressed.
    compressed: Option<Compressed>,
    /// None if everything that the plain file has is compressed, too.
    plain: Option<Arc<dyn VfsFile>>,
}

impl Parts {
    /// Opens the files of a log. A missing log is `NotFound`; one whose plain file alone is missing is [`Damaged`].
    fn open(inner: &Inner, log: &FilePath, how: Open) -> io::Result<Self> {
        let path = compressed_path(log)?;
        let how = match how {
            Open::Create | Open::CreateNew => {
                // If there is none before the plain file is made, there is none after it.
                if !inner.has_compressed(log)? {
                    return Ok(Self { compressed: None, plain: Some(inner.below.open(log, how)?) });
                }
                if how == Open::CreateNew {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                Open::Write
            }
            Open::Read | Open::Write => how,
        };
        let plain = match inner.below.open(log, how) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && inner.has_compressed(log)? => {
                return Err(Damaged::at(log, 0).error());
            }
            opened => opened?,
        };
        // The plain file was opened first. So it has all of the log if there is no compressed one now.
        match Compressed::open(&*inner.below, &path, &inner.cache)? {
            None => Ok(Self { compressed: None, plain: Some(plain) }),
            Some(first) => Self::open_both(inner, log, how, first),
        }
    }

    /// Opens both files so that they belong together: no compressed file replaced the one that was found before the
    /// plain file was opened. `first` is that one.
    fn open_both(inner: &Inner, log: &FilePath, how: Open, mut first: Compressed) -> io::Result<Self> {
        let path = compressed_path(log)?;
        // Within this process nothing changes meanwhile; a holder in another one may compress the log.
        let mut synced = guard(&inner.switching);
        for _ in 0..LOOKS {
            let mut plain = inner.below.open(log, how)?;
            let Some(compressed) = Compressed::open(&*inner.below, &path, &inner.cache)? else {
                return Err(io::ErrorKind::NotFound.into());
            };
            if compressed.table() != first.table() {
                first = compressed;
                continue;
            }
            let is_replaced = compressed.table().replaces(&*plain)?;
            if is_replaced && how == Open::Write {
                inner.finish(log)?;
                plain = inner.below.open(log, how)?;
            } else if how == Open::Write && !synced.contains(&log.parent()) {
                // What is appended must not be in a file that a power cut replaces by the former one.
                inner.below.sync_dir(&log.parent())?;
                synced.insert(log.parent());
            }
            let plain = (!is_replaced || how == Open::Write).then_some(plain);
            return Ok(Self { compressed: Some(compressed), plain });
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// The offset of the log at which the plain file begins.
    fn plain_begins(&self) -> u64 {
        self.compressed.as_ref().map_or(0, |compressed| compressed.table().len())
    }

    fn read_at(&self, inner: &Inner, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let Some(compressed) = &self.compressed else {
            return self.plain.as_ref().map_or(Ok(0), |plain| plain.read_at(buffer, offset));
        };
        let begins = compressed.table().len();
        let mut count = 0;
        while count < buffer.len() {
            let (rest, at) = (buffer.get_mut(count..).unwrap_or_default(), offset + count as u64);
            let read = match &self.plain {
                _ if at < begins => compressed.read_at(rest, at, &inner.cache),
                Some(plain) => plain.read_at(rest, at - begins),
                None => Ok(0),
            };
            match read {
                Ok(0) => break,
                Ok(more) => count += more,
                // What stands before the damage can be read.
                Err(_) if count > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    fn len(&self) -> io::Result<u64> {
        let plain = self.plain.as_ref().map_or(Ok(0), |plain| plain.len())?;
        Ok(self.plain_begins() + plain)
    }

    fn plain(&self) -> io::Result<&Arc<dyn VfsFile>> {
        self.plain.as_ref().ok_or_else(|| io::ErrorKind::PermissionDenied.into())
    }
}

/// An open log.
#[derive(Debug)]
pub(super) struct LogFile {
    inner: Arc<Inner>,
    path: FilePath,
    how: Open,
    parts: RwLock<Arc<Parts>>,
}

impl LogFile {
    pub(super) fn open(inner: &Arc<Inner>, path: &FilePath, how: Open) -> io::Result<Self> {
        let parts = RwLock::new(Arc::new(Parts::open(inner, path, how)?));
        // Opened again, it is there.
        let how = if how == Open::Read { how } else { Open::Write };
        Ok(Self { inner: Arc::clone(inner), path: path.clone(), how, parts })
    }

    /// The offset of the log at which its plain file begins.
    pub(super) fn plain_begins(&self) -> u64 {
        self.parts().plain_begins()
    }

    fn parts(&self) -> Arc<Parts> {
        Arc::clone(&self.parts.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Compares bytes that are written with compressed ones, as far as there are any, and returns how many they are. A
    /// recovery writes again what the log has; anything else would change it.
    fn compare(&self, parts: &Parts, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let left = parts.plain_begins().saturating_sub(offset);
        let mut expected =
            bytes.get(..usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len())).unwrap_or_default();
        let count = expected.len();
        let mut found = vec![0; count.min(64 << 10)];
        let mut at = offset;
        while !expected.is_empty() {
            let most = found.len().min(expected.len());
            let read = parts.read_at(&self.inner, found.get_mut(..most).unwrap_or_default(), at)?;
            if read == 0 || found.get(..read) != expected.get(..read) {
                return Err(Damaged::at(&self.path, at).error());
            }
            expected = expected.get(read..).unwrap_or_default();
            at += read as u64;
        }
        Ok(count)
    }
}

impl VfsFile for LogFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let count = self.parts().read_at(&self.inner, buffer, offset)?;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        // The log ends here, or its holder has compressed it: then the plain file that is open here grows no more.
        let Ok(parts) = Parts::open(&self.inner, &self.path, self.how) else { return Ok(0) };
        let parts = Arc::new(parts);
        let count = parts.read_at(&self.inner, buffer, offset)?;
        if count > 0 {
            *self.parts.write().unwrap_or_else(PoisonError::into_inner) = parts;
        }
        Ok(count)
    }

    /// Bytes of the compressed part can be written again as they are. Others are refused as [`Damaged`].
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let parts = self.parts();
        let same = self.compare(&parts, bytes, offset)?;
        match bytes.get(same..) {
            Some(rest) if !rest.is_empty() => {
                parts.plain()?.write_at(rest, offset + same as u64 - parts.plain_begins())
            }
            _ => Ok(()),
        }
    }

    fn len(&self) -> io::Result<u64> {
        self.parts().len()
    }

    /// The compressed part is durable: it got its name after that.
    fn sync_data(&self) -> io::Result<()> {
        self.parts().plain()?.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let parts = self.parts();
        match len.checked_sub(parts.plain_begins()) {
            Some(len) => parts.plain()?.truncate(len),
            None => Err(Damaged::at(&self.path, len).error()),
        }
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        let parts = self.parts();
        parts.plain()?.allocate(len.saturating_sub(parts.plain_begins()))
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.parts().plain()?.try_lock()
    }
}
