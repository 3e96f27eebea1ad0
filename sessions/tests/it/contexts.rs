//! Tests of the context of imported threads. The expected contexts were written by hand from the rules of the
//! formats.

use std::path::Path;

use serde_json::{Value, json};
use store_core::{CommitCoordinator, ContextRequest, EntryId, ThreadId};

use crate::helpers::{fixtures, import_one, new_store, read_json};

async fn check_context(name: &str, at: Option<&str>, golden_file: &str) {
    let commits = new_store();
    let report = import_one(&*commits, &fixtures().join(name)).await;
    check_thread(&*commits, report.thread.as_ref().unwrap(), at, golden_file).await;
}

/// Compares the context of an entry, or of the head, with a golden file.
pub(crate) async fn check_thread(
    commits: &dyn CommitCoordinator,
    thread: &ThreadId,
    at: Option<&str>,
    golden_file: &str,
) {
    let request = at.map_or_else(ContextRequest::head, |at| ContextRequest::at(EntryId::new(at).unwrap()));
    let context = commits.threads().load_context(thread, request).await.unwrap().context;
    let messages: Vec<_> = context
        .messages
        .iter()
        .map(|found| {
            let message = serde_json::to_value(&found.message).unwrap();
            let mut short = json!({"entry": found.entry, "role": message["role"], "blocks": message["blocks"]});
            if found.synthetic {
                short["synthetic"] = Value::Bool(true);
            }
            short
        })
        .collect();
    let mut repairs: Vec<_> = context
        .repairs
        .iter()
        .map(|repair| {
            let repair = serde_json::to_value(repair).unwrap();
            let text = |name: &str| repair[name].as_str().unwrap_or_default().to_owned();
            format!("{} {} {}", text("entry"), text("kind"), text("tool_use_id"))
        })
        .collect();
    repairs.sort();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(golden_file);
    let expected = read_json(&path);
    let found = json!({"messages": messages, "repairs": repairs});
    assert_eq!(found, expected, "{golden_file}: {found:#}");
}

#[tokio::test]
async fn the_context_of_a_branched_pi_file_is_the_path_of_its_last_line() {
    check_context("pi/v2-branches.jsonl", None, "pi-v2-branches.context.json").await;
    check_context("pi/v3-tree.jsonl", None, "pi-v3-tree.context.json").await;
    check_context("pi/v3-tree.jsonl", Some("b000000c"), "pi-v3-tree.b000000c.context.json").await;
}

#[tokio::test]
async fn only_the_last_compaction_of_a_pi_path_counts() {
    check_context("pi/v2-branches.jsonl", Some("a0000006"), "pi-v2-branches.a0000006.context.json").await;
    check_context("pi/v3-compacted-twice.jsonl", None, "pi-v3-compacted-twice.context.json").await;
}

#[tokio::test]
async fn open_calls_are_answered_and_orphans_left_out() {
    check_context("agent-core/open-calls.jsonl", None, "agent-core-open-calls.context.json").await;
}
