//! `buffer`: what a write buffer in front of a store holds, and applying it.

use agentstore::{Create, Error, OpenOptions, StoreUrl, Stores, ThreadId, WriteBuffer, attached_buffer};
use clap::Subcommand;
use serde_json::json;

use super::Ending;
use crate::{
    args::GlobalArgs,
    failure::{Failure, Result, is_missing_store},
    json_merge::merge_objects,
    output::Output,
    prompt,
    text::{format_duration, format_time, terminal_safe, with_noun},
};

/// Show what a write buffer holds, apply it to the store, or detach the buffer
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The store is named with --store, and the servers with its buffer with --buffer, or both with one URL: \
    --store 'nats+postgres://db/work?buffer=nats://queue'.\n\n\
    Examples:\n  \
    agentstore buffer status --store postgres://db/work --buffer nats://queue\n  \
    agentstore buffer flush --store postgres://db/work --buffer nats://queue\n  \
    agentstore buffer quarantine list --store postgres://db/work --buffer nats://queue\n  \
    agentstore buffer detach --store postgres://db/work --buffer nats://queue"
)]
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
    /// Look at acknowledged writes that the store refused, and retry or discard them
    ///
    /// A thread with such a write accepts no writes until the write is retried or discarded. Other threads go on.
    Quarantine {
        #[command(subcommand)]
        action: Quarantine,
    },
    /// Apply everything and detach the buffer: from then on the store is used without it
    ///
    /// No other process may have the buffer open.
    #[command(after_help = "Example:\n  agentstore buffer detach --store postgres://db/work --buffer nats://queue")]
    Detach,
}

#[derive(Debug, Subcommand)]
enum Quarantine {
    /// List the writes in quarantine, with the reason of each
    #[command(after_help = "Example:\n  agentstore buffer quarantine list --json | jq '.writes[].reason'")]
    List,
    /// Print the records that a write changes, as JSON; they contain the data of users
    #[command(after_help = "Example:\n  agentstore buffer quarantine show 17 | jq .delta")]
    Show {
        /// The number of the write
        sequence: u64,
    },
    /// Apply writes again, in this order, after the cause of their refusal was mended
    #[command(after_help = "Example:\n  agentstore buffer quarantine retry 17 18\n  \
        agentstore buffer quarantine retry --all")]
    Retry {
        /// The numbers of the writes; a write that another one relies on comes first
        #[arg(required_unless_present = "all")]
        sequences: Vec<u64>,
        /// Retry everything in quarantine, in its order
        #[arg(long, conflicts_with = "sequences")]
        all: bool,
    },
    /// Give up writes that were acknowledged: they are lost, and their threads accept writes again
    ///
    /// Writes that rely on one of them must be named, too.
    #[command(after_help = "Example:\n  agentstore buffer quarantine discard 17 18 --yes")]
    Discard {
        /// The numbers of the writes
        #[arg(required = true)]
        sequences: Vec<u64>,
        /// Do not ask for confirmation
        #[arg(long, short)]
        yes: bool,
    },
}

pub(crate) async fn run(args: Args, global: &GlobalArgs, out: &mut Output) -> Result<Ending> {
    let url = global.store_url();
    if !matches!(url, StoreUrl::Buffered { .. }) {
        let text =
            "name the servers with the buffer: `--buffer nats://…`, or `--store nats+postgres://…?buffer=nats://…`";
        return Err(Failure::Usage(text.to_owned()));
    }
    if matches!(args.action, Action::Status) && attached_buffer(&url).await?.is_none() {
        return print_detached(out);
    }
    let stores = OpenOptions::new().with_create(Create::Never).open_url(&url).await.map_err(missing_buffer)?;
    let buffer = stores.write_buffer().ok_or_else(Error::closed)?.clone();
    match args.action {
        Action::Status => status(&buffer, out).await,
        Action::Flush { thread } => flush((&stores, &buffer), thread.as_ref(), global, out).await,
        Action::Quarantine { action } => quarantine(&buffer, action, out).await,
        Action::Detach => detach(buffer, out).await,
    }
}

/// Gives the advice for an error of opening: the buffer may not exist yet.
fn missing_buffer(error: Error) -> Failure {
    let is_missing = is_missing_store(&error);
    let failure = Failure::from(error);
    if is_missing {
        failure.with_advice(
            "there is no buffer with this URL yet, or no store: check both; the first command that writes with them, such \
             as `agentstore append`, makes what is missing, and attaches the buffer",
        )
    } else {
        failure
    }
}

fn print_detached(out: &mut Output) -> Result<Ending> {
    if out.is_json() {
        out.print_document(&json!({ "attached": false }))?;
    } else {
        out.print_line("no buffer is attached to the store, so nothing waits for it")?;
        out.print_line("the next command that names the buffer and writes, such as `agentstore append`, attaches it")?;
    }
    Ok(Ending::Success)
}

async fn status(buffer: &WriteBuffer, out: &mut Output) -> Result<Ending> {
    let status = buffer.status().await?;
    if out.is_json() {
        out.print_document(&merge_objects(&json!({ "attached": true }), &status)?)?;
        return Ok(Ending::Success);
    }
    out.print_line(format!("buffer   {}, attached to the store", terminal_safe(&status.buffer)))?;
    let oldest = status.oldest_ms.map(|ms| format!(", the oldest for {}", format_duration(ms / 1_000)));
    let (waiting, bytes) = (with_noun(status.waiting, "write"), with_noun(status.waiting_bytes, "byte"));
    out.print_line(format!("waiting  {waiting}, {bytes}{}", oldest.unwrap_or_default()))?;
    if status.quarantined > 0 {
        let quarantined = with_noun(status.quarantined, "write");
        let text = format!("refused  {quarantined} in quarantine: see `agentstore buffer quarantine list`");
        out.print_line(out.style(text).red())?;
    }
    out.print_line(format!("applied  {} of {} messages", status.applied, status.end))?;
    if let Some(error) = &status.last_error {
        out.print_line(format!("error    {}", terminal_safe(error)))?;
    }
    Ok(Ending::Success)
}

async fn flush(
    (stores, buffer): (&Stores, &WriteBuffer),
    thread: Option<&ThreadId>,
    global: &GlobalArgs,
    out: &mut Output,
) -> Result<Ending> {
    match thread {
        Some(thread) => {
            buffer.flush(&global.tenant, thread).await?;
            if stores.threads(&global.tenant)?.load_thread(thread).await?.is_none() {
                return Err(Error::not_found("thread", thread).into());
            }
        }
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

async fn quarantine(buffer: &WriteBuffer, action: Quarantine, out: &mut Output) -> Result<Ending> {
    match action {
        Quarantine::List => list(buffer, out).await,
        Quarantine::Show { sequence } => {
            out.print_line(buffer.quarantined_message(sequence).await?)?;
            Ok(Ending::Success)
        }
        Quarantine::Retry { sequences, all } => {
            let sequences = if all { sequences_in(buffer).await? } else { sequences };
            for sequence in &sequences {
                buffer.retry(*sequence).await?;
                if !out.is_json() {
                    out.print_line(format!("write {sequence}: applied"))?;
                }
            }
            finish("applied", &sequences, out)
        }
        Quarantine::Discard { sequences, yes } => {
            let writes = with_noun(length(&sequences), "acknowledged write");
            prompt::confirm(yes, &format!("Discard {writes}? What they wrote is lost."))?;
            buffer.discard(&sequences).await?;
            if !out.is_json() {
                out.print_line(format!("{} discarded", with_noun(length(&sequences), "write")))?;
            }
            finish("discarded", &sequences, out)
        }
    }
}

fn length(sequences: &[u64]) -> u64 {
    agentstore::length(sequences.len())
}

fn finish(what: &str, sequences: &[u64], out: &mut Output) -> Result<Ending> {
    if out.is_json() {
        out.print_document(&json!({ what: sequences }))?;
    }
    Ok(Ending::Success)
}

async fn sequences_in(buffer: &WriteBuffer) -> Result<Vec<u64>> {
    Ok(buffer.quarantined().await?.iter().map(|write| write.sequence).collect())
}

async fn list(buffer: &WriteBuffer, out: &mut Output) -> Result<Ending> {
    let writes = buffer.quarantined().await?;
    if out.is_json() {
        out.print_document(&json!({ "writes": writes }))?;
        return Ok(Ending::Success);
    }
    for write in &writes {
        let thread = write.thread.as_ref().map_or("-", |thread| thread.as_str());
        let title = format!("write {}  {} of thread {} in tenant {}", write.sequence, write.kind, thread, write.tenant);
        out.print_line(out.style(terminal_safe(&title)).bold())?;
        out.print_line(format!("  since {}, {}", format_time(write.since), with_noun(write.bytes, "byte")))?;
        out.print_line(format!("  {}", terminal_safe(&write.reason)))?;
    }
    if writes.is_empty() {
        out.print_line("nothing is in quarantine")?;
    }
    Ok(Ending::Success)
}
