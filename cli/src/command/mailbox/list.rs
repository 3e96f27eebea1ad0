//! `mailbox list`: lists dispatches, and counts them by status.

use agentstore::{Dispatch, DispatchCounts, DispatchFilter, DispatchQuery, DispatchStatus, ThreadId};
use serde_json::{Value, json};

use super::Ending;
use crate::{
    failure::Result,
    output::{JsonList, Output},
    pages,
    session::Session,
    text,
};

/// List dispatches, the oldest first, and count them by status
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore mailbox list\n  \
    agentstore mailbox list --thread t-42 --status queued --status claimed\n  \
    agentstore mailbox list --status dead_letter --json | jq .dispatches[].last_error")]
pub(super) struct Args {
    /// Only dispatches of this thread
    #[arg(long)]
    thread: Option<ThreadId>,
    /// List only dispatches with this status; can be given more than once
    ///
    /// The statuses are queued, claimed, acked, cancelled, superseded and dead_letter. Dispatches with other statuses
    /// are still counted.
    #[arg(long = "status", value_name = "STATUS")]
    statuses: Vec<DispatchStatus>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let mailbox = session.mailbox()?;
    let counts = mailbox.count_dispatches(args.thread.as_ref()).await?;
    let mut filter = args.thread.map_or_else(DispatchFilter::default, DispatchFilter::of_thread);
    filter.statuses = (!args.statuses.is_empty()).then_some(args.statuses);
    let query = DispatchQuery::new(filter);
    let dispatches = pages::load_all(async |page| mailbox.list_dispatches(query.clone().with_page(page)).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({ "counts": counts_document(&counts) }), "dispatches")?;
        dispatches.iter().try_for_each(|dispatch| list.item(dispatch))?;
        list.end()?;
        return Ok(Ending::Success);
    }
    if dispatches.is_empty() {
        out.print_line("the mailbox has no such dispatches")?;
    } else {
        print(&dispatches, out)?;
    }
    out.print_line(out.style(counts_line(&counts)).dim())?;
    Ok(Ending::Success)
}

/// Returns the counts as JSON, including those that are 0.
pub(super) fn counts_document(counts: &DispatchCounts) -> Value {
    DispatchStatus::ALL.iter().map(|status| (status.name().to_owned(), Value::from(counts.of(*status)))).collect()
}

/// Returns the counts in one line.
pub(super) fn counts_line(counts: &DispatchCounts) -> String {
    let DispatchCounts { queued, claimed, acked, cancelled, superseded, dead_letter, .. } = counts;
    let dead_letters = text::with_noun(*dead_letter, "dead letter");
    format!(
        "{queued} queued, {claimed} claimed, {acked} acked, {cancelled} cancelled, {superseded} superseded, \
         {dead_letters}"
    )
}

fn print(dispatches: &[Dispatch], out: &mut Output) -> Result<()> {
    let mut table = out.table(&["dispatch", "thread", "run", "status", "priority", "failures", "not before", "detail"]);
    for dispatch in dispatches {
        let reason_or_error = dispatch.reason.as_deref().or(dispatch.last_error.as_deref());
        let worker = dispatch.claim.as_ref().map(|claim| format!("claimed by {}", claim.worker));
        table.add_row([
            text::one_line(dispatch.id.as_str(), out.id_width()),
            text::one_line(dispatch.thread.as_str(), out.id_width()),
            text::one_line(dispatch.run.as_str(), 20),
            dispatch.status.name().to_owned(),
            dispatch.priority.to_string(),
            format!("{} of {}", dispatch.attempts, dispatch.max_attempts),
            text::format_minute(dispatch.available_at),
            text::one_line(worker.as_deref().or(reason_or_error).unwrap_or_default(), 40),
        ]);
    }
    out.print_table(table)
}
