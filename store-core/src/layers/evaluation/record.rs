//! Evaluation runs and their results.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::Serialize;

use super::keys::{self, decode};
use crate::{
    codec::{Codec, DecodeError, Extra, named_enum, record, serde_by_codec},
    document::Document,
    error::{Error, Result},
    id::{CaseId, CellId, DatasetId, EvaluationId, PublicationId, RunId, ThreadId},
    json::Json,
    layers::dataset::DatasetVersionRef,
    time::Timestamp,
};

/// The maximum length of the name of a cell, in bytes. With it, the key of every result fits, whatever the ids.
pub const MAX_CELL_BYTES: usize = 64;
/// The maximum number of results that a case may have: the number of cells, multiplied by the samples of each.
pub const MAX_RESULTS_OF_CASE: u64 = 1_000;

/// What is varied in an evaluation run: a name, and the parameters for which it stands, such as a model or a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cell {
    /// The name, of at most [`MAX_CELL_BYTES`].
    pub name: CellId,
    /// The parameters.
    pub parameters: Json,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(Cell { name: req, parameters: req });

impl Cell {
    /// Makes a cell.
    #[must_use]
    pub fn new(name: CellId, parameters: Json) -> Self {
        Self { name, parameters, extra: Extra::default() }
    }
}

/// How far an evaluation run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EvaluationStatus {
    /// Results are missing, or the run was not ended yet.
    Running,
    /// It has ended with all results.
    Completed,
    /// It has ended without all results.
    Abandoned,
}

named_enum!(EvaluationStatus as "evaluation status" {
    Running = "running",
    Completed = "completed",
    Abandoned = "abandoned",
});

/// An evaluation run, without its results. All fields but the last ones are fixed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// The id.
    pub id: EvaluationId,
    /// The version of the dataset.
    pub dataset: DatasetVersionRef,
    /// The publication of the registry that was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<PublicationId>,
    /// What is varied, in the order of the names.
    pub cells: Vec<Cell>,
    /// The number of results for each case and cell.
    pub samples: u32,
    /// The number of cases of the version.
    pub cases: u64,
    /// What was noted with the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Json>,
    /// How far it is.
    pub status: EvaluationStatus,
    /// Whether a person has pinned it: no purge removes it.
    pub pinned: bool,
    /// When it was created; set by the store.
    pub created_at: Timestamp,
    /// When it was created, ended, pinned or unpinned last; set by the store.
    pub updated_at: Timestamp,
    /// The revision of its document.
    #[serde(skip)]
    pub(super) revision: u64,
    /// Fields that a newer release wrote.
    #[serde(skip)]
    pub extra: Extra,
}

impl Evaluation {
    /// Returns the number of results of each case.
    #[must_use]
    pub fn results_of_case(&self) -> u64 {
        u64::try_from(self.cells.len()).unwrap_or(u64::MAX).saturating_mul(self.samples.into())
    }

    /// Returns the number of all results.
    #[must_use]
    pub fn expected_results(&self) -> u64 {
        self.cases.saturating_mul(self.results_of_case())
    }

    pub(super) fn stored(&self) -> StoredEvaluation {
        let DatasetVersionRef { dataset, version } = self.dataset.clone();
        StoredEvaluation {
            dataset,
            version,
            manifest: self.manifest.clone(),
            cells: self.cells.clone(),
            samples: self.samples,
            cases: self.cases,
            metadata: self.metadata.clone(),
            status: self.status,
            pinned: self.pinned,
            removing: false,
            extra: self.extra.clone(),
        }
    }

    /// Reads an evaluation run; none if a purge is removing it.
    pub(super) fn from_document(document: &Document) -> Result<Option<Self>> {
        let stored: StoredEvaluation = decode(document)?;
        let StoredEvaluation { dataset, version, manifest, cells, samples, cases, metadata, status, .. } = stored;
        let StoredEvaluation { pinned, removing, extra, .. } = stored;
        Ok((!removing).then_some(Self {
            id: keys::evaluation_of(document)?,
            dataset: DatasetVersionRef::new(dataset, version),
            manifest,
            cells,
            samples,
            cases,
            metadata,
            status,
            pinned,
            created_at: document.created_at,
            updated_at: document.updated_at,
            revision: document.revision,
            extra,
        }))
    }
}

/// What is stored of an evaluation run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredEvaluation {
    pub(super) dataset: DatasetId,
    version: u64,
    manifest: Option<PublicationId>,
    cells: Vec<Cell>,
    samples: u32,
    cases: u64,
    metadata: Option<Json>,
    pub(super) status: EvaluationStatus,
    pub(super) pinned: bool,
    /// Whether a purge is removing it. From then on it cannot be seen any more.
    pub(super) removing: bool,
    extra: Extra,
}

record!(StoredEvaluation {
    dataset: req,
    version: req,
    manifest: opt,
    cells: req,
    samples: req,
    cases: req,
    metadata: opt,
    status: req,
    pinned: def,
    removing: def,
});

impl StoredEvaluation {
    /// Returns the same run as one that a purge is removing.
    pub(super) fn hidden(self) -> Self {
        Self { removing: true, ..self }
    }
}

/// Names a result of an evaluation run. Results are ordered by case, cell and sample.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[non_exhaustive]
pub struct ResultKey {
    /// The case.
    pub case: CaseId,
    /// The cell.
    pub cell: CellId,
    /// The number of the sample, from 1.
    pub sample: u32,
}

impl ResultKey {
    /// Names a result.
    #[must_use]
    pub const fn new(case: CaseId, cell: CellId, sample: u32) -> Self {
        Self { case, cell, sample }
    }
}

impl fmt::Display for ResultKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.case, self.cell, self.sample)
    }
}

/// How good a result is: a number, more is better.
///
/// The spelling is kept. The number must be within the range of a double, with which scores are compared.
///
/// ```
/// use store_core::{Json, Score};
///
/// let score = Score::new(Json::parse("0.50")?)?;
/// assert!(score > "0.25".parse()? && score.to_string() == "0.50" && score != "0.5".parse()?);
/// assert!(Score::new(Json::parse("\"good\"")?).is_err());
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Score(Json);

impl Score {
    /// Takes a JSON number as a score.
    ///
    /// # Errors
    /// `Invalid` for any other value, and for a number outside of the range of a double.
    pub fn new(number: Json) -> Result<Self> {
        let is_number = number.as_str().starts_with(|c: char| c == '-' || c.is_ascii_digit());
        match number.as_str().parse::<f64>() {
            Ok(value) if is_number && value.is_finite() => Ok(Self(number)),
            _ => Err(Error::invalid("score", "it is not a number within the range of a double")),
        }
    }

    /// Returns the number as a double.
    #[must_use]
    pub fn as_f64(&self) -> f64 {
        self.0.as_str().parse().unwrap_or_default()
    }
}

impl PartialOrd for Score {
    /// Compares the numbers; equal numbers with another spelling have no order.
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let order = self.as_f64().partial_cmp(&other.as_f64())?;
        (order != Ordering::Equal || self == other).then_some(order)
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Score {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(Json::parse(text)?)
    }
}

impl Codec for Score {
    fn write(&self, out: &mut String) {
        self.0.write(out);
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        Self::new(Json::read(raw)?).map_err(|_| DecodeError::new("is not a score"))
    }
}

serde_by_codec!(Score);

/// A result of an evaluation run, without its output. It never changes (TR-4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EvaluationResult {
    /// The name.
    pub key: ResultKey,
    /// What is stored.
    pub content: ResultContent,
    /// When it was recorded; set by the store.
    pub created_at: Timestamp,
}

impl EvaluationResult {
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        let (key, content) = (keys::result_key_of(document)?, decode(document)?);
        Ok(Self { key, content, created_at: document.created_at })
    }

    /// Returns whether the agent gave no result.
    #[must_use]
    pub const fn is_failed(&self) -> bool {
        self.content.error.is_some()
    }
}

/// What is stored of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResultContent {
    /// The hash of the case.
    pub case_hash: String,
    /// How good the result is.
    pub score: Option<Score>,
    /// Why there is no result; a result with this field is failed.
    pub error: Option<String>,
    /// The hash of the output, if there is one.
    pub output_hash: Option<String>,
    /// The thread in which the agent worked.
    pub thread: Option<ThreadId>,
    /// The run of the agent.
    pub run: Option<RunId>,
    /// What was noted with the result.
    pub metadata: Option<Json>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(ResultContent {
    case_hash: req,
    score: opt,
    error: opt,
    output_hash: opt,
    thread: opt,
    run: opt,
    metadata: opt,
});
