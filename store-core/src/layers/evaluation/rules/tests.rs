//! Tests of the rules of evaluation runs.

use super::{
    check_result, check_same, check_same_result, checked, content_of, created, plan_end, plan_result, results_of_case,
};
use crate::{
    DatasetVersion, DatasetVersionContent, DatasetVersionRef, DocumentExpect, DocumentOp, ErrorKind, Evaluation,
    EvaluationEnd, EvaluationResult, EvaluationStatus, Json, NewEvaluation, NewResult, ResultKey, Score,
    codec::{Codec, Extra},
};

fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// A request with cells of these names.
fn request(cells: &[&str]) -> NewEvaluation {
    let new = NewEvaluation::new("e".parse().unwrap(), "d".parse().unwrap());
    cells.iter().fold(new, |new, cell| new.cell(cell.parse().unwrap(), json("{}")))
}

/// A run of two samples with the cells `x` and `y` over the version 3, which has two cases.
fn evaluation() -> Evaluation {
    let content = DatasetVersionContent {
        cases: 2,
        added: 0,
        replaced: 0,
        removed: 0,
        by: None,
        metadata: None,
        extra: Extra::default(),
    };
    let name = DatasetVersionRef::new("d".parse().unwrap(), 3);
    let version = DatasetVersion { name, content, created_at: Default::default() };
    let new = checked(request(&["y", "x"]).with_samples(2)).unwrap();
    Evaluation { revision: 7, ..created(&new, &version) }
}

fn key(text: &str) -> ResultKey {
    let parts: Vec<_> = text.split('/').collect();
    ResultKey::new(parts[0].parse().unwrap(), parts[1].parse().unwrap(), parts[2].parse().unwrap())
}

#[test]
fn cells_are_checked_and_ordered() {
    let check = |new: NewEvaluation, expected: Result<&str, ErrorKind>| {
        let names =
            checked(new).map(|new| new.cells.iter().map(|cell| cell.name.to_string()).collect::<Vec<_>>().join(" "));
        assert_eq!(names.map_err(|error| error.kind()), expected.map(str::to_owned));
    };
    check(request(&[]), Ok("default"));
    check(request(&["b", "a", "B"]), Ok("B a b"));
    check(request(&["a", "b", "a"]), Err(ErrorKind::Invalid));
    check(request(&["a"]).with_samples(0), Err(ErrorKind::Invalid));
    check(request(&["a", "b"]).with_samples(500), Ok("a b"));
    check(request(&["a", "b"]).with_samples(501), Err(ErrorKind::LimitExceeded));
    check(request(&[&"a".repeat(64)]), Ok(&"a".repeat(64)));
    check(request(&[&"a".repeat(65)]), Err(ErrorKind::LimitExceeded));
}

#[test]
fn a_run_goes_on_if_it_is_the_same() {
    let same = || request(&["x", "y"]).with_samples(2);
    let check = |new: NewEvaluation, is_same: bool| {
        let result = check_same(&checked(new.clone()).unwrap(), &evaluation()).map_err(|error| error.kind());
        assert_eq!(result, if is_same { Ok(()) } else { Err(ErrorKind::AlreadyExists) }, "{new:?}");
    };
    check(same(), true);
    check(same().of_version(3), true);
    check(same().of_version(2), false);
    check(same().with_samples(3), false);
    check(same().cell("z".parse().unwrap(), json("{}")), false);
    check(request(&["x"]).cell("y".parse().unwrap(), json("1")).with_samples(2), false);
    check(same().testing("p".parse().unwrap()), false);
    check(NewEvaluation { metadata: Some(json("1")), ..same() }, false);
    check(NewEvaluation { dataset: "other".parse().unwrap(), ..same() }, false);
}

#[test]
fn every_case_has_a_result_for_each_cell_and_sample() {
    let (evaluation, case) = (evaluation(), "a".parse().unwrap());
    let names: Vec<_> = results_of_case(&evaluation, &case).map(|key| key.to_string()).collect();
    assert_eq!(names, ["a/x/1", "a/x/2", "a/y/1", "a/y/2"]);
    assert_eq!((evaluation.results_of_case(), evaluation.expected_results()), (4, 8));
}

#[test]
fn a_result_belongs_to_a_cell_and_a_sample() {
    let check = |new: NewResult, expected: Option<ErrorKind>| {
        assert_eq!(check_result(&evaluation(), &new).err().map(|error| error.kind()), expected, "{new:?}");
    };
    let score: Score = "1".parse().unwrap();
    check(NewResult::new(key("a/x/1")).scored(score.clone()), None);
    check(NewResult::failed(key("a/y/2"), "timeout").with_output(json("1")), None);
    check(NewResult::failed(key("a/y/2"), "timeout").scored(score), Some(ErrorKind::Invalid));
    for name in ["a/z/1", "a/x/0", "a/x/3"] {
        check(NewResult::new(key(name)), Some(ErrorKind::NotFound));
    }
}

#[test]
fn a_result_is_written_with_the_revision_of_its_run() {
    let new = NewResult::new(key("a/x/1")).with_output(json("[1]"));
    let content = content_of(&new, "h");
    let changes = plan_result(&evaluation(), &new, &content).unwrap();
    let expects: Vec<_> = changes.iter().map(|change| change.expect).collect();
    assert_eq!(expects, [DocumentExpect::Revision(7), DocumentExpect::Absent, DocumentExpect::Any]);
    assert_eq!(changes[0].op, DocumentOp::Keep);
    assert_eq!(changes[2].op, DocumentOp::Put(json("[1]")));
    let without_output = NewResult::new(key("a/x/1"));
    assert_eq!(plan_result(&evaluation(), &without_output, &content).unwrap().len(), 2);
    for status in [EvaluationStatus::Completed, EvaluationStatus::Abandoned] {
        let ended = Evaluation { status, ..evaluation() };
        assert_eq!(plan_result(&ended, &new, &content).unwrap_err().kind(), ErrorKind::InvalidTransition);
    }
}

#[test]
fn only_the_same_result_is_a_repeat() {
    let new = || NewResult::new(key("a/x/1")).with_output(json("[1.0]")).scored("0.5".parse().unwrap());
    let stored =
        EvaluationResult { key: key("a/x/1"), content: content_of(&new(), "h"), created_at: Default::default() };
    let check = |new: NewResult, is_same: bool| {
        let checked = check_same_result(&new, &stored).map_err(|error| error.kind());
        assert_eq!(checked, if is_same { Ok(()) } else { Err(ErrorKind::AlreadyExists) }, "{new:?}");
    };
    check(new(), true);
    check(new().with_output(json("[1]")), false);
    check(NewResult { output: None, ..new() }, false);
    check(new().scored("0.50".parse().unwrap()), false);
    check(NewResult { score: None, ..new() }, false);
    check(NewResult { error: Some("x".to_owned()), ..new() }, false);
    check(new().of_run("t".parse().unwrap(), "r".parse().unwrap()), false);
    check(NewResult { metadata: Some(json("1")), ..new() }, false);
}

#[test]
fn a_run_ends_once() {
    let check = |status: EvaluationStatus, end: EvaluationEnd, results: u64, expected: Result<bool, ErrorKind>| {
        let found = Evaluation { status, ..evaluation() };
        let changed = plan_end(&found, end, results).map_err(|error| error.kind());
        assert_eq!(changed.clone().map(|changed| changed.is_some()), expected, "{status} {end:?} {results}");
        if let Ok(Some(changed)) = changed {
            assert_eq!(changed.status, end.status());
        }
    };
    let (completed, abandoned) = (EvaluationEnd::Completed, EvaluationEnd::Abandoned);
    check(EvaluationStatus::Running, completed, 8, Ok(true));
    check(EvaluationStatus::Running, completed, 7, Err(ErrorKind::InvalidTransition));
    check(EvaluationStatus::Running, abandoned, 0, Ok(true));
    check(EvaluationStatus::Completed, completed, 8, Ok(false));
    check(EvaluationStatus::Completed, abandoned, 0, Err(ErrorKind::InvalidTransition));
    check(EvaluationStatus::Abandoned, abandoned, 0, Ok(false));
    check(EvaluationStatus::Abandoned, completed, 8, Err(ErrorKind::InvalidTransition));
}

#[test]
fn a_score_is_a_number_of_a_double() {
    for text in ["0", "-0.0", "1e300", "0.10", "12345678901234567890"] {
        let score: Score = text.parse().unwrap();
        assert_eq!((score.encode().as_str(), Score::read(text).unwrap()), (text, score.clone()));
    }
    for text in ["1e400", "-1e400", "null", "true", "\"1\"", "[1]", "{}"] {
        assert_eq!(text.parse::<Score>().unwrap_err().kind(), ErrorKind::Invalid, "{text}");
        assert!(Score::read(text).is_err(), "{text}");
    }
    assert!("nan".parse::<Score>().is_err() && "inf".parse::<Score>().is_err());
}
