//! `append`: appends a message at the head of a thread.

use agentstore::{NewEntry, ThreadId};

use super::{Ending, print_receipt};
use crate::{failure::Result, guard_args::GuardArgs, message::MessageArgs, output::Output, session::Session};

/// Append a message at the head of a thread; the thread is created if it does not exist
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    echo \"What is a monad?\" | agentstore append t-42\n  \
    agentstore append t-42 --expect 1 --message '{\"role\":\"assistant\",\"blocks\":[{\"text\":\"A burrito.\"}]}'\n  \
    agentstore append t-42 --message @reply.json\n\n\
    The command prints the receipt after the message has become durable.")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    #[command(flatten)]
    message: MessageArgs,
    #[command(flatten)]
    guard: GuardArgs,
}

impl Args {
    pub(crate) fn read_input(&mut self) -> Result<()> {
        self.message.read_input()
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let message = args.message.into_message()?;
    let guard = args.guard.for_new_or_existing_thread(session, args.thread.clone()).await?;
    let receipt = session.commits()?.commit(guard.commit().entry(NewEntry::new(message))).await?;
    print_receipt(&receipt, &format!("appended to thread {}", args.thread), out)
}
