//! `mailbox purge`: removes dispatches that are over.

use std::time::Duration;

use agentstore::{Clock, Purge, SystemClock};
use serde_json::json;

use super::Ending;
use crate::{args, failure::Result, output::Output, prompt, session::Session, text::count};

/// Remove dispatches that ended some time ago, however they ended; their ids are free then
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore mailbox purge --dry-run\n  agentstore mailbox purge --older-than 7d --yes"
)]
pub(super) struct Args {
    /// How long ago they ended at least
    #[arg(long, value_name = "AGE", default_value = "24h", value_parser = args::age)]
    older_than: Duration,
    /// Say whether there are any, and remove nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mailbox = session.mailbox()?;
    let request = Purge::new(SystemClock.now().saturating_sub(args.older_than));
    let mut dry = request.clone();
    dry.dry_run = true;
    let found = mailbox.purge(dry).await?.removed;
    // One call looks at so many, and says no more.
    let more = if found >= u64::from(request.limit) { " or more" } else { "" };
    let mut removed = 0;
    if found > 0 && !args.dry_run {
        prompt::confirm(args.yes, &format!("Remove {}{more}?", count(found, "dispatch")))?;
        loop {
            let step = mailbox.purge(request.clone()).await?.removed;
            removed += step;
            if step == 0 {
                break;
            }
        }
    }
    if out.json() {
        out.document(&json!({ "found": found, "removed": removed, "dry_run": args.dry_run }))?;
    } else if args.dry_run {
        out.line(format!("would remove {}{more}", count(found, "dispatch")))?;
    } else {
        out.line(format!("removed {}", count(removed, "dispatch")))?;
    }
    Ok(Ending::Good)
}
