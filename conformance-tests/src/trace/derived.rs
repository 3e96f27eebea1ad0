//! Traces of runs that were committed, without spans that were put.

use store_core::{
    AttributeValue, Block, Commit, EntryRange, Message, NewEntry, Origin, Provenance, Role, RunChange, RunOutcome,
    RunStatus, Span, SpanKind, TokenCounts, ToolResult, root_span_of, span::conventions as names, trace_of,
};

use super::helpers::{at, expect_none, list_spans, load, put, put_new, span};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_some},
    given::id,
    log::entry_drafts::{assistant_entry, json, tool_calls_entry, tool_results_entry, user_entry},
    run::helpers::{done_run, load_run, run_change, running_run},
};

/// An entry of the run `r`, at a time.
fn of_run(entry: NewEntry, millis: u64) -> NewEntry {
    entry.with_run(id("r"), None).with_timestamp(at(millis))
}

/// The spans of a trace whose names begin with a text.
async fn spans_named(given: &Given, name: &str, prefix: &str) -> Result<Vec<Span>, Failure> {
    let spans = load(given, name).await?.spans;
    Ok(spans.into_iter().filter(|span| span.name.starts_with(prefix)).collect())
}

/// An answer of a model, with what its provider reported.
fn answer(text: &str, call: Option<&str>) -> Message {
    let call = call.map(|call| Block::tool_use(call, "search", json(r#"{"q":1}"#)));
    let blocks = [Block::text(text)].into_iter().chain(call).collect();
    let mut provenance = Provenance::default();
    provenance.origin = Some(Origin::new("anthropic").with_model("m-1"));
    provenance.message_id = Some(format!("msg {text}"));
    let mut message = Message::new(Role::Assistant, blocks).with_provenance(provenance);
    message.stop = Some("end_turn".to_owned());
    message.with_usage(TokenCounts::new(10, 4).into())
}

/// A run that was committed has a trace, although no span was put: the run, its answers and its tool calls.
pub(super) async fn a_committed_run_has_a_trace(given: &Given) -> Verdict {
    let failed = Message::new(
        Role::Tool,
        vec![Block::new(store_core::BlockKind::ToolResult({
            let mut result = ToolResult::new("c1", vec![Block::text("secret")]);
            result.is_error = Some(true);
            result
        }))],
    );
    let entries = [
        of_run(user_entry("q"), 1_000),
        of_run(NewEntry::new(answer("a", Some("c1"))).with_id(id("a")), 2_000),
        of_run(NewEntry::new(failed).with_id(id("b")), 4_000),
        of_run(NewEntry::new(answer("c", None)).with_id(id("c")), 5_000),
    ];
    given
        .expect_accepted(Commit::new(id("t")).with_key(id("entries")).entries(entries).with_run(running_run("r")))
        .await?;
    given.expect_accepted(Commit::new(id("t")).with_run(done_run("r"))).await?;
    let (trace, run) = (load(given, "t/r").await?, load_run(given, "r").await?);
    expect_eq((trace.spans.len(), trace.put_spans), (4, 0))?;
    expect(trace.spans.iter().all(|span| span.trace_id == trace_of(&run)), "a span of another trace")?;
    let root = expect_some(spans_named(given, "t/r", "invoke_agent agent").await?.pop(), "span of the run")?;
    expect_eq((root.span_id, root.parent_span_id, root.ended_at()), (root_span_of(&run), None, run.finished_at))?;
    expect_eq((root.text(names::AGENT_ID), root.text(names::CONVERSATION_ID)), (Some("agent"), Some("t")))?;
    expect_eq(root.attribute(names::INPUT_TOKENS).and_then(AttributeValue::as_int), Some(20))?;
    expect_eq(root.source.schema_url.as_deref(), Some(names::SCHEMA_URL))?;
    let calls = spans_named(given, "t/r", "execute_tool search").await?;
    let call = expect_some(calls.first(), "span of the call")?;
    expect_eq((call.started_at(), call.ended_at(), call.is_error()), (at(2_000), Some(at(4_000)), true))?;
    expect_eq((call.text(names::TOOL_CALL_ID), call.parent_span_id), (Some("c1"), Some(root.span_id)))?;
    let answers = spans_named(given, "t/r", "chat m-1").await?;
    expect_eq(answers.len(), 2)?;
    let first = expect_some(answers.first(), "answer")?;
    expect_eq((first.started_at(), first.ended_at(), first.kind), (at(1_000), Some(at(2_000)), SpanKind::Client))?;
    expect_eq((first.text(names::PROVIDER_NAME), first.text(names::RESPONSE_ID)), (Some("anthropic"), Some("msg a")))?;
    expect_eq(first.attribute(names::OUTPUT_TOKENS).and_then(AttributeValue::as_int), Some(4))?;
    // A span refers to entries, and does not copy them.
    expect_eq(first.attribute(names::ENTRY_IDS), Some(&AttributeValue::from_iter(["a"])))?;
    expect(!format!("{trace:?}").contains("secret"), "the trace has the text of an entry")?;
    expect_eq(list_spans(given, "t/r", 2).await?, trace.spans)
}

/// A run that goes on has no end, an answer without provider and counts has none, and a call without a result neither.
pub(super) async fn what_is_not_known_is_absent(given: &Given) -> Verdict {
    let entries = [of_run(tool_calls_entry("a", &["c1"]), 5_000)];
    given
        .expect_accepted(Commit::new(id("t")).with_key(id("entries")).entries(entries).with_run(running_run("r")))
        .await?;
    let trace = load(given, "t/r").await?;
    let ends: Vec<_> = trace.spans.iter().map(|span| (span.name.as_str(), span.end_nanos.is_some())).collect();
    for expected in [("chat", true), ("execute_tool tool", false), ("invoke_agent agent", false)] {
        expect(ends.contains(&expected), format!("{expected:?} is not among {ends:?}"))?;
    }
    let chat = expect_some(trace.spans.iter().find(|span| span.name == "chat"), "answer")?;
    for key in [names::PROVIDER_NAME, names::REQUEST_MODEL, names::RESPONSE_MODEL, names::INPUT_TOKENS] {
        expect_eq((key, chat.attribute(key)), (key, None))?;
    }
    given.expect_accepted(Commit::new(id("t")).with_run(failed_run("r"))).await?;
    let root = expect_some(spans_named(given, "t/r", "invoke_agent").await?.pop(), "span of the run")?;
    expect_eq((root.is_error(), root.status.message.as_deref()), (true, Some("no money")))?;
    expect(root.end_nanos.is_some(), "a run that is done has no end")
}

fn failed_run(name: &str) -> RunChange {
    run_change(name, RunStatus::done(RunOutcome::Failed { error: "no money".to_owned() }))
}

/// The trace of a run has what this run wrote: entries that name it, or only those in its ranges if it says what it
/// wrote.
pub(super) async fn a_trace_has_what_its_run_wrote(given: &Given) -> Verdict {
    let answer = |name: &str, run: &str| assistant_entry(name).with_run(id(run), None);
    let entries = [answer("e1", "r"), answer("e2", "s"), assistant_entry("e3"), answer("e4", "r"), answer("e5", "s")];
    let mut ranges = done_run("s");
    ranges.output = vec![EntryRange { from: 4, to: 5 }, EntryRange { from: 2, to: 2 }];
    given.expect_accepted(Commit::new(id("t")).with_run(running_run("s"))).await?;
    given
        .expect_accepted(Commit::new(id("t")).with_key(id("entries")).entries(entries).with_run(running_run("r")))
        .await?;
    given.expect_accepted(Commit::new(id("t")).with_run(ranges)).await?;
    for (name, expected) in [("t/r", vec!["e1", "e4"]), ("t/s", vec!["e2", "e5"])] {
        let mut found = Vec::new();
        for span in spans_named(given, name, "chat").await? {
            if let Some(AttributeValue::List(ids)) = span.attribute(names::ENTRY_IDS) {
                found.extend(ids.iter().filter_map(AttributeValue::as_text).map(str::to_owned));
            }
        }
        found.sort();
        expect_eq((name, found), (name, expected.into_iter().map(str::to_owned).collect()))?;
    }
    expect_none(given, "u/r").await?;
    expect_none(given, "t/q").await
}

/// Spans that were put are shown with the derived ones. One with the id of a derived span takes its place.
pub(super) async fn put_spans_are_added_to_the_derived_ones(given: &Given) -> Verdict {
    let entries = [of_run(tool_calls_entry("a", &["c1"]), 5_000), of_run(tool_results_entry("b", &["c1"]), 6_000)];
    given
        .expect_accepted(Commit::new(id("t")).with_key(id("entries")).entries(entries).with_run(running_run("r")))
        .await?;
    let derived = load(given, "t/r").await?;
    put_new(given, "t/r", [span(1, 5_500)]).await?;
    let both = load(given, "t/r").await?;
    expect_eq((both.spans.len(), both.put_spans), (derived.spans.len() + 1, 1))?;
    expect(derived.spans.iter().all(|span| both.spans.contains(span)), "a derived span is missing")?;
    let call = expect_some(derived.spans.iter().find(|span| span.name == "execute_tool tool"), "call")?;
    let better = call.clone().with(names::ERROR_TYPE, "timeout");
    put_new(given, "t/r", [better.clone()]).await?;
    let replaced = load(given, "t/r").await?;
    expect_eq((replaced.spans.len(), replaced.spans.contains(&better)), (both.spans.len(), true))?;
    expect(!replaced.spans.contains(call), "the derived span is still there")?;
    expect_eq(put(given, "t/r", [better]).await?.unchanged, 1)
}
