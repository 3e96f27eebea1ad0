//! Random logs: whatever a log contains, its context is one that a model accepts.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};

use super::{parts, render};
use crate::{
    context::{Budget, Context, ContextMessage, ContextRequest, OpenCalls, build},
    log::{BlockKind, Role, Visibility},
};

/// An entry with ids from a small set, so that ids occur again, in any order.
fn entry() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just("u go".to_owned()),
        1 => "[-^]?[sua]",
        1 => "C( old)?|X|R u old / a \\+v",
        4 => ("a(@[mn])?", calls()).prop_map(|(head, calls)| format!("{head} {calls}")),
        4 => vec("( see)? [v-z]=[12]", 1..4).prop_map(|results| format!("t{}", results.concat())),
    ]
}

/// The calls of one message, each id once (EN-18).
fn calls() -> impl Strategy<Value = String> {
    proptest::sample::subsequence(vec!["ok", "+v", "+w", "+x", "+y"], 0..4).prop_map(|words| words.join(" "))
}

fn request() -> impl Strategy<Value = ContextRequest> {
    let open = prop_oneof![Just(OpenCalls::Answer), Just(OpenCalls::Keep), Just(OpenCalls::Drop)];
    (open, proptest::option::of(0..12_u64)).prop_map(|(open, max)| {
        let request = ContextRequest::head().with_open_calls(open);
        match max {
            Some(max) => request.within(Budget::Messages(max)),
            None => request,
        }
    })
}

/// Returns the ids of the calls and of the results of a message.
fn ids(message: &ContextMessage) -> (Vec<&str>, Vec<&str>) {
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
fn check_pairs(context: &Context, open: OpenCalls) -> Result<(), TestCaseError> {
    let mut waiting: BTreeSet<&str> = BTreeSet::new();
    for message in &context.messages {
        let (calls, results) = ids(message);
        if message.message.role == Role::Tool {
            prop_assert!(!results.is_empty(), "a tool message without results");
            for id in results {
                prop_assert!(waiting.remove(id), "result `{}` answers no call", id);
            }
            continue;
        }
        prop_assert!(waiting.is_empty() || open == OpenCalls::Keep, "{:?} without a result", waiting);
        waiting = calls.iter().copied().collect();
        prop_assert_eq!(waiting.len(), calls.len());
    }
    prop_assert!(waiting.is_empty() || open == OpenCalls::Keep, "{:?} without a result", waiting);
    Ok(())
}

proptest! {
    #[test]
    fn every_context_is_sound(path in vec(entry(), 1..14), request in request()) {
        let path = path.join(" | ");
        let context = build(parts(&path), &request);
        check_pairs(&context, request.open_calls)?;
        for message in &context.messages {
            prop_assert!(!message.message.blocks.is_empty());
            prop_assert!(message.message.visibility != Visibility::Aside);
        }
        let twice: BTreeSet<_> = context.left_out.iter().collect();
        prop_assert_eq!(twice.len(), context.left_out.len());
    }

    #[test]
    fn a_budget_removes_messages_only_from_the_front(path in vec(entry(), 1..14), max in 0..12_u64) {
        let path = path.join(" | ");
        let all = build(parts(&path), &ContextRequest::head());
        let some = build(parts(&path), &ContextRequest::head().within(Budget::Messages(max)));
        prop_assert_eq!(&some.repairs, &all.repairs);
        let mut rest = all.messages.iter();
        for message in &some.messages {
            prop_assert!(rest.any(|other| other == message), "{} of {}", render(&some.messages), render(&all.messages));
        }
        let gone = all.messages.iter().filter(|message| !some.messages.contains(message));
        prop_assert!(gone.clone().all(|message| message.message.role != Role::System));
        prop_assert_eq!(gone.count() == 0, some.left_out.is_empty());
    }
}
