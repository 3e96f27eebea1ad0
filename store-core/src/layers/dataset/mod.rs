//! Datasets: cases to evaluate agents with, in versions that never change (TR-2, TR-3).

mod keys;
mod record;
mod recorded;
mod request;
mod rules;
mod store;

pub(super) use self::{
    keys::record_in,
    record::{CaseRow, hash_of},
};
pub use self::{
    record::{
        CaseContent, CaseOrigin, CaseOutcome, Dataset, DatasetCase, DatasetVersion, DatasetVersionContent,
        DatasetVersionRef, RecordedCall,
    },
    recorded::{RecordedRun, case_of_run},
    request::{CaseChange, ChangeDataset, ChangedDataset},
    store::{DatasetLayer, DatasetStore},
};
