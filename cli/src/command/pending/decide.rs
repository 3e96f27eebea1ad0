//! `pending decide`: decides a ticket that a run waits for.

use agentstore::{AppendPending, Decision, DecisionAction, Json, NewInput, RunId, ThreadId};

use super::{Ending, print_appended};
use crate::{
    document_arg::{self, DocumentArg},
    failure::Result,
    output::Output,
    session::Session,
    text::terminal_safe,
};

/// Decide a ticket that a run waits for; a ticket can be decided only once
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore runs t-42 --json | jq '.runs[].status.waiting.tickets'\n  \
    agentstore pending decide t-42 run-7 ticket-1 --resume --result '{\"approved\":true}'\n  \
    agentstore pending decide t-42 run-7 ticket-1 --cancel --reason \"not on a Friday\"")]
pub(super) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The id of the run that waits
    run: RunId,
    /// The id of the ticket
    ticket: String,
    /// Let the run continue and do what the ticket asks for
    #[arg(long, required_unless_present = "cancel", conflicts_with = "cancel")]
    resume: bool,
    /// Let the run continue without doing what the ticket asks for
    #[arg(long)]
    cancel: bool,
    /// The result with which the run continues, a JSON value
    ///
    /// `@FILE` reads the value from a file, and `-` from standard input.
    #[arg(long, value_name = "JSON|@FILE|-")]
    result: Option<DocumentArg>,
    #[arg(skip)]
    parsed_result: Option<Json>,
    /// The reason for the decision
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl Args {
    pub(super) fn read_document_args(&mut self) -> Result<()> {
        self.parsed_result = document_arg::read_json(self.result.as_ref(), "--result")?;
        Ok(())
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let action = if args.cancel { DecisionAction::Cancel } else { DecisionAction::Resume };
    let what =
        format!("decided ticket {} of run {}: {action}", terminal_safe(&args.ticket), terminal_safe(args.run.as_str()));
    let mut decision = Decision::new(args.run, args.ticket, action);
    decision.result = args.parsed_result;
    decision.reason = args.reason;
    let request = AppendPending::new(args.thread, [NewInput::decision(decision)]);
    print_appended(&session.pending()?.append_pending(request).await?, &what, out)
}
