//! `config get`: prints a record.

use agentstore::Error;

use super::{Ending, NameArgs, RecordDocument, name_text, source_text};
use crate::{failure::Result, json_text, output::Output, session::Session, text};

/// Print a record; with `--json` also the parts of its value that users changed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore config get limits tokens\n  \
    agentstore config get prompts coder --json | jq -r .effective")]
pub(super) struct Args {
    #[command(flatten)]
    name: NameArgs,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let name = args.name.into_name();
    let record = session.config()?.load_config(&name).await?;
    let record = record.ok_or_else(|| Error::not_found("config record", name.to_string()))?;
    if out.is_json() {
        out.print_document(&RecordDocument::of(&record)?)?;
        return Ok(Ending::Success);
    }
    let changed = text::format_time(record.updated_at);
    let (name, source) = (name_text(&name), source_text(&record));
    out.print_line(out.style(format!("{name}, revision {}, {source}, changed {changed}", record.revision)).dim())?;
    json_text::print(&record.content.effective()?, out)?;
    Ok(Ending::Success)
}
