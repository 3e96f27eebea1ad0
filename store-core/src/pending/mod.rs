//! Pending input: input that was delivered to a thread and is not yet in its log.

mod record;
mod rules;
mod select;
mod store;

pub(crate) use self::rules::{check, consume};
pub use self::{
    record::{
        AppendPending, Appended, Boundary, DecisionRecord, Delivery, Granularity, InputRef, NewInput, PendingBody,
        PendingInput, PendingQueue, PendingUpdate, QueueState, Reorder, StoredInput, Target,
    },
    rules::{QueueChange, QueuePlan, QueueWrite, append, reorder, retract, update},
    select::select,
    store::PendingStore,
};
