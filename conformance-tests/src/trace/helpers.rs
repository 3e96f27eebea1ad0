//! Helpers that put spans, and load and list traces.

use std::sync::Arc;

use store_core::{
    ListSpans, PageRequest, PutSpans, PutSpansOutcome, Span, Timestamp, Trace, TraceName, TraceQuery, TraceStore,
    TraceSummary, span::conventions,
};

use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_some},
    given::{id, read_all_pages},
};

/// The traces of the tenant `default`.
pub(crate) fn traces(given: &Given) -> Result<Arc<dyn TraceStore>, Failure> {
    Ok(given.fixture().traces(&given.stores()?)?)
}

/// The name `THREAD/RUN`.
pub(super) fn named(text: &str) -> TraceName {
    let (thread, run) = text.split_once('/').expect("a name with two parts");
    TraceName::new(id(thread), id(run))
}

/// A time in milliseconds.
pub(super) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).expect("a valid time")
}

/// A span with this number as its id, named after it, that begins at a time.
pub(super) fn span(number: u64, millis: u64) -> Span {
    let (trace, id) = (id("5b8efff798038103d269b633813fc60c"), id(&format!("{number:016x}")));
    Span::new(trace, id, format!("span {number}"), at(millis))
}

/// A span of an agent, as [`span`] makes it.
pub(super) fn span_of_agent(number: u64, millis: u64, agent: &str) -> Span {
    span(number, millis).with(conventions::AGENT_ID, agent)
}

/// Puts spans.
pub(super) async fn put(
    given: &Given,
    name: &str,
    spans: impl IntoIterator<Item = Span>,
) -> Result<PutSpansOutcome, Failure> {
    Ok(traces(given)?.put_spans(PutSpans::new(named(name), spans)).await?)
}

/// Puts spans, all of which must be new.
pub(super) async fn put_new(given: &Given, name: &str, spans: impl IntoIterator<Item = Span>) -> Verdict {
    let spans: Vec<_> = spans.into_iter().collect();
    let count = spans.len() as u64;
    let outcome = put(given, name, spans).await?;
    expect_eq((name, outcome.written, outcome.unchanged), (name, count, 0))
}

/// Creates the threads of some traces.
pub(super) async fn create_threads(given: &Given, threads: &[&str]) -> Verdict {
    for thread in threads {
        given.create_empty_thread(thread).await?;
    }
    Ok(())
}

/// Loads a trace that must exist.
pub(super) async fn load(given: &Given, name: &str) -> Result<Trace, Failure> {
    expect_some(traces(given)?.load_trace(&named(name)).await?, name)
}

/// Checks the names of the spans of a trace, in their order: `span 1, span 2`.
pub(super) async fn expect_spans(given: &Given, name: &str, expected: &str) -> Verdict {
    let trace = load(given, name).await?;
    let names: Vec<_> = trace.spans.iter().map(|span| span.name.as_str()).collect();
    expect_eq((name, names.join(", ").as_str()), (name, expected))
}

/// Checks that there is no trace.
pub(super) async fn expect_none(given: &Given, name: &str) -> Verdict {
    expect_eq((name, traces(given)?.load_trace(&named(name)).await?.is_none()), (name, true))
}

/// All spans of a trace, read in pages.
pub(super) async fn list_spans(given: &Given, name: &str, limit: u32) -> Result<Vec<Span>, Failure> {
    let store = &traces(given)?;
    let query = &ListSpans::of(named(name));
    read_all_pages(PageRequest::first(limit), |page| store.list_spans(query.clone().with_page(page))).await
}

/// All traces of a query, read in pages.
pub(super) async fn list(given: &Given, query: &TraceQuery, limit: u32) -> Result<Vec<TraceSummary>, Failure> {
    let store = &traces(given)?;
    read_all_pages(PageRequest::first(limit), |page| store.list_traces(query.clone().with_page(page))).await
}

/// Checks the names of all traces of a query, in their order: `t/b, t/a`. Pages of any size give the same list.
pub(super) async fn expect_listed(given: &Given, query: &TraceQuery, expected: &str) -> Verdict {
    for limit in [100, 1, 2, 3] {
        let found = list(given, query, limit).await?;
        let names: Vec<_> = found.iter().map(|trace| trace.name.to_string()).collect();
        expect_eq((limit, names.join(", ").as_str()), (limit, expected))?;
    }
    Ok(())
}
