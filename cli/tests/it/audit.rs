//! `audit`: who changed what is listed and followed, and earlier values are restored.

use serde_json::{Value, json};

use crate::{
    helpers::{Follower, TestStore, value_at},
    postgres::on_files_and_postgres,
};

const RESOURCE: &str = "config/prompts/coder";

fn set(store: &TestStore, id: &str, text: &str, actor: &str) {
    store.json(&["config", "set", "prompts", id, "--text", text, "--actor", actor]);
}

fn records(store: &TestStore, args: &[&str]) -> Vec<Value> {
    let list = store.json(&[&["audit", "list"], args].concat());
    value_at(&list, "/records").as_array().unwrap().clone()
}

fn actors(store: &TestStore, args: &[&str]) -> Vec<String> {
    let actor = |record: &Value| value_at(record, "/actor").as_str().unwrap().to_owned();
    records(store, args).iter().map(actor).collect()
}

fn id_of(record: &Value) -> &str {
    value_at(record, "/id").as_str().unwrap()
}

fn value_of(store: &TestStore) -> Value {
    value_at(&store.json(&["config", "get", "prompts", "coder"]), "/value").clone()
}

/// Tests AU-1 and AU-3: each change of a config record has a record, which is found by resource, actor, action and
/// time.
#[test]
fn records_say_who_changed_what() {
    on_files_and_postgres(|store| {
        set(store, "coder", "one", "user:ada");
        set(store, "coder", "two", "user:bob");
        set(store, "coder", "two", "user:eve");
        set(store, "coder/x", "three", "agent:a");
        store.json(&["config", "delete", "prompts", "coder", "--actor", "user:ada"]);
        let found = records(store, &["--resource", RESOURCE]);
        let fields = ["/actor", "/action", "/before/value", "/after/value"];
        let row = |record: &Value| fields.map(|field| record.pointer(field).cloned().unwrap_or_default());
        assert_eq!(
            found.iter().map(row).collect::<Vec<_>>(),
            [
                [json!("user:ada"), json!("delete"), json!("two"), Value::Null],
                [json!("user:bob"), json!("update"), json!("one"), json!("two")],
                [json!("user:ada"), json!("create"), Value::Null, json!("one")],
            ]
        );
        assert_eq!(actors(store, &["--resource", "config/prompts/"]).len(), 4);
        assert_eq!(actors(store, &["--actor", "user:ada"]), ["user:ada", "user:ada"]);
        assert_eq!(actors(store, &["--actor", "user:*"]), ["user:ada", "user:bob", "user:ada"]);
        assert_eq!(actors(store, &["--action", "update", "--action", "delete"]), ["user:ada", "user:bob"]);
        assert_eq!(actors(store, &["--limit", "1"]), ["user:ada"]);
        assert_eq!((actors(store, &["--since", "1h"]).len(), actors(store, &["--since", "2999-01-01"]).len()), (4, 0));
        let table = store.run(&["audit", "list", "--actor", "user:bob"]).expect_success().out;
        let end = id_of(&found[1]).rsplit('-').next().unwrap();
        assert!(table.starts_with("record ") && table.lines().any(|line| line.starts_with(end)), "{table}");
        let lines = store.run(&["audit", "list", "--resource", RESOURCE, "--diff"]).expect_success().out;
        assert!(lines.contains("user:bob update config/prompts/coder (record "), "{lines}");
        assert!(lines.contains("  -   \"value\": \"one\"") && lines.contains("  +   \"value\": \"two\""), "{lines}");
        assert!(store.run(&["audit", "list", "--actor", "eve"]).expect_success().out.contains("no such records"));
    });
}

/// Tests AU-6: the value after a change is restored, and so is the value before a deletion.
#[test]
fn an_earlier_value_is_restored() {
    on_files_and_postgres(|store| {
        set(store, "coder", "one", "user:ada");
        set(store, "coder", "two", "user:bob");
        let created = records(store, &["--action", "create"]).remove(0);
        let asked = store.run(&["audit", "restore", id_of(&created)]);
        assert!(asked.code == 2 && asked.err.contains("Restore this value of config/prompts/coder?"), "{asked:?}");
        assert!(asked.out.contains("  -   \"value\": \"two\"\n  +   \"value\": \"one\"\n"), "{asked:?}");
        assert_eq!(value_of(store), "two");
        store.run(&["audit", "restore", id_of(&created), "--yes", "--actor", "user:eve"]).expect_success();
        assert_eq!(value_of(store), "one");
        let restored = records(store, &["--limit", "1"]).remove(0);
        let fields = ["/action", "/actor", "/restored_from", "/after/value"];
        assert_eq!(
            fields.map(|field| value_at(&restored, field)),
            [&json!("restore"), &json!("user:eve"), &json!(id_of(&created)), &json!("one")]
        );
        let again = store.json(&["audit", "restore", id_of(&created)]);
        assert_eq!(value_at(&again, "/changed"), false);

        store.json(&["config", "delete", "prompts", "coder"]);
        let deleted = records(store, &["--action", "delete"]).remove(0);
        assert_eq!(value_at(&store.json(&["audit", "restore", id_of(&deleted), "--yes"]), "/changed"), true);
        assert_eq!(value_of(store), "one");
    });
}

/// Tests AU-1 and AU-6: values of profiles and definitions have records, too, and are restored from them.
#[test]
fn values_of_profiles_and_definitions_are_restored() {
    on_files_and_postgres(|store| {
        for value in ["1", "2"] {
            store.json(&["profile", "set", "user:u1", "language", "--value", value, "--actor", "agent:a"]);
        }
        let language = ["--resource", "profile/user/u1/language"];
        assert_eq!(actors(store, &language), ["agent:a", "agent:a"]);
        store.json(&["audit", "restore", id_of(&records(store, &language)[1]), "--yes"]);
        assert_eq!(value_at(&store.json(&["profile", "get", "user:u1", "language"]), "/value"), 1);

        for prompt in ["one", "two"] {
            let file = store.write_file("definitions/agent/coder.json", &json!({ "prompt": prompt }).to_string());
            let folder = file.strip_suffix("/agent/coder.json").unwrap();
            store.json(&["registry", "publish", folder, "--id", prompt, "--yes", "--actor", prompt]);
        }
        let coder = ["--resource", "definition/agent/coder"];
        assert_eq!(actors(store, &coder), ["two", "one"]);
        let restore = |record: &Value| store.json(&["audit", "restore", id_of(record), "--yes"]);
        let created = &records(store, &coder)[1];
        assert_eq!(restore(created), json!({"resource": "definition/agent/coder", "changed": true, "version": 3}));
        assert_eq!(restore(created), json!({"resource": "definition/agent/coder", "changed": false}));
        let shown = store.json(&["registry", "show", "agent/coder"]);
        assert_eq!(value_at(&shown, "/content/value/prompt"), "one");

        let published = records(store, &["--resource", "publication/", "--action", "publish"]);
        assert_eq!(value_at(&published[0], "/resource"), "publication/two");
        let refused = store.run(&["audit", "restore", id_of(&published[0]), "--yes"]);
        refused.expect_failure(1, &["publication/two is no config record", "agentstore registry rollback"]);
        store.json(&["registry", "archive", "agent/coder"]);
        let archived = &records(store, &["--limit", "1"])[0];
        let refused = store.run(&["audit", "restore", id_of(archived), "--yes"]);
        refused.expect_failure(1, &["its value is no version"]);
    });
}

/// Tests AU-4 and AU-6: secrets are not in the log, so their record cannot be restored.
#[test]
fn secrets_are_not_in_the_log() {
    let store = TestStore::new();
    let value = r#"{"url":"u","key":"canary-1"}"#;
    store.json(&["config", "set", "servers", "search", "--value", value, "--secret", "key"]);
    store.json(&["config", "set", "servers", "search", "--value", "2"]);
    let list = store.run(&["audit", "list", "--resource", "config/servers/search", "--action", "create", "--json"]);
    let list = list.expect_success();
    assert!(list.out.contains("[redacted]") && !list.out.contains("canary"), "{list:?}");
    let record = records(&store, &["--action", "create"]).remove(0);
    store.run(&["audit", "restore", id_of(&record), "--yes"]).expect_failure(1, &["redacted"]);
    assert!(store.run(&["audit", "list", "--diff"]).expect_success().out.contains("without secrets"));
}

/// A record is named by the end or the beginning of its id, if no other record has it.
#[test]
fn a_record_is_named_by_a_part_of_its_id() {
    on_files_and_postgres(|store| {
        for text in ["one", "two", "three"] {
            set(store, "coder", text, "user:ada");
        }
        let found = records(store, &["--resource", RESOURCE]);
        let table = store.run(&["audit", "list", "--resource", RESOURCE]).expect_success().out;
        let shown: Vec<_> = table.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
        assert!(shown.iter().zip(&found).all(|(end, record)| id_of(record).ends_with(end)), "{table}");
        let without_last = |id: &str| id[..id.len() - 1].to_owned();
        for (part, value) in [(shown[2].to_owned(), "one"), (without_last(id_of(&found[1])), "two")] {
            store.json(&["audit", "restore", &part, "--yes"]);
            assert_eq!(value_of(store), value, "{part}");
            let restored = records(store, &["--limit", "1"]).remove(0);
            assert!(value_at(&restored, "/restored_from").as_str().unwrap().contains(&part), "{restored}");
        }
        // Ids begin with the time, so all of them begin alike.
        let response = store.run(&["audit", "restore", &id_of(&found[0])[..4], "--yes"]);
        response.expect_failure(1, &["is a part of the ids", id_of(&found[0]), "give more characters"]);
        let response = store.run(&["audit", "restore", &shown[0][9..], "--yes"]);
        response.expect_failure(1, &["does not exist", "at least 4 characters"]);
        store.run(&["audit", "restore", "no-such-id", "--yes"]).expect_failure(1, &["`no-such-id` does not exist"]);
        assert_eq!(value_of(store), "two");
    });
}

#[test]
fn an_unknown_record_is_not_restored() {
    let store = TestStore::new();
    set(&store, "coder", "one", "user:ada");
    let response = store.run(&["audit", "restore", "none", "--yes"]);
    response.expect_failure(1, &["audit record `none` does not exist", "agentstore audit list"]);
}

/// Tests AU-3: a follower gets the stored records, the oldest first, and then those of other processes.
#[test]
fn a_follower_sees_the_changes_of_other_processes() {
    on_files_and_postgres(|store| {
        set(store, "coder", "one", "user:ada");
        set(store, "coder", "two", "user:bob");
        let follower = Follower::start(store, &["audit", "list", "--follow", "--resource", "config/prompts/"]);
        let next = || value_at(&follower.next(), "/actor").as_str().unwrap().to_owned();
        assert_eq!([next(), next()], ["user:ada", "user:bob"]);
        for (id, actor) in [("coder", "user:eve"), ("other", "user:ada")] {
            set(store, id, "three", actor);
            assert_eq!(next(), actor);
        }
    });
}
