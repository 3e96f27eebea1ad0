//! Checks of stored data, and repairs of what can be derived from other records (VF-1, VF-5).

mod document;
mod record;
mod replay;
mod rules;
mod store;

pub use self::{
    document::check_document,
    record::{Finding, FindingKind, Inspection, Note, RepairStatus},
    rules::{ThreadCheckResult, ThreadRecords, check_thread},
    store::Inspector,
};
pub use crate::layers::blob::{BlobCheckResult, check_blobs};
