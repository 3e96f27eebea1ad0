//! `profile`: values of owners are set, read, listed, deleted and cleared.

use serde_json::{Value, json};

use crate::{
    helpers::{TestStore, value_at},
    postgres::on_files_and_postgres,
};

fn keys(store: &TestStore, owner: &str) -> Vec<Value> {
    let list = store.json(&["profile", "list", owner]);
    value_at(&list, "/values").as_array().unwrap().iter().map(|value| value_at(value, "/id").clone()).collect()
}

/// Tests PF-1, PF-3, PF-4, PF-6 and PF-7: values belong to one owner, and are read, listed and deleted.
#[test]
fn values_belong_to_one_owner() {
    on_files_and_postgres(|store| {
        for owner in ["user:u1", "agent:u1", "system", "global", "custom:u1"] {
            store.json(&["profile", "set", owner, "language", "--value", &json!(owner).to_string()]);
        }
        let file = store.write_file("notes.json", r#"{"n":1.0}"#);
        store.json(&["profile", "set", "user:u1", "a/notes", "--value", &format!("@{file}")]);
        assert_eq!(keys(store, "user:u1"), [json!("a/notes"), json!("language")]);
        assert_eq!(keys(store, "agent:u1"), [json!("language")]);
        let value = store.json(&["profile", "get", "user:u1", "language"]);
        assert_eq!((value_at(&value, "/owner"), value_at(&value, "/value")), (&json!("user:u1"), &json!("user:u1")));
        let response = store.run(&["profile", "get", "user:u1", "a/notes"]).expect_success().out;
        assert!(response.contains("user:u1 a/notes, revision") && response.contains("\"n\": 1.0"), "{response}");
        let response = store.run(&["profile", "list", "user:u1"]).expect_success().out;
        assert!(response.starts_with("key ") && response.contains(r#"{"n":1.0}"#), "{response}");

        for deleted in [true, false] {
            let expected = json!({"owner": "user:u1", "id": "language", "deleted": deleted});
            assert_eq!(store.json(&["profile", "delete", "user:u1", "language"]), expected);
        }
        let response = store.run(&["profile", "delete", "user:u1", "language"]).expect_success().out;
        assert_eq!(response, "user:u1 language does not exist: nothing was deleted\n");
        let delete = |expect| store.run(&["profile", "delete", "system", "none", "--expect", expect, "--json"]);
        assert_eq!(value_at(&delete("absent").expect_success().documents()[0], "/deleted"), false);
        delete("1")
            .expect_failure(1, &["conflict in profile value `system none`: expected revision 1, but found none"]);
        let response = store.run(&["profile", "get", "user:u1", "language"]);
        response.expect_failure(1, &["profile value `user:u1 language` does not exist", "agentstore profile list"]);
        let set = store.run_with_input(&["profile", "set", "user:u1", "language", "--json"], "\"fr\"");
        let set = set.expect_success().documents().remove(0);
        assert!(value_at(&set, "/revision").as_u64() > value_at(&value, "/revision").as_u64(), "{set}");
        assert!(store.run(&["profile", "list", "thread:t"]).expect_success().out.contains("thread:t has no values"));
    });
}

/// Tests PF-8: without an owner, the owners are listed, and each of them is named again as it is printed.
#[test]
fn owners_are_listed() {
    on_files_and_postgres(|store| {
        let owners = ["agent:coder", "user:ada@example.com", "user:u1", "system", "global", "thread:t/1", "custom:a:b"];
        for owner in owners.iter().rev() {
            for key in ["a", "b"] {
                store.json(&["profile", "set", owner, key, "--value", "1"]);
            }
        }
        assert_eq!(store.json(&["profile", "list"]), json!({ "owners": owners }));
        let listed = store.run(&["profile", "list"]).expect_success().out;
        assert_eq!(listed.lines().collect::<Vec<_>>(), owners);
        for owner in listed.lines() {
            assert_eq!(keys(store, owner), [json!("a"), json!("b")]);
        }
        store.run(&["profile", "list", "robot:r"]).expect_failure(2, &["`user:ID`, `agent:ID`, `system`"]);
    });
}

/// Tests PF-2: of two changes that expect the same, the second one is refused.
#[test]
fn a_stale_expectation_refuses_a_change_of_a_value() {
    on_files_and_postgres(|store| {
        let set =
            |expect: &str| store.run(&["profile", "set", "system", "k", "--value", "1", "--expect", expect, "--json"]);
        let first = set("absent").expect_success().documents().remove(0);
        let revision = value_at(&first, "/revision").to_string();
        let refused = set("absent").expect_failure(1, &["read the value again"]).error();
        assert_eq!(
            (value_at(&refused, "/kind"), value_at(&refused, "/actual").to_string()),
            (&json!("conflict"), revision.clone())
        );
        set(&revision).expect_success();
        let delete = ["profile", "delete", "system", "k", "--expect", &revision];
        store.run(&delete).expect_failure(1, &["conflict in profile value `system k`: expected revision"]);
        assert_eq!(keys(store, "system"), [json!("k")]);
    });
}

/// Tests PF-4: a profile is cleared after a confirmation, and only that of its owner.
#[test]
fn a_profile_is_cleared_after_a_confirmation() {
    on_files_and_postgres(|store| {
        for (owner, key) in [("user:u1", "a"), ("user:u1", "b"), ("user:u10", "a")] {
            store.json(&["profile", "set", owner, key, "--value", "1"]);
        }
        let response = store.run_with_input(&["profile", "clear", "user:u1"], "n\n");
        response.expect_failure(1, &["Remove 2 values of user:u1?", "nothing was done"]);
        assert_eq!(keys(store, "user:u1").len(), 2);
        let response = store.run_with_input(&["profile", "clear", "user:u1"], "y\n");
        assert_eq!((response.code, response.out.as_str()), (0, "removed 2 values of user:u1\n"), "{response:?}");
        assert_eq!(store.json(&["profile", "clear", "user:u1"]), json!({"owner": "user:u1", "removed": 0}));
        assert_eq!(store.json(&["profile", "clear", "user:u10", "--yes"]), json!({"owner": "user:u10", "removed": 1}));
    });
}
