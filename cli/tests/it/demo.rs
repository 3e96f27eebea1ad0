//! `demo`: each step of the demo succeeds on each kind of store.

use serde_json::{Value, json};

use crate::helpers::{TestStore, run, value_at};

fn step_outcomes(document: &Value) -> Vec<(&str, &str)> {
    let steps = value_at(document, "/steps").as_array().unwrap();
    let text = |step, field| value_at(step, field).as_str().unwrap();
    steps.iter().map(|step| (text(step, "/step"), text(step, "/outcome"))).collect()
}

/// Returns the step of the demo that does background work.
pub(crate) fn work_step(document: &Value) -> &Value {
    value_at(document, "/steps/3")
}

/// Runs the demo, and returns its JSON document.
pub(crate) fn run_demo(args: &[&str]) -> Value {
    let response = run(&[&["demo", "--json"], args].concat(), "").expect_success();
    serde_json::from_str(&response.out).unwrap()
}

#[test]
fn the_demo_on_files_proves_every_step() {
    let document = run_demo(&[]);
    assert_eq!((value_at(&document, "/failed"), value_at(&document, "/skipped")), (&json!(0), &json!(0)), "{document}");
    let steps: Vec<_> = step_outcomes(&document).iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, ["import", "commit", "deliver", "work", "crash", "resume", "fork", "rewind", "verify"]);
    assert_eq!(
        value_at(&document, "/steps/4/figures/acknowledged_turns"),
        value_at(&document, "/steps/4/figures/found_turns")
    );
    let folder = value_at(&document, "/store").as_str().unwrap().strip_prefix("file:").unwrap();
    assert!(!std::path::Path::new(folder).exists());
}

#[test]
fn the_demo_in_memory_skips_the_steps_that_need_files() {
    let document = run_demo(&["--store", "memory:"]);
    let skipped: Vec<_> = step_outcomes(&document).into_iter().filter(|(_, outcome)| *outcome == "skipped").collect();
    assert_eq!(skipped, [("crash", "skipped"), ("resume", "skipped")]);
    assert_eq!(value_at(&document, "/failed"), 0, "{document}");
    assert_eq!(value_at(&document, "/capabilities/survives"), "nothing");
}

#[test]
fn the_demo_works_with_a_mailbox_in_another_store() {
    let folder = tempfile::tempdir().unwrap();
    let mailbox = format!("sqlite:{}", folder.path().join("queue.db").display());
    let document = run_demo(&["--mailbox", &mailbox]);
    assert_eq!((value_at(&document, "/failed"), value_at(&document, "/skipped")), (&json!(0), &json!(0)), "{document}");
    assert_eq!(value_at(&document, "/mailbox"), &json!(mailbox));
    let did = value_at(work_step(&document), "/did").as_str().unwrap();
    assert!(did.ends_with("then acknowledged it in the other store"), "{document}");
    let listed = run(&["mailbox", "list", "--json", "--store", &mailbox], "").expect_success();
    let listed: Value = serde_json::from_str(&listed.out).unwrap();
    let statuses: Vec<_> = value_at(&listed, "/dispatches")
        .as_array()
        .unwrap()
        .iter()
        .map(|dispatch| value_at(dispatch, "/status"))
        .collect();
    assert_eq!(statuses, ["superseded", "acked"]);
}

#[test]
fn the_demo_can_be_repeated_on_an_existing_store() {
    let store = TestStore::new();
    for _ in 0..2 {
        let document = store.json(&["demo"]);
        assert_eq!(value_at(&document, "/failed"), 0, "{document}");
    }
    assert_eq!(value_at(&store.json(&["threads"]), "/threads").as_array().unwrap().len(), 1);
    let response = store.run(&["demo"]).expect_success();
    assert!(response.out.contains("proved:") && response.out.contains("← head"), "{}", response.out);
}
