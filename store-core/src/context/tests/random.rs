//! Tests with random logs: a model accepts the context of any log. `mod.rs` explains the notation.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use super::{parse_path, render};
use crate::{
    context::{Budget, Context, ContextMessage, ContextRequest, OpenCalls, build, extend},
    log::{BlockKind, Role, Visibility},
};

/// An entry with call ids from a small set, so that several entries of a path have the same id.
fn arbitrary_entry() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("u go".to_owned()),
        1 => "[-^]?[sua]",
        1 => "C( old)?|X|R u old / a \\+v",
        4 => ("a(@[mn])?", arbitrary_calls()).prop_map(|(kind, calls)| format!("{kind} {calls}")),
        4 => vec("( see)? [v-z]=[12]", 1..4).prop_map(|results| format!("t{}", results.concat())),
    ]
}

/// The calls of one message, each id once (EN-18).
fn arbitrary_calls() -> impl Strategy<Value = String> {
    proptest::sample::subsequence(vec!["ok", "+v", "+w", "+x", "+y"], 0..4).prop_map(|words| words.join(" "))
}

fn arbitrary_request() -> impl Strategy<Value = ContextRequest> {
    let open_calls = prop_oneof![Just(OpenCalls::Answer), Just(OpenCalls::Keep), Just(OpenCalls::Drop)];
    (open_calls, proptest::option::of(0..12_u64)).prop_map(|(open_calls, max)| {
        let request = ContextRequest::head().with_open_calls(open_calls);
        match max {
            Some(max) => request.within(Budget::Messages(max)),
            None => request,
        }
    })
}

/// Returns the ids of the calls and of the results of a message.
fn call_and_result_ids(message: &ContextMessage) -> (Vec<&str>, Vec<&str>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for block in &message.message.blocks {
        match &block.kind {
            BlockKind::ToolUse(call) => calls.push(call.id.as_str()),
            BlockKind::ToolResult(result) => results.push(result.tool_use_id.as_str()),
            _ => {}
        }
    }
    (calls, results)
}

/// Checks that every result comes directly after the message of its call, and that every call has a result unless it
/// may stay open.
fn check_pairs(context: &Context, open_calls: OpenCalls) -> Result<(), TestCaseError> {
    let mut unanswered: BTreeSet<&str> = BTreeSet::new();
    for message in &context.messages {
        let (calls, results) = call_and_result_ids(message);
        if message.message.role == Role::Tool {
            prop_assert!(!results.is_empty(), "a tool message without results");
            for id in results {
                prop_assert!(unanswered.remove(id), "result `{}` answers no call", id);
            }
            continue;
        }
        prop_assert!(unanswered.is_empty() || open_calls == OpenCalls::Keep, "{:?} without a result", unanswered);
        unanswered = calls.iter().copied().collect();
        prop_assert_eq!(unanswered.len(), calls.len());
    }
    prop_assert!(unanswered.is_empty() || open_calls == OpenCalls::Keep, "{:?} without a result", unanswered);
    Ok(())
}

proptest! {
    #[test]
    fn every_context_has_paired_calls_and_no_empty_messages(
        path in vec(arbitrary_entry(), 1..14), request in arbitrary_request(),
    ) {
        let path = path.join(" | ");
        let context = build(parse_path(&path), &request);
        check_pairs(&context, request.open_calls)?;
        for message in &context.messages {
            prop_assert!(!message.message.blocks.is_empty());
            // A message that only people may see is never sent to a model.
            prop_assert!(message.message.visibility != Visibility::Aside);
        }
        let unique_entries: BTreeSet<_> = context.left_out.iter().collect();
        prop_assert_eq!(unique_entries.len(), context.left_out.len());
    }

    #[test]
    fn a_budget_keeps_the_order_and_all_system_messages(path in vec(arbitrary_entry(), 1..14), max in 0..12_u64) {
        let path = path.join(" | ");
        let full = build(parse_path(&path), &ContextRequest::head());
        let reduced = build(parse_path(&path), &ContextRequest::head().within(Budget::Messages(max)));
        prop_assert_eq!(&reduced.repairs, &full.repairs);
        let mut remaining_messages = full.messages.iter();
        for message in &reduced.messages {
            let is_in_order = remaining_messages.any(|other| other == message);
            prop_assert!(is_in_order, "{} of {}", render(&reduced.messages), render(&full.messages));
        }
        let removed = full.messages.iter().filter(|message| !reduced.messages.contains(message));
        prop_assert!(removed.clone().all(|message| message.message.role != Role::System));
        prop_assert_eq!(removed.count() == 0, reduced.left_out.is_empty());
    }

    #[test]
    fn an_extended_context_equals_a_new_one(
        path in vec(arbitrary_entry(), 1..14), base_length in 0..14_usize, request in arbitrary_request(),
        base_request in arbitrary_request(),
    ) {
        let path = path.join(" | ");
        let mut parts = parse_path(&path);
        let later_parts = parts.split_off(base_length.min(parts.len()));
        let entries: Vec<_> = later_parts.into_iter().map(|(_, entry)| entry).collect();
        if let Some(extended) = extend(&build(parts, &base_request), &entries, &request) {
            prop_assert_eq!(extended, build(parse_path(&path), &request));
        }
    }
}
