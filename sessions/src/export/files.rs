//! The files that an export writes: one stream, or files in a folder.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Component, Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{
    error::{Error, Result},
    formats::FormatName,
    source::hex,
};

/// Where a session is written.
#[non_exhaustive]
pub enum ExportTarget<'a> {
    /// A stream, which gets the only file of the session.
    Stream(&'a mut (dyn Write + Send)),
    /// A folder, which gets the files of the session under the names that the tool expects. Folders that do not exist
    /// are made. A file that exists is an error.
    Folder(&'a Path),
}

impl std::fmt::Debug for ExportTarget<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stream(_) => f.write_str("Stream"),
            Self::Folder(path) => f.debug_tuple("Folder").field(path).finish(),
        }
    }
}

/// The files that an export writes.
pub(crate) struct ExportFiles<'a> {
    target: ExportTarget<'a>,
    format: FormatName,
    thread: String,
    /// The file that is being written, if the target is a folder.
    file: Option<(PathBuf, BufWriter<File>)>,
    has_started: bool,
    hash: Sha256,
    pub(super) lines: u64,
    pub(super) bytes: u64,
    /// The files that were finished.
    finished: Vec<PathBuf>,
}

impl<'a> ExportFiles<'a> {
    pub(super) fn new(target: ExportTarget<'a>, format: FormatName, thread: String) -> Self {
        Self {
            target,
            format,
            thread,
            file: None,
            has_started: false,
            hash: Sha256::new(),
            lines: 0,
            bytes: 0,
            finished: Vec::new(),
        }
    }

    /// Whether more than one file can be written.
    pub(crate) const fn is_folder(&self) -> bool {
        matches!(self.target, ExportTarget::Folder(_))
    }

    /// Refuses the export if only one file can be written.
    pub(crate) fn require_folder(&self, reason: &'static str) -> Result<()> {
        if self.is_folder() {
            return Ok(());
        }
        Err(Error::NotExportable { thread: self.thread.clone(), format: self.format.name(), reason })
    }

    /// Ends the file that was written so far, and starts the next one. `name` is its path below the folder of the
    /// session. A stream ignores it.
    pub(crate) fn start(&mut self, name: &str) -> Result<()> {
        if std::mem::replace(&mut self.has_started, true) {
            self.require_folder("its session has several files: export it to a folder")?;
        }
        self.finish()?;
        self.hash = Sha256::new();
        let ExportTarget::Folder(folder) = &self.target else { return Ok(()) };
        if !Path::new(name).components().all(|part| matches!(part, Component::Normal(_))) {
            let place = format!("`{name}` is not the name of a file in a session folder");
            return Err(store_core::Error::corrupt(place).into());
        }
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::io(parent))?;
        }
        let file = File::create_new(&path).map_err(Error::io(&path))?;
        self.file = Some((path, BufWriter::new(file)));
        Ok(())
    }

    /// Writes bytes to the file that was started.
    pub(crate) fn write_raw(&mut self, bytes: &[u8]) -> Result<()> {
        match (&mut self.file, &mut self.target) {
            (Some((path, file)), _) => file.write_all(bytes).map_err(Error::io(path))?,
            (None, ExportTarget::Stream(out)) => out.write_all(bytes).map_err(Error::io("the output".as_ref()))?,
            (None, ExportTarget::Folder(_)) => {}
        }
        self.bytes += u64::try_from(bytes.len()).unwrap_or_default();
        self.hash.update(bytes);
        Ok(())
    }

    /// Writes a line with this line end.
    pub(crate) fn write_line(&mut self, bytes: &[u8], end: &[u8]) -> Result<()> {
        self.write_raw(bytes)?;
        self.write_raw(end)?;
        self.lines += 1;
        Ok(())
    }

    /// The SHA-256 of the bytes of the current file.
    pub(crate) fn hash(&self) -> String {
        hex(&self.hash.clone().finalize())
    }

    /// Ends the current file.
    pub(super) fn finish(&mut self) -> Result<()> {
        if let Some((path, mut file)) = self.file.take() {
            self.finished.push(path.clone());
            file.flush().map_err(Error::io(&path))?;
        }
        match &mut self.target {
            ExportTarget::Stream(out) => out.flush().map_err(Error::io("the output".as_ref())),
            ExportTarget::Folder(_) => Ok(()),
        }
    }

    /// Keeps the files that were written, and returns their paths.
    pub(super) fn keep(&mut self) -> Vec<PathBuf> {
        std::mem::take(&mut self.finished)
    }
}

impl Drop for ExportFiles<'_> {
    /// Removes the files of an export that did not finish, because a part of a session would look like a whole one.
    fn drop(&mut self) {
        let unfinished = self.file.take().map(|(path, _)| path);
        for path in self.finished.drain(..).chain(unfinished) {
            let _ = fs::remove_file(path);
        }
    }
}
