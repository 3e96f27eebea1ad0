//! What can be asked of runs.

use super::RunPhase;
use crate::{
    id::{AgentId, RunId, ThreadId},
    log::Direction,
    page::PageRequest,
    time::Timestamp,
};

/// Which runs are wanted. Everything that is set must hold (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunFilter {
    /// Runs of this thread.
    pub thread: Option<ThreadId>,
    /// Runs in one of these statuses.
    pub statuses: Option<Vec<RunPhase>>,
    /// Runs of this agent.
    pub agent: Option<AgentId>,
    /// Runs that this run started.
    pub parent_run: Option<RunId>,
    /// Made before this time.
    pub created_before: Option<Timestamp>,
    /// Made at or after this time.
    pub created_after: Option<Timestamp>,
}

/// A list of runs by creation; ids break ties (RU-10).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunQuery {
    /// Which ones.
    pub filter: RunFilter,
    /// The oldest first, or the newest.
    pub direction: Direction,
    /// Which page.
    pub page: PageRequest,
}

impl RunQuery {
    /// Runs that `filter` lets through, the oldest first.
    #[must_use]
    pub fn new(filter: RunFilter) -> Self {
        Self { filter, ..Self::default() }
    }
}
