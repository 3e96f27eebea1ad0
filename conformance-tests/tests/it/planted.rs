//! Every planted bug is found by the case that it names.

use conformance_tests::{
    Status,
    model::{Bug, verdict},
};
use tokio::runtime::Builder;

#[test]
fn every_planted_bug_is_found_by_its_case() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut missed = Vec::new();
    for &bug in Bug::ALL {
        match runtime.block_on(verdict(bug.killer(), Some(bug))) {
            Some(Status::Failed(_)) => {}
            ended => missed.push(format!("{bug:?} by {}: {ended:?}", bug.killer())),
        }
    }
    assert!(missed.is_empty(), "{} of {} missed:\n{}", missed.len(), Bug::ALL.len(), missed.join("\n"));
}

/// The table of all cases and all bugs: `AGENTSTORE_BUG_TABLE=1`, with `--nocapture`.
#[test]
fn table_of_cases_and_bugs() {
    if std::env::var_os("AGENTSTORE_BUG_TABLE").is_none() {
        return;
    }
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for case in conformance_tests::cases() {
        let finds = |bug: &&Bug| matches!(runtime.block_on(verdict(case.name, Some(**bug))), Some(Status::Failed(_)));
        let found: Vec<_> = Bug::ALL.iter().filter(finds).map(|bug| format!("{bug:?}")).collect();
        println!("{}: {}", case.name, found.join(" "));
    }
}
