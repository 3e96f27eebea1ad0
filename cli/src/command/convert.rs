//! `convert`: makes a new thread whose messages a model accepts without changes.

use agentstore::{IdSource, ThreadId, UuidSource};
use providers::{ConvertOptions, convert};

use super::{
    Ending,
    check::{losses_text, print_losses},
};
use crate::{
    entry_ref::EntryRef,
    failure::Result,
    model_args::{CompileArgs, ModelArgs, required_model},
    output::Output,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Make a new thread whose messages a model accepts without changes; the old thread stays
#[derive(Debug, clap::Args)]
#[command(
    group = required_model(),
    after_help = "Example:\n  agentstore convert t-42 --provider openai-chat --model gpt-5-nano --to t-43\n\n\
    To only send a thread to another model, use `agentstore context --provider`: it loses nothing of the stored \
    messages.\n\n\
    Exit codes: 0 the thread was made, even if something was lost, 1 it was not made, 2 invalid command line."
)]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The id of the new thread; a new id if not given
    #[arg(long, value_name = "ID")]
    to: Option<ThreadId>,
    /// Convert the path of this entry instead of the head's: its id, or `@N` as `agentstore tree` prints it
    #[arg(long, value_name = "ENTRY")]
    at: Option<EntryRef>,
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
    let new_thread = match args.to {
        Some(id) => id,
        None => ThreadId::new(UuidSource.next_id())?,
    };
    let mut options = ConvertOptions::default();
    options.compile = args.compile.options();
    if let Some(at) = &args.at {
        options.request.at = Some(at.resolve(session, &args.thread).await?);
    }
    let commits = session.commits()?;
    let conversion = convert(&*commits, &args.thread, new_thread, &args.model.target(), &options).await?;
    if out.is_json() {
        out.print_document(&conversion)?;
        return Ok(Ending::Success);
    }
    print_losses(&conversion.losses, out)?;
    let thread = terminal_safe(conversion.thread.as_str());
    out.print_line(format!(
        "thread {} has {}, {}",
        out.style(thread).green(),
        with_noun(conversion.messages, "message"),
        losses_text(&conversion.losses)
    ))?;
    Ok(Ending::Success)
}
