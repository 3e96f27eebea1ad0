//! `conformance`: the suite runs on new stores of the same kind as the named store, and refuses a store with data.

use std::fs;

use crate::helpers::{TestStore, run, value_at};

#[test]
fn the_suite_runs_on_the_named_store() {
    let response = run(&["conformance", "--store", "memory:", "--json"], "");
    let report = &response.documents()[0];
    let rows = value_at(report, "/rows").as_array().unwrap();
    let counts =
        ["/passed", "/failed", "/unsupported", "/gap", "/not_run"].map(|sum| value_at(report, sum).as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>(), rows.len() as u64);
    assert!(counts[0] > 100, "{counts:?}");
    assert_eq!(response.code == 0, counts[1] == 0, "{counts:?}");
    assert!(rows.iter().all(|row| !value_at(row, "/ids").as_array().unwrap().is_empty()));
}

#[test]
fn a_store_with_data_is_refused_and_not_changed() {
    let store = TestStore::new();
    store.append("t", "hi");
    let response = store.run(&["conformance"]).expect_failure(1, &["it already contains data", "what to do"]);
    assert!(response.err.contains("data"), "{response:?}");
    assert_eq!(value_at(&store.json(&["threads"]), "/threads/0/version"), 1);
    // The folder contains only the store.
    assert_eq!(fs::read_dir(store.sibling_path("")).unwrap().count(), 1);
}
