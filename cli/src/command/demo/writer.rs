//! The process that the tour kills: it commits turn after turn, and says when it begins one and when one is durable.

use agentstore::ThreadId;

use super::turn::Turn;
use crate::{command::Ending, failure::Result, output::Output, session::Session};

/// Commit turns until killed: the part of `demo` that crashes
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore demo   (which starts this and kills it)")]
pub(crate) struct Args {
    /// The thread
    thread: ThreadId,
    /// The name of the tour
    name: String,
    /// The number of the first turn
    first: u64,
}

/// After so many turns it ends by itself, should nobody kill it.
const MOST_TURNS: u64 = 100_000;

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let commits = session.commits()?;
    for number in args.first..args.first + MOST_TURNS {
        let turn = Turn::new(&args.thread, &args.name, number);
        out.line(format!("begin {number}"))?;
        out.flush()?;
        let receipt = commits.commit(turn.commit()?).await?;
        // Nothing before this line is a promise.
        out.line(format!("done {number} {}", receipt.version.number()))?;
        out.flush()?;
    }
    Ok(Ending::Good)
}
