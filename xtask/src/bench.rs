//! `cargo xtask bench`: measures what each backend costs, together with the limits of the machine
//! (docs/performance.md).

use std::{env, fs, path::Path, thread};

use anyhow::Result;
use test_servers::{NATS_URL_VARIABLE, Nats, POSTGRES_URL_VARIABLE, Postgres};

use crate::test::{cargo, cargo_with};

/// The configuration of a NATS server that syncs each message.
const SYNC_EACH_MESSAGE: &str = "jetstream { sync_interval: always }";

/// Measures all backends. Stores on files are created in `folder`, which is on the disk to measure. Starts PostgreSQL
/// and NATS with durable settings, unless environment variables name other servers.
pub(crate) fn run(root: &Path, folder: &Path) -> Result<()> {
    println!("== the machine: {}", describe_machine());
    fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let path = folder.display().to_string();
    for url in ["memory:".to_owned(), format!("file:{path}/agentstore-data")] {
        run_scenarios(root, &url)?;
    }
    let opening = ["run", "--release", "--package", "benches", "--bin", "opening", "--", "--folder", &path];
    cargo(root, "opening a store on files", &opening)?;
    let cost = ["run", "--release", "--package", "benches", "--bin", "cost", "--", "--folder", &path];
    cargo(root, "long histories compared with short ones", &cost)?;
    let sqlite = ["run", "--release", "--package", "benches", "--bin", "sqlite", "--", "--folder", &path];
    cargo(root, "the SQLite mailbox", &sqlite)?;
    let server = if env::var_os(POSTGRES_URL_VARIABLE).is_some() { None } else { Some(Postgres::start(&[])?) };
    let url = server.as_ref().map_or_else(|| env::var(POSTGRES_URL_VARIABLE).unwrap_or_default(), Postgres::url);
    let bench_result = bench_postgres(root, &url);
    server.map_or(Ok(()), Postgres::stop).and(bench_result)?;
    // The server that is started here syncs each message, and `assume_sync` tells this to the store. A URL in the
    // environment variable must contain the parameter itself if its server syncs.
    let server = if env::var_os(NATS_URL_VARIABLE).is_some() { None } else { Some(Nats::start(SYNC_EACH_MESSAGE)?) };
    let url_of_variable = || env::var(NATS_URL_VARIABLE).unwrap_or_default();
    let url = server.as_ref().map_or_else(url_of_variable, |server| format!("{}?assume_sync=true", server.url()));
    let bench_result = bench_nats(root, &url);
    server.map_or(Ok(()), Nats::stop).and(bench_result)
}

fn bench_postgres(root: &Path, url: &str) -> Result<()> {
    run_scenarios(root, url)?;
    let cost = ["run", "--release", "--package", "benches", "--bin", "cost", "--", "--only", "postgres"];
    cargo_with(root, "long histories on PostgreSQL", &cost, [(POSTGRES_URL_VARIABLE, url.to_owned())])
}

fn bench_nats(root: &Path, url: &str) -> Result<()> {
    run_scenarios(root, url)?;
    let cost = ["run", "--release", "--package", "benches", "--bin", "cost", "--", "--only", "nats"];
    cargo_with(root, "long mailboxes on NATS", &cost, [(NATS_URL_VARIABLE, url.to_owned())])
}

fn run_scenarios(root: &Path, url: &str) -> Result<()> {
    cargo(root, "scenarios", &["run", "--release", "--package", "cli", "--", "bench", "--store", url])
}

/// Returns a description of the machine, because the figures depend on it.
pub(crate) fn describe_machine() -> String {
    let cores = thread::available_parallelism().map_or(0, usize::from);
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| env::consts::ARCH.to_owned());
    let memory = field("/proc/meminfo", "MemTotal").unwrap_or_else(|| "unknown".to_owned());
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{cores} cores ({model}), memory {memory}, {} {}", env::consts::OS, kernel.trim())
}
