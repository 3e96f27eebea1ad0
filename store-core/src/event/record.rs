//! Events as callers pass them, and as stores keep them.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{
    claim::Fence,
    codec::{Codec, DecodeError, Extra, Fields, ObjectWriter, named_enum, record, serde_by_codec},
    id::{CausationId, CorrelationId, EventId, EventKey, EventKind, RunId, ThreadId, TopicId, WriterId},
    json::Json,
    limits::length,
    page::{Cursor, Position},
    time::Timestamp,
};

/// The maximum number of topics that an event belongs to.
pub const MAX_EVENT_TOPICS: usize = 8;

/// A sequence in which an event is numbered: that of a thread, of a run or of a topic. Numbers in a scope have no gaps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The scope of a thread, which need not exist.
    Thread(ThreadId),
    /// The scope of a run, which need not exist.
    Run(RunId),
    /// The scope of a topic, which exists as soon as it has events.
    Topic(TopicId),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(id) => write!(f, "thread {id}"),
            Self::Run(id) => write!(f, "run {id}"),
            Self::Topic(id) => write!(f, "topic {id}"),
        }
    }
}

/// Written as `{"thread": …}`, `{"run": …}` or `{"topic": …}`.
impl Codec for Scope {
    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::open(out);
        match self {
            Self::Thread(id) => object.field("thread", id),
            Self::Run(id) => object.field("run", id),
            Self::Topic(id) => object.field("topic", id),
        };
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        if let Some(id) = fields.maybe("thread")? {
            return Ok(Self::Thread(id));
        }
        match fields.maybe("topic")? {
            Some(id) => Ok(Self::Topic(id)),
            None => fields.take("run").map(Self::Run),
        }
    }
}

serde_by_codec!(Scope);

/// Which readers may see an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum EventVisibility {
    /// Every reader that may see the scope.
    #[default]
    Public,
    /// The application only.
    Internal,
    /// Auditors: readers that check what was done.
    Audit,
    /// Only readers that have a particular reason to see it.
    Sensitive,
}

named_enum!(EventVisibility as "event visibility" {
    Public = "public",
    Internal = "internal",
    Audit = "audit",
    Sensitive = "sensitive",
});

/// An event that was appended. It never changes, except that its content can be removed (EV-28).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The id, unique in the tenant; set by the store.
    pub id: EventId,
    /// The time of the event; set by the store.
    pub created_at: Timestamp,
    /// The thread that the event belongs to. An event belongs to a thread, a run or a topic, or to several of these.
    pub thread: Option<ThreadId>,
    /// The run that the event belongs to.
    pub run: Option<RunId>,
    /// The topics that the event belongs to, in the order of their ids.
    pub topics: Vec<TopicId>,
    /// What happened.
    pub kind: EventKind,
    /// Details about what happened.
    pub payload: Option<Json>,
    /// Which readers may see the event.
    pub visibility: EventVisibility,
    /// The writer that the event comes from.
    pub origin: Option<WriterId>,
    /// The id of the cause of the event.
    pub causation_id: Option<CausationId>,
    /// The id that related events have in common.
    pub correlation_id: Option<CorrelationId>,
    /// The version of the payload's schema, counted from 1.
    pub schema_version: u32,
    /// Whether its content was removed for good (EV-28). Its payload is then absent, or what was put in its place.
    pub redacted: bool,
    /// The position of the event in each of its scopes. Reads continue after it.
    pub cursors: EventCursors,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(Event {
    id: req,
    created_at: req,
    thread: opt,
    run: opt,
    topics: def,
    kind: req,
    payload: opt,
    visibility: def,
    origin: opt,
    causation_id: opt,
    correlation_id: opt,
    schema_version: req,
    redacted: def,
    cursors: def,
});

impl Event {
    /// Returns the scopes of the event.
    pub fn scopes(&self) -> impl Iterator<Item = Scope> + use<> {
        let thread = self.thread.clone().map(Scope::Thread);
        let topics = self.topics.clone().into_iter().map(Scope::Topic);
        thread.into_iter().chain(self.run.clone().map(Scope::Run)).chain(topics)
    }

    /// Returns the position of the event in `scope`, or `None` if the event does not belong to it.
    #[must_use]
    pub fn cursor(&self, scope: &Scope) -> Option<&Cursor> {
        match scope {
            Scope::Thread(id) => self.cursors.thread.as_ref().filter(|_| self.thread.as_ref() == Some(id)),
            Scope::Run(id) => self.cursors.run.as_ref().filter(|_| self.run.as_ref() == Some(id)),
            Scope::Topic(id) => self.cursors.topics.get(id),
        }
    }

    /// Returns the number of the event in `scope`, counted from 1 without gaps (EV-3), or `None` if the event does not
    /// belong to the scope. It is part of the cursor that the store has given to the event.
    #[must_use]
    pub fn number(&self, scope: &Scope) -> Option<u64> {
        self.cursor(scope).and_then(Position::unchecked_rank)
    }
}

/// The position of an event in each of its scopes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EventCursors {
    /// The position in the thread.
    pub thread: Option<Cursor>,
    /// The position in the run.
    pub run: Option<Cursor>,
    /// The position in each topic.
    pub topics: BTreeMap<TopicId, Cursor>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(EventCursors { thread: opt, run: opt, topics: def });

impl Codec for Cursor {
    fn write(&self, out: &mut String) {
        self.as_str().to_owned().write(out);
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        String::read(raw).map(Self::from_text)
    }
}

/// A reference to an event that a commit wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventRef {
    /// The id of the event.
    pub id: EventId,
    /// The position of the event in each of its scopes; empty if the event has been trimmed from all of them since.
    pub cursors: EventCursors,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(EventRef { id: req, cursors: def });

impl From<&Event> for EventRef {
    fn from(event: &Event) -> Self {
        Self { id: event.id.clone(), cursors: event.cursors.clone(), extra: Extra::default() }
    }
}

impl EventRef {
    /// Returns the reference without its cursors, for storage. Each time the reference is read, its cursors are
    /// computed.
    pub(crate) fn without_cursors(&self) -> Self {
        Self { cursors: EventCursors::default(), ..self.clone() }
    }
}

/// An event to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewEvent {
    /// The scopes: at most one thread, one run and 8 topics, and at least one of these, in any order.
    pub scopes: Vec<Scope>,
    /// What happened.
    pub kind: EventKind,
    /// Details about what happened.
    pub payload: Option<Json>,
    /// Which readers may see the event.
    pub visibility: EventVisibility,
    /// The writer that the event comes from.
    pub origin: Option<WriterId>,
    /// The id of the cause of the event.
    pub causation_id: Option<CausationId>,
    /// The id that related events have in common.
    pub correlation_id: Option<CorrelationId>,
    /// The version of the payload's schema, counted from 1.
    pub schema_version: u32,
}

impl NewEvent {
    /// Makes a public event of this kind with schema version 1.
    #[must_use]
    pub fn new(kind: EventKind, scopes: impl IntoIterator<Item = Scope>) -> Self {
        Self {
            scopes: scopes.into_iter().collect(),
            kind,
            payload: None,
            visibility: EventVisibility::Public,
            origin: None,
            causation_id: None,
            correlation_id: None,
            schema_version: 1,
        }
    }

    /// Sets the payload.
    #[must_use]
    pub fn with_payload(mut self, payload: Json) -> Self {
        self.payload = Some(payload);
        self
    }

    /// Sets which readers may see the event.
    #[must_use]
    pub const fn with_visibility(mut self, visibility: EventVisibility) -> Self {
        self.visibility = visibility;
        self
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload.as_ref().map_or(0, |payload| length(payload.as_str().len()))
    }
}

/// An append of events. Either all of the events are appended or none. In each scope, their numbers are consecutive
/// (EV-4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AppendEvents {
    /// The writer that appends; required if there is a key.
    pub writer: Option<WriterId>,
    /// The idempotency key of the writer. An append with the same key and drafts returns the first events (EV-5).
    pub key: Option<EventKey>,
    /// For each of these scopes, the number of events that must have been appended to it so far (EV-8).
    pub expect: Vec<(Scope, u64)>,
    /// The events, in order.
    pub drafts: Vec<NewEvent>,
    /// The claim under which the events are appended (CM-44).
    pub fence: Option<Fence>,
}

impl AppendEvents {
    /// Makes an append of these events, without key, expectation and fence.
    #[must_use]
    pub fn new(drafts: impl IntoIterator<Item = NewEvent>) -> Self {
        Self { drafts: drafts.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        self.drafts.iter().map(NewEvent::payload_bytes).sum()
    }

    /// Sets the writer and its key.
    #[must_use]
    pub fn with_key(mut self, writer: WriterId, key: EventKey) -> Self {
        self.writer = Some(writer);
        self.key = Some(key);
        self
    }

    /// Adds the expectation that `count` events have been appended to `scope` so far.
    #[must_use]
    pub fn expecting(mut self, scope: Scope, count: u64) -> Self {
        self.expect.push((scope, count));
        self
    }
}

/// The result of an append of events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AppendedEvents {
    /// The events, in the order given.
    pub events: Vec<Event>,
    /// Whether an earlier append with this key had already appended the events.
    pub deduplicated: bool,
}

impl AppendedEvents {
    /// Creates the result of an append. Only implementations of a store need this.
    #[must_use]
    pub const fn new(events: Vec<Event>, deduplicated: bool) -> Self {
        Self { events, deduplicated }
    }
}

/// What a store keeps about a scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ScopeState {
    /// The number of events ever appended to the scope, which is the sequence number of the last one.
    pub count: u64,
    /// The sequence number of the newest trimmed event; 0 if none was trimmed.
    pub floor: u64,
    /// Store time of the last append. Later appends never have an earlier time.
    pub last_time: Option<Timestamp>,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(ScopeState { count: def, floor: def, last_time: opt });

impl ScopeState {
    /// Returns the state after everything up to `floor` was trimmed.
    #[must_use]
    pub fn after_trim(self, floor: u64) -> Self {
        Self { floor: self.floor.max(floor), ..self }
    }
}

/// An event as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEvent {
    /// The event, without cursors.
    pub event: Event,
    /// The sequence number of the event in its thread.
    pub thread_seq: Option<u64>,
    /// The sequence number of the event in its run.
    pub run_seq: Option<u64>,
    /// The sequence number of the event in each of its topics.
    pub topic_seqs: Vec<u64>,
}

impl StoredEvent {
    /// Creates the record of an event with these sequence numbers. Only implementations of a store need this.
    #[must_use]
    pub const fn new(event: Event, thread_seq: Option<u64>, run_seq: Option<u64>) -> Self {
        Self { event, thread_seq, run_seq, topic_seqs: Vec::new() }
    }

    /// Sets the sequence numbers of the event in its topics, in the order of [`Event::topics`].
    #[must_use]
    pub fn with_topic_seqs(mut self, topic_seqs: Vec<u64>) -> Self {
        self.topic_seqs = topic_seqs;
        self
    }

    /// Returns the scopes of the event with its sequence number in each.
    pub fn scope_numbers(&self) -> impl Iterator<Item = (Scope, u64)> + use<> {
        let thread = self.event.thread.clone().map(Scope::Thread).zip(self.thread_seq);
        let topics = self.event.topics.clone().into_iter().map(Scope::Topic).zip(self.topic_seqs.clone());
        thread.into_iter().chain(self.event.run.clone().map(Scope::Run).zip(self.run_seq)).chain(topics)
    }
}

/// What a store remembers about an append with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventKeyRecord {
    /// The digest of the drafts.
    pub digest: String,
    /// The ids of the events.
    pub events: Vec<EventId>,
    /// When the events were appended.
    pub created_at: Timestamp,
    /// Fields that a newer release wrote.
    pub extra: Extra,
}

record!(EventKeyRecord { digest: req, events: req, created_at: req });

#[cfg(test)]
mod tests {
    use super::{EventCursors, EventRef, Scope};
    use crate::{
        Cursor,
        codec::{Codec, Extra},
    };

    #[test]
    fn a_stored_event_reference_has_no_cursors() {
        let cursors = EventCursors { thread: Some(Cursor::from_text("c")), ..EventCursors::default() };
        let reference = EventRef { id: "e".parse().unwrap(), cursors, extra: Extra::default() };
        assert_eq!(reference.without_cursors(), EventRef { cursors: EventCursors::default(), ..reference });
    }

    #[test]
    fn a_scope_is_displayed_with_its_type_and_id() {
        let scopes =
            [Scope::Thread("a".parse().unwrap()), Scope::Run("b".parse().unwrap()), Scope::Topic("c".parse().unwrap())];
        assert_eq!(scopes.clone().map(|scope| scope.to_string()), ["thread a", "run b", "topic c"]);
        let texts = scopes.clone().map(|scope| scope.encode());
        assert_eq!(texts, [r#"{"thread":"a"}"#, r#"{"run":"b"}"#, r#"{"topic":"c"}"#]);
        assert_eq!(texts.map(|text| Scope::read(&text).unwrap()), scopes);
    }
}
