//! `append`: appends a message, or the messages of a provider's request or reply, at the head of a thread.

use agentstore::{Message, NewEntry, ThreadId};

use super::{Ending, print_receipt};
use crate::{
    failure::Result, guard_args::GuardArgs, message::MessageArgs, model_args::ModelArgs, output::Output,
    session::Session,
};

/// Append a message at the head of a thread; the thread is created if it does not exist
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    echo \"What is a monad?\" | agentstore append t-42\n  \
    agentstore append t-42 --expect 1 --message '{\"role\":\"assistant\",\"blocks\":[{\"text\":\"A burrito.\"}]}'\n  \
    agentstore append t-42 --message @message.json\n  \
    agentstore append t-42 --provider anthropic --model claude-sonnet-4-5 --message @reply.json\n\n\
    With `--provider`, the message is a request to that API, a reply from it, or the list of the events of a streamed \
    reply.\n\
    The command prints the receipt after the message has become durable.")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    #[command(flatten)]
    message: MessageArgs,
    #[command(flatten)]
    model: Option<ModelArgs>,
    /// The messages of the request or reply, if a provider is given.
    #[arg(skip)]
    provider_messages: Vec<Message>,
    #[command(flatten)]
    guard: GuardArgs,
}

impl Args {
    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        match &self.model {
            Some(model) => self.provider_messages = self.message.read_body(&model.target())?,
            None => self.message.read_document_args()?,
        }
        Ok(())
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let messages = if args.model.is_some() { args.provider_messages } else { vec![args.message.into_message()?] };
    let entries = messages.into_iter().map(NewEntry::new);
    let guard = args.guard.for_new_or_existing_thread(session, args.thread.clone()).await?;
    let receipt = session.commits()?.commit(guard.commit().entries(entries)).await?;
    print_receipt(&receipt, &format!("appended to thread {}", args.thread), out)
}
