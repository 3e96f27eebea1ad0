//! `compare`: lists the messages that two contexts have in common, and those that only one of them has.

use agentstore::{ContextMessage, ContextRequest, EntryId, LogReaderExt, ThreadContext, ThreadId};
use serde::Serialize;

use super::Ending;
use crate::{
    context_diff::{ContextDiff, DiffPart},
    entry_ref::PointRef,
    failure::Result,
    output::Output,
    session::Session,
    text::{terminal_safe, with_noun},
};

/// Compare the contexts of two threads, leaves or entries: the messages that both have, and those that only one has
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore compare t-42@16 t-42@23\n  agentstore compare t-42@16 @23\n  \
    agentstore compare t-42 t-43 --json\n\n\
    `-` marks messages that only A has, `+` those that only B has, and `~` those that are not in the log: summaries, \
    and results that were added for calls without a result. Two messages are the same if they look the same to a model, \
    even if they come from different entries. Several messages in a row that both have are folded.\n\n\
    With --json, `parts` lists all messages in order, each part with `in`: both, a or b.\n\n\
    Exit codes: 0 compared, even if there are differences, 1 a context cannot be read, 2 invalid command line.")]
pub(crate) struct Args {
    /// The first context: `THREAD` for the head of a thread, or `THREAD@ENTRY` for one of its entries
    a: PointRef,
    /// The second context; `@N` is an entry of the first one's thread
    b: PointRef,
    /// Also print the messages that are the same
    #[arg(long)]
    all: bool,
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
    /// The last entry that is on the paths of both contexts, if they are contexts of one thread.
    shared_entry: Option<EntryId>,
    parts: Vec<Part<'a>>,
}

/// Consecutive messages of one or both contexts.
#[derive(Serialize)]
struct Part<'a> {
    r#in: &'static str,
    messages: &'a [ContextMessage],
}

impl<'a> From<&DiffPart<'a>> for Part<'a> {
    fn from(part: &DiffPart<'a>) -> Self {
        let (r#in, messages) = match *part {
            DiffPart::Both(messages) => ("both", messages),
            DiffPart::First(messages) => ("a", messages),
            DiffPart::Second(messages) => ("b", messages),
        };
        Self { r#in, messages }
    }
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
        parts: diff.parts().iter().map(Part::from).collect(),
    };
    if out.is_json() {
        out.print_document(&comparison)?;
    } else {
        out.start_pager()?;
        print(&comparison, &diff, args.all, out)?;
    }
    Ok(Ending::Success)
}

async fn load(session: &Session, thread: &ThreadId, at: Option<EntryId>) -> Result<ThreadContext> {
    let request = at.map_or_else(ContextRequest::head, ContextRequest::at);
    Ok(session.threads()?.load_context(thread, request).await?)
}

const fn point(thread_context: &ThreadContext) -> Point<'_> {
    Point {
        thread: &thread_context.thread.id,
        at: thread_context.at.as_ref(),
        messages: thread_context.context.messages.len(),
    }
}

/// Returns the last entry that is on the paths of both contexts, if they are contexts of one thread (CX-16).
async fn shared_entry(session: &Session, first: &ThreadContext, second: &ThreadContext) -> Result<Option<EntryId>> {
    let (Some(a), Some(b)) = (&first.at, &second.at) else { return Ok(None) };
    if first.thread.id != second.thread.id {
        return Ok(None);
    }
    let compared = session.threads()?.compare_leaves(&first.thread.id, a, b).await?;
    Ok(compared.shared.map(|entry| entry.id.clone()))
}

fn print(comparison: &Comparison<'_>, diff: &ContextDiff<'_>, all: bool, out: &mut Output) -> Result<()> {
    print_point("a", &comparison.a, out)?;
    print_point("b", &comparison.b, out)?;
    if let Some(entry) = &comparison.shared_entry {
        out.print_line(format!("last common entry  {}", terminal_safe(entry.as_str())))?;
    }
    out.print_line("")?;
    if diff.is_same() {
        out.print_line(out.style("the contexts are the same").green())?;
    }
    if all || !diff.is_same() { diff.print(all, out) } else { Ok(()) }
}

fn print_point(name: &str, point: &Point<'_>, out: &mut Output) -> Result<()> {
    let at = point.at.map_or_else(|| "no entry".to_owned(), |at| format!("entry {at}"));
    let place = terminal_safe(&format!("thread {}, {at}", point.thread));
    out.print_line(format!("{}  {place}, {}", out.style(name).bold(), with_noun(point.messages as u64, "message")))
}
