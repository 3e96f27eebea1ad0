//! In each test, workers are killed and stopped, and threads are interrupted; in some, servers are killed as well. At
//! the end, every job must have been done once, and the logs of the workers must agree with the store.

use std::{
    process::{Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use agentstore::{
    IdSource, UuidSource,
    postgres::{PostgresConfig, TestSchema},
};
use conformance_tests::TestLength;
use serde_json::Value;
use test_servers::{Nats, Postgres};

fn is_long() -> bool {
    TestLength::from_env() == TestLength::Long
}

/// The mean time from one fault to the next in the long form, in ms.
const FAULT_INTERVAL: u32 = 400;

/// Runs the program `soak` with these arguments. Prints and checks its figures.
fn run_soak(args: &[&str]) {
    run_soak_while(args, FAULT_INTERVAL, |_| {});
}

/// Runs the program in the same way. Until it ends, calls `meanwhile` repeatedly with the time since the start. In the
/// long form, the mean time from one fault to the next is `fault_interval` ms.
#[expect(clippy::disallowed_methods, reason = "servers are killed in real time")]
fn run_soak_while(args: &[&str], fault_interval: u32, mut meanwhile: impl FnMut(Duration)) {
    let size_arguments = if is_long() {
        ["--dispatches=200000", "--threads=1000", "--workers=8", "--lease=2000"]
    } else {
        ["--dispatches=1500", "--threads=30", "--workers=3", "--lease=800"]
    };
    let interval_argument = format!("--kill-every={}", if is_long() { fault_interval } else { 500 });
    let mut soak = Command::new(env!("CARGO_BIN_EXE_soak"));
    let mut child = soak
        .args(size_arguments)
        .arg(interval_argument)
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        sleep(Duration::from_millis(50));
        meanwhile(start.elapsed());
    }
    let output: Output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("{figures}");
    assert_eq!(figures["violations"], 0);
    for fault in ["kills", "stops", "interrupts", "redelivered"] {
        assert!(figures[fault].as_u64().unwrap() > 0, "the run had no {fault}: {figures}");
    }
}

/// A server, and a schema on it, which is removed when this value is dropped.
struct ServerWithSchema {
    /// In the long form, a server with durable settings that only this test uses.
    _own_server: Option<Postgres>,
    url: String,
}

impl ServerWithSchema {
    fn new() -> Self {
        let own_server = is_long().then(|| Postgres::start(&[]).unwrap());
        let url = own_server
            .as_ref()
            .map_or_else(|| std::env::var(test_servers::POSTGRES_URL_VARIABLE).unwrap(), Postgres::url);
        let separator = if url.contains('?') { '&' } else { '?' };
        let schema = UuidSource.next_id().replace('-', "");
        Self { _own_server: own_server, url: format!("{url}{separator}allow_unsafe=true&schema=test_{schema}") }
    }
}

impl Drop for ServerWithSchema {
    fn drop(&mut self) {
        let schema = TestSchema::from_config(PostgresConfig::new(&self.url).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(schema.remove()).unwrap();
    }
}

fn sqlite_url(folder: &tempfile::TempDir) -> String {
    format!("sqlite:{}", folder.path().join("mailbox.db").display())
}

/// Tests SQ-1; also LC2 and LC3 with several processes. The mailbox is in one SQLite file that all processes share.
#[test]
fn work_survives_its_workers_in_a_sqlite_mailbox() {
    let folder = tempfile::tempdir().unwrap();
    // This mailbox is fast. In the short form, the workers could otherwise finish before all kinds of faults have
    // happened.
    let dispatches = if is_long() { "--dispatches=200000" } else { "--dispatches=2000" };
    run_soak(&["--store", &sqlite_url(&folder), dispatches]);
}

/// Tests LC2 and LC3 with several processes; also LK1 (PR-4), because the clocks of the workers are wrong by years or
/// do not advance. Threads and mailbox are on a PostgreSQL server.
#[test]
fn work_survives_its_workers_on_postgres_despite_wrong_clocks() {
    let library = test_servers::faketime_library().unwrap().display().to_string();
    run_soak(&["--store", &ServerWithSchema::new().url, "--skew", &library]);
}

/// Tests WK-6: with threads and mailbox in two stores, late writes are refused because of their claim numbers.
#[test]
fn work_survives_its_workers_in_two_stores() {
    let folder = tempfile::tempdir().unwrap();
    run_soak(&["--store", &ServerWithSchema::new().url, "--mailbox", &sqlite_url(&folder)]);
}

/// Tests NB-1, NB-4 and NB-5; also WK-6. The threads are on PostgreSQL behind a write buffer.
#[test]
fn work_survives_its_workers_through_a_write_buffer() {
    let folder = tempfile::tempdir().unwrap();
    let server = Nats::start("").unwrap();
    let inner = ServerWithSchema::new();
    let store = format!("nats+{}&buffer={}?allow_unsafe=true&prefix=soak", inner.url, server.url());
    // A worker that starts has to read the end of the stream.
    let kill_interval = if is_long() { "--kill-every=10000" } else { "--kill-every=2000" };
    run_soak(&["--store", &store, "--mailbox", &sqlite_url(&folder), kill_interval]);
    server.stop().unwrap();
}

/// The mean time from one fault to the next on NATS in the long form, in ms. A worker that starts has to read the log
/// of the mailbox, which takes seconds towards the end of a run.
const FAULT_INTERVAL_ON_NATS: u32 = 10_000;

/// Returns the URL of a mailbox on these servers. The tests kill the servers, but the servers need not sync: a process
/// that is killed loses nothing that it has written to a file.
fn nats_url(servers: &[Nats]) -> String {
    format!("{}?allow_unsafe=true&prefix=soak&replicas={}", Nats::url_of(servers), servers.len())
}

/// Tests NA-7; also LC2 and LC3 with several processes. The server is killed as well, and the clocks of the workers are
/// wrong by years or do not advance (LK1).
#[test]
fn work_survives_its_workers_and_their_server_on_nats() {
    let mut server = Nats::start("").unwrap();
    let (kill_interval, mut kills) = (Duration::from_secs(if is_long() { 20 } else { 3 }), 0);
    let library = test_servers::faketime_library().unwrap().display().to_string();
    let store = nats_url(std::slice::from_ref(&server));
    run_soak_while(&["--store", &store, "--skew", &library], FAULT_INTERVAL_ON_NATS, |elapsed| {
        // The first kill comes early, because a short run may take only a few seconds.
        if elapsed >= Duration::from_secs(1) + kill_interval * kills {
            server.kill().unwrap();
            sleep(Duration::from_millis(100));
            server.restart().unwrap();
            kills += 1;
        }
    });
    println!("the server was killed {kills} times");
    assert!(kills > 0);
    server.stop().unwrap();
}

/// Tests WK-6 and CM-32. The threads are on PostgreSQL, and the mailbox is in a NATS cluster. One server of the
/// cluster at a time is killed.
#[test]
fn work_survives_its_workers_on_postgres_and_nats() {
    let mut servers = Nats::start_cluster("").unwrap();
    let mailbox = nats_url(&servers);
    let mut kills: u32 = 0;
    run_soak_while(
        &["--store", &ServerWithSchema::new().url, "--mailbox", &mailbox],
        FAULT_INTERVAL_ON_NATS,
        |elapsed| {
            // A cluster needs up to 9 s to elect a leader. In the rest of the 30 s, workers can work.
            if elapsed >= Duration::from_secs(5 + 30 * u64::from(kills)) {
                let server = &mut servers[kills as usize % 3];
                server.kill().unwrap();
                sleep(Duration::from_secs(1));
                server.restart().unwrap();
                kills += 1;
            }
        },
    );
    println!("servers were killed {kills} times");
    for server in servers {
        server.stop().unwrap();
    }
}
