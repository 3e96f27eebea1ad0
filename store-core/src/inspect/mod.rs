//! Checks of stored data, and repairs of what can be derived from other records (VF-1, VF-5).

mod record;
mod replay;
mod rules;
mod store;

pub use self::{
    record::{Finding, FindingKind, Inspection, Note, RepairStatus},
    rules::{ThreadCheckResult, ThreadRecords, check_thread},
    store::Inspector,
};
