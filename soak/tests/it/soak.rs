//! Workers that are killed, stopped and interrupted: what their logs and the store say is right.

use std::process::Command;

use agentstore::{
    IdSource, Uuids,
    postgres::{PostgresConfig, TestSchema},
};
use serde_json::Value;
use test_servers::Postgres;

fn is_full() -> bool {
    std::env::var_os("AGENTSTORE_FULL_FAULTS").is_some()
}

/// Runs a soak with these arguments, and says what it found.
fn soak(args: &[&str]) {
    let size = if is_full() {
        ["--dispatches=200000", "--threads=1000", "--workers=8", "--lease=2000", "--kill-every=400"]
    } else {
        ["--dispatches=1000", "--threads=50", "--workers=3", "--lease=800", "--kill-every=300"]
    };
    let output = Command::new(env!("CARGO_BIN_EXE_soak")).args(args).args(size).output().unwrap();
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
        let own = is_full().then(|| Postgres::start(&[]).unwrap());
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
