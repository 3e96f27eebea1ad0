//! Traces, their names, and what is stored of them.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, record},
    document::Document,
    error::{Error, Result},
    id::{PinHolder, RunId, ThreadId},
    log::TokenCounts,
    run::{Run, RunOutcome, RunPhase, RunStatus},
    span::{Span, SpanSource, conventions},
    time::Timestamp,
};

/// The maximum number of spans that can be put for a run. Derived spans do not count.
pub const MAX_TRACE_SPANS: u64 = 10_000;

/// Names a trace: the run that it is about, and the run's thread.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TraceName {
    /// The thread. What was put is deleted with it.
    pub thread: ThreadId,
    /// The run.
    pub run: RunId,
}

impl TraceName {
    /// Names the trace of a run.
    #[must_use]
    pub const fn new(thread: ThreadId, run: RunId) -> Self {
        Self { thread, run }
    }

    /// Names the trace of a run that was loaded.
    #[must_use]
    pub fn of(run: &Run) -> Self {
        Self { thread: run.thread.clone(), run: run.id.clone() }
    }
}

impl fmt::Display for TraceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.thread, self.run)
    }
}

/// A trace: all spans of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trace {
    /// The name.
    pub name: TraceName,
    /// The spans: those that are derived from the run, and those that were put. They are ordered by start and id.
    pub spans: Vec<Span>,
    /// How many of the spans were put.
    pub put_spans: u64,
    /// Who keeps the trace.
    pub pins: Vec<TracePin>,
}

/// A holder that keeps the spans of a trace from being purged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TracePin {
    /// The holder: a person, a dataset, an evaluation run.
    pub holder: PinHolder,
    /// When the holder pinned it.
    pub pinned_at: Timestamp,
}

impl TracePin {
    pub(super) const fn new(holder: PinHolder, pinned_at: Timestamp) -> Self {
        Self { holder, pinned_at }
    }
}

/// A trace in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TraceSummary {
    /// The name.
    pub name: TraceName,
    /// The agent of the run, or else the first one that a span names. Absent if there is neither.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// When the run began, or else the first span that was put.
    pub started_at: Timestamp,
    /// When the run was done, or else when the last span that was put ended. Absent if this is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The status of the run. Absent if no such run was committed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RunPhase>,
    /// Whether the run failed, or a span that was put says that it did.
    pub has_error: bool,
    /// The tokens of the run. Absent if none were reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenCounts>,
    /// How many spans were put.
    pub put_spans: u64,
}

/// Returns whether a run failed.
pub(super) fn has_failed(run: &Run) -> bool {
    matches!(&run.status, RunStatus::Done(completion) if matches!(completion.outcome, RunOutcome::Failed { .. }))
}

impl TraceSummary {
    /// Describes the trace of a run, with what was put for it.
    pub(super) fn of_run(run: &Run, put: Option<&StoredTrace>) -> Self {
        let tokens = crate::span::tokens_of(run);
        Self {
            name: TraceName::of(run),
            agent: Some(run.agent.to_string()),
            started_at: run.started_at.unwrap_or(run.created_at),
            ended_at: run.finished_at,
            phase: Some(run.status.phase()),
            has_error: has_failed(run) || put.is_some_and(|put| put.errors > 0),
            tokens: (*tokens != TokenCounts::default()).then(|| tokens.clone()),
            put_spans: put.map_or(0, |put| put.spans),
        }
    }

    /// Describes a trace of which only spans are known.
    pub(super) fn of_spans(name: TraceName, put: &StoredTrace) -> Self {
        Self {
            name,
            agent: put.agent.clone(),
            started_at: put.start,
            ended_at: put.end,
            phase: None,
            has_error: put.errors > 0,
            tokens: None,
            put_spans: put.spans,
        }
    }
}

/// What the document of a trace contains: what its spans have in common, and what lists need of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct StoredTrace {
    /// The sources of the spans. A span names its source by the place in this list.
    pub(super) sources: Vec<SpanSource>,
    pub(super) spans: u64,
    /// How many of the spans failed.
    pub(super) errors: u64,
    pub(super) start: Timestamp,
    /// The last end of a span.
    pub(super) end: Option<Timestamp>,
    pub(super) agent: Option<String>,
    /// Whether a purge has begun to remove the spans. Then there are none for readers.
    pub(super) removing: bool,
    pub(super) extra: Extra,
}

record!(StoredTrace { sources: def, spans: req, errors: def, start: req, end: opt, agent: opt, removing: def });

impl StoredTrace {
    pub(super) fn from_document(document: &Document) -> Result<Self> {
        let unreadable = || Error::corrupt(format!("document {}: it is no trace", document.to_ref()));
        Self::read(document.value.as_str()).map_err(|e| unreadable().with_source(e))
    }

    /// Adds a span that was not put before. Returns the place of its source.
    pub(super) fn add(&mut self, span: &Span) -> u64 {
        let start = span.started_at();
        self.start = if self.spans == 0 { start } else { self.start.min(start) };
        self.end = self.end.max(span.ended_at());
        self.spans += 1;
        self.errors += u64::from(span.is_error());
        let agent = || span.text(conventions::AGENT_ID).or_else(|| span.text(conventions::AGENT_NAME));
        self.agent = self.agent.take().or_else(|| agent().map(str::to_owned));
        let place = self.sources.iter().position(|source| *source == *span.source).unwrap_or_else(|| {
            self.sources.push((*span.source).clone());
            self.sources.len() - 1
        });
        crate::limits::length(place)
    }
}

/// What the document of a span contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredSpan {
    pub(super) source: u64,
    pub(super) span: Span,
}

impl Codec for StoredSpan {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("source", &self.source).field("span", &self.span);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self { source: fields.take("source")?, span: fields.take("span")? })
    }
}

impl StoredSpan {
    /// Reads a span from its document. Its source is one of those of the trace.
    pub(super) fn span_of(document: &Document, sources: &[Arc<SpanSource>]) -> Result<Span> {
        let unreadable = || Error::corrupt(format!("document {}: it is no span", document.to_ref()));
        let Self { source, span } = Self::read(document.value.as_str()).map_err(|e| unreadable().with_source(e))?;
        let source = usize::try_from(source).ok().and_then(|place| sources.get(place));
        Ok(span.from_source(Arc::clone(source.ok_or_else(unreadable)?)))
    }
}
