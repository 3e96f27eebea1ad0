//! `outbox`: manages rows that commits wrote, for delivery to other systems.

mod list;
mod purge;
mod requeue;

use agentstore::{LaneId, OutboxFilter, OutboxTarget};
use clap::Subcommand;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
};

/// Manage outbox rows, which are delivered to other systems: list, requeue, purge
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore outbox list --status dead_letter\n  \
    agentstore outbox requeue --lane webhook\n  agentstore outbox purge --older-than 7d --yes\n\n\
    Commits write the rows. A relay claims the rows and delivers them.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    List(list::Args),
    Requeue(requeue::Args),
    Purge(purge::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match self.action {
            Action::List(_) => Access::Read,
            Action::Requeue(_) | Action::Purge(_) => Access::Write,
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.action {
        Action::List(args) => list::run(args, session, out).await,
        Action::Requeue(args) => requeue::run(args, session, out).await,
        Action::Purge(args) => purge::run(args, session, out).await,
    }
}

/// The options that choose rows.
#[derive(Debug, clap::Args)]
struct RowFilterArgs {
    /// Only rows of this lane
    #[arg(long)]
    lane: Option<LaneId>,
    /// Only rows for this target
    #[arg(long)]
    target: Option<OutboxTarget>,
}

impl RowFilterArgs {
    fn filter(&self) -> OutboxFilter {
        let mut filter = OutboxFilter::default();
        filter.lane.clone_from(&self.lane);
        filter.target.clone_from(&self.target);
        filter
    }
}
