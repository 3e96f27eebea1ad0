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
    let found_count = mailbox.purge(dry_request).await?.removed;
    // One call counts at most `limit` dispatches, so there may be more.
    let or_more = if found_count >= u64::from(request.limit) { " or more" } else { "" };
    let mut removed_count = 0;
    if found_count > 0 && !args.dry_run {
        prompt::confirm(args.yes, &format!("Remove {}{or_more}?", with_noun(found_count, "dispatch")))?;
        loop {
            let removed_now = mailbox.purge(request.clone()).await?.removed;
            removed_count += removed_now;
            if removed_now == 0 {
                break;
            }
        }
    }
    if out.is_json() {
        out.print_document(&json!({ "found": found_count, "removed": removed_count, "dry_run": args.dry_run }))?;
    } else if args.dry_run {
        out.print_line(format!("would remove {}{or_more}", with_noun(found_count, "dispatch")))?;
    } else {
        out.print_line(format!("removed {}", with_noun(removed_count, "dispatch")))?;
    }
    Ok(Ending::Success)
}
