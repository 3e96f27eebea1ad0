//! Arguments that give a document: on the command line itself, in a file, or on standard input.

use std::fs;

use serde_json::{Value, json};

use crate::helpers::{TestStore, value_at};

/// More bytes than Linux allows in one argument.
const LARGE_BYTES: usize = 200_000;

fn file_argument(store: &TestStore, name: &str, text: &str) -> String {
    let path = store.sibling_path(name);
    fs::write(&path, text).unwrap();
    format!("@{}", path.display())
}

fn roles_and_lengths(store: &TestStore, thread: &str) -> Vec<(Value, usize)> {
    let context = store.json(&["context", thread]);
    let messages = value_at(&context, "/messages").as_array().unwrap();
    let role_and_length = |message: &Value| {
        (
            value_at(message, "/message/role").clone(),
            value_at(message, "/message/blocks/0/text").as_str().unwrap().len(),
        )
    };
    messages.iter().map(role_and_length).collect()
}

#[test]
fn a_message_comes_from_a_file_or_standard_input() {
    let store = TestStore::new();
    let long_text = "x".repeat(LARGE_BYTES);
    let document = json!({"role": "assistant", "blocks": [{"text": long_text}]}).to_string();
    let (text, reply) =
        (file_argument(&store, "text.txt", &format!("{long_text}\n")), file_argument(&store, "reply.json", &document));
    store.run(&["append", "t", "--message", &text]).expect_success();
    store.run(&["append", "t", "--message", &reply]).expect_success();
    store.run_with_input(&["append", "t", "--message", "-"], &document).expect_success();
    store.run_with_input(&["append", "t"], &document).expect_success();
    store.run_with_input(&["append", "t", "-m", "-"], "typed\n").expect_success();
    store.run(&["append", "t", "--message", "@@ada"]).expect_success();
    let (user, assistant) = (json!("user"), json!("assistant"));
    let large = |role: &Value| (role.clone(), LARGE_BYTES);
    assert_eq!(
        roles_and_lengths(&store, "t"),
        [large(&user), large(&assistant), large(&assistant), large(&assistant), (user.clone(), 5), (user.clone(), 4)]
    );
    store.run(&["fork", "t", "--at", "@1", "--message", &reply]).expect_success();
    assert_eq!(roles_and_lengths(&store, "t")[1..], [large(&assistant)]);
    store.run(&["pending", "append", "t", "--id", "i", "--message", &reply]).expect_success();
    store
        .run_with_input(&["pending", "edit", "t", "i", "--message", "-"], &document.replace("xxxx", "yyyy"))
        .expect_success();
    let queue = store.json(&["pending", "list", "t"]);
    assert!(value_at(&queue, "/inputs/0/body/message/blocks/0/text").as_str().unwrap().starts_with("yyy"));
}

#[test]
fn a_payload_and_a_result_come_from_a_file_or_standard_input() {
    let store = TestStore::new();
    let document = json!({"text": "x".repeat(LARGE_BYTES), "n": 1}).to_string();
    let payload = file_argument(&store, "payload.json", &format!("{document}\n"));
    store.run(&["mailbox", "enqueue", "t", "--run", "r", "--id", "a", "--payload", &payload]).expect_success();
    store
        .run_with_input(&["mailbox", "enqueue", "t", "--run", "r", "--id", "b", "--payload", "-"], &document)
        .expect_success();
    let list = store.json(&["mailbox", "list"]);
    for pointer in ["/dispatches/0/payload/text", "/dispatches/1/payload/text"] {
        assert_eq!(value_at(&list, pointer).as_str().unwrap().len(), LARGE_BYTES);
    }
    // The document is read, and then the store refuses the decision because the run does not exist.
    let decide = ["pending", "decide", "t", "r", "k", "--resume", "--result"];
    store.run(&[&decide[..], &[&payload]].concat()).expect_failure(1, &["is not waiting"]);
    store.run_with_input(&[&decide[..], &["-"]].concat(), &document).expect_failure(1, &["is not waiting"]);
}

#[test]
fn an_unreadable_document_is_reported_before_the_store_is_created() {
    let store = TestStore::new();
    let wrong_document = file_argument(&store, "bad.json", "{\"role\":\"king\"}");
    let bytes = store.sibling_path("bytes");
    fs::write(&bytes, b"\xff").unwrap();
    let bytes = format!("@{}", bytes.display());
    let enqueue = ["mailbox", "enqueue", "t", "--run", "r", "--payload"];
    for (args, input, code, expected_text) in [
        (&["append", "t", "--message", "@/not/there"][..], "", 1, "`/not/there` cannot be read"),
        (&["append", "t", "--message", "@"], "", 2, "`--message`: a file name must follow"),
        (&["append", "t", "--message", &wrong_document], "", 2, "bad.json`: it is not a message"),
        (&["append", "t", "--message", &bytes], "", 2, "bytes`: it is not UTF-8 text"),
        (&["append", "t"], "{\"role\":\"king\"}", 2, "standard input: it is not a message"),
        (&["append", "t", "--message", "-"], " \n", 2, "standard input contains no message"),
        (&[&enqueue[..], &["@/not/there"]].concat(), "", 1, "`/not/there` cannot be read"),
        (&[&enqueue[..], &["-"]].concat(), "{", 2, "standard input: it is not a JSON value"),
        (&[&enqueue[..], &["{"]].concat(), "", 2, "`--payload`: it is not a JSON value"),
    ] {
        store.run_with_input(args, input).expect_failure(code, &[expected_text]);
        assert!(!store.path().exists(), "{args:?}");
    }
}
