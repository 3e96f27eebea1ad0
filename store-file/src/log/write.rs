//! Writes groups: encoded one after the other, written once, synced once.

use std::{io, sync::Arc};

use store_core::{Result, length};

use super::{
    Position, Span,
    format::{Placed, add_checksum, encode_group, span},
};
use crate::vfs::{FilePath, Open, Vfs, VfsFile};

/// Why groups were not written.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The log could not be made, and nothing changed.
    #[error("the log cannot be created")]
    Refused(#[source] io::Error),
    /// There is no space. The log is as it was, and what was in the batch never shows (FI-7).
    #[error("no space for the log")]
    Full(#[source] io::Error),
    /// Nobody knows what of the batch is in the log: the store has to be poisoned (FI-6).
    #[error("writing the log failed")]
    Failed(#[source] io::Error),
}

/// The end of a log, where one writer at a time appends.
#[derive(Debug)]
pub struct LogWriter {
    file: Arc<dyn VfsFile>,
    path: FilePath,
    end: Position,
    synced: u64,
    /// Whether its folder has to be synced along with the file before anything of it is acknowledged.
    is_unlisted: bool,
}

/// Groups to be written together.
#[derive(Debug)]
pub struct Batch {
    bytes: Vec<u8>,
    start: u64,
    end: Position,
    synced: u64,
}

impl LogWriter {
    /// Makes the log `path`, which must not exist, with the fields of `header` in its first line. It is durable, name
    /// and all, after the first [`LogWriter::sync`]; its folder has to be durable before.
    ///
    /// # Errors
    /// [`AppendError::Full`] if there is no space, and no file is left then; [`AppendError::Refused`] if the header or
    /// the system does not allow it; [`AppendError::Failed`] if the header could not be written.
    pub fn create(vfs: &dyn Vfs, path: &FilePath, header: &str) -> Result<Self, AppendError> {
        let (line, crc) = add_checksum(header).map_err(|error| AppendError::Refused(io::Error::other(error)))?;
        let file = vfs.open(path, Open::CreateNew).map_err(|error| match failure(error) {
            AppendError::Failed(error) => AppendError::Refused(error),
            full => full,
        })?;
        if let Err(error) = file.write_at(&line, 0) {
            drop(file);
            return Err(match vfs.unlink(path) {
                Ok(()) => failure(error),
                Err(later) => AppendError::Failed(later),
            });
        }
        let end = Position { offset: line.len() as u64, crc };
        Ok(Self { file, path: path.clone(), end, synced: 0, is_unlisted: true })
    }

    /// Goes on at `end`, behind the last good group of the log `path` that is durable up to there.
    #[must_use]
    pub fn resume(file: Arc<dyn VfsFile>, path: FilePath, end: Position) -> Self {
        Self { file, path, end, synced: end.offset, is_unlisted: false }
    }

    /// The same of a log that is durable up to `synced` only, maybe without its name.
    #[must_use]
    pub fn synced_to(self, synced: u64) -> Self {
        let is_unlisted = synced < self.end.offset;
        Self { synced, is_unlisted, ..self }
    }

    /// Where the next group goes.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.end
    }

    /// The offset up to which the log is durable.
    #[must_use]
    pub const fn synced(&self) -> u64 {
        self.synced
    }

    /// Where the log is.
    #[must_use]
    pub const fn path(&self) -> &FilePath {
        &self.path
    }

    /// The file, for reading.
    #[must_use]
    pub const fn file(&self) -> &Arc<dyn VfsFile> {
        &self.file
    }

    /// An empty batch of groups that follow the log's end.
    #[must_use]
    pub const fn batch(&self) -> Batch {
        Batch { bytes: Vec::new(), start: self.end.offset, end: self.end, synced: self.synced }
    }

    /// Writes a batch, in one call of the system. It is not durable before [`LogWriter::sync`].
    ///
    /// # Errors
    /// See [`AppendError`]. A batch that was taken before another one was written is refused as `Failed`.
    pub fn append(&mut self, batch: &Batch) -> Result<(), AppendError> {
        if batch.start != self.end.offset {
            return Err(AppendError::Failed(io::Error::other("the batch does not begin at the end of the log")));
        }
        if let Err(error) = self.file.write_at(&batch.bytes, batch.start) {
            // Part of it may be there; without its commit line that is nothing, but it must not stay in the way.
            return Err(match (failure(error), self.file.truncate(batch.start)) {
                (AppendError::Full(_), Err(later)) => AppendError::Failed(later),
                (first, _) => first,
            });
        }
        self.end = batch.end;
        Ok(())
    }

    /// Makes everything that was appended durable, on a new log also its name.
    ///
    /// # Errors
    /// What the system says. Nobody knows then what is durable: the store has to be poisoned, and nothing is synced
    /// again (FI-6).
    pub fn sync(&mut self, vfs: &dyn Vfs) -> io::Result<()> {
        self.file.sync_data()?;
        if self.is_unlisted {
            vfs.sync_dir(&self.path.parent())?;
            self.is_unlisted = false;
        }
        self.synced = self.end.offset;
        Ok(())
    }
}

fn failure(error: io::Error) -> AppendError {
    if crate::error::is_full(&error) { AppendError::Full(error) } else { AppendError::Failed(error) }
}

impl Batch {
    /// Adds a group: its lines, and the fields of its commit line as a JSON object.
    ///
    /// # Errors
    /// As [`encode_group`]; the batch is then as before.
    pub fn push<L: AsRef<[u8]>>(&mut self, lines: &[L], fields: &str) -> Result<Placed> {
        let placed = encode_group(&mut self.bytes, self.end, self.synced, lines, fields)?;
        self.end = placed.end;
        Ok(placed)
    }

    /// Where a line of the next group will be that has so many bytes of others before it.
    #[must_use]
    pub fn place(&self, before: usize, line: &str) -> Span {
        span(self.end.offset + length(before), line.as_bytes())
    }

    /// Whether no group was added.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// How many bytes will be written.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The encoded groups.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
