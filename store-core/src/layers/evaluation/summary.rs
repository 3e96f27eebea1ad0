//! What the results of an evaluation run are in all.

use std::collections::BTreeMap;

use serde::Serialize;

use super::record::EvaluationResult;
use crate::id::CellId;

/// The results of an evaluation run in all, and for each cell. It is made by a pure function of the results.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[non_exhaustive]
pub struct EvaluationSummary {
    /// The number of results.
    pub results: u64,
    /// How many of them are failed.
    pub failed: u64,
    /// The same for each cell that has results, in the order of the names.
    pub cells: BTreeMap<CellId, CellSummary>,
}

/// The results of a cell in all.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
#[non_exhaustive]
pub struct CellSummary {
    /// The number of results.
    pub results: u64,
    /// How many of them are failed.
    pub failed: u64,
    /// How many of them have a score.
    pub scored: u64,
    /// The mean of the scores, as a double.
    pub mean: Option<f64>,
    /// The lowest score.
    pub lowest: Option<f64>,
    /// The highest score.
    pub highest: Option<f64>,
    #[serde(skip)]
    sum: f64,
}

impl EvaluationSummary {
    /// Counts a result. In the same order, the same results always give the same summary.
    pub fn add(&mut self, result: &EvaluationResult) {
        let failed = u64::from(result.is_failed());
        self.results += 1;
        self.failed += failed;
        let cell = self.cells.entry(result.key.cell.clone()).or_default();
        cell.results += 1;
        cell.failed += failed;
        let Some(score) = result.content.score.as_ref().map(super::record::Score::as_f64) else { return };
        cell.scored += 1;
        cell.sum += score;
        cell.mean = Some(cell.sum / as_f64(cell.scored));
        cell.lowest = Some(cell.lowest.map_or(score, |lowest| lowest.min(score)));
        cell.highest = Some(cell.highest.map_or(score, |highest| highest.max(score)));
    }
}

/// Returns a count as a double.
pub(super) fn as_f64(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
pub(super) mod tests {
    use super::EvaluationSummary;
    use crate::{
        codec::Extra,
        layers::evaluation::record::{EvaluationResult, ResultContent, ResultKey},
    };

    /// The result `CASE/CELL/SAMPLE=SCORE`, whose score is a number, `-` for none, or `failed`.
    pub(in crate::layers::evaluation) fn result(text: &str) -> EvaluationResult {
        let (name, score) = text.split_once('=').unwrap();
        let parts: Vec<_> = name.split('/').collect();
        let error = (score == "failed").then(|| "exit code 1".to_owned());
        EvaluationResult {
            key: ResultKey::new(parts[0].parse().unwrap(), parts[1].parse().unwrap(), parts[2].parse().unwrap()),
            content: ResultContent {
                case_hash: "h".to_owned(),
                score: score.parse().ok(),
                error,
                output_hash: None,
                thread: None,
                run: None,
                metadata: None,
                extra: Extra::default(),
            },
            created_at: Default::default(),
        }
    }

    #[test]
    fn results_are_counted_for_each_cell() {
        let check = |results: &[&str], expected: &str| {
            let mut summary = EvaluationSummary::default();
            results.iter().for_each(|text| summary.add(&result(text)));
            let cell = |(name, cell): (&crate::CellId, &super::CellSummary)| {
                let text = |value: Option<f64>| value.map_or("-".to_owned(), |value| value.to_string());
                let scores = [cell.mean, cell.lowest, cell.highest].map(text).join("/");
                format!("; {name} {}/{}/{} {scores}", cell.results, cell.failed, cell.scored)
            };
            let cells: String = summary.cells.iter().map(cell).collect();
            assert_eq!(format!("{}/{}{cells}", summary.results, summary.failed), expected);
        };
        check(&[], "0/0");
        check(&["a/x/1=0.5"], "1/0; x 1/0/1 0.5/0.5/0.5");
        check(&["a/x/1=-", "a/x/2=failed"], "2/1; x 2/1/0 -/-/-");
        check(&["a/y/1=1", "a/y/2=failed", "b/y/1=-3", "b/x/1=0"], "4/1; x 1/0/1 0/0/0; y 3/1/2 -1/-3/1");
    }
}
