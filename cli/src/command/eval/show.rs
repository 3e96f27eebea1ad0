//! `eval show`: prints an evaluation run and its results.

use agentstore::{CaseId, EvaluationId, EvaluationReader, EvaluationReaderExt, EvaluationResult, Json, ResultQuery};

use super::{Ending, SummaryDocument, load, missing_results, print_summary};
use crate::{
    failure::Result,
    json_text,
    output::{JsonList, Output},
    pages,
    session::Session,
    text::terminal_safe,
};

/// Print an evaluation run: what it is about, its results in all, and for each case
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore eval show before\n  agentstore eval show before --results\n  \
    agentstore eval show before --case small\n  agentstore eval show before --json | jq .summary")]
pub(super) struct Args {
    /// The id of the evaluation run
    #[arg(value_name = "ID")]
    id: EvaluationId,
    /// Print each result, too
    #[arg(long)]
    results: bool,
    /// Print the results of this case, with their outputs
    #[arg(long, value_name = "CASE", conflicts_with = "results")]
    case: Option<CaseId>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let evaluations = session.evaluations()?;
    let evaluation = load(&args.id, &*evaluations).await?;
    let summary = evaluations.summarize_evaluation(&args.id).await?;
    let mut results = Vec::new();
    if args.results || args.case.is_some() {
        let query = ResultQuery::new(args.id);
        results = pages::load_all(async |page| evaluations.list_results(query.clone().with_page(page)).await).await?;
        results.retain(|result| args.case.as_ref().is_none_or(|case| *case == result.key.case));
    }
    if out.is_json() {
        let missing = missing_results(&evaluation, &summary);
        let head = SummaryDocument { evaluation: &evaluation, summary: &summary, missing };
        let mut list = JsonList::begin(out, &head, "results")?;
        results.iter().try_for_each(|result| list.item(result))?;
        list.end()?;
    } else {
        print_summary(&evaluation, &summary, out)?;
        if args.case.is_some() {
            print_with_outputs(&evaluation.id, &results, &*evaluations, out).await?;
        } else if args.results {
            print_results(&results, out)?;
        }
    }
    Ok(Ending::Success)
}

fn print_results(results: &[EvaluationResult], out: &mut Output) -> Result<()> {
    let row = |result: &EvaluationResult| {
        let content = &result.content;
        vec![
            result.key.case.to_string(),
            result.key.cell.to_string(),
            result.key.sample.to_string(),
            content.score.as_ref().map(ToString::to_string).unwrap_or_default(),
            content.run.as_ref().map(ToString::to_string).unwrap_or_default(),
            content.error.as_ref().map(|error| format!("failed: {error}")).unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = results.iter().map(row).collect();
    out.print_list(&["case", "cell", "sample", "score", "run", "problem"], &rows)
}

async fn print_with_outputs(
    id: &EvaluationId,
    results: &[EvaluationResult],
    evaluations: &dyn EvaluationReader,
    out: &mut Output,
) -> Result<()> {
    for result in results {
        let score = result.content.score.as_ref().map(|score| format!(", score {score}")).unwrap_or_default();
        let title = terminal_safe(&format!("{}{score}", result.key));
        out.print_line(out.style(title).bold())?;
        if let Some(error) = &result.content.error {
            out.print_line(format!("  failed: {}", terminal_safe(error)))?;
        }
        let output: Option<Json> = evaluations.load_output(id, &result.key).await?;
        output.iter().try_for_each(|output| json_text::print(output, out))?;
    }
    Ok(())
}
