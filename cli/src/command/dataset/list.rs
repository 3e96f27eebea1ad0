//! `dataset list`: lists the datasets.

use agentstore::{Dataset, layers::escape_part};
use serde_json::json;

use super::Ending;
use crate::{
    failure::Result,
    output::{JsonList, Output},
    pages,
    session::Session,
    text,
};

/// List the datasets by name
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore dataset list\n  agentstore dataset list --json | jq .datasets[].id")]
pub(super) struct Args {}

pub(super) async fn run(_: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let datasets = session.datasets()?;
    let found = pages::load_all(async |page| datasets.list_datasets(page).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "datasets")?;
        found.iter().try_for_each(|dataset| list.item(dataset))?;
        list.end()?;
    } else if found.is_empty() {
        out.print_line("there are no datasets")?;
    } else {
        let row = |dataset: &Dataset| {
            vec![
                escape_part(dataset.id.as_str()),
                dataset.version.to_string(),
                dataset.cases.to_string(),
                text::format_minute(dataset.updated_at),
            ]
        };
        let rows: Vec<_> = found.iter().map(row).collect();
        out.print_list(&["dataset", "version", "cases", "changed"], &rows)?;
    }
    Ok(Ending::Success)
}
