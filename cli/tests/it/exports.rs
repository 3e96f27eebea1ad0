//! What `export` prints about losses.

use serde_json::Value;

use crate::helpers::{TestStore, fixture, value_at};

/// Imports a session of Claude Code with subagents. Returns the id of its main thread.
fn import_session(store: &TestStore) -> String {
    let file = fixture("claude-code/subagents/5e550000-0000-4000-8000-000000000003.jsonl");
    let documents = store.run(&["import", file.to_str().unwrap(), "--json"]).expect_success().documents();
    value_at(&documents[0], "/thread").as_str().unwrap().to_owned()
}

#[test]
fn losses_are_printed_as_a_line_for_each_kind_with_the_first_entries() {
    let store = TestStore::new();
    let file = fixture("claude-code/parallel-calls.jsonl");
    let report = store.json(&["import", file.to_str().unwrap()]);
    let thread = value_at(&report, "/thread").as_str().unwrap();
    let out = store.sibling_path("out.jsonl");
    let exported = store.run(&["export", thread, "--format", "codex", "--output", out.to_str().unwrap()]);
    assert_eq!(exported.code, 0, "{exported:?}");
    let lines: Vec<_> = exported.err.lines().filter(|line| line.starts_with("lost: ")).collect();
    let kinds: Vec<_> = lines.iter().map(|line| line.split(' ').nth(1).unwrap()).collect();
    let mut sorted = kinds.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(kinds, sorted, "{exported:?}");
    let entry_text = |end: &str| format!("entry 0c0de000-0000-4000-8000-0000000000{end}");
    let merged_line = format!(
        "lost: merged (3): {}, {}, {}: the entries of one message are one line",
        entry_text("03"),
        entry_text("04"),
        entry_text("06")
    );
    assert!(lines.contains(&merged_line.as_str()), "{merged_line}: {exported:?}");
    let raw_line = lines.iter().find(|line| line.starts_with("lost: raw ")).unwrap();
    assert!(
        raw_line.contains(&format!("{}, ", entry_text("01")))
            && raw_line.contains(" and ")
            && raw_line.contains(" others: "),
        "{raw_line}"
    );
}

#[test]
fn child_threads_that_are_left_out_are_printed_and_in_the_document() {
    let store = TestStore::new();
    let thread = import_session(&store);
    let out = store.sibling_path("out.jsonl");
    let args = ["export", &thread, "--format", "pi", "--output", out.to_str().unwrap()];
    let printed = store.run(&args);
    assert_eq!(printed.code, 0, "{printed:?}");
    let line = printed.err.lines().find(|line| line.starts_with("lost: child_thread (")).unwrap();
    assert!(line.contains(&format!("thread {thread}.agent-a1")), "{line}");
    std::fs::remove_file(&out).unwrap();
    let document = store.json(&args);
    let losses = value_at(&document, "/losses").as_array().unwrap();
    let is_child = |loss: &&Value| loss["kind"] == "child_thread" && loss.get("entry").is_none();
    let children: Vec<_> = losses.iter().filter(is_child).map(|loss| loss["thread"].as_str().unwrap()).collect();
    assert!(children.contains(&format!("{thread}.agent-a1").as_str()), "{children:?}");
}
