//! `checkpoint`: sets a point to which the head can be rewound.

use agentstore::{CommitCoordinatorExt, NewCheckpoint, ThreadId};

use super::{Ending, print_receipt};
use crate::{failure::Result, guard_args::GuardArgs, output::Output, session::Session};

/// Set a numbered checkpoint at the head, for a later `agentstore rewind`
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore checkpoint t-42 --label before-refactoring")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// A name for the checkpoint, for `agentstore rewind --label` and `agentstore rewind --snapshot`
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,
    #[command(flatten)]
    guard: GuardArgs,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let thread = session.require_thread(&args.thread).await?;
    let checkpoint = args.label.map_or_else(NewCheckpoint::new, |label| NewCheckpoint::new().with_label(label));
    let receipt = session.commits()?.checkpoint(args.guard.for_existing_thread(&thread), checkpoint).await?;
    print_receipt(&receipt, &format!("set a checkpoint in thread {}", args.thread), out)
}
