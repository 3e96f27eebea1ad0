//! The commit: one atomic write to a thread.

mod digest;
mod entries;
mod plan;
mod record;
mod state;
mod store;
mod view;
mod well_formed;

pub use self::{
    plan::{CommitDecision, DecisionContext, Plan, PlannedEntry, plan},
    record::{Commit, CommitKeyRecord, Receipt, StateChange, StateOp, ThreadState},
    state::StateWrite,
    store::CommitCoordinator,
    view::{CommitView, LogView, NeededKeys, needed_keys},
    well_formed::check,
};
