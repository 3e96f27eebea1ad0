//! `registry`: folders are published, versions and publications compared, rolled back and archived.

use std::{
    io::{Read, Write},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{
    helpers::{CommandOutput, TestStore, value_at},
    postgres::{PostgresTestStore, on_files_and_postgres},
};

/// Writes files below the folder `definitions`. Returns the folder.
fn write_folder(store: &TestStore, files: &[(&str, &str)]) -> String {
    for (name, text) in files {
        store.write_file(&format!("definitions/{name}"), text);
    }
    store.sibling_path("definitions").display().to_string()
}

fn publish(store: &TestStore, folder: &str) -> Value {
    store.json(&["registry", "publish", folder, "--yes", "--actor", "user:ada"])
}

/// Returns the versions of the latest publication, as `KIND/ID@VERSION`.
fn manifest(store: &TestStore, publication: &str) -> Vec<String> {
    let manifest = store.json(&["registry", "manifest", publication]);
    let entries = value_at(&manifest, "/publication/content/entries").as_array().unwrap();
    let text = |entry: &Value, field: &str| value_at(entry, field).as_str().unwrap().to_owned();
    let name = |entry| format!("{}/{}", text(entry, "/definition/kind"), text(entry, "/definition/id"));
    entries.iter().map(|entry| format!("{}@{}", name(entry), value_at(entry, "/version"))).collect()
}

/// Tests RG-1, RG-6, RG-7 and RG-9: a folder becomes one publication. Only changed definitions get new versions.
#[test]
fn a_folder_is_published_after_its_difference_was_shown() {
    on_files_and_postgres(|store| {
        let folder = write_folder(
            store,
            &[
                ("agent/coder.json", r#"{"prompt":"Write.\nTest.","n":1}"#),
                ("tool/search.json", "{}"),
                ("README.md", ""),
            ],
        );
        let dry_run = store.run(&["registry", "publish", &folder, "--dry-run"]).expect_success().out;
        for expected_text in ["ignored  ", "README.md\n", "added    agent/coder, version 1\n", "2 added, 0 changed"] {
            assert!(dry_run.contains(expected_text), "{dry_run}");
        }
        assert!(dry_run.ends_with("the store does not exist yet: the first publication creates it\n"), "{dry_run}");
        // A dry run has created neither a folder nor a schema.
        assert!(store.run(&["registry", "list"]).code == 1 && !store.path().exists());
        let listed = store.json(&["registry", "publish", &folder, "--dry-run"]);
        assert_eq!(
            (value_at(&listed, "/publication"), value_at(&listed, "/differences/1/change")),
            (&Value::Null, &json!("added"))
        );
        let refused = store.run(&["registry", "publish", &folder]);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.err.contains("Publish 2 definitions as snapshot 1?"), "{refused:?}");
        let first = publish(store, &folder);
        assert_eq!(
            (value_at(&first, "/publication/snapshot"), value_at(&first, "/publication/content/by")),
            (&json!(1), &json!("user:ada"))
        );
        assert_eq!(manifest(store, "latest"), ["agent/coder@1", "tool/search@1"]);
        let dry_run = store.run(&["registry", "publish", &folder, "--dry-run"]).expect_success().out;
        assert!(dry_run.ends_with("the latest publication has these contents: nothing was published\n"), "{dry_run}");

        let again = publish(store, &folder);
        assert_eq!((value_at(&again, "/publication"), value_at(&again, "/same")), (&Value::Null, &json!(2)));
        write_folder(store, &[("agent/coder.json", r#"{"n":1,"prompt":"Write.\nReview."}"#)]);
        let response = store.run(&["registry", "publish", &folder, "--yes", "--id", "release-2"]).expect_success().out;
        for expected_text in [
            "changed  agent/coder, version 1 to 2\n",
            "  -     Test.\"",
            "1 changed",
            "published snapshot 2, publication release-2",
        ] {
            assert!(response.contains(expected_text), "{response}");
        }
        assert_eq!(manifest(store, "release-2"), ["agent/coder@2", "tool/search@1"]);
        assert_eq!(manifest(store, "1"), ["agent/coder@1", "tool/search@1"]);
        std::fs::remove_file(store.sibling_path("definitions/tool/search.json")).unwrap();
        let removed = publish(store, &folder);
        assert_eq!(value_at(&removed, "/differences/0/change"), "removed");
        assert_eq!(manifest(store, "latest"), ["agent/coder@2"]);
        let publications = store.json(&["registry", "list", "--publications"]);
        let snapshots = value_at(&publications, "/publications").as_array().unwrap().iter();
        assert_eq!(snapshots.map(|it| value_at(it, "/snapshot").clone()).collect::<Vec<_>>(), [3, 2, 1]);
    });
}

/// Publishes two publications with two versions of `agent/coder`.
fn publish_twice(store: &TestStore) -> String {
    let folder = write_folder(store, &[("agent/coder.json", r#"{"prompt":"one"}"#), ("tool/search.json", "{}")]);
    publish(store, &folder);
    write_folder(store, &[("agent/coder.json", r#"{"prompt":"two"}"#), ("tool/fetch.json", "{}")]);
    publish(store, &folder);
    folder
}

/// Tests RG-2: versions are shown and compared, and so are publications.
#[test]
fn versions_and_publications_are_shown_and_compared() {
    on_files_and_postgres(|store| {
        publish_twice(store);
        let shown = store.json(&["registry", "show", "agent/coder@1"]);
        assert_eq!(
            (value_at(&shown, "/name/version"), value_at(&shown, "/content/value/prompt")),
            (&json!(1), &json!("one"))
        );
        assert!(store.run(&["registry", "show", "agent/coder"]).expect_success().out.contains("\"prompt\": \"two\""));
        let versions = store.json(&["registry", "show", "agent/coder", "--versions"]);
        assert_eq!(value_at(&versions, "/versions/1/content/value/prompt"), "one");
        assert_eq!(value_at(&versions, "/definition/current"), 2);

        let response = store.run(&["registry", "diff", "agent/coder@1", "@2"]).expect_success().out;
        assert!(response.contains("  -   \"prompt\": \"one\"\n  +   \"prompt\": \"two\"\n"), "{response}");
        assert_eq!(store.run(&["registry", "diff", "agent/coder@1"]).expect_success().out, response);
        let difference = store.json(&["registry", "diff", "1"]);
        let changes = value_at(&difference, "/differences").as_array().unwrap().iter();
        assert_eq!(changes.map(|it| value_at(it, "/change").clone()).collect::<Vec<_>>(), ["changed", "added"]);
        assert_eq!(value_at(&difference, "/same"), 1);
        assert_eq!(value_at(&store.json(&["registry", "diff", "2", "1"]), "/differences/1/change"), "removed");
        let list = store.run(&["registry", "list", "--kind", "tool"]).expect_success().out;
        assert!(list.contains("tool/fetch") && !list.contains("agent/"), "{list}");
        // RG-14
        assert_eq!(store.json(&["registry", "list", "--kinds"]), json!({"kinds": ["agent", "tool"]}));
        assert_eq!(store.run(&["registry", "list", "--kinds"]).expect_success().out, "agent\ntool\n");
    });
}

/// Names with `/`, `@` and `%` are printed so that they can be given to every command.
#[test]
fn every_name_can_be_given_as_it_is_printed() {
    let store = TestStore::new();
    let folder = write_folder(&store, &[("team%2Fa/50%25 of a@1.json", "1"), ("team%2Fa/b%2Fc.json", "2")]);
    let publish = |id: &str| store.run(&["registry", "publish", &folder, "--yes", "--id", id]).expect_success().out;
    let published = publish("releases/%37");
    assert!(published.contains("publication releases%2F7, "), "{published}");
    let listed = store.run(&["registry", "list"]).expect_success().out;
    let names: Vec<_> = listed.lines().skip(1).map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(names, ["team%2Fa/50%25 of a%401", "team%2Fa/b%2Fc"]);
    for (name, value) in names.iter().zip([1, 2]) {
        for target in [(*name).to_owned(), format!("{name}@1")] {
            let shown = store.json(&["registry", "show", &target]);
            assert_eq!(value_at(&shown, "/content/value"), value, "{target}");
        }
        let resource = format!("definition/{name}");
        let records = store.json(&["audit", "list", "--resource", &resource]);
        assert_eq!(value_at(&records, "/records/0/resource"), &json!(resource));
        store.json(&["registry", "archive", name]);
        store.json(&["registry", "archive", name, "--undo"]);
    }
    let shown = store.json(&["registry", "show", names[0]]);
    assert_eq!(value_at(&shown, "/name/definition"), &json!({"kind": "team/a", "id": "50% of a@1"}));
    write_folder(&store, &[("team%2Fa/b%2Fc.json", "3")]);
    // Ids that a number or `latest` would hide.
    let published = publish("%39");
    assert!(published.contains("publication %39, "), "{published}");
    for publication in ["releases%2F7", "%39"] {
        let manifest = store.run(&["registry", "manifest", publication]).expect_success().out;
        assert!(manifest.contains(&format!("publication {publication}, ")), "{manifest}");
    }
    let rolled_back = store.json(&["registry", "rollback", "releases%2F7", "--yes"]);
    assert_eq!(value_at(&rolled_back, "/publication/content/rollback_of"), 1);
    let response = store.run(&["registry", "show", "team/none%2Fx"]);
    response.expect_failure(1, &["definition `team/none%2Fx` does not exist"]);
    for (name, expected_text) in [("a/b/c", "write `%2F` for `/`"), ("a/b@c", "`%40` for `@`"), ("a/50%", "`%25`")] {
        store.run(&["registry", "show", name]).expect_failure(2, &[expected_text]);
    }
}

/// The names in the last column of a table are whole, however long they are.
#[test]
fn names_in_tables_are_not_cut() {
    let store = TestStore::new();
    let folder = write_folder(&store, &[("agent/coder.json", "1")]);
    let id = "release-of-the-thirtieth-of-november-with-a-name-of-many-more-characters-than-a-table-has";
    store.run(&["registry", "publish", &folder, "--yes", "--id", id]).expect_success();
    let listed = store.run(&["registry", "list", "--publications"]).expect_success().out;
    assert!(listed.lines().any(|line| line.ends_with(id)), "{listed}");
    let listed = store.run(&["audit", "list"]).expect_success().out;
    assert!(listed.lines().any(|line| line.ends_with(&format!("  publication/{id}"))), "{listed}");
}

/// Tests RG-5 and RG-13: an earlier publication is published again, and so is an earlier version.
#[test]
fn earlier_contents_are_published_again() {
    on_files_and_postgres(|store| {
        publish_twice(store);
        let refused = store.run(&["registry", "rollback", "1"]);
        assert!(refused.code == 2 && refused.err.contains("Publish the contents of snapshot 1 again?"), "{refused:?}");
        let response = store.run(&["registry", "rollback", "1", "--yes", "--actor", "user:bob"]).expect_success().out;
        for expected_text in [
            "changed  agent/coder, version 2 to 1",
            "published snapshot 3",
            "the contents of snapshot 1",
            "by user:bob",
        ] {
            assert!(response.contains(expected_text), "{response}");
        }
        assert_eq!(manifest(store, "latest"), ["agent/coder@3", "tool/search@1"]);
        assert!(
            store.run(&["registry", "rollback", "1", "--yes"]).expect_success().out.contains("nothing was published")
        );

        let rolled_back = store.json(&["registry", "rollback", "agent/coder@2", "--yes"]);
        assert_eq!(value_at(&rolled_back, "/version/name/version"), 4);
        assert_eq!(value_at(&store.json(&["registry", "show", "agent/coder"]), "/content/copied_from"), 2);
        assert_eq!(manifest(store, "latest"), ["agent/coder@3", "tool/search@1"]);
        for (target, code, expected_text) in [
            ("9", 1, "publication `9` does not exist"),
            ("agent/coder@9", 1, "version `agent/coder@9` does not exist"),
            ("agent/coder", 2, "`KIND/ID@VERSION`"),
        ] {
            store.run(&["registry", "rollback", target, "--yes"]).expect_failure(code, &[expected_text]);
        }
    });
}

/// Tests RG-5: an archived definition is read, but not published.
#[test]
fn an_archived_definition_is_not_published() {
    on_files_and_postgres(|store| {
        let folder = publish_twice(store);
        assert_eq!(value_at(&store.json(&["registry", "archive", "agent/coder"]), "/changed"), true);
        assert_eq!(value_at(&store.json(&["registry", "archive", "agent/coder"]), "/changed"), false);
        assert!(store.run(&["registry", "list"]).expect_success().out.contains("archived"));
        write_folder(store, &[("agent/coder.json", "3")]);
        let refused = store.run(&["registry", "publish", &folder, "--yes"]);
        refused.expect_failure(1, &["definition `agent/coder` cannot go from archived to published", "--undo"]);
        assert_eq!(value_at(&store.json(&["registry", "show", "agent/coder"]), "/name/version"), 2);
        store.json(&["registry", "archive", "agent/coder", "--undo"]);
        assert_eq!(value_at(&publish(store, &folder), "/publication/snapshot"), 3);
        store
            .run(&["registry", "archive", "agent/none"])
            .expect_failure(1, &["definition `agent/none` does not exist"]);
    });
}

/// Tests RG-6 and RG-8: the id of a publication is used once, and each publication follows the one it was compared
/// with.
#[test]
fn a_publication_is_refused_if_its_id_is_in_use() {
    let store = TestStore::new();
    let folder = write_folder(&store, &[("agent/coder.json", "1")]);
    let publish = |id| store.run(&["registry", "publish", &folder, "--yes", "--id", id, "--json"]);
    publish("a").expect_success();
    write_folder(&store, &[("agent/coder.json", "2")]);
    let error = publish("a").expect_failure(1, &[]).error();
    assert_eq!(
        (value_at(&error, "/kind"), value_at(&error, "/advice")),
        (&json!("already_exists"), &json!("choose another id"))
    );
    assert_eq!(value_at(&publish("b").expect_success().documents()[0], "/publication/snapshot"), 2);
}

/// Tests RG-8: if another process publishes while the user is asked, nothing is published.
#[test]
fn a_publication_that_was_overtaken_is_refused() {
    let store = PostgresTestStore::new();
    let folder = write_folder(&store, &[("agent/coder.json", "1")]);
    store.json(&["migrate"]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_agentstore"))
        .args(["--store", store.url(), "registry", "publish", &folder])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut error_output = child.stderr.take().unwrap();
    let mut asked = [0];
    while asked != *b"?" {
        error_output.read_exact(&mut asked).unwrap();
    }
    publish(&store, &folder);
    child.stdin.take().unwrap().write_all(b"y\n").unwrap();
    let mut refusal = String::new();
    error_output.read_to_string(&mut refusal).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{refusal}");
    let conflict = "conflict in the latest snapshot: expected none, but found 1";
    assert!(refusal.contains(conflict) && refusal.contains("another process has published"), "{refusal}");
}

#[test]
fn a_folder_that_is_no_set_of_definitions_is_refused() {
    let store = TestStore::new();
    let refuse = |name: &str, file: &str, text: &str| -> CommandOutput {
        store.write_file(&format!("{name}/agent/ok.json"), "1");
        store.write_file(&format!("{name}/{file}"), text);
        store.run(&["registry", "publish", &store.sibling_path(name).display().to_string(), "--yes"])
    };
    refuse("a", "agent/bad.json", "{").expect_failure(2, &["agent/bad.json`: it is not a JSON value"]);
    refuse("b", "top.json", "1").expect_failure(2, &["top.json` is no definition", "DIR/KIND/ID.json"]);
    refuse("c", "agent/sub/deep.json", "1").expect_failure(2, &["agent/sub` is no definition"]);
    refuse("d", &format!("{}/x.json", "k".repeat(65)), "1").expect_failure(2, &["definition kind"]);
    let missing = store.sibling_path("missing").display().to_string();
    store.run(&["registry", "publish", &missing]).expect_failure(1, &["missing` cannot be read", "KIND/ID.json"]);
    store.write_file("e/notes.txt", "");
    let empty = store.sibling_path("e").display().to_string();
    store.run(&["registry", "publish", &empty]).expect_failure(2, &["has no files `KIND/ID.json`"]);
    assert!(!store.path().exists());
    // RFC 8785 has no form for a number of this size, so the value has no hash (RG-3).
    refuse("f", "agent/number.json", "9007199254740993").expect_failure(1, &["agent/number"]);
}
