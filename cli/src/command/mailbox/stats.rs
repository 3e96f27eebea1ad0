//! `mailbox stats`: how much waits, how long it has waited, what failed.

use agentstore::{Clock, Dispatch, DispatchFilter, DispatchQuery, DispatchStatus, SystemClock, ThreadId};
use serde_json::json;

use super::{
    Ending,
    list::{document, sum},
};
use crate::{failure::Result, output::Output, pages, session::Session, text};

/// Say how much is queued, since when the oldest waits, how often work failed, and how much was given up
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  agentstore mailbox stats\n  agentstore mailbox stats --thread t-42 --json | jq .oldest"
)]
pub(super) struct Args {
    /// Of this thread only
    #[arg(long)]
    thread: Option<ThreadId>,
}

/// What is queued or claimed, summed up.
#[derive(Debug, Default)]
struct Open {
    /// What waits longest to be claimed.
    oldest: Option<Dispatch>,
    /// How many have failed at least once.
    retried: u64,
    /// How often they failed.
    failures: u64,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mailbox = session.mailbox()?;
    let counts = mailbox.count_dispatches(args.thread.as_ref()).await?;
    let filter = args.thread.clone().map_or_else(DispatchFilter::default, DispatchFilter::of_thread);
    let query = DispatchQuery::new(filter.in_status([DispatchStatus::Queued, DispatchStatus::Claimed]));
    let mut open = Open::default();
    pages::each(
        async |page| mailbox.list_dispatches(query.clone().with_page(page)).await,
        |dispatch| {
            open.retried += u64::from(dispatch.attempts > 0);
            open.failures += u64::from(dispatch.attempts);
            let is_older = open.oldest.as_ref().is_none_or(|oldest| dispatch.created_at < oldest.created_at);
            if dispatch.status == DispatchStatus::Queued && is_older {
                open.oldest = Some(dispatch);
            }
            Ok(true)
        },
    )
    .await?;
    let now = SystemClock.now();
    let age = open.oldest.as_ref().map(|oldest| now.as_millis().saturating_sub(oldest.created_at.as_millis()) / 1000);
    if out.json() {
        let oldest = open.oldest.as_ref().zip(age).map(|(oldest, age)| {
            json!({
                "dispatch": oldest.id, "thread": oldest.thread, "created_at": oldest.created_at, "age_seconds": age,
            })
        });
        let retries = json!({ "dispatches": open.retried, "failures": open.failures });
        out.document(&json!({ "counts": document(&counts), "oldest": oldest, "retries": retries }))?;
        return Ok(Ending::Good);
    }
    out.line(sum(&counts))?;
    match open.oldest.as_ref().zip(age) {
        Some((oldest, age)) => out.line(format!(
            "the oldest that is queued waits since {} ({}): dispatch {} of thread {}",
            text::time(oldest.created_at),
            text::duration(age),
            text::safe(oldest.id.as_str()),
            text::safe(oldest.thread.as_str())
        ))?,
        None => out.line("nothing is queued")?,
    }
    out.line(match open.retried {
        0 => "nothing that is queued or claimed has failed before".to_owned(),
        retried => format!(
            "{} of what is queued or claimed failed before, {} in all",
            text::count(retried, "dispatch"),
            text::count(open.failures, "failure")
        ),
    })?;
    Ok(Ending::Good)
}
