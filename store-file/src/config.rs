//! How a store is opened.

use std::sync::Arc;

use store_core::{Clock, IdSource, IgnoreProgress, Limits, Progress, SystemClock, UuidSource};

pub use crate::journal::Durability;
use crate::{files::DEFAULT_OPEN_FILES, journal::DEFAULT_BYTES, pool::DEFAULT_THREADS};

/// What happens to a root that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Create {
    /// It is made (FI-15).
    #[default]
    Missing,
    /// The opening is refused.
    Never,
}

/// How a store is opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FileConfig {
    /// When what was acknowledged is durable.
    pub durability: Durability,
    /// What happens to a root that does not exist.
    pub create: Create,
    /// Open the root for reading, also beside a process that has it open for writing. Nothing is written. If no process
    /// has it open for writing, the opening takes the lock until it has read the journal and the index (FI-15).
    pub read_only: bool,
    /// The clock of store time.
    pub clock: Arc<dyn Clock>,
    /// Where generated ids come from.
    pub ids: Arc<dyn IdSource>,
    /// Limits, none above the defaults.
    pub limits: Limits,
    /// Hears how many logs the opening has read, of how many, while it makes the index anew or reads what an unclean
    /// close left (FI-10). If it stops, the opening is refused with `Unavailable`; the next one begins again.
    pub progress: Arc<dyn Progress>,
    /// How many logs stay open, 256 unless given. Beside them stay open up to 64 files of the index, and the logs that
    /// calls are working with, whatever the number of threads (FI-13). A log that is compressed in part has two files.
    pub open_files: usize,
    /// How large the journal becomes, 64 MiB unless given. What it holds is written to the logs again after a crash.
    pub journal_bytes: u64,
    /// Open a root although its journal is lost or damaged: what the journal had and the logs have not is lost. The
    /// opening says so, and is a new incarnation.
    pub accept_lost_journal: bool,
    /// How many threads work at most.
    pub threads: usize,
}

impl Default for FileConfig {
    fn default() -> Self {
        Self {
            durability: Durability::Sync,
            create: Create::Missing,
            read_only: false,
            clock: Arc::new(SystemClock),
            ids: Arc::new(UuidSource),
            limits: Limits::default(),
            progress: Arc::new(IgnoreProgress),
            open_files: DEFAULT_OPEN_FILES,
            journal_bytes: DEFAULT_BYTES,
            accept_lost_journal: false,
            threads: DEFAULT_THREADS,
        }
    }
}

impl FileConfig {
    /// This configuration with another durability.
    #[must_use]
    pub const fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// This configuration for a root that has to exist, or that may be made.
    #[must_use]
    pub const fn with_create(mut self, create: Create) -> Self {
        self.create = create;
        self
    }

    /// This configuration with a journal of this size.
    #[must_use]
    pub const fn with_journal_bytes(mut self, bytes: u64) -> Self {
        self.journal_bytes = bytes;
        self
    }

    /// This configuration for a root whose journal may be lost.
    #[must_use]
    pub const fn accepting_a_lost_journal(mut self) -> Self {
        self.accept_lost_journal = true;
        self
    }

    /// This configuration for reading, also beside a holder.
    #[must_use]
    pub const fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// This configuration with another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// This configuration with a receiver of the progress of the opening.
    #[must_use]
    pub fn with_progress(mut self, progress: Arc<dyn Progress>) -> Self {
        self.progress = progress;
        self
    }

    /// This configuration with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}
