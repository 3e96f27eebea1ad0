//! Queries of runs.

use std::collections::BTreeSet;

use super::RunPhase;
use crate::{
    id::{AgentId, RunId, ThreadId},
    log::Direction,
    page::PageRequest,
    time::Timestamp,
};

/// A filter for runs.
///
/// A run must match every field that is set (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunFilter {
    /// Only runs of this thread.
    pub thread: Option<ThreadId>,
    /// Only runs in one of these statuses.
    pub statuses: Option<Vec<RunPhase>>,
    /// Only runs of this agent.
    pub agent: Option<AgentId>,
    /// Only runs that this run started.
    pub parent_run: Option<RunId>,
    /// Only runs created before this time.
    pub created_before: Option<Timestamp>,
    /// Only runs created at or after this time.
    pub created_after: Option<Timestamp>,
}

/// Names a list of runs that a store maintains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunListKey<'a> {
    /// All runs of the tenant.
    All,
    /// The runs of a thread.
    Thread(&'a ThreadId),
    /// The runs that a run started.
    Parent(&'a RunId),
    /// The runs in a status.
    Status(RunPhase),
}

impl RunFilter {
    /// Returns the keys of lists that together contain every run matching the filter: the list of the thread, else that
    /// of the parent run, else those of the statuses, else the list of all runs (PR-15).
    ///
    /// Each of these runs is in exactly one of the lists.
    #[must_use]
    pub fn list_keys(&self) -> Vec<RunListKey<'_>> {
        match (&self.thread, &self.parent_run, &self.statuses) {
            (Some(thread), ..) => vec![RunListKey::Thread(thread)],
            (None, Some(run), _) => vec![RunListKey::Parent(run)],
            (None, None, Some(statuses)) => {
                let statuses: BTreeSet<_> = statuses.iter().copied().collect();
                statuses.into_iter().map(RunListKey::Status).collect()
            }
            (None, None, None) => vec![RunListKey::All],
        }
    }
}

/// A query for a list of runs, ordered by creation.
///
/// Runs with equal times are ordered by id (RU-10).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RunQuery {
    /// Which runs to list.
    pub filter: RunFilter,
    /// The direction: oldest first, or newest first.
    pub direction: Direction,
    /// The page.
    pub page: PageRequest,
}

impl RunQuery {
    /// Creates a query for the runs that pass `filter`, oldest first.
    #[must_use]
    pub fn new(filter: RunFilter) -> Self {
        Self { filter, ..Self::default() }
    }
}
