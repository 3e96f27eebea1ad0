//! `maintain`, and `mailbox cancel` with the ids of dispatches.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::helpers::{TestStore, run, value_at};

/// Returns a store with a thread of one message, two cancelled dispatches and a queued one.
fn store_with_dispatches() -> TestStore {
    let store = TestStore::new();
    store.append("t", "hi");
    for id in ["d-1", "d-2", "d-3"] {
        store.json(&["mailbox", "enqueue", "t", "--run", "r", "--id", id]);
    }
    let cancelled = store.json(&["mailbox", "cancel", "d-1", "d-2"]);
    assert_eq!(cancelled, json!({ "cancelled": ["d-1", "d-2"], "refused": [] }));
    store
}

fn dispatch_count(store: &TestStore) -> usize {
    value_at(&store.json(&["mailbox", "list"]), "/dispatches").as_array().unwrap().len()
}

/// Tests MB-11: a queued dispatch is cancelled, even if the command refuses others.
#[test]
fn dispatches_are_cancelled_by_id() {
    let store = store_with_dispatches();
    let response = store.run(&["mailbox", "cancel", "d-1", "d-3", "d-9"]);
    assert_eq!(response.code, 1, "{response:?}");
    for expected_text in ["refused d-1", "refused d-9", "`d-9` does not exist", "cancelled 1 dispatch\n"] {
        assert!(response.out.contains(expected_text), "{response:?}");
    }
    let refused = store.run(&["mailbox", "cancel", "d-1", "--json"]);
    let document: Value = serde_json::from_str(&refused.out).unwrap();
    assert_eq!((refused.code, value_at(&document, "/refused/0/error/kind")), (1, &json!("invalid_transition")));
    store.run(&["mailbox", "cancel"]).expect_failure(2, &["DISPATCH"]);
    assert_eq!(value_at(&store.json(&["mailbox", "list"]), "/counts/cancelled"), 3);
}

/// Tests WK-9 for the command: a record is removed only after it has reached the given age.
#[test]
fn maintain_once_removes_records_of_the_given_age() {
    let store = store_with_dispatches();
    let report = store.json(&["maintain", "--once"]);
    assert_eq!((value_at(&report, "/did/dispatches"), value_at(&report, "/dry_run")), (&json!(0), &json!(false)));
    let args = ["maintain", "--dispatches", "0s", "--threads", "0s"];
    for _ in 0..2 {
        let dry_run = store.json(&[&args[..], &["--dry-run"]].concat());
        assert_eq!((value_at(&dry_run, "/did/dispatches"), value_at(&dry_run, "/dry_run")), (&json!(2), &json!(true)));
        assert_eq!(dispatch_count(&store), 3);
    }
    let response = store.run(&["maintain", "--once", "--dispatches", "0s", "--events", "never"]).expect_success().out;
    let rows: Vec<_> = response.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(rows.contains(&"dispatches 2 0s".to_owned()), "{response}");
    assert!(rows.contains(&"events 0 forever".to_owned()), "{response}");
    assert_eq!(dispatch_count(&store), 1);
    store.json(&["mailbox", "cancel", "d-3"]);
    let report = store.json(&["maintain", "--once", "--threads", "0s", "--dispatches", "never"]);
    assert_eq!(
        (value_at(&report, "/did/threads"), value_at(&report, "/did/dispatches")),
        (&json!(1), &json!(0)),
        "{report}"
    );
    store.run(&["show", "t"]).expect_failure(1, &["does not exist"]);
    store.run(&["maintain", "--once", "--every", "1m"]).expect_failure(2, &["cannot be used with"]);
    store.run(&["maintain", "--events", "soon"]).expect_failure(2, &["or `never`"]);
}

/// Tests WK-9, AU-5 and CF-7 for the command: audit records and entries of the config feed are removed by age, and the
/// config records stay.
#[test]
fn maintain_removes_audit_records_and_config_entries() {
    let store = TestStore::new();
    for value in ["1", "2", "3"] {
        store.json(&["config", "set", "limits", "tokens", "--value", value, "--actor", "user:ada"]);
    }
    let removed = |args: &[&str]| {
        let report = store.json(&[&["maintain"], args].concat());
        ["audit_records", "config_entries", "versions", "effects"]
            .map(|what| value_at(&report, &format!("/did/{what}")).clone())
    };
    assert_eq!(removed(&["--once"]), [0, 0, 0, 0]);
    let all = ["--audit", "0s", "--config-feed", "0s", "--versions", "1", "--effects", "0s"];
    assert_eq!(removed(&[&["--dry-run"], &all[..]].concat()), [3, 3, 0, 0]);
    assert_eq!(removed(&["--once", "--config-feed", "0s"]), [0, 3, 0, 0]);
    let response = store.run(&[&["maintain", "--once"], &all[..]].concat()).expect_success().out;
    let rows: Vec<_> = response.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for row in ["audit records 3 0s", "config entries 0 0s", "versions 0 the newest 1", "effects 0 0s"] {
        assert!(rows.contains(&row.to_owned()), "{response}");
    }
    assert_eq!(value_at(&store.json(&["config", "get", "limits", "tokens"]), "/value"), 3);
    assert_eq!(value_at(&store.json(&["audit", "list"]), "/records"), &json!([]));
}

/// Tests WK-9 for the command: it repeats its round until a signal ends it, and then prints the sum of all rounds.
#[test]
fn the_maintain_command_runs_until_it_is_stopped() {
    let store = store_with_dispatches();
    let url = format!("file:{}", store.path().display());
    let mut child = Command::new(env!("CARGO_BIN_EXE_agentstore"))
        .args(["maintain", "--store", &url, "--dispatches", "0s", "--every", "10ms", "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next_document = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    let first = next_document();
    assert_eq!((value_at(&first, "/did/dispatches"), value_at(&first, "/error")), (&json!(2), &Value::Null), "{first}");
    assert_eq!(value_at(&next_document(), "/did/dispatches"), 0);
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::TERM).unwrap();
    let last = std::iter::repeat_with(next_document).find(|line| line.get("summary").is_some()).unwrap();
    assert_eq!(value_at(&last, "/summary/dispatches"), 2, "{last}");
    assert!(child.wait().unwrap().success());
    assert_eq!(dispatch_count(&store), 1);
}

/// Tests FI-14 for the command: it compresses the logs of threads of the given age, and they can be read, verified and
/// appended to.
#[test]
fn maintain_compresses_logs_of_the_given_age() {
    let store = TestStore::new();
    let text = "a long question ".repeat(2_000);
    store.append("long", &text);
    store.append("short", "hi");
    let threads = store.json(&["threads"]);
    let mut threads = value_at(&threads, "/threads").as_array().unwrap().iter();
    let log = threads.find(|thread| thread["id"] == "long").unwrap()["log_file"].as_str().unwrap().to_owned();
    let former = fs::read(&log).unwrap();
    let args = ["maintain", "--once", "--compress-after"];
    let report = store.json(&[&args[..], &["1h"]].concat());
    assert_eq!(value_at(&report, "/did/logs"), 0, "{report}");
    let counted = store.run(&["maintain", "--dry-run", "--compress-after", "0s"]).expect_success().out;
    assert!(counted.contains("would compress 1 log of 32."), "{counted}");
    assert_eq!(fs::read(&log).unwrap(), former);
    let report = store.json(&[&args[..], &["0s"]].concat());
    let bytes = fs::metadata(format!("{log}.zst")).unwrap().len();
    assert_eq!(value_at(&report, "/did/logs"), 1, "{report}");
    assert_eq!(value_at(&report, "/did/log_bytes_before"), former.len(), "{report}");
    assert_eq!(value_at(&report, "/did/log_bytes_after"), bytes, "{report}");
    assert!(bytes < 2_000 && fs::read(&log).unwrap().is_empty());
    store.append("long", "again");
    let shown = store.run(&["show", "long"]).expect_success().out;
    assert!(shown.contains("a long question") && shown.contains("again"), "{shown}");
    store.run(&["verify"]).expect_success();
    let output = store.run(&[&args[..], &["0s"]].concat()).expect_success().out;
    assert!(output.contains("compressed 0 logs"), "{output}");
    let refused = run(&["maintain", "--store", "memory:", "--once", "--compress-after", "30d"], "");
    refused.expect_failure(2, &["--compress-after", "memory:", "file:"]);
}
