//! `conformance`: the suite runs on a store as it is configured here.

use std::fs;

use crate::helpers::{Store, at, run};

#[test]
fn the_suite_runs_on_the_named_store() {
    let response = run(&["conformance", "--store", "memory:", "--json"], "");
    let report = &response.lines()[0];
    let rows = at(report, "/rows").as_array().unwrap();
    let sums = ["/passed", "/failed", "/unsupported", "/gap", "/not_run"].map(|sum| at(report, sum).as_u64().unwrap());
    assert_eq!(sums.iter().sum::<u64>(), rows.len() as u64);
    assert!(sums[0] > 100, "{sums:?}");
    assert_eq!(response.code == 0, sums[1] == 0, "{sums:?}");
    assert!(rows.iter().all(|row| !at(row, "/ids").as_array().unwrap().is_empty()));
}

#[test]
fn a_store_with_data_is_refused_and_left_as_it_is() {
    let store = Store::new();
    store.append("t", "hi");
    let response = store.run(&["conformance"]).expect_failure(1, &["it already contains data", "what to do"]);
    assert!(response.err.contains("data"), "{response:?}");
    assert_eq!(at(&store.json(&["threads"]), "/threads/0/version"), 1);
    let beside = fs::read_dir(store.sibling_path("")).unwrap().count();
    assert_eq!(beside, 1);
}
