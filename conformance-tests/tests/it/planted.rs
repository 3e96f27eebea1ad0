//! Every planted bug is found by the case that it names.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use conformance_tests::{
    Status,
    layer_bugs::{LayerBug, run_case_with_layer_bug},
    model::{Bug, run_named_case},
};
use tokio::runtime::Builder;

/// How many bugs are tested at the same time. Most cases that find a bug spend their time waiting for something that
/// does not happen.
const CONCURRENT_BUGS: usize = 8;

#[test]
fn every_planted_bug_is_found_by_its_case() {
    let (next_bug, missed_bugs) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let test_bugs = || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        while let Some(&bug) = Bug::ALL.get(next_bug.fetch_add(1, Ordering::SeqCst)) {
            match runtime.block_on(run_named_case(bug.finding_case(), Some(bug))) {
                Some(Status::Failed(_)) => {}
                status => missed_bugs.lock().unwrap().push(format!("{bug:?} by {}: {status:?}", bug.finding_case())),
            }
        }
    };
    std::thread::scope(|scope| (0..CONCURRENT_BUGS).for_each(|_| drop(scope.spawn(test_bugs))));
    let missed_bugs = missed_bugs.into_inner().unwrap();
    assert!(
        missed_bugs.is_empty(),
        "{} of {} planted bugs missed:\n{}",
        missed_bugs.len(),
        Bug::ALL.len(),
        missed_bugs.join("\n")
    );
}

/// The planted bugs of layers are found by the cases that they name, and these cases pass without a bug.
#[test]
fn every_planted_bug_of_a_layer_is_found_by_its_case() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut problems = Vec::new();
    for &bug in LayerBug::ALL {
        let case = bug.finding_case();
        let (with_bug, without) = runtime.block_on(async {
            (run_case_with_layer_bug(case, Some(bug)).await, run_case_with_layer_bug(case, None).await)
        });
        if !matches!(with_bug, Some(Status::Failed(_))) {
            problems.push(format!("{bug:?} by {case}: {with_bug:?}"));
        }
        if !matches!(without, Some(Status::Passed)) {
            problems.push(format!("without a bug, {case}: {without:?}"));
        }
    }
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

/// Prints the bugs that each case finds, if `AGENTSTORE_BUG_TABLE` is set. The output is visible with `--nocapture`.
#[test]
fn the_table_of_cases_and_bugs_is_printed_on_request() {
    if std::env::var_os("AGENTSTORE_BUG_TABLE").is_none() {
        return;
    }
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for case in conformance_tests::cases() {
        let finds =
            |bug: &&Bug| matches!(runtime.block_on(run_named_case(case.name, Some(**bug))), Some(Status::Failed(_)));
        let found_bugs: Vec<_> = Bug::ALL.iter().filter(finds).map(|bug| format!("{bug:?}")).collect();
        println!("{}: {}", case.name, found_bugs.join(" "));
    }
}
