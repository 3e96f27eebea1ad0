//! `delete`: deletes a thread with everything in it.

use agentstore::{ChildStrategy, DeleteRequest, Expect, ThreadId};

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    prompt,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Delete a thread with its entries, runs, state and pending input
///
/// Events and outbox rows of the thread are kept. The mailbox is not changed: run `agentstore mailbox interrupt` before
/// you delete a thread that has queued or running work.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore delete t-42 --cascade --yes\n\n\
    The child threads of the thread are kept and no longer have a parent, unless `--cascade` or `--reject` is given.")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// Also delete the child threads of the thread, their child threads, and so on
    #[arg(long, conflicts_with = "reject")]
    cascade: bool,
    /// Refuse to delete the thread if it has child threads
    #[arg(long)]
    reject: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let thread = session.require_thread(&args.thread).await?;
    let (child_strategy, children_note) = match (args.cascade, args.reject) {
        (true, _) => (ChildStrategy::Cascade, ", together with all of its descendant threads"),
        (false, true) => (ChildStrategy::Reject, ""),
        (false, false) => (ChildStrategy::Detach, ""),
    };
    let entries = with_noun(thread.version.number(), "entry");
    prompt::confirm(
        args.yes,
        &format!("Delete thread {} with {entries}{children_note}?", terminal_safe(args.thread.as_str())),
    )?;
    // The user confirmed the deletion of the version that was read. If the thread has changed since then, the deletion
    // is refused.
    let request = DeleteRequest { children: child_strategy, expect: Expect::Version(thread.version) };
    let deletion = session.threads()?.delete_thread(&args.thread, request).await?;
    if out.is_json() {
        out.print_document(&deletion)?;
        return Ok(Ending::Success);
    }
    for id in &deletion.deleted {
        out.print_line(format!("deleted  {}", terminal_safe(id.as_str())))?;
    }
    for id in &deletion.detached {
        out.print_line(format!("detached {}", terminal_safe(id.as_str())))?;
    }
    Ok(Ending::Success)
}
