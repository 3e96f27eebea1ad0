//! `pending`: manages input that waits until a run consumes it.

mod append;
mod decide;
mod edit;
mod list;
mod reorder;
mod retract;

use agentstore::{AppendedInputs, Boundary, Delivery, RunId, RunTarget};
use clap::Subcommand;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
    text::terminal_safe,
};

/// Deliver input to a thread while an agent runs: append, list, edit, retract, reorder, decide
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore pending append t-42 --message \"And in French?\" --at next_step\n  \
    agentstore pending list t-42\n  agentstore pending decide t-42 run-7 ticket-1 --resume\n\n\
    Pending input waits in the queue of its thread until a run consumes it.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Append(append::Args),
    List(list::Args),
    Edit(edit::Args),
    Retract(retract::Args),
    Reorder(reorder::Args),
    Decide(decide::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match self.action {
            Action::List(_) => Access::Read,
            Action::Append(_) => Access::Create,
            Action::Edit(_) | Action::Retract(_) | Action::Reorder(_) | Action::Decide(_) => Access::Write,
        }
    }

    pub(crate) fn read_document_args(&mut self) -> Result<()> {
        match &mut self.action {
            Action::Append(args) => args.read_document_args(),
            Action::Edit(args) => args.read_document_args(),
            Action::Decide(args) => args.read_document_args(),
            Action::List(_) | Action::Retract(_) | Action::Reorder(_) => Ok(()),
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::Append(args) => append::run(args, session, out).await,
        Action::List(args) => list::run(args, session, out).await,
        Action::Edit(args) => edit::run(args, session, out).await,
        Action::Retract(args) => retract::run(args, session, out).await,
        Action::Reorder(args) => reorder::run(args, session, out).await,
        Action::Decide(args) => decide::run(args, session, out).await,
    }
}

/// The options that say when an input may be consumed, and by which run.
#[derive(Debug, clap::Args)]
struct DeliveryArgs {
    /// The boundary: the earliest point of a run at which it may consume the input; new_run if not given
    ///
    /// The boundaries are interrupt (at once), next_step (before the next step of the run), on_natural_end (when the
    /// run would end by itself), new_run (at the beginning of a run) and resume_input (when a waiting run continues).
    #[arg(long = "at", value_name = "BOUNDARY")]
    boundary: Option<Boundary>,
    /// Consume the input alone, not together with other inputs
    #[arg(long)]
    alone: bool,
    /// Make the input a barrier: the inputs behind it in the queue are consumed later, never together with it
    #[arg(long)]
    barrier: bool,
    /// The run that the input is for; after that run has ended, a new run may consume the input
    #[arg(long = "for", value_name = "RUN")]
    target: Option<RunId>,
    /// Let no other run consume the input, not even after the run of `--for` has ended
    #[arg(long, requires = "target")]
    only: bool,
}

impl DeliveryArgs {
    /// Returns the delivery, if an option about it is given.
    fn if_given(self) -> Option<Delivery> {
        let is_given = self.boundary.is_some() || self.alone || self.barrier || self.target.is_some();
        is_given.then(|| self.delivery())
    }

    fn delivery(self) -> Delivery {
        let mut delivery = Delivery::at(self.boundary.unwrap_or_default());
        delivery.barrier = self.barrier;
        if self.alone {
            delivery = delivery.alone();
        }
        delivery.target =
            self.target.map(|run| if self.only { RunTarget::without_fallback(run) } else { RunTarget::new(run) });
        delivery
    }
}

/// Prints the result of an append. `what` says what was appended.
fn print_appended(appended: &AppendedInputs, what: &str, out: &mut Output) -> Result<Ending> {
    if out.is_json() {
        out.print_document(appended)?;
        return Ok(Ending::Success);
    }
    let again = if appended.deduplicated { " (it existed already)" } else { "" };
    out.print_line(format!("{what}{again}"))?;
    for input in &appended.inputs {
        out.print_line(format!("  input {} revision {}", terminal_safe(input.id.as_str()), input.revision))?;
    }
    Ok(Ending::Success)
}
