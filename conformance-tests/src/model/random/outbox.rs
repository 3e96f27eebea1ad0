//! Steps of the outbox. Each runs on the store and on the model.

use std::{sync::Arc, time::Duration};

use store_core::{
    ClaimOutbox, ClaimedOutboxRow, NewOutboxRow, OutboxChoice, OutboxFilter, OutboxRow, OutboxSettlement, OutboxStatus,
    OutboxStore, PurgeOutbox, RequeueOutbox, Timestamp,
};

use super::{
    draft::ago,
    names::{named, value},
    ops::{RowOp, RowsFilterOp, RowsOp},
    pair::{Outcome, Pair, agree},
};

/// Makes a row of a commit.
pub(super) fn row(op: &RowOp, now: Timestamp) -> NewOutboxRow {
    let mut row = NewOutboxRow::new(named("lane", op.lane), named("target", op.target), value(op.payload));
    row.dedupe_key = op.key.map(|key| named("d", key));
    row.order_key = op.order.map(|key| named("o", key));
    row.available_at = op.later.map(|millis| now.saturating_add(Duration::from_millis(u64::from(millis))));
    row.max_attempts = u32::from(op.attempts);
    row
}

pub(super) fn filter(op: &RowsFilterOp) -> OutboxFilter {
    let mut filter = OutboxFilter::default();
    filter.lane = op.lane.map(|lane| named("lane", lane));
    filter.target = op.target.map(|target| named("target", target));
    filter.statuses = op.statuses.clone();
    filter
}

fn settlement(how: u8, millis: u16) -> OutboxSettlement {
    match how {
        0 => OutboxSettlement::Delivered,
        1 => OutboxSettlement::DeadLetter { error: format!("dead {millis}") },
        2 => OutboxSettlement::Release,
        _ => OutboxSettlement::Retry { after: millis_of(millis), error: format!("failed {millis}") },
    }
}

fn millis_of(millis: u16) -> Duration {
    Duration::from_millis(u64::from(millis))
}

impl Pair {
    /// Runs a step that is about the outbox.
    pub(super) async fn outbox(&mut self, op: &RowsOp) -> Outcome {
        let (real, twin) = (Arc::clone(&self.real.outbox), Arc::clone(&self.twin.outbox));
        match op {
            RowsOp::Claim { lane, target, limit, lease } => {
                let mut request = ClaimOutbox::new(named("lane", *lane), named("w", *limit), u32::from(*limit));
                request.target = target.map(|target| named("target", target));
                let request = request.with_lease(millis_of(*lease));
                let (ours, theirs) = (real.claim_outbox(request.clone()).await, twin.claim_outbox(request).await);
                agree(&ours, &theirs)?;
                if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
                    self.claimed.extend(ours.rows.into_iter().zip(theirs.rows));
                }
                Ok(())
            }
            RowsOp::Settle { which, how, millis } => {
                let Some((ours, theirs)) = self.nth_claimed(*which) else { return Ok(()) };
                let twice = |held: &ClaimedOutboxRow| vec![held.settle(settlement(*how, *millis)); 2];
                agree(&real.settle_outbox(twice(&ours)).await, &twin.settle_outbox(twice(&theirs)).await)
            }
            RowsOp::Extend { which, lease } => {
                let Some((ours, theirs)) = self.nth_claimed(*which) else { return Ok(()) };
                let extend = |held: &ClaimedOutboxRow| held.extend(millis_of(*lease));
                agree(&real.extend_outbox(extend(&ours)).await, &twin.extend_outbox(extend(&theirs)).await)
            }
            RowsOp::Requeue { which: Some(which), .. } => {
                let Some((ours, theirs)) = self.nth_claimed(*which) else { return Ok(()) };
                let real = real.requeue_outbox(RequeueOutbox::ids([ours.row.id.clone()])).await;
                agree(&real, &twin.requeue_outbox(RequeueOutbox::ids([theirs.row.id.clone()])).await)
            }
            RowsOp::Requeue { which: None, lane, limit } => {
                let (lane, limit) = (lane.map(|lane| named("lane", lane)), u32::from(*limit));
                let mut request = RequeueOutbox::oldest(limit);
                request.choice = OutboxChoice::Filter { lane, target: None, limit };
                agree(&real.requeue_outbox(request.clone()).await, &twin.requeue_outbox(request).await)
            }
            RowsOp::Purge { older, limit, dry_run } => {
                let mut request = PurgeOutbox::new(ago(self.now(), *older)).with_limit(u32::from(*limit));
                request.dry_run = *dry_run;
                agree(&real.purge_outbox(request.clone()).await, &twin.purge_outbox(request).await)
            }
            RowsOp::Count(op) => {
                let filter = filter(op);
                agree(&real.count_outbox(&filter).await, &twin.count_outbox(&filter).await)
            }
        }
    }

    /// Returns a claimed row, as the store and as the model returned it. The newest row has the index 0.
    fn nth_claimed(&self, which: u8) -> Option<(ClaimedOutboxRow, ClaimedOutboxRow)> {
        let count = self.claimed.len();
        self.claimed.get(count.checked_sub(1 + usize::from(which) % count.max(1))?).cloned()
    }
}

/// The statuses that filters choose from.
pub(super) const STATUSES: &[OutboxStatus] = OutboxStatus::ALL;

/// Returns a row without its id, which differs between the store and the model.
pub(super) fn plain(row: &OutboxRow) -> OutboxRow {
    let mut row = row.clone();
    row.id = crate::given::id("row");
    row
}

/// Returns the rows of the outbox of a tenant.
pub(super) async fn all(outbox: &dyn OutboxStore) -> store_core::Result<store_core::Page<OutboxRow>> {
    outbox.list_outbox(store_core::OutboxQuery::default().with_page(store_core::PageRequest::first(1_000))).await
}
