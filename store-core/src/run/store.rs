//! The contract for reading runs.

use async_trait::async_trait;

use super::{Run, RunFilter, RunQuery};
use crate::{error::Result, id::RunId, page::Page};

/// Reads runs.
///
/// Only [`CommitCoordinator::commit`](crate::CommitCoordinator::commit) writes them (RU-1).
#[async_trait]
pub trait RunReader: Send + Sync {
    /// Loads a run.
    ///
    /// Returns none for an unknown id, and for a run whose thread was deleted (RU-1, RU-14).
    ///
    /// # Errors
    /// `Corrupt` if the bytes of the run are damaged.
    async fn load_run(&self, id: &RunId) -> Result<Option<Run>>;

    /// Lists runs by creation, page by page (RU-10).
    ///
    /// # Errors
    /// `Invalid` for an invalid limit; `InvalidCursor` for a cursor of another query.
    async fn list_runs(&self, query: RunQuery) -> Result<Page<Run>>;

    /// Counts runs exactly (RU-17).
    ///
    /// # Errors
    /// Any error of the read.
    async fn count_runs(&self, filter: &RunFilter) -> Result<u64>;
}
