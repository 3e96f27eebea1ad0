//! The command line: help, exit codes, errors and the environment.

use std::{fs::File, process::Command};

use serde_json::json;

use crate::helpers::{TestStore, closed_pipe, fixture, run, value_at};

const COMMANDS: &[&str] = &[
    "demo",
    "import",
    "export",
    "threads",
    "show",
    "tree",
    "context",
    "runs",
    "append",
    "fork",
    "checkpoint",
    "rewind",
    "label",
    "maintain",
    "mailbox",
    "config",
    "profile",
    "registry",
    "audit",
    "effects",
    "traces",
    "dataset",
    "eval",
    "delete",
    "tenants",
    "verify",
    "repair",
    "conformance",
];

/// The help of the commands for sessions and contexts says what their exit codes mean.
#[test]
fn the_help_says_what_exit_codes_mean() {
    for command in [
        "import",
        "export",
        "continue-in",
        "threads",
        "tree",
        "context",
        "check",
        "convert",
        "compact",
        "step",
        "compare",
        "config",
        "profile",
        "registry",
        "audit",
        "effects",
        "traces",
        "dataset",
        "eval",
    ] {
        let response = run(&[command, "--help"], "").expect_success();
        for part in ["Example", "Exit codes: 0 ", "2 "] {
            assert!(response.out.contains(part), "{command}: {}", response.out);
        }
    }
}

#[test]
fn every_command_shows_an_example() {
    let general_help = run(&["--help"], "").expect_success();
    for command in COMMANDS {
        assert!(general_help.out.contains(&format!("\n  {command} ")), "{command}: {}", general_help.out);
        let response = run(&[command, "--help"], "").expect_success();
        assert!(response.out.contains("Example"), "{command}: {}", response.out);
        for option in ["--store", "--tenant", "--json"] {
            assert!(response.out.contains(option), "{command}: {}", response.out);
        }
    }
}

/// Tests CP-1: an invalid command line ends with exit code 2, and the error says what is wrong.
#[test]
fn invalid_arguments_exit_with_2() {
    for (args, expected_text) in [
        (
            &["threads", "--store", "redis:x"][..],
            "the scheme `redis` is unknown; known schemes are `memory:`, `file:PATH`, `sqlite:PATH`, `postgres://…` and `nats://…`",
        ),
        (&["show"], "THREAD"),
        (&["show", ""], "invalid thread id: it is empty"),
        (&["--tenant", " ", "threads"], "invalid tenant id: it is blank"),
        (&["rewind", "t"], "--start"),
        (&["rewind", "t", "--start", "--checkpoint", "1"], "cannot be used with"),
        (&["label", "t", "e"], "TEXT"),
        (&["append", "t", "--expect", "many", "--message", "x"], "it is neither a number nor `absent`"),
        (&["append", "t", "--message", "{\"role\":\"king\"}"], "it is not a message"),
        (&["append", "t", "--store", "memory:"], "standard input contains no message"),
        (&["import", "--format", "word", "x"], "possible values: auto, pi, pi-v1"),
        (&["continue-in", "word", "t"], "possible values: pi, pi-v1"),
        (&["export", "t", "--format", "agent-core", "--json", "--store", "memory:"], "--output"),
        (&["fly"], "unrecognized subcommand"),
        (&["repair", "--json"], "add `--dry-run` for the plan, or `--yes`"),
        (&["threads", "--mailbox", "redis:x"], "invalid value for `--mailbox`"),
        (
            &["threads", "--settings", "file:"],
            "invalid value for `--settings`: invalid store url: `file:` needs the path",
        ),
        (&["threads", "--blobs", "redis:x"], "invalid value for `--blobs`"),
        (&["bench", "--settings", "memory:"], "omit `--settings`, and unset AGENTSTORE_SETTINGS"),
        (&["migrate", "--blobs", "memory:"], "`migrate` works on one store"),
        (&["bench", "--mailbox", "memory:"], "`bench` works on one store"),
        (&["migrate", "--mailbox", "memory:"], "`migrate` works on one store"),
        (&["conformance", "--mailbox", "memory:"], "`conformance` works on one store"),
        (&["config", "set", "limits", "tokens", "--value", "1", "--text", "1"], "cannot be used with"),
        (
            &["config", "set", "limits", "tokens", "--value", "1", "--expect", "many"],
            "it is neither a number nor `absent`",
        ),
        (&["profile", "get", "u1", "language"], "it is none of `user:ID`, `agent:ID`, `system`"),
        (&["registry", "show", "coder"], "it must be `KIND/ID`"),
        (&["registry", "archive", "agent/coder@1", "--store", "memory:"], "not one of its versions"),
        (&["registry", "diff", "agent/coder@1", "3", "--store", "memory:"], "two versions of one definition"),
        (&["effects", "list", "--run", "r"], "--thread"),
        (&["effects", "list", "--status", "lost"], "it is none of `intended`"),
        (&["effects", "resolve", "t", "r", "e"], "--done"),
        (&["effects", "resolve", "t", "r", "e", "--retry", "--done", "1"], "cannot be used with"),
        (&["effects", "resolve", "t", "r", "e", "--done", "{"], "invalid value for `--done`"),
        (&["traces", "list", "--since", "soon"], "expected an age such as `7d`, a date"),
        (&["traces", "pin", "r"], "--holder"),
        (&["traces", "import"], "<FILE>"),
        (&["dataset", "put", "a", "--input", "{"], "invalid value for `--input`"),
        (&["dataset", "put", "a", "--input", "1", "--expect", "many"], "it is neither a number nor `absent`"),
        (&["dataset", "put", "a", "--input", "1", "--dataset", "d@1"], "it cannot be a version"),
        (&["dataset", "show", "d@new"], "it must be `DATASET@VERSION`"),
        (&["eval", "run", "--dataset", "d"], "--exec"),
        (&["eval", "run", "--dataset", "d", "--exec", "true", "--cell", "x"], "it must be `NAME=JSON`"),
        (&["eval", "run", "--dataset", "d", "--exec", "true", "--cell", "x={"], "it is not a JSON value"),
        (&["eval", "purge"], "--older-than"),
        (&["audit", "list", "--since", "soon"], "expected an age such as `7d`, a date"),
        (&["audit", "list", "--resource", "/"], "a part of its path is empty"),
        (&["mailbox", "work"], "--exec"),
        (&["mailbox", "work", "--exec", "true", "--lease", "soon"], "expected a length of time such as"),
    ] {
        run(args, "").expect_failure(2, &[expected_text]);
    }
}

/// Tests ER-7: with `--json`, an error about the command line is printed as an error document.
#[test]
fn a_usage_error_can_be_printed_as_json() {
    let response = run(&["rewind", "t", "--json"], "").expect_failure(2, &[]);
    let error = response.error();
    assert_eq!((value_at(&error, "/kind"), value_at(&error, "/outcome")), (&json!("invalid"), &json!("not_applied")));
    assert!(value_at(&error, "/message").as_str().unwrap().contains("--checkpoint"), "{error}");
}

/// Tests ER-6 and ER-7: an error says for which record the command failed, and what the user can do.
#[test]
fn an_error_names_the_record_and_what_to_do() {
    let store = TestStore::new();
    store.append("t", "hi");
    store
        .run(&["show", "other"])
        .expect_failure(1, &["error: thread `other` does not exist", "what to do", "agentstore threads"]);
    store.run(&["context", "t", "--at", "e-9"]).expect_failure(1, &["entry `e-9` does not exist", "agentstore tree"]);
    let error = store.run(&["show", "other", "--json"]).expect_failure(1, &[]).error();
    for (field, value) in [("/kind", "not_found"), ("/what", "thread"), ("/id", "other"), ("/outcome", "not_applied")] {
        assert_eq!(value_at(&error, field), value);
    }
    assert_eq!(value_at(&error, "/retryable"), false);
}

#[test]
fn reading_does_not_create_a_missing_store() {
    let store = TestStore::new();
    for command in ["threads", "verify", "tenants", "runs"] {
        let response = store.run(&[command]);
        assert_eq!(response.code, 1, "{command}: {response:?}");
        assert!(response.err.contains("data"), "{command}: {response:?}");
        assert!(!store.path().exists(), "{command}");
    }
}

#[test]
fn append_without_a_message_creates_nothing() {
    let store = TestStore::new();
    store.run(&["append", "t"]).expect_failure(2, &["standard input contains no message"]);
    assert!(!store.path().exists());
}

#[test]
fn the_environment_names_a_store() {
    let store = TestStore::new();
    store.append("t", "hi");
    let output = Command::new(env!("CARGO_BIN_EXE_agentstore"))
        .args(["threads", "--json"])
        .env("AGENTSTORE_URL", format!("file:{}", store.path().display()))
        .output()
        .unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains(r#""id":"t""#));
}

#[test]
fn without_a_url_the_store_is_in_the_current_folder() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_agentstore"))
        .args(["append", "t", "--message", "hi"])
        .current_dir(folder.path())
        .env_remove("AGENTSTORE_URL")
        .output()
        .unwrap();
    assert!(output.status.success());
    assert!(folder.path().join("agentstore-data").is_dir());
}

#[test]
fn a_commit_whose_output_fails_is_reported_as_unknown() {
    let store = TestStore::new();
    let full_device = || File::options().write(true).open("/dev/full").unwrap();
    let response = store.run_with_stdout(&["append", "t", "--message", "hi", "--json"], full_device());
    let error = response.error();
    assert_eq!(
        (response.code, value_at(&error, "/outcome"), value_at(&error, "/retryable")),
        (1, &json!("unknown"), &json!(false))
    );
    assert_eq!(value_at(&store.json(&["context", "t"]), "/messages").as_array().unwrap().len(), 1, "{response:?}");
    let response = store.run_with_stdout(&["threads", "--json"], full_device());
    assert_eq!((response.code, value_at(&response.error(), "/outcome")), (1, &json!("not_applied")));
}

#[test]
fn an_import_continues_if_its_output_is_closed() {
    let store = TestStore::new();
    let [last, first] = ["pi/v1-turns.jsonl", "pi/v3-tree.jsonl"].map(fixture);
    // These are more reports than fit into the buffer of the output.
    let files = [vec![first.to_str().unwrap(); 60], vec![last.to_str().unwrap()]].concat();
    assert_eq!(store.run_with_stdout(&[&["import"], &files[..]].concat(), closed_pipe()).code, 0);
    assert_eq!(value_at(&store.json(&["threads"]), "/threads").as_array().unwrap().len(), 2);
}
