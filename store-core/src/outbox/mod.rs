//! The outbox: rows to be delivered to other systems, written by commits and claimed by consumers.

mod query;
mod record;
mod rows;
mod rules;
mod store;
#[cfg(test)]
mod tests;

pub(crate) use self::rules::{check_shape, plan_rows};
pub use self::{
    query::{
        ClaimOutbox, ClaimedOutbox, ClaimedOutboxRow, ExtendOutbox, OutboxChoice, OutboxCounts, OutboxFilter,
        OutboxQuery, PurgeOutbox, RequeueOutbox, Requeued, SettleOutbox,
    },
    record::{NewOutboxRow, OUTBOX_ATTEMPTS, OutboxClaim, OutboxRow, OutboxSettlement, OutboxStatus, StoredOutboxRow},
    rows::{
        OrderGroup, OutboxList, OutboxPosition, OutboxRows, OutboxScope, OutboxTable, positions, put, remove,
        update_ready_row,
    },
    rules::{OutboxPlan, claim, extend, purge, requeue, settle},
    store::OutboxStore,
};
