//! Summaries of evaluation runs, and comparisons of two of them.

use store_core::{ErrorKind, EvaluationReaderExt, PageRequest};

use super::helpers::{add_cases, compare, create, evaluations, expect_compared, record, run_with};
use crate::{
    Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    dataset::helpers::{change, put, remove},
    given::id,
};

/// A summary counts all results, the failed ones and those with a score, for each cell.
pub(super) async fn a_summary_counts_results(given: &Given) -> Verdict {
    add_cases(given, &["a", "b"]).await?;
    create(given, "e", &["x", "y"], 2).await?;
    record(given, "e", &["a/x/1=1", "a/x/2=failed", "b/x/1=0.5", "b/x/2=-", "a/y/1=failed"]).await?;
    let summary = evaluations(given)?.summarize_evaluation(&id("e")).await?;
    expect_eq((summary.results, summary.failed), (5, 2))?;
    let cells: Vec<_> = summary
        .cells
        .iter()
        .map(|(name, cell)| (name.to_string(), cell.results, cell.failed, cell.scored, cell.mean))
        .collect();
    expect_eq(cells, vec![("x".to_owned(), 4, 1, 2, Some(0.75)), ("y".to_owned(), 1, 1, 0, None)])?;
    expect_kind(evaluations(given)?.summarize_evaluation(&id("f")).await, ErrorKind::NotFound).map(drop)
}

/// Each case and cell is better, worse, the same or missing, by failures first and then by the mean of the scores.
pub(super) async fn two_evaluations_are_compared(given: &Given) -> Verdict {
    add_cases(given, &["a", "b", "c", "d", "e"]).await?;
    for name in ["before", "after"] {
        create(given, name, &["x", "y"], 2).await?;
    }
    let before = ["a/x/1=0.5", "a/x/2=0.5", "b/x/1=1", "c/x/1=failed", "d/x/1=1", "d/y/1=1", "e/x/1=-"];
    record(given, "before", &before).await?;
    let after = ["a/x/1=1", "a/x/2=0", "b/x/1=0.9", "c/x/1=0", "d/x/1=1", "d/x/2=failed", "e/x/1=-"];
    record(given, "after", &after).await?;
    let expected = "a/x same output, b/x worse output, c/x better output, d/x worse output, d/y missing, e/x same";
    expect_compared(given, "before", "after", expected).await?;
    let mirrored = "a/x same output, b/x better output, c/x worse output, d/x better output, d/y missing, e/x same";
    expect_compared(given, "after", "before", mirrored).await?;
    for pair in [("before", "other"), ("other", "after")] {
        let refused = evaluations(given)?.compare_evaluations(&id(pair.0), &id(pair.1), PageRequest::default()).await;
        expect_kind(refused, ErrorKind::NotFound)?;
    }
    Ok(())
}

/// Runs over different versions of a dataset are compared by the ids of the cases. A case with another content is
/// said to be changed.
pub(super) async fn a_comparison_spans_dataset_versions(given: &Given) -> Verdict {
    add_cases(given, &["a", "b", "c"]).await?;
    run_with(given, "before", &["a/x/1=1", "b/x/1=1", "c/x/1=1"]).await?;
    change(given, "d", [put("a", "2"), remove("b"), put("d", "1")]).await?;
    run_with(given, "after", &["a/x/1=1", "c/x/1=1", "d/x/1=1"]).await?;
    expect_compared(given, "before", "after", "a/x same case, b/x missing, c/x same, d/x missing").await?;
    let compared = compare(given, "before", "after", 100).await?;
    expect_eq((compared[1].before.is_some(), compared[1].after.is_some()), (true, false))?;
    expect_eq((compared[3].before.is_some(), compared[3].after.is_some()), (false, true))
}

/// A comparison is the same in pages of any size, and its cursors belong to it.
pub(super) async fn a_comparison_is_read_in_pages(given: &Given) -> Verdict {
    let cases: Vec<_> = (0..7).map(|number| format!("case.{number}")).collect();
    add_cases(given, &cases.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    for (name, step) in [("before", 2), ("after", 3)] {
        create(given, name, &["x", "y"], 3).await?;
        for (case, number) in cases.iter().zip(0..) {
            for cell in ["x", "y"].iter().take(1 + number % step) {
                let results: Vec<_> = (1..=3).map(|sample| format!("{case}/{cell}/{sample}={number}")).collect();
                record(given, name, &results.iter().map(String::as_str).collect::<Vec<_>>()).await?;
            }
        }
    }
    let all = compare(given, "before", "after", 1_000).await?;
    expect_eq((all.len(), all.iter().filter(|one| one.before.is_some() && one.after.is_some()).count()), (12, 9))?;
    for limit in [1, 2, 3, 5] {
        expect_eq(compare(given, "before", "after", limit).await?, all.clone())?;
    }
    let (before, after, first) = (id("before"), id("after"), PageRequest::first(1));
    let page = evaluations(given)?.compare_evaluations(&before, &after, first.clone()).await?;
    let cursor = expect_some(page.next, "cursor")?;
    let refused = evaluations(given)?.compare_evaluations(&after, &before, first.after(cursor)).await;
    expect_kind(refused, ErrorKind::InvalidCursor).map(drop)
}
