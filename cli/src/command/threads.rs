//! `threads`: lists the threads of a tenant.

use std::{borrow::Cow, path::Path};

use agentstore::{ParentFilter, ResourceId, Thread, ThreadFilter, ThreadId, ThreadOrder, ThreadQuery};
use serde::Serialize;

use super::Ending;
use crate::{
    failure::Result,
    json_merge::merge_objects,
    output::{JsonList, Output},
    pages,
    session::Session,
    text,
};

/// List the threads of the tenant, the most recently active first
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore threads --limit 10\n  \
    agentstore threads --json | jq -r '.threads[] | [.id, .version] | @tsv'\n\n\
    Ids are printed in full; a title is cut where it does not fit. For a `file:` store, --json and `agentstore show` \
    name the log file of each thread.\n\n\
    Exit codes: 0 listed, 1 the threads cannot be read, 2 invalid command line.")]
pub(crate) struct Args {
    /// The greatest number of threads to list; all if not given
    #[arg(long, value_name = "N", default_value_t = u64::MAX, hide_default_value = true)]
    limit: u64,
    /// Order the threads by creation, the newest first
    #[arg(long)]
    by_creation: bool,
    /// Only threads of this resource
    #[arg(long, value_name = "ID")]
    resource: Option<ResourceId>,
    /// Only direct child threads of this thread
    #[arg(long, value_name = "THREAD")]
    parent: Option<ThreadId>,
    /// Only threads with open runs, which are runs that have not ended
    #[arg(long)]
    open_runs: bool,
}

/// The fields that the list adds to the JSON document of a thread.
#[derive(Serialize)]
struct ExtraFields<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    log_file: Option<Cow<'a, str>>,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let header = session.header();
    let json = out.is_json();
    if json {
        let mut list = JsonList::begin(out, &header, "threads")?;
        for_each_thread(args, session, |thread| {
            let log_path = session.log_file(&thread.id)?;
            list.item(&merge_objects(
                &thread,
                &ExtraFields { log_file: log_path.as_deref().map(Path::to_string_lossy) },
            )?)
        })
        .await?;
        list.end()?;
        return Ok(Ending::Success);
    }
    let mut threads = Vec::new();
    for_each_thread(args, session, |thread| {
        threads.push(thread);
        Ok(())
    })
    .await?;
    out.print_line(out.style(header.line()).dim())?;
    if threads.is_empty() {
        out.print_line("no threads")?;
        return Ok(Ending::Success);
    }
    print(&threads, out)?;
    Ok(Ending::Success)
}

async fn for_each_thread(args: Args, session: &Session, mut visit: impl FnMut(Thread) -> Result<()>) -> Result<()> {
    let threads = session.threads()?;
    let query = query(&args);
    let mut remaining = args.limit;
    if remaining == 0 {
        return Ok(());
    }
    pages::for_each(
        async |page| threads.list_threads(query.clone().with_page(page)).await,
        |thread| {
            visit(thread)?;
            remaining -= 1;
            Ok(remaining > 0)
        },
    )
    .await
}

fn query(args: &Args) -> ThreadQuery {
    let mut filter = ThreadFilter::default();
    filter.resource_id.clone_from(&args.resource);
    filter.parent = args.parent.clone().map(ParentFilter::Of);
    filter.has_open_runs = args.open_runs.then_some(true);
    let mut query = ThreadQuery::new(filter);
    if args.by_creation {
        query.order = ThreadOrder::Creation;
    }
    query
}

fn print(threads: &[Thread], out: &mut Output) -> Result<()> {
    let row = |thread: &Thread| {
        let open_run_count = thread.open_runs.len();
        vec![
            thread.id.to_string(),
            thread.version.number().to_string(),
            text::format_minute(thread.updated_at),
            if open_run_count == 0 { String::new() } else { format!("{open_run_count} open") },
            thread.title.clone().unwrap_or_default(),
        ]
    };
    let rows: Vec<_> = threads.iter().map(row).collect();
    out.print_list(&["thread", "version", "last activity", "runs", "title"], &rows)
}
