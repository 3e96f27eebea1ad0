//! Spans: what happened in a run, in the terms of OpenTelemetry.
//!
//! A span is written and read as OTLP/JSON, the JSON form of OpenTelemetry's protocol. Names of spans and attributes
//! are those of its semantic conventions for generative AI ([`conventions`]). [`derive_spans`] makes the spans of a run
//! from what was committed anyway, and [`read_otlp`] and [`write_otlp`] convert whole files.

mod attribute;
pub mod conventions;
mod derive;
mod id;
mod otlp;
mod record;

pub(crate) use self::derive::tokens_of;
pub use self::{
    attribute::{Attribute, AttributeValue},
    derive::{SpanDeriver, derive_spans, root_span_of, trace_of},
    id::{SpanId, TraceId},
    otlp::{OtlpImport, read_otlp, write_otlp},
    record::{Span, SpanEvent, SpanKind, SpanLink, SpanSource, SpanStatus, StatusCode},
};
