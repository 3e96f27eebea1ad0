//! `config list`: lists the namespaces, or the records of one.

use agentstore::{ConfigRecord, SegmentId};
use serde_json::json;

use super::{Ending, RecordDocument, source_text};
use crate::{
    failure::Result,
    output::{JsonList, Output, print_names},
    pages,
    session::Session,
    text::{self, terminal_safe},
};

/// List the namespaces, or the records of a namespace by id
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore config list\n  agentstore config list limits\n  \
    agentstore config list prompts --json | jq -r '.records[] | [.id, .revision] | @tsv'")]
pub(super) struct Args {
    /// The namespace whose records are listed; without it, the namespaces that have records are listed
    namespace: Option<SegmentId>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let config = session.config()?;
    let Some(namespace) = args.namespace else {
        let list = async |after: Option<SegmentId>, limit| config.list_namespaces(after.as_ref(), limit).await;
        let namespaces = pages::load_all_after(list).await?;
        print_names(out, ("namespaces", "there are no config records"), &namespaces)?;
        return Ok(Ending::Success);
    };
    let records = pages::load_all(async |page| config.list_config(&namespace, page).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "records")?;
        records.iter().try_for_each(|record| list.item(&RecordDocument::of(record)?))?;
        list.end()?;
    } else if records.is_empty() {
        out.print_line(format!("the namespace {} has no records", terminal_safe(namespace.as_str())))?;
    } else {
        print(&records, out)?;
    }
    Ok(Ending::Success)
}

/// Prints records as a table.
pub(super) fn print(records: &[ConfigRecord], out: &mut Output) -> Result<()> {
    let row = |record: &ConfigRecord| -> Result<Vec<String>> {
        Ok(vec![
            record.name.id.to_string(),
            record.revision.to_string(),
            source_text(record),
            text::format_minute(record.updated_at),
            record.content.effective()?.to_string(),
        ])
    };
    let rows: Vec<_> = records.iter().map(row).collect::<Result<_>>()?;
    out.print_list(&["id", "revision", "source", "changed", "value"], &rows)
}
