//! `eval list`: lists evaluation runs.

use std::cmp::Reverse;

use agentstore::{DatasetId, Evaluation};
use serde_json::json;

use super::Ending;
use crate::{
    command::dataset::target::parse_dataset,
    failure::Result,
    output::{JsonList, Output},
    pages,
    session::Session,
    text,
};

/// List the evaluation runs, the newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore eval list --dataset sums\n  \
    agentstore eval list --json | jq .evaluations[0].id")]
pub(super) struct Args {
    /// Only runs over this dataset, whatever its version
    #[arg(long, value_name = "NAME", value_parser = parse_dataset)]
    dataset: Option<DatasetId>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let evaluations = session.evaluations()?;
    let mut found = pages::load_all(async |page| evaluations.list_evaluations(page).await).await?;
    found.retain(|found| args.dataset.as_ref().is_none_or(|dataset| *dataset == found.dataset.dataset));
    found.sort_by_key(|found| Reverse((found.created_at, found.id.clone())));
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "evaluations")?;
        found.iter().try_for_each(|evaluation| list.item(evaluation))?;
        list.end()?;
    } else if found.is_empty() {
        out.print_line("there are no such evaluation runs")?;
    } else {
        let row = |evaluation: &Evaluation| {
            vec![
                evaluation.id.to_string(),
                evaluation.dataset.to_string(),
                evaluation.status.to_string(),
                evaluation.expected_results().to_string(),
                if evaluation.pinned { "pinned".to_owned() } else { String::new() },
                text::format_minute(evaluation.created_at),
                evaluation.manifest.as_ref().map(ToString::to_string).unwrap_or_default(),
            ]
        };
        let rows: Vec<_> = found.iter().map(row).collect();
        out.print_list(&["evaluation", "dataset", "status", "results", "", "created", "tests"], &rows)?;
    }
    Ok(Ending::Success)
}
