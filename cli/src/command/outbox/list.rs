//! `outbox list`: lists rows, and counts them by status.

use agentstore::{OutboxCounts, OutboxQuery, OutboxRow, OutboxStatus};
use serde_json::json;

use super::{Ending, RowFilterArgs};
use crate::{
    failure::Result,
    output::{JsonList, Output},
    pages,
    session::Session,
    text,
};

/// List outbox rows, the oldest first, and count them by status
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore outbox list\n  \
    agentstore outbox list --lane webhook --status dead_letter --json | jq .rows[].last_error")]
pub(super) struct Args {
    #[command(flatten)]
    row_filter: RowFilterArgs,
    /// List only rows with this status; can be given more than once
    ///
    /// The statuses are pending, claimed, delivered and dead_letter. Rows with other statuses are still counted.
    #[arg(long = "status", value_name = "STATUS")]
    statuses: Vec<OutboxStatus>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let outbox = session.commits()?.outbox();
    let mut filter = args.row_filter.filter();
    let counts = outbox.count_outbox(&filter).await?;
    filter.statuses = (!args.statuses.is_empty()).then_some(args.statuses);
    let query = OutboxQuery::new(filter);
    let rows = pages::load_all(async |page| outbox.list_outbox(query.clone().with_page(page)).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({ "counts": counts }), "rows")?;
        rows.iter().try_for_each(|row| list.item(row))?;
        list.end()?;
        return Ok(Ending::Success);
    }
    if rows.is_empty() {
        out.print_line("the outbox has no such rows")?;
    } else {
        print(&rows, out)?;
    }
    out.print_line(out.style(counts_line(&counts)).dim())?;
    Ok(Ending::Success)
}

fn counts_line(counts: &OutboxCounts) -> String {
    let OutboxCounts { pending, claimed, delivered, dead_letter, .. } = counts;
    let dead_letters = text::with_noun(*dead_letter, "dead letter");
    format!("{pending} pending, {claimed} claimed, {delivered} delivered, {dead_letters}")
}

fn print(rows: &[OutboxRow], out: &mut Output) -> Result<()> {
    let mut table = out.table(&["row", "lane", "target", "status", "attempts", "not before", "last error"]);
    for row in rows {
        table.add_row([
            text::one_line(row.id.as_str(), out.id_width()),
            text::one_line(row.lane.as_str(), 20),
            text::one_line(row.target.as_str(), 24),
            row.status.name().to_owned(),
            format!("{} of {}", row.attempts, row.max_attempts),
            text::format_minute(row.available_at),
            text::one_line(row.last_error.as_deref().unwrap_or_default(), 40),
        ]);
    }
    out.print_table(table)
}
