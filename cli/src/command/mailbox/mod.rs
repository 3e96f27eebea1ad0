//! `mailbox`: queues, manages and does work for the runs of threads.

mod cancel;
mod enqueue;
mod interrupt;
mod list;
mod purge;
mod requeue;
mod stats;
mod work;

use agentstore::{Dispatch, DispatchId};
use clap::Subcommand;
use serde_json::{Value, json};

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
    text::{terminal_safe, with_noun},
};

/// Queue, manage and do background work: enqueue, list, stats, work, cancel, interrupt, requeue, purge
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore mailbox enqueue t-42 --run run-7 --payload '{\"task\":\"index\"}'\n  \
    agentstore mailbox stats\n  agentstore mailbox work --exec ./index.sh --until-idle\n  \
    agentstore mailbox interrupt t-42 --reason \"the user changed their mind\"\n\n\
    At most one dispatch of a thread is claimed at a time. `work` claims and settles dispatches; the other commands \
    queue, inspect and clean up.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Enqueue(enqueue::Args),
    List(list::Args),
    Stats(stats::Args),
    Work(work::Args),
    Cancel(cancel::Args),
    Interrupt(interrupt::Args),
    Requeue(requeue::Args),
    Purge(purge::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match self.action {
            Action::List(_) | Action::Stats(_) => Access::Read,
            Action::Enqueue(_) | Action::Work(_) => Access::Create,
            Action::Cancel(_) | Action::Interrupt(_) | Action::Requeue(_) | Action::Purge(_) => Access::Write,
        }
    }
}

impl Args {
    /// Reads the documents that arguments of the command give, before a store is opened.
    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        match &mut self.action {
            Action::Enqueue(args) => args.read_document_args(),
            _ => Ok(()),
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::Enqueue(args) => enqueue::run(args, session, out).await,
        Action::List(args) => list::run(args, session, out).await,
        Action::Stats(args) => stats::run(args, session, out).await,
        Action::Work(args) => work::run(args, session, out).await,
        Action::Cancel(args) => cancel::run(args, session, out).await,
        Action::Interrupt(args) => interrupt::run(args, session, out).await,
        Action::Requeue(args) => requeue::run(args, session, out).await,
        Action::Purge(args) => purge::run(args, session, out).await,
    }
}

/// Prints which of the named dispatches the mailbox refused, and the number of the others. `participle` says what was
/// done with the others, such as `cancelled`.
fn print_answers(
    answers: Vec<(DispatchId, agentstore::Result<Dispatch>)>,
    participle: &str,
    out: &mut Output,
) -> Result<Ending> {
    let (mut accepted, mut refused) = (Vec::new(), Vec::new());
    for (id, answer) in answers {
        match answer {
            Ok(_) => accepted.push(id),
            Err(error) => refused.push((id, error)),
        }
    }
    let ending = if refused.is_empty() { Ending::Success } else { Ending::Problem };
    if out.is_json() {
        let refused: Vec<Value> = refused.iter().map(|(id, error)| json!({ "dispatch": id, "error": error })).collect();
        out.print_document(&json!({ participle: accepted, "refused": refused }))?;
        return Ok(ending);
    }
    for (id, error) in &refused {
        out.print_line(format!("refused {}: {error}", terminal_safe(id.as_str())))?;
    }
    out.print_line(format!("{participle} {}", with_noun(agentstore::length(accepted.len()), "dispatch")))?;
    Ok(ending)
}
