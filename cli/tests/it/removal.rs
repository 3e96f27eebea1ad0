//! Deletions of threads and tenants: they ask for confirmation, and delete nothing else.

use serde_json::json;

use crate::helpers::{TestStore, value_at};

fn thread_ids(store: &TestStore) -> Vec<String> {
    let document = store.json(&["threads"]);
    let threads = value_at(&document, "/threads").as_array().unwrap();
    threads.iter().map(|thread| value_at(thread, "/id").as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_thread_is_deleted_only_after_confirmation() {
    let store = TestStore::new();
    for thread in ["a", "b"] {
        store.append(thread, "hi");
    }
    for answer in ["", "n\n", "a\n"] {
        let response = store
            .run_with_input(&["delete", "a"], answer)
            .expect_failure(2, &["Delete thread a with 1 entry?", "--yes"]);
        assert!(response.err.contains("nothing was done"), "{response:?}");
    }
    assert_eq!(thread_ids(&store).len(), 2);
    assert_eq!(store.json(&["delete", "a", "--yes"]), json!({ "deleted": ["a"], "detached": [] }));
    assert_eq!(store.run_with_input(&["delete", "b"], "y\n").code, 0);
    assert_eq!(thread_ids(&store).len(), 0);
    store.run(&["delete", "a", "--yes"]).expect_failure(1, &["thread `a` does not exist"]);
}

/// Tests TN-8: the data of a tenant is deleted only after its name was typed twice. The data of other tenants stays.
#[test]
fn a_tenant_is_deleted_when_its_name_was_given_twice() {
    let store = TestStore::new();
    store.append("t", "kept");
    store.run(&["--tenant", "acme", "append", "t", "--message", "hi"]).expect_success();
    assert_eq!(store.json(&["tenants"]), json!({ "tenants": ["acme", "default"] }));
    for answer in ["", "acme\n", "acme\nacm\n", "y\ny\n"] {
        store.run_with_input(&["tenants", "delete", "acme"], answer).expect_failure(2, &["was not typed twice"]);
    }
    store.run(&["tenants", "delete", "other", "--yes"]).expect_failure(1, &["tenant `other` does not exist"]);
    assert_eq!(store.run_with_input(&["tenants", "delete", "acme"], "acme\nacme\n").code, 0);
    assert_eq!(store.json(&["tenants"]), json!({ "tenants": ["default"] }));
    assert_eq!(thread_ids(&store), ["t"]);
}

#[test]
fn tenants_do_not_see_each_other() {
    let store = TestStore::new();
    store.append("t", "mine");
    store.run(&["--tenant", "acme", "show", "t"]).expect_failure(1, &["thread `t` does not exist"]);
}
