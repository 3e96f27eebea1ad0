//! The lines of events.

use store_core::{
    EventKey, Scope, WriterId,
    codec::{DecodeError, Fields},
    event::{EventKeyRecord, EventPlan, StoredEvent},
};

use super::{Line, tagged};

/// What is remembered of an append of events with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventKeyLine {
    pub(crate) writer: WriterId,
    pub(crate) key: EventKey,
    pub(crate) record: EventKeyRecord,
}

pub(super) fn event(stored: &StoredEvent) -> String {
    tagged("event", |object| {
        object.maybe("thread_seq", stored.thread_seq.as_ref()).maybe("run_seq", stored.run_seq.as_ref());
        object.field_unless_default("topic_seqs", &stored.topic_seqs);
        object.field("event", &stored.event);
    })
}

pub(super) fn event_key(line: &EventKeyLine) -> String {
    tagged("event_key", |object| {
        object.field("writer", &line.writer).field("key", &line.key).field("record", &line.record);
    })
}

pub(super) fn trim(scope: &Scope, floor: u64) -> String {
    tagged("trim", |object| {
        object.field("scope", scope).field("floor", &floor);
    })
}

pub(super) fn count(scope: &Scope, count: u64) -> String {
    tagged("count", |object| {
        object.field("scope", scope).field("count", &count);
    })
}

/// The lines of an append of events.
pub(crate) fn event_lines(plan: EventPlan) -> Vec<Line> {
    let EventPlan { events, key, .. } = plan;
    let key = key.map(|(writer, key, record)| Line::EventKey(Box::new(EventKeyLine { writer, key, record })));
    events.into_iter().map(|stored| Line::Event(Box::new(stored))).chain(key).collect()
}

pub(super) fn read_event(mut fields: Fields<'_>) -> Result<StoredEvent, DecodeError> {
    let (thread_seq, run_seq) = (fields.maybe("thread_seq")?, fields.maybe("run_seq")?);
    let topic_seqs = fields.maybe("topic_seqs")?.unwrap_or_default();
    let stored = StoredEvent::new(fields.take("event")?, thread_seq, run_seq).with_topic_seqs(topic_seqs);
    if stored.topic_seqs.len() == stored.event.topics.len() {
        Ok(stored)
    } else {
        Err(DecodeError::new("has another length than the topics").within("topic_seqs"))
    }
}

/// The event of a line.
pub(crate) fn decode_event(raw: &str) -> Result<StoredEvent, DecodeError> {
    read_event(Fields::parse(raw)?)
}
