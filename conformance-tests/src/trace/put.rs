//! Spans that are put.

use std::sync::Arc;

use store_core::{
    Attribute, AttributeValue, EntryId, ErrorKind, PutSpans, Span, SpanKind, SpanLink, SpanSource, TraceQuery,
    read_otlp,
};

use super::helpers::{
    at, create_threads, expect_none, expect_spans, list, list_spans, load, named, put, put_new, span, traces,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq, expect_kind, expect_some},
    given::{id, run_concurrently},
    log::entry_drafts::json,
    run::helpers::{running_run, write_run},
};

/// A span with everything that a span can have.
fn full_span() -> Result<Span, Failure> {
    let text = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"a","value":{"doubleValue":1.50}}]},"schemaUrl":"r","scopeSpans":[{"scope":{"name":"lib"},"schemaUrl":"https://schemas.example/9","spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"00000000000000ff","parentSpanId":"00000000000000fe","name":"full","kind":4,"startTimeUnixNano":"1544712660000000001","endTimeUnixNano":"1544712660000000002","attributes":[{"key":"list","value":{"arrayValue":{"values":[{"intValue":"1"},{"boolValue":true}]}}},{"key":"later","value":{"laterValue":1.0}}],"events":[{"timeUnixNano":"1544712660000000001","name":"e","attributes":[{"key":"k"}],"droppedAttributesCount":2}],"status":{"message":"m","code":2},"traceState":"a=b","later":[1.0]}]}]}]}"#;
    let mut span = expect_some(read_otlp(text)?.spans.pop(), "span")?;
    span.links.push(SpanLink::new(id("5b8efff798038103d269b633813fc60d"), id("0000000000000001")));
    Ok(span)
}

/// A span is loaded as it was put, with all that is not known of it, and with what recorded it. No run needs to exist.
pub(super) async fn spans_are_loaded_as_they_were_put(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    let full = full_span()?;
    let mut source = SpanSource::of_conventions();
    source.scope = Some(json(r#"{"name":"other","later":1.0}"#));
    let entry: EntryId = id("e-1");
    let about = span(1, 5).with_kind(SpanKind::Client).ending_at(at(7)).about([entry.clone()]);
    let about = about.from_source(Arc::new(source)).below(full.span_id);
    put_new(given, "t/r", [full.clone(), about.clone()]).await?;
    let found = load(given, "t/r").await?;
    expect_eq((&found.name, found.put_spans, found.pins.len()), (&named("t/r"), 2, 0))?;
    expect_eq(&found.spans, &vec![about.clone(), full])?;
    let refers = about.attribute("agentstore.entry.ids").cloned();
    expect_eq(refers, Some(AttributeValue::List(vec![entry.as_str().into()])))?;
    expect_eq(Attribute::new("k", "v").value.as_text(), Some("v"))?;
    expect_none(given, "t/s").await?;
    expect_none(given, "u/r").await
}

/// A put that is repeated, alone or with other spans, writes only what is new.
pub(super) async fn a_repeated_put_changes_nothing(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    put_new(given, "t/r", [span(1, 5), full_span()?]).await?;
    let before = load(given, "t/r").await?;
    let again = put(given, "t/r", [full_span()?, span(1, 5), span(1, 5)]).await?;
    expect_eq((again.written, again.unchanged), (0, 2))?;
    expect_eq(load(given, "t/r").await?, before)?;
    let more = put(given, "t/r", [span(1, 5), span(2, 6)]).await?;
    expect_eq((more.written, more.unchanged), (1, 1))?;
    expect_eq(load(given, "t/r").await?.put_spans, 3)
}

/// An id stands for one content. A call that has another one changes nothing.
pub(super) async fn another_span_with_the_same_id_is_refused(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    put_new(given, "t/r", [span(1, 5)]).await?;
    let others = [span(1, 6), span(1, 5).with("k", "v"), span(1, 5).from_source(Arc::default())];
    for other in others {
        expect_kind(refused(given, vec![span(2, 5), other]).await, ErrorKind::IdempotencyMismatch)?;
    }
    expect_kind(refused(given, vec![span(3, 5), span(3, 6)]).await, ErrorKind::IdempotencyMismatch)?;
    expect_kind(refused(given, Vec::new()).await, ErrorKind::Invalid)?;
    expect_spans(given, "t/r", "span 1").await?;
    expect_eq(load(given, "t/r").await?.spans, vec![span(1, 5)])
}

async fn refused(given: &Given, spans: Vec<Span>) -> store_core::Result<store_core::PutSpansOutcome> {
    let traces = traces(given).map_err(|failure| store_core::Error::unavailable(failure.to_string()))?;
    traces.put_spans(PutSpans::new(named("t/r"), spans)).await
}

/// Spans belong to an existing thread, and those of a run to the thread of the run.
pub(super) async fn spans_need_their_thread(given: &Given) -> Verdict {
    expect_kind(refused(given, vec![span(1, 5)]).await, ErrorKind::NotFound)?;
    expect_none(given, "t/r").await?;
    create_threads(given, &["t", "u"]).await?;
    write_run(given, "u", running_run("r")).await?;
    expect_kind(refused(given, vec![span(1, 5)]).await, ErrorKind::Invalid)?;
    expect_none(given, "t/r").await?;
    put_new(given, "u/r", [span(1, 5)]).await
}

/// Spans with one id in different runs are different spans.
pub(super) async fn spans_of_runs_are_apart(given: &Given) -> Verdict {
    create_threads(given, &["t", "u"]).await?;
    let names = ["t/r", "t/R", "t/r ", "t/r/r", "u/q"];
    for (number, name) in (0_u64..).zip(names) {
        put_new(given, name, [span(1, 5).with("of", number)]).await?;
    }
    for (number, name) in (0_u64..).zip(names) {
        expect_eq(load(given, name).await?.spans, vec![span(1, 5).with("of", number)])?;
    }
    expect_eq(list(given, &TraceQuery::default(), 2).await?.len(), names.len())
}

/// All spans of concurrent puts are stored, and the trace knows all of them.
pub(super) async fn concurrent_puts_are_all_stored(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    let store = traces(given)?;
    let results = run_concurrently(8, |caller| {
        let (store, number) = (Arc::clone(&store), caller as u64);
        // Each caller has a source of its own, and one span that all of them put.
        let mut source = SpanSource::of_conventions();
        source.scope = Some(json(&format!(r#"{{"name":"caller {number}"}}"#)));
        let own = span(number + 1, number + 1).from_source(Arc::new(source));
        async move { store.put_spans(PutSpans::new(named("t/r"), [own, span(100, 100)])).await }
    });
    let outcomes = results.await.into_iter().collect::<store_core::Result<Vec<_>>>()?;
    expect_eq(outcomes.iter().map(|outcome| outcome.written).sum::<u64>(), 9)?;
    let summary = expect_some(list(given, &TraceQuery::default(), 5).await?.pop(), "trace")?;
    expect_eq((summary.put_spans, summary.started_at), (9, at(1)))?;
    for found in load(given, "t/r").await?.spans.iter().filter(|found| found.start_nanos < 100_000_000) {
        let number = found.start_nanos / 1_000_000 - 1;
        let scope = format!(r#"{{"name":"caller {number}"}}"#);
        expect_eq(found.source.scope.as_ref().map(|scope| scope.as_str()), Some(scope.as_str()))?;
    }
    Ok(())
}

/// Spans survive a reopen.
pub(super) async fn spans_survive_a_reopen(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    put_new(given, "t/r", [span(1, 5), full_span()?]).await?;
    let before = (load(given, "t/r").await?, list(given, &TraceQuery::default(), 5).await?);
    given.reopen().await?;
    expect_eq(&(load(given, "t/r").await?, list(given, &TraceQuery::default(), 5).await?), &before)?;
    expect_eq(list_spans(given, "t/r", 1).await?, before.0.spans)?;
    expect_eq(put(given, "t/r", [span(1, 5)]).await?.unchanged, 1)?;
    expect(traces(given)?.find_trace(&id("r")).await?.is_some(), "the trace is not found by its run")
}
