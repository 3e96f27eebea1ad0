//! `registry`: publishes definitions in versions, and reads them.

mod archive;
mod diff;
mod difference;
mod folder;
mod list;
mod manifest;
mod publish;
mod rollback;
mod show;
mod target;

use agentstore::{Error, ErrorKind, Publication};
use clap::Subcommand;

use super::Ending;
use crate::{
    failure::{Failure, Result},
    output::Output,
    session::{Access, Session},
    text::{self, terminal_safe, with_noun},
};

/// Publish definitions of agents and tools in versions: publish, list, show, diff, rollback, archive, manifest
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore registry publish ./definitions\n  agentstore registry list\n  \
    agentstore registry show agent/coder@1\n  agentstore registry diff agent/coder@1 @2\n  \
    agentstore registry rollback 3\n  agentstore registry manifest --json\n\n\
    A definition has a kind and an id, and versions that never change. A publication is a set of versions. Its manifest \
    is what a run pins, so the run sees the same definitions until it ends.\n\n\
    In `KIND/ID@VERSION`, in the id of a publication and in the resource of an audit record, `%25`, `%2F` and `%40` stand \
    for `%`, `/` and `@`. What a command prints can be given to each other one.\n\n\
    Exit codes: 0 done, 1 refused or failed, 2 invalid command line.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Publish(publish::Args),
    List(list::Args),
    Show(show::Args),
    Diff(diff::Args),
    Rollback(rollback::Args),
    Archive(archive::Args),
    Manifest(manifest::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match &self.action {
            Action::List(_) | Action::Show(_) | Action::Diff(_) | Action::Manifest(_) => Access::Read,
            Action::Publish(args) => args.access(),
            Action::Rollback(_) | Action::Archive(_) => Access::Write,
        }
    }

    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        match &mut self.action {
            Action::Publish(args) => args.read_document_args(),
            _ => Ok(()),
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::Publish(args) => publish::run(args, session, out).await,
        Action::List(args) => list::run(args, session, out).await,
        Action::Show(args) => show::run(args, session, out).await,
        Action::Diff(args) => diff::run(args, session, out).await,
        Action::Rollback(args) => rollback::run(args, session, out).await,
        Action::Archive(args) => archive::run(args, session, out).await,
        Action::Manifest(args) => manifest::run(args, session, out).await,
    }
}

/// Returns the failure of a refused publication, which says what the user can do.
fn refused(error: Error) -> Failure {
    let is_conflict = error.kind() == ErrorKind::Conflict;
    let advice = "another process has published: repeat the command, which shows the difference from its publication";
    let failure = Failure::from(error);
    if is_conflict { failure.with_advice(advice) } else { failure }
}

/// Returns the beginning of a content hash, which tells contents apart in a table.
fn short_hash(hash: &str) -> &str {
    const SHOWN_DIGITS: usize = 12;
    let digits = hash.rsplit(':').next().unwrap_or_default();
    digits.get(..SHOWN_DIGITS).unwrap_or(digits)
}

/// Returns a publication in one line.
fn publication_line(publication: &Publication) -> String {
    let content = &publication.content;
    let by = content.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let rollback =
        content.rollback_of.map(|snapshot| format!(", the contents of snapshot {snapshot}")).unwrap_or_default();
    let (snapshot, time) = (publication.snapshot, text::format_time(publication.published_at));
    let definitions = with_noun(agentstore::length(content.entries.len()), "definition");
    let id = target::publication_text(&content.id);
    terminal_safe(&format!("snapshot {snapshot}, publication {id}, {definitions}{rollback}, {time}{by}"))
}
