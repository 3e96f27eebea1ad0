//! `profile clear`: removes all values of an owner.

use agentstore::{ProfileOwner, length};
use serde_json::json;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    pages, prompt,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Remove all values of an owner; the audit log does not get records of this
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore profile clear user:u1 --yes")]
pub(super) struct Args {
    /// The owner, such as `user:u1`, `agent:coder` or `system`
    owner: ProfileOwner,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let profiles = session.profiles()?;
    let owner = terminal_safe(&args.owner.to_string());
    let found = pages::load_all(async |page| profiles.list_profile(&args.owner, page).await).await?.len();
    let mut removed = 0;
    if found > 0 {
        prompt::confirm(args.yes, &format!("Remove {} of {owner}?", with_noun(length(found), "value")))?;
        removed = profiles.clear_profile(&args.owner).await?;
    }
    if out.is_json() {
        out.print_document(&json!({ "owner": args.owner.to_string(), "removed": removed }))?;
    } else {
        out.print_line(format!("removed {} of {owner}", with_noun(removed, "value")))?;
    }
    Ok(Ending::Success)
}
