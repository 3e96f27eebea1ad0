//! `pending retract`: removes an input from the queue.

use agentstore::{EntryId, ThreadId};

use super::Ending;
use crate::{failure::Result, output::Output, session::Session, text::terminal_safe};

/// Remove an input from the queue of a thread
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore pending retract t-42 INPUT")]
pub(super) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The id of the input
    input: EntryId,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let input = session.pending()?.retract_pending(&args.thread, &args.input).await?;
    if out.is_json() {
        out.print_document(&input)?;
    } else {
        out.print_line(format!("retracted input {}", terminal_safe(input.id.as_str())))?;
    }
    Ok(Ending::Success)
}
