//! `traces`: shows what happened in runs, as spans, and exchanges spans with other programs.

mod draw;
mod export;
mod import;
mod list;
mod pin;
mod show;

use agentstore::{Error, RunId, ThreadId, Trace, TraceName, TraceStore};
use clap::Subcommand;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
};

/// See what happened in runs, and exchange spans with other programs: list, show, export, import, pin, unpin
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore traces list --errors --since 1d\n  \
    agentstore traces show run-7\n  \
    agentstore traces export run-7 --out run-7.json\n  \
    agentstore traces import spans.json --thread t-42\n  \
    agentstore traces pin run-7 --holder user:ada\n\n\
    A run that was committed has a trace without further work: its spans are derived from its entries. Names follow \
    the semantic conventions of OpenTelemetry for generative AI, and files are OTLP/JSON.\n\n\
    Exit codes: 0 done, 1 refused or failed, 2 invalid command line.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::Args),
    Show(show::Args),
    Export(export::Args),
    Import(import::Args),
    Pin(pin::Args),
    Unpin(pin::UnpinArgs),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match &self.action {
            Action::List(_) | Action::Show(_) | Action::Export(_) => Access::Read,
            Action::Import(args) => args.access(),
            Action::Pin(_) | Action::Unpin(_) => Access::Write,
        }
    }

    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        match &mut self.action {
            Action::Import(args) => args.read_document_args(),
            Action::List(_) | Action::Show(_) | Action::Export(_) | Action::Pin(_) | Action::Unpin(_) => Ok(()),
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::List(args) => list::run(args, session, out).await,
        Action::Show(args) => show::run(args, session, out).await,
        Action::Export(args) => export::run(args, session, out).await,
        Action::Import(args) => import::run(args, session, out).await,
        Action::Pin(args) => pin::run(args, session, out).await,
        Action::Unpin(args) => pin::run_unpin(args, session, out).await,
    }
}

/// The arguments that name a trace.
#[derive(Debug, clap::Args)]
struct TraceNameArgs {
    /// The id of the run
    run: RunId,
    /// The id of the run's thread; found by the run if not given
    #[arg(long)]
    thread: Option<ThreadId>,
}

impl TraceNameArgs {
    /// Returns the name, or an error if no trace of the run is known.
    async fn find(self, traces: &dyn TraceStore) -> Result<TraceName> {
        if let Some(thread) = self.thread {
            return Ok(TraceName::new(thread, self.run));
        }
        Ok(traces.find_trace(&self.run).await?.ok_or_else(|| Error::not_found("trace", self.run.as_str()))?)
    }

    /// Loads the trace, or returns an error if it does not exist.
    async fn load(self, traces: &dyn TraceStore) -> Result<Trace> {
        let name = self.find(traces).await?;
        Ok(traces.load_trace(&name).await?.ok_or_else(|| Error::not_found("trace", name.to_string()))?)
    }
}
