//! `pending append`: queues a message for a run of a thread.

use agentstore::{AppendPending, EntryId, NewInput, ThreadId};

use super::{DeliveryArgs, Ending, print_appended};
use crate::{failure::Result, message::MessageArgs, output::Output, session::Session, text::terminal_safe};

/// Append a message to the queue of a thread; the thread is created if it does not exist
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore pending append t-42 --message \"And in French?\"\n  \
    echo \"Stop, the file is wrong\" | agentstore pending append t-42 --at interrupt --for run-7")]
pub(super) struct Args {
    /// The id of the thread
    thread: ThreadId,
    #[command(flatten)]
    message: MessageArgs,
    #[command(flatten)]
    delivery: DeliveryArgs,
    /// The id of the input; generated if not given
    ///
    /// A command with an id is safe to repeat while the input is pending: the input is queued once.
    #[arg(long, value_name = "ID")]
    id: Option<EntryId>,
}

impl Args {
    pub(super) fn read_document_args(&mut self) -> Result<()> {
        self.message.read_document_args()
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mut input = NewInput::message(args.message.into_message()?).with_delivery(args.delivery.delivery());
    input.id = args.id;
    let what = format!("queued for thread {}", terminal_safe(args.thread.as_str()));
    let appended = session.pending()?.append_pending(AppendPending::new(args.thread, [input])).await?;
    print_appended(&appended, &what, out)
}
