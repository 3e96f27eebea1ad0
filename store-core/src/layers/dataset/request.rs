//! Requests to change datasets, and their results.

use serde::Serialize;

use super::record::{CaseContent, DatasetVersionRef};
use crate::{
    id::{CaseId, DatasetId},
    json::Json,
};

/// A change of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseChange {
    /// A case that the dataset does not have.
    Add(CaseId, CaseContent),
    /// Another content of a case that the dataset has.
    Replace(CaseId, CaseContent),
    /// The content of a case, whether the dataset has the case or not.
    Put(CaseId, CaseContent),
    /// The removal of a case that the dataset has. Earlier versions keep it.
    Remove(CaseId),
}

impl CaseChange {
    /// Returns the id of the case.
    #[must_use]
    pub const fn case(&self) -> &CaseId {
        match self {
            Self::Add(case, _) | Self::Replace(case, _) | Self::Put(case, _) | Self::Remove(case) => case,
        }
    }

    pub(super) const fn content(&self) -> Option<&CaseContent> {
        match self {
            Self::Add(_, content) | Self::Replace(_, content) | Self::Put(_, content) => Some(content),
            Self::Remove(_) => None,
        }
    }
}

/// A request for the next version of a dataset (TR-3).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeDataset {
    /// The dataset. It is made with its first version.
    pub dataset: DatasetId,
    /// The changes, each of another case.
    pub changes: Vec<CaseChange>,
    /// The number that the current version must have; 0 if the dataset must not exist.
    pub expect_version: Option<u64>,
    /// Who makes the version.
    pub by: Option<String>,
    /// What to note with the version.
    pub metadata: Option<Json>,
}

impl ChangeDataset {
    /// Requests changes of a dataset, whatever its current version is.
    #[must_use]
    pub fn new(dataset: DatasetId, changes: impl IntoIterator<Item = CaseChange>) -> Self {
        let changes = changes.into_iter().collect();
        Self { dataset, changes, expect_version: None, by: None, metadata: None }
    }

    /// Sets the number that the current version must have; 0 if the dataset must not exist.
    #[must_use]
    pub const fn expecting_version(mut self, version: u64) -> Self {
        self.expect_version = Some(version);
        self
    }

    /// Sets who makes the version.
    #[must_use]
    pub fn by(mut self, by: impl Into<String>) -> Self {
        self.by = Some(by.into());
        self
    }
}

/// The result of a change of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ChangedDataset {
    /// The version that has the requested cases now.
    pub version: DatasetVersionRef,
    /// Whether the version is new. If not, the current version already had these cases, and nothing was written.
    pub created: bool,
    /// The number of cases that were added.
    pub added: u64,
    /// The number of cases that got another content.
    pub replaced: u64,
    /// The number of cases that were removed.
    pub removed: u64,
}
