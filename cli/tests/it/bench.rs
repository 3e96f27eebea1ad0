//! `bench`: a store is measured and compared with the machine's own limit, the rate of loops that only write the same
//! bytes.

use std::fs;

use crate::helpers::{TestStore, run, value_at};

#[test]
fn a_store_is_benchmarked_against_the_machine_limit() {
    let response = run(&["bench", "--store", "memory:", "--scenario", "commit-8", "--seconds", "1", "--json"], "");
    assert_eq!(response.code, 0, "{response:?}");
    let report = &response.documents()[0];
    assert_eq!(value_at(report, "/scenarios").as_array().unwrap().len(), 1);
    assert_eq!(value_at(report, "/scenarios/0/scenario"), "commit-8");
    let number = |path: &str| value_at(report, &format!("/scenarios/0/{path}")).as_f64().unwrap();
    assert!(number("value") > 0.0 && number("limit") > number("value"), "{report}");
    assert!(number("p99_us") >= number("p50_us") && number("p50_us") > 0.0, "{report}");
    // Memory has no file that callers could share, and writes nothing.
    assert!(!report.to_string().contains("shared_") && !report.to_string().contains("written"), "{report}");
}

#[test]
fn a_file_store_is_also_benchmarked_against_one_file_with_a_shared_sync() {
    let store = TestStore::new();
    let report = store.json(&["bench", "--scenario", "commit-64", "--scenario", "commit-1", "--seconds", "1"]);
    assert!(value_at(&report, "/shared_limit_is").as_str().unwrap().contains("one fdatasync"), "{report}");
    for scenario in 0..2 {
        let number = |name: &str| value_at(&report, &format!("/scenarios/{scenario}/{name}")).as_f64().unwrap();
        let ratio = number("value") / number("shared_limit");
        assert!((number("shared_ratio") - ratio).abs() < 0.01, "{report}");
        // A commit writes its body to the journal and to a log.
        if fs::read("/proc/self/io").is_ok() {
            assert!(number("written_bytes") > 1200.0, "{report}");
        }
    }
}

#[test]
fn documents_are_benchmarked_alone_and_in_commits() {
    let store = TestStore::new();
    let scenarios = ["document-1", "document-8", "commit-1-with-document"];
    let arguments = scenarios.iter().flat_map(|name| ["--scenario", name]);
    let report = store.json(&["bench", "--seconds", "1"].into_iter().chain(arguments).collect::<Vec<_>>());
    for (scenario, unit) in ["commits", "documents", "documents"].into_iter().enumerate() {
        let value = |name: &str| value_at(&report, &format!("/scenarios/{scenario}/{name}")).clone();
        assert_eq!(value("unit"), unit, "{report}");
        assert!(value("value").as_f64().unwrap() > 0.0 && value("limit").as_f64().unwrap() > 0.0, "{report}");
    }
}

#[test]
fn stream_checkpoints_and_ends_of_effects_are_benchmarked() {
    let store = TestStore::new();
    let scenarios = ["--scenario", "checkpoint-1", "--scenario", "commit-1-with-effect-end"];
    let report = store.json(&[&["bench", "--seconds", "1"], &scenarios[..]].concat());
    for (scenario, unit) in ["commits", "checkpoints"].into_iter().enumerate() {
        let value = |name: &str| value_at(&report, &format!("/scenarios/{scenario}/{name}")).clone();
        assert_eq!(value("unit"), unit, "{report}");
        assert!(value("value").as_f64().unwrap() > 0.0 && value("limit").as_f64().unwrap() > 0.0, "{report}");
    }
    assert_eq!(value_at(&report, "/scenarios/1/bytes"), 4096, "{report}");
}

/// The measured process puts and reads blobs of 96 MiB with less memory than that.
#[test]
fn blobs_are_benchmarked_against_the_copy_of_a_file() {
    let store = TestStore::new();
    let scenarios = ["--scenario", "blob-put", "--scenario", "blob-get", "--blob-mib", "96"];
    let report = store.json(&[&["bench", "--seconds", "1"], &scenarios[..]].concat());
    for scenario in 0..2 {
        let value = |name: &str| value_at(&report, &format!("/scenarios/{scenario}/{name}")).clone();
        assert_eq!((value("unit"), value("bytes")), ("MiB".into(), (96_u32 << 20).into()), "{report}");
        assert!(value("value").as_f64().unwrap() > 0.0 && value("limit").as_f64().unwrap() > 0.0, "{report}");
        assert!(value("limit_is").as_str().unwrap().contains("copy"), "{report}");
        if fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("VmHWM")) {
            assert!(value("peak_memory_bytes").as_u64().unwrap() < 64 << 20, "{report}");
        }
    }
    assert_eq!(fs::read_dir(store.sibling_path("")).unwrap().count(), 0);
}

#[test]
fn reads_of_traces_and_effects_are_benchmarked_against_the_same_work_without_them() {
    let store = TestStore::new();
    let scenarios = ["--scenario", "trace-1", "--scenario", "dispatch-1-with-effects-read"];
    let report = store.json(&[&["bench", "--seconds", "1"], &scenarios[..]].concat());
    for (scenario, unit) in ["traces", "dispatches"].into_iter().enumerate() {
        let value = |name: &str| value_at(&report, &format!("/scenarios/{scenario}/{name}")).clone();
        assert_eq!(value("unit"), unit, "{report}");
        assert!(value("value").as_f64().unwrap() > 0.0 && value("limit").as_f64().unwrap() > 0.0, "{report}");
        assert!(value("limit_is").is_string() && value("ratio").as_f64().unwrap() < 1.5, "{report}");
    }
    assert!(!report.to_string().contains("shared_"), "{report}");
}

#[test]
fn a_benchmark_leaves_no_files_and_does_not_touch_the_named_store() {
    let store = TestStore::new();
    store.append("t", "hi");
    let response = store.run(&["bench", "--scenario", "dispatch-8", "--scenario", "turn-8", "--seconds", "1"]);
    assert_eq!(response.code, 0, "{response:?}");
    assert!(response.out.contains("turn-8") && response.out.contains("fdatasync"), "{response:?}");
    assert!(response.out.contains("SHARED"), "{response:?}");
    // The folder contains only the store.
    assert_eq!(fs::read_dir(store.sibling_path("")).unwrap().count(), 1);
    assert_eq!(value_at(&store.json(&["threads"]), "/threads/0/version"), 1);
}

#[test]
fn an_unknown_scenario_is_refused_and_the_known_ones_are_listed() {
    let response = run(&["bench", "--store", "memory:", "--scenario", "nothing"], "");
    assert_eq!(response.code, 2, "{response:?}");
    assert!(response.err.contains("commit-64-one-thread"), "{response:?}");
}
