//! The rows of events.

use store_core::{
    EventId, EventKey, Scope, TopicId, WriterId,
    codec::{Codec, DecodeError, Fields, ObjectWriter},
    event::EventKeyRecord,
};

use crate::log::Span;

/// Where an event stands: in its log, and in its scopes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventRow {
    pub(crate) log: u64,
    pub(crate) span: Span,
    /// Its scopes, with its sequence number in each.
    pub(crate) places: Vec<(Scope, u64)>,
    /// The key that it was appended with.
    pub(crate) key: Option<(WriterId, EventKey)>,
    /// Whether it has lost its content.
    pub(crate) redacted: bool,
}

impl Codec for EventRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("log", &self.log).field("span", &self.span);
        let (mut topics, mut topic_seqs) = (Vec::new(), Vec::new());
        for (scope, seq) in &self.places {
            match scope {
                Scope::Thread(thread) => drop(object.field("thread", thread).field("thread_seq", seq)),
                Scope::Run(run) => drop(object.field("run", run).field("run_seq", seq)),
                Scope::Topic(topic) => {
                    topics.push(topic.clone());
                    topic_seqs.push(*seq);
                }
            }
        }
        if !topics.is_empty() {
            object.field("topics", &topics).field("topic_seqs", &topic_seqs);
        }
        if let Some((writer, key)) = &self.key {
            object.field("writer", writer).field("key", key);
        }
        object.field_unless_default("redacted", &self.redacted);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        let mut places = Vec::new();
        if let Some(thread) = fields.maybe("thread")? {
            places.push((Scope::Thread(thread), fields.take("thread_seq")?));
        }
        if let Some(run) = fields.maybe("run")? {
            places.push((Scope::Run(run), fields.take("run_seq")?));
        }
        if let Some(topics) = fields.maybe::<Vec<TopicId>>("topics")? {
            let seqs: Vec<u64> = fields.take("topic_seqs")?;
            if seqs.len() != topics.len() {
                return Err(DecodeError::new("has another length than the topics").within("topic_seqs"));
            }
            places.extend(topics.into_iter().map(Scope::Topic).zip(seqs));
        }
        let key = match fields.maybe("writer")? {
            Some(writer) => Some((writer, fields.take("key")?)),
            None => None,
        };
        let redacted = fields.maybe("redacted")?.unwrap_or_default();
        Ok(Self { log: fields.take("log")?, span: fields.take("span")?, places, key, redacted })
    }
}

/// What a scope has at a place: which event, and where that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlaceRow {
    pub(crate) log: u64,
    pub(crate) span: Span,
    pub(crate) id: EventId,
}

impl PlaceRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&self.log.to_be_bytes() as &[u8], &self.span.encode(), self.id.as_str().as_bytes()].concat()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (log, rest) = bytes.split_first_chunk::<8>()?;
        let (span, id) = rest.split_at_checked(Span::BYTES)?;
        let id = EventId::new(std::str::from_utf8(id).ok()?).ok()?;
        Some(Self { log: u64::from_be_bytes(*log), span: Span::decode(span)?, id })
    }
}

/// What is remembered of a key of events, and in which log that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventKeyRow {
    pub(crate) log: u64,
    pub(crate) record: EventKeyRecord,
}

impl Codec for EventKeyRow {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        object.field("log", &self.log).field("record", &self.record);
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        Ok(Self { log: fields.take("log")?, record: fields.take("record")? })
    }
}
