//! Tests of the report of the suite, as text and as JSON.

use conformance_tests::{CaseResult, Contract, Report, Status, StoreSupport};
use store_core::{Capabilities, Survives};

fn report() -> Report {
    let row = |case, status| CaseResult { contract: Contract::ThreadRunStore, case, ids: &["TH-1"], status };
    let rows = vec![
        row("thread::a", Status::Passed),
        row("thread::b", Status::Failed("found 1, wanted 2".to_owned())),
        row("page::c", Status::NotRun("no second process".to_owned())),
    ];
    let support = StoreSupport {
        capabilities: Capabilities::new(Survives::Nothing, 1 << 20),
        contracts: Vec::new(),
        layers: Vec::new(),
        live: false,
    };
    Report { store: "memory".to_owned(), support, rows }
}

#[test]
fn the_table_counts_cases_per_area_and_lists_those_that_did_not_pass() {
    let (report, text) = (report(), report().to_string());
    // Passed, failed, unsupported, gaps, not run.
    assert_eq!((report.counts(), report.is_success()), ([1, 1, 0, 0, 1], false));
    let normalized_lines: Vec<_> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert!(normalized_lines.contains(&"ThreadRunStore, thread 1 1 0 0 0".to_owned()), "{text}");
    assert!(normalized_lines.contains(&"all 1 1 0 0 1".to_owned()), "{text}");
    assert!(text.contains("failed: thread::b (TH-1): found 1, wanted 2"), "{text}");
    assert!(text.contains("not run: page::c (TH-1): no second process"), "{text}");
}

#[test]
fn a_case_result_as_json_has_its_status_and_reason() {
    let row = serde_json::to_string(&report().rows[2]).unwrap();
    assert_eq!(
        row,
        r#"{"contract":"thread_run_store","case":"page::c","ids":["TH-1"],"status":"not_run","reason":"no second process"}"#
    );
}
