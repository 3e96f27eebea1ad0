//! `blobs list`: lists blobs.

use agentstore::Blob;
use indicatif::HumanBytes;
use serde_json::json;

use super::Ending;
use crate::{
    failure::Result,
    output::{JsonList, Output},
    pages,
    session::Session,
    text,
};

/// List blobs in the order of their hashes
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore blobs list\n  \
    agentstore blobs list --json | jq '[.blobs[].bytes] | add'")]
pub(super) struct Args {}

pub(super) async fn run(_args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let blobs = session.blobs()?;
    let found = pages::load_all(async |page| blobs.list_blobs(page).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "blobs")?;
        found.iter().try_for_each(|blob| list.item(blob))?;
        list.end()?;
    } else if found.is_empty() {
        out.print_line("there are no blobs")?;
    } else {
        let row = |blob: &Blob| {
            let unused = blob.unused_since.map(text::format_minute).unwrap_or_default();
            let bytes = HumanBytes(blob.bytes).to_string();
            vec![blob.hash.to_string(), bytes, text::format_minute(blob.created_at), unused]
        };
        let rows: Vec<_> = found.iter().map(row).collect();
        out.print_list(&["hash", "size", "stored", "unused since"], &rows)?;
    }
    Ok(Ending::Success)
}
