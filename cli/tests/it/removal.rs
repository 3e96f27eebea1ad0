//! Deletions of threads and tenants: they ask for confirmation, and delete nothing else.

use std::path::Path;

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
    for (answer, code) in [("", 2), ("n\n", 1), ("a\n", 1)] {
        let response = store.run_with_input(&["delete", "a"], answer);
        response.expect_failure(code, &["Delete thread a with 1 entry?", "not confirmed, so nothing was done"]);
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
    for (answer, code) in [("", 2), ("acme\n", 2), ("acme\nacm\n", 1), ("y\ny\n", 1)] {
        store.run_with_input(&["tenants", "delete", "acme"], answer).expect_failure(code, &["was not typed twice"]);
    }
    store.run(&["tenants", "delete", "other", "--yes"]).expect_failure(1, &["tenant `other` does not exist"]);
    assert_eq!(store.run_with_input(&["tenants", "delete", "acme"], "acme\nacme\n").code, 0);
    assert_eq!(store.json(&["tenants"]), json!({ "tenants": ["default"] }));
    assert_eq!(thread_ids(&store), ["t"]);
}

/// A user who does not confirm has made no mistake: the exit code is 1. If no answer is possible, the command line
/// lacks `--yes`: the exit code is 2. All commands that ask agree.
#[test]
fn a_refused_confirmation_has_the_same_exit_code_everywhere() {
    let store = TestStore::new();
    store.append("t", "hi");
    store.run(&["mailbox", "enqueue", "t", "--run", "r"]).expect_success();
    store.json(&["profile", "set", "user:u1", "a", "--value", "1"]);
    let mut folder = String::new();
    for value in ["1", "2"] {
        store.json(&["config", "set", "limits", "tokens", "--value", value]);
        let file = store.write_file("definitions/agent/coder.json", value);
        folder = file.strip_suffix("/agent/coder.json").unwrap().to_owned();
        store.json(&["registry", "publish", &folder, "--yes"]);
    }
    store.write_file("definitions/agent/coder.json", "3");
    let records = store.json(&["audit", "list", "--resource", "config/limits/tokens"]);
    let first_change = value_at(&records, "/records/1/id").as_str().unwrap();
    for command in [
        &["delete", "t"][..],
        &["mailbox", "interrupt", "t"],
        &["profile", "clear", "user:u1"],
        &["registry", "publish", &folder],
        &["registry", "rollback", "1"],
        &["audit", "restore", first_change],
    ] {
        let refused = store.run_with_input(command, "n\n");
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains("[y/N] not confirmed, so nothing was done: "), "{refused:?}");
        let with_json = store.run_with_input(&[command, &["--json"]].concat(), "no\n");
        assert!(with_json.code == 1 && with_json.err.contains(r#""outcome":"not_applied""#), "{with_json:?}");
        let unanswered = store.run(command);
        assert_eq!(unanswered.code, 2, "{unanswered:?}");
        assert!(unanswered.err.contains("Use `--yes` to confirm without a question."), "{unanswered:?}");
    }
}

#[test]
fn tenants_do_not_see_each_other() {
    let store = TestStore::new();
    store.append("t", "mine");
    store.run(&["--tenant", "acme", "show", "t"]).expect_failure(1, &["thread `t` does not exist"]);
}

/// Tests PV-2: a thread is erased after a confirmation, a dry run changes nothing, and a repetition finds nothing. The
/// text is in no file of the store then.
#[test]
fn a_thread_is_erased_with_its_text() {
    let store = TestStore::new();
    let marker = "Vn6QpXzR4tKd";
    store.append("other", "kept");
    store.append("a", marker);
    store.json(&["profile", "set", "user:user-7", "name", "--text", marker]);
    store.json(&["mailbox", "enqueue", "a", "--run", "r", "--payload", &format!("\"{marker}\"")]);
    assert!(has_text(&store.path(), marker));
    let dry = store.json(&["erase", "--thread", "a", "--dry-run"]);
    assert_eq!((value_at(&dry, "/threads"), value_at(&dry, "/entries")), (&json!(["a"]), &json!(1)));
    assert_eq!(value_at(&dry, "/dispatches"), &json!(1));
    let refused = store.run_with_input(&["erase", "--thread", "a"], "n\n");
    assert!(refused.code == 1 && refused.err.contains("Erase thread a for good?"), "{refused:?}");
    assert_eq!(thread_ids(&store).len(), 2);
    assert_eq!(store.json(&["erase", "--thread", "a", "--yes"]), dry);
    assert_eq!(thread_ids(&store), ["other"]);
    assert!(has_text(&store.path(), marker), "the profile belongs to the user");
    let erased = store.json(&["erase", "--resource", "user-7", "--yes"]);
    assert_eq!(value_at(&erased, "/profile_values"), &json!(1));
    assert!(!has_text(&store.path(), marker));
    let again = store.run(&["erase", "--thread", "a", "--yes"]).expect_success();
    assert_eq!(again.out, "nothing erased\n");
    let records = store.run(&["audit", "list", "--resource", "thread/a"]).expect_success();
    assert_eq!(records.out.matches("erase").count(), 2, "{}", records.out);
    store.run(&["erase"]).expect_failure(2, &["--resource"]);
}

fn has_text(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return has_text(&path, text);
        }
        std::fs::read(path).unwrap().windows(text.len()).any(|bytes| bytes == text.as_bytes())
    })
}
