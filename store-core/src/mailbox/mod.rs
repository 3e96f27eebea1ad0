//! The mailbox: units of work for threads. They are claimed under a lease, retried after failures, and finished once.

mod machine;
mod map;
mod places;
mod query;
mod record;
mod request;
mod rules;
mod store;
mod stored;

pub(crate) use self::rules::{check_settlement, settlement_digest};
pub use self::{
    machine::{Act, MachineState, next},
    map::{FreePlace, MailboxMap},
    places::{InQueue, Lot, Places, QueueEnds, in_queue, lot, places},
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
        ClaimOne, EnqueueOne, MailboxChange, MailboxPlan, MailboxView, SettleOne, cancel, check_batch, check_claim,
        check_requests, claim, enqueue, enqueue_one, extend, interrupt, is_purgeable, lapse, purge, ready, requeue,
        seen, settle, settle_in_commit, settle_one, start, time,
    },
    store::{MailboxConsumer, MailboxMaintenance, MailboxProducer, MailboxReader, MailboxStore},
    stored::{
        DispatchBody, DispatchState, InterruptRef, Running, StoredAttempt, StoredClaim, StoredDispatch,
        StoredInterrupt, StoredMailbox, TakeOver,
    },
};
