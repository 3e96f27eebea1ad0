//! `profile`: reads and changes the values of agents, users, the system and shared scopes.

mod clear;
mod delete;
mod get;
mod list;
mod set;

use agentstore::{Json, ProfileKey, ProfileOwner, ProfileValue, Timestamp};
use clap::Subcommand;
use serde::Serialize;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
    text::terminal_safe,
};

/// Keep values of users, agents, the system and shared scopes: get, set, delete, list, clear
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore profile set user:u1 language --value '\"de\"'\n  \
    agentstore profile get agent:coder memory\n  agentstore profile list\n  agentstore profile list user:u1\n  \
    agentstore profile clear user:u1 --yes\n\n\
    An owner is `user:ID`, `agent:ID`, `system`, or a scope that several agents share: `global`, `agent_type:TYPE`, \
    `thread:ID`, `parent_thread:ID` or `custom:ID`. Each change is written together with a record of the audit log \
    (`agentstore audit list`).\n\n\
    With `--json` a value has the fields of a config record: `id` (its key), `revision`, `value`, `created_at` and \
    `updated_at`.\n\n\
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

/// The arguments that name a value of a profile.
#[derive(Debug, clap::Args)]
struct ValueNameArgs {
    /// The owner, such as `user:u1`, `agent:coder` or `system`
    owner: ProfileOwner,
    /// The key of the value
    key: ProfileKey,
}

impl ValueNameArgs {
    /// Returns the name of the value as text that is safe to print.
    fn text(&self) -> String {
        terminal_safe(&format!("{} {}", self.owner, self.key))
    }
}

/// A value as a JSON document. Its fields are those of the document of a config record.
#[derive(Serialize)]
struct ValueDocument<'a> {
    owner: String,
    id: &'a ProfileKey,
    revision: u64,
    value: &'a Json,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl<'a> ValueDocument<'a> {
    fn of(owner: &ProfileOwner, value: &'a ProfileValue) -> Self {
        let ProfileValue { key, value, revision, created_at, updated_at, .. } = value;
        let (revision, created_at, updated_at) = (*revision, *created_at, *updated_at);
        Self { owner: owner.to_string(), id: key, revision, value, created_at, updated_at }
    }
}
