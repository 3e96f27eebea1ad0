//! Every promise of the contract has a case, a fault test or a benchmark that names it, and every case a promise.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};
use conformance_tests::{ELSEWHERE, Place};

use super::Source;

/// Promises that wait for a part that is not there yet, or for their test. The list only shrinks.
const WAITING: &[(&str, &str)] = &[
    ("FI-14", "cold logs"),
    ("CP-5", "decorators"),
    ("VF-2", "copy"),
    ("VF-3", "copy"),
    ("VF-4", "copy"),
    ("VF-6", "copy"),
];

/// Compares the contract with what shows it, and says how many of each there are.
pub(super) fn check(root: &Path, sources: &[Source], objections: &mut Vec<String>) -> Result<String> {
    let path = root.join("docs/contract.md");
    let text = fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
    let promises: BTreeSet<&str> = text.lines().filter_map(promise).collect();
    let in_cases: BTreeSet<&str> = conformance_tests::cases().iter().flat_map(|case| case.ids).copied().collect();
    let in_tests: BTreeSet<&str> = sources.iter().filter(|source| is_test(&source.path)).flat_map(mentioned).collect();
    for id in in_cases.difference(&promises) {
        objections.push(format!("a case names {id}, which is no promise of docs/contract.md"));
    }
    let mut waiting = 0;
    for id in &promises {
        let waits = WAITING.iter().any(|(waiting, _)| waiting == id);
        let by_types = ELSEWHERE.iter().any(|line| line.id == *id && matches!(line.place, Place::Types));
        let is_shown = in_cases.contains(id) || in_tests.contains(id) || by_types;
        waiting += usize::from(waits);
        match (waits, is_shown) {
            (false, false) => objections.push(format!("{id}: no case, test or benchmark names it")),
            (true, true) => objections.push(format!("{id}: is shown, take it off the list of what waits")),
            _ => {}
        }
    }
    let listed = ELSEWHERE.iter().map(|line| line.id).chain(WAITING.iter().map(|(id, _)| *id));
    for id in listed.filter(|id| !promises.contains(id)) {
        objections.push(format!("{id} is listed as shown elsewhere, but is no promise of docs/contract.md"));
    }
    Ok(format!("{} promises, {waiting} of them waiting, {} cases", promises.len(), conformance_tests::cases().len()))
}

/// The id of a line that promises something: `- TH-6 …`.
fn promise(line: &str) -> Option<&str> {
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
    let in_steps = path == "xtask/src/features.rs";
    (in_steps || path.contains("/tests/") || path.contains("tests.rs") || path.starts_with("benches/"))
        && !path.starts_with("conformance-tests/src/")
}

/// The ids that a file names, alone or as ends of a range.
fn mentioned(source: &Source) -> impl Iterator<Item = &str> {
    let words = source.text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter(|word| is_id(word))
}
