//! The settings with which a mailbox is opened.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use store_core::{Clock, IdSource, Limits, UuidSource};

/// What happens if the file does not exist when a mailbox is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Create {
    /// The file is created.
    #[default]
    Missing,
    /// Opening fails.
    Never,
}

/// When SQLite syncs its writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Synchronous {
    /// Before a commit is acknowledged. The commit survives a loss of power.
    #[default]
    Full,
    /// From time to time. A loss of power loses the last commits. Opening refuses this setting unless
    /// [`SqliteConfig::allow_unsafe`] is set (SQ-2).
    Normal,
}

/// The settings with which a mailbox is opened.
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
    /// The database file. There are other files beside it: see [`SqliteMailbox`](crate::SqliteMailbox).
    pub(crate) path: PathBuf,
    /// Whether a missing file is created.
    pub create: Create,
    /// When SQLite syncs its writes.
    pub synchronous: Synchronous,
    /// Opens the mailbox even if acknowledged work may be lost or the file may be damaged. That can happen with
    /// `Synchronous::Normal`, with a version of SQLite before 3.51.3, and on a network file system (SQ-2).
    pub allow_unsafe: bool,
    /// The clock that gives store time. Without one, the mailbox uses the host's clock, which all processes share. A
    /// process that sets a clock has exclusive use of the file (PR-3).
    pub clock: Option<Arc<dyn Clock>>,
    /// The source of generated ids.
    pub ids: Arc<dyn IdSource>,
    /// The limits of the mailbox. Opening lowers a limit that is above its default.
    pub limits: Limits,
    /// The longest time for which a read may hold a snapshot (SQ-5).
    pub(crate) max_read_time: Duration,
}

impl SqliteConfig {
    /// Returns the settings for a mailbox in this file. A missing file is created, and SQLite syncs before each
    /// acknowledgement.
    #[must_use]
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            create: Create::Missing,
            synchronous: Synchronous::Full,
            allow_unsafe: false,
            clock: None,
            ids: Arc::new(UuidSource),
            limits: Limits::default(),
            max_read_time: Duration::from_secs(5),
        }
    }

    /// Returns the settings with `clock` as store time. Only one process can then use the file.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Returns the settings with these limits. A limit above its default is lowered to the default.
    #[must_use]
    pub fn with_limits(mut self, limits: &Limits) -> Self {
        self.limits = limits.at_most(&Limits::default());
        self
    }

    /// Returns the path of the database file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
