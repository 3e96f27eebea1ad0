//! The retention of spans, and pins.

use std::time::Duration;

use store_core::{
    CollectionId, DeleteRequest, DocumentChange, DocumentKey, DocumentQuery, DocumentRef, DocumentScope,
    DocumentStoreExt, ErrorKind, IgnoreProgress, Json, KeySegment, PinHolder, PurgeTraces, ThreadFilter, Timestamp,
    TraceQuery, WriteDocuments,
};

use super::helpers::{
    at, create_threads, expect_listed, expect_none, expect_spans, load, named, put_new, span, span_of_agent, traces,
};
use crate::{
    Failure, Given, Verdict,
    check::{expect_eq, expect_kind, expect_some},
    given::{id, run_two_concurrently},
    run::helpers::{load_run, running_run, write_run},
};

const DAY: Duration = Duration::from_hours(24);

fn all() -> TraceQuery {
    TraceQuery::default()
}

/// Makes a purge, and returns the number of traces whose spans were removed.
async fn purge(given: &Given, request: PurgeTraces) -> Result<u64, Failure> {
    let purged = traces(given)?.purge_traces(request, &IgnoreProgress).await?;
    expect_eq(purged.stopped, false)?;
    Ok(purged.traces)
}

/// Returns store time, a day later.
async fn a_day_later(given: &Given) -> Result<Timestamp, Failure> {
    given.advance(DAY).await;
    let threads = given.threads()?.count_threads(&ThreadFilter::default()).await?;
    Ok(given.create_empty_thread(&format!("thread {threads}")).await?.created_at)
}

/// The number of documents of a collection that belong to the tenant, or to the thread `t`.
async fn count(given: &Given, collection: &str, scope: DocumentScope) -> Result<u64, Failure> {
    let documents = expect_some(given.stores()?.documents, "documents")?;
    let query = DocumentQuery::new(CollectionId::new(collection)?).in_scope(scope);
    Ok(documents.count_documents(query).await?)
}

async fn pin(given: &Given, name: &str, holder: &str) -> store_core::Result<()> {
    let traces = traces(given).map_err(|failure| store_core::Error::unavailable(failure.to_string()))?;
    traces.pin_trace(&named(name), &PinHolder::new(holder)?).await
}

/// Spans that were last put before a time are removed, and those of newer traces stay. The run stays, and with it what
/// is derived from it.
pub(super) async fn old_traces_are_purged(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    write_run(given, "t", running_run("r")).await?;
    put_new(given, "t/r", [span(1, 5)]).await?;
    put_new(given, "t/old", (1..=9).map(|number| span_of_agent(number, number, "ada").failed(None))).await?;
    put_new(given, "t/grew", [span(1, 6)]).await?;
    let time = a_day_later(given).await?;
    put_new(given, "t/grew", [span(2, 7)]).await?;
    put_new(given, "t/new", [span(1, 3)]).await?;
    expect_eq(purge(given, PurgeTraces::default()).await?, 0)?;
    expect_eq(purge(given, PurgeTraces::default().changed_before(time)).await?, 2)?;
    expect_none(given, "t/old").await?;
    expect_spans(given, "t/grew", "span 1, span 2").await?;
    let left = load(given, "t/r").await?;
    expect_eq((left.put_spans, left.spans.len()), (0, 1))?;
    expect_listed(given, &all(), "t/r, t/grew, t/new").await?;
    expect_listed(given, &all().with_errors(), "").await?;
    let (of_thread, tenant) = (DocumentScope::Thread(id("t")), DocumentScope::Tenant);
    expect_eq(count(given, "layer.traces.spans", of_thread).await?, 3)?;
    expect_eq(count(given, "layer.traces.order", tenant).await?, 2 * 3)?;
    expect_eq(purge(given, PurgeTraces::default().changed_before(time)).await?, 0)?;
    // What was removed can be put again.
    put_new(given, "t/old", [span(1, 1)]).await?;
    load_run(given, "r").await.map(drop)
}

/// Of more traces than a number, the newest ones stay, by the start of their first span.
pub(super) async fn the_newest_traces_stay(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    for (name, start) in [("t/a", 40), ("t/b", 10), ("t/c", 30), ("t/d", 20)] {
        put_new(given, name, [span(1, start)]).await?;
    }
    expect_eq(purge(given, PurgeTraces::default().keeping_newest(4)).await?, 0)?;
    expect_eq(purge(given, PurgeTraces::default().keeping_newest(2)).await?, 2)?;
    expect_listed(given, &all(), "t/a, t/c").await?;
    let time = a_day_later(given).await?;
    put_new(given, "t/a", [span(2, 50)]).await?;
    expect_eq(purge(given, PurgeTraces::default().keeping_newest(2).changed_before(time)).await?, 1)?;
    expect_listed(given, &all(), "t/a").await
}

/// A trace that a holder keeps is not purged, until the last holder gives it up. A pin can be made and ended again.
pub(super) async fn a_pinned_trace_stays(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    for name in ["t/a", "t/b"] {
        put_new(given, name, [span(1, 5)]).await?;
    }
    for holder in ["user:ada", "dataset:d 1", "user:ada"] {
        pin(given, "t/a", holder).await?;
    }
    let holders: Vec<_> = load(given, "t/a").await?.pins.iter().map(|pin| pin.holder.to_string()).collect();
    expect_eq(holders, vec!["dataset:d 1".to_owned(), "user:ada".to_owned()])?;
    let time = a_day_later(given).await?;
    let request = PurgeTraces::default().changed_before(time);
    expect_eq((purge(given, request.dry()).await?, purge(given, request).await?), (1, 1))?;
    expect_listed(given, &all(), "t/a").await?;
    let store = traces(given)?;
    for holder in ["user:ada", "user:ada", "user:eve"] {
        store.unpin_trace(&named("t/a"), &id(holder)).await?;
    }
    expect_eq(purge(given, request).await?, 0)?;
    store.unpin_trace(&named("t/a"), &id("dataset:d 1")).await?;
    expect_eq(purge(given, request).await?, 1)?;
    expect_listed(given, &all(), "").await
}

/// What neither was committed nor has spans cannot be pinned. A pin of a run keeps spans that are put later.
pub(super) async fn only_what_exists_is_pinned(given: &Given) -> Verdict {
    expect_kind(pin(given, "t/r", "user:ada").await, ErrorKind::NotFound)?;
    create_threads(given, &["t", "u"]).await?;
    expect_kind(pin(given, "t/r", "user:ada").await, ErrorKind::NotFound)?;
    write_run(given, "t", running_run("r")).await?;
    expect_kind(pin(given, "u/r", "user:ada").await, ErrorKind::NotFound)?;
    pin(given, "t/r", "user:ada").await?;
    expect_eq(load(given, "t/r").await?.pins.len(), 1)?;
    put_new(given, "t/r", [span(1, 5)]).await?;
    put_new(given, "t/s", [span(1, 6)]).await?;
    expect_eq(purge(given, PurgeTraces::default().keeping_newest(0)).await?, 1)?;
    expect_eq(load(given, "t/r").await?.put_spans, 1)?;
    expect_none(given, "t/s").await
}

/// A dry run returns how many traces a purge would change, and changes none.
pub(super) async fn a_dry_purge_removes_no_span(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    for name in ["t/a", "t/b"] {
        put_new(given, name, [span(1, 5)]).await?;
    }
    let time = a_day_later(given).await?;
    for _ in 0..2 {
        expect_eq(purge(given, PurgeTraces::default().changed_before(time).dry()).await?, 2)?;
        expect_eq(purge(given, PurgeTraces::default().keeping_newest(1).dry()).await?, 1)?;
    }
    expect_listed(given, &all(), "t/b, t/a").await?;
    expect_spans(given, "t/a", "span 1").await
}

/// Of a pin and a purge at the same time, one comes first: a trace that was pinned has all of its spans, and one that
/// was removed cannot be pinned.
pub(super) async fn a_pin_and_a_purge_exclude_each_other(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    for round in 0..10 {
        let name = format!("t/{round}");
        put_new(given, &name, (1..=3).map(|number| span(number, number))).await?;
        let (pinning, purging) = (traces(given)?, traces(given)?);
        let (pinned, holder) = (named(&name), id("user:ada"));
        let both = run_two_concurrently(async move { pinning.pin_trace(&pinned, &holder).await }, async move {
            purging.purge_traces(PurgeTraces::default().keeping_newest(0), &IgnoreProgress).await
        });
        let (pinned, purged) = both.await;
        let (pinned, purged) = (pinned, purged?.traces);
        match pinned {
            Ok(()) => {
                expect_eq((round, purged, load(given, &name).await?.put_spans), (round, 0, 3))?;
            }
            Err(error) => {
                expect_eq((round, error.kind(), purged), (round, ErrorKind::NotFound, 1))?;
                expect_none(given, &name).await?;
            }
        }
        given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
        create_threads(given, &["t"]).await?;
    }
    Ok(())
}

/// A purge that was interrupted has hidden the spans. The next purge removes the rest of them, and so does a put.
pub(super) async fn an_interrupted_purge_is_finished(given: &Given) -> Verdict {
    create_threads(given, &["t"]).await?;
    let documents = expect_some(given.stores()?.documents, "documents")?;
    for name in ["t/a", "t/b"] {
        put_new(given, name, [span(1, 5), span(2, 6)]).await?;
        // What the first step of a purge leaves.
        let key = DocumentKey::new(id("layer.traces"), [KeySegment::id(named(name).run)?])?;
        let document: DocumentRef = key.in_thread(id("t"));
        let found = expect_some(documents.load_document(&document).await?, "trace")?;
        let marked = found.value.as_str().replacen('{', r#"{"removing":true,"#, 1);
        let put = DocumentChange::put(document, Json::parse(&marked)?);
        documents.write_documents(WriteDocuments::new([put])).await?;
        expect_none(given, name).await?;
    }
    expect_listed(given, &all(), "").await?;
    put_new(given, "t/a", [span(1, 7)]).await?;
    expect_spans(given, "t/a", "span 1").await?;
    expect_eq(load(given, "t/a").await?.spans, vec![span(1, 7)])?;
    expect_eq(purge(given, PurgeTraces::default()).await?, 1)?;
    expect_eq(count(given, "layer.traces", DocumentScope::Thread(id("t"))).await?, 1)?;
    expect_eq(count(given, "layer.traces.spans", DocumentScope::Thread(id("t"))).await?, 1)?;
    expect_eq(count(given, "layer.traces.order", DocumentScope::Tenant).await?, 3)?;
    expect_listed(given, &all().from(at(7)), "t/a").await
}

/// What deleted threads left in the orders of the lists is removed. What was put again meanwhile stays.
pub(super) async fn a_purge_removes_what_deleted_threads_left(given: &Given) -> Verdict {
    create_threads(given, &["t", "u"]).await?;
    for name in ["t/a", "t/b", "u/a"] {
        put_new(given, name, [span_of_agent(1, 5, "ada").failed(None)]).await?;
    }
    let entries = async || count(given, "layer.traces.order", DocumentScope::Tenant).await;
    expect_eq(entries().await?, 3 * 7)?;
    given.threads()?.delete_thread(&id("t"), DeleteRequest::default()).await?;
    create_threads(given, &["t"]).await?;
    put_new(given, "t/b", [span(1, 5)]).await?;
    let left = entries().await?;
    expect_eq((purge(given, PurgeTraces::default().dry()).await?, entries().await?), (0, left))?;
    expect_eq((purge(given, PurgeTraces::default()).await?, entries().await?), (0, 7 + 3))?;
    expect_listed(given, &all(), "u/a, t/b").await?;
    expect_listed(given, &all().with_errors(), "u/a").await
}
