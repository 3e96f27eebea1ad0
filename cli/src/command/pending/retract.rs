//! `pending retract`: an input that nobody is to read.

use agentstore::{EntryId, ThreadId};

use super::Ending;
use crate::{failure::Result, output::Output, session::Session, text::safe};

/// Take an input out of the queue, and print it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore pending retract t-42 INPUT")]
pub(super) struct Args {
    /// The thread
    thread: ThreadId,
    /// The input, by its id
    input: EntryId,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let input = session.pending()?.retract_pending(&args.thread, &args.input).await?;
    if out.json() {
        out.document(&input)?;
    } else {
        out.line(format!("retracted input {}", safe(input.id.as_str())))?;
    }
    Ok(Ending::Good)
}
