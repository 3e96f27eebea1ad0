//! Runs worker processes that are killed and stopped at random, and checks what they did:
//! `cargo run --release -p soak -- --help`. In this crate, a run is one execution of the program, and not a run of an
//! agent.
//!
//! # Layout
//! - `options`: the options of the command line
//! - `run`, `producer`, `worker_pool`: a run from its beginning to its end; the producer, which enqueues and
//!   interrupts; the workers, which are killed and stopped
//! - `worker`, `logged`: one worker process, and the store that records what it does
//! - `record`: the lines of the logs
//! - `final_state`, `check`: what the store contains at the end, and whether it agrees with the logs

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

mod check;
mod final_state;
mod logged;
mod options;
mod producer;
mod record;
mod run;
mod worker;
mod worker_pool;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use agentstore::TenantId;
use anyhow::{Context, Result, bail};
use lexopt::{Parser, ValueExt};

use crate::{
    options::{HELP, Options, StoreUrls},
    worker::WorkerArguments,
};

/// The largest number of violations that are shown.
const MAX_SHOWN_VIOLATIONS: usize = 20;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if let Ok(store) = std::env::var(worker_pool::STORE_VARIABLE) {
        let mailbox = std::env::var(worker_pool::MAILBOX_VARIABLE).ok();
        return runtime.block_on(run_as_worker(&StoreUrls { store, mailbox }));
    }
    let Some(options) = Options::read(Parser::from_env())? else {
        print!("{HELP}");
        return Ok(());
    };
    let (figures, violations) = runtime.block_on(run::run(options))?;
    for violation in violations.iter().take(MAX_SHOWN_VIOLATIONS) {
        eprintln!("{violation}");
    }
    println!("{}", serde_json::to_string(&figures)?);
    if !violations.is_empty() {
        bail!("{} violations", violations.len());
    }
    Ok(())
}

/// Runs this process as a worker. The program starts itself with `work TENANT NAME LEASE LOG`, where the lease is in
/// milliseconds.
async fn run_as_worker(urls: &StoreUrls) -> Result<()> {
    let mut parser = Parser::from_env();
    let mut values = parser.values()?;
    let mut next_argument = move || values.next().context("too few arguments");
    let _subcommand = next_argument()?;
    let tenant: TenantId = next_argument()?.parse()?;
    let name = next_argument()?.string()?;
    let lease = Duration::from_millis(next_argument()?.parse()?);
    let log: PathBuf = next_argument()?.into();
    worker::run(urls, WorkerArguments { tenant, name: &name, log: &log, lease }).await
}
