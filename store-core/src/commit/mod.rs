//! The commit: one atomic write to a thread.

mod digest;
mod entries;
mod plan;
mod record;
mod shape;
mod state;
mod store;
mod view;

pub use self::{
    plan::{CommitDecision, DecisionContext, Plan, PlannedEntry, plan},
    record::{Commit, CommitKeyRecord, Receipt, StateChange, StateOp, ThreadState},
    shape::check,
    state::StateWrite,
    store::CommitCoordinator,
    view::{CommitView, LogView, NeededKeys, needed_keys},
};
