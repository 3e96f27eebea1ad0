//! Tests which parts of a path are sent to a model (CX-1 to CX-3, CX-9). `mod.rs` explains the notation.

use super::{expect_context, parse_path};
use crate::context::{ContextRequest, build};

#[test]
fn messages_are_in_order_and_asides_are_left_out() {
    expect_context("u hi | a hello", "1:u hi | 2:a hello", "");
    expect_context("s be | ^u hi | -u psst | X | a hello", "1:s be | 2:u hi | 5:a hello", "");
    expect_context("X", "", "");
}

#[test]
fn a_summary_opens_with_the_marker() {
    expect_context("C old times | u hi", "1~u [] old times | 2:u hi", "");
    expect_context("u hi | C mid | a yes", "1:u hi | 2~u [] mid | 3:a yes", "");
}

#[test]
fn a_replacement_appears_instead_of_a_summary() {
    expect_context("R s be / u hi / a yes | u more", "1~s be | 1~u hi | 1~a yes | 2:u more", "");
    expect_context("R -u psst / a +x / t x=1", "1~a +x | 1~t x=1", "");
    expect_context("R a +x | t x=1", "1~a +x | 2:t x=1", "");
}

#[test]
fn messages_without_blocks_are_left_out() {
    expect_context("u | a hi", "2:a hi", "1 EmptyMessageDropped");
    expect_context("-u | a hi", "2:a hi", "");
    expect_context("C | u hi", "2:u hi", "");
    expect_context("R u | u hi", "2:u hi", "1 EmptyMessageDropped");
}

#[test]
fn the_last_origin_is_in_effect() {
    for (path, model) in [
        ("u hi | a hello", None),
        ("a@1 x | u hi", Some("model-of-1")),
        ("a@1 x | a@2 y | u hi", Some("model-of-2")),
        ("a@1 x | u@2 y", Some("model-of-2")),
        ("a@1 x | -a@2 failed", Some("model-of-2")),
        ("R a@1 x / u y | u hi", Some("model-of-1")),
    ] {
        let origin = build(parse_path(path), &ContextRequest::head()).origin;
        assert_eq!(origin.and_then(|origin| origin.model).as_deref(), model, "of {path}");
    }
}
