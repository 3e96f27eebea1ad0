//! `context`: prints what would be sent to a model.

use agentstore::{
    Context, ContextMessage, ContextRequest, EntryId, Origin, Repair, RepairKind, Run, Thread, ThreadContext, ThreadId,
    ThreadState,
};
use providers::{CompileOptions, Target, compile, warnings};
use serde::Serialize;

use super::Ending;
use crate::{
    entry_ref::EntryRef,
    failure::Result,
    model_args::{CompileArgs, ModelArgs},
    open_calls_arg::OpenCallsArgs,
    output::Output,
    session::Session,
    text::{self, terminal_safe, with_noun},
};

/// Print the messages that would be sent to a model, in order, and the repairs that were made; with `--provider`, the
/// body of the request
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore context t-42\n  agentstore context t-42 --at @16 --json | jq .messages\n  \
        agentstore context t-42 --provider anthropic --model claude-sonnet-4-5 |\n    \
        curl https://api.anthropic.com/v1/messages -H \"x-api-key: $KEY\" -H \"anthropic-version: 2023-06-01\" \\\n    \
          -H \"content-type: application/json\" -d @-\n\n\
        With `--provider`, the command prints to standard error what the API would refuse, and the number of losses.\n\n\
        Exit codes: 0 printed, 1 the context cannot be made, 2 invalid command line."
)]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// Use the path of this entry instead of the head's: its id, or `@N` as `agentstore tree` prints it
    #[arg(long, value_name = "ENTRY")]
    at: Option<EntryRef>,
    #[command(flatten)]
    open_calls: OpenCallsArgs,
    #[command(flatten)]
    model: Option<ModelArgs>,
    #[command(flatten)]
    compile: CompileArgs,
}

impl Args {
    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        self.compile.read_document_args()
    }
}

/// A context as JSON: first the fields that a model gets, then those that only a worker needs.
#[derive(Serialize)]
struct ContextDocument {
    at: Option<EntryId>,
    messages: Vec<ContextMessage>,
    repairs: Vec<Repair>,
    left_out: Vec<EntryId>,
    origin: Option<Origin>,
    context_size: Option<u64>,
    next_checkpoint: u64,
    thread: Thread,
    state: ThreadState,
    latest_run: Option<Run>,
    open_runs: Vec<Run>,
}

impl From<ThreadContext> for ContextDocument {
    fn from(thread_context: ThreadContext) -> Self {
        let ThreadContext { thread, at, context, state, latest_run, open_runs, context_size, next_checkpoint, .. } =
            thread_context;
        let Context { messages, repairs, left_out, origin, .. } = context;
        Self {
            at,
            messages,
            repairs,
            left_out,
            origin,
            context_size,
            next_checkpoint,
            thread,
            state,
            latest_run,
            open_runs,
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mut request = match &args.at {
        Some(at) => ContextRequest::at(at.resolve(session, &args.thread).await?),
        None => ContextRequest::head(),
    };
    request.open_calls = args.open_calls.open_calls();
    let thread_context = session.threads()?.load_context(&args.thread, request).await?;
    if let Some(model) = &args.model {
        return print_body(&thread_context.context, &model.target(), &args.compile.options(), out);
    }
    if out.is_json() {
        out.print_document(&ContextDocument::from(thread_context))?;
    } else {
        out.start_pager()?;
        print(&thread_context, out)?;
    }
    Ok(Ending::Success)
}

/// Prints the body of a request. Prints to standard error what the API would refuse in the body, and how many parts of
/// the context the body lacks.
fn print_body(context: &Context, target: &Target, options: &CompileOptions, out: &mut Output) -> Result<Ending> {
    let compiled = compile(context, target, options)?;
    out.print_line(compiled.body.as_str())?;
    for warning in warnings(&compiled.body, target)? {
        out.print_to_stderr(format!("refused: {}", terminal_safe(&warning)));
    }
    let lost = compiled.losses.iter().filter(|loss| !loss.kind.is_for_people_only()).count();
    if lost > 0 {
        let losses = with_noun(lost as u64, "loss");
        out.print_to_stderr(format!("{losses}; `agentstore check` with the same model says what is lost"));
    }
    Ok(Ending::Success)
}

fn print(thread_context: &ThreadContext, out: &mut Output) -> Result<()> {
    for message in &thread_context.context.messages {
        print_message(message, out)?;
    }
    let mut totals = with_noun(thread_context.context.messages.len() as u64, "message");
    if let Some(size) = thread_context.context_size {
        totals.push_str(&format!(", context size {}", with_noun(size, "token")));
    }
    if let Some(model) = thread_context.context.origin.as_ref().and_then(|origin| origin.model.as_ref()) {
        totals.push_str(&format!(", model {}", terminal_safe(model)));
    }
    out.print_line(out.style(totals).dim())?;
    for repair in &thread_context.context.repairs {
        let call = repair.tool_use_id.as_ref().map_or_else(String::new, |id| format!(" (call {id})"));
        let what = describe_repair(repair.kind);
        out.print_line(format!(
            "repaired at entry {}: {what}{}",
            terminal_safe(repair.entry.as_str()),
            terminal_safe(&call)
        ))?;
    }
    for (key, value) in &thread_context.state {
        out.print_line(format!("state {} = {}", terminal_safe(key), text::one_line(value.as_str(), out.width())))?;
    }
    Ok(())
}

fn print_message(message: &ContextMessage, out: &mut Output) -> Result<()> {
    let addition = if message.synthetic { ", added for the model" } else { "" };
    let note = format!("entry {}{addition}", message.entry);
    let role = message.message.role.name();
    out.print_line(format!("{}  {}", out.style(role).bold(), out.style(terminal_safe(&note)).dim()))?;
    for line in terminal_safe(&text::message_text(&message.message)).lines() {
        out.print_line(format!("  {line}"))?;
    }
    out.print_line("")
}

const fn describe_repair(kind: RepairKind) -> &'static str {
    match kind {
        RepairKind::OrphanResultDropped => "a result was left out because its call is not in the context",
        RepairKind::OpenCallAnswered => "a call was answered with an error because no result was recorded",
        RepairKind::OpenCallDropped => "a call was left out because no result was recorded",
        RepairKind::ResultMoved => "a result was moved to its call",
        RepairKind::EarlierResultDropped => "a result was left out because a later one answers the same call",
        RepairKind::EmptyMessageDropped => "a message was left out because it had no blocks left",
        RepairKind::MessagesMerged => "entries of one message were merged",
        _ => "the messages were changed so that a model accepts them",
    }
}
