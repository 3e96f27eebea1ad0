//! Tests when a context is compacted, and which of its messages a summary replaces (CX-15, CX-18).
//! `mod.rs` explains the notation.

use super::{parse_path, render, render_block};
use crate::{
    context::{
        COMPACTION_PROMPT, Context, ContextRequest, ContextSplit, build, compaction_request, is_compaction_due,
        split_for_compaction,
    },
    log::{Block, BlockKind, Body, Message, Role, Thinking},
};

fn context(path: &str) -> Context {
    build(parse_path(path), &ContextRequest::head())
}

#[test]
fn a_compaction_is_due_when_the_reserved_tokens_no_longer_fit() {
    for (usage, reserved, window, due) in
        [(0, 0, 1, false), (0, 0, 0, true), (50, 49, 100, false), (50, 50, 100, true), (u64::MAX, 1, 100, true)]
    {
        assert_eq!(is_compaction_due(usage, reserved, window), due, "{usage} + {reserved} of {window}");
    }
}

#[track_caller]
fn expect_split(keep: usize, path: &str, older: &str, kept: &str) {
    let context = context(path);
    let split = split_for_compaction(&context, keep);
    assert_eq!((render(split.older), render(split.kept)), (older.to_owned(), kept.to_owned()), "of {path}");
    assert_eq!(compaction_request(&split).is_some(), !older.is_empty(), "of {path}");
}

#[test]
fn the_last_messages_are_kept_with_their_results() {
    expect_split(2, "u 1 | a 2 | u 3 | a 4", "1:u 1 | 2:a 2", "3:u 3 | 4:a 4");
    expect_split(2, "u 1 | a +x | t x=1 | a 4", "1:u 1", "2:a +x | 3:t x=1 | 4:a 4");
    expect_split(1, "u 1 | a +x | t x=1 | a 4", "1:u 1 | 2:a +x | 3:t x=1", "4:a 4");
    expect_split(1, "u 1 | a +x | t x=1", "1:u 1", "2:a +x | 3:t x=1");
    expect_split(2, "C 1 | u 2 | a 3", "1~u [] 1", "2:u 2 | 3:a 3");
    expect_split(2, "s 1 | u 2 | a 3 | s 4 | u 5", "2:u 2", "3:a 3 | 4:s 4 | 5:u 5");
}

#[test]
fn nothing_is_compacted_if_all_messages_are_kept() {
    expect_split(2, "u 1 | a 2", "", "1:u 1 | 2:a 2");
    expect_split(3, "u 1 | a 2", "", "1:u 1 | 2:a 2");
    expect_split(0, "u 1 | a 2", "", "1:u 1 | 2:a 2");
    expect_split(1, "s 1 | u 2", "", "2:u 2");
    expect_split(usize::MAX, "s 1", "", "");
}

#[test]
fn system_messages_at_the_beginning_are_not_compacted() {
    let context = context("s 1 | s 2 | u 3 | a 4 | u 5");
    assert_eq!(render(split_for_compaction(&context, 1).system), "1:s 1 | 2:s 2");
}

#[test]
fn a_context_can_be_split_at_any_message() {
    let context = context("s 1 | u 2 | a 3");
    for (at, system, older, kept) in
        [(0, "", "", "1:s 1 | 2:u 2 | 3:a 3"), (1, "1:s 1", "", "2:u 2 | 3:a 3"), (2, "1:s 1", "2:u 2", "3:a 3")]
    {
        let split = ContextSplit::at(&context, at);
        assert_eq!(
            (render(split.system), render(split.older), render(split.kept)),
            (system.into(), older.into(), kept.into())
        );
    }
    assert_eq!(render(ContextSplit::at(&context, 9).older), "2:u 2 | 3:a 3");
}

#[test]
fn the_request_contains_the_older_messages_without_thinking() {
    let mut path = parse_path("u hi | a ok +x | t x=1 | a hm | u go");
    let thinking_message =
        Message::new(Role::Assistant, vec![Block::new(BlockKind::Thinking(Thinking::new("secret")))]);
    path[3].1 = super::entry(4, Body::Message(thinking_message)).into();
    let context = build(path, &ContextRequest::head());
    let request = compaction_request(&split_for_compaction(&context, 1)).unwrap();
    let rendered: Vec<_> = request.blocks.iter().map(|block| render_block(&block.kind)).collect();
    let call = "[call `x` of `tool`: null]";
    assert_eq!(
        rendered,
        ["## user", "hi", "## assistant", "ok", call, "## tool", "[result of call `x`]", "1", COMPACTION_PROMPT]
    );
}
