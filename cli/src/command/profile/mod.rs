//! `profile`: reads and changes the values of agents, users, the system and shared scopes.

mod clear;
mod delete;
mod get;
mod list;
pub(super) mod owner;
mod set;

use clap::Subcommand;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
};

/// Keep values of users, agents, the system and shared scopes: get, set, delete, list, clear
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore profile set user:u1 language --value '\"de\"'\n  \
    agentstore profile get agent:coder memory\n  agentstore profile list system\n  \
    agentstore profile clear user:u1 --yes\n\n\
    An owner is `user:ID`, `agent:ID`, `system`, or a scope that several agents share: `global`, `agent_type:TYPE`, \
    `thread:ID`, `parent_thread:ID` or `custom:ID`. Each change is written together with a record of the audit log \
    (`agentstore audit list`).\n\n\
    Exit codes: 0 done, 1 refused or failed, 2 invalid command line.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Get(get::Args),
    Set(set::Args),
    Delete(delete::Args),
    List(list::Args),
    Clear(clear::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match self.action {
            Action::Get(_) | Action::List(_) => Access::Read,
            Action::Set(_) => Access::Create,
            Action::Delete(_) | Action::Clear(_) => Access::Write,
        }
    }

    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        match &mut self.action {
            Action::Set(args) => args.read_document_args(),
            Action::Get(_) | Action::Delete(_) | Action::List(_) | Action::Clear(_) => Ok(()),
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::Get(args) => get::run(args, session, out).await,
        Action::Set(args) => set::run(args, session, out).await,
        Action::Delete(args) => delete::run(args, session, out).await,
        Action::List(args) => list::run(args, session, out).await,
        Action::Clear(args) => clear::run(args, session, out).await,
    }
}
