//! Every planted bug is found by the case that it names.

use std::{
    fmt::Debug,
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use conformance_tests::{
    Status,
    blob_bugs::{BlobBug, BlobBugFixture},
    layer_bugs::{LayerBug, LayerBugFixture},
    model::{Bug, run_named_case, run_named_case_on},
};
use tokio::runtime::Builder;

/// How many bugs are tested at the same time. Most cases that find a bug spend their time waiting for something that
/// does not happen.
const CONCURRENT_BUGS: usize = 8;
/// How often a case is run until it finds its bug. In a single run of a case about concurrent calls, the calls may not
/// overlap, above all on a busy machine.
const MAX_RUNS: usize = 5;

#[test]
fn every_planted_bug_is_found_by_its_case() {
    expect_all_found(Bug::ALL, Bug::finding_case, |bug| Box::pin(run_named_case(bug.finding_case(), Some(bug))));
}

#[test]
fn every_planted_bug_of_a_layer_is_found_by_its_case() {
    let find = |bug: LayerBug| run_named_case_on(bug.finding_case(), Arc::new(LayerBugFixture::new(bug)));
    expect_all_found(LayerBug::ALL, LayerBug::finding_case, |bug| Box::pin(find(bug)));
}

#[test]
fn every_planted_bug_of_objects_and_blobs_is_found_by_its_case() {
    let find = |bug: BlobBug| run_named_case_on(bug.finding_case(), Arc::new(BlobBugFixture::new(bug)));
    expect_all_found(BlobBug::ALL, BlobBug::finding_case, |bug| Box::pin(find(bug)));
}

fn expect_all_found<B: Copy + Debug + Sync>(
    bugs: &[B],
    finding_case: impl Fn(B) -> &'static str + Sync,
    find: impl Fn(B) -> Pin<Box<dyn Future<Output = Option<Status>>>> + Sync,
) {
    let (next_bug, missed_bugs) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let test_bugs = || {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        while let Some(&bug) = bugs.get(next_bug.fetch_add(1, Ordering::SeqCst)) {
            let mut runs = (0..MAX_RUNS).map(|_| runtime.block_on(find(bug)));
            match runs.find(|status| !matches!(status, Some(Status::Passed))) {
                Some(Some(Status::Failed(_))) => {}
                None => missed_bugs.lock().unwrap().push(format!("{bug:?} by {}: it passed", finding_case(bug))),
                Some(status) => {
                    missed_bugs.lock().unwrap().push(format!("{bug:?} by {}: {status:?}", finding_case(bug)));
                }
            }
        }
    };
    std::thread::scope(|scope| (0..CONCURRENT_BUGS).for_each(|_| drop(scope.spawn(test_bugs))));
    let missed_bugs = missed_bugs.into_inner().unwrap();
    assert!(
        missed_bugs.is_empty(),
        "{} of {} planted bugs missed:\n{}",
        missed_bugs.len(),
        bugs.len(),
        missed_bugs.join("\n")
    );
}

/// Cases about documents and topics that no bug names. Each also finds a bug that names another case.
const CASES_THAT_FIND_BUGS_OF_OTHERS: [(&str, Bug); 14] = [
    ("document::repeated_events_of_a_write_are_appended_once", Bug::EventKeyIgnored),
    ("document::one_of_several_creations_or_deletions_succeeds", Bug::DocumentGuardOutsideTheLock),
    ("document::a_cursor_belongs_to_one_list_of_documents", Bug::CursorUnbound),
    ("document::a_commit_names_documents_of_its_own_thread", Bug::SeveralThreadsOfDocuments),
    ("document::a_list_of_a_topic_continues_after_its_cursor", Bug::InternalEventsShown),
    ("document::an_append_can_expect_the_count_of_a_topic", Bug::EventsUnguarded),
    ("document::a_topic_can_be_subscribed", Bug::NowStartsAtLastEvent),
    ("document::a_topic_can_be_trimmed", Bug::TrimTakesBothScopes),
    ("document::documents_of_a_prefix_are_counted", Bug::PrefixEndsInsideAnId),
    ("document::documents_of_a_prefix_are_deleted", Bug::PrefixEndsInsideAnId),
    ("document::a_deletion_can_be_stopped_between_batches", Bug::LimitIgnored),
    ("document::tenants_have_their_own_documents", Bug::TenantByPrefix),
    ("document::a_dropped_call_on_documents_is_all_or_nothing", Bug::DocumentsOneByOne),
    ("document::an_unknown_outcome_on_documents_can_be_resolved", Bug::KeyIgnored),
];

#[test]
fn every_case_of_documents_finds_a_bug() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (case, bug) in CASES_THAT_FIND_BUGS_OF_OTHERS {
        let status = runtime.block_on(run_named_case(case, Some(bug)));
        assert!(matches!(status, Some(Status::Failed(_))), "{bug:?} by {case}: {status:?}");
    }
    let is_named = |case: &str| Bug::ALL.iter().any(|bug| bug.finding_case() == case);
    let finds_a_bug =
        |case: &str| is_named(case) || CASES_THAT_FIND_BUGS_OF_OTHERS.iter().any(|(other, _)| *other == case);
    for case in conformance_tests::cases().iter().filter(|case| case.name.starts_with("document::")) {
        assert!(finds_a_bug(case.name), "{} finds no planted bug", case.name);
    }
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
