//! `bench`: a store is measured and compared with the machine's own limit.

use std::fs;

use crate::given::{Store, at, run};

#[test]
fn a_store_is_benchmarked_against_the_machine_limit() {
    let said = run(&["bench", "--store", "memory:", "--scenario", "commit-8", "--seconds", "1", "--json"], "");
    assert_eq!(said.code, 0, "{said:?}");
    let report = &said.lines()[0];
    assert_eq!(at(report, "/scenarios").as_array().unwrap().len(), 1);
    assert_eq!(at(report, "/scenarios/0/scenario"), "commit-8");
    let number = |path: &str| at(report, &format!("/scenarios/0/{path}")).as_f64().unwrap();
    assert!(number("value") > 0.0 && number("limit") > number("value"), "{report}");
    assert!(number("p99_us") >= number("p50_us") && number("p50_us") > 0.0, "{report}");
}

#[test]
fn a_benchmark_leaves_no_files_and_does_not_touch_the_named_store() {
    let store = Store::new();
    store.append("t", "hi");
    let said = store.run(&["bench", "--scenario", "dispatch-8", "--scenario", "turn-8", "--seconds", "1"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.out.contains("turn-8") && said.out.contains("fdatasync"), "{said:?}");
    assert_eq!(fs::read_dir(store.beside("")).unwrap().count(), 1);
    assert_eq!(at(&store.json(&["threads"]), "/threads/0/version"), 1);
}

#[test]
fn an_unknown_scenario_is_refused_and_the_known_ones_are_listed() {
    let said = run(&["bench", "--store", "memory:", "--scenario", "nothing"], "");
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("commit-64-one-thread"), "{said:?}");
}
