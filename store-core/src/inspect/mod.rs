//! Checks of what is stored, and repairs of what can be derived (VF-1, VF-5).

mod record;
mod replay;
mod rules;
mod store;

pub use self::{
    record::{Finding, FindingKind, Inspection, Repairable},
    rules::{Checked, ThreadRecords, check_thread},
    store::Inspector,
};
