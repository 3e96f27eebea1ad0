//! `rewind`: moves the head to an earlier entry, and deletes nothing.

use agentstore::{CommitCoordinatorExt, RewindTo, ThreadId};

use super::{Ending, print_receipt};
use crate::{entry_ref::EntryRef, failure::Result, guard_args::GuardArgs, output::Output, session::Session, text};

/// Move the head to an earlier entry, on any branch; nothing is deleted
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    agentstore rewind t-42 --to @16\n  \
    agentstore rewind t-42 --label before-refactoring   (to the entry before the checkpoint of this name)\n  \
    agentstore rewind t-42 --start                      (the next context is empty)")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    #[command(flatten)]
    target: RewindTarget,
    #[command(flatten)]
    guard: GuardArgs,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct RewindTarget {
    /// Move the head to this entry: its id, or `@N` as `agentstore tree` prints it
    #[arg(long, value_name = "ENTRY")]
    to: Option<EntryRef>,
    /// Move the head to the entry before the last checkpoint with this number on the path of the head
    #[arg(long, value_name = "N")]
    checkpoint: Option<u64>,
    /// Move the head to the entry before the last checkpoint with this name on the path of the head
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Move the head to the entry before the newest checkpoint with this name on any branch
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// Move the head to before the first entry, so that the next context is empty
    #[arg(long)]
    start: bool,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let thread = session.require_thread(&args.thread).await?;
    let to = match args.target {
        RewindTarget { to: Some(entry), .. } => RewindTo::Entry(entry.resolve(session, &args.thread).await?),
        RewindTarget { checkpoint: Some(number), .. } => RewindTo::Checkpoint(number),
        RewindTarget { label: Some(label), .. } => RewindTo::Label(label),
        RewindTarget { snapshot: Some(name), .. } => RewindTo::Snapshot(name),
        // The parser of the command line requires exactly one of the options, so `start` is set here.
        RewindTarget { to: None, checkpoint: None, label: None, snapshot: None, start: _ } => RewindTo::Start,
    };
    let what = format!("rewound thread {} to {}", args.thread, text::rewind_target_text(&to));
    let receipt = session.commits()?.rewind(args.guard.for_existing_thread(&thread), to).await?;
    print_receipt(&receipt, &what, out)
}
