//! `eval pin`: keeps an evaluation run from being purged.

use agentstore::EvaluationId;

use super::Ending;
use crate::{failure::Result, output::Output, session::Session, text::terminal_safe};

/// Pin an evaluation run, so that no purge removes it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore eval pin before\n  agentstore eval pin before --undo")]
pub(super) struct Args {
    /// The id of the evaluation run
    #[arg(value_name = "ID")]
    id: EvaluationId,
    /// Take the pin away
    #[arg(long)]
    undo: bool,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let changed = session.evaluations()?.pin_evaluation(&args.id, !args.undo).await?;
    if out.is_json() {
        out.print_document(&changed)?;
    } else {
        let state = if changed.pinned { "pinned" } else { "not pinned" };
        out.print_line(format!("{} is {state} now", terminal_safe(args.id.as_str())))?;
    }
    Ok(Ending::Success)
}
