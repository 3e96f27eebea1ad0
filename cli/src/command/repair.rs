//! `repair`: rebuilds data that can be derived from other records.

use agentstore::inspect::{Inspection, RepairStatus};

use super::{
    Ending,
    verify::{inspector, print},
};
use crate::{
    args::GlobalArgs,
    failure::{Failure, Result},
    output::Output,
    progress::TerminalProgress,
    prompt,
    session::{Access, Session},
    text::with_noun,
};

/// Rebuild data that can be derived: indexes, counters, heads and sums
///
/// Accepted data is never changed. If it is damaged, restore it from a backup.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore repair --dry-run\n  agentstore repair --yes\n  \
    agentstore repair --yes --accept-lost-journal\n\n\
    The command first prints what it would do, and asks for confirmation. The exit code is 1 if it cannot repair \
    everything.")]
pub(crate) struct Args {
    /// Only print what would be rebuilt, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
    /// Open a store of `file:` although its journal is lost or damaged: what only the journal had is lost
    #[arg(long, requires = "yes")]
    accept_lost_journal: bool,
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        match (self.dry_run, self.accept_lost_journal) {
            (true, _) => Access::Read,
            (false, true) => Access::WriteWithoutJournal,
            (false, false) => Access::Write,
        }
    }

    /// Refuses to ask a question whose subject was not printed.
    pub(crate) fn check(&self, global: &GlobalArgs) -> Result<()> {
        if global.json && !self.yes && !self.dry_run {
            let text =
                "with `--json`, no plan is printed before the question: add `--dry-run` for the plan, or `--yes`";
            return Err(Failure::Usage(text.to_owned()));
        }
        Ok(())
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    // A dry run finds what can be rebuilt, and changes nothing.
    let plan = run_repair(session, true).await?;
    let repairable_count = plan.findings.iter().filter(|finding| finding.repair == RepairStatus::CanBeRebuilt).count();
    if args.dry_run || repairable_count == 0 {
        return report(&plan, out);
    }
    if !out.is_json() {
        print(&plan, 0, out)?;
        out.flush()?;
    }
    prompt::confirm(args.yes, &format!("Repair {}?", with_noun(repairable_count as u64, "finding")))?;
    let dry_run = false;
    report(&run_repair(session, dry_run).await?, out)
}

async fn run_repair(session: &Session, dry_run: bool) -> Result<Inspection> {
    let bar = TerminalProgress::new(if dry_run { "checking" } else { "repairing" });
    let inspection = inspector(session)?.repair(dry_run, &bar).await;
    bar.finish();
    Ok(inspection?)
}

fn report(inspection: &Inspection, out: &mut Output) -> Result<Ending> {
    if out.is_json() {
        out.print_document(inspection)?
    } else {
        print(inspection, 0, out)?
    }
    let is_not_repaired = |repair| matches!(repair, RepairStatus::NeedsBackup | RepairStatus::LeftAlone);
    let has_unrepaired = inspection.findings.iter().any(|finding| is_not_repaired(finding.repair));
    Ok(if has_unrepaired { Ending::Problem } else { Ending::Success })
}
