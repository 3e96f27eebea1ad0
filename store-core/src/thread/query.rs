//! Queries of threads, and requests to delete them.

use std::time::Duration;

use serde::Serialize;

use super::Thread;
use crate::{
    id::{ResourceId, ThreadId},
    json::Json,
    log::Direction,
    page::PageRequest,
    time::Timestamp,
    version::Expect,
};

/// A filter for threads.
///
/// A thread must match every field that is set (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ThreadFilter {
    /// Only threads of this resource.
    pub resource_id: Option<ResourceId>,
    /// Only threads without a parent, or only direct children of one thread (TH-13).
    pub parent: Option<ParentFilter>,
    /// Only threads with runs that are not done (`true`), or only threads without such runs (`false`).
    pub has_open_runs: Option<bool>,
    /// Only threads created before this time.
    pub created_before: Option<Timestamp>,
    /// Only threads created at or after this time.
    pub created_after: Option<Timestamp>,
    /// Only threads whose last activity was before this time.
    pub active_before: Option<Timestamp>,
    /// Only threads whose last activity was at or after this time.
    pub active_after: Option<Timestamp>,
    /// Only threads whose metadata has these keys with these values, equal byte for byte.
    pub metadata: Vec<(String, Json)>,
}

/// A filter by parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParentFilter {
    /// Threads without a parent.
    Root,
    /// Direct children of this thread.
    Of(ThreadId),
}

/// Names a list of threads that a store maintains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadListKey<'a> {
    /// All threads of the tenant.
    All,
    /// The threads without a parent.
    Roots,
    /// The direct children of a thread.
    Of(&'a ThreadId),
    /// The threads of a resource.
    Resource(&'a ResourceId),
}

impl<'a> ThreadListKey<'a> {
    /// Returns the keys of the lists that contain a thread.
    pub fn of(thread: &'a Thread) -> impl Iterator<Item = Self> {
        let parent = thread.parent_thread_id.as_ref().map_or(Self::Roots, Self::Of);
        [Self::All, parent].into_iter().chain(thread.resource_id.as_ref().map(Self::Resource))
    }
}

impl ThreadFilter {
    /// Returns the key of a list that contains every thread matching the filter: the children of the parent, else the
    /// threads of the resource, else the roots, else all threads (PR-15).
    #[must_use]
    pub fn list_key(&self) -> ThreadListKey<'_> {
        match (&self.parent, &self.resource_id) {
            (Some(ParentFilter::Of(parent)), _) => ThreadListKey::Of(parent),
            (_, Some(resource)) => ThreadListKey::Resource(resource),
            (Some(ParentFilter::Root), None) => ThreadListKey::Roots,
            (None, None) => ThreadListKey::All,
        }
    }
}

/// The order of a list of threads.
///
/// Threads with equal times are ordered by their ids, byte by byte (PG-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ThreadOrder {
    /// By `updated_at`.
    #[default]
    LastActivity,
    /// By `created_at`.
    Creation,
}

/// A query for a list of threads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadQuery {
    /// Which threads to list.
    pub filter: ThreadFilter,
    /// The order.
    pub order: ThreadOrder,
    /// The direction. The default is backward (newest first).
    pub direction: Direction,
    /// The page.
    pub page: PageRequest,
}

impl Default for ThreadQuery {
    fn default() -> Self {
        Self {
            filter: ThreadFilter::default(),
            order: ThreadOrder::LastActivity,
            direction: Direction::Backward,
            page: PageRequest::default(),
        }
    }
}

impl ThreadQuery {
    /// Creates a query for the threads that pass `filter`, the most recently active first.
    #[must_use]
    pub fn new(filter: ThreadFilter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Sets the order and the direction.
    #[must_use]
    pub const fn ordered(mut self, order: ThreadOrder, direction: Direction) -> Self {
        self.order = order;
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

/// What happens to the children of a deleted thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ChildStrategy {
    /// They stay and lose their parent (TH-18).
    #[default]
    Detach,
    /// They are deleted too, with all their descendants (TH-19).
    Cascade,
    /// The deletion is refused if there are children (TH-17).
    Reject,
}

/// A request to delete a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeleteRequest {
    /// What happens to the children.
    pub children: ChildStrategy,
    /// The version that the thread must have. `Absent` never holds.
    pub expect: Expect,
}

/// The result of a deletion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Deletion {
    /// The threads that were deleted.
    pub deleted: Vec<ThreadId>,
    /// The threads that lost their parent.
    pub detached: Vec<ThreadId>,
}

impl Deletion {
    /// Creates the result of a deletion. For backends.
    #[must_use]
    pub const fn new(deleted: Vec<ThreadId>, detached: Vec<ThreadId>) -> Self {
        Self { deleted, detached }
    }
}

/// A request to prune threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneRequest {
    /// The time that must have passed since the last write to a thread.
    pub idle: Duration,
    /// The maximum number of threads, from 1 to 1,000.
    pub limit: u32,
    /// Whether to return the list and change nothing.
    pub dry_run: bool,
}

/// The result of a prune, or of a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pruned {
    /// The threads that were deleted, or would be.
    pub threads: Vec<ThreadId>,
    /// Whether more threads remain to be pruned.
    pub more: bool,
}

impl Pruned {
    /// Creates the result of a prune. For backends.
    #[must_use]
    pub const fn new(threads: Vec<ThreadId>, more: bool) -> Self {
        Self { threads, more }
    }
}
