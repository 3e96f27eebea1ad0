//! The process that `agentstore demo` kills. It commits one turn after another, and prints when a turn begins and when
//! a turn is durable.

use agentstore::ThreadId;

use super::turn::Turn;
use crate::{command::Ending, failure::Result, output::Output, session::Session};

/// Commit turns until the process is killed; `agentstore demo` starts and kills it
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore demo   (which starts this and kills it)")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The prefix of the ids that this demo uses
    id_prefix: String,
    /// The number of the first turn
    first: u64,
}

/// The number of turns after which the writer ends by itself if it is not killed.
const MAX_TURNS: u64 = 100_000;

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let commits = session.commits()?;
    for number in args.first..args.first + MAX_TURNS {
        let turn = Turn::new(&args.thread, &args.id_prefix, number);
        out.print_line(format!("begin {number}"))?;
        out.flush()?;
        let receipt = commits.commit(turn.to_commit()?).await?;
        // This line acknowledges the turn.
        out.print_line(format!("done {number} {}", receipt.version.number()))?;
        out.flush()?;
    }
    Ok(Ending::Success)
}
