//! Parts of a store in other stores: `--settings` and `--blobs`. Those of `--mailbox` are in `work.rs`.

use serde_json::json;

use crate::helpers::{TestStore, run, value_at};

/// Tests CP-1 and CP-2: config is in the store of `--settings`, the bytes of blobs are in that of `--blobs`, and the
/// rest is in that of `--store`.
#[test]
fn settings_and_blobs_can_be_in_other_stores() {
    let store = TestStore::new();
    let url = |name: &str| format!("file:{}", store.sibling_path(name).display());
    let (settings, blobs) = (url("settings"), url("blobs"));
    let composed = |args: &[&str]| store.json(&[&["--settings", &settings, "--blobs", &blobs], args].concat());
    composed(&["append", "t", "--message", "hi"]);
    composed(&["config", "set", "limits", "tokens", "--value", "1"]);
    let file = store.write_file("image", "bytes of an image");
    let put = composed(&["blobs", "put", &file]);
    let listed = composed(&["threads"]);
    assert_eq!((value_at(&listed, "/settings"), value_at(&listed, "/blobs")), (&json!(settings), &json!(blobs)));
    assert_eq!(value_at(&listed, "/capabilities/fenced"), &json!(true));

    let records = |url: &str| {
        let output = run(&["--store", url, "--json", "config", "list", "limits"], "").expect_success().out;
        output.matches("\"tokens\"").count()
    };
    assert_eq!((records(store.url()), records(&settings)), (0, 1));
    // What is known about a blob is with the threads, and its bytes are not.
    let hash = value_at(&put, "/hash").as_str().unwrap();
    let out = store.sibling_path("copy").display().to_string();
    store.run(&["blobs", "get", hash, "--out", &out]).expect_failure(1, &[hash]);
    composed(&["blobs", "get", hash, "--out", &out]);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), "bytes of an image");

    // Another spelling of a path is the same store.
    let same = store.json(&["threads", "--settings", &store.url().replace("/data", "/./data")]);
    assert!(same.get("settings").is_none(), "{same}");
}

/// Tests CP-1: a store that cannot have its part is refused, with both stores and the way out.
#[test]
fn a_store_that_cannot_have_its_part_is_refused() {
    let store = TestStore::new();
    store.append("t", "hi");
    let queue = format!("sqlite:{}", store.sibling_path("queue.db").display());
    run(&["--store", &queue, "mailbox", "enqueue", "t", "--run", "r"], "").expect_success();
    let expected = ["settings in", &queue, "beside threads in", store.url(), "open a store that does"];
    store.run(&["threads", "--settings", &queue]).expect_failure(1, &expected);
    let expected = ["blobs in `memory:`", "survive", "keep the blobs in a store that survives as much"];
    store.run(&["threads", "--blobs", "memory:"]).expect_failure(1, &expected);
    let missing = format!("file:{}", store.sibling_path("missing").display());
    store.run(&["threads", "--blobs", &missing]).expect_failure(1, &["blobs in", "missing"]);
}

/// Tests WK-12: a command finds the stores of all parts in its environment, in every folder.
#[test]
fn a_command_finds_the_stores_of_all_parts() {
    let store = TestStore::new();
    let url = |name: &str| format!("file:{}", store.sibling_path(name).display());
    let (settings, blobs) = (url("settings"), url("blobs"));
    let composed = |args: &[&str]| store.json(&[&["--settings", &settings, "--blobs", &blobs], args].concat());
    composed(&["append", "t", "--message", "hi"]);
    composed(&["mailbox", "enqueue", "t", "--run", "r"]);
    let exec = "echo \"$AGENTSTORE_SETTINGS $AGENTSTORE_BLOBS ${AGENTSTORE_MAILBOX-unset}\"";
    let args = ["--settings", &settings, "--blobs", &blobs, "mailbox", "work", "--until-idle", "--exec", exec];
    store.run(&args).expect_success();
    let list = composed(&["mailbox", "list"]);
    let output = value_at(&list, "/dispatches/0/result/output").as_str().unwrap();
    assert_eq!(output.trim(), format!("{settings} {blobs} unset"));
}
