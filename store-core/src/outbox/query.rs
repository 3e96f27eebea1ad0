//! What can be asked of the outbox.

use std::time::Duration;

use serde::Serialize;

use super::{OutboxRow, OutboxScope, OutboxSettlement, OutboxStatus, StoredOutboxRow};
use crate::{
    claim::ClaimToken,
    error::Result,
    id::{LaneId, OutboxId, OutboxTarget, WorkerId},
    log::Direction,
    page::{PageRequest, binding},
    time::Timestamp,
};

/// The lease of a claim if nothing is said.
const LEASE: Duration = Duration::from_secs(30);

/// Which rows are wanted. Everything that is set must hold (PG-9).
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
    /// The same for a lane.
    #[must_use]
    pub fn of_lane(mut self, lane: LaneId) -> Self {
        self.lane = Some(lane);
        self
    }

    /// The same for a target.
    #[must_use]
    pub fn for_target(mut self, target: OutboxTarget) -> Self {
        self.target = Some(target);
        self
    }

    /// The same for these statuses.
    #[must_use]
    pub fn in_status(mut self, statuses: impl IntoIterator<Item = OutboxStatus>) -> Self {
        self.statuses = Some(statuses.into_iter().collect());
        self
    }

    /// Whether `row` passes.
    #[must_use]
    pub fn admits(&self, row: &StoredOutboxRow) -> bool {
        self.lane.as_ref().is_none_or(|lane| row.lane == *lane)
            && self.target.as_ref().is_none_or(|target| row.target == *target)
            && self.statuses.as_ref().is_none_or(|statuses| statuses.contains(&row.status))
    }

    /// The statuses that it asks for.
    #[must_use]
    pub fn wanted(&self) -> Vec<OutboxStatus> {
        let is_wanted = |status: &&OutboxStatus| self.statuses.as_ref().is_none_or(|given| given.contains(status));
        OutboxStatus::ALL.iter().filter(is_wanted).copied().collect()
    }

    /// Whether its lists hold nothing else than what it lets through.
    #[must_use]
    pub const fn is_scope(&self) -> bool {
        self.lane.is_some() || self.target.is_none()
    }

    /// The shortest lists of a store that together hold every row that the filter lets through, each in one of them.
    #[must_use]
    pub fn scopes(&self) -> (OutboxScope, Vec<Option<OutboxStatus>>) {
        let scope = match (&self.lane, &self.target) {
            (None, _) => OutboxScope::All,
            (Some(lane), None) => OutboxScope::Lane(lane.clone()),
            (Some(lane), Some(target)) => OutboxScope::Target(lane.clone(), target.clone()),
        };
        let statuses = match &self.statuses {
            None => vec![None],
            Some(_) => self.wanted().into_iter().map(Some).collect(),
        };
        (scope, statuses)
    }
}

/// A list of rows by creation; ids break ties.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OutboxQuery {
    /// Which ones.
    pub filter: OutboxFilter,
    /// The oldest first, or the newest.
    pub direction: Direction,
    /// Which page.
    pub page: PageRequest,
}

impl OutboxQuery {
    /// Rows that `filter` lets through, the oldest first.
    #[must_use]
    pub fn new(filter: OutboxFilter) -> Self {
        Self { filter, ..Self::default() }
    }

    /// The same in this direction.
    #[must_use]
    pub const fn with_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// What cursors of the list are bound to.
    #[must_use]
    pub fn binding(&self) -> String {
        let OutboxFilter { lane, target, statuses } = &self.filter;
        let names = |given: &Vec<OutboxStatus>| given.iter().map(|it| it.name()).collect::<Vec<_>>().join(",");
        binding(&[
            ("lane", lane.as_ref().map(ToString::to_string)),
            ("target", target.as_ref().map(ToString::to_string)),
            ("statuses", statuses.as_ref().map(names)),
            ("direction", self.direction.binding()),
        ])
    }

    /// The same for this page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }
}

/// How many rows there are in each status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct OutboxCounts {
    /// That wait.
    pub pending: u64,
    /// That somebody has, or had when the lease ended.
    pub claimed: u64,
    /// That were delivered.
    pub delivered: u64,
    /// That were given up.
    pub dead_letter: u64,
}

impl OutboxCounts {
    /// Counts so many rows of a status.
    pub const fn add(&mut self, status: OutboxStatus, count: u64) {
        match status {
            OutboxStatus::Pending => self.pending += count,
            OutboxStatus::Claimed => self.claimed += count,
            OutboxStatus::Delivered => self.delivered += count,
            OutboxStatus::DeadLetter => self.dead_letter += count,
        }
    }
}

/// A claim of rows of a lane (OB-4).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimOutbox {
    /// The lane.
    pub lane: LaneId,
    /// For this target only.
    pub target: Option<OutboxTarget>,
    /// Who claims.
    pub worker: WorkerId,
    /// How many at most: 1 to 1,000; none more is given once their payloads have 64 MiB.
    pub limit: u32,
    /// For how long: 30 seconds if nothing is said, at most 24 hours.
    pub lease: Duration,
}

impl ClaimOutbox {
    /// At most `limit` rows of a lane, for 30 seconds.
    #[must_use]
    pub const fn new(lane: LaneId, worker: WorkerId, limit: u32) -> Self {
        Self { lane, target: None, worker, limit, lease: LEASE }
    }

    /// The same for this target only.
    #[must_use]
    pub fn for_target(mut self, target: OutboxTarget) -> Self {
        self.target = Some(target);
        self
    }

    /// The same for so long.
    #[must_use]
    pub const fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }
}

/// A row that was claimed, with the proof of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimedOutboxRow {
    /// The row as it is now.
    pub row: OutboxRow,
    /// The proof.
    pub token: ClaimToken,
}

impl ClaimedOutboxRow {
    /// For stores.
    #[must_use]
    pub const fn new(row: OutboxRow, token: ClaimToken) -> Self {
        Self { row, token }
    }

    /// What prolongs the claim, for so long from then on.
    #[must_use]
    pub fn extend(&self, lease: Duration) -> ExtendOutbox {
        ExtendOutbox::new(self.row.id.clone(), self.token.clone(), lease)
    }

    /// What ends the attempt like this.
    #[must_use]
    pub fn settle(&self, settlement: OutboxSettlement) -> SettleOutbox {
        SettleOutbox::new(self.row.id.clone(), self.token.clone(), settlement)
    }
}

/// What a claim got.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ClaimedOutbox {
    /// Rows, each with its own token and lease.
    pub rows: Vec<ClaimedOutboxRow>,
    /// Rows whose payload cannot be read now: they were left as they are (MB-55).
    pub unreadable: Vec<OutboxId>,
}

impl ClaimedOutbox {
    /// For stores.
    #[must_use]
    pub const fn new(rows: Vec<ClaimedOutboxRow>, unreadable: Vec<OutboxId>) -> Self {
        Self { rows, unreadable }
    }
}

/// A claim that is to last longer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtendOutbox {
    /// The row.
    pub id: OutboxId,
    /// The proof of its claim.
    pub token: ClaimToken,
    /// For how long from now on: more than nothing, at most 24 hours.
    pub lease: Duration,
}

impl ExtendOutbox {
    /// This row for so long.
    #[must_use]
    pub const fn new(id: OutboxId, token: ClaimToken, lease: Duration) -> Self {
        Self { id, token, lease }
    }
}

/// The end of an attempt to deliver a row.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettleOutbox {
    /// The row.
    pub id: OutboxId,
    /// The proof of its claim.
    pub token: ClaimToken,
    /// How it ended.
    pub settlement: OutboxSettlement,
}

impl SettleOutbox {
    /// This row ended like this.
    #[must_use]
    pub const fn new(id: OutboxId, token: ClaimToken, settlement: OutboxSettlement) -> Self {
        Self { id, token, settlement }
    }
}

/// Which rows an operator means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutboxChoice {
    /// These.
    Ids(Vec<OutboxId>),
    /// The oldest of a lane, or of all lanes, for a target or for all.
    Filter {
        /// The lane.
        lane: Option<LaneId>,
        /// The target.
        target: Option<OutboxTarget>,
        /// How many at most: 1 to 1,000.
        limit: u32,
    },
}

/// Dead letters that are to be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequeueOutbox {
    /// Which.
    pub choice: OutboxChoice,
}

impl RequeueOutbox {
    /// These rows; at most 1,000.
    #[must_use]
    pub fn ids(ids: impl IntoIterator<Item = OutboxId>) -> Self {
        Self { choice: OutboxChoice::Ids(ids.into_iter().collect()) }
    }

    /// The oldest dead letters, at most so many.
    #[must_use]
    pub const fn oldest(limit: u32) -> Self {
        Self { choice: OutboxChoice::Filter { lane: None, target: None, limit } }
    }

    /// The oldest dead letters of a lane, at most so many.
    #[must_use]
    pub const fn of_lane(lane: LaneId, limit: u32) -> Self {
        Self { choice: OutboxChoice::Filter { lane: Some(lane), target: None, limit } }
    }
}

/// What became of a row that was to be tried again.
#[derive(Debug)]
#[non_exhaustive]
pub struct Requeued {
    /// The row.
    pub id: OutboxId,
    /// `NotFound` for an unknown one, `InvalidTransition` for one that is no dead letter.
    pub outcome: Result<()>,
}

impl Requeued {
    /// For stores.
    #[must_use]
    pub const fn new(id: OutboxId, outcome: Result<()>) -> Self {
        Self { id, outcome }
    }
}

/// A removal of final rows (OB-13).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PurgeOutbox {
    /// Those that ended before this time.
    pub finished_before: Timestamp,
    /// How many at most: 1 to 1,000.
    pub limit: u32,
    /// Say how many, and change nothing.
    pub dry_run: bool,
}

impl PurgeOutbox {
    /// At most 1,000 that ended before this time.
    #[must_use]
    pub const fn new(finished_before: Timestamp) -> Self {
        Self { finished_before, limit: 1_000, dry_run: false }
    }

    /// The same, at most so many.
    #[must_use]
    pub const fn with_limit(mut self, limit: u32) -> Self {
        self.limit = limit;
        self
    }

    /// The same without changing anything.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}
