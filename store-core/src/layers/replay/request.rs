//! Requests to the replay log, and their results.

use serde::Serialize;

use super::record::{NewReplay, ReplayRecord, ReplayStreamRef};
use crate::{
    claim::Fence,
    id::ThreadId,
    log::Direction,
    page::{Cursor, PageRequest},
};

/// An append to a replay stream: all records are appended, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendReplay {
    /// The stream.
    pub stream: ReplayStreamRef,
    /// The records, in order. No wire id may be named twice.
    pub records: Vec<NewReplay>,
    /// The thread that the records are about. If it does not exist, the append is refused (TH-32).
    pub thread: Option<ThreadId>,
    /// The claim of that thread under which the records are appended (CM-44).
    pub fence: Option<Fence>,
}

impl AppendReplay {
    /// Requests an append that names no thread.
    #[must_use]
    pub fn new(stream: ReplayStreamRef, records: impl IntoIterator<Item = NewReplay>) -> Self {
        Self { stream, records: records.into_iter().collect(), thread: None, fence: None }
    }

    /// Sets the thread that the records are about.
    #[must_use]
    pub fn about(mut self, thread: ThreadId) -> Self {
        self.thread = Some(thread);
        self
    }

    /// Sets the thread that the records are about, and the claim of that thread under which they are appended.
    #[must_use]
    pub fn fenced(mut self, thread: ThreadId, fence: Fence) -> Self {
        (self.thread, self.fence) = (Some(thread), Some(fence));
        self
    }
}

/// The result of an append to a replay stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendedReplay {
    /// The records, in the order given. One that repeats an earlier record is that record.
    pub records: Vec<ReplayRecord>,
    /// Whether all of them repeat earlier records, so that nothing was written.
    pub deduplicated: bool,
}

/// A query for the records of a replay stream. Those that have expired are left out (RP-5).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayQuery {
    /// The stream.
    pub stream: ReplayStreamRef,
    /// First record first, or last record first.
    pub direction: Direction,
    /// Which page to return. The cursor of any record of the stream can continue the list.
    pub page: PageRequest,
}

impl ReplayQuery {
    /// Makes a query for all records of a stream, first record first.
    #[must_use]
    pub fn new(stream: ReplayStreamRef) -> Self {
        Self { stream, direction: Direction::Forward, page: PageRequest::default() }
    }

    /// Continues after the record that a cursor belongs to.
    #[must_use]
    pub fn after(mut self, cursor: Cursor) -> Self {
        self.page.cursor = Some(cursor);
        self
    }

    /// Sets the direction.
    #[must_use]
    pub const fn with_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// Sets the page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }
}

/// A request to remove the records that have expired (RP-5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PurgeReplay {
    /// Whether to report the number of records without removing them.
    pub dry_run: bool,
}

impl PurgeReplay {
    /// Requests the removal of all records that have expired.
    #[must_use]
    pub const fn new() -> Self {
        Self { dry_run: false }
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// The result of a purge of a replay log, or of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PurgedReplay {
    /// The number of records that were removed, or would be.
    pub records: u64,
    /// Whether the purge was stopped before its end.
    pub stopped: bool,
}
