//! How a mailbox is opened.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use store_core::{Clock, IdSource, Limits, Uuids};

/// What happens to a file that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Create {
    /// It is made.
    #[default]
    Missing,
    /// The opening is refused.
    Never,
}

/// When SQLite syncs what it wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// Before a commit is acknowledged: it survives the loss of power.
    #[default]
    Full,
    /// Now and then: a loss of power takes the last commits. Refused unless [`SqliteConfig::allow_unsafe`] is set
    /// (SQ-2).
    Normal,
}

/// How a mailbox is opened.
///
/// ```
/// use store_sqlite_mailbox::{Create, SqliteConfig};
///
/// let mut config = SqliteConfig::new("mailbox.db");
/// config.create = Create::Never;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SqliteConfig {
    /// The database file. Others are beside it: see [`SqliteMailbox`](crate::SqliteMailbox).
    pub(crate) path: PathBuf,
    /// Whether a file that does not exist is made.
    pub create: Create,
    /// When SQLite syncs.
    pub synchronous: Synchronous,
    /// Opens although acknowledged work may be lost, or the file damaged: with `synchronous` below `Full`, with a
    /// SQLite older than 3.51.3, on a network file system (SQ-2).
    pub allow_unsafe: bool,
    /// The clock of store time. Absent, it is the host's, which all processes share. With a clock of its own a process
    /// has the file for itself (PR-3).
    pub clock: Option<Arc<dyn Clock>>,
    /// Where generated ids come from.
    pub ids: Arc<dyn IdSource>,
    /// Limits, none above the defaults.
    pub limits: Limits,
    /// How long a read may hold a snapshot (SQ-5).
    pub(crate) read_time: Duration,
}

impl SqliteConfig {
    /// The mailbox in this file, made if it is missing, synced before anything is acknowledged.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            create: Create::Missing,
            synchronous: Synchronous::Full,
            allow_unsafe: false,
            clock: None,
            ids: Arc::new(Uuids),
            limits: Limits::default(),
            read_time: Duration::from_secs(5),
        }
    }

    /// The same, asking `clock` for the time: one process has the file then.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The same with these limits; none goes above that of the contract.
    #[must_use]
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        self.limits = limits.at_most(&Limits::default());
        self
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
