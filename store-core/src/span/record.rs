//! Spans, their events, links and sources.

use std::sync::Arc;

use super::{
    SpanId, TraceId,
    attribute::{Attribute, AttributeValue, read_number},
    conventions,
};
use crate::{
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, record, serde_by_codec},
    id::EntryId,
    json::Json,
    time::Timestamp,
};

/// One operation of a run: a call of an agent, of a model or of a tool, or any other that a program recorded.
///
/// ```
/// use store_core::{
///     Timestamp,
///     span::{Span, SpanKind, conventions},
/// };
///
/// let time = Timestamp::from_millis(1_700_000_000_000)?;
/// let span = Span::new("5b8efff798038103d269b633813fc60c".parse()?, "eee19b7ec3c1b174".parse()?, "retrieval", time)
///     .with_kind(SpanKind::Client)
///     .with(conventions::OPERATION_NAME, "retrieval")
///     .ending_at(time);
/// assert_eq!(span.text(conventions::OPERATION_NAME), Some("retrieval"));
/// # Ok::<(), store_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Span {
    /// The trace that the span belongs to.
    pub trace_id: TraceId,
    /// The id, unique in the trace.
    pub span_id: SpanId,
    /// The span that this one is a part of. Absent if it is a part of none.
    pub parent_span_id: Option<SpanId>,
    /// The name, such as `chat claude-x`.
    pub name: String,
    /// Which side of a call the span describes.
    pub kind: SpanKind,
    /// When the operation began, in nanoseconds since the Unix epoch.
    pub start_nanos: u64,
    /// When the operation ended, in nanoseconds since the Unix epoch. Absent if this is not known.
    pub end_nanos: Option<u64>,
    /// What is known about the operation.
    pub attributes: Vec<Attribute>,
    /// What happened during the operation.
    pub events: Vec<SpanEvent>,
    /// Other spans that the span has to do with.
    pub links: Vec<SpanLink>,
    /// Whether the operation failed.
    pub status: SpanStatus,
    /// What recorded the span. OTLP/JSON keeps it beside the spans.
    pub source: Arc<SpanSource>,
    /// Other fields, kept unchanged (ID-11): flags, the trace state, numbers of dropped items, and those of a newer
    /// OTLP.
    pub extra: Extra,
}

impl Span {
    /// Makes a span that follows the conventions of [`conventions::SCHEMA_URL`], without an end.
    #[must_use]
    pub fn new(trace_id: TraceId, span_id: SpanId, name: impl Into<String>, start: Timestamp) -> Self {
        Self {
            trace_id,
            span_id,
            parent_span_id: None,
            name: name.into(),
            kind: SpanKind::Internal,
            start_nanos: nanos_of(start),
            end_nanos: None,
            attributes: Vec::new(),
            events: Vec::new(),
            links: Vec::new(),
            status: SpanStatus::default(),
            source: Arc::new(SpanSource::of_conventions()),
            extra: Extra::default(),
        }
    }

    /// Sets the span that this one is a part of.
    #[must_use]
    pub const fn below(mut self, parent: SpanId) -> Self {
        self.parent_span_id = Some(parent);
        self
    }

    /// Sets the kind.
    #[must_use]
    pub const fn with_kind(mut self, kind: SpanKind) -> Self {
        self.kind = kind;
        self
    }

    /// Sets the end.
    #[must_use]
    pub fn ending_at(mut self, end: Timestamp) -> Self {
        self.end_nanos = Some(nanos_of(end));
        self
    }

    /// Adds an attribute.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<AttributeValue>) -> Self {
        self.attributes.push(Attribute::new(key, value));
        self
    }

    /// Refers to entries of the thread, instead of copying what they contain ([`conventions::ENTRY_IDS`]).
    #[must_use]
    pub fn about(self, entries: impl IntoIterator<Item = EntryId>) -> Self {
        let ids: AttributeValue = entries.into_iter().map(|id| id.to_string()).collect();
        self.with(conventions::ENTRY_IDS, ids)
    }

    /// Says that the operation failed. The class of the error is [`conventions::OTHER_ERROR`] unless there is one.
    #[must_use]
    pub fn failed(mut self, message: Option<String>) -> Self {
        self.status = SpanStatus { code: StatusCode::Error, message, extra: Extra::default() };
        if self.attribute(conventions::ERROR_TYPE).is_none() {
            return self.with(conventions::ERROR_TYPE, conventions::OTHER_ERROR);
        }
        self
    }

    /// Sets what recorded the span.
    #[must_use]
    pub fn from_source(mut self, source: Arc<SpanSource>) -> Self {
        self.source = source;
        self
    }

    /// Returns the value of an attribute.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&AttributeValue> {
        self.attributes.iter().find(|attribute| attribute.key == key).map(|attribute| &attribute.value)
    }

    /// Returns the text of an attribute, if it has one.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.attribute(key)?.as_text()
    }

    /// Returns whether the operation failed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.status.code == StatusCode::Error
    }

    /// Returns the start, cut to milliseconds.
    #[must_use]
    pub fn started_at(&self) -> Timestamp {
        timestamp_of(self.start_nanos)
    }

    /// Returns the end, cut to milliseconds, if it is known.
    #[must_use]
    pub fn ended_at(&self) -> Option<Timestamp> {
        self.end_nanos.map(timestamp_of)
    }
}

fn nanos_of(time: Timestamp) -> u64 {
    time.as_millis().saturating_mul(1_000_000)
}

fn timestamp_of(nanos: u64) -> Timestamp {
    // 64 bits of nanoseconds end before the last time that a timestamp can have.
    Timestamp::from_millis(nanos / 1_000_000).unwrap_or(Timestamp::MAX)
}

/// Times are written as text, because many readers of JSON cannot read 64 bits.
fn write_nanos(object: &mut ObjectWriter<'_>, name: &str, nanos: u64) {
    object.field(name, &nanos.to_string());
}

fn take_nanos(fields: &mut Fields<'_>, name: &str) -> Result<Option<u64>, DecodeError> {
    let not_a_time = || DecodeError::new("is not a time in nanoseconds").within(name);
    let nanos: Option<u64> = fields.take_raw(name).map(|raw| read_number(raw).ok_or_else(not_a_time)).transpose()?;
    Ok(nanos.filter(|nanos| *nanos > 0))
}

/// Written as a span of OTLP/JSON. Fields with the default of OTLP are left out.
impl Codec for Span {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("traceId", &self.trace_id).field("spanId", &self.span_id);
        object.maybe("parentSpanId", self.parent_span_id.as_ref()).field("name", &self.name);
        object.field_unless_default("kind", &self.kind);
        write_nanos(&mut object, "startTimeUnixNano", self.start_nanos);
        if let Some(end) = self.end_nanos {
            write_nanos(&mut object, "endTimeUnixNano", end);
        }
        object.field_unless_default("attributes", &self.attributes).field_unless_default("events", &self.events);
        object.field_unless_default("links", &self.links).field_unless_default("status", &self.status);
        object.extra(&self.extra);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let is_empty = |raw: &&str| *raw == "\"\"";
        let parent = fields.take_raw("parentSpanId").filter(|raw| !is_empty(raw)).map(SpanId::read).transpose();
        Ok(Self {
            trace_id: fields.take("traceId")?,
            span_id: fields.take("spanId")?,
            parent_span_id: parent.map_err(|e| e.within("parentSpanId"))?,
            name: fields.maybe("name")?.unwrap_or_default(),
            kind: fields.maybe("kind")?.unwrap_or_default(),
            start_nanos: take_nanos(&mut fields, "startTimeUnixNano")?.unwrap_or_default(),
            end_nanos: take_nanos(&mut fields, "endTimeUnixNano")?,
            attributes: fields.maybe("attributes")?.unwrap_or_default(),
            events: fields.maybe("events")?.unwrap_or_default(),
            links: fields.maybe("links")?.unwrap_or_default(),
            status: fields.maybe("status")?.unwrap_or_default(),
            source: Arc::default(),
            extra: fields.rest()?,
        })
    }
}

serde_by_codec!(Span);

macro_rules! numbered_enums {
    ($($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $number:literal),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub enum $type {
            $($(#[$variant_doc])* $variant,)*
            /// A number that this release does not know, kept unchanged (ID-11).
            Other(u32),
        }

        impl Codec for $type {
            fn write(&self, out: &mut String) {
                let number: u32 = match self {
                    $(Self::$variant => $number,)*
                    Self::Other(number) => *number,
                };
                number.write(out);
            }

            fn read(raw: &str) -> Result<Self, DecodeError> {
                Ok(match u32::read(raw)? {
                    $($number => Self::$variant,)*
                    number => Self::Other(number),
                })
            }
        }
    )*};
}

numbered_enums! {
    /// Which side of a call a span describes.
    SpanKind {
        /// It is not known.
        #[default]
        Unspecified = 0,
        /// An operation inside of one program.
        Internal = 1,
        /// The side that is called.
        Server = 2,
        /// The side that calls.
        Client = 3,
        /// The side that sends a message.
        Producer = 4,
        /// The side that receives a message.
        Consumer = 5,
    }
    /// Whether an operation failed.
    StatusCode {
        /// No program has said whether it failed.
        #[default]
        Unset = 0,
        /// A program has said that it did not fail.
        Ok = 1,
        /// It failed.
        Error = 2,
    }
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SpanStatus {
    /// Whether it failed.
    pub code: StatusCode,
    /// Text for developers.
    pub message: Option<String>,
    /// Unknown fields, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(SpanStatus { message: opt, code: def });

/// Something that happened during a span.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpanEvent {
    /// When it happened, in nanoseconds since the Unix epoch. 0 if this is not known.
    pub time_nanos: u64,
    /// The name.
    pub name: String,
    /// What is known about it.
    pub attributes: Vec<Attribute>,
    /// Unknown fields, kept unchanged (ID-11).
    pub extra: Extra,
}

impl Codec for SpanEvent {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        write_nanos(&mut object, "timeUnixNano", self.time_nanos);
        object.field("name", &self.name).field_unless_default("attributes", &self.attributes).extra(&self.extra);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self {
            time_nanos: take_nanos(&mut fields, "timeUnixNano")?.unwrap_or_default(),
            name: fields.maybe("name")?.unwrap_or_default(),
            attributes: fields.maybe("attributes")?.unwrap_or_default(),
            extra: fields.rest()?,
        })
    }
}

serde_by_codec!(SpanEvent);

/// Another span that a span has to do with, in the same trace or in another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpanLink {
    /// The trace of the other span.
    pub trace_id: TraceId,
    /// The other span.
    pub span_id: SpanId,
    /// What is known about the link.
    pub attributes: Vec<Attribute>,
    /// Unknown fields, kept unchanged (ID-11).
    pub extra: Extra,
}

impl SpanLink {
    /// Makes a link to a span, without attributes.
    #[must_use]
    pub fn new(trace_id: TraceId, span_id: SpanId) -> Self {
        Self { trace_id, span_id, attributes: Vec::new(), extra: Extra::default() }
    }
}

impl Codec for SpanLink {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("traceId", &self.trace_id).field("spanId", &self.span_id);
        object.field_unless_default("attributes", &self.attributes).extra(&self.extra);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let (trace_id, span_id) = (fields.take("traceId")?, fields.take("spanId")?);
        Ok(Self {
            trace_id,
            span_id,
            attributes: fields.maybe("attributes")?.unwrap_or_default(),
            extra: fields.rest()?,
        })
    }
}

serde_by_codec!(SpanLink);

/// What recorded spans: the program (the resource), the library in it (the scope), and the conventions that it follows.
/// Resource and scope are kept as OTLP/JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SpanSource {
    /// The program, such as `{"attributes": […]}`.
    pub resource: Option<Json>,
    /// The schema of the attributes of the resource.
    pub resource_schema_url: Option<String>,
    /// The library, such as `{"name": "agentstore"}`.
    pub scope: Option<Json>,
    /// The schema of the spans, with the version of the conventions. Absent if the program did not say it.
    pub schema_url: Option<String>,
    /// Unknown fields, kept unchanged (ID-11).
    pub extra: Extra,
}

record!(SpanSource { resource: opt, resource_schema_url: opt, scope: opt, schema_url: opt });

impl SpanSource {
    /// Returns the source of spans that follow the conventions of [`conventions::SCHEMA_URL`] and of which nothing else
    /// is known.
    #[must_use]
    pub fn of_conventions() -> Self {
        Self { schema_url: Some(conventions::SCHEMA_URL.to_owned()), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::Span;
    use crate::codec::Codec;

    const IDS: &str = r#""traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174""#;

    #[test]
    fn a_span_round_trips_with_all_that_is_not_known() {
        for rest in [
            r#""name":"a","startTimeUnixNano":"1""#,
            r#""parentSpanId":"eee19b7ec3c1b173","name":"a","kind":3,"startTimeUnixNano":"1544712660000000001","endTimeUnixNano":"18446744073709551615""#,
            r#""name":"","kind":9,"startTimeUnixNano":"1","events":[{"timeUnixNano":"2","name":"e","droppedAttributesCount":1}]"#,
            r#""name":"a","startTimeUnixNano":"1","links":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","attributes":[{"key":"k"}],"traceState":"x=1","flags":256}]"#,
            r#""name":"a","startTimeUnixNano":"1","status":{"message":"m","code":2,"later":1.0},"traceState":"a=b","flags":257,"droppedEventsCount":3,"later":{"n":1.0}"#,
        ] {
            let raw = format!("{{{IDS},{rest}}}");
            assert_eq!(Span::read(&raw).unwrap().encode(), raw);
        }
    }

    #[test]
    fn defaults_are_left_out() {
        for (rest, expected) in [
            (r#""parentSpanId":"","name":"a","kind":0,"startTimeUnixNano":7"#, r#""name":"a","startTimeUnixNano":"7""#),
            (
                r#""name":"a","startTimeUnixNano":"7","endTimeUnixNano":"0","status":{"code":0},"attributes":[]"#,
                r#""name":"a","startTimeUnixNano":"7""#,
            ),
        ] {
            assert_eq!(Span::read(&format!("{{{IDS},{rest}}}")).unwrap().encode(), format!("{{{IDS},{expected}}}"));
        }
    }

    #[test]
    fn an_invalid_span_is_refused() {
        for raw in [
            "{}".to_owned(),
            "[]".to_owned(),
            r#"{"traceId":"5b8efff798038103d269b633813fc60c","spanId":""}"#.to_owned(),
            format!(r#"{{{IDS},"kind":"SPAN_KIND_CLIENT"}}"#),
            format!(r#"{{{IDS},"startTimeUnixNano":"-1"}}"#),
            format!(r#"{{{IDS},"startTimeUnixNano":1.5}}"#),
            format!(r#"{{{IDS},"attributes":{{}}}}"#),
            format!(r#"{{{IDS},"parentSpanId":"x"}}"#),
        ] {
            assert!(Span::read(&raw).is_err(), "{raw}");
        }
    }
}
