//! The contract for reading runs.

use async_trait::async_trait;

use super::{Run, RunFilter, RunQuery};
use crate::{error::Result, id::RunId, page::Page};

/// Reads runs. They are written by [`CommitCoordinator::commit`](crate::CommitCoordinator::commit) only (RU-1).
#[async_trait]
pub trait RunReader: Send + Sync {
    /// Loads a run; none for an unknown id, or if its thread was deleted (RU-1, RU-14).
    ///
    /// # Errors
    /// `Corrupt` if its bytes are damaged.
    async fn load_run(&self, id: &RunId) -> Result<Option<Run>>;

    /// Lists runs by creation, in pages (RU-10).
    ///
    /// # Errors
    /// `Invalid` for a bad limit; `InvalidCursor` for a cursor of another query.
    async fn list_runs(&self, query: RunQuery) -> Result<Page<Run>>;

    /// Counts runs exactly (RU-17).
    ///
    /// # Errors
    /// Those of reading.
    async fn count_runs(&self, filter: &RunFilter) -> Result<u64>;
}
