//! Queries of a mailbox: lists and counts, and which dispatches to purge or requeue.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Dispatch, DispatchStatus};
use crate::{
    codec::{Extra, record},
    error::{Error, Result},
    id::{DedupeKey, DispatchId, RunId, ThreadId, WorkerId},
    log::Direction,
    page::{PageRequest, encode_query_parts},
    time::Timestamp,
};

/// A filter for dispatches. A dispatch must match every field that is set (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DispatchFilter {
    /// Dispatches of this thread.
    pub thread: Option<ThreadId>,
    /// Dispatches for this run.
    pub run: Option<RunId>,
    /// Dispatches with one of these statuses.
    pub statuses: Option<Vec<DispatchStatus>>,
    /// Dispatches that this worker holds now.
    pub worker: Option<WorkerId>,
    /// Dispatches of this epoch of their thread.
    pub epoch: Option<u64>,
    /// Dispatches with this dedupe key.
    pub dedupe_key: Option<DedupeKey>,
}

/// Names a list of dispatches that a store keeps in order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchListKey<'a> {
    /// All dispatches of the tenant.
    All,
    /// The dispatches of a thread.
    Thread(&'a ThreadId),
    /// The dispatches that are stored with a status. Those that an interrupt superseded while they were queued are
    /// stored as queued.
    Status(DispatchStatus),
}

impl DispatchFilter {
    /// Makes a filter for the dispatches of a thread.
    #[must_use]
    pub fn of_thread(thread: ThreadId) -> Self {
        Self { thread: Some(thread), ..Self::default() }
    }

    /// Sets the statuses.
    #[must_use]
    pub fn in_status(mut self, statuses: impl IntoIterator<Item = DispatchStatus>) -> Self {
        self.statuses = Some(statuses.into_iter().collect());
        self
    }

    /// Returns whether a dispatch passes the filter.
    #[must_use]
    pub fn admits(&self, dispatch: &Dispatch) -> bool {
        let worker = dispatch.claim.as_ref().map(|claim| &claim.worker);
        self.thread.as_ref().is_none_or(|thread| *thread == dispatch.thread)
            && self.run.as_ref().is_none_or(|run| *run == dispatch.run)
            && self.statuses.as_ref().is_none_or(|statuses| statuses.contains(&dispatch.status))
            && (self.worker.is_none() || self.worker.as_ref() == worker)
            && self.epoch.is_none_or(|epoch| epoch == dispatch.epoch)
            && (self.dedupe_key.is_none() || self.dedupe_key == dispatch.dedupe_key)
    }

    /// Returns the keys of lists that together contain every dispatch matching the filter: the list of the thread, else
    /// the lists of the statuses, else the list of all dispatches. Each dispatch is in exactly one of these lists.
    #[must_use]
    pub fn list_keys(&self) -> Vec<DispatchListKey<'_>> {
        match (&self.thread, &self.statuses) {
            (Some(thread), _) => vec![DispatchListKey::Thread(thread)],
            (None, None) => vec![DispatchListKey::All],
            (None, Some(statuses)) => {
                let mut stored_statuses: BTreeSet<_> = statuses.iter().copied().collect();
                if stored_statuses.contains(&DispatchStatus::Superseded) {
                    stored_statuses.insert(DispatchStatus::Queued);
                }
                stored_statuses.into_iter().map(DispatchListKey::Status).collect()
            }
        }
    }

    fn encode_filter(&self) -> String {
        let statuses = self.statuses.as_ref().map(|statuses| {
            let names: BTreeSet<_> = statuses.iter().map(|status| status.name()).collect();
            names.into_iter().collect::<Vec<_>>().join(" ")
        });
        encode_query_parts(&[
            ("thread", self.thread.as_ref().map(ToString::to_string)),
            ("run", self.run.as_ref().map(ToString::to_string)),
            ("statuses", statuses),
            ("worker", self.worker.as_ref().map(ToString::to_string)),
            ("epoch", self.epoch.map(|epoch| epoch.to_string())),
            ("dedupe_key", self.dedupe_key.as_ref().map(ToString::to_string)),
        ])
    }
}

/// The order of a list of dispatches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DispatchOrder {
    /// By the time of the enqueue; ids break ties.
    #[default]
    Creation,
    /// Finished dispatches, by the time of their end; ids break ties.
    End,
    /// The queued dispatches of one thread, in the order in which they would be claimed if all were available.
    Claim,
}

/// A query for a list of dispatches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DispatchQuery {
    /// Which dispatches to list.
    pub filter: DispatchFilter,
    /// The order of the list.
    pub order: DispatchOrder,
    /// The direction of the list.
    pub direction: Direction,
    /// Which page to return.
    pub page: PageRequest,
}

impl DispatchQuery {
    /// Makes a query for the dispatches that pass `filter`, in order of creation.
    #[must_use]
    pub fn new(filter: DispatchFilter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Sets the order and the direction.
    #[must_use]
    pub const fn ordered(mut self, order: DispatchOrder, direction: Direction) -> Self {
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

    /// Returns everything but the page as text. A cursor of the list is bound to this text (PG-6).
    #[must_use]
    pub fn cursor_binding(&self) -> String {
        format!("{:?} {:?} {}", self.order, self.direction, self.filter.encode_filter())
    }

    /// Refuses a query that no store can answer.
    ///
    /// # Errors
    /// `Invalid` for the order of claims without a thread.
    pub fn check(&self) -> Result<()> {
        if self.order == DispatchOrder::Claim && self.filter.thread.is_none() {
            return Err(Error::invalid("order", "the order of claims needs a thread in the filter"));
        }
        Ok(())
    }
}

/// The number of dispatches in each status.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DispatchCounts {
    /// The number of queued dispatches.
    pub queued: u64,
    /// The number of claimed dispatches.
    pub claimed: u64,
    /// The number of acknowledged dispatches.
    pub acked: u64,
    /// The number of cancelled dispatches.
    pub cancelled: u64,
    /// The number of superseded dispatches.
    pub superseded: u64,
    /// The number of dead letters.
    pub dead_letter: u64,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(DispatchCounts { queued: def, claimed: def, acked: def, cancelled: def, superseded: def, dead_letter: def });

impl DispatchCounts {
    /// Returns the number of dispatches in this status.
    #[must_use]
    pub const fn of(&self, status: DispatchStatus) -> u64 {
        match status {
            DispatchStatus::Queued => self.queued,
            DispatchStatus::Claimed => self.claimed,
            DispatchStatus::Acked => self.acked,
            DispatchStatus::Cancelled => self.cancelled,
            DispatchStatus::Superseded => self.superseded,
            DispatchStatus::DeadLetter => self.dead_letter,
        }
    }

    /// Returns a mutable reference to the number of dispatches in this status. Only implementations of a store need
    /// this.
    pub const fn of_mut(&mut self, status: DispatchStatus) -> &mut u64 {
        match status {
            DispatchStatus::Queued => &mut self.queued,
            DispatchStatus::Claimed => &mut self.claimed,
            DispatchStatus::Acked => &mut self.acked,
            DispatchStatus::Cancelled => &mut self.cancelled,
            DispatchStatus::Superseded => &mut self.superseded,
            DispatchStatus::DeadLetter => &mut self.dead_letter,
        }
    }

    /// Returns the number of all dispatches.
    #[must_use]
    pub fn total(&self) -> u64 {
        DispatchStatus::ALL.iter().map(|status| self.of(*status)).sum()
    }

    /// Adds the counts of `other`.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for status in DispatchStatus::ALL {
            *self.of_mut(*status) += other.of(*status);
        }
        self
    }
}

/// A thread from which a claim would get a dispatch now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReadyThread {
    /// The thread.
    pub thread: ThreadId,
    /// The dispatch that a claim would get.
    pub next: DispatchId,
    /// The priority of the dispatch.
    pub priority: u8,
}

impl ReadyThread {
    /// Creates an item of the list of ready threads. Only implementations of a store need this.
    #[must_use]
    pub const fn new(thread: ThreadId, next: DispatchId, priority: u8) -> Self {
        Self { thread, next, priority }
    }
}

/// A request to remove finished dispatches.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purge {
    /// Removes dispatches that ended before this time.
    pub before: Timestamp,
    /// If there are any, only these dispatches are removed, at most 1,000 of them. A dry run cannot name any.
    pub ids: Vec<DispatchId>,
    /// The maximum number of dispatches to remove, 1 to 1,000.
    pub limit: u32,
    /// Whether to return only the number, without removing anything.
    pub dry_run: bool,
}

impl Purge {
    /// Makes a request for dispatches that ended before `before`, up to 1,000.
    #[must_use]
    pub const fn new(before: Timestamp) -> Self {
        Self { before, ids: Vec::new(), limit: 1_000, dry_run: false }
    }

    /// Makes a request for these dispatches, whenever they ended. Those that have not ended stay.
    #[must_use]
    pub fn of(ids: Vec<DispatchId>) -> Self {
        Self { ids, ..Self::new(Timestamp::MAX) }
    }
}

/// The answer to a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Purged {
    /// The number of dispatches that were removed, or that a dry run would have removed.
    pub removed: u64,
}

impl Purged {
    /// Creates the result of a purge. Only implementations of a store need this.
    #[must_use]
    pub const fn new(removed: u64) -> Self {
        Self { removed }
    }
}

/// Which dead letters to requeue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequeueChoice {
    /// The dead letters with these ids.
    Ids(Vec<DispatchId>),
    /// The oldest dead letters that pass a filter.
    Filter {
        /// The filter. Its statuses are ignored.
        filter: Box<DispatchFilter>,
        /// The maximum number of dead letters, 1 to 1,000.
        limit: u32,
    },
}

/// A request to put dead letters back into the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requeue {
    /// Which dead letters to requeue.
    pub choice: RequeueChoice,
}

impl Requeue {
    /// Makes a request for the dead letters with these ids.
    #[must_use]
    pub fn ids(ids: impl IntoIterator<Item = DispatchId>) -> Self {
        Self { choice: RequeueChoice::Ids(ids.into_iter().collect()) }
    }

    /// Makes a request for the oldest dead letters that pass `filter`, up to `limit`.
    #[must_use]
    pub fn matching(filter: DispatchFilter, limit: u32) -> Self {
        Self { choice: RequeueChoice::Filter { filter: Box::new(filter), limit } }
    }
}
