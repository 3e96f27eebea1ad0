//! Tests of the command with a write buffer in front of a store on a PostgreSQL server.

use agentstore::{
    IdSource, UuidSource,
    nats::{NatsConfig, TestPrefix},
};
use serde_json::{Value, json};

use crate::{
    helpers::{CommandOutput, run, value_at},
    postgres::PostgresTestStore,
};

/// A store on the server, and a write buffer in front of it. Both are removed when this value is dropped.
struct BufferedTestStore {
    store: PostgresTestStore,
    servers: String,
}

impl BufferedTestStore {
    fn new() -> Self {
        let server = std::env::var("AGENTSTORE_TEST_NATS_URL").unwrap();
        let servers = format!("{server}?allow_unsafe=true&prefix=test-{}", UuidSource.next_id());
        Self { store: PostgresTestStore::new(), servers }
    }

    /// Returns the URL of the store and of its buffer.
    fn url(&self) -> String {
        format!("nats+{}&buffer={}", self.store.url(), self.servers)
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        run(&[&["--store", &self.url()], args].concat(), "")
    }

    fn append(&self, text: &str) {
        run(&["--store", &self.url(), "append", "t-1"], text).expect_success();
    }

    fn json(&self, args: &[&str]) -> Value {
        let response = self.run(&[args, &["--json"]].concat()).expect_success();
        serde_json::from_str(&response.out).unwrap_or_else(|error| panic!("{error}: {}", response.out))
    }
}

impl Drop for BufferedTestStore {
    fn drop(&mut self) {
        let prefix = TestPrefix::from_config(NatsConfig::new(&self.servers).unwrap());
        tokio::runtime::Runtime::new().unwrap().block_on(prefix.remove()).unwrap();
    }
}

/// Tests NB-10 and NB-14: the buffer is put in front of a store with data, used, and taken away again.
#[test]
fn a_buffer_is_put_in_front_and_taken_away_again() {
    let buffered = BufferedTestStore::new();
    buffered.store.append("t-1", "before");
    // The two ways to name the store and its buffer.
    buffered.append("one URL");
    let two_urls = ["--store", buffered.store.url(), "--buffer", &buffered.servers, "append", "t-1"];
    run(&two_urls, "two URLs").expect_success();
    let shown = buffered.run(&["show", "t-1"]).expect_success();
    assert!(shown.out.contains("two URLs"), "{shown:?}");
    let past_the_buffer = buffered.store.run_with_input(&["append", "t-1"], "x");
    past_the_buffer.expect_failure(1, &["the write buffer", "detach it", "--buffer nats://"]);
    let beside = buffered.store.run(&["show", "t-1"]);
    let warns = beside.err.starts_with("warn:") && beside.err.contains("what it has not applied yet does not show");
    assert!(beside.code == 0 && warns, "{beside:?}");
    let beside = buffered.store.run(&["doctor"]);
    assert!(beside.out.contains("may not be here yet"), "{beside:?}");
    // Settings go through the buffer, too.
    buffered.run(&["config", "set", "tools", "search", "--value", "{\"on\":true}"]).expect_success();
    let config = buffered.json(&["config", "get", "tools", "search"]);
    assert_eq!(value_at(&config, "/value/on"), &json!(true), "{config}");

    let status = buffered.json(&["buffer", "status"]);
    assert_eq!(value_at(&status, "/quarantined"), &json!(0), "{status}");
    assert_eq!(value_at(&status, "/attached"), &json!(true), "{status}");
    let doctor: Value = serde_json::from_str(&buffered.run(&["doctor", "--json"]).out).unwrap();
    let facts = value_at(&doctor, "/parts/0/facts").to_string();
    assert!(facts.contains("buffer: waiting writes") && facts.contains("buffer: server"), "{facts}");
    buffered.run(&["buffer", "flush", "t-1"]).expect_success();
    buffered.run(&["buffer", "flush", "t-2"]).expect_failure(1, &["thread `t-2` does not exist"]);
    buffered.run(&["verify", "--digest"]).expect_failure(2, &["without `--buffer`"]);
    buffered.run(&["buffer", "detach"]).expect_success();
    let shown = buffered.store.run(&["show", "t-1"]).expect_success();
    for text in ["before", "one URL", "two URLs"] {
        assert!(shown.out.contains(text), "{shown:?}");
    }
    buffered.store.append("t-1", "without a buffer");
    // Looking at it does not attach it again.
    let status = buffered.run(&["buffer", "status"]).expect_success();
    assert!(status.out.contains("no buffer is attached"), "{status:?}");
    buffered.store.append("t-1", "still without a buffer");
}

/// Tests NB-7: what the command says about a quarantine with nothing in it.
#[test]
fn an_empty_quarantine_is_shown_and_unknown_writes_are_refused() {
    let buffered = BufferedTestStore::new();
    buffered.append("x");
    assert_eq!(buffered.json(&["buffer", "quarantine", "list"]), json!({ "writes": [] }));
    assert_eq!(buffered.json(&["buffer", "quarantine", "retry", "--all"]), json!({ "applied": [] }));
    for args in [["show", "7"].as_slice(), &["retry", "7"], &["discard", "7", "--yes"]] {
        let args = [&["buffer", "quarantine"], args].concat();
        buffered.run(&args).expect_failure(1, &["quarantined write `7` does not exist"]);
    }
    buffered.run(&["buffer", "quarantine", "discard", "7"]).expect_failure(2, &["--yes"]);
    run(&["--store", buffered.store.url(), "buffer", "status"], "").expect_failure(2, &["--buffer nats://"]);
}

/// A copy is made of the store itself.
#[test]
fn a_copy_through_a_buffer_is_refused_with_advice() {
    let buffered = BufferedTestStore::new();
    for args in [["--from", &buffered.url(), "--to", "memory:"], ["--from", "memory:", "--to", &buffered.url()]] {
        run(&[&["copy"], args.as_slice()].concat(), "").expect_failure(2, &["agentstore buffer detach"]);
    }
    // Only the prefix of the buffer is left to remove, so it must exist.
    buffered.append("x");
}
