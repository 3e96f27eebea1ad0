//! `mailbox purge`: removes finished dispatches.

use std::time::Duration;

use agentstore::{Clock, Purge, SystemClock};
use serde_json::json;

use super::Ending;
use crate::{args, failure::Result, output::Output, prompt, session::Session, text::count};

/// Remove dispatches that finished some time ago, including dead letters
///
/// Their ids can then be used again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore mailbox purge --dry-run\n  agentstore mailbox purge --older-than 7d --yes"
)]
pub(super) struct Args {
    /// Remove only dispatches that finished at least this long ago
    #[arg(long, value_name = "AGE", default_value = "24h", value_parser = args::parse_age)]
    older_than: Duration,
    /// Only print how many dispatches would be removed, up to 1,000
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mailbox = session.mailbox()?;
    let request = Purge::new(SystemClock.now().saturating_sub(args.older_than));
    let mut dry = request.clone();
    dry.dry_run = true;
    let found = mailbox.purge(dry).await?.removed;
    // One call counts at most `limit` dispatches, so there may be more.
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
    Ok(Ending::Success)
}
