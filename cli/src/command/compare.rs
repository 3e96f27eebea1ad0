//! `compare`: what two contexts have in common, and what only one of them has.

use agentstore::{ContextMessage, ContextRequest, EntryId, LogReaderExt, ThreadContext, ThreadId};
use serde::Serialize;

use super::Ending;
use crate::{
    context_diff::{ContextDiff, message_line},
    entry_ref::PointRef,
    failure::Result,
    output::Output,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Compare the contexts of two threads, leaves or entries: what both have, and what only one of them has
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore compare t-42@16 t-42@23\n  agentstore compare t-42@16 @23\n  \
    agentstore compare t-42 t-43 --json\n\n\
    Two messages are the same if a model gets the same of them, whatever entries they come from. A message that both \
    have between two differences is listed for both. `~` marks messages \
    that are not in the log: summaries, and results that were added for calls without one.")]
pub(crate) struct Args {
    /// The first context: a thread, which means its head, or an entry of it as `THREAD@ENTRY`
    a: PointRef,
    /// The second context; `@N` is an entry of the first one's thread
    b: PointRef,
}

/// One of the two contexts.
#[derive(Serialize)]
struct Point<'a> {
    thread: &'a ThreadId,
    at: Option<&'a EntryId>,
    messages: usize,
}

#[derive(Serialize)]
struct Comparison<'a> {
    a: Point<'a>,
    b: Point<'a>,
    /// The last entry that both paths have, if both are of one thread.
    shared_entry: Option<EntryId>,
    both_begin_with: &'a [ContextMessage],
    only_a: &'a [ContextMessage],
    only_b: &'a [ContextMessage],
    both_end_with: &'a [ContextMessage],
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let (thread, at) = args.a.resolve(session, None).await?;
    let first = load(session, &thread, at).await?;
    let (thread, at) = args.b.resolve(session, Some(&thread)).await?;
    let second = load(session, &thread, at).await?;
    let shared_entry = shared_entry(session, &first, &second).await?;
    let diff = ContextDiff::of(&first.context, &second.context);
    let comparison = Comparison {
        a: point(&first),
        b: point(&second),
        shared_entry,
        both_begin_with: diff.start,
        only_a: diff.only_first,
        only_b: diff.only_second,
        both_end_with: diff.end,
    };
    if out.is_json() {
        out.print_document(&comparison)?;
    } else {
        out.start_pager()?;
        print(&comparison, out)?;
    }
    Ok(Ending::Success)
}

async fn load(session: &Session, thread: &ThreadId, at: Option<EntryId>) -> Result<ThreadContext> {
    let request = at.map_or_else(ContextRequest::head, ContextRequest::at);
    Ok(session.threads()?.load_context(thread, request).await?)
}

const fn point(found: &ThreadContext) -> Point<'_> {
    Point { thread: &found.thread.id, at: found.at.as_ref(), messages: found.context.messages.len() }
}

/// Returns the last entry that the paths of both contexts have (CX-16).
async fn shared_entry(session: &Session, first: &ThreadContext, second: &ThreadContext) -> Result<Option<EntryId>> {
    let (Some(a), Some(b)) = (&first.at, &second.at) else { return Ok(None) };
    if first.thread.id != second.thread.id {
        return Ok(None);
    }
    let compared = session.threads()?.compare_leaves(&first.thread.id, a, b).await?;
    Ok(compared.shared.map(|entry| entry.id.clone()))
}

fn print(comparison: &Comparison<'_>, out: &mut Output) -> Result<()> {
    let Comparison { a, b, shared_entry, both_begin_with, only_a, only_b, both_end_with } = comparison;
    print_point("a", a, out)?;
    print_point("b", b, out)?;
    if let Some(entry) = shared_entry {
        out.print_line(format!("last common entry  {}", terminal_safe(entry.as_str())))?;
    }
    print_messages("both begin with", " ", both_begin_with, out)?;
    print_messages("only a has", "-", only_a, out)?;
    print_messages("only b has", "+", only_b, out)?;
    print_messages("both end with", " ", both_end_with, out)?;
    if only_a.is_empty() && only_b.is_empty() {
        out.print_line(out.style("the contexts are the same").green())?;
    }
    Ok(())
}

fn print_point(name: &str, point: &Point<'_>, out: &mut Output) -> Result<()> {
    let at = point.at.map_or_else(|| "no entry".to_owned(), |at| format!("entry {at}"));
    let place = terminal_safe(&format!("thread {}, {at}", point.thread));
    out.print_line(format!("{}  {place}, {}", out.style(name).bold(), with_noun(point.messages as u64, "message")))
}

fn print_messages(what: &str, mark: &str, messages: &[ContextMessage], out: &mut Output) -> Result<()> {
    if messages.is_empty() {
        return Ok(());
    }
    let heading = format!("{what} {}", with_noun(messages.len() as u64, "message"));
    out.print_line("")?;
    out.print_line(out.style(heading).bold())?;
    for message in messages {
        out.print_line(message_line(mark, message, out))?;
    }
    Ok(())
}
