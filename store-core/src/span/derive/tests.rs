//! Tables of the spans that follow from runs.

use crate::{
    Run, Timestamp,
    codec::Codec,
    log::Entry,
    span::{AttributeValue, Span, SpanKind, StatusCode, conventions as names, derive_spans, root_span_of, trace_of},
};

fn run(rest: &str) -> Run {
    let status = r#""status":{"running":{}}"#;
    let status = if rest.contains("\"status\"") { "" } else { status };
    let comma = if status.is_empty() || rest.is_empty() { "" } else { "," };
    let fixed = r#""id":"r","thread":"t","agent":"helper","created_at":1000,"updated_at":9000"#;
    Run::read(&format!("{{{fixed},{status}{comma}{rest}}}")).unwrap()
}

/// An entry of the run at a time, whose id is its number.
fn entry(seq: u64, time: u64, message: &str) -> Entry {
    let raw = format!(
        r#"{{"seq":{seq},"id":"e{seq}","timestamp":{time},"run":"r","step":2,"body":{{"message":{message}}}}}"#
    );
    Entry::read(&raw).unwrap()
}

fn call(id: &str) -> String {
    format!(r#"{{"role":"assistant","blocks":[{{"tool_use":{{"id":"{id}","name":"search","input":{{}}}}}}]}}"#)
}

fn result(id: &str, rest: &str) -> String {
    format!(r#"{{"role":"tool","blocks":[{{"tool_result":{{"tool_use_id":"{id}","blocks":[]{rest}}}}}]}}"#)
}

/// Describes spans in their order: name, times in milliseconds, and whether they failed.
fn described(spans: &[Span]) -> Vec<String> {
    let text = |span: &Span| {
        let end = span.ended_at().map_or("?".to_owned(), |end| end.as_millis().to_string());
        let failed = if span.is_error() { " failed" } else { "" };
        format!("{} {}-{end}{failed}", span.name, span.started_at().as_millis())
    };
    let mut texts: Vec<_> = spans.iter().map(text).collect();
    texts.sort();
    texts
}

fn check(run: &Run, entries: &[Entry], expected: &[&str]) -> Vec<Span> {
    let spans = derive_spans(run, None, entries);
    assert_eq!(described(&spans), expected);
    assert!(spans.is_sorted_by_key(|span| (span.start_nanos, span.span_id)));
    spans
}

fn find<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    spans.iter().find(|span| span.name.starts_with(name)).unwrap()
}

fn ids(ids: &[&str]) -> AttributeValue {
    ids.iter().copied().collect()
}

#[test]
fn a_run_without_entries_has_one_span() {
    let spans = check(&run(""), &[], &["invoke_agent helper 1000-?"]);
    let root = &spans[0];
    assert_eq!((root.kind, root.parent_span_id, root.status.code), (SpanKind::Internal, None, StatusCode::Unset));
    assert_eq!((root.trace_id, root.span_id), (trace_of(&run("")), root_span_of(&run(""))));
    for (key, value) in [
        (names::OPERATION_NAME, "invoke_agent"),
        (names::AGENT_ID, "helper"),
        (names::CONVERSATION_ID, "t"),
        (names::RUN_ID, "r"),
        (names::RUN_STATUS, "running"),
    ] {
        assert_eq!(root.text(key), Some(value), "{key}");
    }
    // What is not known is absent.
    let keys: Vec<_> = root.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    assert_eq!(keys.len(), 5, "{keys:?}");
    assert_eq!(root.source.schema_url.as_deref(), Some(names::SCHEMA_URL));
}

#[test]
fn answers_and_calls_lie_between_the_messages() {
    let entries = [
        entry(1, 2000, r#"{"role":"user","blocks":[{"text":"find it"}]}"#),
        entry(2, 3000, &call("c1")),
        entry(3, 5000, &result("c1", "")),
        entry(4, 6000, r#"{"role":"assistant","blocks":[{"text":"found"}]}"#),
    ];
    let run = run(r#""started_at":1500,"finished_at":7000,"status":{"done":{"outcome":{"natural_end":{}}}}"#);
    let expected =
        ["chat 2000-3000", "chat 5000-6000", "execute_tool search 3000-5000", "invoke_agent helper 1500-7000"];
    let spans = check(&run, &entries, &expected);
    let tool = find(&spans, "execute_tool");
    assert_eq!((tool.text(names::TOOL_NAME), tool.text(names::TOOL_CALL_ID)), (Some("search"), Some("c1")));
    assert_eq!((tool.kind, tool.parent_span_id), (SpanKind::Internal, Some(root_span_of(&run))));
    assert_eq!(tool.attribute(names::ENTRY_IDS), Some(&ids(&["e2", "e3"])));
    assert_eq!(tool.attribute(names::RUN_STEP).and_then(AttributeValue::as_int), Some(2));
    let chat = find(&spans, "chat");
    assert_eq!((chat.kind, chat.attribute(names::ENTRY_IDS)), (SpanKind::Client, Some(&ids(&["e2"]))));
    assert_eq!(find(&spans, "invoke_agent").text(names::RUN_STATUS), Some("natural_end"));
    // The contents of messages are not copied.
    assert!(!spans.iter().any(|span| span.encode().contains("found")));
}

#[test]
fn an_answer_says_what_its_provider_reported() {
    let message = r#"{"role":"assistant","blocks":[{"text":"a"}],"provenance":{"origin":{"provider":"google","api":"generate-content","model":"m-1"},"message_id":"msg-1"},"usage":{"tokens":{"input":5,"output":7,"cache_read":11,"cache_write":13,"reasoning":3}},"stop":"STOP"}"#;
    let run = run(r#""usage":{"input":1,"output":2},"spent":{"input":9}"#);
    let spans =
        check(&run, &[entry(1, 2000, message)], &["generate_content m-1 1000-2000", "invoke_agent helper 1000-?"]);
    let answer = find(&spans, "generate_content");
    for (key, value) in [
        (names::OPERATION_NAME, "generate_content"),
        (names::PROVIDER_NAME, "gcp.gen_ai"),
        (names::RESPONSE_MODEL, "m-1"),
        (names::RESPONSE_ID, "msg-1"),
    ] {
        assert_eq!(answer.text(key), Some(value), "{key}");
    }
    // Tokens of the cache are input, too.
    for (key, count) in [
        (names::INPUT_TOKENS, 29),
        (names::OUTPUT_TOKENS, 7),
        (names::CACHE_READ_TOKENS, 11),
        (names::CACHE_CREATION_TOKENS, 13),
        (names::REASONING_TOKENS, 3),
    ] {
        assert_eq!(answer.attribute(key).and_then(AttributeValue::as_int), Some(count), "{key}");
    }
    assert_eq!(answer.attribute(names::FINISH_REASONS), Some(&ids(&["STOP"])));
    assert_eq!(answer.attribute(names::REQUEST_MODEL), None);
    // The worker's own counts come first.
    let root = find(&spans, "invoke_agent");
    assert_eq!(root.attribute(names::INPUT_TOKENS).and_then(AttributeValue::as_int), Some(1));
    assert_eq!(root.text(names::PROVIDER_NAME), Some("gcp.gen_ai"));
}

#[test]
fn the_tokens_of_entries_count_if_the_worker_reported_none() {
    let spans = derive_spans(&run(r#""spent":{"input":9}"#), None, []);
    assert_eq!(spans[0].attribute(names::INPUT_TOKENS).and_then(AttributeValue::as_int), Some(9));
}

#[test]
fn parts_of_one_answer_are_one_span() {
    let part = |usage: u64| {
        format!(
            r#"{{"role":"assistant","blocks":[{{"text":"a"}}],"provenance":{{"message_id":"m"}},"usage":{{"tokens":{{"output":{usage}}}}}}}"#
        )
    };
    let other = part(9).replace("\"m\"", "\"n\"");
    let user = r#"{"role":"user","blocks":[{"text":"x"}]}"#;
    let entries = [entry(1, 2000, &part(1)), entry(2, 3000, &part(5)), entry(3, 4000, &other)];
    let spans = check(&run(""), &entries, &["chat 1000-3000", "chat 3000-4000", "invoke_agent helper 1000-?"]);
    let first = spans.iter().find(|span| span.text(names::RESPONSE_ID) == Some("m")).unwrap();
    assert_eq!(first.attribute(names::OUTPUT_TOKENS).and_then(AttributeValue::as_int), Some(5));
    assert_eq!(first.attribute(names::ENTRY_IDS), Some(&ids(&["e1", "e2"])));
    // Another message ends an answer.
    let entries = [entry(1, 2000, &part(1)), entry(2, 2500, user), entry(3, 3000, &part(5))];
    check(&run(""), &entries, &["chat 1000-2000", "chat 2500-3000", "invoke_agent helper 1000-?"]);
}

#[test]
fn a_call_without_a_result_has_no_end_and_a_failed_one_is_an_error() {
    let entries = [
        entry(1, 2000, &call("open")),
        entry(2, 2500, &call("bad")),
        entry(3, 3000, &result("bad", r#","is_error":true"#)),
        entry(4, 3500, &result("unknown", "")),
    ];
    let expected = [
        "chat 1000-2000",
        "chat 2000-2500",
        "execute_tool search 2000-?",
        "execute_tool search 2500-3000 failed",
        "invoke_agent helper 1000-?",
    ];
    let spans = check(&run(""), &entries, &expected);
    let bad = spans.iter().find(|span| span.is_error()).unwrap();
    assert_eq!((bad.text(names::ERROR_TYPE), &bad.status.message), (Some(names::OTHER_ERROR), &None));
}

#[test]
fn only_a_failed_run_is_an_error() {
    for (outcome, name) in [
        (r#"{"natural_end":{}}"#, "natural_end"),
        (r#"{"stopped":{"code":"limit"}}"#, "stopped"),
        (r#"{"cancelled":{}}"#, "cancelled"),
        (r#"{"blocked":{}}"#, "blocked"),
        (r#"{"superseded":{}}"#, "superseded"),
        (r#"{"failed":{"error":"no money"}}"#, "failed"),
    ] {
        let spans = derive_spans(&run(&format!(r#""status":{{"done":{{"outcome":{outcome}}}}}"#)), None, []);
        let root = &spans[0];
        assert_eq!((root.text(names::RUN_STATUS), root.is_error()), (Some(name), name == "failed"));
        let message = (name == "failed").then(|| "no money".to_owned());
        assert_eq!(root.status.message, message);
    }
}

#[test]
fn times_that_a_caller_gave_never_run_backward_in_a_span() {
    let entries = [entry(1, 5000, &call("c")), entry(2, 4000, &result("c", ""))];
    check(&run(""), &entries, &["chat 1000-5000", "execute_tool search 5000-5000", "invoke_agent helper 1000-?"]);
    let late = run(r#""started_at":8000,"finished_at":8000,"status":{"done":{"outcome":{"natural_end":{}}}}"#);
    check(&late, &entries, &["chat 5000-5000", "execute_tool search 5000-5000", "invoke_agent helper 8000-8000"]);
}

#[test]
fn a_run_is_linked_to_the_run_that_started_it() {
    let parent = Run { id: "parent".parse().unwrap(), ..run("") };
    let spans = derive_spans(&run(r#""parent_run":"parent""#), Some(&parent), []);
    let link = &spans[0].links[0];
    assert_eq!((link.trace_id, link.span_id), (trace_of(&parent), root_span_of(&parent)));
}

#[test]
fn different_runs_have_different_ids() {
    let runs = [
        run(""),
        Run { thread: "u".parse().unwrap(), ..run("") },
        Run { id: "s".parse().unwrap(), ..run("") },
        Run { created_at: Timestamp::from_millis(1001).unwrap(), ..run("") },
    ];
    for (at, one) in runs.iter().enumerate() {
        for other in &runs[..at] {
            assert_ne!((trace_of(one), root_span_of(one)), (trace_of(other), root_span_of(other)));
            assert_ne!(trace_of(one), trace_of(other));
        }
    }
    // The spans of one run always have the same ids.
    let entries = [entry(1, 2000, &call("c"))];
    assert_eq!(derive_spans(&run(""), None, &entries), derive_spans(&run(""), None, &entries));
}
