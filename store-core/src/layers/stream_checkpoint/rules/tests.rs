//! Tests of the rules of stream checkpoints.

use super::Recovery;
use crate::{CallInFlight, Json, PartialAnswer, ToolUse};

fn call(id: &str) -> ToolUse {
    ToolUse::new(id, "search", Json::parse(r#"{"q":1}"#).unwrap())
}

fn in_flight(arguments: &str) -> CallInFlight {
    CallInFlight::new("c9", "search").with_arguments(arguments)
}

/// Tests SC-5: the table of what was received, and how the answer goes on.
#[test]
fn an_answer_goes_on_by_what_was_received_sc_5() {
    let check = |text: &str, calls: &[&str], flight: Option<&str>, wanted: Recovery| {
        let mut answer = PartialAnswer::new(3).by_model("m").with_text(text);
        answer.finished_calls = calls.iter().map(|id| call(id)).collect();
        answer.call_in_flight = flight.map(in_flight);
        assert_eq!(answer.recovery(), wanted, "{text:?} {calls:?} {flight:?}");
    };
    let proceed = |text: &str| Recovery::Continue { text: text.to_owned() };
    let cut = |text: &str, arguments| Recovery::CutBeforeCall { text: text.to_owned(), dropped: in_flight(arguments) };
    let use_calls = |text: &str, ids: &[&str]| Recovery::UseCalls {
        text: text.to_owned(),
        calls: ids.iter().map(|id| call(id)).collect(),
    };
    // Nothing useful: start again.
    check("", &[], None, Recovery::StartAgain);
    check(" \n\t", &[], None, Recovery::StartAgain);
    check("", &[], Some(""), Recovery::StartAgain);
    check("", &[], Some(r#"{"q":"#), Recovery::StartAgain);
    check("\n", &[], Some(r#"{"q":"#), Recovery::StartAgain);
    // Text only: continue, as it was received.
    check("The", &[], None, proceed("The"));
    check(" The \n", &[], None, proceed(" The \n"));
    // Text and a call in flight: cut before the call, even if its arguments look complete.
    check("The", &[], Some(""), cut("The", ""));
    check("The ", &[], Some(r#"{"q":"#), cut("The ", r#"{"q":"#));
    check("The", &[], Some(r#"{"q":1}"#), cut("The", r#"{"q":1}"#));
    // Finished calls: use them.
    check("", &["c1"], None, use_calls("", &["c1"]));
    check("The", &["c1", "c2"], None, use_calls("The", &["c1", "c2"]));
    check("The", &["c1"], Some(r#"{"q":"#), use_calls("The", &["c1"]));
    check("", &["c1"], Some(""), use_calls("", &["c1"]));
}
