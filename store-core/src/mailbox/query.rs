//! What can be asked of a mailbox: lists, counts, and what is to be purged or requeued.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Dispatch, DispatchStatus};
use crate::{
    codec::{Extra, record},
    error::{Error, Result},
    id::{DedupeKey, DispatchId, RunId, ThreadId, WorkerId},
    log::Direction,
    page::{PageRequest, binding},
    time::Timestamp,
};

/// Which dispatches are wanted. Everything that is set must hold (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DispatchFilter {
    /// Of this thread.
    pub thread: Option<ThreadId>,
    /// For this run.
    pub run: Option<RunId>,
    /// In one of these statuses.
    pub statuses: Option<Vec<DispatchStatus>>,
    /// Claimed by this worker now.
    pub worker: Option<WorkerId>,
    /// Of this epoch of their thread.
    pub epoch: Option<u64>,
    /// Under this key.
    pub dedupe_key: Option<DedupeKey>,
}

/// A list of dispatches that a store keeps by creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchScope<'a> {
    /// All of the tenant.
    All,
    /// Those of a thread.
    Thread(&'a ThreadId),
    /// Those that were written with a status; what an interrupt superseded was written as queued.
    Status(DispatchStatus),
}

impl DispatchFilter {
    /// Those of a thread.
    #[must_use]
    pub fn of_thread(thread: ThreadId) -> Self {
        Self { thread: Some(thread), ..Self::default() }
    }

    /// The same in one of these statuses.
    #[must_use]
    pub fn in_status(mut self, statuses: impl IntoIterator<Item = DispatchStatus>) -> Self {
        self.statuses = Some(statuses.into_iter().collect());
        self
    }

    /// Whether it lets a dispatch through.
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

    /// The shortest lists that together hold every dispatch that the filter lets through, each in one of them.
    #[must_use]
    pub fn scopes(&self) -> Vec<DispatchScope<'_>> {
        match (&self.thread, &self.statuses) {
            (Some(thread), _) => vec![DispatchScope::Thread(thread)],
            (None, None) => vec![DispatchScope::All],
            (None, Some(statuses)) => {
                let mut written: BTreeSet<_> = statuses.iter().copied().collect();
                if written.contains(&DispatchStatus::Superseded) {
                    written.insert(DispatchStatus::Queued);
                }
                written.into_iter().map(DispatchScope::Status).collect()
            }
        }
    }

    fn parts(&self) -> String {
        let statuses = self.statuses.as_ref().map(|statuses| {
            let names: BTreeSet<_> = statuses.iter().map(|status| status.name()).collect();
            names.into_iter().collect::<Vec<_>>().join(" ")
        });
        binding(&[
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
    /// By the time of their enqueue; ids break ties.
    #[default]
    Creation,
    /// Those that are over, by the time of their end; ids break ties.
    End,
    /// Those of one thread that are queued, in the order in which they would be claimed if all were available.
    Claim,
}

/// A list of dispatches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DispatchQuery {
    /// Which.
    pub filter: DispatchFilter,
    /// In which order.
    pub order: DispatchOrder,
    /// From which end.
    pub direction: Direction,
    /// Which part.
    pub page: PageRequest,
}

impl DispatchQuery {
    /// Those that `filter` lets through, by creation.
    #[must_use]
    pub fn new(filter: DispatchFilter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// The same in this order and direction.
    #[must_use]
    pub const fn ordered(mut self, order: DispatchOrder, direction: Direction) -> Self {
        self.order = order;
        self.direction = direction;
        self
    }

    /// The same for this page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }

    /// Everything but the page, written down: what a cursor of the list is bound to (PG-6).
    #[must_use]
    pub fn binding(&self) -> String {
        format!("{:?} {:?} {}", self.order, self.direction, self.filter.parts())
    }

    /// Refuses what no store can answer.
    ///
    /// # Errors
    /// `Invalid` for the order of claims without a thread.
    pub fn check(&self) -> Result<()> {
        if self.order == DispatchOrder::Claim && self.filter.thread.is_none() {
            return Err(Error::invalid("order", "the order of claims is that of one thread"));
        }
        Ok(())
    }
}

/// How many dispatches are in which status.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct DispatchCounts {
    /// Queued.
    pub queued: u64,
    /// Claimed.
    pub claimed: u64,
    /// Acked.
    pub acked: u64,
    /// Cancelled.
    pub cancelled: u64,
    /// Superseded.
    pub superseded: u64,
    /// Dead letters.
    pub dead_letter: u64,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(DispatchCounts { queued: def, claimed: def, acked: def, cancelled: def, superseded: def, dead_letter: def });

impl DispatchCounts {
    /// How many are in this status.
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

    /// For stores: the number of those in this status, to be changed.
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

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        DispatchStatus::ALL.iter().map(|status| self.of(*status)).sum()
    }

    /// These and those.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for status in DispatchStatus::ALL {
            *self.of_mut(*status) += other.of(*status);
        }
        self
    }
}

/// A thread that a claim could take now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ReadyThread {
    /// The thread.
    pub thread: ThreadId,
    /// What a claim would give out.
    pub next: DispatchId,
    /// Its priority.
    pub priority: u8,
}

impl ReadyThread {
    /// For stores.
    #[must_use]
    pub const fn new(thread: ThreadId, next: DispatchId, priority: u8) -> Self {
        Self { thread, next, priority }
    }
}

/// Which dispatches that are over are to be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purge {
    /// Those that ended before this time.
    pub before: Timestamp,
    /// At most so many, 1 to 1,000.
    pub limit: u32,
    /// Only says how many.
    pub dry_run: bool,
}

impl Purge {
    /// Those that ended before `before`, up to 1,000.
    #[must_use]
    pub const fn new(before: Timestamp) -> Self {
        Self { before, limit: 1_000, dry_run: false }
    }
}

/// What a purge removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Purged {
    /// How many dispatches.
    pub removed: u64,
}

impl Purged {
    /// For stores.
    #[must_use]
    pub const fn new(removed: u64) -> Self {
        Self { removed }
    }
}

/// Which dead letters are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequeueChoice {
    /// These.
    Ids(Vec<DispatchId>),
    /// The oldest that a filter lets through.
    Filter {
        /// The filter; its statuses do not matter.
        filter: Box<DispatchFilter>,
        /// How many at most, 1 to 1,000.
        limit: u32,
    },
}

/// Dead letters to be put back into the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requeue {
    /// Which.
    pub choice: RequeueChoice,
}

impl Requeue {
    /// These dead letters.
    #[must_use]
    pub fn ids(ids: impl IntoIterator<Item = DispatchId>) -> Self {
        Self { choice: RequeueChoice::Ids(ids.into_iter().collect()) }
    }

    /// The oldest dead letters that `filter` lets through.
    #[must_use]
    pub fn matching(filter: DispatchFilter, limit: u32) -> Self {
        Self { choice: RequeueChoice::Filter { filter: Box::new(filter), limit } }
    }
}
