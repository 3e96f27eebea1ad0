//! Steps of the outbox. Each runs on the store and on the model.

use std::{sync::Arc, time::Duration};

use store_core::{
    ClaimOutbox, ClaimedOutboxRow, NewOutboxRow, OutboxChoice, OutboxFilter, OutboxRow, OutboxSettlement, OutboxStatus,
    OutboxStore, PurgeOutbox, RequeueOutbox, Timestamp,
};

use super::{
    numbered_values::{json_value, numbered_id},
    ops::{OutboxFilterOp, OutboxOp, RowOp},
    pair::{StepResult, StoreModelPair, expect_same},
    requests::past_or_future,
};

/// Makes a row of a commit.
pub(super) fn new_outbox_row(op: &RowOp, now: Timestamp) -> NewOutboxRow {
    let mut row =
        NewOutboxRow::new(numbered_id("lane", op.lane), numbered_id("target", op.target), json_value(op.payload));
    row.dedupe_key = op.key.map(|key| numbered_id("d", key));
    row.order_key = op.order_key.map(|key| numbered_id("o", key));
    row.available_at = op.delay_millis.map(|millis| now.saturating_add(Duration::from_millis(u64::from(millis))));
    row.max_attempts = u32::from(op.max_attempts);
    row
}

pub(super) fn outbox_filter(op: &OutboxFilterOp) -> OutboxFilter {
    let mut filter = OutboxFilter::default();
    filter.lane = op.lane.map(|lane| numbered_id("lane", lane));
    filter.target = op.target.map(|target| numbered_id("target", target));
    filter.statuses = op.statuses.clone();
    filter
}

fn settlement(settlement_kind: u8, millis: u16) -> OutboxSettlement {
    match settlement_kind {
        0 => OutboxSettlement::Delivered,
        1 => OutboxSettlement::DeadLetter { error: format!("dead {millis}") },
        2 => OutboxSettlement::Release,
        _ => OutboxSettlement::Retry { after: to_duration(millis), error: format!("failed {millis}") },
    }
}

fn to_duration(millis: u16) -> Duration {
    Duration::from_millis(u64::from(millis))
}

impl StoreModelPair {
    /// Runs a step that is about the outbox.
    pub(super) async fn run_outbox_step(&mut self, op: &OutboxOp) -> StepResult {
        let (store, model) = (Arc::clone(&self.store.outbox), Arc::clone(&self.model.outbox));
        match op {
            OutboxOp::Claim { lane, target, limit, lease } => {
                let mut request =
                    ClaimOutbox::new(numbered_id("lane", *lane), numbered_id("w", *limit), u32::from(*limit));
                request.target = target.map(|target| numbered_id("target", target));
                let request = request.with_lease(to_duration(*lease));
                let (store_claimed, model_claimed) =
                    (store.claim_outbox(request.clone()).await, model.claim_outbox(request).await);
                expect_same(&store_claimed, &model_claimed)?;
                if let (Ok(store_claimed), Ok(model_claimed)) = (store_claimed, model_claimed) {
                    self.claimed_rows.extend(store_claimed.rows.into_iter().zip(model_claimed.rows));
                }
                Ok(())
            }
            OutboxOp::Settle { which, settlement_kind, millis } => {
                let Some((store_row, model_row)) = self.nth_claimed_row(*which) else { return Ok(()) };
                // The second settlement repeats the first one, so that the answers to repeats are compared, too.
                let settle_twice =
                    |claimed_row: &ClaimedOutboxRow| vec![claimed_row.settle(settlement(*settlement_kind, *millis)); 2];
                expect_same(
                    &store.settle_outbox(settle_twice(&store_row)).await,
                    &model.settle_outbox(settle_twice(&model_row)).await,
                )
            }
            OutboxOp::Extend { which, lease } => {
                let Some((store_row, model_row)) = self.nth_claimed_row(*which) else { return Ok(()) };
                let extend = |claimed_row: &ClaimedOutboxRow| claimed_row.extend(to_duration(*lease));
                expect_same(
                    &store.extend_outbox(extend(&store_row)).await,
                    &model.extend_outbox(extend(&model_row)).await,
                )
            }
            OutboxOp::Requeue { which: Some(which), .. } => {
                let Some((store_row, model_row)) = self.nth_claimed_row(*which) else { return Ok(()) };
                let store_answer = store.requeue_outbox(RequeueOutbox::ids([store_row.row.id.clone()])).await;
                expect_same(&store_answer, &model.requeue_outbox(RequeueOutbox::ids([model_row.row.id.clone()])).await)
            }
            OutboxOp::Requeue { which: None, lane, limit } => {
                let (lane, limit) = (lane.map(|lane| numbered_id("lane", lane)), u32::from(*limit));
                let mut request = RequeueOutbox::oldest(limit);
                request.choice = OutboxChoice::Filter { lane, target: None, limit };
                expect_same(&store.requeue_outbox(request.clone()).await, &model.requeue_outbox(request).await)
            }
            OutboxOp::Purge { older_millis, limit, dry_run } => {
                let mut request =
                    PurgeOutbox::new(past_or_future(self.now(), *older_millis)).with_limit(u32::from(*limit));
                request.dry_run = *dry_run;
                expect_same(&store.purge_outbox(request.clone()).await, &model.purge_outbox(request).await)
            }
            OutboxOp::Count(op) => {
                let filter = outbox_filter(op);
                expect_same(&store.count_outbox(&filter).await, &model.count_outbox(&filter).await)
            }
        }
    }

    /// Returns a claimed row, as the store and as the model returned it. The newest row has the index 0.
    fn nth_claimed_row(&self, which: u8) -> Option<(ClaimedOutboxRow, ClaimedOutboxRow)> {
        let count = self.claimed_rows.len();
        self.claimed_rows.get(count.checked_sub(1 + usize::from(which) % count.max(1))?).cloned()
    }
}

/// The statuses that filters choose from.
pub(super) const FILTER_STATUSES: &[OutboxStatus] = OutboxStatus::ALL;

/// Returns a row without its id, which differs between the store and the model.
pub(super) fn without_id(row: &OutboxRow) -> OutboxRow {
    let mut row = row.clone();
    row.id = crate::given::id("row");
    row
}

/// Returns the rows of the outbox of a tenant.
pub(super) async fn list_all_rows(outbox: &dyn OutboxStore) -> store_core::Result<store_core::Page<OutboxRow>> {
    outbox.list_outbox(store_core::OutboxQuery::default().with_page(store_core::PageRequest::first(1_000))).await
}
