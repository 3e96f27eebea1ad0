//! The rules of the outbox, tested with a table in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::{
    ClaimOutbox, ClaimedOutbox, ClaimedOutboxRow, NewOutboxRow, OutboxList, OutboxPosition, OutboxSettlement,
    OutboxStatus, OutboxSubset, OutboxTable, OutboxView, RequeueOutbox, StoredOutboxRow, claim, plan_rows, positions,
    put_row, remove_row, requeue, settle,
};
use crate::{
    commit::DecisionContext,
    error::{Error, ErrorKind, Result},
    id::{IdSource, OutboxId},
    json::Json,
    limits::Limits,
    time::Timestamp,
};

/// The table of an outbox in memory.
#[derive(Default)]
struct Table {
    rows: BTreeMap<OutboxId, StoredOutboxRow>,
    lists: BTreeMap<OutboxList, BTreeSet<OutboxPosition>>,
    incarnation: u64,
    /// Called for each payload that is read. If it is absent, every payload is `null`.
    read_payload: Option<Box<dyn Fn() -> Result<Json>>>,
    is_closed: bool,
}

impl OutboxView for Table {
    fn row(&self, id: &OutboxId) -> Result<Option<StoredOutboxRow>> {
        if self.is_closed { Err(Error::closed()) } else { Ok(self.rows.get(id).cloned()) }
    }

    fn next(&self, list: &OutboxList, after: Option<&OutboxPosition>) -> Result<Option<OutboxPosition>> {
        let positions = self.lists.get(list).into_iter().flatten();
        Ok(positions.into_iter().find(|position| after.is_none_or(|after| *position > after)).cloned())
    }

    fn last(&self, list: &OutboxList) -> Result<Option<OutboxPosition>> {
        Ok(self.lists.get(list).and_then(|positions| positions.last()).cloned())
    }
}

impl OutboxTable for Table {
    fn incarnation(&self) -> u64 {
        self.incarnation
    }

    fn payload(&self, _: &OutboxId) -> Result<Json> {
        self.read_payload.as_ref().map_or_else(|| Ok(Json::null()), |read_payload| read_payload())
    }

    fn set_row(&mut self, id: &OutboxId, row: Option<StoredOutboxRow>) {
        match row {
            Some(row) => drop(self.rows.insert(id.clone(), row)),
            None => drop(self.rows.remove(id)),
        }
    }

    fn set_position(&mut self, list: &OutboxList, position: &OutboxPosition, is_present: bool) {
        let positions = self.lists.entry(list.clone()).or_default();
        if is_present {
            positions.insert(position.clone())
        } else {
            positions.remove(position)
        };
    }
}

/// Returns the ids `id-0000`, `id-0001` and so on.
#[derive(Debug)]
struct CountingIds(AtomicU64);

impl IdSource for CountingIds {
    fn next_id(&self) -> String {
        format!("id-{:04}", self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// An outbox in memory, with the time, the limits and the ids for decisions.
struct TestOutbox {
    table: Table,
    ids: CountingIds,
    limits: Limits,
    now: u64,
}

impl TestOutbox {
    fn new() -> Self {
        Self { table: Table::default(), ids: CountingIds(AtomicU64::new(0)), limits: Limits::default(), now: 1_000 }
    }

    fn add_rows(&mut self, drafts: &[NewOutboxRow]) {
        let decision_context = DecisionContext::new(Timestamp::from_millis(self.now).unwrap(), &self.limits, &self.ids);
        let (plan, _) = plan_rows(&self.table, drafts, &"t".parse().unwrap(), decision_context).unwrap();
        for (row, _) in plan.rows {
            put_row(&mut self.table, row).unwrap();
        }
    }

    fn claim(&mut self) -> Option<ClaimedOutboxRow> {
        self.claim_up_to(1).unwrap().rows.pop()
    }

    fn claim_up_to(&mut self, limit: u32) -> Result<ClaimedOutbox> {
        let decision_context = DecisionContext::new(Timestamp::from_millis(self.now).unwrap(), &self.limits, &self.ids);
        let request = ClaimOutbox::new("lane".parse().unwrap(), "w".parse().unwrap(), limit);
        claim(&mut self.table, &request.with_lease(Duration::from_millis(100)), decision_context)
    }

    fn settle(&mut self, claimed_row: &ClaimedOutboxRow, settlement: OutboxSettlement) -> Result<OutboxStatus> {
        let decision_context = DecisionContext::new(Timestamp::from_millis(self.now).unwrap(), &self.limits, &self.ids);
        settle(&mut self.table, vec![claimed_row.settle(settlement)], decision_context).unwrap().remove(0)
    }

    fn requeue(&mut self, id: &OutboxId) -> Result<()> {
        let decision_context = DecisionContext::new(Timestamp::from_millis(self.now).unwrap(), &self.limits, &self.ids);
        requeue(&mut self.table, RequeueOutbox::ids([id.clone()]), decision_context).unwrap().remove(0).outcome
    }

    /// Asserts that every row has all its positions in the lists, and that the lists contain no other positions.
    fn check_positions(&self) {
        let mut expected_positions: BTreeSet<_> = self.table.rows.values().flat_map(positions).collect();
        for row in self.table.rows.values() {
            let Some(group) = row.group() else { continue };
            let rows_of_group = || self.table.rows.values().filter(|other| other.group().as_ref() == Some(&group));
            let first_open = rows_of_group().filter(|other| !other.status.is_final()).map(|other| other.order).min();
            let is_claimed = rows_of_group().any(|other| other.status == OutboxStatus::Claimed);
            if row.status == OutboxStatus::Pending && first_open == Some(row.order) && !is_claimed {
                let rank = (row.available_at.as_millis(), row.created_at.as_millis());
                let position = OutboxPosition { rank, id: row.id.clone() };
                let lane = OutboxSubset::Lane(row.lane.clone());
                let target = OutboxSubset::Target(row.lane.clone(), row.target.clone());
                let lists = [OutboxList::Ready(lane), OutboxList::Ready(target), OutboxList::ReadyOfGroup(group)];
                expected_positions.extend(lists.map(|list| (list, position.clone())));
            }
        }
        let actual_positions = self
            .table
            .lists
            .iter()
            .flat_map(|(list, positions)| positions.iter().map(|position| (list.clone(), position.clone())));
        assert_eq!(actual_positions.collect::<BTreeSet<_>>(), expected_positions);
    }
}

fn draft_row(order_key: Option<&str>, max_attempts: u32) -> NewOutboxRow {
    let mut row = NewOutboxRow::new("lane".parse().unwrap(), "target".parse().unwrap(), Json::null());
    row.order_key = order_key.map(|key| key.parse().unwrap());
    row.with_max_attempts(max_attempts)
}

fn retry() -> OutboxSettlement {
    OutboxSettlement::Retry { after: Duration::from_millis(50), error: "no".to_owned() }
}

/// Settles the first attempt of a row. Returns the status of the row, its attempts, whether it is due later, and
/// whether it has finished.
fn settle_first_attempt(settlement: OutboxSettlement, max_attempts: u32) -> (OutboxStatus, u32, bool, bool) {
    let mut outbox = TestOutbox::new();
    outbox.add_rows(&[draft_row(None, max_attempts)]);
    let claimed_row = outbox.claim().unwrap();
    outbox.settle(&claimed_row, settlement).unwrap();
    outbox.check_positions();
    let row = &outbox.table.rows[&claimed_row.row.id];
    assert!(row.claim.is_none() && row.token.is_none() && row.revision == 3);
    (row.status, row.attempts, row.available_at.as_millis() > outbox.now, row.finished_at.is_some())
}

#[test]
fn a_settlement_ends_an_attempt() {
    use OutboxStatus::{DeadLetter, Delivered, Pending};
    let dead_letter = OutboxSettlement::DeadLetter { error: "no".to_owned() };
    assert_eq!(settle_first_attempt(OutboxSettlement::Delivered, 1), (Delivered, 0, false, true));
    assert_eq!(settle_first_attempt(retry(), 2), (Pending, 1, true, false));
    assert_eq!(settle_first_attempt(retry(), 1), (DeadLetter, 1, false, true));
    assert_eq!(settle_first_attempt(dead_letter, 5), (DeadLetter, 1, false, true));
    assert_eq!(settle_first_attempt(OutboxSettlement::Release, 1), (Pending, 0, false, false));
}

#[test]
fn a_lease_expires_exactly_at_its_end() {
    for (elapsed, can_be_claimed) in [(99, false), (100, true), (101, true)] {
        let mut outbox = TestOutbox::new();
        outbox.add_rows(&[draft_row(None, 2)]);
        let lost_claim = outbox.claim().unwrap();
        outbox.now += elapsed;
        let second_claim = outbox.claim();
        assert_eq!(second_claim.is_some(), can_be_claimed, "{elapsed}");
        assert_eq!(outbox.settle(&lost_claim, OutboxSettlement::Delivered).is_ok(), !can_be_claimed);
        outbox.check_positions();
    }
}

#[test]
fn a_token_of_an_earlier_incarnation_proves_nothing() {
    let mut outbox = TestOutbox::new();
    outbox.add_rows(&[draft_row(None, 2)]);
    let claimed_row = outbox.claim().unwrap();
    outbox.table.incarnation = 1;
    outbox.settle(&claimed_row, OutboxSettlement::Delivered).unwrap_err();
    outbox.table.incarnation = 0;
    outbox.settle(&claimed_row, OutboxSettlement::Delivered).unwrap();
}

#[test]
fn an_older_record_changes_nothing() {
    let mut outbox = TestOutbox::new();
    outbox.add_rows(&[draft_row(Some("o"), 2)]);
    let id = outbox.table.rows.keys().next().unwrap().clone();
    let older_record = outbox.table.rows[&id].clone();
    outbox.claim().unwrap();
    let newer_record = outbox.table.rows[&id].clone();
    put_row(&mut outbox.table, older_record).unwrap();
    assert_eq!(outbox.table.rows[&id], newer_record);
    outbox.check_positions();
}

/// After any sequence of actions every row has exactly its positions, and of each group at most one row can be claimed.
#[test]
fn every_row_has_exactly_its_positions() {
    for seed in 0..200_u64 {
        let mut outbox = TestOutbox::new();
        let mut claimed_rows: Vec<ClaimedOutboxRow> = Vec::new();
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random_below = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            usize::try_from(random % below as u64).unwrap()
        };
        for _ in 0..60 {
            match random_below(7) {
                0 | 1 => outbox
                    .add_rows(&[draft_row([None, Some("o"), Some("p")][random_below(3)], [1, 2][random_below(2)])]),
                2 | 3 => claimed_rows.extend(outbox.claim()),
                4 if !claimed_rows.is_empty() => {
                    let claimed_row = claimed_rows.swap_remove(random_below(claimed_rows.len()));
                    let settlement =
                        [OutboxSettlement::Delivered, retry(), OutboxSettlement::Release][random_below(3)].clone();
                    let _result = outbox.settle(&claimed_row, settlement);
                }
                5 => {
                    let ids: Vec<_> = outbox.table.rows.keys().cloned().collect();
                    if let Some(id) = ids.get(random_below(1 + ids.len())) {
                        let is_final = outbox.table.rows[id].status.is_final();
                        if is_final && random_below(2) == 0 {
                            remove_row(&mut outbox.table, id).unwrap();
                        } else {
                            let _result = outbox.requeue(id);
                        }
                    }
                }
                _ => outbox.now += random_below(120) as u64,
            }
            outbox.check_positions();
        }
    }
}

#[test]
fn rows_are_numbered_for_each_lane_target_and_order_key() {
    let mut outbox = TestOutbox::new();
    let changed_row = |change: &dyn Fn(&mut NewOutboxRow)| {
        let mut row = draft_row(Some("o"), 1);
        change(&mut row);
        row
    };
    let rows_of_other_groups = [
        changed_row(&|row| row.lane = "other".parse().unwrap()),
        changed_row(&|row| row.target = "other".parse().unwrap()),
        draft_row(Some("p"), 1),
        draft_row(None, 1),
    ];
    let mut numbers = |drafts: &[NewOutboxRow]| {
        let earlier_ids: BTreeSet<_> = outbox.table.rows.keys().cloned().collect();
        outbox.add_rows(drafts);
        let rows = outbox.table.rows.iter().filter(|(id, _)| !earlier_ids.contains(*id));
        rows.map(|(_, row)| row.order).collect::<Vec<_>>()
    };
    let [other_lane, other_target, other_key, no_key] = rows_of_other_groups;
    assert_eq!(
        numbers(&[
            draft_row(Some("o"), 1),
            other_lane.clone(),
            other_target,
            other_key,
            no_key,
            draft_row(Some("o"), 1),
            other_lane
        ]),
        [1, 1, 1, 1, 0, 2, 2]
    );
    assert_eq!(numbers(&[draft_row(Some("o"), 1), draft_row(Some("p"), 1)]), [3, 2]);
}

#[test]
fn a_claim_stops_at_the_byte_limit_of_a_page() {
    let mut outbox = TestOutbox::new();
    outbox.add_rows(&[draft_row(None, 2), draft_row(None, 2), draft_row(None, 2)]);
    // The payloads of two rows have exactly as many bytes as a page may read.
    let large_payload = Json::parse(&format!("\"{}\"", "x".repeat((32 << 20) - 2))).unwrap();
    outbox.table.read_payload = Some(Box::new(move || Ok(large_payload.clone())));
    assert_eq!(outbox.claim_up_to(3).unwrap().rows.len(), 2);
    assert_eq!(outbox.claim_up_to(3).unwrap().rows.len(), 1);
    outbox.check_positions();
}

#[test]
fn an_unreadable_row_is_reported_and_left_out() {
    let mut outbox = TestOutbox::new();
    outbox.add_rows(&vec![draft_row(None, 2); 1_001]);
    outbox.table.read_payload = Some(Box::new(|| Err(Error::corrupt("payload"))));
    let answer = outbox.claim_up_to(1).unwrap();
    assert_eq!((answer.rows.len(), answer.unreadable.len()), (0, 1_000));
    outbox.table.read_payload = Some(Box::new(|| Err(Error::closed())));
    assert_eq!(outbox.claim_up_to(1).unwrap_err().kind(), ErrorKind::Closed);
    outbox.check_positions();
}

#[test]
fn a_row_that_is_listed_as_ready_but_not_pending_is_not_claimed() {
    let mut outbox = TestOutbox::new();
    outbox.add_rows(&[draft_row(None, 2)]);
    let ready_positions = outbox.table.lists[&OutboxList::Ready(OutboxSubset::Lane("lane".parse().unwrap()))].clone();
    let claimed_row = outbox.claim().unwrap();
    assert!(
        positions(&outbox.table.rows[&claimed_row.row.id])
            .iter()
            .all(|(list, _)| !matches!(list, OutboxList::Ready(_)))
    );
    outbox.settle(&claimed_row, OutboxSettlement::Delivered).unwrap();
    let lane = OutboxList::Ready(OutboxSubset::Lane("lane".parse().unwrap()));
    outbox.table.set_position(&lane, ready_positions.first().unwrap(), true);
    assert!(outbox.claim().is_none());
}

#[test]
fn a_store_that_was_closed_settles_nothing() {
    let mut outbox = TestOutbox::new();
    outbox.add_rows(&[draft_row(None, 2)]);
    let claimed_row = outbox.claim().unwrap();
    outbox.table.is_closed = true;
    let decision_context =
        DecisionContext::new(Timestamp::from_millis(outbox.now).unwrap(), &outbox.limits, &outbox.ids);
    let result = settle(&mut outbox.table, vec![claimed_row.settle(OutboxSettlement::Delivered)], decision_context);
    assert_eq!(result.map(|answers| answers.len()).unwrap_err().kind(), ErrorKind::Closed);
}
