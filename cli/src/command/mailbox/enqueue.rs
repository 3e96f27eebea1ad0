//! `mailbox enqueue`: queues a dispatch for a run of a thread.

use std::time::Duration;

use agentstore::{DedupeKey, DispatchId, Error, Json, NewDispatch, RunId, ThreadId, When};

use super::Ending;
use crate::{
    args,
    document_arg::{self, DocumentArg},
    failure::Result,
    output::Output,
    session::Session,
    text,
};

/// Queue a dispatch for a run of a thread
///
/// The mailbox does not check whether the thread and the run exist.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore mailbox enqueue t-42 --run run-7\n  \
    agentstore mailbox enqueue t-42 --run run-8 --payload '{\"task\":\"index\"}' --in 10m --key index\n  \
    agentstore mailbox enqueue t-42 --run run-9 --payload @task.json")]
pub(super) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The id of the run
    #[arg(long)]
    run: RunId,
    /// The payload for the worker, a JSON value
    ///
    /// `@FILE` reads the value from a file, and `-` from standard input.
    #[arg(long, value_name = "JSON|@FILE|-")]
    payload: Option<DocumentArg>,
    #[arg(skip)]
    parsed_payload: Option<Json>,
    /// The id of the dispatch; generated if not given
    ///
    /// A command with an id is safe to repeat: the dispatch is queued once.
    #[arg(long, value_name = "ID")]
    id: Option<DispatchId>,
    /// A dedupe key: refuse the dispatch while another dispatch of the thread with this key is queued or claimed
    #[arg(long, value_name = "KEY")]
    key: Option<DedupeKey>,
    /// The priority: dispatches with lower numbers are claimed first
    #[arg(long, default_value_t = 128, value_name = "0-255")]
    priority: u8,
    /// How long to wait before the dispatch can be claimed, such as `10m`; it can be claimed at once if not given
    #[arg(long = "in", value_name = "TIME", value_parser = args::parse_age)]
    delay: Option<Duration>,
    /// The number of failures and expired leases after which the dispatch becomes a dead letter
    #[arg(long, default_value_t = 5, value_name = "N")]
    max_attempts: u32,
}

impl Args {
    pub(super) fn read_document_args(&mut self) -> Result<()> {
        self.parsed_payload = document_arg::read_json(self.payload.as_ref(), "--payload")?;
        Ok(())
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mut dispatch = NewDispatch::new(args.thread, args.run).with_priority(args.priority);
    (dispatch.id, dispatch.payload, dispatch.dedupe_key) = (args.id, args.parsed_payload, args.key);
    dispatch = dispatch.available(args.delay.map_or(When::Now, When::In)).with_max_attempts(args.max_attempts);
    let mut answers = session.mailbox()?.enqueue(vec![dispatch]).await?;
    let queued =
        answers.pop().ok_or_else(|| Error::unavailable("the mailbox returned no result for the dispatch"))??;
    if out.is_json() {
        out.print_document(&queued)?;
        return Ok(Ending::Success);
    }
    let again = if queued.deduplicated { " (it existed already)" } else { "" };
    let (id, thread) = (text::terminal_safe(queued.id.as_str()), text::terminal_safe(queued.thread.as_str()));
    out.print_line(format!(
        "queued dispatch {id} for thread {thread}, not before {}{again}",
        text::format_time(queued.available_at)
    ))?;
    Ok(Ending::Success)
}
