//! `eval compare`: compares two evaluation runs case by case.

use agentstore::{CellComparison, CellResults, CellVerdict, EvaluationId, EvaluationReaderExt};
use serde_json::json;

use super::{Ending, score_text};
use crate::{
    failure::Result,
    output::{JsonList, Output},
    pages,
    session::Session,
};

/// Compare two evaluation runs case by case: what became better, worse, or is missing
///
/// For each case and cell, the part of the results that is failed is compared first, and then the mean of the scores.
/// The runs may be over different versions of a dataset: cases are the same if they have the same id.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore eval compare before after\n  \
    agentstore eval compare before after --all\n  \
    agentstore eval compare before after --json | jq '.cells[] | select(.verdict == \"worse\")'\n\n\
    Exit codes: 0 nothing is worse and nothing is missing, 1 something is, or an error, 2 invalid command line.")]
pub(super) struct Args {
    /// The id of the first evaluation run
    #[arg(value_name = "A")]
    before: EvaluationId,
    /// The id of the second one
    #[arg(value_name = "B")]
    after: EvaluationId,
    /// Print each case, also if nothing changed
    #[arg(long)]
    all: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let evaluations = session.evaluations()?;
    let (before, after) = (&args.before, &args.after);
    let compare = async |page| evaluations.compare_evaluations(before, after, page).await;
    let mut compared = pages::load_all(compare).await?;
    let count = |verdict: CellVerdict| compared.iter().filter(|one| one.verdict == verdict).count();
    let counts: Vec<_> = CellVerdict::ALL.iter().map(|verdict| (verdict.name(), count(*verdict))).collect();
    let is_problem = count(CellVerdict::Worse) + count(CellVerdict::Missing) > 0;
    compared.retain(|one| args.all || is_changed(one));
    if out.is_json() {
        let counts: serde_json::Map<_, _> =
            counts.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
        let mut list = JsonList::begin(out, &json!({ "before": before, "after": after, "counts": counts }), "cells")?;
        compared.iter().try_for_each(|one| list.item(one))?;
        list.end()?;
    } else {
        if !compared.is_empty() {
            let rows: Vec<_> = compared.iter().map(row).collect();
            out.print_list(&["case", "cell", "verdict", "before", "after", "changed"], &rows)?;
        }
        let parts: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        out.print_line(parts.join(", "))?;
    }
    Ok(if is_problem { Ending::Problem } else { Ending::Success })
}

fn is_changed(compared: &CellComparison) -> bool {
    compared.verdict != CellVerdict::Same || compared.case_changed || compared.outputs_changed
}

fn row(compared: &CellComparison) -> Vec<String> {
    let changed = [(compared.case_changed, "case"), (compared.outputs_changed, "output")];
    let changed: Vec<_> = changed.iter().filter(|(is_changed, _)| *is_changed).map(|(_, what)| *what).collect();
    vec![
        compared.case.to_string(),
        compared.cell.to_string(),
        compared.verdict.to_string(),
        side_text(compared.before.as_ref()),
        side_text(compared.after.as_ref()),
        changed.join(", "),
    ]
}

/// Returns the mean of the scores, and how many results are failed: `0.5`, `0.5, 1 of 3 failed`, `none`.
fn side_text(results: Option<&CellResults>) -> String {
    let Some(results) = results else { return "none".to_owned() };
    let failed = format!("{} of {} failed", results.failed, results.results);
    match (score_text(results.mean), results.failed) {
        (mean, 0) if mean.is_empty() => "no score".to_owned(),
        (mean, 0) => mean,
        (mean, _) if mean.is_empty() => failed,
        (mean, _) => format!("{mean}, {failed}"),
    }
}
