//! `dataset remove`: takes cases out of a dataset.

use agentstore::{CaseChange, CaseId};

use super::{ChangeArgs, Ending};
use crate::{failure::Result, output::Output, session::Session};

/// Take cases out of a dataset; earlier versions keep them
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore dataset remove small --dataset sums\n  \
    agentstore dataset remove small large --dataset sums --expect 4")]
pub(super) struct Args {
    /// The ids of the cases
    #[arg(required = true, value_name = "CASE")]
    cases: Vec<CaseId>,
    #[command(flatten)]
    change: ChangeArgs,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    args.change.make(args.cases.into_iter().map(CaseChange::Remove).collect(), session, out).await
}
