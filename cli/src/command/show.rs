//! `show`: prints a thread and all of its entries.

use agentstore::{Entry, EntryQuery, Thread, ThreadId};
use serde::Serialize;

use super::Ending;
use crate::{
    failure::Result,
    output::Output,
    pages,
    session::Session,
    text::{self, terminal_safe, with_noun},
};

/// Show a thread and all of its entries, in the order in which they were committed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore show t-42\n  \
    agentstore show t-42 --json | jq 'select(.body.message.role == \"user\")'\n\n\
    With --json the first line is {\"thread\":…}, and each line after it is an entry.")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
}

/// The first line of the JSON output.
#[derive(Serialize)]
struct ThreadLine<'a> {
    thread: &'a Thread,
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let thread = session.require_thread(&args.thread).await?;
    out.start_pager()?;
    if out.is_json() {
        out.print_document(&ThreadLine { thread: &thread })?;
    } else {
        print_thread(&thread, session, out)?;
    }
    let threads = session.threads()?;
    pages::for_each(
        async |page| threads.list_entries(&args.thread, EntryQuery::all().with_page(page)).await,
        |entry| {
            if out.is_json() {
                out.print_document(&*entry)?
            } else {
                print_entry(&entry, out)?
            }
            Ok(true)
        },
    )
    .await?;
    Ok(Ending::Success)
}

fn print_thread(thread: &Thread, session: &Session, out: &mut Output) -> Result<()> {
    let mut rows = vec![("thread", thread.id.to_string())];
    let mut add_row = |name, value: Option<String>| rows.extend(value.map(|value| (name, value)));
    add_row("title", thread.title.clone());
    add_row("resource", thread.resource_id.as_ref().map(ToString::to_string));
    add_row("parent", thread.parent_thread_id.as_ref().map(ToString::to_string));
    add_row(
        "version",
        Some(format!("{}, with {}", thread.version.number(), with_noun(u64::from(thread.leaves), "leaf"))),
    );
    add_row("head", Some(thread.head.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)));
    add_row("created", Some(text::format_time(thread.created_at)));
    add_row("active", Some(text::format_time(thread.updated_at)));
    add_row("tokens", Some(text::format_tokens(&thread.usage)));
    add_row("last run", thread.latest_run.as_ref().map(ToString::to_string));
    let open_runs: Vec<_> = thread.open_runs.iter().map(ToString::to_string).collect();
    add_row("open runs", (!open_runs.is_empty()).then(|| open_runs.join(", ")));
    for (name, value) in &thread.metadata {
        add_row("metadata", Some(format!("{name} = {}", value.as_str())));
    }
    add_row("log file", session.log_file(&thread.id)?.map(|path| path.display().to_string()));
    for (name, value) in rows {
        out.print_line(format!("{} {}", out.style(format!("{name:<9}")).dim(), terminal_safe(&value)))?;
    }
    Ok(())
}

fn print_entry(entry: &Entry, out: &mut Output) -> Result<()> {
    let side_entry = if entry.side { " (side entry)" } else { "" };
    let below = entry.parent.as_ref().map_or_else(String::new, |parent| format!(" below {parent}"));
    let note = format!("{}{} {}{side_entry}", entry.id, below, text::format_time(entry.timestamp));
    out.print_line("")?;
    out.print_line(format!(
        "@{} {}  {}",
        entry.seq,
        out.style(text::role_or_kind(entry)).bold(),
        out.style(terminal_safe(&note)).dim()
    ))?;
    for line in terminal_safe(&text::content_text(entry)).lines() {
        out.print_line(format!("  {line}"))?;
    }
    Ok(())
}
