//! The contract of traces, and its implementation over documents, runs and logs.

use std::{collections::BTreeMap, fmt, sync::Arc};

use async_trait::async_trait;
use futures_util::future::try_join3;

use super::{
    record::{StoredSpan, StoredTrace, Trace, TraceName, TracePin, TraceSummary},
    request::{ListSpans, PurgeTraces, PurgedTraces, PutSpans, PutSpansOutcome, TraceQuery},
    rules,
};
use crate::{
    codec::sha256_hex,
    document::{Document, DocumentChange, DocumentQuery, KeySegment, WriteDocuments},
    error::{Detail, Error, Result},
    ext::DocumentStoreExt,
    id::{AgentId, PinHolder, RunId},
    layers::{LayerStore, load_in_parts, plan_and_write},
    log::EntryQuery,
    page::{Cursor, MAX_PAGE, Page, PageRequest},
    progress::Progress,
    run::{EntryRange, Run},
    span::{Span, SpanDeriver, SpanId, SpanSource},
    store::TenantStores,
    thread::ThreadRunStore,
};

/// Traces of runs: what happened in a run, as spans.
///
/// A run that was committed has a trace: its spans are derived from the run and its entries whenever they are read. A
/// program can put further spans, also for a run that was never committed. A span that is put under the id of a derived
/// one takes its place.
///
/// ```
/// use store_core::{
///     Timestamp,
///     layers::trace::{PutSpans, TraceName, TraceStore},
///     span::{Span, root_span_of, trace_of},
/// };
///
/// async fn note_lookup(traces: &dyn TraceStore, run: &store_core::Run, time: Timestamp) -> store_core::Result<()> {
///     let span = Span::new(trace_of(run), "eee19b7ec3c1b174".parse()?, "lookup", time).below(root_span_of(run));
///     traces.put_spans(PutSpans::new(TraceName::of(run), [span])).await?;
///     Ok(())
/// }
/// ```
#[async_trait]
pub trait TraceStore: Send + Sync {
    /// Stores spans of a run, in one step (TR-1).
    ///
    /// # Guarantees
    /// - The call may be repeated: a span that was put before, with the same content, changes nothing
    ///   (TR-1, `trace::a_repeated_put_changes_nothing`).
    /// - All spans of concurrent calls are stored (TR-1, `trace::concurrent_puts_are_all_stored`).
    ///
    /// # Errors
    /// `IdempotencyMismatch` if another span was put under one of the ids; `Invalid` for no spans, and for a run that
    /// belongs to another thread; `NotFound` if the thread does not exist; `LimitExceeded`. `Conflict` if other writers
    /// were faster 100 times in a row. After an `Unknown` outcome, repeat the call.
    async fn put_spans(&self, request: PutSpans) -> Result<PutSpansOutcome>;

    /// Loads a trace with all its spans and pins; none if there is no such run and no span was put.
    ///
    /// The spans are not all of one moment: those of a run that goes on meanwhile may be missing.
    ///
    /// # Guarantees
    /// - A run that was committed has a trace (TR-7, `trace::a_committed_run_has_a_trace`).
    /// - What is not known is absent (TR-7, `trace::what_is_not_known_is_absent`).
    ///
    /// # Errors
    /// `Corrupt` if the trace cannot be read; any error of reading.
    async fn load_trace(&self, name: &TraceName) -> Result<Option<Trace>>;

    /// Lists the spans of a trace by start and id, in pages. Each page reads the trace.
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list; any error of reading.
    async fn list_spans(&self, query: ListSpans) -> Result<Page<Span>>;

    /// Lists traces, newest first (TR-1): those of runs, by the creation of the run, and those of which only spans are
    /// known, by their first span. A page may be shorter than its limit.
    ///
    /// # Guarantees
    /// - Each trace is listed once (TR-8, `trace::each_trace_is_listed_once`).
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another list; any error of reading.
    async fn list_traces(&self, query: TraceQuery) -> Result<Page<TraceSummary>>;

    /// Finds the trace of a run by the id of the run alone; none if there is none.
    ///
    /// # Errors
    /// Any error of reading.
    async fn find_trace(&self, run: &RunId) -> Result<Option<TraceName>>;

    /// Keeps the spans of a trace from being purged, for a holder (TR-6). The call may be repeated.
    ///
    /// A pin does not keep a thread: it goes with it.
    ///
    /// # Guarantees
    /// - A trace that was pinned has its spans until it is unpinned, also if a purge runs at the same time
    ///   (TR-6, `trace::a_pin_and_a_purge_exclude_each_other`).
    ///
    /// # Errors
    /// `NotFound` if there is no such run and no span was put.
    async fn pin_trace(&self, name: &TraceName, holder: &PinHolder) -> Result<()>;

    /// Ends a pin. A missing one is no error.
    ///
    /// # Errors
    /// `NotFound` if the thread does not exist; any error of writing.
    async fn unpin_trace(&self, name: &TraceName, holder: &PinHolder) -> Result<()>;

    /// Removes the spans that were put for traces that are too old or too many, except those of pinned traces (TR-6).
    /// Runs and their entries stay, and with them the derived spans.
    ///
    /// The call also removes what deleted threads left in the orders of the lists. It may be stopped between two
    /// traces, and repeated.
    ///
    /// # Errors
    /// Any error of reading and writing.
    async fn purge_traces(&self, request: PurgeTraces, progress: &dyn Progress) -> Result<PurgedTraces>;
}

/// The traces of a tenant: its runs and logs, and spans that are kept as documents of their threads.
#[derive(Clone)]
pub struct TraceLayer {
    pub(super) store: LayerStore,
    pub(super) threads: Arc<dyn ThreadRunStore>,
}

impl fmt::Debug for TraceLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceLayer").finish_non_exhaustive()
    }
}

/// The document of a trace with its content.
pub(super) type FoundTrace = (Document, StoredTrace);

impl TraceLayer {
    /// Makes the traces over the stores of a tenant.
    ///
    /// # Errors
    /// `Unsupported` if the tenant has no documents or no threads.
    pub fn new(stores: &TenantStores) -> Result<Self> {
        let unsupported = || Error::new(Detail::Unsupported { operation: "threads" });
        Ok(Self { store: LayerStore::new(stores)?, threads: stores.threads.clone().ok_or_else(unsupported)? })
    }

    /// Loads what was put for traces; none where nothing was.
    pub(super) async fn load_stored(&self, names: &[TraceName]) -> Result<Vec<Option<FoundTrace>>> {
        let documents: Vec<_> = names.iter().map(rules::document_of).collect::<Result<_>>()?;
        let found = load_in_parts(&*self.store.documents, &documents).await?;
        let read = |document: Option<Document>| match document {
            Some(document) => StoredTrace::from_document(&document).map(|trace| Some((document, trace))),
            None => Ok(None),
        };
        found.into_iter().map(read).collect()
    }

    async fn load_one(&self, name: &TraceName) -> Result<Option<FoundTrace>> {
        Ok(self.load_stored(std::slice::from_ref(name)).await?.pop().flatten())
    }

    /// Loads what was put for a trace, for a change of it. If a purge has begun to remove it, this call ends that.
    async fn load_for_change(&self, name: &TraceName) -> Result<Option<FoundTrace>> {
        loop {
            match self.load_one(name).await? {
                Some((document, trace)) if trace.removing => self.finish_removal(name, &document, &trace).await?,
                found => return Ok(found),
            }
        }
    }

    /// Loads the run of a trace; none if there is none in its thread.
    pub(super) async fn load_run(&self, name: &TraceName) -> Result<Option<Run>> {
        Ok(self.threads.load_run(&name.run).await?.filter(|run| run.thread == name.thread))
    }

    async fn plan_put(
        &self,
        (name, agent): (&TraceName, Option<&AgentId>),
        spans: &[&Span],
    ) -> Result<(PutSpansOutcome, Option<WriteDocuments>)> {
        let documents: Vec<_> =
            spans.iter().map(|span| rules::document_of_span(name, span.span_id)).collect::<Result<_>>()?;
        // The spans are read before the trace. A trace only gets more sources, so it has those of all these spans,
        // unless it was purged meanwhile.
        let (found, stored) = loop {
            let before = self.load_for_change(name).await?.map(|(document, _)| document.created_at);
            let stored = load_in_parts(&*self.store.documents, &documents).await?;
            let found = self.load_one(name).await?;
            let now = found.as_ref().map(|(document, _)| document.created_at);
            let is_removed = found.as_ref().is_some_and(|(_, trace)| trace.removing);
            if !is_removed && (before.is_none() || before == now) {
                break (found, stored);
            }
        };
        let sources = found.as_ref().map(|(_, trace)| sources_of(trace)).unwrap_or_default();
        let read = |document: &Option<Document>| {
            document.as_ref().map(|document| StoredSpan::span_of(document, &sources)).transpose()
        };
        let stored: Vec<_> = stored.iter().map(read).collect::<Result<_>>()?;
        let (outcome, changes) = rules::plan_put((name, agent), spans, found.as_ref(), &stored)?;
        Ok((outcome, (!changes.is_empty()).then(|| WriteDocuments::new(changes))))
    }

    /// Derives the spans of a run. If the run says what it wrote, only that is read, otherwise the log of its thread.
    async fn derive(&self, run: &Run) -> Result<Vec<Span>> {
        let parent = match &run.parent_run {
            Some(parent) => self.threads.load_run(parent).await?,
            None => None,
        };
        let mut deriver = SpanDeriver::new(run, parent.as_ref());
        let whole_log = EntryQuery { run: Some(run.id.clone()), ..EntryQuery::all() };
        let of_range =
            |range: &EntryRange| EntryQuery { from_seq: Some(range.from), to_seq: Some(range.to), ..whole_log.clone() };
        let mut ranges = run.output.clone();
        ranges.sort_by_key(|range| range.from);
        let mut queries: Vec<_> = ranges.iter().map(of_range).collect();
        if queries.is_empty() {
            queries.push(whole_log);
        }
        for query in queries {
            let mut next = Some(PageRequest::first(MAX_PAGE));
            while let Some(request) = next.take() {
                let page = self.threads.list_entries(&run.thread, query.clone().with_page(request)).await?;
                page.items.iter().for_each(|entry| deriver.add(entry));
                next = page.next.map(|cursor| PageRequest::first(MAX_PAGE).after(cursor));
            }
        }
        Ok(deriver.finish())
    }

    /// Reads the spans that were put for a trace.
    async fn load_put_spans(&self, name: &TraceName) -> Result<Option<Vec<Span>>> {
        loop {
            let Some((document, trace)) = self.load_readable(name).await? else { return Ok(None) };
            let spans = self.list_documents(rules::spans_of(name)?).await?;
            // Spans that were put meanwhile may have sources that were not known before.
            let Some((newest, trace_now)) = self.load_readable(name).await? else { return Ok(None) };
            if newest.created_at == document.created_at && trace_now.sources.starts_with(&trace.sources) {
                let sources = sources_of(&trace_now);
                return spans.iter().map(|span| StoredSpan::span_of(span, &sources)).collect::<Result<_>>().map(Some);
            }
        }
    }

    /// Loads what was put for a trace; none if a purge has begun to remove it.
    async fn load_readable(&self, name: &TraceName) -> Result<Option<FoundTrace>> {
        Ok(self.load_one(name).await?.filter(|(_, trace)| !trace.removing))
    }

    async fn list_documents(&self, query: DocumentQuery) -> Result<Vec<Document>> {
        self.store.list_all(query, |document| Ok(document.clone())).await
    }

    async fn load_pins(&self, name: &TraceName) -> Result<Vec<TracePin>> {
        self.store
            .list_all(rules::pins_of(name)?, |document| {
                let Some(KeySegment::Id(holder)) = document.key.segments().pop() else {
                    return Err(Error::corrupt(format!("document {}: it is no pin of a trace", document.to_ref())));
                };
                Ok(TracePin::new(PinHolder::new(holder)?, document.created_at))
            })
            .await
    }

    async fn load(&self, name: &TraceName) -> Result<Option<Trace>> {
        let (run, put, pins) = try_join3(self.load_run(name), self.load_put_spans(name), self.load_pins(name)).await?;
        if run.is_none() && put.is_none() {
            return Ok(None);
        }
        let put = put.unwrap_or_default();
        let derived = match &run {
            Some(run) => self.derive(run).await?,
            None => Vec::new(),
        };
        let put_spans = crate::limits::length(put.len());
        let by_id: BTreeMap<SpanId, Span> = derived.into_iter().chain(put).map(|span| (span.span_id, span)).collect();
        let mut spans: Vec<_> = by_id.into_values().collect();
        spans.sort_by_key(place_of);
        Ok(Some(Trace { name: name.clone(), spans, put_spans, pins }))
    }
}

fn sources_of(trace: &StoredTrace) -> Vec<Arc<SpanSource>> {
    trace.sources.iter().cloned().map(Arc::new).collect()
}

/// Returns what spans are ordered by.
const fn place_of(span: &Span) -> (u64, SpanId) {
    (span.start_nanos, span.span_id)
}

/// Returns the text that binds a cursor to a list of spans.
fn binding_of(name: &TraceName) -> String {
    sha256_hex(&format!("list_spans\n{}\n{}", name.thread, name.run)).chars().take(16).collect()
}

fn decode_cursor(name: &TraceName, cursor: &Cursor) -> Result<(u64, SpanId)> {
    let mut parts = cursor.as_str().splitn(3, '.');
    let is_bound = parts.next() == Some(binding_of(name).as_str());
    let (start, id) = (parts.next().and_then(|start| start.parse().ok()), parts.next().and_then(|id| id.parse().ok()));
    match (is_bound, start, id) {
        (true, Some(start), Some(id)) => Ok((start, id)),
        (false, Some(_), Some(_)) => Err(Error::invalid_cursor("it belongs to another list")),
        _ => Err(Error::invalid_cursor("it is malformed")),
    }
}

#[async_trait]
impl TraceStore for TraceLayer {
    async fn put_spans(&self, request: PutSpans) -> Result<PutSpansOutcome> {
        let (name, spans) = (&request.name, rules::distinct_spans(&request)?);
        let run = self.threads.load_run(&name.run).await?;
        if run.as_ref().is_some_and(|run| run.thread != name.thread) {
            return Err(Error::invalid("spans", "the run belongs to another thread"));
        }
        let (spans, agent) = (spans.as_slice(), run.as_ref().map(|run| &run.agent));
        Ok(plan_and_write(&*self.store.documents, || self.plan_put((name, agent), spans)).await?.0)
    }

    async fn load_trace(&self, name: &TraceName) -> Result<Option<Trace>> {
        self.load(name).await
    }

    async fn list_spans(&self, query: ListSpans) -> Result<Page<Span>> {
        let limit = query.page.checked_limit()?;
        let after = query.page.cursor.as_ref().map(|cursor| decode_cursor(&query.name, cursor)).transpose()?;
        let spans = self.load(&query.name).await?.map(|trace| trace.spans).unwrap_or_default();
        let mut rest = spans.into_iter().filter(|span| after.is_none_or(|after| after < place_of(span)));
        let items: Vec<_> = rest.by_ref().take(limit).collect();
        let last = items.last().filter(|_| rest.next().is_some()).map(place_of);
        let next = last.map(|(start, id)| Cursor::from_text(format!("{}.{start}.{id}", binding_of(&query.name))));
        Ok(Page { items, next })
    }

    async fn list_traces(&self, query: TraceQuery) -> Result<Page<TraceSummary>> {
        self.list(query).await
    }

    async fn find_trace(&self, run: &RunId) -> Result<Option<TraceName>> {
        if let Some(run) = self.threads.load_run(run).await? {
            return Ok(Some(TraceName::of(&run)));
        }
        for entry in self.list_documents(rules::entries_of_run(run)?).await? {
            let name = rules::name_of_entry(&entry)?;
            if self.load_readable(&name).await?.is_some() {
                return Ok(Some(name));
            }
        }
        Ok(None)
    }

    async fn pin_trace(&self, name: &TraceName, holder: &PinHolder) -> Result<()> {
        let plan = || async move {
            let found = self.load_for_change(name).await?;
            if found.is_none() && self.load_run(name).await?.is_none() {
                return Err(Error::not_found("trace", name.to_string()));
            }
            let pin = self.store.documents.load_document(&rules::document_of_pin(name, holder)?).await?;
            let write = match pin {
                Some(_) => None,
                None => Some(WriteDocuments::new(rules::plan_pin(name, holder, found.as_ref())?)),
            };
            Ok(((), write))
        };
        plan_and_write(&*self.store.documents, plan).await.map(drop)
    }

    async fn unpin_trace(&self, name: &TraceName, holder: &PinHolder) -> Result<()> {
        let delete = DocumentChange::delete(rules::document_of_pin(name, holder)?);
        self.store.documents.write_documents(WriteDocuments::new([delete])).await.map(drop)
    }

    async fn purge_traces(&self, request: PurgeTraces, progress: &dyn Progress) -> Result<PurgedTraces> {
        self.purge(request, progress).await
    }
}
