//! `step`: walks along a path, and shows what each entry changes in the context.

mod walk;

use std::{io::IsTerminal, sync::Arc};

use agentstore::{
    BlockKind, Body, Context, ContextCache, ContextMessage, ContextRequest, Entry, EntryId, EntryQuery, IdSource,
    ThreadCopy, ThreadId, UuidSource, copy_thread,
};
use serde::Serialize;

use super::Ending;
use crate::{
    context_diff::{ContextDiff, message_line},
    entry_ref::EntryRef,
    failure::{Failure, Result},
    output::Output,
    pages,
    session::{Access, Session},
    text::{self, terminal_safe, with_noun},
};

/// How many bytes of contexts are kept while a path is walked. Each context is made from the one before it.
const KEPT_BYTES: usize = 64 << 20;

/// Walk along a path from its root: each entry, what it changes in the context, and what failed
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore step t-42\n  agentstore step t-42 --at @16 --context\n  \
    agentstore step t-42 --json | jq 'select(.failed)'\n  agentstore step t-42 --at @16 --fork t-43\n\n\
    In a terminal the command waits after each step: Enter goes on, and `e` goes on to the next entry that failed (a \
    failed tool result, a message that stopped with an error, or an error that an application recorded). Without a \
    terminal it prints all steps. With --json each step is a document on a line of its own.\n\n\
    With --fork it does not walk. It makes a new thread with a copy of the path, to go on from there; the old thread \
    is not changed.\n\n\
    Exit codes: 0 shown or copied, even if something failed in the thread, 1 the thread cannot be read or copied, 2 \
    invalid command line.")]
pub(crate) struct Args {
    /// The id of the thread
    thread: ThreadId,
    /// The last entry of the path, instead of the head: its id, or `@N` as `agentstore tree` prints it
    #[arg(long, value_name = "ENTRY")]
    at: Option<EntryRef>,
    /// Print the whole context of each step, not only what changed
    #[arg(long)]
    context: bool,
    /// Make a new thread with a copy of the path; it gets this id, or a new one if none is given
    #[arg(long, value_name = "ID", num_args = 0..=1, conflicts_with = "context")]
    fork: Option<Option<ThreadId>>,
}

impl Args {
    pub(crate) const fn access(&self) -> Access {
        if self.fork.is_some() { Access::Write } else { Access::Read }
    }
}

/// A step: an entry of the path, and what it changes in the context.
#[derive(Serialize)]
struct StepDocument<'a> {
    step: usize,
    of: usize,
    entry: &'a Entry,
    #[serde(skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
    context_messages: usize,
    removed: Vec<&'a ContextMessage>,
    added: Vec<&'a ContextMessage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a [ContextMessage]>,
}

/// A path. Its contexts are computed when they are needed.
struct Path {
    thread: ThreadId,
    entries: Vec<Arc<Entry>>,
    contexts: ContextCache,
}

impl Path {
    async fn load(session: &Session, thread: &ThreadId, leaf: Option<EntryId>) -> Result<Self> {
        let threads = session.threads()?;
        let entries = match leaf {
            Some(leaf) => {
                let query = EntryQuery::path_of(leaf);
                pages::load_all(async |page| threads.list_entries(thread, query.clone().with_page(page)).await).await?
            }
            None => Vec::new(),
        };
        Ok(Self { thread: thread.clone(), entries, contexts: ContextCache::new(threads, KEPT_BYTES) })
    }

    /// Returns the context after a step. `None` stands for the time before the first step, when the context is empty.
    async fn context_after(&self, step: Option<usize>) -> Result<Arc<Context>> {
        let Some(entry) = step.and_then(|step| self.entries.get(step)) else { return Ok(Arc::default()) };
        let request = ContextRequest::at(entry.id.clone());
        Ok(self.contexts.load(&self.thread, &request).await?.context)
    }
}

pub(crate) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    let thread = session.require_thread(&args.thread).await?;
    let leaf = match &args.at {
        Some(at) => Some(at.resolve(session, &args.thread).await?),
        None => thread.head,
    };
    if let Some(copy_id) = args.fork {
        return fork(&args.thread, leaf, copy_id, session, out).await;
    }
    let path = Path::load(session, &args.thread, leaf).await?;
    if path.entries.is_empty() && !out.is_json() {
        out.print_line("nothing to show: the path has no entries")?;
    } else if out.is_terminal() && std::io::stdin().is_terminal() {
        walk::run(&path, args.context, out).await?;
    } else {
        print_all_steps(&path, args.context, out).await?;
    }
    Ok(Ending::Success)
}

/// Makes a new thread with a copy of the path.
async fn fork(
    thread: &ThreadId,
    leaf: Option<EntryId>,
    copy_id: Option<ThreadId>,
    session: &Session,
    out: &mut Output,
) -> Result<Ending> {
    let leaf = leaf.ok_or_else(|| {
        Failure::Usage(format!("thread `{thread}` has no head to go on from: name an entry with `--at`"))
    })?;
    let copy_id = copy_id.map_or_else(|| ThreadId::new(UuidSource.next_id()), Ok)?;
    let ThreadCopy { thread, head, entries, .. } = copy_thread(&*session.commits()?, thread, &leaf, copy_id).await?;
    if out.is_json() {
        out.print_document(&serde_json::json!({ "thread": thread, "head": head, "entries": entries }))?;
    } else {
        let (copied, head) = (with_noun(entries, "entry"), terminal_safe(head.as_str()));
        let thread = terminal_safe(thread.as_str());
        out.print_line(format!("thread {} has a copy of {copied}, head {head}", out.style(thread).green()))?;
    }
    Ok(Ending::Success)
}

/// Prints all steps.
async fn print_all_steps(path: &Path, with_context: bool, out: &mut Output) -> Result<()> {
    out.start_pager()?;
    let mut context_before = path.context_after(None).await?;
    for step in 0..path.entries.len() {
        let context_after = path.context_after(Some(step)).await?;
        print_step(path, step, (&context_before, &context_after), with_context, out)?;
        context_before = context_after;
    }
    Ok(())
}

/// Prints a step, with the contexts before and after it.
fn print_step(
    path: &Path,
    step: usize,
    (context_before, context_after): (&Context, &Context),
    with_context: bool,
    out: &mut Output,
) -> Result<()> {
    let Some(entry) = path.entries.get(step) else { return Ok(()) };
    let (diff, failure_reason) = (ContextDiff::of(context_before, context_after), failure_of(entry));
    if out.is_json() {
        return out.print_document(&StepDocument {
            step: step + 1,
            of: path.entries.len(),
            entry,
            failed: failure_reason,
            context_messages: context_after.messages.len(),
            removed: diff.only_first(),
            added: diff.only_second(),
            context: with_context.then_some(&context_after.messages),
        });
    }
    print_entry(path, step, entry, failure_reason, out)?;
    let size = with_noun(context_after.messages.len() as u64, "message");
    if diff.is_same() {
        out.print_line(out.style(format!("  the context has {size}, as before")).dim())?;
    } else {
        out.print_line(out.style(format!("  the context has {size}:")).dim())?;
        let prints_all = false;
        diff.print(prints_all, out)?;
    }
    if with_context {
        print_context(context_after, out)?;
    }
    out.print_line("")
}

fn print_entry(
    path: &Path,
    step: usize,
    entry: &Entry,
    failure_reason: Option<String>,
    out: &mut Output,
) -> Result<()> {
    let kind = text::role_or_kind(entry);
    let place = format!("step {} of {}  @{} ", step + 1, path.entries.len(), entry.seq);
    let note = terminal_safe(&format!("{} {}", entry.id, text::format_time(entry.timestamp)));
    out.print_line(format!("{place}{}  {}", out.style(kind).bold(), out.style(note).dim()))?;
    if let Some(reason) = failure_reason {
        let reason = text::one_line(&reason, out.width().saturating_sub(10));
        out.print_line(format!("  {} {reason}", out.style("failed:").red().bold()))?;
    }
    if entry.message().is_none() {
        let content = text::one_line(&text::content_text(entry), out.width().saturating_sub(2));
        if !content.is_empty() {
            out.print_line(format!("  {content}"))?;
        }
    }
    Ok(())
}

fn print_context(context: &Context, out: &mut Output) -> Result<()> {
    out.print_line(out.style("  the whole context:").dim())?;
    for message in &context.messages {
        out.print_line(message_line(" ", message, out))?;
    }
    Ok(())
}

/// Returns what failed according to an entry: the result of a call, a message that stopped with an error, or an error
/// that an application recorded.
fn failure_of(entry: &Entry) -> Option<String> {
    let message = match &*entry.body {
        Body::Message(message) => message,
        Body::Custom(custom) if custom.kind == "error" || custom.kind.ends_with(".error") => {
            return Some(format!("{} {}", custom.kind, custom.data.as_str()));
        }
        _ => return None,
    };
    let failed_results = message.blocks.iter().filter_map(|block| match &block.kind {
        BlockKind::ToolResult(result) if result.is_error == Some(true) => Some(result.tool_use_id.as_str()),
        _ => None,
    });
    let failed_results: Vec<_> = failed_results.collect();
    if !failed_results.is_empty() {
        return Some(format!("the result of call {}", failed_results.join(", ")));
    }
    let stop = message.stop.as_deref()?;
    matches!(stop, "error" | "aborted").then(|| format!("the message stopped with `{stop}`"))
}

#[cfg(test)]
mod tests {
    use agentstore::{Block, BlockKind, Body, NewBody, Role};
    use agentstore::{
        Commit, Custom, Entry, EntryQuery, Expect, Json, Message, NewEntry, TenantId, ThreadId, ToolResult,
    };

    use super::failure_of;

    /// Stores a body and returns its entry.
    async fn store_and_load(body: impl Into<NewBody>) -> std::sync::Arc<Entry> {
        let commits = agentstore::open("memory:").await.unwrap().commits(&TenantId::default_tenant()).unwrap();
        let thread = ThreadId::new("t").unwrap();
        let first = Commit::new(thread.clone()).expecting(Expect::Absent).entry(NewEntry::new(body));
        let _receipt = commits.commit(first).await.unwrap();
        commits.threads().list_entries(&thread, EntryQuery::all()).await.unwrap().items.remove(0)
    }

    fn tool_result(is_error: Option<bool>) -> Message {
        let mut result = ToolResult::new("c-1", vec![Block::text("no such file")]);
        result.is_error = is_error;
        Message::new(Role::Tool, vec![Block::new(BlockKind::ToolResult(result))])
    }

    #[tokio::test]
    async fn failed_results_and_errors_are_found() {
        let mut stopped = Message::assistant("half");
        stopped.stop = Some("error".to_owned());
        let mut complete = Message::assistant("all");
        complete.stop = Some("end_turn".to_owned());
        let custom = |kind: &str| NewBody::from(Custom::new(kind, Json::parse("{\"code\":7}").unwrap()));
        for (body, expected) in [
            (NewBody::from(tool_result(Some(true))), Some("the result of call c-1")),
            (NewBody::from(tool_result(Some(false))), None),
            (NewBody::from(tool_result(None)), None),
            (NewBody::from(stopped), Some("the message stopped with `error`")),
            (NewBody::from(complete), None),
            (custom("tool.error"), Some("tool.error {\"code\":7}")),
            (custom("terror"), None),
        ] {
            let entry = store_and_load(body).await;
            assert_eq!(failure_of(&entry).as_deref(), expected, "{:?}", Body::clone(&entry.body));
        }
    }
}
