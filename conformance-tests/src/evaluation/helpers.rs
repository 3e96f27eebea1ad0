//! Helpers that create evaluation runs and record results.

use std::sync::Arc;

use store_core::{
    CellComparison, Evaluation, EvaluationEnd, EvaluationReaderExt, EvaluationResult, EvaluationStore, Json,
    MissingResult, NewEvaluation, NewResult, PageRequest, ResultKey, ResultQuery,
};

use crate::{
    Failure, Given, Verdict,
    check::expect_eq,
    dataset::helpers::{change, put},
    given::{id, read_all_pages},
};

/// The evaluation runs of the tenant `default`.
pub(super) fn evaluations(given: &Given) -> Result<Arc<dyn EvaluationStore>, Failure> {
    Ok(given.fixture().evaluations(&given.stores()?)?)
}

/// Makes a version of the dataset `d` with these cases.
pub(super) async fn add_cases(given: &Given, cases: &[&str]) -> Verdict {
    change(given, "d", cases.iter().map(|case| put(case, "1"))).await.map(drop)
}

/// A request for a run over the current version of the dataset `d`, with these cells.
pub(super) fn new(name: &str, cells: &[&str]) -> NewEvaluation {
    let new = NewEvaluation::new(id(name), id("d"));
    cells.iter().fold(new, |new, cell| new.cell(id(cell), Json::of(cell).expect("valid JSON")))
}

/// Creates a run over the current version of the dataset `d`.
pub(super) async fn create(given: &Given, name: &str, cells: &[&str], samples: u32) -> Result<Evaluation, Failure> {
    Ok(evaluations(given)?.create_evaluation(new(name, cells).with_samples(samples)).await?)
}

/// The name `CASE/CELL/SAMPLE` of a result.
pub(super) fn key(text: &str) -> ResultKey {
    let parts: Vec<_> = text.split('/').collect();
    ResultKey::new(id(parts[0]), id(parts[1]), parts[2].parse().expect("a number"))
}

/// The result `CASE/CELL/SAMPLE=SCORE`: the score is a number, `-` for none, or `failed`. Its output is the score.
pub(super) fn new_result(text: &str) -> NewResult {
    let (name, score) = text.split_once('=').unwrap_or((text, "-"));
    match score {
        "failed" => NewResult::failed(key(name), "exit code 1"),
        "-" => NewResult::new(key(name)),
        score => NewResult::new(key(name))
            .scored(score.parse().expect("a score"))
            .with_output(Json::parse(score).expect("valid JSON")),
    }
}

/// Records results.
pub(super) async fn record(given: &Given, name: &str, results: &[&str]) -> Verdict {
    for text in results {
        evaluations(given)?.record_result(&id(name), new_result(text)).await?;
    }
    Ok(())
}

/// Creates a run with one cell `x`, and records one result for each of the cases.
pub(super) async fn run_with(given: &Given, name: &str, results: &[&str]) -> Verdict {
    create(given, name, &["x"], 1).await?;
    record(given, name, results).await
}

/// Ends a run.
pub(super) async fn end(given: &Given, name: &str, end: EvaluationEnd) -> Result<Evaluation, Failure> {
    Ok(evaluations(given)?.end_evaluation(&id(name), end).await?)
}

/// The results that a run does not have, read in pages of this size.
pub(super) async fn missing(given: &Given, name: &str, limit: u32) -> Result<Vec<MissingResult>, Failure> {
    let (store, name) = (&evaluations(given)?, &id(name));
    read_all_pages(PageRequest::first(limit), |page| store.list_missing(name, page)).await
}

/// Checks the names of the results that a run does not have: `a/x/1 b/x/1`.
pub(super) async fn expect_missing(given: &Given, name: &str, expected: &str) -> Verdict {
    for limit in [1, 2, 3, 1_000] {
        let names: Vec<_> = missing(given, name, limit).await?.iter().map(|missing| missing.key.to_string()).collect();
        expect_eq((limit, names.join(" ")), (limit, expected.to_owned()))?;
    }
    Ok(())
}

/// All results of a run, read in small pages.
pub(super) async fn results(given: &Given, name: &str) -> Result<Vec<EvaluationResult>, Failure> {
    let (store, query) = (&evaluations(given)?, ResultQuery::new(id(name)));
    read_all_pages(PageRequest::first(2), |page| store.list_results(query.clone().with_page(page))).await
}

/// Names and scores of all results of a run: `a/x/1=0.5 b/x/1=failed`.
pub(super) async fn expect_results(given: &Given, name: &str, expected: &str) -> Verdict {
    let text = |result: &EvaluationResult| {
        let score = result.content.score.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        format!("{}={}", result.key, if result.is_failed() { "failed" } else { &score })
    };
    let found = results(given, name).await?;
    expect_eq(found.iter().map(text).collect::<Vec<_>>().join(" "), expected.to_owned())
}

/// Two runs, compared in pages of this size.
pub(super) async fn compare(
    given: &Given,
    before: &str,
    after: &str,
    limit: u32,
) -> Result<Vec<CellComparison>, Failure> {
    let (store, before, after) = (&evaluations(given)?, &id(before), &id(after));
    read_all_pages(PageRequest::first(limit), |page| store.compare_evaluations(before, after, page)).await
}

/// Checks what became of each case and cell: `a/x better, b/x missing`. `case` and `output` say what changed.
pub(super) async fn expect_compared(given: &Given, before: &str, after: &str, expected: &str) -> Verdict {
    let text = |compared: &CellComparison| {
        let case = if compared.case_changed { " case" } else { "" };
        let output = if compared.outputs_changed { " output" } else { "" };
        format!("{}/{} {}{case}{output}", compared.case, compared.cell, compared.verdict)
    };
    let compared = compare(given, before, after, 100).await?;
    expect_eq(compared.iter().map(text).collect::<Vec<_>>().join(", "), expected.to_owned())
}
