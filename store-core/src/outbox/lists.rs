//! The ordered lists of the outbox. A store answers every question about the outbox by reading one of these lists from
//! its beginning. The cost therefore does not depend on the number of rows (PR-15).

use std::collections::BTreeSet;

use super::{OutboxStatus, StoredOutboxRow};
use crate::{
    error::Result,
    id::{DedupeKey, LaneId, OrderKey, OutboxId, OutboxTarget},
    json::Json,
    time::Timestamp,
};

/// Selects the rows that a list contains.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutboxSubset {
    /// All rows of the tenant.
    All,
    /// The rows of a lane.
    Lane(LaneId),
    /// The rows of a lane for a target.
    Target(LaneId, OutboxTarget),
}

/// Rows that are delivered one after another (OB-11).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderGroup {
    /// The lane of the rows.
    pub lane: LaneId,
    /// The target of the rows.
    pub target: OutboxTarget,
    /// The order key of the rows.
    pub key: OrderKey,
}

/// An ordered list of rows that a store keeps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutboxList {
    /// The rows of a subset by creation: all, or those with a status.
    Created(OutboxSubset, Option<OutboxStatus>),
    /// The rows that a claim may take, by `available_at`, then by creation.
    Ready(OutboxSubset),
    /// The claimed rows, by the end of their lease.
    Leased(OutboxSubset),
    /// The final rows, by the time at which they ended.
    Finished,
    /// The row of a lane and target that has this dedupe key, if there is one.
    Keyed(LaneId, OutboxTarget, DedupeKey),
    /// All rows of an order group, by the number that each has in the group.
    AllOfGroup(OrderGroup),
    /// The rows of an order group that are not final, by the same number.
    OpenOfGroup(OrderGroup),
    /// The row of an order group that is claimed, if there is one.
    ClaimedOfGroup(OrderGroup),
    /// The row of an order group that is in [`Ready`](Self::Ready), if there is one.
    ReadyOfGroup(OrderGroup),
}

/// The position of a row in a list: two ranks, and the id of the row, which decides between equal ranks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OutboxPosition {
    /// The first two values that the list is ordered by; 0 for each that the list does not have.
    pub rank: (u64, u64),
    /// The id of the row.
    pub id: OutboxId,
}

impl OutboxPosition {
    /// Returns the number of a row in its order group, for a position in a list that is ordered by this number.
    pub(super) const fn order_number(&self) -> u64 {
        self.rank.0
    }

    /// Returns the time that a list is ordered by, in milliseconds.
    pub(super) const fn time_millis(&self) -> u64 {
        self.rank.0
    }
}

/// The stored data that the rules of the outbox read.
pub trait OutboxView {
    /// Returns a row, or none if it does not exist.
    ///
    /// # Errors
    /// Any error of reading.
    fn row(&self, id: &OutboxId) -> Result<Option<StoredOutboxRow>>;

    /// Returns the first position of a list, or the first one after a given position.
    ///
    /// # Errors
    /// Any error of reading.
    fn next(&self, list: &OutboxList, after: Option<&OutboxPosition>) -> Result<Option<OutboxPosition>>;

    /// Returns the last position of a list.
    ///
    /// # Errors
    /// Any error of reading.
    fn last(&self, list: &OutboxList) -> Result<Option<OutboxPosition>>;
}

/// The stored data of the outbox, which [`put_row`] and [`remove_row`] change.
pub trait OutboxTable: OutboxView {
    /// Returns the incarnation of the store, which becomes part of new tokens (FI-12).
    fn incarnation(&self) -> u64;

    /// Returns the payload of a row.
    ///
    /// # Errors
    /// `Corrupt` if it cannot be read.
    fn payload(&self, id: &OutboxId) -> Result<Json>;

    /// Writes the record of a row, or removes it if `row` is `None`.
    fn set_row(&mut self, id: &OutboxId, row: Option<StoredOutboxRow>);

    /// Adds a position to a list, or removes it if `is_present` is false.
    fn set_position(&mut self, list: &OutboxList, position: &OutboxPosition, is_present: bool);
}

impl StoredOutboxRow {
    /// Returns the group of the row, or none if the row has no order key.
    #[must_use]
    pub fn group(&self) -> Option<OrderGroup> {
        let (lane, target) = (self.lane.clone(), self.target.clone());
        self.order_key.clone().map(|key| OrderGroup { lane, target, key })
    }

    fn subsets(&self) -> [OutboxSubset; 2] {
        let (lane, target) = (self.lane.clone(), self.target.clone());
        [OutboxSubset::Lane(lane.clone()), OutboxSubset::Target(lane, target)]
    }

    fn position(&self, first: u64, second: u64) -> OutboxPosition {
        OutboxPosition { rank: (first, second), id: self.id.clone() }
    }

    /// Returns the positions of the row among the rows that a claim may take.
    fn ready_positions(&self) -> [(OutboxList, OutboxPosition); 2] {
        let position = self.position(self.available_at.as_millis(), self.created_at.as_millis());
        self.subsets().map(|subset| (OutboxList::Ready(subset), position.clone()))
    }
}

/// Returns the lists that contain a row, with its position in each. Lists that depend on other rows of its group are
/// left out.
#[must_use]
pub fn positions(row: &StoredOutboxRow) -> BTreeSet<(OutboxList, OutboxPosition)> {
    let mut positions = BTreeSet::new();
    let creation_position = row.position(row.created_at.as_millis(), 0);
    for subset in row.subsets().into_iter().chain([OutboxSubset::All]) {
        for status in [None, Some(row.status)] {
            positions.insert((OutboxList::Created(subset.clone(), status), creation_position.clone()));
        }
    }
    if let Some(key) = row.dedupe_key.clone() {
        positions.insert((OutboxList::Keyed(row.lane.clone(), row.target.clone(), key), row.position(0, 0)));
    }
    if let Some(claim) = &row.claim {
        let lease_position = row.position(claim.lease_until.as_millis(), 0);
        positions.extend(row.subsets().map(|subset| (OutboxList::Leased(subset), lease_position.clone())));
    }
    if let Some(time) = row.finished_at {
        positions.insert((OutboxList::Finished, row.position(time.as_millis(), 0)));
    }
    match row.group() {
        Some(group) => {
            positions.insert((OutboxList::AllOfGroup(group.clone()), row.position(row.order, 0)));
            if !row.status.is_final() {
                positions.insert((OutboxList::OpenOfGroup(group.clone()), row.position(row.order, 0)));
            }
            if row.claim.is_some() {
                positions.insert((OutboxList::ClaimedOfGroup(group), row.position(0, 0)));
            }
        }
        None if row.status == OutboxStatus::Pending => positions.extend(row.ready_positions()),
        None => {}
    }
    positions
}

/// Writes a row and its positions.
///
/// Of two records of the same row, the record with the higher revision is kept, whichever is written first.
///
/// # Errors
/// Any error of reading.
pub fn put_row(table: &mut (impl OutboxTable + ?Sized), row: StoredOutboxRow) -> Result<()> {
    let old_row = table.row(&row.id)?;
    if old_row.as_ref().is_some_and(|old_row| old_row.revision > row.revision) {
        return Ok(());
    }
    update_positions(table, old_row.as_ref(), Some(&row));
    let group = row.group();
    table.set_row(&row.id.clone(), Some(row));
    group.map_or(Ok(()), |group| update_ready_row(table, &group))
}

/// Removes a row and its positions.
///
/// # Errors
/// Any error of reading.
pub fn remove_row(table: &mut (impl OutboxTable + ?Sized), id: &OutboxId) -> Result<()> {
    let Some(old_row) = table.row(id)? else { return Ok(()) };
    update_positions(table, Some(&old_row), None);
    table.set_row(id, None);
    old_row.group().map_or(Ok(()), |group| update_ready_row(table, &group))
}

fn update_positions(
    table: &mut (impl OutboxTable + ?Sized),
    old_row: Option<&StoredOutboxRow>,
    new_row: Option<&StoredOutboxRow>,
) {
    let (old_positions, new_positions) =
        (old_row.map(positions).unwrap_or_default(), new_row.map(positions).unwrap_or_default());
    for (list, position) in old_positions.difference(&new_positions) {
        table.set_position(list, position, false);
    }
    for (list, position) in new_positions.difference(&old_positions) {
        table.set_position(list, position, true);
    }
}

/// Determines which row of a group a claim may take: the first row that is not final, unless a row of the group is
/// claimed (OB-11).
///
/// Call this again if changes of two rows of a group were computed independently of each other.
///
/// # Errors
/// Any error of reading.
pub fn update_ready_row(table: &mut (impl OutboxTable + ?Sized), group: &OrderGroup) -> Result<()> {
    let ready_of_group = OutboxList::ReadyOfGroup(group.clone());
    while let Some(position) = table.next(&ready_of_group, None)? {
        table.set_position(&ready_of_group, &position, false);
        for subset in
            [OutboxSubset::Lane(group.lane.clone()), OutboxSubset::Target(group.lane.clone(), group.target.clone())]
        {
            table.set_position(&OutboxList::Ready(subset), &position, false);
        }
    }
    if table.next(&OutboxList::ClaimedOfGroup(group.clone()), None)?.is_some() {
        return Ok(());
    }
    let Some(first_open) = table.next(&OutboxList::OpenOfGroup(group.clone()), None)? else { return Ok(()) };
    let Some(row) = table.row(&first_open.id)? else { return Ok(()) };
    for (list, position) in row.ready_positions() {
        table.set_position(&list, &position, true);
        table.set_position(&ready_of_group, &position, true);
    }
    Ok(())
}

/// Returns whether the time of this position is not after `now`. The list must be ordered by time.
pub(super) fn is_due(position: &OutboxPosition, now: Timestamp) -> bool {
    position.time_millis() <= now.as_millis()
}
