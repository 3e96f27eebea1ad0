//! Tests which messages are left out if a context is too large (CX-19). `mod.rs` explains the notation.

use std::sync::Arc;

use super::{parse_path, render};
use crate::context::{Budget, ContextRequest, build};

#[track_caller]
fn expect_within_messages(max: u64, path: &str, expected: &str, left_out: &str) {
    expect_within(&Budget::Messages(max), path, expected, left_out);
}

#[track_caller]
fn expect_within(budget: &Budget, path: &str, expected: &str, left_out: &str) {
    let context = build(parse_path(path), &ContextRequest::head().within(budget.clone()));
    assert_eq!(render(&context.messages), expected, "{path} within {budget:?}");
    let ids: Vec<_> = context.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(ids.join(" "), left_out, "{path} within {budget:?}");
}

#[test]
fn whole_turns_are_left_out_oldest_first() {
    let path = "u 1 | a 2 | u 3 | a 4 | u 5 | a 6";
    expect_within_messages(6, path, "1:u 1 | 2:a 2 | 3:u 3 | 4:a 4 | 5:u 5 | 6:a 6", "");
    expect_within_messages(5, path, "3:u 3 | 4:a 4 | 5:u 5 | 6:a 6", "1 2");
    expect_within_messages(4, path, "3:u 3 | 4:a 4 | 5:u 5 | 6:a 6", "1 2");
    expect_within_messages(3, path, "5:u 5 | 6:a 6", "1 2 3 4");
    expect_within_messages(4, "u 1 | u 2 | a 3 | u 4 | a 5", "4:u 4 | 5:a 5", "1 2 3");
    expect_within_messages(2, "a 1 | u 2 | a 3", "2:u 2 | 3:a 3", "1");
}

#[test]
fn the_newest_turn_stays_whole() {
    expect_within_messages(0, "u 1 | a 2 | u 3 | a 4", "3:u 3 | 4:a 4", "1 2");
    expect_within_messages(1, "u 1 | a +x | t x=1", "1:u 1 | 2:a +x | 3:t x=1", "");
}

#[test]
fn calls_are_left_out_with_their_results() {
    expect_within_messages(2, "u 1 | a +x | t x=1 | u 4 | a 5", "4:u 4 | 5:a 5", "1 2 3");
    expect_within_messages(2, "u 1 | a +x | u 3 | a 4 | t x=1", "3:u 3 | 4:a 4", "1 2 5");
    expect_within_messages(2, "u 1 | a +x | u 3 | a 4", "3:u 3 | 4:a 4", "1 2");
    expect_within_messages(2, "u 1 | a@m 2 | a@m 3 | u 4 | a 5", "4:u 4 | 5:a 5", "1 2 3");
}

#[test]
fn system_messages_and_the_last_summary_are_kept() {
    expect_within_messages(3, "s 1 | u 2 | a 3 | s 4 | u 5", "1:s 1 | 4:s 4 | 5:u 5", "2 3");
    expect_within_messages(3, "C 1 | u 2 | a 3 | u 4 | a 5", "1~u [] 1 | 4:u 4 | 5:a 5", "2 3");
    expect_within_messages(3, "C 1 | u 2 | C 3 | u 4 | a 5", "3~u [] 3 | 4:u 4 | 5:a 5", "1 2");
    expect_within_messages(5, "C 1 | u 2 | C 3 | u 4 | a 5", "1~u [] 1 | 2:u 2 | 3~u [] 3 | 4:u 4 | 5:a 5", "");
    expect_within_messages(4, "C 1 | u 2 | C 3 | u 4 | a 5", "2:u 2 | 3~u [] 3 | 4:u 4 | 5:a 5", "1");
    expect_within_messages(1, "R u 1 / a +x | t x=1 | u 3 | u 4", "1~u 1 | 1~a +x | 2:t x=1 | 3:u 3 | 4:u 4", "");
    expect_within_messages(
        5,
        "R u 1 / a +x | t x=1 | a 3 | u 4 | a 5",
        "1~u 1 | 1~a +x | 2:t x=1 | 4:u 4 | 5:a 5",
        "3",
    );
}

#[test]
fn tokens_are_counted_by_the_caller() {
    let tokens = |max| Budget::Tokens { max, counter: Arc::new(|message| message.blocks.len() as u64) };
    let path = "u one two three | a four | u five | a six";
    expect_within(&tokens(6), path, "1:u one two three | 2:a four | 3:u five | 4:a six", "");
    expect_within(&tokens(5), path, "3:u five | 4:a six", "1 2");
}
