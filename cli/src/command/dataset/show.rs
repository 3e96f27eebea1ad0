//! `dataset show`: prints the cases of a version, or one of them.

use agentstore::{CaseId, DatasetCase, DatasetStore, DatasetVersion, Error, Json, layers::escape_part};

use super::{Ending, target::DatasetArg};
use crate::{
    failure::Result,
    json_text,
    output::{JsonList, Output},
    pages,
    session::Session,
    text::{self, terminal_safe, with_noun},
};

/// Print the cases of a version of a dataset, one of them, or the versions
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore dataset show sums\n  agentstore dataset show sums@1 --case small\n  \
    agentstore dataset show sums --versions\n  agentstore dataset show sums --json | jq .cases[].content.input")]
pub(super) struct Args {
    /// The dataset, `NAME` or `NAME@VERSION`; the current version if none is given
    #[arg(value_name = "NAME[@VERSION]")]
    dataset: DatasetArg,
    /// Print only this case, in full
    #[arg(long, value_name = "ID", conflicts_with = "versions")]
    case: Option<CaseId>,
    /// Print the versions, the newest first
    #[arg(long)]
    versions: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let datasets = session.datasets()?;
    let version = args.dataset.load(&*datasets).await?;
    if args.versions {
        print_versions(&version, &*datasets, out).await?;
    } else if let Some(id) = args.case {
        let found = datasets.load_case(&version.name, &id).await?;
        let case = found.ok_or_else(|| Error::not_found("case", &id))?;
        print_case(&case, out)?;
    } else {
        let cases = pages::load_all(async |page| datasets.list_cases(&version.name, page).await).await?;
        print_cases(&version, &cases, out)?;
    }
    Ok(Ending::Success)
}

fn print_case(case: &DatasetCase, out: &mut Output) -> Result<()> {
    if out.is_json() {
        return out.print_document(case);
    }
    out.print_line(out.style(format!("{}, since version {}", terminal_safe(case.id.as_str()), case.since)).bold())?;
    json_text::print(&Json::of(&case.content)?, out)
}

fn print_cases(version: &DatasetVersion, cases: &[DatasetCase], out: &mut Output) -> Result<()> {
    if out.is_json() {
        let mut list = JsonList::begin(out, version, "cases")?;
        cases.iter().try_for_each(|case| list.item(case))?;
        return list.end();
    }
    let (name, time) = (terminal_safe(&version.name.to_string()), text::format_time(version.created_at));
    let title = format!("{name}, {}, made {time}", with_noun(version.content.cases, "case"));
    out.print_line(out.style(title).bold())?;
    let row = |case: &DatasetCase| {
        let content = &case.content;
        vec![
            case.id.to_string(),
            case.since.to_string(),
            content.origin.as_ref().map(|origin| origin.run.to_string()).unwrap_or_default(),
            content.tool_results.len().to_string(),
            content.expectation.as_ref().map_or_else(String::new, |_| "yes".to_owned()),
            content.input.to_string(),
        ]
    };
    let rows: Vec<_> = cases.iter().map(row).collect();
    out.print_list(&["case", "since", "from run", "tool results", "expects", "input"], &rows)
}

async fn print_versions(version: &DatasetVersion, datasets: &dyn DatasetStore, out: &mut Output) -> Result<()> {
    let dataset = &version.name.dataset;
    let versions = pages::load_all(async |page| datasets.list_dataset_versions(dataset, page).await).await?;
    if out.is_json() {
        let head = serde_json::json!({ "dataset": escape_part(dataset.as_str()) });
        let mut list = JsonList::begin(out, &head, "versions")?;
        versions.iter().try_for_each(|version| list.item(version))?;
        return list.end();
    }
    let row = |version: &DatasetVersion| {
        let content = &version.content;
        let counts = [content.cases, content.added, content.replaced, content.removed].map(|count| count.to_string());
        let name = version.name.to_string();
        let time = text::format_minute(version.created_at);
        [vec![name], counts.to_vec(), vec![time, content.by.clone().unwrap_or_default()]].concat()
    };
    let rows: Vec<_> = versions.iter().map(row).collect();
    out.print_list(&["version", "cases", "added", "replaced", "removed", "made", "by"], &rows)
}
