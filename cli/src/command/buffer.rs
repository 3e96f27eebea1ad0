//! `buffer`: what a write buffer in front of a store holds, and applying it.

use agentstore::{OpenOptions, ThreadId, WriteBuffer};
use clap::Subcommand;
use serde_json::json;

use super::Ending;
use crate::{
    args::GlobalArgs,
    failure::{Failure, Result},
    output::Output,
    text::terminal_safe,
};

/// Show what a write buffer holds, apply it to the store, or detach the buffer
#[derive(Debug, clap::Args)]
#[command(after_help = "The store is named with --store, and the servers with its buffer with --buffer.\n\n\
    Examples:\n  \
    agentstore buffer status --store postgres://db/work --buffer nats://queue\n  \
    agentstore buffer flush --store postgres://db/work --buffer nats://queue\n  \
    agentstore buffer detach --store postgres://db/work --buffer nats://queue")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show how much waits to be applied, and why it could not be applied
    #[command(after_help = "Example:\n  agentstore buffer status --store postgres://db/work --buffer nats://queue")]
    Status,
    /// Apply what is acknowledged, of one thread or of all, and return when the store has it
    #[command(after_help = "Example:\n  agentstore buffer flush t-1 --store postgres://db/work --buffer nats://queue")]
    Flush {
        /// The thread; without it, everything of every tenant is applied
        thread: Option<ThreadId>,
    },
    /// Apply everything and detach the buffer: from then on the store is used without it
    ///
    /// No other process may have the buffer open.
    #[command(after_help = "Example:\n  agentstore buffer detach --store postgres://db/work --buffer nats://queue")]
    Detach,
}

pub(crate) async fn run(args: Args, global: &GlobalArgs, out: &mut Output) -> Result<Ending> {
    let urls = global.part_urls();
    let Some(servers) = &urls.buffer else {
        return Err(Failure::Usage("name the servers with the buffer: `--buffer nats://…`".to_owned()));
    };
    let buffer = OpenOptions::new().open_buffered_url(&urls.store, servers).await?;
    match args.action {
        Action::Status => status(&buffer, out).await,
        Action::Flush { thread } => flush(&buffer, thread.as_ref(), global, out).await,
        Action::Detach => detach(buffer, out).await,
    }
}

async fn status(buffer: &WriteBuffer, out: &mut Output) -> Result<Ending> {
    let status = buffer.status().await?;
    if out.is_json() {
        out.print_document(&status)?;
        return Ok(Ending::Success);
    }
    out.print_line(format!("buffer   {}", terminal_safe(&status.buffer)))?;
    out.print_line(format!("waiting  {} writes, {} bytes", status.waiting, status.waiting_bytes))?;
    out.print_line(format!("applied  {} of {} messages", status.applied, status.end))?;
    if let Some(error) = &status.last_error {
        out.print_line(format!("error    {}", terminal_safe(error)))?;
    }
    Ok(Ending::Success)
}

async fn flush(
    buffer: &WriteBuffer,
    thread: Option<&ThreadId>,
    global: &GlobalArgs,
    out: &mut Output,
) -> Result<Ending> {
    match thread {
        Some(thread) => buffer.flush(&global.tenant, thread).await?,
        None => buffer.drain().await?,
    }
    if out.is_json() {
        out.print_document(&json!({ "flushed": thread }))?;
        return Ok(Ending::Success);
    }
    out.print_line(match thread {
        Some(thread) => format!("the store has everything of thread {}", terminal_safe(thread.as_str())),
        None => "the store has everything that was acknowledged".to_owned(),
    })?;
    Ok(Ending::Success)
}

async fn detach(buffer: WriteBuffer, out: &mut Output) -> Result<Ending> {
    let _inner = buffer.detach().await?;
    if out.is_json() {
        out.print_document(&json!({ "detached": true }))?;
    } else {
        out.print_line("the store has everything; the buffer is detached")?;
    }
    Ok(Ending::Success)
}
