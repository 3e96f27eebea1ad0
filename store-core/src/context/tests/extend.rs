//! Tests that a context that is extended by later entries equals the context that is made from the whole path (SE-5).
//! `mod.rs` explains the notation.

use std::sync::Arc;

use super::{parse_path, render};
use crate::{
    context::{Budget, Context, ContextRequest, OpenCalls, build, extend},
    log::Entry,
};

/// Extends the context of the first `base_length` entries of a path by the other entries of the path.
fn extended(path: &str, base_length: usize, request: &ContextRequest) -> Option<Context> {
    let mut parts = parse_path(path);
    let entries: Vec<Arc<Entry>> = parts.split_off(base_length).into_iter().map(|(_, entry)| entry).collect();
    let base = build(parts, &ContextRequest::head().with_open_calls(OpenCalls::Keep));
    extend(&base, &entries, request)
}

#[track_caller]
fn expect_extended(path: &str, base_length: usize, request: &ContextRequest, messages: &str) {
    let found = extended(path, base_length, request).unwrap();
    assert_eq!(found, build(parse_path(path), request), "of {path}");
    assert_eq!(render(&found.messages), messages, "of {path}");
}

#[test]
fn later_entries_are_added() {
    let head = ContextRequest::head();
    expect_extended("u 1 | a 2 | u 3", 2, &head, "1:u 1 | 2:a 2 | 3:u 3");
    expect_extended("u 1 | a 2", 2, &head, "1:u 1 | 2:a 2");
    expect_extended("u 1 | a 2", 0, &head, "1:u 1 | 2:a 2");
    expect_extended("C old | u 1 | X | -u 4 | a@m 5", 2, &head, "1~u [] old | 2:u 1 | 5:a 5");
}

#[test]
fn a_result_is_added_to_a_call_that_was_open() {
    let path = "u 1 | a +x | u 3 | t x=1";
    expect_extended(path, 3, &ContextRequest::head(), "1:u 1 | 2:a +x | 4:t x=1 | 3:u 3");
    expect_extended("u 1 | a +x | u 3", 3, &ContextRequest::head(), "1:u 1 | 2:a +x | 2~t x=! | 3:u 3");
    let dropped = ContextRequest::head().with_open_calls(OpenCalls::Drop);
    expect_extended("u 1 | a 2 +x | u 3", 2, &dropped, "1:u 1 | 2:a 2 | 3:u 3");
    expect_extended("u 1 | a@m 2 | a@m 3", 2, &ContextRequest::head(), "1:u 1 | 2:a 2 3");
}

#[test]
fn a_budget_applies_to_the_whole_path() {
    let request = ContextRequest::head().within(Budget::Messages(2));
    expect_extended("u 1 | a 2 | u 3 | a 4", 2, &request, "3:u 3 | 4:a 4");
    expect_extended("C old | u 2 | a 3 | u 4 | a 5", 3, &request, "1~u [] old | 4:u 4 | 5:a 5");
}

#[test]
fn a_context_is_not_extended_after_repairs_or_by_a_compaction() {
    for (path, base_length) in [
        ("u 1 | C old | a 3", 1),
        ("t x=1 | u 2", 1),
        ("a@m 1 | a@m 2 | u 3", 2),
        ("u 1 | a +x | u 3 | t x=1 | a 5", 4),
    ] {
        assert_eq!(extended(path, base_length, &ContextRequest::head()), None, "of {path}");
    }
}
