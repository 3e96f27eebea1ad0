//! `blobs collect`: removes blobs that nothing refers to.

use std::time::Duration;

use agentstore::CollectBlobs;
use indicatif::HumanBytes;
use serde_json::json;

use super::Ending;
use crate::{args, failure::Result, output::Output, progress::TerminalProgress, session::Session, text};

/// Mark blobs that nothing refers to, and remove those that were marked before the grace time
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore blobs collect --dry-run\n  agentstore blobs collect --grace 24h\n\n\
    A blob that nothing refers to is marked by the first collection, and removed by one that runs after the grace \
    time. Putting it again, or a message that refers to it, takes the mark back. Other processes may use the store \
    meanwhile. `agentstore maintain --unused-blobs 24h` does the same in each of its rounds.")]
pub(super) struct Args {
    /// How long a marked blob is kept; at least 1h
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = args::parse_duration)]
    grace: Duration,
    /// Only print what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let request = CollectBlobs::new(args.grace);
    let request = if args.dry_run { request.dry() } else { request };
    let progress = TerminalProgress::new("collecting blobs");
    let collected = session.blobs()?.collect_blobs(request, &progress).await;
    progress.finish();
    let collected = collected?;
    if out.is_json() {
        out.print_document(&json!({ "collected": collected, "dry_run": args.dry_run }))?;
        return Ok(Ending::Success);
    }
    let would = if args.dry_run { "would be " } else { "" };
    let (removed, marked) = (text::with_noun(collected.removed, "blob"), text::with_noun(collected.marked, "blob"));
    out.print_line(format!("{removed} of {} {would}removed", HumanBytes(collected.removed_bytes)))?;
    out.print_line(format!("{marked} {would}marked as unused"))?;
    if collected.leftovers > 0 {
        out.print_line(format!(
            "{} of interrupted calls {would}removed",
            text::with_noun(collected.leftovers, "file")
        ))?;
    }
    Ok(Ending::Success)
}
