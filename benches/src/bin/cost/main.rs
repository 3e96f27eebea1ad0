//! Compares the cost of calls with much data and with little: on a long and on a short history (PR-15, EN-10, EN-14,
//! CX-12), in stores with and without other tenants (TN-6), on a mailbox with many and with few dispatches (MB-28), and
//! with many and with few documents (DO-6).
//!
//! One loop takes the samples of both sizes alternately, so that other load of the machine affects both. A line of the
//! table says "grows too much" if its medians differ by more than 2 µs and their ratio is above 1.2. For an operation
//! that walks a path, the limit is 3.0. If a line says so, the exit code is 1.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

mod documents;
mod events_and_input;
mod history;
mod mailbox;
mod measured_store;
mod tenants;
mod threads;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Result;
use lexopt::{Arg, Parser, ValueExt};

use crate::{mailbox::ExistingDispatches, measured_store::Backend};

const HELP: &str = "\
Compares what operations cost with little and with much data: on threads of 100 and of 100,000 entries or events, in
mailboxes of 100 and of 100,000 dispatches, in tenants of 100 and of 100,000 threads, in stores of 100 and of 100,000
documents, and with 0 and with 200 other tenants. On stores that have only a mailbox, only the parts of the mailbox are measured.

Usage: cargo run --release -p benches --bin cost -- [OPTIONS]

Options:
  --folder PATH    where stores on files are created [default: the system's folder for temporary files]
  --samples N      how often each call is measured on each of the two sizes [default: 400]
  --entries N      length of the long thread [default: 100000]
  --dispatches N   how many dispatches the large mailbox has [default: 100000]
  --documents N    how many documents the large store has [default: 100000]
  --threads N      how many threads the large tenant has [default: 100000]
  --tenants N      how many other tenants there are, with 100 threads each [default: 200]
  --only NAME      only one backend: memory, file, file-sync, sqlite, or one on a server: postgres, nats
                   (at AGENTSTORE_TEST_POSTGRES_URL, AGENTSTORE_TEST_NATS_URL)
  --part NAME      only one part: history (entries), around (events and pending input), threads, documents, tenants;
                   or a part of the mailbox: waiting (with many dispatches on other threads), queue (with many
                   dispatches on the same thread), ended (with many dispatches that have ended), interrupts,
                   drain (the last claims of a long queue)
";

/// The parts of the measurement. Each part opens its own stores. The lines of a part are printed when it has ended.
const PARTS: [&str; 10] =
    ["history", "around", "threads", "documents", "waiting", "queue", "ended", "interrupts", "drain", "tenants"];
/// The parts that need a store with threads.
const PARTS_WITH_THREADS: [&str; 5] = ["history", "around", "threads", "documents", "tenants"];

/// The options of the command line.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) folder: PathBuf,
    pub(crate) samples: usize,
    pub(crate) entries: u64,
    pub(crate) dispatches: u64,
    pub(crate) documents: u64,
    pub(crate) threads: usize,
    pub(crate) tenants: usize,
    pub(crate) only_backend: Option<String>,
    pub(crate) only_part: Option<String>,
}

fn main() -> ExitCode {
    match parse_options().and_then(|options| options.map_or(Ok(true), |options| run(&options))) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn parse_options() -> Result<Option<Options>> {
    let mut options = Options {
        folder: std::env::temp_dir(),
        samples: 400,
        entries: 100_000,
        dispatches: 100_000,
        documents: 100_000,
        threads: 100_000,
        tenants: 200,
        only_backend: None,
        only_part: None,
    };
    let mut parser = Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("folder") => options.folder = parser.value()?.into(),
            Arg::Long("samples") => options.samples = parser.value()?.parse()?,
            Arg::Long("entries") => options.entries = parser.value()?.parse()?,
            Arg::Long("dispatches") => options.dispatches = parser.value()?.parse()?,
            Arg::Long("documents") => options.documents = parser.value()?.parse()?,
            Arg::Long("threads") => options.threads = parser.value()?.parse()?,
            Arg::Long("tenants") => options.tenants = parser.value()?.parse()?,
            Arg::Long("only") => options.only_backend = Some(parser.value()?.parse()?),
            Arg::Long("part") => options.only_part = Some(parser.value()?.parse()?),
            Arg::Long("help") | Arg::Short('h') => {
                print!("{HELP}");
                return Ok(None);
            }
            _ => return Err(arg.unexpected().into()),
        }
    }
    Ok(Some(options))
}

fn run(options: &Options) -> Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut is_within_limits = true;
    benches::print_heading();
    for backend in Backend::ALL {
        if !options.only_backend.as_ref().map_or(!backend.needs_server(), |only| only == backend.name()) {
            continue;
        }
        for part in PARTS {
            let is_unsupported = backend.keeps_only_mailboxes() && PARTS_WITH_THREADS.contains(&part);
            if is_unsupported || options.only_part.as_ref().is_some_and(|only| only != part) {
                continue;
            }
            let rows = runtime.block_on(async {
                match part {
                    "history" => history::measure(backend, options).await,
                    "around" => events_and_input::measure(backend, options).await,
                    "threads" => threads::measure(backend, options).await,
                    "documents" => documents::measure(backend, options).await,
                    "waiting" => mailbox::measure(backend, ExistingDispatches::OtherThreads, options).await,
                    "queue" => mailbox::measure(backend, ExistingDispatches::SameThread, options).await,
                    "ended" => mailbox::measure(backend, ExistingDispatches::Finished, options).await,
                    "interrupts" => mailbox::measure_interrupts(backend, options).await,
                    "drain" => mailbox::measure_last_claims(backend, options).await,
                    _ => tenants::measure(backend, options).await,
                }
            })?;
            is_within_limits &= benches::print_rows(&rows);
        }
    }
    Ok(is_within_limits)
}
