//! What only a backend can do that keeps logs in files.

use std::{path::PathBuf, time::Duration};

use async_trait::async_trait;
use store_core::{Progress, Result, TenantId, ThreadId};

/// Access to the logs of a backend that keeps them in readable files.
#[async_trait]
pub trait LogFiles: Send + Sync {
    /// Returns the file that contains the log of a thread. Returns none for an unknown thread.
    ///
    /// # Errors
    /// Any error of the lookup.
    fn log_file(&self, tenant: &TenantId, thread: &ThreadId) -> Result<Option<PathBuf>>;

    /// Compresses the logs of threads that were not written for a while (FI-14). Other calls go on meanwhile. If the
    /// progress stops it, or the call is dropped, it ends after the current log.
    ///
    /// # Errors
    /// `StorageFull` if there is no space for a compressed log beside the other one. The logs that were compressed
    /// before stay compressed, and no log is lost.
    async fn compress_logs(
        &self,
        tenant: &TenantId,
        request: CompressLogs,
        progress: &dyn Progress,
    ) -> Result<CompressedLogs>;
}

/// Which logs [`LogFiles::compress_logs`] compresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressLogs {
    /// The time since the last write of a thread, by the clock of the store.
    pub idle: Duration,
    /// If true, nothing is changed, and the logs are only counted.
    pub dry_run: bool,
}

impl CompressLogs {
    /// Compresses the logs of threads that were not written for this time.
    #[must_use]
    pub const fn new(idle: Duration) -> Self {
        Self { idle, dry_run: false }
    }

    /// Only counts the logs, and changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// What [`LogFiles::compress_logs`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CompressedLogs {
    /// The logs that were compressed; in a dry run, those that would be.
    pub logs: u64,
    /// The size of their files before, in bytes.
    pub bytes_before: u64,
    /// The size of their files now, in bytes; 0 in a dry run.
    pub bytes_after: u64,
    /// Damaged logs. They are not changed.
    pub damaged: u64,
    /// Whether the progress stopped the call before the last log.
    pub stopped: bool,
}
