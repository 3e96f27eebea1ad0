//! `fork`: begins a new branch with a message below an earlier entry.

use agentstore::{CommitCoordinatorExt, Fork, NewEntry, ThreadId};

use super::{Ending, print_receipt};
use crate::{
    entry_ref::EntryRef, failure::Result, guard_args::GuardArgs, message::MessageArgs, output::Output, session::Session,
};

/// Begin a new branch with a message below an earlier entry; the old branch stays
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore fork t-42 --at @16 --message \"Try it without recursion\"")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The entry below which to append: its id, or `@N` as `agentstore tree` prints it
    #[arg(long, value_name = "ENTRY")]
    at: EntryRef,
    #[command(flatten)]
    message: MessageArgs,
    #[command(flatten)]
    guard: GuardArgs,
}

impl Args {
    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        self.message.read_document_args()
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let thread = session.require_thread(&args.thread).await?;
    let at = args.at.resolve(session, &args.thread).await?;
    let fork = Fork::below(at.clone()).entry(NewEntry::new(args.message.into_message()?));
    let receipt = session.commits()?.fork(args.guard.for_existing_thread(&thread), fork).await?;
    print_receipt(&receipt, &format!("forked thread {} at entry {at}", args.thread), out)
}
