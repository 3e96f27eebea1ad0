//! Lists of spans and of traces.

use std::time::Duration;

use store_core::{
    Cursor, DeleteRequest, ErrorKind, ListSpans, PageRequest, RunOutcome, RunPhase, RunStatus, TraceQuery,
};

use super::helpers::{
    at, create_threads, expect_listed, expect_none, expect_spans, list, list_spans, load, named, put_new, span,
    span_of_agent, traces,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    given::id,
    run::helpers::{done_run, load_run, run_change, running_run, write_run},
};

fn all() -> TraceQuery {
    TraceQuery::default()
}

/// Spans of a trace come in the order of their starts, and then of their ids, in pages of any size.
pub(super) async fn spans_are_listed_by_start_and_id(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    put_new(given, "t/r", [span(3, 9), span(2, 9), span(9, 10)]).await?;
    put_new(given, "t/r", [span(7, 8), span(1, 9)]).await?;
    expect_spans(given, "t/r", "span 7, span 1, span 2, span 3, span 9").await?;
    let whole = load(given, "t/r").await?.spans;
    for limit in [1, 2, 4, 5, 100] {
        expect_eq((limit, list_spans(given, "t/r", limit).await?), (limit, whole.clone()))?;
    }
    expect_eq(list_spans(given, "t/none", 5).await?.len(), 0)?;
    let store = traces(given)?;
    let list = |name: &str, page| store.list_spans(ListSpans::of(named(name)).with_page(page));
    let next = expect_some(list("t/r", PageRequest::first(1)).await?.next, "cursor")?;
    let other = list("t/s", PageRequest::first(1).after(next.clone())).await;
    expect_kind(other, ErrorKind::InvalidCursor)?;
    let cut = next.as_str().replace('.', "");
    for forged in ["", "x", "1.2.3", cut.as_str()] {
        let page = PageRequest::first(1).after(Cursor::from_text(forged));
        expect_kind(list("t/r", page).await, ErrorKind::InvalidCursor)?;
    }
    expect_kind(list("t/r", PageRequest::first(0)).await, ErrorKind::Invalid).map(drop)
}

/// Writes a run of the thread, a minute after the one before.
async fn write_later(given: &Given, thread: &str, run: &str) -> Result<u64, Failure> {
    given.advance(Duration::from_mins(1)).await;
    write_run(given, thread, running_run(run)).await?;
    Ok(load_run(given, run).await?.created_at.as_millis())
}

/// Runs, and traces of which only spans are known, are one list, newest first.
pub(super) async fn traces_are_listed_newest_first(given: &Given) -> Verdict {
    create_threads(given, &["t", "u"]).await?;
    let first = write_later(given, "t", "a").await?;
    let second = write_later(given, "u", "b").await?;
    write_later(given, "t", "c").await?;
    put_new(given, "u/before", [span(1, first - 1)]).await?;
    put_new(given, "t/between", [span(1, second + 1), span(2, second + 9).ending_at(at(second + 20))]).await?;
    expect_listed(given, &all(), "t/c, t/between, u/b, t/a, u/before").await?;
    let found = list(given, &all(), 10).await?;
    let (run, spans) = (&found[0], &found[1]);
    expect_eq((run.phase, run.agent.as_deref(), run.put_spans), (Some(RunPhase::Running), Some("agent"), 0))?;
    expect_eq((run.ended_at, run.tokens.is_some(), run.has_error), (None, false, false))?;
    expect_eq((spans.phase, spans.put_spans, spans.started_at), (None, 2, at(second + 1)))?;
    expect_eq((spans.ended_at, &spans.agent), (Some(at(second + 20)), &None))?;
    let wrong_limit = traces(given)?.list_traces(all().with_page(PageRequest::first(0))).await;
    expect_kind(wrong_limit, ErrorKind::Invalid).map(drop)
}

/// A run for which spans were put is listed once, at the time of the run, whenever the spans began.
pub(super) async fn each_trace_is_listed_once(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    put_new(given, "t/b", [span(1, 5)]).await?;
    for run in ["a", "b", "c"] {
        write_later(given, "t", run).await?;
    }
    let last = write_later(given, "t", "d").await?;
    put_new(given, "t/a", [span(1, last + 9)]).await?;
    put_new(given, "t/d", [span(1, 7), span(2, 8)]).await?;
    expect_listed(given, &all(), "t/d, t/c, t/b, t/a").await?;
    let counts: Vec<_> = list(given, &all(), 3).await?.iter().map(|trace| trace.put_spans).collect();
    expect_eq(counts, vec![2, 0, 1, 1])
}

/// A list can be restricted to a thread and to an agent: that of the run, or else the first one that a span names.
pub(super) async fn traces_of_a_thread_and_an_agent_are_listed(given: &Given) -> Verdict {
    create_threads(given, &["t", "u"]).await?;
    for (thread, run, agent) in [("t", "a", "ada"), ("u", "b", "ada"), ("t", "c", "bob")] {
        given.advance(Duration::from_mins(1)).await;
        let change = running_run(run).with_agent(id(agent));
        write_run(given, thread, change).await?;
    }
    put_new(given, "t/s1", [span(1, 9), span_of_agent(2, 8, "ada")]).await?;
    put_new(given, "u/s2", [span_of_agent(1, 7, "bob"), span_of_agent(2, 6, "ada")]).await?;
    // Spans may name other agents than that of the run.
    put_new(given, "t/c", [span_of_agent(1, 5, "ada")]).await?;
    expect_listed(given, &all(), "t/c, u/b, t/a, t/s1, u/s2").await?;
    expect_listed(given, &all().of_thread(id("t")), "t/c, t/a, t/s1").await?;
    expect_listed(given, &all().of_agent(id("bob")), "t/c, u/s2").await?;
    expect_listed(given, &all().of_agent(id("ada")), "u/b, t/a, t/s1").await?;
    expect_listed(given, &all().of_thread(id("t")).of_agent(id("ada")), "t/a, t/s1").await?;
    expect_listed(given, &all().of_thread(id("v")), "").await?;
    expect_listed(given, &all().of_agent(id("eve")), "").await
}

/// A list can be restricted to a time: from its first moment on, and before its last one.
pub(super) async fn traces_of_a_time_are_listed(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    let first = write_later(given, "t", "a").await?;
    let second = write_later(given, "t", "b").await?;
    put_new(given, "t/s", [span(1, first + 5)]).await?;
    expect_listed(given, &all().from(at(first)), "t/b, t/s, t/a").await?;
    expect_listed(given, &all().from(at(first + 1)), "t/b, t/s").await?;
    expect_listed(given, &all().from(at(first + 5)).before(at(second)), "t/s").await?;
    expect_listed(given, &all().from(at(first + 6)), "t/b").await?;
    expect_listed(given, &all().before(at(first + 5)), "t/a").await?;
    expect_listed(given, &all().of_thread(id("t")).before(at(second)), "t/s, t/a").await?;
    expect_listed(given, &all().before(at(first)), "").await
}

/// A list can be restricted to runs that failed, and to traces in which a span that was put did.
pub(super) async fn traces_with_errors_are_listed(given: &Given) -> Verdict {
    create_threads(given, &["t", "u"]).await?;
    let failed = |run: &str| run_change(run, RunStatus::done(RunOutcome::Failed { error: "no money".to_owned() }));
    for (thread, run) in [("t", "a"), ("u", "b"), ("t", "c"), ("t", "d")] {
        write_later(given, thread, run).await?;
    }
    for change in [failed("a"), done_run("c"), failed("d")] {
        write_run(given, "t", change).await?;
    }
    put_new(given, "u/b", [span(1, 9), span(2, 9).failed(None)]).await?;
    put_new(given, "t/c", [span(1, 8)]).await?;
    put_new(given, "t/d", [span(1, 7).failed(None)]).await?;
    put_new(given, "u/s", [span_of_agent(1, 6, "ada").failed(Some("no".to_owned()))]).await?;
    put_new(given, "t/s", [span(1, 5)]).await?;
    // Of `b`, only a span failed, so it is at the time of the first span.
    expect_listed(given, &all().with_errors(), "t/d, t/a, u/b, u/s").await?;
    expect_listed(given, &all().with_errors().of_thread(id("u")), "u/b, u/s").await?;
    expect_listed(given, &all().with_errors().of_agent(id("agent")), "t/d, t/a, u/b").await?;
    expect_listed(given, &all().with_errors().of_agent(id("ada")), "u/s").await?;
    let errors: Vec<_> = list(given, &all(), 9).await?.iter().map(|trace| trace.has_error).collect();
    expect_eq(errors, vec![true, false, true, true, true, false])
}

/// A span that begins before all others moves its trace in the list.
pub(super) async fn an_earlier_span_moves_its_trace(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    put_new(given, "t/a", [span(1, 10)]).await?;
    put_new(given, "t/b", [span(1, 20).failed(None)]).await?;
    expect_listed(given, &all(), "t/b, t/a").await?;
    put_new(given, "t/b", [span_of_agent(2, 5, "ada")]).await?;
    put_new(given, "t/a", [span(2, 30)]).await?;
    expect_listed(given, &all(), "t/a, t/b").await?;
    expect_listed(given, &all().of_agent(id("ada")), "t/b").await?;
    expect_listed(given, &all().with_errors().from(at(5)).before(at(6)), "t/b").await
}

/// A cursor of one list of traces is refused by another one.
pub(super) async fn a_cursor_belongs_to_one_list_of_traces(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    for run in ["a", "b"] {
        write_later(given, "t", run).await?;
    }
    put_new(given, "t/s", [span(1, 5)]).await?;
    let store = traces(given)?;
    let next = expect_some(store.list_traces(all().with_page(PageRequest::first(1))).await?.next, "cursor")?;
    for other in [all().of_thread(id("t")), all().of_agent(id("agent")), all().with_errors(), all().from(at(0))] {
        let page = PageRequest::first(1).after(next.clone());
        expect_kind(store.list_traces(other.with_page(page)).await, ErrorKind::InvalidCursor)?;
    }
    for forged in ["", "x", "{}", "1"] {
        let page = PageRequest::first(1).after(Cursor::from_text(forged));
        expect_kind(store.list_traces(all().with_page(page)).await, ErrorKind::InvalidCursor)?;
    }
    Ok(())
}

/// A trace is found by the id of its run, whether the run was committed or not.
pub(super) async fn a_trace_is_found_by_its_run(given: &Given) -> Verdict {
    create_threads(given, &["t", "u"]).await?;
    write_run(given, "t", running_run("a")).await?;
    put_new(given, "u/s", [span(1, 5)]).await?;
    for (run, expected) in [("a", Some("t/a")), ("s", Some("u/s")), ("b", None)] {
        let found = traces(given)?.find_trace(&id(run)).await?;
        expect_eq((run, found), (run, expected.map(named)))?;
    }
    Ok(())
}

/// What was put for a deleted thread is neither loaded nor listed. What is put for a new thread with its id is new.
pub(super) async fn traces_go_with_their_thread(given: &Given) -> Verdict {
    create_threads(given, &["t", "u"]).await?;
    for name in ["t/a", "t/b", "u/a"] {
        put_new(given, name, [span(1, 5).failed(None), span(2, 6)]).await?;
    }
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    expect_none(given, "t/a").await?;
    for query in [all(), all().with_errors()] {
        expect_listed(given, &query, "u/a").await?;
    }
    expect_eq(traces(given)?.find_trace(&id("b")).await?, None)?;
    create_threads(given, &["t"]).await?;
    expect_none(given, "t/a").await?;
    put_new(given, "t/a", [span(1, 7)]).await?;
    expect_spans(given, "t/a", "span 1").await?;
    expect_listed(given, &all(), "t/a, u/a").await?;
    expect_listed(given, &all().with_errors(), "u/a").await
}
