//! Traces with planted bugs that change the calls of the layer and their answers.

use std::sync::Arc;

use async_trait::async_trait;
use store_core::{
    Entry, EntryQuery, Error, ErrorKind, ListSpans, MAX_PAGE, Page, PageRequest, PinHolder, Progress, PurgeTraces,
    PurgedTraces, PutSpans, PutSpansOutcome, Result, RunId, Span, TenantStores, Timestamp, Trace, TraceLayer,
    TraceName, TraceQuery, TraceStore, TraceSummary, derive_spans,
};

use super::LayerBug;

/// Traces with a planted bug.
pub(super) struct BuggyTraces {
    inner: TraceLayer,
    stores: TenantStores,
    bug: LayerBug,
}

impl BuggyTraces {
    pub(super) fn new(stores: TenantStores, bug: LayerBug) -> Result<Self> {
        Ok(Self { inner: TraceLayer::new(&stores)?, stores, bug })
    }

    /// Returns the trace that a call is about instead.
    fn other_name(&self, name: &TraceName) -> Result<TraceName> {
        match self.bug {
            LayerBug::TracesOfRunsMerged => Ok(TraceName::new(name.thread.clone(), "r".parse()?)),
            _ => Ok(name.clone()),
        }
    }

    /// Changes a span that is put.
    fn change_span(&self, span: &mut Span) {
        match self.bug {
            LayerBug::SpanEventsForgotten => span.events.clear(),
            LayerBug::SpanLinksForgotten => span.links.clear(),
            _ => {}
        }
    }

    /// Changes a trace that was loaded.
    async fn change_trace(&self, trace: &mut Trace) -> Result<()> {
        let is_derived =
            |span: &Span| span.source.scope.as_ref().is_some_and(|scope| scope.as_str().contains("agentstore"));
        match self.bug {
            LayerBug::DerivedCallsForgotten => trace.spans.retain(|span| !span.name.starts_with("execute_tool")),
            LayerBug::DerivedEndInvented => {
                trace.spans.iter_mut().for_each(|span| span.end_nanos = span.end_nanos.or(Some(span.start_nanos)));
            }
            LayerBug::PutSpansReplaceDerived if trace.put_spans > 0 => trace.spans.retain(|span| !is_derived(span)),
            LayerBug::DerivedOfTheWholeThread => {
                let Some(threads) = &self.stores.threads else { return Ok(()) };
                let Some(run) = threads.load_run(&trace.name.run).await? else { return Ok(()) };
                let query = EntryQuery::all().with_page(PageRequest::first(MAX_PAGE));
                let entries: Vec<Arc<Entry>> = threads.list_entries(&run.thread, query).await?.items;
                trace.spans.retain(|span| !is_derived(span));
                trace.spans.extend(derive_spans(&run, None, entries.iter().map(|entry| &**entry)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Changes what a list contains.
    fn change_list(&self, items: &mut Vec<TraceSummary>) {
        match self.bug {
            LayerBug::TracesOldestFirst => items.reverse(),
            LayerBug::TraceListedTwice => {
                let twice = |item: &TraceSummary| item.phase.is_some() && item.put_spans > 0;
                *items = items.iter().flat_map(|item| vec![item.clone(); 1 + usize::from(twice(item))]).collect();
            }
            _ => {}
        }
    }

    /// Ends all pins.
    async fn unpin_all(&self) -> Result<()> {
        let query = TraceQuery::default().with_page(PageRequest::first(MAX_PAGE));
        for summary in self.inner.list_traces(query).await?.items {
            let pins = self.inner.load_trace(&summary.name).await?.map(|trace| trace.pins).unwrap_or_default();
            for pin in pins {
                self.inner.unpin_trace(&summary.name, &pin.holder).await?;
            }
        }
        Ok(())
    }
}

#[async_trait]
impl TraceStore for BuggyTraces {
    async fn put_spans(&self, mut request: PutSpans) -> Result<PutSpansOutcome> {
        request.name = self.other_name(&request.name)?;
        request.spans.iter_mut().for_each(|span| self.change_span(span));
        if self.bug == LayerBug::RepeatedPutRefused {
            for span in self.inner.load_trace(&request.name).await?.map(|trace| trace.spans).unwrap_or_default() {
                if request.spans.contains(&span) {
                    return Err(Error::already_exists("span", span.span_id.to_string()));
                }
            }
        }
        match (self.bug, self.inner.put_spans(request).await) {
            (LayerBug::OtherSpanIgnored, Err(error)) if error.kind() == ErrorKind::IdempotencyMismatch => {
                Ok(PutSpansOutcome::default())
            }
            (LayerBug::SpansOfNoThread, Err(error)) if error.kind() == ErrorKind::NotFound => {
                Ok(PutSpansOutcome::default())
            }
            (_, answer) => answer,
        }
    }

    async fn load_trace(&self, name: &TraceName) -> Result<Option<Trace>> {
        let mut found = self.inner.load_trace(&self.other_name(name)?).await?;
        if let Some(trace) = &mut found {
            trace.name = name.clone();
            self.change_trace(trace).await?;
        }
        Ok(found)
    }

    async fn list_spans(&self, query: ListSpans) -> Result<Page<Span>> {
        let mut page = self.inner.list_spans(query).await?;
        if self.bug == LayerBug::SpansReversed {
            page.items.reverse();
        }
        Ok(page)
    }

    async fn list_traces(&self, mut query: TraceQuery) -> Result<Page<TraceSummary>> {
        match self.bug {
            LayerBug::TraceAgentIgnored => query.agent = None,
            LayerBug::TraceErrorsIgnored => query.errors = false,
            LayerBug::TraceTimeIgnored => query.before = None,
            _ => {}
        }
        let limit = query.page.limit;
        let mut page = match self.inner.list_traces(query.clone()).await {
            Err(error) if self.bug == LayerBug::TraceCursorUnbound && error.kind() == ErrorKind::InvalidCursor => {
                self.inner.list_traces(query.with_page(PageRequest { limit, cursor: None })).await?
            }
            answer => answer?,
        };
        self.change_list(&mut page.items);
        Ok(page)
    }

    async fn find_trace(&self, run: &RunId) -> Result<Option<TraceName>> {
        let found = self.inner.find_trace(run).await?;
        let Some(threads) = &self.stores.threads else { return Ok(found) };
        if self.bug == LayerBug::OnlyRunsFound && threads.load_run(run).await?.is_none() {
            return Ok(None);
        }
        Ok(found)
    }

    async fn pin_trace(&self, name: &TraceName, holder: &PinHolder) -> Result<()> {
        match self.inner.pin_trace(name, holder).await {
            Err(error) if self.bug == LayerBug::NothingPinned && error.kind() == ErrorKind::NotFound => Ok(()),
            answer => answer,
        }
    }

    async fn unpin_trace(&self, name: &TraceName, holder: &PinHolder) -> Result<()> {
        self.inner.unpin_trace(name, holder).await
    }

    async fn purge_traces(&self, mut request: PurgeTraces, progress: &dyn Progress) -> Result<PurgedTraces> {
        match self.bug {
            LayerBug::TracePurgeIgnoresTime => {
                let far_future = Timestamp::from_millis(4_000_000_000_000)?;
                request.before = request.before.map(|_| far_future);
            }
            LayerBug::TracePurgeIgnoresNumber => request.keep_newest = None,
            LayerBug::TraceDryPurgeRemoves => request.dry_run = false,
            LayerBug::TracePinsIgnored if !request.dry_run => self.unpin_all().await?,
            _ => {}
        }
        self.inner.purge_traces(request, progress).await
    }
}
