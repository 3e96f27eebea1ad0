//! `blobs show`: prints what is known about a blob, and which threads refer to it.

use agentstore::{BlobHash, Error, ThreadId};
use indicatif::HumanBytes;
use serde_json::json;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    pages,
    session::Session,
    text::{self, terminal_safe},
};

/// Print what is known about a blob, and which threads refer to it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentstore blobs show 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824")]
pub(super) struct Args {
    /// The hash of the blob
    hash: BlobHash,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let blobs = session.blobs()?;
    let blob = blobs.load_blob(&args.hash).await?;
    let blob = blob.ok_or_else(|| Error::not_found("blob", args.hash.as_str()))?;
    let list = async |page| blobs.list_blob_referrers(&args.hash, page).await;
    let threads: Vec<ThreadId> = pages::load_all(list).await?;
    if out.is_json() {
        out.print_document(&json!({ "blob": blob, "threads": threads }))?;
        return Ok(Ending::Success);
    }
    out.print_line(out.style(blob.hash.to_string()).bold())?;
    out.print_line(format!("  size          {}, {} bytes", HumanBytes(blob.bytes), blob.bytes))?;
    out.print_line(format!("  stored        {}", text::format_time(blob.created_at)))?;
    if let Some(unused_since) = blob.unused_since {
        out.print_line(format!("  unused since  {}", text::format_time(unused_since)))?;
    }
    if threads.is_empty() {
        out.print_line("  no thread refers to it")?;
    }
    for thread in &threads {
        out.print_line(format!("  thread        {}", terminal_safe(thread.as_str())))?;
    }
    Ok(Ending::Success)
}
