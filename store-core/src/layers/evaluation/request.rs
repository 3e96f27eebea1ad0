//! Requests about evaluation runs, and their results.

use serde::Serialize;

use super::record::{Cell, EvaluationStatus, ResultKey, Score};
use crate::{
    id::{CaseId, CellId, DatasetId, EvaluationId, PublicationId, RunId, ThreadId},
    json::Json,
    page::PageRequest,
    time::Timestamp,
};

/// An evaluation run to be created (TR-4).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewEvaluation {
    /// The id.
    pub id: EvaluationId,
    /// The dataset.
    pub dataset: DatasetId,
    /// The version of the dataset; if absent, the one that is the current one when the run is created.
    pub version: Option<u64>,
    /// The publication of the registry that is tested.
    pub manifest: Option<PublicationId>,
    /// What is varied, each cell with another name. Without any, there is one cell `default` without parameters.
    pub cells: Vec<Cell>,
    /// The number of results for each case and cell, from 1.
    pub samples: u32,
    /// What to note with the run.
    pub metadata: Option<Json>,
}

impl NewEvaluation {
    /// Requests an evaluation run over the current version of a dataset, with one sample.
    #[must_use]
    pub const fn new(id: EvaluationId, dataset: DatasetId) -> Self {
        Self { id, dataset, version: None, manifest: None, cells: Vec::new(), samples: 1, metadata: None }
    }

    /// Sets the version of the dataset.
    #[must_use]
    pub const fn of_version(mut self, version: u64) -> Self {
        self.version = Some(version);
        self
    }

    /// Sets the publication of the registry that is tested.
    #[must_use]
    pub fn testing(mut self, manifest: PublicationId) -> Self {
        self.manifest = Some(manifest);
        self
    }

    /// Adds a cell.
    #[must_use]
    pub fn cell(mut self, name: CellId, parameters: Json) -> Self {
        self.cells.push(Cell::new(name, parameters));
        self
    }

    /// Sets the number of results for each case and cell.
    #[must_use]
    pub const fn with_samples(mut self, samples: u32) -> Self {
        self.samples = samples;
        self
    }

    /// Sets what to note with the run.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Json) -> Self {
        self.metadata = Some(metadata);
        self
    }
}

/// A result to be recorded (TR-4).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewResult {
    /// The name.
    pub key: ResultKey,
    /// What the agent gave.
    pub output: Option<Json>,
    /// How good it is.
    pub score: Option<Score>,
    /// Why there is no result. A failed result has no score.
    pub error: Option<String>,
    /// The thread in which the agent worked. It may be deleted later.
    pub thread: Option<ThreadId>,
    /// The run of the agent.
    pub run: Option<RunId>,
    /// What to note with the result.
    pub metadata: Option<Json>,
}

impl NewResult {
    /// Makes a result with nothing but its name.
    #[must_use]
    pub const fn new(key: ResultKey) -> Self {
        Self { key, output: None, score: None, error: None, thread: None, run: None, metadata: None }
    }

    /// Makes a failed result.
    #[must_use]
    pub fn failed(key: ResultKey, error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::new(key) }
    }

    /// Sets what the agent gave.
    #[must_use]
    pub fn with_output(mut self, output: Json) -> Self {
        self.output = Some(output);
        self
    }

    /// Sets how good it is.
    #[must_use]
    pub fn scored(mut self, score: Score) -> Self {
        self.score = Some(score);
        self
    }

    /// Sets the run in which the agent worked, and its thread.
    #[must_use]
    pub fn of_run(mut self, thread: ThreadId, run: RunId) -> Self {
        (self.thread, self.run) = (Some(thread), Some(run));
        self
    }

    /// Sets what to note with the result.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Json) -> Self {
        self.metadata = Some(metadata);
        self
    }
}

/// A result that an evaluation run does not have yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MissingResult {
    /// Its name.
    pub key: ResultKey,
    /// The hash of the case.
    pub case_hash: String,
}

/// A query for the results of an evaluation run, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultQuery {
    /// The evaluation run.
    pub evaluation: EvaluationId,
    /// Only results that come after all those of this case and cell.
    pub after: Option<(CaseId, CellId)>,
    /// Which page to return.
    pub page: PageRequest,
}

impl ResultQuery {
    /// Makes a query for all results of an evaluation run.
    #[must_use]
    pub const fn new(evaluation: EvaluationId) -> Self {
        Self { evaluation, after: None, page: PageRequest { limit: None, cursor: None } }
    }

    /// Restricts the list to results that come after all those of a case and cell.
    #[must_use]
    pub fn after(mut self, case: CaseId, cell: CellId) -> Self {
        self.after = Some((case, cell));
        self
    }

    /// Sets the page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }
}

/// How an evaluation run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EvaluationEnd {
    /// With all results.
    Completed,
    /// Before it has all results.
    Abandoned,
}

impl EvaluationEnd {
    /// Returns the status after this end.
    #[must_use]
    pub const fn status(self) -> EvaluationStatus {
        match self {
            Self::Completed => EvaluationStatus::Completed,
            Self::Abandoned => EvaluationStatus::Abandoned,
        }
    }
}

/// Which evaluation runs are removed: those that have ended, are not pinned, and that neither `before` nor
/// `keep_newest` keeps (TR-6).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PurgeEvaluations {
    /// Only runs that were created, ended, pinned and unpinned before this time; of any age if absent.
    pub before: Option<Timestamp>,
    /// How many of the runs of each dataset stay that were created last, whatever their status.
    pub keep_newest: u64,
    /// The only dataset whose runs are removed; all datasets if absent.
    pub dataset: Option<DatasetId>,
    /// Whether to report the runs without removing them.
    pub dry_run: bool,
}

impl PurgeEvaluations {
    /// Requests the removal of all runs that have ended before a time.
    #[must_use]
    pub fn before(time: Timestamp) -> Self {
        Self { before: Some(time), ..Self::default() }
    }

    /// Requests the removal of all runs that have ended, except the newest ones of each dataset.
    #[must_use]
    pub fn keeping_newest(keep_newest: u64) -> Self {
        Self { keep_newest, ..Self::default() }
    }

    /// Restricts the request to one dataset.
    #[must_use]
    pub fn of(mut self, dataset: DatasetId) -> Self {
        self.dataset = Some(dataset);
        self
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// The result of a removal of evaluation runs or of a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
#[non_exhaustive]
pub struct PurgedEvaluations {
    /// The runs that were removed, or would be.
    pub evaluations: Vec<EvaluationId>,
    /// Whether the removal was stopped before its end.
    pub stopped: bool,
}
