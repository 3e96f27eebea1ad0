//! The errors that end an import or export: a source cannot be read, or the store refuses or fails.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error as ThisError;

/// The error that ended an import or export.
///
/// A source that is refused, for example because its format is unknown, is not an error: its
/// [`ImportReport`](crate::ImportReport) names no thread and contains the reason.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A source cannot be read, or a target cannot be written.
    #[error("`{path}`: {source}")]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system or the decoder.
        source: io::Error,
    },
    /// A source changed while it was read, in a place other than its end. The import can be repeated.
    #[error("`{path}` changed while it was read; import it again")]
    Changed {
        /// The path of the file.
        path: PathBuf,
    },
    /// [`ImportOptions::progress`](crate::ImportOptions::progress) stopped the import. The same call continues it.
    #[error("the import of `{path}` was stopped; the same call continues it")]
    Stopped {
        /// The path of the file.
        path: PathBuf,
    },
    /// The import ended with an error, and the parents of the threads that it had written could not be set. A later
    /// import sets them.
    #[error("{import}; also, the parents of imported threads were not set: {parents}")]
    ParentsNotSet {
        /// The error of the import.
        import: Box<Self>,
        /// The error of setting the parents.
        parents: Box<Self>,
    },
    /// The store refused a call or failed.
    #[error(transparent)]
    Store(#[from] store_core::Error),
    /// A thread cannot be written in this format.
    #[error("thread `{thread}` cannot be exported as `{format}`: {reason}")]
    NotExportable {
        /// The thread.
        thread: String,
        /// The format.
        format: &'static str,
        /// The reason, and what the caller can do instead.
        reason: &'static str,
    },
    /// No format has this name.
    #[error("no session format is called `{name}`; known formats are {known}")]
    UnknownFormat {
        /// The unknown name.
        name: String,
        /// The names of the known formats.
        known: String,
    },
}

/// The result of an import or export.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
