//! `doctor`: findings about the stores of all parts, and exit codes (CP-6).

use serde_json::{Value, json};

use crate::helpers::{TestStore, value_at};

/// A healthy store has the exit code 0, also with notes; each part is listed, with its figures.
#[test]
fn a_healthy_store_has_no_problem() {
    let store = TestStore::new();
    store.append("t", "hi");
    let queue = format!("sqlite:{}", store.sibling_path("queue.db").display());
    store.json(&["--mailbox", &queue, "mailbox", "enqueue", "t", "--run", "r"]);
    let response = store.run(&["doctor", "--mailbox", &queue]).expect_success();
    let expected = [
        "threads file:",
        "durability each write is synced",
        "a read takes ",
        " MiB free",
        "mailbox sqlite:",
        "journal_mode wal",
        "mailbox: 1 waiting, the oldest for ",
        "note mailbox beside threads",
        "nothing is wrong, ",
    ];
    for expected in expected {
        assert!(response.out.contains(expected), "`{expected}` is not in {}", response.out);
    }
    let document = store.json(&["doctor", "--mailbox", &queue]);
    assert_eq!(value_at(&document, "/parts/1/part"), &json!("mailbox"));
    assert_eq!(value_at(&document, "/parts/1/mailbox_lag/waiting"), &json!(1));
    for pointer in
        ["/parts/0/facts", "/parts/0/read_us", "/parts/0/free_bytes", "/parts/0/identity", "/findings/0/advice"]
    {
        let _found = value_at(&document, pointer);
    }
    assert_eq!(value_at(&document, "/parts/0/outbox_lag"), &json!({"waiting": 0, "oldest_ms": null}));
}

/// Damage that an opening finds is a problem: the exit code is 1, and the advice names the command that helps.
#[test]
fn damage_is_a_problem() {
    let store = TestStore::new();
    store.append("t", "hi");
    let folder = std::fs::read_dir(store.path().join("tenants")).unwrap().next().unwrap().unwrap().path();
    let logs = std::fs::read_dir(folder).unwrap().map(|log| log.unwrap().path());
    let log = logs.into_iter().find(|log| log.file_name().unwrap().to_string_lossy().starts_with("t.")).unwrap();
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[9] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    // Without its index, an opening reads the logs.
    std::fs::remove_dir_all(store.path().join("index")).unwrap();
    let response = store.run(&["doctor", "--json"]);
    assert_eq!((response.code, response.err.as_str()), (1, ""), "{response:?}");
    let document: Value = serde_json::from_str(&response.out).unwrap();
    assert_eq!(value_at(&document, "/parts/0/findings/0/severity"), &json!("problem"));
    assert!(value_at(&document, "/parts/0/findings/0/advice").as_str().unwrap().contains("agentstore verify"));
}

/// A missing store is an error, and `doctor` does not create it.
#[test]
fn a_missing_store_is_not_created() {
    let store = TestStore::new();
    assert_eq!(store.run(&["doctor"]).code, 1);
    assert!(!store.path().exists());
}
