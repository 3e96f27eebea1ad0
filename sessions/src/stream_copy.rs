//! Copies of pipes and other paths that can be read only once.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::error::{Error, Result};

/// A temporary file with the content of a path that can be read only once. It is removed when this value is dropped.
pub(crate) struct StreamCopy {
    path: PathBuf,
    _folder: TempDir,
}

impl StreamCopy {
    /// Copies the content of a path, or returns `None` if the path is a file or a folder, or does not exist.
    pub(crate) fn of(path: &Path) -> Result<Option<Self>> {
        let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
        if metadata.is_dir() || (metadata.is_file() && !is_path_of_descriptor(path)) {
            return Ok(None);
        }
        let folder = TempDir::with_prefix("agentstore-import-").map_err(Error::io(path))?;
        let name = path.file_name().unwrap_or_else(|| "session".as_ref());
        let copy = folder.path().join(name);
        let mut from = File::open(path).map_err(Error::io(path))?;
        let mut to = File::create_new(&copy).map_err(Error::io(path))?;
        let _bytes = io::copy(&mut from, &mut to).map_err(Error::io(path))?;
        Ok(Some(Self { path: copy, _folder: folder }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the error with the original path, if it names the copy.
    pub(crate) fn with_original_path(&self, error: Error, original: &Path) -> Error {
        match error {
            Error::Io { path, source } if path == self.path => Error::Io { path: original.to_owned(), source },
            Error::Changed { path } if path == self.path => Error::Changed { path: original.to_owned() },
            Error::Stopped { path } if path == self.path => Error::Stopped { path: original.to_owned() },
            other => other,
        }
    }
}

/// Whether a path names an open file of this process by its descriptor: `/dev/stdin`, or a path in `/dev/fd`. On some
/// systems every open of such a path shares one read position. The content can then be read only once, even if the path
/// leads to a file.
fn is_path_of_descriptor(path: &Path) -> bool {
    path == Path::new("/dev/stdin") || path.parent().is_some_and(|folder| folder == Path::new("/dev/fd"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs::File, io::Write, os::fd::AsRawFd};

    use super::StreamCopy;

    #[test]
    fn an_open_file_is_copied_only_by_the_path_of_its_descriptor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        File::create(&path).unwrap().write_all(b"x").unwrap();
        let file = File::open(&path).unwrap();
        assert!(StreamCopy::of(&path).unwrap().is_none());
        let copy = StreamCopy::of(format!("/dev/fd/{}", file.as_raw_fd()).as_ref()).unwrap().unwrap();
        assert_eq!(std::fs::read(copy.path()).unwrap(), b"x");
    }
}
