//! Pending input: input that was delivered to a thread and is not yet in its log.

mod record;
mod rules;
mod select;
mod store;

pub(crate) use self::rules::consume;
pub use self::{
    record::{
        AppendPending, AppendedInputs, Boundary, DecisionRecord, Delivery, Granularity, InputRef, NewInput,
        PendingBody, PendingInput, PendingQueue, PendingUpdate, QueueState, Reorder, RunTarget, StoredInput,
    },
    rules::{QueueDecision, QueuePlan, QueueWrite, append, check_append, check_update, reorder, retract, update},
    select::select_inputs,
    store::PendingStore,
};
