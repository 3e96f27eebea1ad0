//! Workers that are killed, stopped and interrupted, and servers that are killed: what the logs and the store say is
//! right.

use std::{
    process::{Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use agentstore::{
    IdSource, Uuids,
    postgres::{PostgresConfig, TestSchema},
};
use conformance_tests::Length;
use serde_json::Value;
use test_servers::{Nats, Postgres};

fn is_long() -> bool {
    Length::from_env() == Length::Long
}

/// Runs a soak with these arguments, and says what it found.
fn soak(args: &[&str]) {
    soak_while(args, 400, |_| {});
}

/// The same, in full with so many ms from one kill to the next, while something is done to a server, which is told for
/// how long it has been going on.
#[expect(clippy::disallowed_methods, reason = "servers are killed in real time")]
fn soak_while(args: &[&str], every: u32, mut meanwhile: impl FnMut(Duration)) {
    let size = if is_long() {
        ["--dispatches=200000", "--threads=1000", "--workers=8", "--lease=2000"]
    } else {
        ["--dispatches=500", "--threads=30", "--workers=3", "--lease=800"]
    };
    let every = format!("--kill-every={}", if is_long() { every } else { 600 });
    let mut soak = Command::new(env!("CARGO_BIN_EXE_soak"));
    let mut child =
        soak.args(args).args(size).arg(every).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        sleep(Duration::from_millis(50));
        meanwhile(begun.elapsed());
    }
    let output: Output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    println!("{figures}");
    assert_eq!(figures["violations"], 0);
    for fault in ["kills", "stops", "interrupts", "redelivered"] {
        assert!(figures[fault].as_u64().unwrap() > 0, "no {fault}: {figures}");
    }
}

/// A server and a schema on it, which goes when it is dropped.
struct Server {
    /// Its own one with durable settings, if everything is tested at length.
    _own: Option<Postgres>,
    url: String,
}

impl Server {
    fn new() -> Self {
        let own = is_long().then(|| Postgres::start(&[]).unwrap());
        let url = own.as_ref().map_or_else(|| std::env::var(test_servers::URL).unwrap(), Postgres::url);
        let separator = if url.contains('?') { '&' } else { '?' };
        let schema = Uuids.next_id().replace('-', "");
        Self { _own: own, url: format!("{url}{separator}allow_unsafe=true&schema=test_{schema}") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let schema = TestSchema::named(PostgresConfig::new(&self.url).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(schema.remove()).unwrap();
    }
}

fn sqlite(folder: &tempfile::TempDir) -> String {
    format!("sqlite:{}", folder.path().join("mailbox.db").display())
}

/// SQ-1, and LC2 and LC3 among processes.
#[test]
fn work_survives_its_workers_in_a_sqlite_mailbox() {
    let folder = tempfile::tempdir().unwrap();
    soak(&["--store", &sqlite(&folder)]);
}

/// LC2 and LC3 among processes; LK1: the clocks of the workers are years off, or stand still (PR-4).
#[test]
fn work_survives_its_workers_on_postgres_whatever_their_clocks_show() {
    let library = test_servers::faketime().unwrap().display().to_string();
    soak(&["--store", &Server::new().url, "--skew", &library]);
}

/// WK-6: what is late is refused by its claim number.
#[test]
fn work_survives_its_workers_in_two_stores() {
    let folder = tempfile::tempdir().unwrap();
    soak(&["--store", &Server::new().url, "--mailbox", &sqlite(&folder)]);
}

/// How long it is from one kill to the next on NATS: a worker that begins reads the log, which takes seconds at last.
const READING: u32 = 10_000;

/// The place of a mailbox on servers that are killed. They need not sync for that: what they wrote outlives them.
fn nats(servers: &[Nats]) -> String {
    format!("{}?allow_unsafe=true&prefix=soak&replicas={}", Nats::url_of(servers), servers.len())
}

/// NA-7, and LC2 and LC3 among processes: the server is killed, too, and the clocks of the workers are years off, or
/// stand still (LK1).
#[test]
fn work_survives_its_workers_and_their_server_on_nats() {
    let mut server = Nats::start("").unwrap();
    let (every, mut kills) = (Duration::from_secs(if is_long() { 20 } else { 3 }), 0);
    let library = test_servers::faketime().unwrap().display().to_string();
    let store = nats(std::slice::from_ref(&server));
    soak_while(&["--store", &store, "--skew", &library], READING, |elapsed| {
        if elapsed >= every * (kills + 1) {
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

/// WK-6 and CM-32: threads on one server, the mailbox in a cluster of which one is killed.
#[test]
fn work_survives_its_workers_on_postgres_and_nats() {
    let mut servers = Nats::start_cluster("").unwrap();
    let mailbox = nats(&servers);
    let mut kills: u32 = 0;
    soak_while(&["--store", &Server::new().url, "--mailbox", &mailbox], READING, |elapsed| {
        // A cluster needs up to 9 s for another leader, and goes on for a while.
        if elapsed >= Duration::from_secs(5 + 30 * u64::from(kills)) {
            let server = &mut servers[kills as usize % 3];
            server.kill().unwrap();
            sleep(Duration::from_secs(1));
            server.restart().unwrap();
            kills += 1;
        }
    });
    println!("servers were killed {kills} times");
    for server in servers {
        server.stop().unwrap();
    }
}
