//! `audit list`: lists audit records, and follows the log.

use std::future::poll_fn;

use agentstore::{AuditAction, AuditQuery, AuditRecord, AuditResource, EventKind, ResourceFilter, TextFilter};
use serde_json::json;

use super::{Ending, RecordDocument, record_line, record_ref::short_ids};
use crate::{
    args::{Since, parse_since},
    failure::Result,
    json_text,
    output::{JsonList, Output},
    pages,
    session::Session,
    text,
};

/// List audit records, the newest first; with `--follow`, the oldest first, and then new ones until Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore audit list --resource config/prompts/coder --diff\n  \
    agentstore audit list --actor 'user:*' --since 2026-11-30 --json | jq .records[].resource\n  \
    agentstore audit list --resource config/ --follow --json\n\n\
    Resources are `config/NAMESPACE/ID`, `profile/user/ID/KEY` (also `agent/ID`, `system` and so on), \
    `definition/KIND/ID` and `publication/ID`. In a name, `%25`, `%2F` and `%40` stand for `%`, `/` and `@`. With \
    `--json` the ids of records are whole. With `--follow --json` each record is a document on its own line.")]
pub(super) struct Args {
    /// Only records about this resource; with a `/` at the end, about everything below it
    #[arg(long, value_name = "RESOURCE", value_parser = parse_resource)]
    resource: Option<ResourceFilter>,
    /// Only records of this actor; with a `*` at the end, of all actors whose names begin so
    #[arg(long, value_name = "NAME", value_parser = parse_actor)]
    actor: Option<TextFilter>,
    /// Only records of this action, such as update; can be given more than once
    #[arg(long = "action", value_name = "ACTION")]
    actions: Vec<EventKind>,
    /// Only records since this time: an age such as `7d`, a date, or a time such as `2026-11-30T09:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Since>,
    /// The greatest number of records to list; all if not given
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true, conflicts_with = "follow")]
    limit: u64,
    /// Also print what each change changed
    #[arg(long)]
    diff: bool,
    /// After the stored records, also print new ones, including those that other processes write
    #[arg(long)]
    follow: bool,
}

fn parse_resource(text: &str) -> Result<ResourceFilter, String> {
    let filter = match text.strip_suffix('/') {
        Some(folder) => AuditResource::new(folder).map(ResourceFilter::Below),
        None => AuditResource::new(text).map(ResourceFilter::Exact),
    };
    filter.map_err(|error| error.to_string())
}

fn parse_actor(text: &str) -> Result<TextFilter, String> {
    Ok(match text.strip_suffix('*') {
        Some(prefix) => TextFilter::Prefix(prefix.to_owned()),
        None => TextFilter::Exact(text.to_owned()),
    })
}

impl Args {
    fn query(&self) -> AuditQuery {
        let mut query = AuditQuery::new();
        query.resource.clone_from(&self.resource);
        query.actor.clone_from(&self.actor);
        query.actions = (!self.actions.is_empty()).then(|| self.actions.iter().map(AuditAction::from_name).collect());
        query.from = self.since.map(Since::time);
        query
    }
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let query = args.query();
    if args.follow {
        return follow(query, args.diff, session, out).await;
    }
    let records = list(query, args.limit, session).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "records")?;
        records.iter().try_for_each(|record| list.item(&RecordDocument::from(record)))?;
        list.end()?;
    } else if records.is_empty() {
        out.print_line("the audit log has no such records")?;
    } else if args.diff {
        records.iter().try_for_each(|record| print_with_difference(record, out))?;
    } else {
        print(&records, out)?;
    }
    Ok(Ending::Success)
}

async fn list(query: AuditQuery, limit: u64, session: &Session) -> Result<Vec<AuditRecord>> {
    let audit = session.audit()?;
    let (mut records, mut remaining) = (Vec::new(), limit);
    if remaining == 0 {
        return Ok(records);
    }
    pages::for_each(
        async |page| audit.list_audit(query.clone().with_page(page)).await,
        |record| {
            records.push(record);
            remaining -= 1;
            Ok(remaining > 0)
        },
    )
    .await?;
    Ok(records)
}

fn print(records: &[AuditRecord], out: &mut Output) -> Result<()> {
    let row = |(id, record): (String, &AuditRecord)| {
        vec![
            id,
            text::format_time(record.time),
            record.actor.to_string(),
            record.action.name().to_owned(),
            record.resource.to_string(),
        ]
    };
    let rows: Vec<_> = short_ids(records).into_iter().zip(records).map(row).collect();
    out.print_list_of_names(&["record", "time", "actor", "action", "resource"], &rows)
}

fn print_with_difference(record: &AuditRecord, out: &mut Output) -> Result<()> {
    out.print_line(out.style(record_line(record)).bold())?;
    json_text::print_difference(record.before.as_ref(), record.after.as_ref(), out)
}

/// Prints the records that a query finds, and then new ones.
async fn follow(query: AuditQuery, diff: bool, session: &Session, out: &mut Output) -> Result<Ending> {
    let mut records = session.audit()?.subscribe_audit(query).await?;
    while let Some(record) = poll_fn(|context| records.as_mut().poll_next(context)).await {
        let record = record?;
        if out.is_json() {
            out.print_document(&RecordDocument::from(&record))?;
        } else if diff {
            print_with_difference(&record, out)?;
        } else {
            out.print_line(record_line(&record))?;
        }
        out.flush()?;
    }
    Ok(Ending::Success)
}
