//! `blobs`: stores large payloads, reads them, and removes those that nothing refers to.

mod collect;
mod get;
mod list;
mod put;
mod show;

use clap::Subcommand;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
};

/// Store large payloads once, read them, and remove those that nothing refers to: put, get, list, show, collect
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore blobs put diagram.png\n  \
    agentstore blobs get 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 --out copy.png\n  \
    agentstore blobs collect --grace 24h --dry-run\n\n\
    A blob is named by the SHA-256 of its bytes, and is stored once for each tenant. A message refers to it \
    by a block such as `{\"image\":{\"media_type\":\"image/png\",\"blob\":\"<hash>\"}}`; documents, audio and videos \
    likewise. A blob that nothing refers to stays until it is collected.\n\n\
    Exit codes: 0 done, 1 refused or failed, 2 invalid command line.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Put(put::Args),
    Get(get::Args),
    List(list::Args),
    Show(show::Args),
    Collect(collect::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match self.action {
            Action::Put(_) => Access::Create,
            Action::Get(_) | Action::List(_) | Action::Show(_) => Access::Read,
            Action::Collect(_) => Access::Write,
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::Put(args) => put::run(args, session, out).await,
        Action::Get(args) => get::run(args, session, out).await,
        Action::List(args) => list::run(args, session, out).await,
        Action::Show(args) => show::run(args, session, out).await,
        Action::Collect(args) => collect::run(args, session, out).await,
    }
}
