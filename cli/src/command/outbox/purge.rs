//! `outbox purge`: removes delivered rows and dead letters.

use std::time::Duration;

use agentstore::{Clock, PurgeOutbox, SystemClock};
use serde_json::json;

use super::Ending;
use crate::{args, failure::Result, output::Output, prompt, session::Session, text::with_noun};

/// Remove outbox rows that were delivered or became dead letters some time ago
///
/// Their dedupe keys can then be used again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore outbox purge --dry-run\n  agentstore outbox purge --older-than 7d --yes"
)]
pub(super) struct Args {
    /// Remove only rows that were delivered or became dead letters at least this long ago
    #[arg(long, value_name = "AGE", default_value = "24h", value_parser = args::parse_age)]
    older_than: Duration,
    /// Only print how many rows would be removed, up to 1,000
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let outbox = session.commits()?.outbox();
    let request = PurgeOutbox::new(SystemClock.now().saturating_sub(args.older_than));
    let found_count = outbox.purge_outbox(request.clone().dry()).await?;
    // One call counts at most `limit` rows, so there may be more.
    let or_more = if found_count >= u64::from(request.limit) { " or more" } else { "" };
    let mut removed_count = 0;
    if found_count > 0 && !args.dry_run {
        prompt::confirm(args.yes, &format!("Remove {}{or_more}?", with_noun(found_count, "row")))?;
        loop {
            let removed_now = outbox.purge_outbox(request.clone()).await?;
            removed_count += removed_now;
            if removed_now < u64::from(request.limit) {
                break;
            }
        }
    }
    if out.is_json() {
        out.print_document(&json!({ "found": found_count, "removed": removed_count, "dry_run": args.dry_run }))?;
    } else if args.dry_run {
        out.print_line(format!("would remove {}{or_more}", with_noun(found_count, "row")))?;
    } else {
        out.print_line(format!("removed {}", with_noun(removed_count, "row")))?;
    }
    Ok(Ending::Success)
}
