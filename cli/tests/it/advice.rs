//! The advice that a refused command prints.

use std::{
    fs,
    process::{Command, Stdio},
};

use serde_json::json;

use crate::helpers::{CommandOutput, TestStore, fixture, run, value_at};

/// Returns the advice of a refused command.
fn expect_advice(response: &CommandOutput) -> String {
    assert_eq!(response.code, 1, "{response:?}");
    value_at(&response.error(), "/advice").as_str().unwrap().to_owned()
}

/// Tests ER-11 and MB-5: if the key is in use, the advice names another key and not another id.
#[test]
fn the_advice_for_a_taken_key_is_another_key() {
    let store = TestStore::new();
    let enqueue = |id, key| store.run(&["mailbox", "enqueue", "t", "--run", "r", "--id", id, "--key", key, "--json"]);
    enqueue("d-1", "k").expect_success();
    let taken_key = enqueue("d-2", "k");
    let error = taken_key.error();
    assert_eq!((value_at(&error, "/id"), value_at(&error, "/key")), (&json!("d-1"), &json!("k")), "{error}");
    assert!(value_at(&error, "/message").as_str().unwrap().contains("`k`"), "{error}");
    let advice = expect_advice(&taken_key);
    assert!(advice.contains("another `--key`") && !advice.contains("id"), "{taken_key:?}");
    let taken_id = enqueue("d-1", "other");
    assert_eq!(expect_advice(&taken_id), "choose another id");
    assert!(taken_id.error().get("key").is_none());
}

/// Tests ER-11: the advice of a refused import names the option with which the import is accepted.
#[test]
fn the_advice_for_a_long_line_is_a_larger_limit() {
    let store = TestStore::new();
    let file = store.sibling_path("long.jsonl");
    let header = r#"{"type":"session","version":3,"id":"long","timestamp":"2026-01-05T10:00:00Z"}"#;
    fs::write(&file, format!("{header}\n{{\"text\":\"{}\"}}\n", "x".repeat(2_000))).unwrap();
    for strict in [&[][..], &["--strict"]] {
        let args = [&["import", file.to_str().unwrap(), "--max-line", "1000"], strict].concat();
        let response = store.run(&args);
        assert!(response.out.contains("long_line"), "{response:?}");
        assert!(response.err.contains("--max-line") && !response.err.contains("--format"), "{response:?}");
    }
    let unknown_format = fixture("bad/unknown-format.jsonl");
    let response = store.run(&["import", unknown_format.to_str().unwrap()]);
    assert!(response.err.contains("--format") && !response.err.contains("--max-line"), "{response:?}");
}

/// Tests ER-11 and PI-6: after a conflict the advice names the command that reads what was changed.
#[test]
fn the_advice_for_a_conflict_names_the_command_to_read_again() {
    let store = TestStore::new();
    store.append("t", "hi");
    store.json(&["pending", "append", "t", "--id", "a", "--message", "x"]);
    let edited = store.run(&["pending", "edit", "t", "a", "--message", "y", "--expect", "7", "--json"]);
    assert!(expect_advice(&edited).contains("agentstore pending list"), "{edited:?}");
    let appended = store.run(&["append", "t", "--message", "y", "--expect", "7", "--json"]);
    assert!(expect_advice(&appended).contains("agentstore threads"), "{appended:?}");
}

/// Tests ER-11: a text that the error contains by chance does not change the advice.
#[test]
fn a_folder_named_like_a_server_gets_no_advice_about_servers() {
    let store = TestStore::new();
    let folder = store.sibling_path("the server");
    fs::write(&folder, "").unwrap();
    let response = run(&["--store", &format!("file:{}", folder.display()), "append", "t", "--message", "hi"], "");
    assert!(response.code == 1 && !response.err.contains("server is running"), "{response:?}");
}

/// Tests ER-11 and FI-2: a command that finds a `file:` store locked says which stores can be combined.
#[test]
fn the_advice_for_a_locked_store_names_usable_compositions() {
    let store = TestStore::new();
    store.append("t", "hi");
    let url = format!("file:{}", store.path().display());
    let mut worker = Command::new(env!("CARGO_BIN_EXE_agentstore"))
        .args(["mailbox", "work", "--exec", "true", "--store", &url])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stderr = std::io::BufReader::new(worker.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut stderr, &mut line).unwrap();
    for args in [
        &["append", "t", "--message", "x"][..],
        &["mailbox", "enqueue", "t", "--run", "r"],
        &["pending", "append", "t", "--message", "x"],
    ] {
        let refused = store.run(&[args, &["--json"]].concat());
        let (error, advice) = (refused.error(), expect_advice(&refused));
        assert_eq!(
            (value_at(&error, "/cause"), value_at(&error, "/retryable")),
            (&json!("held"), &json!(true)),
            "{error}"
        );
        for expected_text in ["--mailbox sqlite:PATH", "postgres://", "docs/compositions.md"] {
            assert!(advice.contains(expected_text), "{advice}");
        }
    }
    worker.kill().unwrap();
    worker.wait().unwrap();
}
