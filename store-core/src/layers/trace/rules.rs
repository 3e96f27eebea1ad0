//! The rules of traces: where they are kept, and what putting spans changes.

use std::collections::BTreeMap;

use super::{
    record::{MAX_TRACE_SPANS, StoredSpan, StoredTrace, TraceName},
    request::{MAX_PUT_SPANS, PutSpans, PutSpansOutcome, TraceQuery},
};
use crate::{
    codec::sha256_hex,
    document::{
        Document, DocumentChange, DocumentExpect, DocumentKey, DocumentQuery, DocumentRef, DocumentScope, KeySegment,
    },
    error::{Detail, Error, Result},
    id::{AgentId, CollectionId, PinHolder, RunId},
    json::Json,
    layers::encoded,
    limits::{check_limit, length},
    span::{Span, SpanId},
};

// The collections, with what their keys consist of. The names are stored and never change.

/// Run; in the scope of the thread: what the spans that were put have in common.
const TRACES: &str = "layer.traces";
/// Run, id of the span; in the scope of the thread: a span that was put.
const SPANS: &str = "layer.traces.spans";
/// Run, holder; in the scope of the thread: exists while the holder keeps the trace.
const PINS: &str = "layer.traces.pins";
/// Order, then what it is ordered by: exists while spans were put. The lists of traces read it.
const ORDER: &str = "layer.traces.order";

/// The orders in which traces with spans are found. All but the last are by time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    /// All of them, or only those with errors.
    All { errors: bool },
    /// Those of a thread.
    Thread { errors: bool },
    /// Those of an agent. Its digest is in the key, because three ids are too long for one.
    Agent { errors: bool },
    /// By run.
    Run,
}

impl Order {
    const ALL: [Self; 7] = [
        Self::All { errors: false },
        Self::Thread { errors: false },
        Self::Agent { errors: false },
        Self::All { errors: true },
        Self::Thread { errors: true },
        Self::Agent { errors: true },
        Self::Run,
    ];

    /// Returns the number that stands for the order in keys. It is stored and never changes.
    const fn number(&self) -> u64 {
        match self {
            Self::All { errors: false } => 1,
            Self::Thread { errors: false } => 2,
            Self::Agent { errors: false } => 3,
            Self::All { errors: true } => 4,
            Self::Thread { errors: true } => 5,
            Self::Agent { errors: true } => 6,
            Self::Run => 7,
        }
    }

    /// Returns the key of a trace in the order; none if it is not in it.
    fn key(&self, name: &TraceName, trace: &StoredTrace) -> Result<Option<DocumentKey>> {
        let time = KeySegment::Number(trace.start.as_millis());
        let (thread, run) = (KeySegment::id(&name.thread)?, KeySegment::id(&name.run)?);
        let errors = match self {
            Self::All { errors } | Self::Thread { errors } | Self::Agent { errors } => *errors,
            Self::Run => false,
        };
        let rest = match (self, &trace.agent) {
            (Self::All { .. }, _) => vec![time, thread, run],
            (Self::Thread { .. }, _) => vec![thread, time, run],
            (Self::Agent { .. }, Some(agent)) => vec![KeySegment::id(sha256_hex(agent))?, time, thread, run],
            (Self::Agent { .. }, None) => return Ok(None),
            (Self::Run, _) => vec![run, thread],
        };
        if trace.spans == 0 || (errors && trace.errors == 0) {
            return Ok(None);
        }
        let segments = [KeySegment::Number(self.number())].into_iter().chain(rest);
        Ok(Some(DocumentKey::new(CollectionId::new(ORDER)?, segments)?))
    }
}

/// Returns the entries of a trace in all orders.
fn entries_of(name: &TraceName, trace: &StoredTrace) -> Result<Vec<DocumentKey>> {
    Order::ALL.iter().filter_map(|order| order.key(name, trace).transpose()).collect()
}

/// Returns whether an entry is about a trace as it is now. It is not if the thread was deleted and made again.
pub(super) fn is_entry_of(entry: &DocumentKey, name: &TraceName, trace: &StoredTrace) -> Result<bool> {
    Ok(entries_of(name, trace)?.contains(entry))
}

/// Reads the name of the trace that an entry is about.
pub(super) fn name_of_entry(entry: &Document) -> Result<TraceName> {
    let unreadable = || Error::corrupt(format!("document {}: it is no entry in an order of traces", entry.key));
    entry.value.to().map_err(|e| unreadable().with_source(e))
}

/// Returns the time in the key of an entry; 0 if it is not in an order by time.
pub(super) fn time_of_entry(entry: &Document) -> u64 {
    let time = entry.key.segments().into_iter().skip(1).find_map(|segment| match segment {
        KeySegment::Number(time) => Some(time),
        KeySegment::Id(_) => None,
    });
    time.unwrap_or_default()
}

/// Returns the query for the entries of all orders.
pub(super) fn all_entries() -> Result<DocumentQuery> {
    Ok(DocumentQuery::new(CollectionId::new(ORDER)?))
}

/// Returns the query for the entries of a run.
pub(super) fn entries_of_run(run: &RunId) -> Result<DocumentQuery> {
    Ok(all_entries()?.starting_with([KeySegment::Number(Order::Run.number()), KeySegment::id(run)?]))
}

/// Returns the query for the entries of the shortest order that has all traces of a query: first those of the thread,
/// else of the agent. With a place, only those after it, in the order of the list.
pub(super) fn entries_for(query: &TraceQuery, after: Option<(u64, &TraceName)>) -> Result<DocumentQuery> {
    let errors = query.errors;
    let (order, mut prefix) = match (&query.thread, &query.agent) {
        (Some(thread), _) => (Order::Thread { errors }, vec![KeySegment::id(thread)?]),
        (None, Some(agent)) => (Order::Agent { errors }, vec![KeySegment::id(sha256_hex(agent.as_str()))?]),
        (None, None) => (Order::All { errors }, Vec::new()),
    };
    prefix.insert(0, KeySegment::Number(order.number()));
    let with_prefix = |rest: Vec<KeySegment>| prefix.iter().cloned().chain(rest);
    let mut entries = all_entries()?.with_direction(crate::log::Direction::Backward);
    if let Some(from) = query.from {
        entries = entries.from(with_prefix(vec![KeySegment::Number(from.as_millis())]));
    }
    if let Some((time, name)) = after {
        let (thread, run) = (KeySegment::id(&name.thread)?, KeySegment::id(&name.run)?);
        let ids = if query.thread.is_some() { vec![run] } else { vec![thread, run] };
        entries = entries.before(with_prefix([vec![KeySegment::Number(time)], ids].concat()));
    } else if let Some(before) = query.before {
        entries = entries.before(with_prefix(vec![KeySegment::Number(before.as_millis())]));
    }
    Ok(entries.starting_with(prefix))
}

fn in_thread(collection: &str, name: &TraceName, rest: Option<KeySegment>) -> Result<DocumentRef> {
    let segments = [KeySegment::id(&name.run)?].into_iter().chain(rest);
    Ok(DocumentKey::new(CollectionId::new(collection)?, segments)?.in_thread(name.thread.clone()))
}

/// Names the document of a trace.
pub(super) fn document_of(name: &TraceName) -> Result<DocumentRef> {
    in_thread(TRACES, name, None)
}

/// Names the document of a span.
pub(super) fn document_of_span(name: &TraceName, span: SpanId) -> Result<DocumentRef> {
    in_thread(SPANS, name, Some(KeySegment::id(span.to_string())?))
}

/// Names the document of a pin.
pub(super) fn document_of_pin(name: &TraceName, holder: &PinHolder) -> Result<DocumentRef> {
    in_thread(PINS, name, Some(KeySegment::id(holder)?))
}

fn of_trace(collection: &str, name: &TraceName) -> Result<DocumentQuery> {
    let query = DocumentQuery::new(CollectionId::new(collection)?);
    Ok(query.in_scope(DocumentScope::Thread(name.thread.clone())).starting_with([KeySegment::id(&name.run)?]))
}

/// Returns the query for the spans of a trace that were put.
pub(super) fn spans_of(name: &TraceName) -> Result<DocumentQuery> {
    of_trace(SPANS, name)
}

/// Returns the query for the pins of a trace.
pub(super) fn pins_of(name: &TraceName) -> Result<DocumentQuery> {
    of_trace(PINS, name)
}

/// Returns the spans of a request, each once, by id.
///
/// # Errors
/// `Invalid` for no spans, `LimitExceeded` for too many, `IdempotencyMismatch` if two with one id differ.
pub(super) fn distinct_spans(request: &PutSpans) -> Result<Vec<&Span>> {
    if request.spans.is_empty() {
        return Err(Error::invalid("spans", "there are none"));
    }
    check_limit("spans of a call", length(request.spans.len()), length(MAX_PUT_SPANS))?;
    let mut by_id = BTreeMap::new();
    for span in &request.spans {
        if by_id.insert(span.span_id, span).is_some_and(|other| other != span) {
            return Err(another_span(&request.name, span));
        }
    }
    Ok(by_id.into_values().collect())
}

fn another_span(name: &TraceName, span: &Span) -> Error {
    Error::new(Detail::IdempotencyMismatch { key: format!("{name}/{}", span.span_id) })
}

/// Decides what putting spans changes, over the trace and the spans with these ids that were found (TR-1). `agent` is
/// that of the run, if there is one.
///
/// # Errors
/// `IdempotencyMismatch` if a span with another content was put under one of the ids; `LimitExceeded` if the trace has
/// too many spans.
pub(super) fn plan_put(
    (name, agent): (&TraceName, Option<&AgentId>),
    spans: &[&Span],
    found: Option<&(Document, StoredTrace)>,
    stored: &[Option<Span>],
) -> Result<(PutSpansOutcome, Vec<DocumentChange>)> {
    let before = found.map(|(_, trace)| trace.clone()).unwrap_or_default();
    let (mut outcome, mut changes, mut trace) = (PutSpansOutcome::default(), Vec::new(), before.clone());
    for (span, stored) in spans.iter().zip(stored) {
        match stored {
            Some(stored) if stored == *span => outcome.unchanged += 1,
            Some(_) => return Err(another_span(name, span)),
            None => {
                outcome.written += 1;
                let stored = StoredSpan { source: trace.add(span), span: (*span).clone() };
                let put = DocumentChange::put(document_of_span(name, span.span_id)?, encoded(&stored)?);
                changes.push(put.expecting(DocumentExpect::Absent));
            }
        }
    }
    if outcome.written == 0 {
        return Ok((outcome, Vec::new()));
    }
    check_limit("spans of a trace", trace.spans, MAX_TRACE_SPANS)?;
    trace.agent = agent.map(ToString::to_string).or(trace.agent);
    let expect = found.map_or(DocumentExpect::Absent, |(document, _)| DocumentExpect::Revision(document.revision));
    changes.push(DocumentChange::put(document_of(name)?, encoded(&trace)?).expecting(expect));
    let (old, new) = (entries_of(name, &before)?, entries_of(name, &trace)?);
    changes.extend(old.iter().filter(|key| !new.contains(key)).cloned().map(DocumentChange::delete));
    for key in new.into_iter().filter(|key| !old.contains(key)) {
        changes.push(DocumentChange::put(key, Json::of(name)?));
    }
    Ok((outcome, changes))
}

/// Plans the first step of a removal: readers find no spans any more, and a later removal continues.
pub(super) fn plan_mark(name: &TraceName, document: &Document, trace: &StoredTrace) -> Result<DocumentChange> {
    let mut marked = trace.clone();
    marked.removing = true;
    let put = DocumentChange::put(document_of(name)?, encoded(&marked)?);
    Ok(put.expecting(DocumentExpect::Revision(document.revision)))
}

/// Plans the last step of a removal, after all spans: the trace and its entries.
pub(super) fn plan_end(name: &TraceName, marked: &Document, trace: &StoredTrace) -> Result<Vec<DocumentChange>> {
    let remove = DocumentChange::delete(marked.to_ref()).expecting(DocumentExpect::Revision(marked.revision));
    let entries = entries_of(name, trace)?.into_iter().map(DocumentChange::delete);
    Ok([remove].into_iter().chain(entries).collect())
}

/// Plans that a holder keeps a trace. The document of the trace is put again, if there is one, so that no purge that
/// has read the pins before removes its spans.
pub(super) fn plan_pin(
    name: &TraceName,
    holder: &PinHolder,
    found: Option<&(Document, StoredTrace)>,
) -> Result<Vec<DocumentChange>> {
    let pin = DocumentChange::put(document_of_pin(name, holder)?, Json::parse("{}")?);
    let trace = match found {
        Some((document, _)) => DocumentChange::put(document.to_ref(), document.value.clone())
            .expecting(DocumentExpect::Revision(document.revision)),
        None => DocumentChange::check(document_of(name)?, DocumentExpect::Absent),
    };
    Ok(vec![pin.expecting(DocumentExpect::Absent), trace])
}

#[cfg(test)]
mod tests {
    use super::{Order, entries_of, is_entry_of, plan_put};
    use crate::{
        ErrorKind, Timestamp,
        document::DocumentOp,
        id::MAX_ID_BYTES,
        layers::trace::{
            MAX_TRACE_SPANS, PutSpans, TraceName,
            record::StoredTrace,
            rules::{distinct_spans, document_of_span},
        },
        span::{Span, conventions},
    };

    fn name() -> TraceName {
        TraceName::new("t".parse().unwrap(), "r".parse().unwrap())
    }

    fn span(id: u64, millis: u64) -> Span {
        let (trace, id) = ("5b8efff798038103d269b633813fc60c".parse().unwrap(), format!("{id:016x}").parse().unwrap());
        Span::new(trace, id, "n", Timestamp::from_millis(millis).unwrap())
    }

    #[test]
    fn numbers_of_orders_are_different() {
        let mut numbers: Vec<_> = Order::ALL.iter().map(Order::number).collect();
        numbers.dedup();
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn the_longest_ids_fit_into_every_key() {
        let longest = "x".repeat(MAX_ID_BYTES);
        let name = TraceName::new(longest.parse().unwrap(), longest.parse().unwrap());
        let mut trace = StoredTrace { agent: Some(longest), ..StoredTrace::default() };
        trace.add(&span(1, Timestamp::MAX.as_millis()).failed(None));
        assert_eq!(entries_of(&name, &trace).unwrap().len(), 7);
    }

    #[test]
    fn a_trace_is_in_the_orders_that_it_belongs_to() {
        let mut trace = StoredTrace::default();
        assert_eq!(entries_of(&name(), &trace).unwrap().len(), 0);
        trace.add(&span(1, 5));
        assert_eq!(entries_of(&name(), &trace).unwrap().len(), 3);
        let entry = entries_of(&name(), &trace).unwrap().remove(0);
        assert!(is_entry_of(&entry, &name(), &trace).unwrap());
        trace.add(&span(2, 4).with(conventions::AGENT_NAME, "ada").failed(None));
        assert_eq!((entries_of(&name(), &trace).unwrap().len(), trace.agent.as_deref()), (7, Some("ada")));
        assert!(!is_entry_of(&entry, &name(), &trace).unwrap(), "its time is another one now");
    }

    #[test]
    fn a_put_decides_by_what_is_stored() {
        let (one, two) = (span(1, 5), span(2, 3));
        let changed = span(1, 6);
        let plan = |spans: &[&Span], stored: &[Option<Span>]| plan_put((&name(), None), spans, None, stored);
        let (outcome, changes) = plan(&[&one, &two], &[None, None]).unwrap();
        assert_eq!((outcome.written, outcome.unchanged), (2, 0));
        let puts: Vec<_> = changes.iter().filter(|change| matches!(change.op, DocumentOp::Put(_))).collect();
        assert_eq!(puts.len(), 2 + 1 + 3);
        assert_eq!(puts[0].document, document_of_span(&name(), one.span_id).unwrap());
        let (outcome, changes) = plan(&[&one], &[Some(one.clone())]).unwrap();
        assert_eq!((outcome.written, outcome.unchanged, changes.len()), (0, 1, 0));
        let error = plan(&[&changed], &[Some(one.clone())]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IdempotencyMismatch);
    }

    #[test]
    fn a_trace_has_a_largest_number_of_spans() {
        let mut full = StoredTrace::default();
        full.add(&span(1, 5));
        full.spans = MAX_TRACE_SPANS;
        let document = crate::Document::new(
            super::document_of(&name()).unwrap(),
            serde_json::from_str(r#"{"value":{},"revision":1,"created_at":1,"updated_at":1}"#).unwrap(),
        );
        let more = span(2, 5);
        let error = plan_put((&name(), None), &[&more], Some(&(document, full)), &[None]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    }

    #[test]
    fn a_request_names_each_span_once() {
        let kind = |spans: Vec<Span>| {
            distinct_spans(&PutSpans::new(name(), spans)).map(|spans| spans.len()).map_err(|e| e.kind())
        };
        assert_eq!(kind(vec![span(1, 5), span(1, 5), span(2, 5)]), Ok(2));
        assert_eq!(kind(vec![span(1, 5), span(1, 6)]), Err(ErrorKind::IdempotencyMismatch));
        assert_eq!(kind(Vec::new()), Err(ErrorKind::Invalid));
        assert_eq!(kind((1..=501).map(|id| span(id, 5)).collect()), Err(ErrorKind::LimitExceeded));
    }
}
