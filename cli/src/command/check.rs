//! `check`: lists the parts of a thread that a model would not get.

use agentstore::{ContextRequest, ThreadId};
use providers::{Loss, Report, check};

use super::Ending;
use crate::{
    entry_ref::EntryRef,
    failure::Result,
    model_args::{CompileArgs, ModelArgs, required_model},
    open_calls_arg::OpenCallsArgs,
    output::Output,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// List the parts of a thread that a model would not get, or would get in another form
#[derive(Debug, clap::Args)]
#[command(
    group = required_model(),
    after_help = "Example:\n  agentstore check t-42 --provider google --model gemini-2.5-flash\n\n\
    Besides its result, a tool can record details that only people see. No model gets these details, so they do not \
    count as losses; --json lists them, too.\n\n\
    Exit codes: 0 the model gets the whole history, 1 something would be lost or refused, 2 invalid command line."
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
    model: ModelArgs,
    #[command(flatten)]
    compile: CompileArgs,
}

impl Args {
    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        self.compile.read_document_args()
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mut request = match &args.at {
        Some(at) => ContextRequest::at(at.resolve(session, &args.thread).await?),
        None => ContextRequest::head(),
    };
    request.open_calls = args.open_calls.open_calls();
    let thread_context = session.threads()?.load_context(&args.thread, request).await?;
    let report = check(&thread_context.context, &args.model.target(), &args.compile.options())?;
    if out.is_json() {
        out.print_document(&report)?;
    } else {
        out.start_pager()?;
        print(&report, out)?;
    }
    Ok(if report.compatible { Ending::Success } else { Ending::Problem })
}

fn print(report: &Report, out: &mut Output) -> Result<()> {
    // Each warning is a reason why the API of the model refuses the request.
    for warning in &report.warnings {
        out.print_line(format!("{} {}", out.style("refused:").red().bold(), terminal_safe(warning)))?;
    }
    print_losses(&report.losses, out)?;
    let summary = losses_text(&report.losses);
    if report.compatible { out.print_line(out.style(summary).green()) } else { out.print_line(summary) }
}

/// Prints losses as a table. Details of tool results that only people see are left out, because most tool results have
/// such details.
pub(super) fn print_losses(losses: &[Loss], out: &mut Output) -> Result<()> {
    let mut losses = losses.iter().filter(|loss| !loss.kind.is_for_people_only()).peekable();
    if losses.peek().is_none() {
        return Ok(());
    }
    let mut table = out.table(&["entry", "what", "in its place", "why"]);
    for loss in losses {
        let cells = [loss.entry.as_str(), loss.kind.name(), loss.action.name(), &loss.reason];
        let _row = table.add_row(cells.map(terminal_safe));
    }
    out.print_table(table)
}

/// Returns how many parts of the history are lost, and how many tool results have details that only people see.
pub(super) fn losses_text(losses: &[Loss]) -> String {
    let detail_count = losses.iter().filter(|loss| loss.kind.is_for_people_only()).count();
    let lost = match losses.len() - detail_count {
        0 => "nothing is lost".to_owned(),
        lost => with_noun(lost as u64, "loss"),
    };
    if detail_count == 0 {
        return lost;
    }
    format!("{lost}; the details of {} are for people only", with_noun(detail_count as u64, "tool result"))
}
