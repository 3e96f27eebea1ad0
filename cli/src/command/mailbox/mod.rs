//! `mailbox`: work that is queued for the runs of threads.

mod enqueue;
mod interrupt;
mod list;
mod purge;
mod requeue;
mod stats;
mod work;

use clap::Subcommand;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    session::{Access, Session},
};

/// Look after work that is queued for threads, and do it: enqueue, list, stats, work, interrupt, requeue, purge
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore mailbox enqueue t-42 --run run-7 --payload '{\"task\":\"index\"}'\n  \
    agentstore mailbox stats\n  agentstore mailbox work --exec ./index.sh --until-idle\n  \
    agentstore mailbox interrupt t-42 --reason \"the user changed their mind\"\n\n\
    Of a thread at most one dispatch is claimed at a time. Workers claim and settle; people look and clean up.")]
pub(crate) struct Args {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    Enqueue(enqueue::Args),
    List(list::Args),
    Stats(stats::Args),
    Work(work::Args),
    Interrupt(interrupt::Args),
    Requeue(requeue::Args),
    Purge(purge::Args),
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match self.act {
            Act::List(_) | Act::Stats(_) => Access::Read,
            Act::Enqueue(_) | Act::Work(_) => Access::Create,
            Act::Interrupt(_) | Act::Requeue(_) | Act::Purge(_) => Access::Write,
        }
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.act {
        Act::Enqueue(args) => enqueue::run(args, session, out).await,
        Act::List(args) => list::run(args, session, out).await,
        Act::Stats(args) => stats::run(args, session, out).await,
        Act::Work(args) => work::run(args, session, out).await,
        Act::Interrupt(args) => interrupt::run(args, session, out).await,
        Act::Requeue(args) => requeue::run(args, session, out).await,
        Act::Purge(args) => purge::run(args, session, out).await,
    }
}
