//! `pending`: append, list, edit, retract, reorder and decide.

use agentstore::{
    AgentId, Commit, RunChange, RunId, RunStatus, TenantId, ThreadId, Ticket, WaitingReason, WaitingState,
};
use serde_json::json;

use crate::helpers::{TestStore, value_at};

fn pending_ids(store: &TestStore, thread: &str) -> Vec<String> {
    let queue = store.json(&["pending", "list", thread]);
    value_at(&queue, "/inputs")
        .as_array()
        .unwrap()
        .iter()
        .map(|input| value_at(input, "/id").as_str().unwrap().to_owned())
        .collect()
}

/// Tests PI-1, PI-2, PI-6, PI-7 and PI-8: the commands append, list, edit, reorder and retract input.
#[test]
fn input_is_queued_changed_ordered_and_retracted() {
    let store = TestStore::new();
    assert!(
        store
            .run_with_input(&["pending", "append", "t", "--id", "a"], "first\n")
            .expect_success()
            .out
            .contains("queued for thread t")
    );
    store.json(&["pending", "append", "t", "--id", "b", "--message", "second", "--at", "next_step", "--alone"]);
    store.json(&["pending", "append", "t", "--id", "c", "--message", "third", "--for", "r", "--only", "--barrier"]);
    let again = store.json(&["pending", "append", "t", "--id", "a", "--message", "first"]);
    assert_eq!((value_at(&again, "/deduplicated"), value_at(&again, "/inputs/0/revision")), (&json!(true), &json!(1)));
    assert_eq!(pending_ids(&store, "t"), ["a", "b", "c"]);
    let edited = store.json(&["pending", "edit", "t", "b", "--message", "other", "--expect", "2"]);
    assert_eq!(
        (value_at(&edited, "/revision"), value_at(&edited, "/delivery/boundary")),
        (&json!(4), &json!("next_step"))
    );
    store.json(&["pending", "reorder", "t", "c", "a", "b"]);
    let response = store.run(&["pending", "list", "t"]).expect_success().out;
    assert!(
        response.contains("next_step, alone") && response.contains("only for r") && response.contains("other"),
        "{response}"
    );
    let retracted = store.json(&["pending", "retract", "t", "a"]);
    assert_eq!(value_at(&retracted, "/body/message/blocks/0/text"), "first");
    assert_eq!(pending_ids(&store, "t"), ["c", "b"]);
    assert_eq!(value_at(&store.json(&["pending", "list"]), "/threads"), &json!(["t"]));
}

#[test]
fn refusals_of_pending_commands_say_why() {
    let store = TestStore::new();
    store.json(&["pending", "append", "t", "--id", "a", "--message", "x"]);
    for (args, code, expected_text) in [
        (vec!["pending", "edit", "t", "a"], 2, "nothing to change"),
        (vec!["pending", "edit", "t", "a", "--message", "y", "--expect", "7"], 1, "revision"),
        (vec!["pending", "edit", "t", "b", "--message", "y"], 1, "pending input `b` does not exist"),
        (vec!["pending", "retract", "t", "b"], 1, "pending input `b` does not exist"),
        (vec!["pending", "reorder", "t", "b"], 1, "order"),
        (vec!["pending", "append", "t", "--id", "a", "--message", "z"], 1, "already exists"),
        (vec!["pending", "append", "t", "--message", "z", "--at", "lunch"], 2, "boundary"),
        (vec!["pending", "decide", "t", "r", "k", "--resume"], 1, "is not waiting"),
        (vec!["pending", "decide", "t", "r", "k"], 2, "--resume"),
    ] {
        store.run(&args).expect_failure(code, &[expected_text]);
    }
    assert_eq!(pending_ids(&store, "t"), ["a"]);
}

/// Tests RU-16: the same decision can be repeated, and another one is refused.
#[test]
fn a_ticket_is_decided_once() {
    let store = TestStore::new();
    store.append("t", "hi");
    add_waiting_run(&store);
    let decide = ["pending", "decide", "t", "r", "k", "--resume", "--result", r#"{"n":1.0}"#];
    let first = store.json(&decide);
    assert_eq!(value_at(&store.json(&decide), "/inputs"), value_at(&first, "/inputs"));
    let queue = store.json(&["pending", "list", "t"]);
    assert_eq!(value_at(&queue, "/inputs/0/delivery/boundary"), "resume_input");
    store.run(&["pending", "decide", "t", "r", "k", "--cancel"]).expect_failure(1, &["decision"]);
    let response = store.run(&["pending", "list", "t"]).expect_success().out;
    assert!(response.contains("resume ticket k of run r"), "{response}");
}

/// Adds a run that waits for the ticket `k`.
fn add_waiting_run(store: &TestStore) {
    let mut waiting = WaitingState::new(WaitingReason::ToolPermission);
    waiting.tickets.push(Ticket::new("k"));
    let run_change = |status| RunChange::new(RunId::new("r").unwrap(), status).with_agent(AgentId::new("a").unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stores = agentstore::open(&format!("file:{}", store.path().display())).await.unwrap();
        let commits = stores.commits(&TenantId::default_tenant()).unwrap();
        for status in [RunStatus::Running, RunStatus::Waiting(Box::new(waiting))] {
            let _ =
                commits.commit(Commit::new(ThreadId::new("t").unwrap()).with_run(run_change(status))).await.unwrap();
        }
        stores.close().await.unwrap();
    });
}
