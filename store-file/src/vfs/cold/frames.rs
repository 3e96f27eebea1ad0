//! The compressed file of a log: writing it, and reading any part of its text.

use std::{
    collections::VecDeque,
    fmt, io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::io::Errno;
use zstd::{
    bulk::{Compressor, Decompressor},
    zstd_safe::CParameter,
};

use super::table::{FRAME_TEXT, Frame, Table};
use crate::{
    mutex::guard,
    vfs::{FilePath, Open, Vfs, VfsFile, read_exact_at},
};

/// How hard zstd tries: its own default. In frames of this size higher levels gain little.
const LEVEL: i32 = 3;
/// How much is written at once.
const WRITE: usize = 1 << 20;
/// How many decoded frames are kept: 4 MiB of text, whatever the number of logs.
const KEPT: usize = 32;

/// The compressed file of a log is not what was written: the source of an error of kind `InvalidData`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Damaged {
    path: FilePath,
    offset: u64,
}

impl Damaged {
    /// Where it is: the file, and the offset in it.
    pub(crate) fn place(&self) -> String {
        format!("{}:{}", self.path, self.offset)
    }

    pub(super) fn at(path: &FilePath, offset: u64) -> Self {
        Self { path: path.clone(), offset }
    }

    pub(super) fn error(&self) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidData, self.clone())
    }

    /// The damage that an error is about, if it is about any.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.path, self.offset)
    }
}

impl std::error::Error for Damaged {}

/// A file, by its number in the cache, and a frame of it.
type FrameId = (u64, usize);

/// Decoded frames that were used last, of all compressed files.
#[derive(Debug, Default)]
pub(super) struct Cache {
    frames: Mutex<VecDeque<(FrameId, Arc<Vec<u8>>)>>,
    opened: AtomicU64,
}

impl Cache {
    fn get(&self, key: FrameId) -> Option<Arc<Vec<u8>>> {
        let mut frames = guard(&self.frames);
        let place = frames.iter().position(|(kept, _)| *kept == key)?;
        let found = frames.remove(place)?;
        let text = Arc::clone(&found.1);
        frames.push_front(found);
        Some(text)
    }

    fn keep(&self, key: FrameId, text: &Arc<Vec<u8>>) {
        let mut frames = guard(&self.frames);
        frames.push_front((key, Arc::clone(text)));
        frames.truncate(KEPT);
    }
}

/// An open compressed file.
#[derive(Debug)]
pub(super) struct Compressed {
    path: FilePath,
    file: Arc<dyn VfsFile>,
    table: Table,
    /// What tells it from other open files in the cache.
    number: u64,
}

impl Compressed {
    /// Opens the file at `path`, if there is one.
    ///
    /// # Errors
    /// [`Damaged`] if it is no file, or its end is not what was written; otherwise as the system says.
    pub(super) fn open(vfs: &dyn Vfs, path: &FilePath, cache: &Cache) -> io::Result<Option<Self>> {
        let file = match vfs.open(path, Open::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if is_no_file(&error) => return Err(Damaged::at(path, 0).error()),
            opened => opened?,
        };
        let Some(table) = Table::read(&*file)? else { return Err(Damaged::at(path, file.len()?).error()) };
        let number = cache.opened.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Self { path: path.clone(), file, table, number }))
    }

    /// What it has.
    pub(super) const fn table(&self) -> &Table {
        &self.table
    }

    /// Copies text from an offset of the log on, up to the end of a frame. 0 at the end.
    ///
    /// # Errors
    /// [`Damaged`]; what the system says about a read.
    pub(super) fn read_at(&self, buffer: &mut [u8], offset: u64, cache: &Cache) -> io::Result<usize> {
        let Some((number, frame)) = self.table.frame(offset) else { return Ok(0) };
        let key = (self.number, number);
        let text = match cache.get(key) {
            Some(text) => text,
            None => {
                let text = Arc::new(self.decode(frame)?);
                cache.keep(key, &text);
                text
            }
        };
        let from = usize::try_from(offset - frame.text_at).unwrap_or(usize::MAX);
        let rest = text.get(from..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        if let (Some(target), Some(source)) = (buffer.get_mut(..count), rest.get(..count)) {
            target.copy_from_slice(source);
        }
        Ok(count)
    }

    fn decode(&self, frame: Frame) -> io::Result<Vec<u8>> {
        let size = |size: u32| usize::try_from(size).unwrap_or(usize::MAX);
        let mut bytes = vec![0; size(frame.bytes)];
        let damaged = || Damaged::at(&self.path, frame.at).error();
        read_exact_at(&*self.file, &mut bytes, frame.at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged(),
            _ => error,
        })?;
        let text = Decompressor::new()?.decompress(&bytes, size(frame.text)).map_err(|_| damaged())?;
        if text.len() == size(frame.text) { Ok(text) } else { Err(damaged()) }
    }
}

/// Whether something else than a file has the name.
fn is_no_file(error: &io::Error) -> bool {
    let known = [Errno::LOOP, Errno::MLINK, Errno::ISDIR];
    error.kind() == io::ErrorKind::InvalidInput || Errno::from_io_error(error).is_some_and(|no| known.contains(&no))
}

/// Writes the first `len` bytes of a log to `target`, compressed, and proves that they can be read back. Nothing is
/// durable then. `plain_began` is where the plain file of the log begins.
///
/// # Errors
/// As the system says; [`Damaged`] for a log that has fewer bytes.
pub(super) fn write(
    log: &dyn VfsFile,
    target: &dyn VfsFile,
    (len, plain_began): (u64, u64),
    patches: &[(u64, Vec<u8>)],
) -> io::Result<()> {
    let mut compressor = Compressor::new(LEVEL)?;
    compressor.set_parameter(CParameter::ChecksumFlag(true))?;
    let mut decompressor = Decompressor::new()?;
    let mut table = Table::new(plain_began);
    let (mut written, mut waiting) = (0, Vec::with_capacity(WRITE));
    let mut text = vec![0; FRAME_TEXT];
    while table.len() < len {
        let want = usize::try_from(len - table.len()).unwrap_or(FRAME_TEXT).min(FRAME_TEXT);
        let text = text.get_mut(..want).unwrap_or_default();
        read_exact_at(log, text, table.len())?;
        patches.iter().for_each(|(offset, bytes)| patch(text, table.len(), *offset, bytes));
        let frame = compressor.compress(text)?;
        if decompressor.decompress(&frame, want)? != text {
            return Err(io::Error::other("the compressed bytes do not give the text"));
        }
        table.push(frame.len(), text)?;
        waiting.extend(frame);
        if waiting.len() >= WRITE {
            target.write_at(&waiting, written)?;
            written += waiting.len() as u64;
            waiting.clear();
        }
    }
    waiting.extend(table.encode());
    target.write_at(&waiting, written)
}

/// Writes what of some bytes falls into a part of a text. `begins` and `offset` are offsets of the whole text.
fn patch(part: &mut [u8], begins: u64, offset: u64, bytes: &[u8]) {
    let (skip, at) = (begins.saturating_sub(offset), offset.saturating_sub(begins));
    let bytes = usize::try_from(skip).ok().and_then(|skip| bytes.get(skip..)).unwrap_or_default();
    let part = usize::try_from(at).ok().and_then(|at| part.get_mut(at..)).unwrap_or_default();
    part.iter_mut().zip(bytes).for_each(|(old, new)| *old = *new);
}
