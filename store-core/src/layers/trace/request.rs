//! Requests about traces, and their results.

use serde::Serialize;

use super::record::TraceName;
use crate::{
    id::{AgentId, ThreadId},
    page::PageRequest,
    span::Span,
    time::Timestamp,
};

/// The maximum number of spans of one [`PutSpans`].
pub const MAX_PUT_SPANS: usize = 500;

/// A request to store spans of a run (TR-1).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PutSpans {
    /// The trace.
    pub name: TraceName,
    /// The spans, at most [`MAX_PUT_SPANS`].
    pub spans: Vec<Span>,
}

impl PutSpans {
    /// Requests to store spans.
    #[must_use]
    pub fn new(name: TraceName, spans: impl IntoIterator<Item = Span>) -> Self {
        Self { name, spans: spans.into_iter().collect() }
    }
}

/// What [`PutSpans`] changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[non_exhaustive]
pub struct PutSpansOutcome {
    /// The number of spans that are new.
    pub written: u64,
    /// The number of spans that had been put before.
    pub unchanged: u64,
}

/// A query for the spans of a trace, by start and id.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListSpans {
    /// The trace.
    pub name: TraceName,
    /// Which page to return.
    pub page: PageRequest,
}

impl ListSpans {
    /// Makes a query for the spans of a trace.
    #[must_use]
    pub const fn of(name: TraceName) -> Self {
        Self { name, page: PageRequest { limit: None, cursor: None } }
    }

    /// Sets the page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }
}

/// A query for traces, newest first. A trace must match every field that is set (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TraceQuery {
    /// Only traces of this thread.
    pub thread: Option<ThreadId>,
    /// Only traces of this agent. Of a trace without a run, the agent is the first one that a span names.
    pub agent: Option<AgentId>,
    /// Only traces from this time on. The time of a trace is that at which its run was created; without a run, the
    /// start of its first span.
    pub from: Option<Timestamp>,
    /// Only traces before this time.
    pub before: Option<Timestamp>,
    /// Only traces whose run failed, or in which a span that was put says that it did.
    pub errors: bool,
    /// Which page to return.
    pub page: PageRequest,
}

impl TraceQuery {
    /// Restricts the list to a thread.
    #[must_use]
    pub fn of_thread(mut self, thread: ThreadId) -> Self {
        self.thread = Some(thread);
        self
    }

    /// Restricts the list to an agent.
    #[must_use]
    pub fn of_agent(mut self, agent: AgentId) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Restricts the list to traces from a time on.
    #[must_use]
    pub const fn from(mut self, time: Timestamp) -> Self {
        self.from = Some(time);
        self
    }

    /// Restricts the list to traces before a time.
    #[must_use]
    pub const fn before(mut self, time: Timestamp) -> Self {
        self.before = Some(time);
        self
    }

    /// Restricts the list to traces with an error.
    #[must_use]
    pub const fn with_errors(mut self) -> Self {
        self.errors = true;
        self
    }

    /// Sets the page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }

    /// Returns whether a time is in the range of the query.
    pub(super) fn has_time(&self, time: Timestamp) -> bool {
        self.from.is_none_or(|from| from <= time) && self.before.is_none_or(|before| time < before)
    }
}

/// Which spans are removed: of traces that are too old, or too many. Those of pinned traces stay (TR-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PurgeTraces {
    /// Of traces for which a span was last put, or which were last pinned, before this time. No limit if absent.
    pub before: Option<Timestamp>,
    /// Of all but this number of traces, the newest ones by their start. No limit if absent.
    pub keep_newest: Option<u64>,
    /// Whether to report the number of traces without removing their spans.
    pub dry_run: bool,
}

impl PurgeTraces {
    /// Requests the removal of the spans of traces that were last changed before a time.
    #[must_use]
    pub const fn changed_before(mut self, time: Timestamp) -> Self {
        self.before = Some(time);
        self
    }

    /// Requests the removal of the spans of all traces but the newest ones.
    #[must_use]
    pub const fn keeping_newest(mut self, count: u64) -> Self {
        self.keep_newest = Some(count);
        self
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// The result of a removal of spans or of a dry run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Default)]
#[non_exhaustive]
pub struct PurgedTraces {
    /// The number of traces whose spans were removed, or would be.
    pub traces: u64,
    /// Whether the removal was stopped before its end.
    pub stopped: bool,
}
