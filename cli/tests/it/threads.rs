//! Commands for threads: append, threads, show, context and runs.

use serde_json::json;

use crate::helpers::{TestStore, run, value_at};

#[test]
fn append_creates_the_thread_and_returns_a_receipt() {
    let store = TestStore::new();
    let receipt = store.append("t-1", "hello");
    assert_eq!((value_at(&receipt, "/thread"), value_at(&receipt, "/version")), (&json!("t-1"), &json!(1)));
    assert_eq!((value_at(&receipt, "/first_seq"), value_at(&receipt, "/deduplicated")), (&json!(1), &json!(false)));
    assert_eq!(value_at(&receipt, "/head"), value_at(&receipt, "/entry_ids/0"));
    let response = store.run_with_input(&["append", "t-1"], "from standard input\n").expect_success();
    assert!(response.out.contains("appended to thread t-1, version 2"), "{}", response.out);
    let context = store.json(&["context", "t-1"]);
    assert_eq!(value_at(&context, "/messages/1/message/blocks/0/text"), "from standard input");
    assert_eq!(value_at(&context, "/messages/0/message/role"), "user");
}

/// Tests CM-10 and CM-12: a repeat with the key gets the first receipt. Another message with the same key is refused.
#[test]
fn a_key_makes_an_append_safe_to_repeat() {
    let store = TestStore::new();
    let first = store.json(&["append", "t", "--message", "once", "--key", "k"]);
    let again = store.json(&["append", "t", "--message", "once", "--key", "k"]);
    assert_eq!((value_at(&again, "/version"), value_at(&again, "/deduplicated")), (&json!(1), &json!(true)));
    assert_eq!(value_at(&again, "/entry_ids"), value_at(&first, "/entry_ids"));
    let other = store.run(&["append", "t", "--message", "other", "--key", "k", "--json"]).expect_failure(1, &[]);
    assert_eq!(value_at(&other.error(), "/kind"), "idempotency_mismatch");
}

#[test]
fn a_stale_expectation_refuses_the_append() {
    let store = TestStore::new();
    store.json(&["append", "t", "--message", "one", "--expect", "absent"]);
    store.json(&["append", "t", "--message", "two", "--expect", "1"]);
    for stale_version in ["absent", "1", "7"] {
        let error = store
            .run(&["append", "t", "--message", "x", "--expect", stale_version, "--json"])
            .expect_failure(1, &[])
            .error();
        assert_eq!(
            (value_at(&error, "/kind"), value_at(&error, "/actual/version")),
            (&json!("conflict"), &json!(2)),
            "{stale_version}"
        );
    }
    store.json(&["append", "new", "--message", "x", "--expect", "0"]);
}

/// Tests TH-15 and FI-1: the thread with the latest activity is first, and the log file of each thread is JSON Lines.
#[test]
fn threads_are_listed_by_last_activity_with_their_log_files() {
    let store = TestStore::new();
    for thread in ["a", "b", "a/../b 🦀"] {
        store.append(thread, "hi");
    }
    store.append("b", "again");
    let document = store.json(&["threads"]);
    assert_eq!(value_at(&document, "/capabilities/survives"), "power");
    let threads = value_at(&document, "/threads").as_array().unwrap();
    assert_eq!(value_at(&threads[0], "/id"), "b");
    assert_eq!((threads.len(), value_at(&threads[0], "/version")), (3, &json!(2)));
    for thread in threads {
        let log = std::fs::read_to_string(value_at(thread, "/log_file").as_str().unwrap()).unwrap();
        assert!(log.lines().all(|line| line.starts_with('{')), "{log}");
    }
    assert_eq!(value_at(&store.json(&["threads", "--limit", "1"]), "/threads").as_array().unwrap().len(), 1);
    let id_prefix = "0b9d7c1e-2f4a-4c57-9d5e-2b7e3f1a9c40.agent-a7f3c21-with-a-long-name";
    for end in ["1", "2"] {
        store.append(&format!("{id_prefix}-{end}"), "hi");
    }
    let response = store.run(&["threads"]).expect_success();
    assert!(response.out.lines().any(|line| line.starts_with(&format!("{id_prefix}-1 "))), "{}", response.out);
    assert!(!response.out.contains(".jsonl"), "{}", response.out);
    assert!(
        response.out.contains("survives a power cut") && response.out.contains("last activity"),
        "{}",
        response.out
    );
}

#[test]
fn show_prints_a_line_for_the_thread_and_each_entry() {
    let store = TestStore::new();
    for number in 0..60 {
        store.append("t", &format!("message {number}"));
    }
    let lines = store.run(&["show", "t", "--json"]).expect_success().documents();
    assert_eq!(value_at(&lines[0], "/thread/version"), 60);
    let seqs: Vec<_> = lines[1..].iter().map(|line| value_at(line, "/seq").as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=60).collect::<Vec<_>>());
    let response = store.run(&["show", "t"]).expect_success();
    assert!(response.out.contains("message 59") && response.out.contains("@60 user"), "{}", response.out);
}

/// Tests ID-10: JSON comes back with the same spelling of numbers and the same order of keys.
#[test]
fn numbers_and_the_order_of_keys_are_preserved() {
    let store = TestStore::new();
    let message = r#"{"role":"assistant","blocks":[{"tool_use":{"id":"c","name":"n","input":{"b":1.0,"a":12345678901234567890,"e":1e2}}}]}"#;
    store.json(&["append", "t", "--message", message]);
    for command in ["show", "context"] {
        let response = store.run(&[command, "t", "--json"]).expect_success();
        assert!(response.out.contains(r#"{"b":1.0,"a":12345678901234567890,"e":1e2}"#), "{}", response.out);
    }
}

#[test]
fn a_context_says_what_was_repaired() {
    let store = TestStore::new();
    let call = r#"{"role":"assistant","blocks":[{"tool_use":{"id":"c-1","name":"n","input":{}}}]}"#;
    store.json(&["append", "t", "--message", call]);
    let context = store.json(&["context", "t"]);
    assert_eq!(value_at(&context, "/messages").as_array().unwrap().len(), 2);
    assert_eq!(value_at(&context, "/repairs/0/kind"), "open_call_answered");
    assert_eq!(value_at(&context, "/messages/1/synthetic"), true);
    let kept = store.json(&["context", "t", "--open-calls", "keep"]);
    assert_eq!((value_at(&kept, "/messages").as_array().unwrap().len(), value_at(&kept, "/repairs")), (1, &json!([])));
    let response = store.run(&["context", "t"]).expect_success();
    assert!(
        response.out.contains("a call was answered with an error because no result was recorded (call c-1)"),
        "{}",
        response.out
    );
}

#[test]
fn stored_text_cannot_control_the_terminal() {
    let store = TestStore::new();
    store.append("t", "\u{1b}]0;title\u{7}\u{1b}[2Jgone");
    for command in ["show", "tree", "context"] {
        let response = store.run(&[command, "t"]).expect_success();
        assert!(!response.out.contains('\u{1b}') && response.out.contains("gone"), "{command}: {:?}", response.out);
    }
}

#[test]
fn a_store_in_memory_keeps_nothing_after_the_command() {
    let response = run(&["append", "t", "--message", "hi", "--store", "memory:", "--json"], "").expect_success();
    assert_eq!(value_at(&response.documents()[0], "/version"), 1);
    run(&["show", "t", "--store", "memory:"], "").expect_failure(1, &["thread `t` does not exist"]);
    let response = run(&["threads", "--store", "memory:"], "").expect_success();
    assert!(response.out.contains("survives nothing"), "{}", response.out);
}
