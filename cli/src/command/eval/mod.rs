//! `eval`: evaluates an agent with the cases of a dataset, and compares evaluation runs.

mod abandon;
mod compare;
mod list;
mod pin;
mod purge;
mod run;
mod show;
mod task;

use agentstore::{Error, Evaluation, EvaluationId, EvaluationReader, EvaluationSummary};
use clap::Subcommand;
use serde::Serialize;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
    text::{terminal_safe, with_noun},
};

/// Evaluate an agent with the cases of a dataset, and compare evaluation runs: run, list, show, compare, pin, purge
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore eval run --dataset sums --exec ./answer.sh --id before\n  \
    agentstore eval list\n  agentstore eval show before\n  agentstore eval compare before after\n\n\
    An evaluation run has a result for each case of a version of a dataset, for each cell (what is varied, such as the \
    model), and for each sample. Each result is written once. A run that was interrupted goes on with the same command \
    and the same `--id`.\n\n\
    Exit codes: 0 done; 1 refused or failed, or results are failed or missing (`run`), worse or missing (`compare`); \
    2 invalid command line.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Run(Box<run::Args>),
    List(list::Args),
    Show(show::Args),
    Compare(compare::Args),
    Abandon(abandon::Args),
    Pin(pin::Args),
    Purge(purge::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match &self.action {
            Action::List(_) | Action::Show(_) | Action::Compare(_) => Access::Read,
            Action::Run(_) | Action::Abandon(_) | Action::Pin(_) => Access::Write,
            Action::Purge(args) => args.access(),
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::Run(args) => run::run(*args, session, out).await,
        Action::List(args) => list::run(args, session, out).await,
        Action::Show(args) => show::run(args, session, out).await,
        Action::Compare(args) => compare::run(args, session, out).await,
        Action::Abandon(args) => abandon::run(args, session, out).await,
        Action::Pin(args) => pin::run(args, session, out).await,
        Action::Purge(args) => purge::run(args, session, out).await,
    }
}

/// Loads an evaluation run, which must exist.
async fn load(id: &EvaluationId, evaluations: &dyn EvaluationReader) -> Result<Evaluation> {
    let found = evaluations.load_evaluation(id).await?;
    Ok(found.ok_or_else(|| Error::not_found("evaluation", id))?)
}

/// What an evaluation run is about, and its results in all, as a JSON document.
#[derive(Serialize)]
struct SummaryDocument<'a> {
    evaluation: &'a Evaluation,
    summary: &'a EvaluationSummary,
    /// The number of results that are missing.
    missing: u64,
}

fn missing_results(evaluation: &Evaluation, summary: &EvaluationSummary) -> u64 {
    evaluation.expected_results().saturating_sub(summary.results)
}

/// Prints what an evaluation run is about, and its results in all.
fn print_summary(evaluation: &Evaluation, summary: &EvaluationSummary, out: &mut Output) -> Result<()> {
    let (id, dataset) = (terminal_safe(evaluation.id.as_str()), terminal_safe(&evaluation.dataset.to_string()));
    let pinned = if evaluation.pinned { ", pinned" } else { "" };
    let title = format!("{id}, dataset {dataset}, {}{pinned}", evaluation.status);
    out.print_line(out.style(title).bold())?;
    if let Some(manifest) = &evaluation.manifest {
        out.print_line(format!("tests publication {}", terminal_safe(manifest.as_str())))?;
    }
    let expected = evaluation.expected_results();
    let counts = format!("{} of {}, {} failed", summary.results, with_noun(expected, "result"), summary.failed);
    out.print_line(counts)?;
    let rows = evaluation.cells.iter().map(|cell| {
        let counted = summary.cells.get(&cell.name).cloned().unwrap_or_default();
        let numbers = [counted.results, counted.failed, counted.scored].map(|count| count.to_string());
        let scores = [counted.mean, counted.lowest, counted.highest].map(score_text);
        [vec![cell.name.to_string()], numbers.to_vec(), scores.to_vec(), vec![cell.parameters.to_string()]].concat()
    });
    let headings = ["cell", "results", "failed", "scored", "mean", "lowest", "highest", "parameters"];
    out.print_list(&headings, &rows.collect::<Vec<_>>())
}

/// Returns a score for people, with at most four digits after the point.
fn score_text(score: Option<f64>) -> String {
    let Some(score) = score else { return String::new() };
    let text = format!("{score:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::score_text;

    #[test]
    fn scores_are_short() {
        let texts = [None, Some(1.0), Some(0.5), Some(2.0 / 3.0), Some(-10.0), Some(0.0)].map(score_text);
        assert_eq!(texts, ["", "1", "0.5", "0.6667", "-10", "0"]);
    }
}
