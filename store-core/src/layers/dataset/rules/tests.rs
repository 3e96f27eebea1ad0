//! Tests of the rules of datasets.

use super::{Found, check_version, documents_of_change, plan_change};
use crate::{
    CaseChange, CaseContent, ChangeDataset, DocumentChange, DocumentExpect, DocumentOp, ErrorKind, Json,
    codec::{Codec, Extra},
    layers::dataset::record::{CaseRow, DatasetState},
};

fn content(value: u64) -> CaseContent {
    CaseContent::new(Json::of(&value).unwrap())
}

fn add(case: &str, value: u64) -> CaseChange {
    CaseChange::Add(case.parse().unwrap(), content(value))
}

fn replace(case: &str, value: u64) -> CaseChange {
    CaseChange::Replace(case.parse().unwrap(), content(value))
}

fn put(case: &str, value: u64) -> CaseChange {
    CaseChange::Put(case.parse().unwrap(), content(value))
}

fn remove(case: &str) -> CaseChange {
    CaseChange::Remove(case.parse().unwrap())
}

fn request(changes: &[CaseChange]) -> ChangeDataset {
    ChangeDataset::new("d".parse().unwrap(), changes.to_vec())
}

fn row(from: u64, value: u64) -> CaseRow {
    CaseRow { from, until: None, hash: content(value).hash(), extra: Extra::default() }
}

/// A dataset in this version with 10 cases, whose document has the revision 7, and these rows.
fn found(version: u64, rows: &[Option<CaseRow>]) -> Found {
    let state = (version > 0).then(|| (DatasetState { version, cases: 10, extra: Extra::default() }, 7));
    Found { state, rows: rows.to_vec() }
}

/// The end of the key of a changed document, and its value: `a#5 {…}`, or `-` if it is deleted.
fn text(change: &DocumentChange) -> String {
    let segments: Vec<_> = change.document.key.segments().iter().skip(1).map(ToString::to_string).collect();
    let name = segments.join("#").replace(&u64::MAX.to_string(), "live");
    match &change.op {
        DocumentOp::Put(value) => format!("{name} {value}"),
        _ => format!("{name} -"),
    }
}

#[test]
fn a_change_writes_what_changed() {
    let check = |changes: &[CaseChange], rows: &[Option<CaseRow>], counts: [u64; 3], expected: &[&str]| {
        let (changed, written) = plan_change(&request(changes), &found(4, rows)).unwrap();
        assert_eq!([changed.added, changed.replaced, changed.removed], counts);
        assert_eq!((changed.version.version, changed.created), (5, true));
        let [one, two] = [1, 2].map(|value| content(value).hash());
        let with_hashes = |line: &&str| line.replace("HASH1", &one).replace("HASH2", &two);
        let expected: Vec<_> = expected.iter().map(with_hashes).collect();
        let written: Vec<_> = written.iter().map(text).collect();
        assert_eq!(written, expected);
    };
    let state = [" {\"version\":5,\"cases\":11}", "5 {\"cases\":11,\"added\":1}"];
    let added = ["HASH1 {\"input\":1}", "a#live {\"from\":5,\"hash\":\"HASH1\"}"];
    check(&[add("a", 1)], &[None], [1, 0, 0], &[&added[..], &state].concat());
    check(&[put("a", 1)], &[None], [1, 0, 0], &[&added[..], &state].concat());
    // A content that two cases have is written once.
    let other =
        ["b#live {\"from\":5,\"hash\":\"HASH1\"}", " {\"version\":5,\"cases\":12}", "5 {\"cases\":12,\"added\":2}"];
    check(&[add("a", 1), add("b", 1)], &[None, None], [2, 0, 0], &[&added[..], &other].concat());
    let replaced = [
        "HASH2 {\"input\":2}",
        "a#live {\"from\":5,\"hash\":\"HASH2\"}",
        "a#3 {\"from\":3,\"until\":5,\"hash\":\"HASH1\"}",
        " {\"version\":5,\"cases\":10}",
        "5 {\"cases\":10,\"replaced\":1}",
    ];
    check(&[replace("a", 2)], &[Some(row(3, 1))], [0, 1, 0], &replaced);
    check(&[put("a", 2)], &[Some(row(3, 1))], [0, 1, 0], &replaced);
    let removed = [
        "a#live -",
        "a#3 {\"from\":3,\"until\":5,\"hash\":\"HASH1\"}",
        " {\"version\":5,\"cases\":9}",
        "5 {\"cases\":9,\"removed\":1}",
    ];
    check(&[remove("a")], &[Some(row(3, 1))], [0, 0, 1], &removed);
    // What has the content already is not written.
    let both = [put("b", 1), remove("a")];
    check(&both, &[Some(row(1, 1)), Some(row(3, 1))], [0, 0, 1], &removed);
}

#[test]
fn a_change_that_changes_nothing_writes_nothing() {
    for change in [put("a", 1), replace("a", 1)] {
        let (changed, written) = plan_change(&request(&[change]), &found(4, &[Some(row(3, 1))])).unwrap();
        assert_eq!((changed.version.version, changed.created, written.len()), (4, false, 0));
    }
}

#[test]
fn the_state_guards_every_row() {
    for (version, expected) in [(0, DocumentExpect::Absent), (4, DocumentExpect::Revision(7))] {
        let request = request(&[add("a", 1), add("b", 2)]);
        let (_, written) = plan_change(&request, &found(version, &[None, None])).unwrap();
        let state = &documents_of_change(&request).unwrap()[0];
        let expects = |change: &&DocumentChange| change.document == *state && change.expect == expected;
        assert_eq!(written.iter().filter(expects).count(), 1, "{written:?}");
    }
}

#[test]
fn a_change_is_refused_as_a_whole() {
    let check = |changes: &[CaseChange], rows: &[Option<CaseRow>], kind: ErrorKind, part: Option<&str>| {
        let error = plan_change(&request(changes), &found(4, rows)).unwrap_err();
        assert_eq!((error.kind(), error.part()), (kind, part), "{error}");
    };
    check(&[], &[], ErrorKind::Invalid, None);
    check(&[add("a", 1), remove("a")], &[None, None], ErrorKind::Invalid, None);
    check(&[add("b", 1), add("a", 1)], &[None, Some(row(3, 1))], ErrorKind::AlreadyExists, Some("changes[1]"));
    check(&[replace("a", 1)], &[None], ErrorKind::NotFound, Some("changes[0]"));
    check(&[remove("a")], &[None], ErrorKind::NotFound, Some("changes[0]"));
}

#[test]
fn the_expected_version_is_the_current_one() {
    for (expected, actual, holds) in [
        (None, 0, true),
        (None, 4, true),
        (Some(4), 4, true),
        (Some(0), 0, true),
        (Some(3), 4, false),
        (Some(0), 4, false),
        (Some(4), 0, false),
    ] {
        let checked = check_version(expected, actual).map_err(|error| error.kind());
        assert_eq!(checked, if holds { Ok(()) } else { Err(ErrorKind::Conflict) }, "{expected:?} {actual}");
    }
}

#[test]
fn a_row_belongs_to_the_versions_from_its_first_to_its_last() {
    let check = |row: &str, versions: &[u64]| {
        let row = CaseRow::read(row).unwrap();
        assert_eq!((0..6).filter(|version| row.is_in(*version)).collect::<Vec<_>>(), versions);
    };
    check(r#"{"from":3,"hash":"h"}"#, &[3, 4, 5]);
    check(r#"{"from":2,"until":4,"hash":"h"}"#, &[2, 3]);
    check(r#"{"from":1,"until":2,"hash":"h"}"#, &[1]);
}
