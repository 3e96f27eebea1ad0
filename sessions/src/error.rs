//! What ends an import or export: the source cannot be read, or the store refuses.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error as ThisError;

/// Why an import or export ended.
///
/// A source that no format fits, or that is refused, is no error: its [`Report`](crate::Report) names no thread and
/// says why.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A source cannot be read, or a target cannot be written.
    #[error("`{path}`: {source}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A source was written to elsewhere than at its end while it was read; the import can be repeated.
    #[error("`{path}` changed while it was read; import it again")]
    Changed {
        /// Which file.
        path: PathBuf,
    },
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] store_core::Error),
    /// A thread cannot be written in this format.
    #[error("thread `{thread}` cannot be exported as `{format}`: {reason}")]
    NotExportable {
        /// The thread.
        thread: String,
        /// The format.
        format: &'static str,
        /// What stands against it, and what can be done.
        reason: &'static str,
    },
    /// No format has this name.
    #[error("no session format is called `{name}`; known are {known}")]
    UnknownFormat {
        /// The name.
        name: String,
        /// The names that there are.
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
