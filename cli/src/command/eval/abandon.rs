//! `eval abandon`: ends an evaluation run before it has all results.

use agentstore::{EvaluationEnd, EvaluationId};

use super::Ending;
use crate::{failure::Result, output::Output, session::Session, text::terminal_safe};

/// End an evaluation run that will not get all its results, so that it can be purged
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore eval abandon before")]
pub(super) struct Args {
    /// The id of the evaluation run
    #[arg(value_name = "ID")]
    id: EvaluationId,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let ended = session.evaluations()?.end_evaluation(&args.id, EvaluationEnd::Abandoned).await?;
    if out.is_json() {
        out.print_document(&ended)?;
    } else {
        out.print_line(format!("{} is abandoned now", terminal_safe(args.id.as_str())))?;
    }
    Ok(Ending::Success)
}
