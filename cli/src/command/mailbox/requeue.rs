//! `mailbox requeue`: puts dead letters back into the queue.

use agentstore::{DispatchFilter, DispatchId, Requeue, ThreadId};

use super::{Ending, print_answers};
use crate::{failure::Result, output::Output, prompt, session::Session, text::with_noun};

/// The greatest number of dead letters that one call requeues.
const MAX_REQUEUED_PER_CALL: u32 = 1_000;

/// Put dead letters back into the queue, with all their attempts available again
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore mailbox requeue d-17\n  agentstore mailbox requeue --thread t-42 --yes"
)]
pub(super) struct Args {
    /// The ids of the dispatches; all dead letters if none is given
    dispatches: Vec<DispatchId>,
    /// Only dead letters of this thread
    #[arg(long, conflicts_with = "dispatches")]
    thread: Option<ThreadId>,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mailbox = session.mailbox()?;
    let mut answers = Vec::new();
    if args.dispatches.is_empty() {
        let dead_letters = mailbox.count_dispatches(args.thread.as_ref()).await?.dead_letter;
        if dead_letters > 0 {
            prompt::confirm(args.yes, &format!("Requeue {}?", with_noun(dead_letters, "dead letter")))?;
        }
        let filter = args.thread.map_or_else(DispatchFilter::default, DispatchFilter::of_thread);
        loop {
            let requeued = mailbox.requeue(Requeue::matching(filter.clone(), MAX_REQUEUED_PER_CALL)).await?;
            // A refused dispatch stays a dead letter, so the next call would return it again.
            let is_last_batch = requeued.is_empty() || requeued.iter().any(|(_, answer)| answer.is_err());
            answers.extend(requeued);
            if is_last_batch {
                break;
            }
        }
    } else {
        for dispatches in args.dispatches.chunks(MAX_REQUEUED_PER_CALL as usize) {
            answers.extend(mailbox.requeue(Requeue::ids(dispatches.iter().cloned())).await?);
        }
    }
    print_answers(answers, "requeued", out)
}
