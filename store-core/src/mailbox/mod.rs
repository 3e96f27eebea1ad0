//! The mailbox: units of work for threads. They are claimed under a lease, retried after failures, and finished once.

mod in_memory;
mod machine;
mod positions;
mod query;
mod record;
mod request;
mod rules;
mod store;
mod stored;

pub(crate) use self::rules::settlement_digest;
pub use self::{
    in_memory::{InMemoryMailbox, ReadyThreadPosition},
    machine::{DispatchAct, DispatchMachineState, next_status},
    positions::{
        QueuePosition, QueueSummary, SupersededBatch, ThreadPositions, queue_position, superseded_batch,
        thread_positions,
    },
    query::{
        DispatchCounts, DispatchFilter, DispatchListKey, DispatchOrder, DispatchQuery, Purge, Purged, ReadyThread,
        Requeue, RequeueChoice,
    },
    record::{
        Attempt, AttemptEnd, ClaimRef, ClaimedDispatch, Dispatch, DispatchClaim, DispatchStatus, NewDispatch,
        Settlement, When,
    },
    request::{
        ClaimRequest, Claims, Enqueued, Interrupt, Interrupted, NotClaimedReason, Reclaimed, Settled, UnreadableThread,
    },
    rules::{
        MailboxDecision, MailboxPlan, MailboxView, PreparedEnqueue, PreparedSettlement, SingleClaim, cancel,
        check_call_limit, check_claim, check_item_count, check_new_dispatch, check_settlement, claim, decision_time,
        end_expired_claim, enqueue, enqueue_prepared, extend, interrupt, is_purgeable, purge, ready_thread, requeue,
        settle, settle_in_commit, settle_prepared, start, visible_dispatch,
    },
    store::{MailboxConsumer, MailboxMaintenance, MailboxProducer, MailboxReader, MailboxStore},
    stored::{
        CurrentClaim, DispatchBody, DispatchState, InterruptRef, StoredAttempt, StoredClaim, StoredDispatch,
        StoredInterrupt, StoredMailboxThread, TakeOver,
    },
};
