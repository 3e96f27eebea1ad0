//! `pending list`: lists the queue of a thread, or the threads that have pending input.

use agentstore::{PendingBody, PendingInput, PendingQueue, ThreadId};
use serde_json::json;

use super::Ending;
use crate::{
    failure::Result,
    json_merge::merge_objects,
    output::{JsonList, Output},
    pages,
    session::Session,
    text::{self, terminal_safe},
};

/// List the pending input of a thread in the order of the queue, or the threads that have pending input
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  agentstore pending list\n  agentstore pending list t-42 --json | jq .inputs")]
pub(super) struct Args {
    /// The id of the thread; lists the threads that have pending input if not given
    thread: Option<ThreadId>,
}

pub(super) async fn run(args: Args, session: &Session, out: &mut Output) -> Result<Ending> {
    match args.thread {
        Some(thread) => {
            let queue = session.pending()?.load_queue(&thread).await?;
            print(&thread, &queue, out)?;
        }
        None => print_threads(session, out).await?,
    }
    Ok(Ending::Success)
}

async fn print_threads(session: &Session, out: &mut Output) -> Result<()> {
    let pending = session.pending()?;
    let threads = pages::load_all(async |page| pending.list_threads_with_pending(page).await).await?;
    if out.is_json() {
        let mut list = JsonList::begin(out, &json!({}), "threads")?;
        threads.iter().try_for_each(|thread| list.item(thread))?;
        return list.end();
    }
    if threads.is_empty() {
        return out.print_line("no thread has pending input");
    }
    threads.iter().try_for_each(|thread| out.print_line(terminal_safe(thread.as_str())))
}

fn print(thread: &ThreadId, queue: &PendingQueue, out: &mut Output) -> Result<()> {
    if out.is_json() {
        return out.print_document(&merge_objects(&json!({ "thread": thread }), queue)?);
    }
    if queue.inputs.is_empty() {
        return out.print_line(format!("thread {} has no pending input", terminal_safe(thread.as_str())));
    }
    let mut table = out.table(&["input", "position", "revision", "delivery", "content"]);
    for input in &queue.inputs {
        table.add_row([
            text::one_line(input.id.as_str(), out.id_width()),
            input.position.unwrap_or_default().to_string(),
            input.revision.to_string(),
            delivery_text(input),
            text::one_line(&content_text(input), 60),
        ]);
    }
    out.print_table(table)?;
    out.print_line(out.style(format!("the queue has revision {}", queue.revision)).dim())
}

/// Describes in a few words when an input may be consumed, and by which run.
fn delivery_text(input: &PendingInput) -> String {
    let delivery = &input.delivery;
    let mut words = delivery.boundary.name().to_owned();
    if delivery.granularity == agentstore::Granularity::One {
        words.push_str(", alone");
    }
    if delivery.barrier {
        words.push_str(", barrier");
    }
    if let Some(target) = &delivery.target {
        words.push_str(&format!(
            ", {} {}",
            if target.fallback { "for" } else { "only for" },
            terminal_safe(target.run.as_str())
        ));
    }
    words
}

fn content_text(input: &PendingInput) -> String {
    match &input.body {
        PendingBody::Message(message) => text::message_text(message),
        PendingBody::Decision(decision) => {
            format!("{} ticket {} of run {}", decision.action, decision.ticket, decision.run)
        }
    }
}
