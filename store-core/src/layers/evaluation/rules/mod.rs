//! The rules of evaluation runs: what is created, which results there can be, how a run ends.

use super::{
    keys::{self, OUTPUTS, RESULTS},
    record::{
        Cell, Evaluation, EvaluationResult, EvaluationStatus, MAX_CELL_BYTES, MAX_RESULTS_OF_CASE, ResultContent,
        ResultKey,
    },
    request::{EvaluationEnd, NewEvaluation, NewResult},
};
use crate::{
    codec::Extra,
    document::{DocumentChange, DocumentExpect},
    error::{Error, Result},
    id::CellId,
    json::Json,
    layers::{dataset::DatasetVersion, encoded},
    limits::{check_limit, length},
    time::Timestamp,
};

/// Checks a request and returns it with its cells in the order of their names, and with the cell `default` if it has
/// none.
///
/// # Errors
/// In this order: `LimitExceeded` for a long name of a cell; `Invalid` for a cell that is named twice and for no
/// sample; `LimitExceeded` for more than [`MAX_RESULTS_OF_CASE`].
pub(super) fn checked(mut new: NewEvaluation) -> Result<NewEvaluation> {
    if new.cells.is_empty() {
        new.cells.push(Cell::new(CellId::new("default")?, Json::parse("{}")?));
    }
    for cell in &new.cells {
        check_limit("bytes of the name of a cell", length(cell.name.as_str().len()), length(MAX_CELL_BYTES))?;
    }
    new.cells.sort_by(|left, right| left.name.cmp(&right.name));
    let twice = new.cells.iter().zip(new.cells.iter().skip(1)).find(|(left, right)| left.name == right.name);
    if let Some((cell, _)) = twice {
        return Err(Error::invalid("cells", format!("cell `{}` is named twice", cell.name)));
    }
    if new.samples == 0 {
        return Err(Error::invalid("samples", "it must be 1 or more"));
    }
    let results = length(new.cells.len()).saturating_mul(new.samples.into());
    check_limit("results of a case", results, MAX_RESULTS_OF_CASE)?;
    Ok(new)
}

/// Returns the evaluation run that a checked request creates over a version.
pub(super) fn created(new: &NewEvaluation, version: &DatasetVersion) -> Evaluation {
    let NewEvaluation { id, manifest, cells, samples, metadata, .. } = new.clone();
    Evaluation {
        id,
        dataset: version.name.clone(),
        manifest,
        cells,
        samples,
        cases: version.content.cases,
        metadata,
        status: EvaluationStatus::Running,
        pinned: false,
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
        revision: 0,
        extra: Extra::default(),
    }
}

/// Checks that an evaluation run is what a checked request asks for, so that the caller goes on with it (TR-4).
///
/// # Errors
/// `AlreadyExists` if it is another one.
pub(super) fn check_same(new: &NewEvaluation, found: &Evaluation) -> Result<()> {
    let is_version = new.version.is_none_or(|version| version == found.dataset.version);
    let is_same = new.dataset == found.dataset.dataset
        && is_version
        && new.manifest == found.manifest
        && new.cells == found.cells
        && new.samples == found.samples
        && new.metadata == found.metadata;
    if is_same { Ok(()) } else { Err(Error::already_exists("evaluation", &found.id)) }
}

/// Returns the change that writes an evaluation run over what was found.
pub(super) fn put(evaluation: &Evaluation, expect: DocumentExpect) -> Result<DocumentChange> {
    let put = DocumentChange::put(keys::evaluation(&evaluation.id)?, encoded(&evaluation.stored())?);
    Ok(put.expecting(expect))
}

/// Returns the names of the results of a case, in their order.
pub(super) fn results_of_case<'a>(
    evaluation: &'a Evaluation,
    case: &'a crate::id::CaseId,
) -> impl Iterator<Item = ResultKey> + 'a {
    let of_cell = move |cell: &'a Cell| {
        (1..=evaluation.samples).map(move |sample| ResultKey::new(case.clone(), cell.name.clone(), sample))
    };
    evaluation.cells.iter().flat_map(of_cell)
}

/// Checks the name of a result, apart from its case.
///
/// # Errors
/// `Invalid` for a failed result with a score; `NotFound` for a cell or a sample that the run does not have.
pub(super) fn check_result(evaluation: &Evaluation, new: &NewResult) -> Result<()> {
    if new.error.is_some() && new.score.is_some() {
        return Err(Error::invalid("result", "it is failed, but has a score"));
    }
    let has_cell = evaluation.cells.iter().any(|cell| cell.name == new.key.cell);
    if !has_cell || !(1..=evaluation.samples).contains(&new.key.sample) {
        return Err(Error::not_found("result", new.key.to_string()).in_part("key"));
    }
    Ok(())
}

/// Returns what is stored of a result of a case with this hash.
pub(super) fn content_of(new: &NewResult, case_hash: &str) -> ResultContent {
    let NewResult { output, score, error, thread, run, metadata, .. } = new.clone();
    let output_hash = output.map(|output| crate::layers::dataset::hash_of(output.as_str()));
    let (case_hash, extra) = (case_hash.to_owned(), Extra::default());
    ResultContent { case_hash, score, error, output_hash, thread, run, metadata, extra }
}

/// Checks that a stored result is the one to be recorded, so that nothing needs to be written (TR-4).
///
/// # Errors
/// `AlreadyExists` if it is another one.
pub(super) fn check_same_result(new: &NewResult, found: &EvaluationResult) -> Result<()> {
    let is_same = content_of(new, &found.content.case_hash) == found.content;
    if is_same { Ok(()) } else { Err(Error::already_exists("result", new.key.to_string())) }
}

/// Returns the changes that record a result, in a run that goes on as long as nothing of it has changed.
///
/// # Errors
/// `InvalidTransition` if the run has ended.
pub(super) fn plan_result(
    evaluation: &Evaluation,
    new: &NewResult,
    content: &ResultContent,
) -> Result<Vec<DocumentChange>> {
    let Evaluation { id, status, revision, .. } = evaluation;
    if *status != EvaluationStatus::Running {
        return Err(Error::invalid_transition("evaluation", id, status.name(), "another result"));
    }
    let result = DocumentChange::put(keys::of_result(RESULTS, id, &new.key)?, encoded(content)?);
    let mut changes = vec![
        DocumentChange::check(keys::evaluation(id)?, DocumentExpect::Revision(*revision)),
        result.expecting(DocumentExpect::Absent),
    ];
    if let Some(output) = &new.output {
        changes.push(DocumentChange::put(keys::of_result(OUTPUTS, id, &new.key)?, output.clone()));
    }
    Ok(changes)
}

/// Decides how a run ends that has a number of results; none if it has already ended like this.
///
/// # Errors
/// `InvalidTransition` if it has ended otherwise, and for a completion while results are missing.
pub(super) fn plan_end(evaluation: &Evaluation, end: EvaluationEnd, results: u64) -> Result<Option<Evaluation>> {
    let Evaluation { id, status, .. } = evaluation;
    if *status == end.status() {
        return Ok(None);
    }
    let missing = evaluation.expected_results().saturating_sub(results);
    let refused = |to: String| Err(Error::invalid_transition("evaluation", id, status.name(), to));
    match (status, end) {
        (EvaluationStatus::Running, EvaluationEnd::Completed) if missing > 0 => {
            refused(format!("completed while {missing} results are missing"))
        }
        (EvaluationStatus::Running, _) => Ok(Some(Evaluation { status: end.status(), ..evaluation.clone() })),
        _ => refused(end.status().name().to_owned()),
    }
}

#[cfg(test)]
mod tests;
