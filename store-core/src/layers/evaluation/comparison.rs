//! Two evaluation runs, compared case by case (TR-5).

use std::{
    cmp::Ordering,
    collections::{BTreeSet, VecDeque},
};

use async_trait::async_trait;
use serde::Serialize;

use super::{
    record::{Evaluation, EvaluationResult, Score},
    request::ResultQuery,
    store::EvaluationReader,
    summary::{EvaluationSummary, as_f64},
};
use crate::{
    codec::{named_enum, sha256_hex},
    error::{Error, Result},
    id::{CaseId, CellId, EvaluationId},
    layers::{escape_part, unescape_part},
    limits::length,
    page::{Cursor, MAX_PAGE, Page, PageRequest},
};

/// What became of a case in a cell from one evaluation run to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CellVerdict {
    /// A smaller part of the results is failed, or the same part, and the mean of the scores is higher.
    Better,
    /// A larger part of the results is failed, or the same part, and the mean of the scores is lower.
    Worse,
    /// Neither of both; also if one of the runs has no scores.
    Same,
    /// One of the runs has no results.
    Missing,
}

named_enum!(CellVerdict as "verdict" { Better = "better", Worse = "worse", Same = "same", Missing = "missing" });

/// The results of one evaluation run for a case and a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CellResults {
    /// The number of results.
    pub results: u64,
    /// How many of them are failed.
    pub failed: u64,
    /// How many of them have a score.
    pub scored: u64,
    /// The mean of the scores, as a double.
    pub mean: Option<f64>,
}

impl CellResults {
    /// Counts results; none if there are no results. The order of the samples does not matter.
    fn of(results: &[EvaluationResult]) -> Option<Self> {
        let mut scores: Vec<_> =
            results.iter().filter_map(|result| result.content.score.as_ref().map(Score::as_f64)).collect();
        scores.sort_by(f64::total_cmp);
        let (count, scored) = (length(results.len()), length(scores.len()));
        let failed = length(results.iter().filter(|result| result.is_failed()).count());
        let mean = (scored > 0).then(|| scores.iter().sum::<f64>() / as_f64(scored));
        (count > 0).then_some(Self { results: count, failed, scored, mean })
    }

    /// Compares how good the results are.
    fn compare(&self, other: &Self) -> Ordering {
        // The parts that are failed, as fractions with one denominator.
        let failed = (other.failed * self.results).cmp(&(self.failed * other.results));
        let means = self.mean.zip(other.mean).and_then(|(own, other)| own.partial_cmp(&other));
        failed.then(means.unwrap_or(Ordering::Equal))
    }
}

/// A case in a cell of two evaluation runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CellComparison {
    /// The case.
    pub case: CaseId,
    /// The cell.
    pub cell: CellId,
    /// What became of it, from the first run to the second one.
    pub verdict: CellVerdict,
    /// The results of the first run; absent if there are none.
    pub before: Option<CellResults>,
    /// The results of the second run; absent if there are none.
    pub after: Option<CellResults>,
    /// Whether the case has another content in the second run, because it belongs to another version of the dataset.
    pub case_changed: bool,
    /// Whether the outputs differ, whatever their order.
    pub outputs_changed: bool,
}

/// Compares the results of two evaluation runs for one case and one cell (TR-5). It is a pure function. None if there
/// are no results at all.
#[must_use]
pub fn compare_cells(before: &[EvaluationResult], after: &[EvaluationResult]) -> Option<CellComparison> {
    let key = &before.first().or(after.first())?.key;
    let hashes = |results: &[EvaluationResult]| results.iter().map(|result| result.content.case_hash.clone()).collect();
    let outputs = |results: &[EvaluationResult]| {
        let mut outputs: Vec<_> = results.iter().map(|result| result.content.output_hash.clone()).collect();
        outputs.sort();
        outputs
    };
    let cases: [BTreeSet<String>; 2] = [hashes(before), hashes(after)];
    let is_in_both = !before.is_empty() && !after.is_empty();
    let (case_changed, outputs_changed) = (cases[0] != cases[1], outputs(before) != outputs(after));
    let (before, after) = (CellResults::of(before), CellResults::of(after));
    let verdict = match (&before, &after) {
        (Some(before), Some(after)) => match after.compare(before) {
            Ordering::Greater => CellVerdict::Better,
            Ordering::Less => CellVerdict::Worse,
            Ordering::Equal => CellVerdict::Same,
        },
        _ => CellVerdict::Missing,
    };
    Some(CellComparison {
        case: key.case.clone(),
        cell: key.cell.clone(),
        verdict,
        before,
        after,
        case_changed: is_in_both && case_changed,
        outputs_changed: is_in_both && outputs_changed,
    })
}

/// The results of one evaluation run, read page by page and grouped by case and cell.
struct Groups<'a, R: ?Sized> {
    reader: &'a R,
    query: ResultQuery,
    /// What was read and not taken.
    read: VecDeque<EvaluationResult>,
    /// The page that is read next; none after the last one.
    next: Option<PageRequest>,
}

impl<'a, R: EvaluationReader + ?Sized> Groups<'a, R> {
    /// Reads the results of a run that come after a case and a cell, for about so many groups.
    fn new(reader: &'a R, evaluation: &Evaluation, after: Option<(CaseId, CellId)>, groups: usize) -> Self {
        let query = ResultQuery { after, ..ResultQuery::new(evaluation.id.clone()) };
        let results = u32::try_from(groups).unwrap_or(MAX_PAGE).saturating_mul(evaluation.samples);
        // One more shows that the last group has ended.
        let page = PageRequest::first(results.saturating_add(1).min(MAX_PAGE));
        Self { reader, query, read: VecDeque::new(), next: Some(page) }
    }

    /// Returns the case and the cell of the first group, after reading all of the group; none at the end.
    async fn first(&mut self) -> Result<Option<(CaseId, CellId)>> {
        let group = |result: &EvaluationResult| (result.key.case.clone(), result.key.cell.clone());
        loop {
            let (first, last) = (self.read.front().map(group), self.read.back().map(group));
            if first.is_some() && first != last {
                return Ok(first);
            }
            let Some(page) = self.next.take() else { return Ok(first) };
            let found = self.reader.list_results(self.query.clone().with_page(page.clone())).await?;
            self.read.extend(found.items);
            self.next = found.next.map(|cursor| page.after(cursor));
        }
    }

    /// Takes the first group, if it is that of a case and cell. It must have been read.
    fn take(&mut self, group: &(CaseId, CellId)) -> Vec<EvaluationResult> {
        let is_in = |result: &EvaluationResult| (&result.key.case, &result.key.cell) == (&group.0, &group.1);
        let count = self.read.iter().take_while(|result| is_in(result)).count();
        self.read.drain(..count).collect()
    }
}

/// What can be said about evaluation runs by several calls of an [`EvaluationReader`].
#[async_trait]
pub trait EvaluationReaderExt: EvaluationReader {
    /// Summarizes the results of a run. It reads all results, without their outputs.
    ///
    /// # Errors
    /// `NotFound` for an unknown run; the errors of [`list_results`](EvaluationReader::list_results).
    async fn summarize_evaluation(&self, id: &EvaluationId) -> Result<EvaluationSummary> {
        required(self.load_evaluation(id).await?, id)?;
        let (mut summary, mut next) = (EvaluationSummary::default(), Some(PageRequest::first(MAX_PAGE)));
        while let Some(page) = next.take() {
            let found = self.list_results(ResultQuery::new(id.clone()).with_page(page.clone())).await?;
            found.items.iter().for_each(|result| summary.add(result));
            next = found.next.map(|cursor| page.after(cursor));
        }
        Ok(summary)
    }

    /// Compares two runs by case and cell, in pages (TR-5). Each case and cell for which one of the runs has results
    /// is in the list. Cases are the same if they have the same id, also in different versions of a dataset, and cells
    /// are the same if they have the same name.
    ///
    /// # Errors
    /// `NotFound` for an unknown run; `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another
    /// list.
    async fn compare_evaluations(
        &self,
        before: &EvaluationId,
        after: &EvaluationId,
        page: PageRequest,
    ) -> Result<Page<CellComparison>> {
        let limit = page.checked_limit()?;
        let position = page.cursor.as_ref().map(|cursor| decode_cursor([before, after], cursor)).transpose()?;
        let evaluations = [
            required(self.load_evaluation(before).await?, before)?,
            required(self.load_evaluation(after).await?, after)?,
        ];
        let [mut left, mut right] =
            evaluations.each_ref().map(|evaluation| Groups::new(self, evaluation, position.clone(), limit));
        let mut items: Vec<CellComparison> = Vec::new();
        loop {
            let first = [left.first().await?, right.first().await?].into_iter().flatten().min();
            let Some(group) = first else { return Ok(Page { items, next: None }) };
            if items.len() == limit {
                let next = items.last().map(|last| encode_cursor([before, after], last));
                return Ok(Page { items, next });
            }
            items.extend(compare_cells(&left.take(&group), &right.take(&group)));
        }
    }
}

impl<S: EvaluationReader + ?Sized> EvaluationReaderExt for S {}

fn required(found: Option<Evaluation>, id: &EvaluationId) -> Result<Evaluation> {
    found.ok_or_else(|| Error::not_found("evaluation", id))
}

/// Returns what binds a cursor to two runs. No id contains a line break.
fn binding([before, after]: [&EvaluationId; 2]) -> String {
    sha256_hex(&format!("{before}\n{after}")).chars().take(16).collect()
}

/// Returns the cursor that continues after a case and a cell.
fn encode_cursor(evaluations: [&EvaluationId; 2], last: &CellComparison) -> Cursor {
    let (case, cell) = (escape_part(last.case.as_str()), escape_part(last.cell.as_str()));
    Cursor::from_text(format!("{}/{case}/{cell}", binding(evaluations)))
}

fn decode_cursor(evaluations: [&EvaluationId; 2], cursor: &Cursor) -> Result<(CaseId, CellId)> {
    let malformed = |_| Error::invalid_cursor("it is malformed");
    let parts: Vec<_> = cursor.as_str().split('/').collect();
    let [bound_to, case, cell] = parts.as_slice() else { return Err(malformed(())) };
    if **bound_to != *binding(evaluations) {
        return Err(Error::invalid_cursor("it belongs to another list"));
    }
    let read = || Ok((unescape_part(case)?.parse()?, unescape_part(cell)?.parse()?));
    read().map_err(|_: Error| malformed(()))
}

#[cfg(test)]
mod tests {
    use super::{compare_cells, decode_cursor, encode_cursor};
    use crate::{Cursor, ErrorKind, EvaluationResult, layers::evaluation::summary::tests::result};

    /// Results of one case and cell with these scores.
    fn results(scores: &str) -> Vec<EvaluationResult> {
        let numbered = scores.split_whitespace().zip(1..);
        numbered.map(|(score, sample)| result(&format!("a/x/{sample}={score}"))).collect()
    }

    #[test]
    fn results_are_better_worse_or_the_same() {
        let check = |before: &str, after: &str, verdict: &str| {
            let compared =
                |left: &str, right: &str| compare_cells(&results(left), &results(right)).unwrap().verdict.name();
            assert_eq!(compared(before, after), verdict, "{before} -> {after}");
            let mirrored = match verdict {
                "better" => "worse",
                "worse" => "better",
                other => other,
            };
            assert_eq!(compared(after, before), mirrored, "{after} -> {before}");
        };
        check("0.5", "0.5", "same");
        check("0.5", "0.50", "same");
        check("0.5", "0.75", "better");
        check("1 0", "0.5", "same");
        check("1 0 0", "0.5", "better");
        check("0.1 0.2 0.3", "0.3 0.2 0.1", "same");
        check("failed", "0", "better");
        check("failed", "-", "better");
        check("failed failed", "failed", "same");
        check("failed 1 1", "failed 0", "worse");
        check("1 1 failed", "0", "better");
        check("-", "1", "same");
        check("-", "- -", "same");
        check("-1e3", "-1e2", "better");
        check("", "1", "missing");
        check("failed", "", "missing");
        assert_eq!(compare_cells(&[], &[]), None);
    }

    #[test]
    fn what_changed_is_said() {
        let with = |score: &str, hash: &str, outputs: &[Option<&str>]| {
            let mut results = results(&[score].repeat(outputs.len()).join(" "));
            for (result, output) in results.iter_mut().zip(outputs) {
                hash.clone_into(&mut result.content.case_hash);
                result.content.output_hash = output.map(str::to_owned);
            }
            results
        };
        let check = |before: &[EvaluationResult], after: &[EvaluationResult], case: bool, outputs: bool| {
            let compared = compare_cells(before, after).unwrap();
            assert_eq!((compared.case_changed, compared.outputs_changed), (case, outputs), "{compared:?}");
        };
        let one = with("1", "h", &[Some("o"), None]);
        check(&one, &one, false, false);
        check(&one, &with("1", "h", &[None, Some("o")]), false, false);
        check(&one, &with("1", "i", &[Some("o"), None]), true, false);
        check(&one, &with("0", "h", &[Some("p"), None]), false, true);
        check(&one, &with("1", "h", &[Some("o")]), false, true);
        check(&one, &[], false, false);
    }

    #[test]
    fn counts_and_means_of_both_sides_are_shown() {
        let compared = compare_cells(&results("1 0 failed -"), &results("failed")).unwrap();
        let counts = |side: &Option<super::CellResults>| {
            side.as_ref().map(|side| (side.results, side.failed, side.scored, side.mean))
        };
        assert_eq!(counts(&compared.before), Some((4, 1, 2, Some(0.5))));
        assert_eq!(counts(&compared.after), Some((1, 1, 0, None)));
    }

    #[test]
    fn a_cursor_names_its_runs() {
        let ids = ["e", "f"].map(|id| id.parse().unwrap());
        let mut last = compare_cells(&results("1"), &[]).unwrap();
        (last.case, last.cell) = ("a/b@c".parse().unwrap(), "50% 🦀".parse().unwrap());
        let cursor = encode_cursor([&ids[0], &ids[1]], &last);
        assert_eq!(decode_cursor([&ids[0], &ids[1]], &cursor).unwrap(), (last.case, last.cell));
        assert_eq!(decode_cursor([&ids[1], &ids[0]], &cursor).unwrap_err().kind(), ErrorKind::InvalidCursor);
        let bound = cursor.as_str().split('/').next().unwrap();
        for text in ["", "a/b/c", bound, &format!("{bound}/a"), &format!("{bound}/%/c"), &format!("{bound}//c")] {
            let error = decode_cursor([&ids[0], &ids[1]], &Cursor::from_text(text)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidCursor, "{text:?}");
        }
    }
}
