//! `verify`: reads the whole store and reports all damage.

use std::collections::BTreeMap;

use agentstore::{
    Detail, Error, TenantId, digest_stores,
    inspect::{Finding, Inspection, Inspector, Note, RepairStatus},
    records::{CopyMark, TenantDigest},
};
use serde::Serialize;

use super::{Ending, FINISH_COPY};
use crate::{
    failure::{Failure, Result},
    json_merge::merge_objects,
    output::Output,
    progress::TerminalProgress,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Read all data of all tenants and report all damage; nothing is changed
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  agentstore verify --store file:./agentstore-data\n\n\
    The exit code is 1 if something is wrong. Two stores with equal data have equal digests, of whatever backends they are.")]
pub(crate) struct Args {
    /// Also print the digest of the data of each tenant
    #[arg(long)]
    digest: bool,
}

/// The document that the command prints.
#[derive(Debug, Serialize)]
struct Verified<'a> {
    #[serde(flatten)]
    inspection: &'a Inspection,
    /// The tenants to which a copy has not ended. What such a tenant still lacks is not listed as damage.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unfinished_copies: &'a Vec<UnfinishedCopy>,
    /// The digest of each tenant, if it was asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    digests: BTreeMap<String, TenantDigest>,
}

/// A tenant that is the target of a copy that has not ended.
#[derive(Debug, Serialize)]
struct UnfinishedCopy {
    tenant: TenantId,
    #[serde(flatten)]
    mark: CopyMark,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    if args.digest && session.stores().write_buffer().is_some() {
        let text = "a digest is that of the store itself, without a write buffer: run `agentstore buffer flush`, then \
                    `verify --digest` without `--buffer`";
        return Err(Failure::Usage(text.to_owned()));
    }
    let bar = TerminalProgress::new("verifying");
    let inspection = inspector(session)?.verify(&bar).await;
    bar.finish();
    let mut inspection = inspection?;
    let unfinished = session.stores().unfinished_copies().await?.into_iter();
    let unfinished_copies: Vec<_> = unfinished.map(|(tenant, mark)| UnfinishedCopy { tenant, mark }).collect();
    let is_unfinished = |tenant: &TenantId| unfinished_copies.iter().any(|copy| copy.tenant == *tenant);
    inspection.findings.retain(|finding| !finding.tenant.as_ref().is_some_and(is_unfinished));
    let mut digests = BTreeMap::new();
    if args.digest {
        let bar = TerminalProgress::new("computing digests");
        let found = digest_stores(session.stores(), None, &bar).await;
        bar.finish();
        digests.extend(found?.into_iter().map(|(tenant, digest)| (tenant.to_string(), digest)));
    }
    let header = session.header();
    if out.is_json() {
        out.print_document(&merge_objects(
            &header,
            &Verified { inspection: &inspection, unfinished_copies: &unfinished_copies, digests },
        )?)?;
    } else {
        out.print_line(out.style(header.line()).dim())?;
        for UnfinishedCopy { tenant, mark } in &unfinished_copies {
            let title = out.style("unfinished copy".to_owned()).red().bold();
            out.print_line(format!("{title} tenant {}", terminal_safe(tenant.as_str())))?;
            out.print_line(format!("  {}; {FINISH_COPY}", terminal_safe(&mark.to_string())))?;
        }
        print(&inspection, unfinished_copies.len(), out)?;
        for (tenant, digest) in digests {
            let records = with_noun(digest.records(), "record");
            out.print_line(format!("tenant {}: digest {} of {records}", terminal_safe(&tenant), digest.digest))?;
        }
    }
    let is_sound = inspection.findings.is_empty() && unfinished_copies.is_empty();
    Ok(if is_sound { Ending::Success } else { Ending::Problem })
}

/// Returns the inspector of the store, or an error if it has none.
pub(super) fn inspector(session: &Session) -> Result<&dyn Inspector> {
    let operation = "verifying and repairing";
    let missing = || Error::new(Detail::Unsupported { operation });
    Ok(session.stores().store().inspector().ok_or_else(missing)?)
}

/// Prints the findings of an inspection, and how much it read. `others` is the number of findings that are printed
/// already.
pub(super) fn print(inspection: &Inspection, others: usize, out: &mut Output) -> Result<()> {
    for finding in &inspection.findings {
        print_finding(finding, out)?;
    }
    for Note { place, detail, .. } in &inspection.notes {
        out.print_line(format!(
            "{} {}\n  {}",
            out.style("note".to_owned()).bold(),
            terminal_safe(place),
            terminal_safe(detail)
        ))?;
    }
    let Inspection { tenants, threads, entries, runs, objects, findings, stopped, .. } = inspection;
    let read_counts = [(tenants, "tenant"), (threads, "thread"), (entries, "entry"), (runs, "run")];
    let mut read_counts: Vec<_> = read_counts.iter().map(|&(&number, noun)| with_noun(number, noun)).collect();
    if *objects > 0 {
        read_counts.push(with_noun(*objects, "object"));
    }
    let result_text = match findings.len() + others {
        0 => out.style("nothing is wrong".to_owned()).green(),
        number => out.style(with_noun(number as u64, "finding")).red(),
    };
    let stopped = if *stopped { ", stopped before the end" } else { "" };
    out.print_line(format!("read {}: {result_text}{stopped}", read_counts.join(", ")))
}

fn print_finding(finding: &Finding, out: &mut Output) -> Result<()> {
    let kind = serde_json::to_string(&finding.kind)?.replace(['"', '_'], " ");
    let mut owner = String::new();
    if let Some(tenant) = &finding.tenant {
        owner.push_str(&format!(", tenant {tenant}"));
    }
    if let Some(thread) = &finding.thread {
        owner.push_str(&format!(", thread {thread}"));
    }
    let repair = match finding.repair {
        RepairStatus::CanBeRebuilt => "`agentstore repair` can rebuild it",
        RepairStatus::Rebuilt => "rebuilt",
        RepairStatus::NeedsBackup => "it cannot be rebuilt: restore it from a backup",
        RepairStatus::LeftAlone => "the store does not use it: inspect it, then remove it",
    };
    out.print_line(format!(
        "{} {}{}",
        out.style(kind.trim()).red().bold(),
        terminal_safe(&finding.place),
        terminal_safe(&owner)
    ))?;
    out.print_line(format!("  {}; {repair}", terminal_safe(&finding.detail)))
}
