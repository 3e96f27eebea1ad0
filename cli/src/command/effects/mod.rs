//! `effects`: shows what runs did to the world outside of the store, and resolves what is in doubt.

mod list;
mod resolve;
mod show;

use agentstore::{Effect, EffectId, EffectName, EffectStore, Error, RunId, ThreadId};
use clap::Subcommand;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
    text::terminal_safe,
};

/// See what runs did to the world outside of the store, and resolve what is in doubt: list, show, resolve
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore effects list --in-doubt\n  \
    agentstore effects show t-42 run-7 charge\n  \
    agentstore effects resolve t-42 run-7 charge --done '{\"receipt\":\"r-1\"}'\n\n\
    A run begins an effect, such as a payment, before it acts, and records how it ended. An effect without an outcome \
    is in doubt: it may have happened. Ask the receiver, then say what you found. Each resolution is written together \
    with a record of the audit log (`agentstore audit list`).\n\n\
    Exit codes: 0 done, 1 refused or failed, 2 invalid command line.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::Args),
    Show(show::Args),
    Resolve(resolve::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match self.action {
            Action::List(_) | Action::Show(_) => Access::Read,
            Action::Resolve(_) => Access::Write,
        }
    }

    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        match &mut self.action {
            Action::Resolve(args) => args.read_document_args(),
            Action::List(_) | Action::Show(_) => Ok(()),
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::List(args) => list::run(args, session, out).await,
        Action::Show(args) => show::run(args, session, out).await,
        Action::Resolve(args) => resolve::run(args, session, out).await,
    }
}

/// The arguments that name an effect.
#[derive(Debug, clap::Args)]
struct EffectNameArgs {
    /// The id of the thread
    thread: ThreadId,
    /// The id of the run
    run: RunId,
    /// The id of the effect in the run
    effect: EffectId,
}

impl EffectNameArgs {
    /// Loads the effect, or returns an error if it does not exist.
    async fn load(self, effects: &dyn EffectStore) -> Result<Effect> {
        let name = EffectName::new(self.thread, self.run, self.effect)?;
        let found = effects.load_effect(&name).await?;
        Ok(found.ok_or_else(|| Error::not_found("effect", name.to_string()))?)
    }
}

/// Returns the name of an effect as the arguments of a command.
fn name_text(name: &EffectName) -> String {
    terminal_safe(&format!("{} {} {}", name.thread(), name.run(), name.id()))
}
