//! `pending reorder`: changes the order of the queue.

use agentstore::{EntryId, Reorder, ThreadId};
use serde_json::json;

use super::Ending;
use crate::{failure::Result, output::Output, session::Session, text::terminal_safe};

/// Change the order of the queue of a thread
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore pending reorder t-42 SECOND FIRST --expect 2\n\n\
    Without `--expect` the command reads the queue first, and is refused if the queue has changed since then.")]
pub(super) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The ids of all inputs of the queue, each once, in the new order
    #[arg(required = true)]
    inputs: Vec<EntryId>,
    /// Refuse the change unless the queue has this revision
    #[arg(long, value_name = "REVISION")]
    expect: Option<u64>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let pending = session.pending()?;
    let expect = match args.expect {
        Some(expect) => expect,
        None => pending.load_queue(&args.thread).await?.revision,
    };
    let what = format!("reordered {} inputs of thread {}", args.inputs.len(), terminal_safe(args.thread.as_str()));
    let revision = pending.reorder_pending(Reorder::new(args.thread, expect, args.inputs)).await?;
    if out.is_json() {
        out.print_document(&json!({ "revision": revision }))?;
    } else {
        out.print_line(format!("{what}; the queue now has revision {revision}"))?;
    }
    Ok(Ending::Success)
}
