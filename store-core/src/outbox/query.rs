//! Queries and requests to the outbox.

use std::time::Duration;

use serde::Serialize;

use super::{OutboxRow, OutboxSettlement, OutboxStatus, OutboxSubset, StoredOutboxRow};
use crate::{
    claim::ClaimToken,
    error::Result,
    id::{LaneId, OutboxId, OutboxTarget, WorkerId},
    log::Direction,
    page::{PageRequest, encode_query_parts},
    time::Timestamp,
};

/// The default length of a lease.
const DEFAULT_LEASE: Duration = Duration::from_secs(30);

/// A filter for rows. A row must match every field that is set (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OutboxFilter {
    /// Rows of this lane.
    pub lane: Option<LaneId>,
    /// Rows for this target.
    pub target: Option<OutboxTarget>,
    /// Rows in one of these statuses.
    pub statuses: Option<Vec<OutboxStatus>>,
}

impl OutboxFilter {
    /// Sets the lane.
    #[must_use]
    pub fn of_lane(mut self, lane: LaneId) -> Self {
        self.lane = Some(lane);
        self
    }

    /// Sets the target.
    #[must_use]
    pub fn for_target(mut self, target: OutboxTarget) -> Self {
        self.target = Some(target);
        self
    }

    /// Sets the statuses.
    #[must_use]
    pub fn in_status(mut self, statuses: impl IntoIterator<Item = OutboxStatus>) -> Self {
        self.statuses = Some(statuses.into_iter().collect());
        self
    }

    /// Returns whether `row` passes the filter.
    #[must_use]
    pub fn admits(&self, row: &StoredOutboxRow) -> bool {
        self.lane.as_ref().is_none_or(|lane| row.lane == *lane)
            && self.target.as_ref().is_none_or(|target| row.target == *target)
            && self.statuses.as_ref().is_none_or(|statuses| statuses.contains(&row.status))
    }

    /// Returns the statuses that the filter accepts.
    #[must_use]
    pub fn accepted_statuses(&self) -> Vec<OutboxStatus> {
        let is_wanted =
            |status: &&OutboxStatus| self.statuses.as_ref().is_none_or(|statuses| statuses.contains(status));
        OutboxStatus::ALL.iter().filter(is_wanted).copied().collect()
    }

    /// Returns whether the lists whose keys [`list_keys`](Self::list_keys) returns contain only rows that pass the
    /// filter.
    #[must_use]
    pub const fn lists_match_exactly(&self) -> bool {
        self.lane.is_some() || self.target.is_none()
    }

    /// Returns the keys of the shortest lists of a store that together contain every row matching the filter. They are
    /// returned as a subset and the statuses of the lists of that subset. The status `None` stands for the list of all
    /// statuses. Each row is in exactly one of the lists.
    #[must_use]
    pub fn list_keys(&self) -> (OutboxSubset, Vec<Option<OutboxStatus>>) {
        let subset = match (&self.lane, &self.target) {
            (None, _) => OutboxSubset::All,
            (Some(lane), None) => OutboxSubset::Lane(lane.clone()),
            (Some(lane), Some(target)) => OutboxSubset::Target(lane.clone(), target.clone()),
        };
        let statuses = match &self.statuses {
            None => vec![None],
            Some(_) => self.accepted_statuses().into_iter().map(Some).collect(),
        };
        (subset, statuses)
    }
}

/// A query for a list of rows, ordered by creation. Rows with equal times are ordered by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OutboxQuery {
    /// Which rows to list.
    pub filter: OutboxFilter,
    /// Oldest first or newest first.
    pub direction: Direction,
    /// Which page to return.
    pub page: PageRequest,
}

impl OutboxQuery {
    /// Makes a query for the rows that pass `filter`, oldest first.
    #[must_use]
    pub fn new(filter: OutboxFilter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// Sets the direction.
    #[must_use]
    pub const fn with_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// Returns the query without its page, as text. A cursor of the list is bound to this text (PG-6).
    #[must_use]
    pub fn cursor_binding(&self) -> String {
        let OutboxFilter { lane, target, statuses } = &self.filter;
        let names =
            |statuses: &Vec<OutboxStatus>| statuses.iter().map(|status| status.name()).collect::<Vec<_>>().join(",");
        encode_query_parts(&[
            ("lane", lane.as_ref().map(ToString::to_string)),
            ("target", target.as_ref().map(ToString::to_string)),
            ("statuses", statuses.as_ref().map(names)),
            ("direction", self.direction.cursor_binding()),
        ])
    }

    /// Sets the page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }
}

/// The number of rows in each status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct OutboxCounts {
    /// Pending rows.
    pub pending: u64,
    /// Claimed rows, including those whose lease has ended.
    pub claimed: u64,
    /// Delivered rows.
    pub delivered: u64,
    /// Dead letters.
    pub dead_letter: u64,
}

impl OutboxCounts {
    /// Adds `count` rows of a status.
    pub const fn add(&mut self, status: OutboxStatus, count: u64) {
        match status {
            OutboxStatus::Pending => self.pending += count,
            OutboxStatus::Claimed => self.claimed += count,
            OutboxStatus::Delivered => self.delivered += count,
            OutboxStatus::DeadLetter => self.dead_letter += count,
        }
    }
}

/// A request to claim rows of a lane (OB-4).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimOutbox {
    /// The lane.
    pub lane: LaneId,
    /// The target; absent for all targets.
    pub target: Option<OutboxTarget>,
    /// The worker that claims.
    pub worker: WorkerId,
    /// The maximum number of rows, 1 to 1,000. The claim takes no more rows once the payloads of those that it has
    /// taken add up to 64 MiB.
    pub limit: u32,
    /// The length of the lease, at most 24 hours. Default: 30 seconds.
    pub lease: Duration,
}

impl ClaimOutbox {
    /// Makes a request for at most `limit` rows of a lane, with a lease of 30 seconds.
    #[must_use]
    pub const fn new(lane: LaneId, worker: WorkerId, limit: u32) -> Self {
        Self { lane, target: None, worker, limit, lease: DEFAULT_LEASE }
    }

    /// Sets the target.
    #[must_use]
    pub fn for_target(mut self, target: OutboxTarget) -> Self {
        self.target = Some(target);
        self
    }

    /// Sets the length of the lease.
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }
}

/// A claimed row with the token of its claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimedOutboxRow {
    /// The row after the claim.
    pub row: OutboxRow,
    /// The proof of the claim.
    pub token: ClaimToken,
}

impl ClaimedOutboxRow {
    /// Creates a claimed row. Only implementations of a store need this.
    #[must_use]
    pub const fn new(row: OutboxRow, token: ClaimToken) -> Self {
        Self { row, token }
    }

    /// Makes the request that extends the claim: its lease then ends at store time plus `lease`.
    #[must_use]
    pub fn extend(&self, lease: Duration) -> ExtendOutbox {
        ExtendOutbox::new(self.row.id.clone(), self.token.clone(), lease)
    }

    /// Makes the request that ends the attempt in this way.
    #[must_use]
    pub fn settle(&self, settlement: OutboxSettlement) -> SettleOutbox {
        SettleOutbox::new(self.row.id.clone(), self.token.clone(), settlement)
    }
}

/// The result of a claim.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClaimedOutbox {
    /// The claimed rows, each with its own token and lease.
    pub rows: Vec<ClaimedOutboxRow>,
    /// Rows whose payload cannot be read at present. They were left unchanged (MB-55).
    pub unreadable: Vec<OutboxId>,
}

impl ClaimedOutbox {
    /// Creates the result of a claim. Only implementations of a store need this.
    #[must_use]
    pub const fn new(rows: Vec<ClaimedOutboxRow>, unreadable: Vec<OutboxId>) -> Self {
        Self { rows, unreadable }
    }
}

/// A request to extend a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtendOutbox {
    /// The id of the row.
    pub id: OutboxId,
    /// The proof of its claim.
    pub token: ClaimToken,
    /// The length of the lease from now on: more than zero, at most 24 hours.
    pub lease: Duration,
}

impl ExtendOutbox {
    /// Makes a request to extend the lease of this row.
    #[must_use]
    pub const fn new(id: OutboxId, token: ClaimToken, lease: Duration) -> Self {
        Self { id, token, lease }
    }
}

/// A request to end an attempt to deliver a row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettleOutbox {
    /// The id of the row.
    pub id: OutboxId,
    /// The proof of its claim.
    pub token: ClaimToken,
    /// How the attempt ended.
    pub settlement: OutboxSettlement,
}

impl SettleOutbox {
    /// Makes a request to end the attempt in this way.
    #[must_use]
    pub const fn new(id: OutboxId, token: ClaimToken, settlement: OutboxSettlement) -> Self {
        Self { id, token, settlement }
    }
}

/// The rows that an operator chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboxChoice {
    /// The rows with these ids.
    Ids(Vec<OutboxId>),
    /// The oldest rows that match.
    Filter {
        /// The lane; absent for all lanes.
        lane: Option<LaneId>,
        /// The target; absent for all targets.
        target: Option<OutboxTarget>,
        /// The maximum number of rows, 1 to 1,000.
        limit: u32,
    },
}

/// A request to make dead letters pending again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequeueOutbox {
    /// Which rows to requeue.
    pub choice: OutboxChoice,
}

impl RequeueOutbox {
    /// Makes a request for the rows with these ids, at most 1,000.
    #[must_use]
    pub fn ids(ids: impl IntoIterator<Item = OutboxId>) -> Self {
        Self { choice: OutboxChoice::Ids(ids.into_iter().collect()) }
    }

    /// Makes a request for the oldest dead letters, at most `limit`.
    #[must_use]
    pub const fn oldest(limit: u32) -> Self {
        Self { choice: OutboxChoice::Filter { lane: None, target: None, limit } }
    }

    /// Makes a request for the oldest dead letters of a lane, at most `limit`.
    #[must_use]
    pub const fn of_lane(lane: LaneId, limit: u32) -> Self {
        Self { choice: OutboxChoice::Filter { lane: Some(lane), target: None, limit } }
    }
}

/// The result of requeueing one row.
#[derive(Debug)]
#[non_exhaustive]
pub struct Requeued {
    /// The id of the row.
    pub id: OutboxId,
    /// `NotFound` if there is no such row, `InvalidTransition` if the row is not a dead letter.
    pub outcome: Result<()>,
}

impl Requeued {
    /// Creates the result of requeueing one row. Only implementations of a store need this.
    #[must_use]
    pub const fn new(id: OutboxId, outcome: Result<()>) -> Self {
        Self { id, outcome }
    }
}

/// A request to remove final rows (OB-13).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgeOutbox {
    /// Only rows that ended before this time are removed.
    pub finished_before: Timestamp,
    /// If there are any, these rows are removed instead, whatever their status, at most 1,000 of them (OB-14).
    pub ids: Vec<OutboxId>,
    /// The maximum number of rows to remove, 1 to 1,000.
    pub limit: u32,
    /// Whether to report the number of rows without removing them.
    pub dry_run: bool,
}

impl PurgeOutbox {
    /// Makes a request to remove at most 1,000 rows that ended before this time.
    #[must_use]
    pub const fn new(finished_before: Timestamp) -> Self {
        Self { finished_before, ids: Vec::new(), limit: 1_000, dry_run: false }
    }

    /// Makes a request to remove these rows, whatever their status. A consumer that holds one of them loses its claim.
    #[must_use]
    pub fn of(ids: Vec<OutboxId>) -> Self {
        Self { ids, ..Self::new(Timestamp::MIN) }
    }

    /// Sets the maximum number of rows to remove.
    #[must_use]
    pub const fn with_limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}
