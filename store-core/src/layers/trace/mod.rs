//! Traces: the spans of runs, derived from what was committed, and put by programs (TR).

mod list;
mod record;
mod request;
mod retention;
mod rules;
mod store;

pub use self::{
    record::{MAX_TRACE_SPANS, Trace, TraceName, TracePin, TraceSummary},
    request::{ListSpans, MAX_PUT_SPANS, PurgeTraces, PurgedTraces, PutSpans, PutSpansOutcome, TraceQuery},
    store::{TraceLayer, TraceStore},
};
