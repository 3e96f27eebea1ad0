//! `pending edit`: changes the message or the delivery of an input.

use agentstore::{EntryId, Message, PendingUpdate, ThreadId};

use super::{DeliveryArgs, Ending};
use crate::{
    document_arg::DocumentArg,
    failure::{Failure, Result},
    message,
    output::Output,
    session::Session,
    text::terminal_safe,
};

/// Change the message or the delivery of an input, which keeps its position in the queue
///
/// If one of `--at`, `--alone`, `--barrier` and `--for` is given, the others are reset to their defaults.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore pending edit t-42 INPUT --message \"And in Italian?\"\n  \
    agentstore pending edit t-42 INPUT --at next_step --expect 3")]
pub(super) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The id of the input
    input: EntryId,
    /// The new message: text of the user, or a JSON document with `role` and `blocks`; unchanged if not given
    ///
    /// `@FILE` reads the message from a file, and `-` from standard input. Write `@@` for text that begins with `@`.
    #[arg(long, short, value_name = "TEXT|JSON|@FILE|-")]
    message: Option<DocumentArg>,
    #[arg(skip)]
    parsed_message: Option<Message>,
    #[command(flatten)]
    delivery: DeliveryArgs,
    /// Refuse the change unless the input has this revision
    #[arg(long, value_name = "REVISION")]
    expect: Option<u64>,
}

impl Args {
    pub(super) fn read_document_args(&mut self) -> Result<()> {
        self.parsed_message = self.message.as_ref().map(message::read_message).transpose()?;
        Ok(())
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mut update = PendingUpdate::new(args.thread, args.input);
    update.expect_revision = args.expect;
    update.message = args.parsed_message;
    update.delivery = args.delivery.if_given();
    if update.message.is_none() && update.delivery.is_none() {
        let what = "nothing to change: give a new message with `--message`, or a new delivery with `--at`, `--alone`, \
                    `--barrier` or `--for`";
        return Err(Failure::Usage(what.to_owned()));
    }
    let input = session.pending()?.update_pending(update).await?;
    if out.is_json() {
        out.print_document(&input)?;
    } else {
        out.print_line(format!("changed input {}, revision {}", terminal_safe(input.id.as_str()), input.revision))?;
    }
    Ok(Ending::Success)
}
