//! `compact`: lets a command summarise the older messages of a thread, and writes the summary.

use std::{io, num::NonZeroUsize};

use agentstore::{
    CancelReason, Compacted, CompactionOutcome, CompactionPlan, Compactor, ContextMessage, ContextTokens, EntryId,
    Error, PlannedCompaction, Receipt, ThreadId, context::DEFAULT_RESERVED_TOKENS,
};
use clap::{ArgGroup, ValueEnum};
use serde::Serialize;

use super::Ending;
use crate::{
    child::{self, CommandInput, CommandOutcome, CommandSpec, EndReason, Environment},
    context_diff::message_line,
    failure::{Failure, Result},
    output::Output,
    session::{Access, Session},
    signals::Signals,
    text::{self, terminal_safe, with_noun},
};

/// The greatest size of a summary. It is far above what a model writes.
const MAX_SUMMARY_BYTES: usize = 1 << 20;

/// Summarise the older messages of a thread with a command; the summary replaces them in the context, and nothing is
/// deleted
#[derive(Debug, clap::Args)]
#[command(
    group = ArgGroup::new("when").required(true).args(["window", "force"]),
    after_help = "Examples:\n  agentstore compact t-42 --window 200000 --exec ./summarize.sh\n  \
    agentstore compact t-42 --force --keep 6 --exec './summarize.sh --short'\n  \
    agentstore compact t-42 --window 200000 --dry-run\n\n\
    The command is run by `sh -c`. It reads the messages from standard input and prints the summary to standard \
    output: UTF-8 text of at most 1 MiB. With `--input text`, which is the default, it reads one text for a model: the \
    messages, each under a heading with its role, and the instruction to summarise them. With `--input json` it reads a \
    line for each message: a JSON document with `entry`, `synthetic` (if the message is not in the log) and \
    `message`. In its environment are AGENTSTORE_THREAD_ID, AGENTSTORE_URL, AGENTSTORE_MAILBOX, AGENTSTORE_SETTINGS, \
    AGENTSTORE_BLOBS and AGENTSTORE_TENANT.\n\n\
    If the command fails or prints nothing, or if the thread was changed so that the summary no longer fits, nothing \
    is written. If there is nothing to do, no command is run.\n\n\
    Exit codes: 0 compacted, planned or nothing to do, 1 nothing was written because of an error, 2 invalid command \
    line.\n\n\
    The size of the context is the larger of an estimate (a token for four bytes of text) and the size that a provider \
    last reported. No call is separated from its result, so more messages than `--keep` says may stay."
)]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The command that makes the summary; it is run by `sh -c`
    #[arg(long, value_name = "CMD", required_unless_present = "dry_run")]
    exec: Option<String>,
    /// The number of user and assistant messages that are kept unchanged
    #[arg(long, value_name = "N", default_value = "2")]
    keep: NonZeroUsize,
    /// Compact only if the context and the reserved tokens reach the window of the model
    #[arg(long, value_name = "TOKENS")]
    window: Option<u64>,
    /// The tokens that stay free for the answer of the model; 50000 if not given
    #[arg(long, value_name = "TOKENS", requires = "window", conflicts_with = "force")]
    reserve: Option<u64>,
    /// Compact even if the context is small
    #[arg(long)]
    force: bool,
    /// What the command reads from standard input
    #[arg(long, value_name = "FORM", default_value = "text")]
    input: InputForm,
    /// Print what would be summarised, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// The form in which the command reads the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum InputForm {
    /// One text for a model, with the instruction to summarise it
    Text,
    /// A JSON document for each message
    Json,
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        if self.dry_run { Access::Read } else { Access::Write }
    }
}

/// The JSON output.
#[derive(Serialize)]
struct Document<'a> {
    outcome: &'static str,
    thread: &'a ThreadId,
    tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    covers: Option<Covers<'a>>,
    /// The number of messages that were or would be summarised.
    summarized: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    summarized_tokens: Option<u64>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    messages: &'a [ContextMessage],
    #[serde(skip_serializing_if = "Option::is_none")]
    receipt: Option<&'a Receipt>,
}

#[derive(Serialize)]
struct Covers<'a> {
    from: &'a EntryId,
    to: &'a EntryId,
}

impl<'a> Document<'a> {
    fn new(outcome: &'static str, thread: &'a ThreadId, tokens: ContextTokens) -> Self {
        let tokens = tokens.size();
        Self {
            outcome,
            thread,
            tokens,
            tokens_after: None,
            covers: None,
            summarized: 0,
            summarized_tokens: None,
            messages: &[],
            receipt: None,
        }
    }

    fn with_plan(mut self, planned: &'a PlannedCompaction, compactor: &Compactor) -> Self {
        self.covers = Some(Covers { from: &planned.interval().from, to: &planned.interval().to });
        self.summarized = planned.older().len();
        self.summarized_tokens = Some(compactor.count_tokens(planned.older()));
        self
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let (window, reserved_tokens) = (args.window.unwrap_or_default(), args.reserve.unwrap_or(DEFAULT_RESERVED_TOKENS));
    if args.window.is_some() && reserved_tokens >= window {
        return Err(Failure::Usage(format!(
            "`--reserve` ({reserved_tokens} tokens) must be smaller than `--window` ({window} tokens)"
        )));
    }
    let compactor = Compactor::new(session.commits()?, window)
        .with_reserved_tokens(reserved_tokens)
        .with_kept_messages(args.keep.get());
    let plan =
        if args.force { compactor.plan_now(&args.thread).await? } else { compactor.plan_if_due(&args.thread).await? };
    match plan {
        CompactionPlan::Ready(planned) if args.dry_run => print_plan(&planned, &compactor, out),
        CompactionPlan::Ready(planned) => {
            let summary = summarize(&args, &planned, session).await?;
            let outcome = compactor.write(&planned, summary.into()).await?;
            let compacted = compacted_or_failure(outcome, &planned, session).await?;
            let tokens_after = compactor.measure(&args.thread).await?;
            print_compacted(&compacted, &planned, (&compactor, tokens_after), out)
        }
        CompactionPlan::NotDue(tokens) => {
            let reason = format!("{} and {reserved_tokens} reserved are less than {window}", tokens_text(tokens));
            print_nothing(&Document::new("not_due", &args.thread, tokens), &reason, out)
        }
        CompactionPlan::NothingToCompact(tokens) => {
            let reason = format!(
                "nothing but system messages and an earlier summary stands before the last {}",
                with_noun(args.keep.get() as u64, "message")
            );
            print_nothing(&Document::new("nothing_to_compact", &args.thread, tokens), &reason, out)
        }
    }
}

/// Lets the command make the summary.
async fn summarize(args: &Args, planned: &PlannedCompaction, session: &Session) -> Result<String> {
    let spec = CommandSpec {
        command: args.exec.clone().unwrap_or_default(),
        environment: Environment(session.child_environment()?),
    };
    let input = CommandInput {
        bytes: input_of_command(args.input, planned)?.into_bytes(),
        variables: vec![("AGENTSTORE_THREAD_ID", args.thread.to_string())],
        max_output_bytes: MAX_SUMMARY_BYTES,
    };
    let mut signals = Signals::new()?;
    let stop = async {
        signals.next().await;
        CancelReason::Stopping
    };
    summary_of(child::run(&spec, input, stop).await)
}

fn input_of_command(form: InputForm, planned: &PlannedCompaction) -> Result<String> {
    match form {
        InputForm::Text => Ok(text::message_text(&planned.request()) + "\n"),
        InputForm::Json => {
            let mut lines = String::new();
            for message in planned.older() {
                lines.push_str(&serde_json::to_string(message)?);
                lines.push('\n');
            }
            Ok(lines)
        }
    }
}

/// Returns the summary that a command printed, or why there is none.
fn summary_of(outcome: CommandOutcome) -> Result<String> {
    let CommandOutcome { end_reason, output, printed_bytes, error_output } = outcome;
    let reason = match end_reason {
        EndReason::Code(0) if printed_bytes > MAX_SUMMARY_BYTES as u64 => {
            format!("the command printed {printed_bytes} bytes, and a summary has at most {MAX_SUMMARY_BYTES}")
        }
        EndReason::Code(0) => match String::from_utf8(output) {
            Ok(text) if text.trim().is_empty() => {
                child::with_error_output("the command printed nothing".to_owned(), &error_output)
            }
            Ok(text) => return Ok(text.trim().to_owned()),
            Err(_) => "the command printed something else than UTF-8 text".to_owned(),
        },
        EndReason::Code(code) => {
            child::with_error_output(format!("the command ended with exit code {code}"), &error_output)
        }
        EndReason::Signal(signal) => {
            child::with_error_output(format!("the command was killed by signal {signal}"), &error_output)
        }
        EndReason::Cancelled(_) => "the command was stopped".to_owned(),
        EndReason::SystemError(error) => return Err(no_summary_failure(error)),
    };
    Err(no_summary_failure(io::Error::other(reason)))
}

fn no_summary_failure(reason: io::Error) -> Failure {
    Failure::io("there is no summary, so nothing was changed", reason)
}

/// Returns the compaction that was written, or the error that says why none was.
async fn compacted_or_failure(
    outcome: CompactionOutcome,
    planned: &PlannedCompaction,
    session: &Session,
) -> Result<Box<Compacted>> {
    match outcome {
        CompactionOutcome::Compacted(compacted) => Ok(compacted),
        CompactionOutcome::ThreadChanged => {
            let (planned_thread, current) = (planned.thread(), session.require_thread(&planned.thread().id).await?);
            let conflict = Error::conflict("thread", Some(planned_thread.version), Some(current.version));
            Err(Failure::from(conflict).with_advice(
                "the thread changed while the summary was made, so that the summary no longer fits, and nothing was \
                 written: run the command again",
            ))
        }
        CompactionOutcome::Failed(error) => Err(no_summary_failure(io::Error::other(error))),
        // `Compactor::write` does not plan, so of these three outcomes it returns only `EmptySummary`.
        CompactionOutcome::EmptySummary | CompactionOutcome::NotDue(_) | CompactionOutcome::NothingToCompact(_) => {
            Err(no_summary_failure(io::Error::other("the text is blank")))
        }
    }
}

fn tokens_text(tokens: ContextTokens) -> String {
    with_noun(tokens.size(), "token")
}

fn print_nothing(document: &Document<'_>, reason: &str, out: &mut Output) -> Result<Ending> {
    if out.is_json() {
        out.print_document(document)?;
    } else {
        out.print_line(format!("nothing to do: {reason}"))?;
    }
    Ok(Ending::Success)
}

fn print_plan(planned: &PlannedCompaction, compactor: &Compactor, out: &mut Output) -> Result<Ending> {
    if out.is_json() {
        let mut document =
            Document::new("planned", &planned.thread().id, planned.tokens()).with_plan(planned, compactor);
        document.messages = planned.older();
        out.print_document(&document)?;
        return Ok(Ending::Success);
    }
    out.start_pager()?;
    out.print_line(format!("the context has {}", context_size_text(planned.tokens())))?;
    for (what, mark, messages) in [("be summarised", "-", planned.older()), ("stay", " ", planned.kept())] {
        let (count, tokens) = (messages.len() as u64, compactor.count_tokens(messages));
        let (count, tokens) = (with_noun(count, "message"), with_noun(tokens, "token"));
        out.print_line(format!("{count} of about {tokens} would {what}:"))?;
        for message in messages {
            out.print_line(message_line(mark, message, out))?;
        }
    }
    Ok(Ending::Success)
}

/// Returns the size of a context, and where the number comes from.
fn context_size_text(tokens: ContextTokens) -> String {
    let counted = format!("about {}", with_noun(tokens.counted, "token"));
    match tokens.reported {
        Some(reported) if reported > tokens.counted => {
            format!("{}, as a provider reported; its messages have {counted}", with_noun(reported, "token"))
        }
        _ => counted,
    }
}

fn print_compacted(
    compacted: &Compacted,
    planned: &PlannedCompaction,
    (compactor, tokens_after): (&Compactor, ContextTokens),
    out: &mut Output,
) -> Result<Ending> {
    let thread = &planned.thread().id;
    if out.is_json() {
        let mut document = Document::new("compacted", thread, planned.tokens()).with_plan(planned, compactor);
        document.tokens_after = Some(tokens_after.size());
        document.receipt = Some(&compacted.receipt);
        out.print_document(&document)?;
        return Ok(Ending::Success);
    }
    // The two sizes are counted in the same way. A size that a provider reported includes more than the messages, and
    // no provider has reported a size of the context with the summary.
    out.print_line(format!(
        "summarised {} of thread {}: the context had about {}, and has {} now",
        with_noun(compacted.summarized as u64, "message"),
        terminal_safe(thread.as_str()),
        with_noun(planned.tokens().counted, "token"),
        tokens_after.counted
    ))?;
    for (seq, id) in (compacted.receipt.first_seq.unwrap_or_default()..).zip(&compacted.receipt.entry_ids) {
        out.print_line(format!("  entry @{seq} {}", terminal_safe(id.as_str())))?;
    }
    Ok(Ending::Success)
}
