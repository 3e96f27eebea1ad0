//! What can be asked of threads, and how they are deleted.

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

/// Which threads are wanted. Everything that is set must hold (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ThreadFilter {
    /// Threads of this resource.
    pub resource_id: Option<ResourceId>,
    /// Threads without a parent, or direct children of one (TH-13).
    pub parent: Option<ParentFilter>,
    /// Threads with, or without, runs that are not done.
    pub has_open_runs: Option<bool>,
    /// Made before this time.
    pub created_before: Option<Timestamp>,
    /// Made at or after this time.
    pub created_after: Option<Timestamp>,
    /// Written last before this time.
    pub active_before: Option<Timestamp>,
    /// Written last at or after this time.
    pub active_after: Option<Timestamp>,
    /// Metadata keys with these values, byte for byte.
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

/// A list of threads that a store keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadScope<'a> {
    /// All of the tenant.
    All,
    /// Those without a parent.
    Roots,
    /// The direct children of a thread.
    Of(&'a ThreadId),
    /// Those of a resource.
    Resource(&'a ResourceId),
}

impl<'a> ThreadScope<'a> {
    /// The lists that a thread stands in.
    pub fn of(thread: &'a Thread) -> impl Iterator<Item = Self> {
        let parent = thread.parent_thread_id.as_ref().map_or(Self::Roots, Self::Of);
        [Self::All, parent].into_iter().chain(thread.resource_id.as_ref().map(Self::Resource))
    }
}

impl ThreadFilter {
    /// The shortest list that holds every thread that the filter lets through (PR-15).
    #[must_use]
    pub fn scope(&self) -> ThreadScope<'_> {
        match (&self.parent, &self.resource_id) {
            (Some(ParentFilter::Of(parent)), _) => ThreadScope::Of(parent),
            (_, Some(resource)) => ThreadScope::Resource(resource),
            (Some(ParentFilter::Root), None) => ThreadScope::Roots,
            (None, None) => ThreadScope::All,
        }
    }
}

/// By what threads are ordered; ids break ties, byte by byte (PG-8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ThreadOrder {
    /// By `updated_at`.
    #[default]
    LastActivity,
    /// By `created_at`.
    Creation,
}

/// A list of threads.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadQuery {
    /// Which ones.
    pub filter: ThreadFilter,
    /// By what.
    pub order: ThreadOrder,
    /// In which direction; backward (the newest first) unless set.
    pub direction: Direction,
    /// Which page.
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
    /// Threads that `filter` lets through, the last active first.
    #[must_use]
    pub fn new(filter: ThreadFilter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// The same query in this order.
    #[must_use]
    pub const fn ordered(mut self, order: ThreadOrder, direction: Direction) -> Self {
        self.order = order;
        self.direction = direction;
        self
    }

    /// The same query for this page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }
}

/// What happens to the children of a deleted thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ChildStrategy {
    /// They stay, without a parent (TH-18).
    #[default]
    Detach,
    /// They are deleted too, with all their descendants (TH-19).
    Cascade,
    /// The deletion is refused if there are any (TH-17).
    Reject,
}

/// How to delete a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeleteRequest {
    /// What happens to children.
    pub children: ChildStrategy,
    /// What the version must be; `Absent` never holds.
    pub expect: Expect,
}

/// What a deletion did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Deletion {
    /// The threads that are gone.
    pub deleted: Vec<ThreadId>,
    /// The threads that lost their parent.
    pub detached: Vec<ThreadId>,
}

impl Deletion {
    /// For stores.
    #[must_use]
    pub const fn new(deleted: Vec<ThreadId>, detached: Vec<ThreadId>) -> Self {
        Self { deleted, detached }
    }
}

/// How to prune threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneRequest {
    /// Threads without a write for this long.
    pub idle: Duration,
    /// How many at most, 1 to 1,000.
    pub limit: u32,
    /// Give the list and change nothing.
    pub dry_run: bool,
}

/// What pruning did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Pruned {
    /// The threads that are gone, or would be.
    pub threads: Vec<ThreadId>,
    /// Whether more remain.
    pub more: bool,
}

impl Pruned {
    /// For stores.
    #[must_use]
    pub const fn new(threads: Vec<ThreadId>, more: bool) -> Self {
        Self { threads, more }
    }
}
