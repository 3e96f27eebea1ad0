//! `eval purge`: removes evaluation runs that have ended.

use std::time::Duration;

use agentstore::{Clock, DatasetId, PurgeEvaluations, PurgedEvaluations, SystemClock, length};
use serde_json::json;

use super::Ending;
use crate::{
    args,
    command::dataset::target::parse_dataset,
    failure::Result,
    output::Output,
    progress::TerminalProgress,
    prompt,
    session::{Access, Session},
    text::{terminal_safe, with_noun},
};

/// Remove evaluation runs that have ended, by age and number; pinned ones stay
///
/// Datasets, publications, threads and runs that an evaluation run refers to stay.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore eval purge --older-than 90d --dry-run\n  \
    agentstore eval purge --keep 20 --yes\n  agentstore eval purge --older-than 30d --keep 5 --dataset sums --yes\n\n\
    With both options, a run is removed only if both allow it. A purge that was interrupted goes on with the next one. \
    `agentstore maintain --evaluations AGE` does the same regularly.")]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(["older_than", "keep"]))]
pub(super) struct Args {
    /// Remove only runs that were created, ended, pinned and unpinned at least this long ago
    #[arg(long, value_name = "AGE", value_parser = args::parse_age)]
    older_than: Option<Duration>,
    /// Keep this many of the newest runs of each dataset
    #[arg(long, value_name = "N")]
    keep: Option<u64>,
    /// Remove only runs over this dataset
    #[arg(long, value_name = "NAME", value_parser = parse_dataset)]
    dataset: Option<DatasetId>,
    /// Only print which runs would be removed
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

impl Args {
    pub(super) const fn access(&self) -> Access {
        if self.dry_run { Access::Read } else { Access::Write }
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let evaluations = session.evaluations()?;
    let mut request = PurgeEvaluations::keeping_newest(args.keep.unwrap_or_default());
    request.before = args.older_than.map(|age| SystemClock.now().saturating_sub(age));
    request.dataset = args.dataset;
    let bar = TerminalProgress::new("removing");
    let found = evaluations.purge_evaluations(request.clone().dry(), &bar).await?;
    let mut removed = PurgedEvaluations::default();
    if !args.dry_run && !found.evaluations.is_empty() {
        if !out.is_json() && !args.yes {
            print_ids(&found, out)?;
        }
        let runs = with_noun(length(found.evaluations.len()), "evaluation run");
        prompt::confirm(args.yes, &format!("Remove {runs} with all results?"))?;
        removed = evaluations.purge_evaluations(request, &bar).await?;
    }
    bar.finish();
    let done = if args.dry_run { &found } else { &removed };
    if out.is_json() {
        out.print_document(&json!({ "evaluations": done.evaluations, "dry_run": args.dry_run }))?;
    } else {
        if args.dry_run {
            print_ids(&found, out)?;
        }
        let runs = with_noun(length(done.evaluations.len()), "evaluation run");
        out.print_line(format!("{} {runs}", if args.dry_run { "would remove" } else { "removed" }))?;
    }
    Ok(Ending::Success)
}

fn print_ids(purged: &PurgedEvaluations, out: &mut Output) -> Result<()> {
    purged.evaluations.iter().try_for_each(|id| out.print_line(terminal_safe(id.as_str())))?;
    out.flush()
}
