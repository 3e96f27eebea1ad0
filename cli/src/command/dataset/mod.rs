//! `dataset`: keeps cases to evaluate agents with, in versions.

mod add;
mod list;
mod put;
mod remove;
mod show;
pub(super) mod target;

use agentstore::{CaseChange, ChangeDataset, ChangedDataset, DatasetId, Error, ErrorKind, WriterId};
use clap::Subcommand;

use super::Ending;
use crate::{
    failure::{Failure, Result},
    output::Output,
    session::{Access, Session},
    text::{terminal_safe, with_noun},
};

/// Keep cases to evaluate agents with, in versions that never change: add, put, remove, list, show
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore dataset add run-7 --dataset refunds --expect-answer\n  \
    agentstore dataset put small --input '\"What is 2 + 2?\"' --expectation '\"4\"' --dataset sums\n  \
    agentstore dataset list\n  agentstore dataset show sums@1\n\n\
    A dataset has cases: what an agent is given, and what is expected of it. Each change makes the next version. \
    Earlier versions stay, so that an evaluation run can be compared with later ones (`agentstore eval`). In the name \
    of a dataset, `%25`, `%2F` and `%40` stand for `%`, `/` and `@`.\n\n\
    Exit codes: 0 done, 1 refused or failed, 2 invalid command line.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Add(add::Args),
    Put(put::Args),
    Remove(remove::Args),
    List(list::Args),
    Show(show::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match &self.action {
            Action::List(_) | Action::Show(_) => Access::Read,
            Action::Add(args) => args.access(),
            Action::Put(_) => Access::Create,
            Action::Remove(_) => Access::Write,
        }
    }

    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        match &mut self.action {
            Action::Add(args) => args.read_document_args(),
            Action::Put(args) => args.read_document_args(),
            Action::Remove(_) | Action::List(_) | Action::Show(_) => Ok(()),
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::Add(args) => add::run(args, session, out).await,
        Action::Put(args) => put::run(args, session, out).await,
        Action::Remove(args) => remove::run(args, session, out).await,
        Action::List(args) => list::run(args, session, out).await,
        Action::Show(args) => show::run(args, session, out).await,
    }
}

/// The options of commands that change a dataset.
#[derive(Debug, clap::Args)]
struct ChangeArgs {
    /// The dataset; it is made with its first case
    #[arg(long, value_name = "NAME", default_value = "default", value_parser = target::parse_dataset)]
    dataset: DatasetId,
    /// Refuse the change unless the current version has this number, or unless there is no dataset (`absent`)
    #[arg(long, value_name = "absent|VERSION", value_parser = parse_expectation)]
    expect: Option<u64>,
    /// The user, agent or program that makes the version
    #[arg(long, env = "AGENTSTORE_ACTOR", hide_env_values = true, value_name = "NAME")]
    actor: Option<WriterId>,
}

fn parse_expectation(text: &str) -> Result<u64, String> {
    match text {
        "absent" => Ok(0),
        _ => text.parse().map_err(|_| "it is neither a number nor `absent`".to_owned()),
    }
}

impl ChangeArgs {
    /// Makes the next version, and prints what it changed.
    async fn make(self, changes: Vec<CaseChange>, session: &Session, out: &mut Output) -> Result<Ending> {
        let mut request = ChangeDataset::new(self.dataset, changes);
        (request.expect_version, request.by) = (self.expect, self.actor.map(|actor| actor.to_string()));
        let changed = session.datasets()?.change_dataset(request).await.map_err(refused)?;
        print(&changed, out)?;
        Ok(Ending::Success)
    }
}

fn refused(error: Error) -> Failure {
    let is_conflict = error.kind() == ErrorKind::Conflict;
    let failure = Failure::from(error);
    let advice = "look at the dataset again with `agentstore dataset show NAME`, then repeat the command with its \
                  current version";
    if is_conflict { failure.with_advice(advice) } else { failure }
}

fn print(changed: &ChangedDataset, out: &mut Output) -> Result<()> {
    if out.is_json() {
        return out.print_document(changed);
    }
    let version = terminal_safe(&changed.version.to_string());
    if !changed.created {
        return out.print_line(format!("{version} already has this case: nothing was changed"));
    }
    let counts = [(changed.added, "added"), (changed.replaced, "replaced"), (changed.removed, "removed")];
    let parts = counts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts.map(|(count, what)| format!("{} {what}", with_noun(*count, "case"))).collect();
    out.print_line(format!("{version}: {}", parts.join(", ")))
}
