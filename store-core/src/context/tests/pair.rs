//! Tests of calls and their results (CX-6 to CX-8). `mod.rs` explains the notation.

use super::{expect_context, expect_context_for};
use crate::context::{ContextRequest, OpenCalls};

#[test]
fn a_result_follows_its_call() {
    expect_context("a +x +y | t x=1 y=2 | u go", "1:a +x +y | 2:t x=1 y=2 | 3:u go", "");
    expect_context("a +x +y | t y=2 | t x=1", "1:a +x +y | 2:t y=2 | 3:t x=1", "");
    expect_context("a +x | u go | t x=1", "1:a +x | 3:t x=1 | 2:u go", "3 ResultMoved x");
    expect_context("a +x | X | t x=1", "1:a +x | 3:t x=1", "");
    expect_context("a +x | -a psst | t x=1", "1:a +x | 3:t x=1", "");
    expect_context("a +x | a +y | t y=2 x=1", "1:a +x | 3:t x=1 | 2:a +y | 3:t y=2", "3 ResultMoved x");
    expect_context("t x=1 | a +x", "2:a +x | 1:t x=1", "1 ResultMoved x");
}

#[test]
fn other_blocks_stay_with_the_first_placed_result() {
    expect_context("a +x | t see x=1", "1:a +x | 2:t see x=1", "");
    expect_context("a +x | a +y | t y=2 x=1 see", "1:a +x | 3:t x=1 see | 2:a +y | 3:t y=2", "3 ResultMoved x");
    expect_context("u hi | t x=1 see", "1:u hi", "2 OrphanResultDropped x, 2 EmptyMessageDropped");
}

#[test]
fn a_result_without_its_call_is_left_out() {
    expect_context("u hi | t x=1", "1:u hi", "2 OrphanResultDropped x, 2 EmptyMessageDropped");
    expect_context("a +y | t x=1 y=2", "1:a +y | 2:t y=2", "2 OrphanResultDropped x");
    expect_context("-a +x | t x=1", "", "2 OrphanResultDropped x, 2 EmptyMessageDropped");
}

#[test]
fn the_last_of_several_results_counts() {
    expect_context("a +x | t x=1 x=2", "1:a +x | 2:t x=2", "2 EarlierResultDropped x");
    expect_context(
        "a +x | t x=1 | u go | t x=2",
        "1:a +x | 4:t x=2 | 3:u go",
        "2 EarlierResultDropped x, 4 ResultMoved x, 2 EmptyMessageDropped",
    );
}

#[test]
fn a_call_with_a_repeated_id_is_another_call() {
    expect_context("a +x | t x=1 | a +x | t x=2", "1:a +x | 2:t x=1 | 3:a +x | 4:t x=2", "");
    expect_context("a +x | t x=1 | a +x", "1:a +x | 2:t x=1 | 3:a +x | 3~t x=!", "3 OpenCallAnswered x");
    expect_context("a +x | a +x | t x=2", "1:a +x | 1~t x=! | 2:a +x | 3:t x=2", "1 OpenCallAnswered x");
}

#[test]
fn an_open_call_is_answered_kept_or_dropped() {
    let path = "u hi | a let +x +y +z | t y=1 | u go | a +v";
    expect_context(
        path,
        "1:u hi | 2:a let +x +y +z | 3:t y=1 | 2~t x=! z=! | 4:u go | 5:a +v | 5~t v=!",
        "2 OpenCallAnswered x, 2 OpenCallAnswered z, 5 OpenCallAnswered v",
    );
    let keep = ContextRequest::head().with_open_calls(OpenCalls::Keep);
    expect_context_for(&keep, path, "1:u hi | 2:a let +x +y +z | 3:t y=1 | 4:u go | 5:a +v", "");
    let drop = ContextRequest::head().with_open_calls(OpenCalls::Drop);
    expect_context_for(
        &drop,
        path,
        "1:u hi | 2:a let +y | 3:t y=1 | 4:u go",
        "2 OpenCallDropped x, 2 OpenCallDropped z, 5 OpenCallDropped v, 5 EmptyMessageDropped",
    );
}
