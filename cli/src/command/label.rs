//! `label`: sets or removes the label of an entry.

use agentstore::{CommitCoordinatorExt, Label, ThreadId};

use super::{Ending, print_receipt};
use crate::{entry_ref::EntryRef, failure::Result, guard_args::GuardArgs, output::Output, session::Session};

/// Set the label of an entry, or remove it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore label t-42 @16 \"the good idea\"\n  agentstore label t-42 @16 --clear")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The entry: its id, or `@N` as `agentstore tree` prints it
    entry: EntryRef,
    /// The label
    #[arg(required_unless_present = "clear", conflicts_with = "clear")]
    text: Option<String>,
    /// Remove the label
    #[arg(long)]
    clear: bool,
    #[command(flatten)]
    guard: GuardArgs,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let thread = session.require_thread(&args.thread).await?;
    let entry = args.entry.resolve(session, &args.thread).await?;
    let action = if args.clear { "removed the label of" } else { "labelled" };
    let what = format!("{action} entry {entry} of thread {}", args.thread);
    let label = Label::new(entry, args.text);
    let receipt = session.commits()?.label(args.guard.for_existing_thread(&thread), label).await?;
    print_receipt(&receipt, &what, out)
}
