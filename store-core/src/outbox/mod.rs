//! The outbox: rows to be delivered to other systems, written by commits and claimed by consumers.

mod lists;
mod query;
mod record;
mod rules;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use self::rules::{check_drafts, plan_rows};
pub use self::{
    lists::{
        OrderGroup, OutboxList, OutboxPosition, OutboxSubset, OutboxTable, OutboxView, positions, put_row, remove_row,
        update_ready_row,
    },
    query::{
        ClaimOutbox, ClaimedOutbox, ClaimedOutboxRow, ExtendOutbox, OutboxChoice, OutboxCounts, OutboxFilter,
        OutboxQuery, PurgeOutbox, RequeueOutbox, Requeued, SettleOutbox,
    },
    record::{
        DEFAULT_OUTBOX_ATTEMPTS, NewOutboxRow, OutboxClaim, OutboxRow, OutboxSettlement, OutboxStatus, StoredOutboxRow,
    },
    rules::{OutboxPlan, claim, extend, purge, requeue, settle},
    store::OutboxStore,
};
