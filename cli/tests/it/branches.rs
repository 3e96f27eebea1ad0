//! Commands for branches: fork, checkpoint, rewind, label and tree.

use serde_json::{Value, json};

use crate::helpers::{TestStore, value_at};

fn context_texts(store: &TestStore, args: &[&str]) -> Vec<String> {
    let context = store.json(&[&["context", "t"], args].concat());
    let messages = value_at(&context, "/messages").as_array().unwrap();
    messages.iter().map(|message| value_at(message, "/message/blocks/0/text").as_str().unwrap().to_owned()).collect()
}

fn store_with_three_messages() -> (TestStore, Vec<Value>) {
    let store = TestStore::new();
    let receipts = ["a", "b", "c"].map(|text| store.append("t", text));
    (store, receipts.iter().map(|receipt| value_at(receipt, "/head").clone()).collect())
}

#[test]
fn a_fork_does_not_change_the_old_branch() {
    let (store, ids) = store_with_three_messages();
    store.json(&["fork", "t", "--at", "@1", "--message", "x"]);
    assert_eq!(context_texts(&store, &[]), ["a", "x"]);
    assert_eq!(context_texts(&store, &["--at", "@3"]), ["a", "b", "c"]);
    assert_eq!(context_texts(&store, &["--at", ids[1].as_str().unwrap()]), ["a", "b"]);
    let tree = store.json(&["tree", "t"]);
    assert_eq!(value_at(&tree, "/leaves/0/path_length"), 3);
    assert_eq!(value_at(&tree, "/leaves/1/path_length"), 2);
    assert_eq!(value_at(&tree, "/head"), value_at(&tree, "/leaves/1/entry"));
    assert_eq!(value_at(&tree, "/branch_points/0"), &json!({ "entry": ids[0], "children": 2 }));
}

#[test]
fn a_rewind_moves_the_head_to_the_given_target() {
    let (store, ids) = store_with_three_messages();
    store.json(&["checkpoint", "t", "--label", "here"]);
    store.append("t", "d");
    let receipt = store.json(&["rewind", "t", "--label", "here"]);
    assert_eq!(value_at(&receipt, "/head"), &ids[2]);
    let receipt = store.json(&["rewind", "t", "--to", "@1"]);
    assert_eq!(value_at(&receipt, "/head"), &ids[0]);
    let receipt = store.json(&["rewind", "t", "--snapshot", "here"]);
    assert_eq!(value_at(&receipt, "/head"), &ids[2]);
    assert_eq!(store.json(&["rewind", "t", "--start"]).get("head"), None);
    assert_eq!(context_texts(&store, &[]), [""; 0]);
    store.run(&["rewind", "t", "--checkpoint", "7"]).expect_failure(1, &["checkpoint `7` does not exist"]);
}

#[test]
fn a_label_can_be_seen_and_cleared() {
    let (store, _) = store_with_three_messages();
    store.json(&["label", "t", "@2", "the good idea"]);
    let response = store.run(&["tree", "t"]).expect_success();
    assert!(response.out.contains("@2 user  b  [the good idea]"), "{}", response.out);
    store.json(&["label", "t", "@2", "--clear"]);
    assert!(!store.run(&["tree", "t"]).expect_success().out.contains("good idea"));
    store.run(&["label", "t", "@99", "x"]).expect_failure(1, &["entry `@99` does not exist"]);
}

#[test]
fn the_tree_is_drawn_in_human_readable_form() {
    let (store, _) = store_with_three_messages();
    for text in ["d", "e", "f"] {
        store.append("t", text);
    }
    store.json(&["fork", "t", "--at", "@2", "--message", "x"]);
    store.json(&["checkpoint", "t"]);
    let response = store.run(&["tree", "t"]).expect_success();
    let drawn: Vec<_> = response.out.lines().skip(2).collect();
    assert_eq!(
        drawn,
        [
            "● @1 user  a",
            "● @2 user  b",
            "├─● @3 user  c",
            "│ │ ⋯ 2 entries",
            "│ ○ @6 user  f  leaf, path of 6",
            "● @7 user  x",
            "◉ @8 checkpoint  number 0  leaf, path of 4  ← head",
            "2 entries not shown: --all shows every entry",
        ]
    );
    store.json(&["label", "t", "@5", "good"]);
    let all = store.run(&["tree", "t", "--all"]).expect_success();
    let drawn: Vec<_> = all.out.lines().collect();
    // Two lines about the thread come before the tree.
    assert_eq!(drawn.len(), 2 + 9, "{drawn:?}");
    for line in ["│ ● @4 user  d", "│ ● @5 user  e  [good]"] {
        assert!(drawn.contains(&line), "{line}: {drawn:?}");
    }
    assert!(drawn.iter().any(|line| line.contains("· @9 label  `good` for ")), "{drawn:?}");
}

#[test]
fn writing_to_a_missing_thread_does_not_create_it() {
    let (store, _) = store_with_three_messages();
    for args in [
        &["fork", "u", "--at", "@1", "--message", "x"][..],
        &["checkpoint", "u"],
        &["rewind", "u", "--start"],
        &["label", "u", "@1", "x"],
    ] {
        store.run(args).expect_failure(1, &["thread `u` does not exist"]);
    }
    assert_eq!(value_at(&store.json(&["threads"]), "/threads").as_array().unwrap().len(), 1);
}
