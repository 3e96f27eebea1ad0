//! Tests of the command with a mailbox on a NATS server.

use std::{
    fs,
    process::{Child, Command, Stdio},
};

use agentstore::{
    IdSource, UuidSource,
    nats::{NatsConfig, TestPrefix},
};
use serde_json::{Value, json};
use test_servers::Nats;

use crate::{
    demo::{run_demo, work_step},
    helpers::{CommandOutput, run, value_at},
    postgres::PostgresTestStore,
    work::wait_until,
};

/// A store under a prefix of its own. The prefix is removed when this value is dropped.
struct NatsTestStore {
    url: String,
}

impl NatsTestStore {
    fn new() -> Self {
        let server = std::env::var("AGENTSTORE_TEST_NATS_URL").unwrap();
        Self { url: format!("{server}?allow_unsafe=true&prefix=test-{}", UuidSource.next_id()) }
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        run(&[&["--store", &self.url], args].concat(), "")
    }

    fn json(&self, args: &[&str]) -> Value {
        let response = self.run(&[args, &["--json"]].concat()).expect_success();
        serde_json::from_str(&response.out).unwrap_or_else(|error| panic!("{error}: {}", response.out))
    }
}

impl Drop for NatsTestStore {
    fn drop(&mut self) {
        let prefix = TestPrefix::from_config(NatsConfig::new(&self.url).unwrap());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(prefix.remove()).unwrap();
    }
}

#[test]
fn a_mailbox_on_nats_can_be_filled_and_managed() {
    let store = NatsTestStore::new();
    store.run(&["mailbox", "list"]).expect_failure(1, &["does not exist yet"]);
    let enqueue = |thread, id| store.json(&["mailbox", "enqueue", thread, "--run", "r", "--id", id]);
    enqueue("t", "d-1");
    enqueue("t", "d-2");
    enqueue("u", "d-3");
    let listed = store.json(&["mailbox", "list"]);
    assert_eq!(value_at(&listed, "/dispatches").as_array().unwrap().len(), 3);
    let work = ["mailbox", "work", "--exec", "cat > /dev/null", "--until-idle"];
    assert_eq!(store.run(&work).code, 0);
    let acked = store.json(&["mailbox", "list", "--status", "acked"]);
    assert_eq!(value_at(&acked, "/dispatches").as_array().unwrap().len(), 3);
    enqueue("t", "d-4");
    store.json(&["mailbox", "interrupt", "t", "--yes"]);
    let verified = store.json(&["verify"]);
    assert_eq!(value_at(&verified, "/findings"), &json!([]));
    let shown_url = value_at(&verified, "/store").as_str().unwrap();
    assert!(shown_url.contains("prefix=test-") && !shown_url.contains("allow_unsafe"), "{shown_url}");
    assert_eq!(value_at(&store.json(&["mailbox", "purge", "--older-than", "0s", "--yes"]), "/removed"), &json!(4));
    store.run(&["threads"]).expect_failure(1, &["keeping threads"]);
}

#[test]
fn threads_and_mailbox_are_in_two_stores() {
    let (store, folder) = (NatsTestStore::new(), tempfile::tempdir().unwrap());
    let threads = format!("file:{}", folder.path().join("data").display());
    let stores = ["--store", &threads, "--mailbox", &store.url];
    let run_on_both = |args: &[&str]| run(&[&stores, args].concat(), "");
    run_on_both(&["append", "t", "--message", "hi"]).expect_success();
    run_on_both(&["mailbox", "enqueue", "t", "--run", "r"]).expect_success();
    assert_eq!(run_on_both(&["mailbox", "work", "--exec", "cat > /dev/null", "--until-idle"]).code, 0);
    let acked = store.json(&["mailbox", "list", "--status", "acked"]);
    assert_eq!(value_at(&acked, "/dispatches").as_array().unwrap().len(), 1);
}

#[test]
fn the_demo_on_two_servers_proves_every_step() {
    let (threads, mailbox) = (PostgresTestStore::new(), NatsTestStore::new());
    let document = run_demo(&["--store", threads.url(), "--mailbox", &mailbox.url]);
    let steps = value_at(&document, "/steps").as_array().unwrap();
    assert!(steps.iter().all(|step| value_at(step, "/outcome") == "proved"), "{document}");
    let did = value_at(work_step(&document), "/did").as_str().unwrap();
    assert!(did.ends_with("then acknowledged it in the other store"), "{document}");
}

#[test]
fn the_suite_runs_on_a_named_nats_server() {
    let store = NatsTestStore::new();
    let report = store.json(&["conformance"]);
    let counts = ["/passed", "/failed"].map(|sum| value_at(&report, sum).as_u64().unwrap());
    assert!(counts[0] > 80 && counts[1] == 0, "{counts:?}");
}

#[test]
fn a_nats_mailbox_is_benchmarked_against_bare_messages() {
    let store = NatsTestStore::new();
    let report = store.json(&["bench", "--seconds", "1"]);
    assert_eq!(value_at(&report, "/scenarios").as_array().unwrap().len(), 1);
    let number = |path: &str| value_at(&report, &format!("/scenarios/0/{path}")).as_f64().unwrap();
    assert!(number("value") > 0.0 && number("limit") > number("value"), "{report}");
}

#[test]
fn errors_about_a_url_show_no_secret() {
    let url = "nats://ada:canary@127.0.0.1:1/";
    let response =
        run(&["mailbox", "list", "--store", url], "").expect_failure(1, &["none of the servers can be reached"]);
    assert!(!response.err.contains("canary"), "{response:?}");
    let response =
        run(&["mailbox", "list", "--store", &format!("{url}?colour=canary")], "").expect_failure(2, &["unknown"]);
    assert!(!response.err.contains("canary"), "{response:?}");
    let server = std::env::var("AGENTSTORE_TEST_NATS_URL").unwrap();
    let expected_texts = ["sync_interval may lose acknowledged data", "`sync_interval: always`", "assume_sync=true"];
    run(&["mailbox", "enqueue", "t", "--run", "r", "--store", &server], "").expect_failure(1, &expected_texts);
}

/// Starts a worker on the server at `url`.
fn start_worker(url: &str, exec: &str, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_agentstore"))
        .args([&["--store", url, "mailbox", "work", "--json", "--exec", exec], args].concat())
        .env_remove("AGENTSTORE_URL")
        .env_remove("AGENTSTORE_MAILBOX")
        .env_remove("AGENTSTORE_SETTINGS")
        .env_remove("AGENTSTORE_BLOBS")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Tests WK-11: the worker does not wait forever, and prints its errors to standard error.
#[test]
fn a_worker_whose_server_lost_its_data_ends_with_an_error() {
    let mut server = Nats::start("").unwrap();
    let url = format!("{}?allow_unsafe=true", server.url());
    run(&["--store", &url, "mailbox", "enqueue", "t", "--run", "r"], "").expect_success();
    let worker = start_worker(&url, "true", &["--patience", "500ms"]);
    let acked = || {
        let response = run(&["--store", &url, "mailbox", "list", "--status", "acked", "--json"], "").expect_success();
        !value_at(&serde_json::from_str(&response.out).unwrap(), "/dispatches").as_array().unwrap().is_empty()
    };
    wait_until("the work", acked);
    server.kill().unwrap();
    fs::remove_dir_all(server.folder().join("data")).unwrap();
    server.restart().unwrap();

    let output = worker.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{out} {err}");
    let lines: Vec<Value> = err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (error, warnings) = lines.split_last().unwrap();
    assert_eq!((value_at(error, "/kind"), value_at(error, "/retryable")), (&json!("corrupt"), &json!(false)), "{err}");
    // Each kind of error is printed once, although the call was tried several times.
    let warning_count =
        |kind: &str| warnings.iter().filter(|warning| warning.get("kind") == Some(&json!(kind))).count();
    assert_eq!(warning_count("corrupt"), 1, "{err}");
    assert!(warnings.len() <= 4, "{err}");
    // Standard output has only documents: here the one about the command that ended.
    let documents: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((documents.len(), value_at(&documents[0], "/exit")), (1, &json!(0)), "{out}");
}

/// Tests NA-11: the output of a command is cut to the size that the mailbox accepts, and its dispatch is acknowledged.
#[test]
fn a_result_too_large_for_the_server_is_cut() {
    let server = Nats::start("max_payload: 196608").unwrap();
    let url = format!("{}?allow_unsafe=true", server.url());
    run(&["--store", &url, "mailbox", "enqueue", "t", "--run", "r"], "").expect_success();
    // In JSON each of these bytes takes six bytes.
    let exec = "head -c 60000 /dev/zero | tr '\\0' '\\001'";
    let worker = start_worker(&url, exec, &["--until-idle"]);
    let output = worker.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let response = run(&["--store", &url, "mailbox", "list", "--json"], "").expect_success();
    let listed: Value = serde_json::from_str(&response.out).unwrap();
    let dispatch = value_at(&listed, "/dispatches/0");
    let result =
        ["status", "result/is_cut", "result/printed_bytes"].map(|path| value_at(dispatch, &format!("/{path}")).clone());
    assert_eq!(result, [json!("acked"), json!(true), json!(60_000)]);
    assert!(value_at(dispatch, "/result/output").as_str().unwrap().len() > 5_000);
    server.stop().unwrap();
}

/// With `--quiet` only errors are printed, and the options take precedence over `RUST_LOG`.
#[test]
fn options_take_precedence_over_rust_log_for_warnings() {
    let server = Nats::start("").unwrap();
    let url = format!("{}?allow_unsafe=true", server.url());
    let worker_stderr = |args: &[&str], rust_log: &str| {
        run(&["--store", &url, "mailbox", "enqueue", "t", "--run", "r", "--max-attempts", "1"], "").expect_success();
        let output = Command::new(env!("CARGO_BIN_EXE_agentstore"))
            .args([&["--store", &url, "mailbox", "work", "--exec", "exit 3", "--until-idle"], args].concat())
            .env("RUST_LOG", rust_log)
            .output()
            .unwrap();
        assert!(!String::from_utf8(output.stdout).unwrap().contains("an attempt failed"));
        String::from_utf8(output.stderr).unwrap()
    };
    let warning = "warn: an attempt failed: exit code 3 (failures 1)\n";
    assert_eq!(worker_stderr(&[], ""), warning);
    assert_eq!(worker_stderr(&["--quiet"], "trace"), "");
    assert_eq!(worker_stderr(&[], "off"), "");
    assert_eq!(worker_stderr(&["--verbose"], "off"), warning);
    assert!(worker_stderr(&[], "agentstore=loud").starts_with("warn: RUST_LOG is invalid and ignored"));
    run(&["--store", &url, "threads", "--quiet", "--verbose"], "").expect_failure(2, &["--quiet"]);
}
