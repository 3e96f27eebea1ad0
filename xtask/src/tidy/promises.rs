//! Checks that each promise of the contract is named by a case, a test or a benchmark, and that each id in a case is
//! the id of a promise.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};
use conformance_tests::{CoveredBy, PROMISES_WITHOUT_CASE};

use super::Source;

/// Promises that no case or test names yet, each with the missing part of the code. Nothing may be added to the list.
const NOT_YET_TESTED: &[(&str, &str)] = &[];

/// Tests that only the full run executes, each with the reason. Their promises must also be named by other tests.
const TESTS_OF_FULL_RUN: &[(&str, &str)] = &[("store-memory/tests/schedules/", "another build, with shuttle")];

/// The conformance suites, one for each contract.
const SUITES: &[&str] = &[
    "thread_run_store",
    "commit_coordinator",
    "pending_store",
    "event_store",
    "outbox_store",
    "mailbox_store",
    "live_channel",
    "document_store",
];

/// The backends that have documents.
const DOCUMENT_BACKENDS: &[&str] = &["store-memory", "store-file", "store-postgres"];

/// The backends, and whether they also keep threads.
const BACKENDS: &[(&str, bool)] = &[
    ("store-memory", true),
    ("store-file", true),
    ("store-postgres", true),
    ("store-sqlite-mailbox", false),
    ("store-nats", false),
];

/// Checks that the tests of each backend run every suite of its contracts.
fn check_suites(sources: &[Source], findings: &mut Vec<String>) {
    for (backend, keeps_threads) in BACKENDS {
        let path = format!("{backend}/tests/it/conformance.rs");
        let text = sources.iter().find(|source| source.path == path).map_or("", |source| source.text.as_str());
        let is_required = |suite: &&&str| match **suite {
            "mailbox_store" | "live_channel" => true,
            "document_store" => DOCUMENT_BACKENDS.contains(backend),
            _ => *keeps_threads,
        };
        let required_suites = SUITES.iter().filter(is_required);
        for suite in required_suites.filter(|suite| !text.contains(&format!("conformance_tests::{suite}!"))) {
            findings.push(format!("{path}: the suite of `{suite}` is missing"));
        }
    }
}

/// Compares the promises of the contract with the cases, tests and benchmarks that name them. Returns a summary with
/// the number of promises.
pub(super) fn check(root: &Path, sources: &[Source], findings: &mut Vec<String>) -> Result<String> {
    let path = root.join("docs/contract.md");
    let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let promises: BTreeSet<&str> = text.lines().filter_map(promise_id).collect();
    let ids_in_cases: BTreeSet<&str> = conformance_tests::cases().iter().flat_map(|case| case.ids).copied().collect();
    check_suites(sources, findings);
    let is_always_run = |path: &str| !TESTS_OF_FULL_RUN.iter().any(|(prefix, _)| path.starts_with(prefix));
    let tests = sources.iter().filter(|source| is_test(&source.path) && is_always_run(&source.path));
    let ids_in_tests: BTreeSet<&str> = tests.flat_map(mentioned_ids).collect();
    for id in ids_in_cases.difference(&promises) {
        findings.push(format!("a case names {id}, which is not a promise of docs/contract.md"));
    }
    let mut untested_count = 0;
    for id in &promises {
        let is_not_yet_tested = NOT_YET_TESTED.iter().any(|(not_yet_tested, _)| not_yet_tested == id);
        let is_ensured_by_types =
            PROMISES_WITHOUT_CASE.iter().any(|line| line.id == *id && matches!(line.covered_by, CoveredBy::Types));
        let is_tested = ids_in_cases.contains(id) || ids_in_tests.contains(id) || is_ensured_by_types;
        untested_count += usize::from(is_not_yet_tested);
        match (is_not_yet_tested, is_tested) {
            (false, false) => findings.push(format!("{id}: no case, test or benchmark names it")),
            (true, true) => findings.push(format!("{id}: is tested, remove it from `NOT_YET_TESTED`")),
            _ => {}
        }
    }
    let listed_ids = PROMISES_WITHOUT_CASE.iter().map(|line| line.id).chain(NOT_YET_TESTED.iter().map(|(id, _)| *id));
    for id in listed_ids.filter(|id| !promises.contains(id)) {
        findings.push(format!(
            "{id} is listed in `PROMISES_WITHOUT_CASE` or `NOT_YET_TESTED`, but is not a promise of docs/contract.md"
        ));
    }
    Ok(format!(
        "{} promises, {untested_count} of them not tested yet, {} cases",
        promises.len(),
        conformance_tests::cases().len()
    ))
}

/// Returns the id of a line that makes a promise: `- TH-6 …`.
fn promise_id(line: &str) -> Option<&str> {
    let id = line.strip_prefix("- ")?.split(' ').next()?;
    is_id(id).then_some(id)
}

fn is_id(word: &str) -> bool {
    word.split_once('-').is_some_and(|(area, number)| {
        area.len() == 2
            && area.bytes().all(|byte| byte.is_ascii_uppercase())
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn is_test(path: &str) -> bool {
    let is_step_of_cargo_xtask_test = path == "xtask/src/features.rs";
    (is_step_of_cargo_xtask_test
        || path.contains("/tests/")
        || path.contains("tests.rs")
        || path.starts_with("benches/"))
        && !path.starts_with("conformance-tests/src/")
}

/// Returns the ids that a file names. A range such as `TH-1 to TH-4` names only its first and last id.
fn mentioned_ids(source: &Source) -> impl Iterator<Item = &str> {
    let words = source.text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| is_id(word))
}
