//! `profile get`: prints a value.

use agentstore::{Error, ProfileStoreExt};

use super::{Ending, ValueDocument, ValueNameArgs};
use crate::{failure::Result, json_text, output::Output, session::Session, text};

/// Print a value of a profile
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore profile get user:u1 language\n  \
    agentstore profile get agent:coder memory --json | jq .value")]
pub(super) struct Args {
    #[command(flatten)]
    name: ValueNameArgs,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let name = args.name;
    let value = session.profiles()?.load_profile(&name.owner, &name.key).await?;
    let value = value.ok_or_else(|| Error::not_found("profile value", format!("{} {}", name.owner, name.key)))?;
    if out.is_json() {
        out.print_document(&ValueDocument::of(&name.owner, &value))?;
        return Ok(Ending::Success);
    }
    let changed = text::format_time(value.updated_at);
    out.print_line(out.style(format!("{}, revision {}, changed {changed}", name.text(), value.revision)).dim())?;
    json_text::print(&value.value, out)?;
    Ok(Ending::Success)
}
