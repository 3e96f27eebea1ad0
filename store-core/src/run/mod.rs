//! Runs: executions of agents on threads.

mod query;
mod record;
mod rules;
mod store;

pub use self::{
    query::{RunFilter, RunListKey, RunQuery},
    record::{
        Completion, EntryRange, Run, RunChange, RunOutcome, RunPhase, RunStatus, Ticket, WaitingReason, WaitingState,
    },
    rules::{RunContext, change},
    store::RunReader,
};
