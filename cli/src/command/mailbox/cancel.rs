//! `mailbox cancel`: cancels queued dispatches.

use agentstore::DispatchId;

use super::{Ending, print_answers};
use crate::{failure::Result, output::Output, session::Session};

/// Cancel queued dispatches; a dispatch that is claimed or has finished is refused
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore mailbox cancel d-17 d-18\n  \
    agentstore mailbox cancel d-17 --json | jq .refused\n\n\
    To end a claimed dispatch, use `agentstore mailbox interrupt`. The exit code is 1 if a dispatch was refused.")]
pub(super) struct Args {
    /// The ids of the dispatches
    #[arg(required = true, value_name = "DISPATCH")]
    dispatches: Vec<DispatchId>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mailbox = session.mailbox()?;
    let mut answers = Vec::new();
    for id in args.dispatches {
        let answer = mailbox.cancel(&id).await;
        answers.push((id, answer));
    }
    print_answers(answers, "cancelled", out)
}
