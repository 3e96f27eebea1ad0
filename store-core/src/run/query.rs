//! What can be asked of runs.

use std::collections::BTreeSet;

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

/// A list of runs that a store keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunScope<'a> {
    /// All of the tenant.
    All,
    /// Those of a thread.
    Thread(&'a ThreadId),
    /// Those that a run started.
    Parent(&'a RunId),
    /// Those in a status.
    Status(RunPhase),
}

impl RunFilter {
    /// The shortest lists that together hold every run that the filter lets through, each in one of them (PR-15).
    #[must_use]
    pub fn scopes(&self) -> Vec<RunScope<'_>> {
        match (&self.thread, &self.parent_run, &self.statuses) {
            (Some(thread), ..) => vec![RunScope::Thread(thread)],
            (None, Some(run), _) => vec![RunScope::Parent(run)],
            (None, None, Some(statuses)) => {
                let statuses: BTreeSet<_> = statuses.iter().copied().collect();
                statuses.into_iter().map(RunScope::Status).collect()
            }
            (None, None, None) => vec![RunScope::All],
        }
    }
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
