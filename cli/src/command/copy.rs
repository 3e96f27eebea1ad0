//! `copy`: moves everything from one store to another, and compares both.

use agentstore::{
    CopiedTenant, CopyStep, Detail, ErrorKind, StoreUrl, TenantId, copy_stores, length,
    records::{CopyOptions, CopyReport, UNFINISHED_COPY},
};
use serde::Serialize;

use super::Ending;
use crate::{
    args::{GlobalArgs, PartUrls, StoreArg},
    failure::{Failure, Result},
    output::Output,
    progress::TerminalProgress,
    session::{Access, Session},
    text::{terminal_safe, with_noun},
};

/// Copy everything of a tenant, or of all tenants, from one store to another, and compare both
///
/// Threads with their entries, runs, state and pending input, events, outbox rows, dispatches, documents and blobs are
/// copied with their ids, numbers, versions and times. Cursors are not: they belong to a store.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore copy --from file:./agentstore-data --to postgres://localhost/agents\n  \
    agentstore copy --from file:./agentstore-data --to postgres://localhost/agents --all --dry-run\n  \
    agentstore copy --from postgres://localhost/agents --to file:./backup --compare\n\n\
    Stop everything that writes to the source. A copy that was interrupted continues if the command is repeated. The \
    target must be empty, or `--merge` must be given. At the end every record of both stores is compared, and the digest \
    of both is printed: it is the same for equal data, whatever stores keep it.\n\n\
    Exit codes: 0 both stores have the same records, 1 refused, failed or not equal, 2 invalid command line."
)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command")]
pub(crate) struct Args {
    /// The URL of the store to copy from
    #[arg(long, value_name = "URL")]
    from: StoreArg,
    /// The URL of the store that has the mailbox to copy from, if it is another one
    #[arg(long, value_name = "URL")]
    from_mailbox: Option<StoreArg>,
    /// The URL of the store that has the bytes of blobs to copy from, if it is another one
    #[arg(long, value_name = "URL")]
    from_blobs: Option<StoreArg>,
    /// The URL of the store to copy to; it is created if it does not exist
    #[arg(long, value_name = "URL")]
    to: StoreArg,
    /// The URL of the store to copy the mailbox to, if it is another one
    #[arg(long, value_name = "URL")]
    to_mailbox: Option<StoreArg>,
    /// The URL of the store to copy the bytes of blobs to, if it is another one
    #[arg(long, value_name = "URL")]
    to_blobs: Option<StoreArg>,
    /// Copy all tenants, not only that of `--tenant`
    #[arg(long)]
    all: bool,
    /// Copy into a store with other data; no record of it may have the key of another record of the source
    #[arg(long)]
    merge: bool,
    /// Leave out what the target has no place for, such as threads in a store that keeps mailboxes only
    #[arg(long)]
    partial: bool,
    /// Only count what would be copied, and what the target has no place for
    #[arg(long, conflicts_with = "compare")]
    dry_run: bool,
    /// Only compare both stores
    #[arg(long)]
    compare: bool,
}

/// The document that the command prints.
#[derive(Debug, Serialize)]
struct Copied<'a> {
    from: String,
    to: String,
    tenants: &'a [CopiedTenant],
}

pub(crate) async fn run(args: Args, global: &GlobalArgs, out: &mut Output) -> Result<Ending> {
    let from =
        parts([("--from-mailbox", &args.from_mailbox), ("--from-blobs", &args.from_blobs)], ("--from", &args.from))?;
    let to = parts([("--to-mailbox", &args.to_mailbox), ("--to-blobs", &args.to_blobs)], ("--to", &args.to))?;
    if from.store.is_same_store(&to.store) {
        return Err(Failure::Usage("`--from` and `--to` name the same store".to_owned()));
    }
    let tenant = &global.tenant;
    // The source is opened for writing, so that no other process can write to it.
    let source = Session::open_at(from, tenant.clone(), Access::Write).await?;
    let access = if args.dry_run || args.compare { Access::ReadOrEmpty } else { Access::Create };
    let target = match Session::open_at(to, tenant.clone(), access).await {
        Ok(target) => target,
        Err(error) => {
            source.close().await?;
            return Err(error);
        }
    };
    let ended = copy(&args, (&source, &target), (!args.all).then_some(tenant), out).await;
    let closed = (target.close().await, source.close().await);
    let ending = ended?;
    closed.0?;
    closed.1?;
    Ok(ending)
}

fn url_of<'a>(name: &str, url: &'a StoreArg) -> Result<&'a StoreUrl> {
    let url = url.url().map_err(|reason| Failure::Usage(format!("invalid value for `{name}`: {reason}")))?;
    if let StoreUrl::Buffered { inner, .. } = url {
        return Err(Failure::Usage(format!(
            "`{name}`: copies are made of the store itself, without a write buffer: run `agentstore buffer detach`, then \
             name the store as `{inner}`"
        )));
    }
    Ok(url)
}

/// Returns where the parts of one side are: the mailbox, and the bytes of blobs. Config, profiles and audit log in a
/// store of their own are copied as that store.
fn parts(others: [(&str, &Option<StoreArg>); 2], (name, store): (&str, &StoreArg)) -> Result<PartUrls> {
    let [mailbox, blobs] = others.map(|(name, url)| url.as_ref().map(|url| url_of(name, url).cloned()).transpose());
    Ok(PartUrls { store: url_of(name, store)?.clone(), mailbox: mailbox?, settings: None, blobs: blobs? })
}

async fn copy(
    args: &Args,
    (source, target): (&Session, &Session),
    tenant: Option<&TenantId>,
    out: &mut Output,
) -> Result<Ending> {
    let header = source.header();
    let options = CopyOptions::new(header.urls()).merging(args.merge).leaving_out(args.partial).dry_run(args.dry_run);
    let step = if args.compare { CopyStep::Compare } else { CopyStep::Copy };
    let bar = TerminalProgress::with_rate(if args.compare { "comparing" } else { "copying" });
    let copied = copy_stores((source.stores(), target.stores()), tenant, step, &options, &bar).await;
    bar.finish();
    let copied = copied.map_err(|error| match error.kind() {
        ErrorKind::Unsupported if !args.partial => Failure::from(error)
            .with_advice("`--dry-run` says what the target has no place for, and `--partial` leaves it out"),
        ErrorKind::AlreadyExists => {
            let advice = already_exists_advice(&error, args);
            Failure::from(error).with_advice(advice)
        }
        _ => Failure::from(error),
    })?;
    if out.is_json() {
        let (from, to) = (header.urls(), target.header().urls());
        out.print_document(&Copied { from, to, tenants: &copied })?;
    } else {
        for CopiedTenant { tenant, report, .. } in &copied {
            print(tenant, report, out)?;
        }
        if copied.is_empty() {
            out.print_line("the source has no tenants")?;
        }
    }
    let is_equal = |tenant: &CopiedTenant| tenant.report.difference_count == 0 && !tenant.report.stopped;
    Ok(if copied.iter().all(is_equal) { Ending::Success } else { Ending::Problem })
}

/// Says what to do if the target has data.
fn already_exists_advice(error: &agentstore::Error, args: &Args) -> &'static str {
    match error.detail() {
        Detail::AlreadyExists { what, .. } if what.noun == UNFINISHED_COPY => {
            "repeat the copy from that store, which continues; or delete the tenant in the target with `agentstore \
             tenants delete`, and begin again"
        }
        _ if args.merge => {
            "the target has another record with this name, and keeps it: copy to another store or tenant, or delete the \
             record there"
        }
        _ => {
            "the target is not empty: copy to another store; or add `--merge` to keep its data beside that of the source; \
             or delete the tenant in the target with `agentstore tenants delete`"
        }
    }
}

fn print(tenant: &TenantId, report: &CopyReport, out: &mut Output) -> Result<()> {
    let what = match (report.dry_run, report.continued) {
        (true, _) => "would be copied",
        (false, true) => "copied, after what an interrupted copy had copied",
        (false, false) => "copied",
    };
    let title = format!("tenant {}: {} {what}", terminal_safe(tenant.as_str()), with_noun(report.records(), "record"));
    out.print_line(out.style(title).bold())?;
    for list in &report.copied {
        out.print_line(format!("  {:<18} {:>12}", list.list.replace('_', " "), list.records))?;
    }
    for list in &report.left_out {
        let text = format!("  {} {}: the target has no place for them", with_noun(list.records, "record"), list.list);
        out.print_line(out.style(text).red())?;
    }
    for difference in &report.differences {
        out.print_line(out.style(format!("  {}", terminal_safe(&difference.to_string()))).red())?;
    }
    let unlisted = report.difference_count - length(report.differences.len());
    if unlisted > 0 {
        out.print_line(format!("  … and {unlisted} more"))?;
    }
    if let (Some(source), Some(target)) = (&report.source, &report.target) {
        out.print_line(format!("  digest of the source  {}", source.digest))?;
        out.print_line(format!("  digest of the target  {}", target.digest))?;
        let verdict = match report.difference_count {
            0 => out.style("  every record of the source is in the target".to_owned()).green(),
            number => {
                let counts = &report.difference_counts;
                let text = format!(
                    "  {} not the same: {} missing, {} changed, {} only in the target",
                    with_noun(number, "record"),
                    counts.missing,
                    counts.changed,
                    counts.extra
                );
                out.style(text).red()
            }
        };
        out.print_line(verdict)?;
    }
    Ok(())
}
