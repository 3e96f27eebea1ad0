//! `outbox purge`: removes rows that were delivered or given up.

use std::time::Duration;

use agentstore::{Clock, PurgeOutbox, SystemClock};
use serde_json::json;

use super::Ending;
use crate::{args, failure::Result, output::Output, prompt, session::Session, text::count};

/// Remove rows that were delivered or given up some time ago; their dedupe keys are free then
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore outbox purge --dry-run\n  agentstore outbox purge --older-than 7d --yes"
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
    let outbox = session.commits()?.outbox();
    let request = PurgeOutbox::new(SystemClock.now().saturating_sub(args.older_than));
    let found = outbox.purge_outbox(request.clone().dry()).await?;
    // One call looks at so many, and says no more.
    let more = if found >= u64::from(request.limit) { " or more" } else { "" };
    let mut removed = 0;
    if found > 0 && !args.dry_run {
        prompt::confirm(args.yes, &format!("Remove {}{more}?", count(found, "row")))?;
        loop {
            let step = outbox.purge_outbox(request.clone()).await?;
            removed += step;
            if step < u64::from(request.limit) {
                break;
            }
        }
    }
    if out.json() {
        out.document(&json!({ "found": found, "removed": removed, "dry_run": args.dry_run }))?;
    } else if args.dry_run {
        out.line(format!("would remove {}{more}", count(found, "row")))?;
    } else {
        out.line(format!("removed {}", count(removed, "row")))?;
    }
    Ok(Ending::Good)
}
