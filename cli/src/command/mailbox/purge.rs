//! `mailbox purge`: removes finished dispatches.

use std::time::Duration;

use agentstore::{Clock, Purge, SystemClock};
use serde_json::json;

use super::Ending;
use crate::{args, failure::Result, output::Output, prompt, session::Session, text::with_noun};

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
    let mut dry_request = request.clone();
    dry_request.dry_run = true;
    let found = mailbox.purge(dry_request).await?.removed;
    // One call counts at most `limit` dispatches, so there may be more.
    let more = if found >= u64::from(request.limit) { " or more" } else { "" };
    let mut removed = 0;
    if found > 0 && !args.dry_run {
        prompt::confirm(args.yes, &format!("Remove {}{more}?", with_noun(found, "dispatch")))?;
        loop {
            let removed_now = mailbox.purge(request.clone()).await?.removed;
            removed += removed_now;
            if removed_now == 0 {
                break;
            }
        }
    }
    if out.is_json() {
        out.print_document(&json!({ "found": found, "removed": removed, "dry_run": args.dry_run }))?;
    } else if args.dry_run {
        out.print_line(format!("would remove {}{more}", with_noun(found, "dispatch")))?;
    } else {
        out.print_line(format!("removed {}", with_noun(removed, "dispatch")))?;
    }
    Ok(Ending::Success)
}
