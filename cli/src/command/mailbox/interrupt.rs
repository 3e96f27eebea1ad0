//! `mailbox interrupt`: supersedes the queued dispatches of a thread, and invalidates its claims.

use agentstore::{Interrupt, InterruptKey, Interrupted, ThreadId};
use serde_json::json;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    prompt,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Supersede the queued dispatches of a thread, and invalidate its claims
///
/// A superseded dispatch is never claimed. A worker that holds a claim of the thread can then no longer write.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore mailbox interrupt t-42 --reason \"the user changed their mind\"\n  \
    agentstore mailbox interrupt t-42 --key cancel-1 --yes")]
pub(super) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The reason, which is recorded in the dispatches
    #[arg(long)]
    reason: Option<String>,
    /// An interrupt key: a repeat of the command with the same key has no further effect and prints the first answer
    #[arg(long)]
    key: Option<InterruptKey>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mailbox = session.mailbox()?;
    let queued = mailbox.count_dispatches(Some(&args.thread)).await?.queued;
    if queued > 0 {
        let what = with_noun(queued, "queued dispatch");
        prompt::confirm(args.yes, &format!("Supersede {what} of thread {}?", terminal_safe(args.thread.as_str())))?;
    }
    let mut request = Interrupt::new(args.thread);
    (request.reason, request.key) = (args.reason, args.key);
    let interrupted = mailbox.interrupt(request).await?;
    if out.is_json() {
        let Interrupted { epoch, superseded, claimed, at, deduplicated, .. } = interrupted;
        out.print_document(&json!({
            "epoch": epoch, "superseded": superseded, "claimed": claimed, "at": at, "deduplicated": deduplicated,
        }))?;
        return Ok(Ending::Success);
    }
    let again = if interrupted.deduplicated { " (the key was used before: this is the first answer)" } else { "" };
    out.print_line(format!(
        "superseded {}, epoch {}{again}",
        with_noun(interrupted.superseded, "dispatch"),
        interrupted.epoch
    ))?;
    if let Some(claimed) = &interrupted.claimed {
        out.print_line(format!(
            "dispatch {} is still claimed; its worker can no longer write",
            terminal_safe(claimed.as_str())
        ))?;
    }
    Ok(Ending::Success)
}
