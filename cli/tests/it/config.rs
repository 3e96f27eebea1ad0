//! `config`: records are set, read, listed, deleted and watched.

use serde_json::{Value, json};

use crate::{
    helpers::{Follower, TestStore, run, value_at},
    postgres::on_files_and_postgres,
};

/// Returns the ids and values of the records of a namespace.
fn records(store: &TestStore, namespace: &str) -> Vec<(Value, Value)> {
    let list = store.json(&["config", "list", namespace]);
    let records = value_at(&list, "/records").as_array().unwrap();
    records.iter().map(|record| (value_at(record, "/id").clone(), value_at(record, "/value").clone())).collect()
}

/// Tests CF-1, CF-2 and CF-5: records are set from an argument, a file and standard input, and read, listed and
/// deleted.
#[test]
fn records_are_set_read_listed_and_deleted() {
    on_files_and_postgres(|store| {
        let set = store.json(&["config", "set", "limits", "tokens", "--value", "4096"]);
        assert_eq!((value_at(&set, "/value"), value_at(&set, "/changed")), (&json!(4096), &json!(true)));
        let first = value_at(&set, "/revision").as_u64().unwrap();
        let again = store.json(&["config", "set", "limits", "tokens", "--value", " 4096 "]);
        assert_eq!((value_at(&again, "/revision"), value_at(&again, "/changed")), (&json!(first), &json!(false)));
        let file = store.write_file("depth.json", "{\"max\": 1.50}\n");
        store.json(&["config", "set", "limits", "depth", "--value", &format!("@{file}")]);
        store.run_with_input(&["config", "set", "limits", "words"], "[\"a\"]").expect_success();
        store.json(&["config", "set", "other", "tokens", "--value", "-1"]);
        let [depth, tokens, words] = ["depth", "tokens", "words"].map(|id| json!(id));
        assert_eq!(
            records(store, "limits"),
            [(depth, json!({"max": 1.5})), (tokens, json!(4096)), (words, json!(["a"]))]
        );
        let response = store.run(&["config", "get", "limits", "depth"]).expect_success().out;
        assert!(response.contains("limits/depth, revision") && response.contains("\n  \"max\": 1.50\n"), "{response}");
        let response = store.run(&["config", "list", "limits"]).expect_success().out;
        assert!(response.starts_with("id ") && response.contains("{\"max\":1.50}"), "{response}");

        for deleted in [true, false] {
            let expected = json!({"namespace": "limits", "id": "tokens", "deleted": deleted});
            assert_eq!(store.json(&["config", "delete", "limits", "tokens"]), expected);
        }
        assert_eq!(records(store, "limits").len(), 2);
        let response = store.run(&["config", "get", "limits", "tokens"]);
        response.expect_failure(1, &["config record `limits/tokens` does not exist", "agentstore config list"]);
        let remade = store.json(&["config", "set", "limits", "tokens", "--value", "4096"]);
        assert!(value_at(&remade, "/revision").as_u64().unwrap() > first, "{remade}");
        assert!(store.run(&["config", "list", "none"]).expect_success().out.contains("none has no records"));
    });
}

/// Tests CF-10: without a namespace, the namespaces are listed.
#[test]
fn namespaces_are_listed() {
    on_files_and_postgres(|store| {
        for (namespace, id) in [("limits", "tokens"), ("limits", "depth"), ("a/b", "x"), ("prompts", "coder")] {
            store.json(&["config", "set", namespace, id, "--value", "1"]);
        }
        assert_eq!(store.json(&["config", "list"]), json!({"namespaces": ["a/b", "limits", "prompts"]}));
        assert_eq!(store.run(&["config", "list"]).expect_success().out, "a/b\nlimits\nprompts\n");
        store.json(&["config", "delete", "a/b", "x"]);
        assert_eq!(store.json(&["config", "list"]), json!({"namespaces": ["limits", "prompts"]}));
    });
}

/// A config record and a value of a profile have the same fields in JSON documents.
#[test]
fn documents_of_config_and_profiles_have_the_same_fields() {
    let store = TestStore::new();
    let set = [
        store.json(&["config", "set", "limits", "tokens", "--value", "1"]),
        store.json(&["profile", "set", "user:u1", "tokens", "--value", "1"]),
    ];
    let got = [
        store.json(&["config", "get", "limits", "tokens"]),
        store.json(&["profile", "get", "user:u1", "tokens"]),
        value_at(&store.json(&["config", "list", "limits"]), "/records/0").clone(),
        value_at(&store.json(&["profile", "list", "user:u1"]), "/values/0").clone(),
    ];
    for document in set.iter().chain(&got) {
        assert_eq!((value_at(document, "/id"), value_at(document, "/value")), (&json!("tokens"), &json!(1)));
        for field in ["/revision", "/created_at", "/updated_at"] {
            assert!(value_at(document, field).is_u64(), "{field} of {document}");
        }
    }
    assert_eq!((value_at(&got[1], "/owner"), &got[1]), (&json!("user:u1"), &got[3]));
    let deleted = [
        store.json(&["config", "delete", "limits", "tokens"]),
        store.json(&["profile", "delete", "user:u1", "tokens"]),
    ];
    for document in deleted {
        assert_eq!((value_at(&document, "/id"), value_at(&document, "/deleted")), (&json!("tokens"), &json!(true)));
    }
}

/// Tests CF-3 and ER-11: a change that expects something else is refused, and the advice is to read again.
#[test]
fn a_stale_expectation_refuses_a_change() {
    on_files_and_postgres(|store| {
        let set = |value: &str, expect: &str| {
            store.run(&["config", "set", "limits", "tokens", "--value", value, "--expect", expect, "--json"])
        };
        let first = set("1", "absent").expect_success().documents().remove(0);
        let revision = value_at(&first, "/revision").to_string();
        let refused = set("2", "absent").expect_failure(1, &["read the value again"]).error();
        assert_eq!(
            (value_at(&refused, "/kind"), value_at(&refused, "/outcome")),
            (&json!("conflict"), &json!("not_applied"))
        );
        assert_eq!(value_at(&refused, "/actual").to_string(), revision);
        assert_eq!([value_at(&refused, "/what"), value_at(&refused, "/id")], ["config record", "limits/tokens"]);
        set("2", &revision).expect_success();
        set("3", &revision).expect_failure(1, &["conflict"]);
        let delete = ["config", "delete", "limits", "tokens", "--expect", &revision];
        let conflict = "conflict in config record `limits/tokens`: expected revision";
        let response = store.run(&delete).expect_failure(1, &[conflict, "what to do: read the value again"]);
        assert!(!response.err.contains("layer."), "{response:?}");
        assert_eq!(records(store, "limits"), [(json!("tokens"), json!(2))]);
    });
}

/// Tests CF-8: overrides change a value that a release ships, and stay when it is seeded again.
#[test]
fn overrides_stay_when_a_record_is_seeded_again() {
    let store = TestStore::new();
    let set = |args: &[&str]| store.json(&[&["config", "set", "models", "main"], args].concat());
    set(&["--seed", "--value", r#"{"name":"a","temperature":1.0}"#]);
    set(&["--override", "--value", r#"{"temperature":0}"#]);
    let seeded = set(&["--seed", "--value", r#"{"name":"b","temperature":1.0}"#]);
    assert_eq!(value_at(&seeded, "/effective"), &json!({"name": "b", "temperature": 0}));
    assert_eq!(
        (value_at(&seeded, "/source"), value_at(&seeded, "/value/temperature")),
        (&json!("builtin"), &json!(1.0))
    );
    assert!(store.run(&["config", "list", "models"]).expect_success().out.contains("builtin, overridden"));
    let response = store.run(&["config", "set", "models", "other", "--override", "--value", "{}"]);
    response.expect_failure(1, &["config record `models/other` does not exist"]);
}

#[test]
fn a_text_is_stored_as_it_is_given() {
    let store = TestStore::new();
    let prompt = "You write code.\nBe \"brief\".\n";
    let file = store.write_file("prompt.txt", prompt);
    let set = store.json(&["config", "set", "prompts", "coder", "--text", &format!("@{file}")]);
    assert_eq!(value_at(&set, "/value"), prompt);
    let response = store.run(&["config", "get", "prompts", "coder"]).expect_success().out;
    assert!(response.contains("\n\"You write code.\\n\n  Be \\\"brief\\\".\\n\"\n"), "{response}");
}

#[test]
fn an_unreadable_value_is_reported_before_the_store_is_created() {
    let store = TestStore::new();
    let set = ["config", "set", "limits", "tokens"];
    for (args, input, code, expected_text) in [
        (&["--value", "{"][..], "", 2, "`--value`: it is not a JSON value"),
        (&["--value", "@/not/there"], "", 1, "`/not/there` cannot be read"),
        (&[], "{\"a\":", 2, "standard input: it is not a JSON value"),
        (&[], "", 2, "standard input contains no value"),
    ] {
        let args = [&set, args].concat();
        store.run_with_input(&args, input).expect_failure(code, &[expected_text]);
        assert!(!store.path().exists(), "{args:?}");
    }
}

/// Tests CF-9: a watcher gets the records, and then each change by another process.
#[test]
fn a_watcher_sees_the_changes_of_other_processes() {
    on_files_and_postgres(|store| {
        store.json(&["config", "set", "limits", "tokens", "--value", "1"]);
        let watcher = Follower::start(store, &["config", "watch", "limits"]);
        let present = watcher.next();
        assert_eq!(value_at(&present, "/present/0/value"), 1, "{present}");
        store.json(&["config", "set", "other", "tokens", "--value", "0"]);
        store.json(&["config", "set", "limits", "tokens", "--value", "2"]);
        let changed = watcher.next();
        assert_eq!(
            (value_at(&changed, "/change/kind"), value_at(&changed, "/change/id")),
            (&json!("updated"), &json!("tokens"))
        );
        assert_eq!(
            (value_at(&changed, "/record/value"), value_at(&changed, "/record/revision")),
            (&json!(2), value_at(&changed, "/change/revision"))
        );
        store.json(&["config", "delete", "limits", "tokens"]);
        let deleted = watcher.next();
        assert_eq!(
            (value_at(&deleted, "/change/kind"), value_at(&deleted, "/record")),
            (&json!("deleted"), &Value::Null)
        );
    });
}

/// Each command opens its own store in memory, so nothing is left from the command before.
#[test]
fn commands_of_the_layers_work_in_memory() {
    let memory = |args: &[&str]| run(&[args, &["--store", "memory:", "--json"]].concat(), "");
    let set = memory(&["config", "set", "limits", "tokens", "--value", "1"]).expect_success();
    assert_eq!(value_at(&set.documents()[0], "/revision"), 1);
    memory(&["config", "get", "limits", "tokens"]).expect_failure(1, &["not_found"]);
    let set = memory(&["profile", "set", "user:u1", "language", "--value", "1"]).expect_success();
    assert_eq!(value_at(&set.documents()[0], "/owner"), "user:u1");
    let empty = [
        (&["config", "list"][..], "/namespaces"),
        (&["config", "list", "limits"], "/records"),
        (&["profile", "list"], "/owners"),
        (&["registry", "list", "--kinds"], "/kinds"),
        (&["profile", "list", "system"], "/values"),
        (&["registry", "list"], "/definitions"),
        (&["registry", "list", "--publications"], "/publications"),
        (&["audit", "list"], "/records"),
    ];
    for (args, pointer) in empty {
        assert_eq!(value_at(&memory(args).expect_success().documents()[0], pointer), &json!([]), "{args:?}");
    }
    let store = TestStore::new();
    let file = store.write_file("definitions/agent/coder.json", "{}");
    let folder = file.strip_suffix("/agent/coder.json").unwrap();
    let published = memory(&["registry", "publish", folder, "--yes"]).expect_success();
    assert_eq!(value_at(&published.documents()[0], "/publication/snapshot"), 1);
}

/// A store without documents refuses the commands.
#[test]
fn a_store_of_mailboxes_only_has_no_config() {
    let store = TestStore::new();
    let url = format!("sqlite:{}", store.path().display());
    run(&["config", "set", "limits", "tokens", "--value", "1", "--store", &url], "").expect_failure(1, &["documents"]);
}
