//! The mailbox: units of work for threads. They are claimed under a lease, retried after failures, and finished once.

mod machine;
mod map;
mod positions;
mod query;
mod record;
mod request;
mod rules;
mod store;
mod stored;

pub(crate) use self::rules::{check_settlement, settlement_digest};
pub use self::{
    machine::{Act, MachineState, next_status},
    map::{FreePosition, MailboxMap},
    positions::{
        QueuePosition, QueueSummary, SupersededBatch, ThreadPositions, queue_position, superseded_batch,
        thread_positions,
    },
    query::{
        DispatchCounts, DispatchFilter, DispatchOrder, DispatchQuery, DispatchScope, Purge, Purged, ReadyThread,
        Requeue, RequeueChoice,
    },
    record::{
        Attempt, AttemptEnd, ClaimRef, ClaimedDispatch, Dispatch, DispatchClaim, DispatchStatus, NewDispatch,
        Settlement, When,
    },
    request::{ClaimRequest, Claims, Enqueued, Interrupt, Interrupted, Missed, Reclaimed, Settled, Unreadable},
    rules::{
        MailboxChange, MailboxPlan, MailboxView, PreparedEnqueue, PreparedSettlement, SingleClaim, cancel, check_batch,
        check_claim, check_requests, claim, decision_time, enqueue, enqueue_prepared, extend, interrupt, is_purgeable,
        lapse, purge, ready_thread, requeue, settle, settle_in_commit, settle_prepared, start, visible_dispatch,
    },
    store::{MailboxConsumer, MailboxMaintenance, MailboxProducer, MailboxReader, MailboxStore},
    stored::{
        CurrentClaim, DispatchBody, DispatchState, InterruptRef, StoredAttempt, StoredClaim, StoredDispatch,
        StoredInterrupt, StoredMailbox, TakeOver,
    },
};
