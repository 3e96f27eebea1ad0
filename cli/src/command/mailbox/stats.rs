//! `mailbox stats`: counts dispatches and failures, and prints how long the oldest dispatch has waited.

use agentstore::{Clock, Dispatch, DispatchFilter, DispatchQuery, DispatchStatus, SystemClock, ThreadId};
use serde_json::json;

use super::{
    Ending,
    list::{counts_document, counts_line},
};
use crate::{failure::Result, output::Output, pages, session::Session, text};

/// Count dispatches by status, and print how long the oldest has waited and how many times dispatches failed
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore mailbox stats\n  agentstore mailbox stats --thread t-42 --json | jq .oldest"
)]
pub(super) struct Args {
    /// Only dispatches of this thread
    #[arg(long)]
    thread: Option<ThreadId>,
}

/// A summary of the dispatches that are queued or claimed.
#[derive(Debug, Default)]
struct UnfinishedSummary {
    /// The queued dispatch that was created first.
    oldest_queued: Option<Dispatch>,
    /// The number of dispatches that have failed at least once.
    failed_dispatches: u64,
    /// The number of failures of all dispatches.
    failures: u64,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mailbox = session.mailbox()?;
    let counts = mailbox.count_dispatches(args.thread.as_ref()).await?;
    let filter = args.thread.clone().map_or_else(DispatchFilter::default, DispatchFilter::of_thread);
    let query = DispatchQuery::new(filter.in_status([DispatchStatus::Queued, DispatchStatus::Claimed]));
    let mut unfinished = UnfinishedSummary::default();
    pages::for_each(
        async |page| mailbox.list_dispatches(query.clone().with_page(page)).await,
        |dispatch| {
            unfinished.failed_dispatches += u64::from(dispatch.attempts > 0);
            unfinished.failures += u64::from(dispatch.attempts);
            let is_older =
                unfinished.oldest_queued.as_ref().is_none_or(|oldest| dispatch.created_at < oldest.created_at);
            if dispatch.status == DispatchStatus::Queued && is_older {
                unfinished.oldest_queued = Some(dispatch);
            }
            Ok(true)
        },
    )
    .await?;
    let now = SystemClock.now();
    let age = unfinished
        .oldest_queued
        .as_ref()
        .map(|oldest| now.as_millis().saturating_sub(oldest.created_at.as_millis()) / 1000);
    if out.is_json() {
        let oldest = unfinished.oldest_queued.as_ref().zip(age).map(|(oldest, age)| {
            json!({
                "dispatch": oldest.id, "thread": oldest.thread, "created_at": oldest.created_at, "age_seconds": age,
            })
        });
        let retries = json!({ "dispatches": unfinished.failed_dispatches, "failures": unfinished.failures });
        out.print_document(&json!({ "counts": counts_document(&counts), "oldest": oldest, "retries": retries }))?;
        return Ok(Ending::Success);
    }
    out.print_line(counts_line(&counts))?;
    match unfinished.oldest_queued.as_ref().zip(age) {
        Some((oldest, age)) => out.print_line(format!(
            "the oldest queued dispatch has waited since {} ({}): dispatch {} of thread {}",
            text::format_time(oldest.created_at),
            text::format_duration(age),
            text::terminal_safe(oldest.id.as_str()),
            text::terminal_safe(oldest.thread.as_str())
        ))?,
        None => out.print_line("nothing is queued")?,
    }
    out.print_line(match unfinished.failed_dispatches {
        0 => "no queued or claimed dispatch has failed before".to_owned(),
        retried => format!(
            "among the queued and claimed dispatches: {} with failures, {} in total",
            text::with_noun(retried, "dispatch"),
            text::with_noun(unfinished.failures, "failure")
        ),
    })?;
    Ok(Ending::Success)
}
