//! Events as they are given and as they are kept.

use std::fmt;

use serde::Serialize;

use crate::{
    claim::Fence,
    codec::{Codec, DecodeError, Extra, Fields, Object, names, record, serde_by_codec},
    id::{CausationId, CorrelationId, EventId, EventKey, EventKind, RunId, ThreadId, WriterId},
    json::Json,
    limits::length,
    page::Cursor,
    time::Timestamp,
};

/// Where an event belongs: its sequence is dense in each of its scopes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// A thread, whether it exists or not.
    Thread(ThreadId),
    /// A run, whether it exists or not.
    Run(RunId),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(id) => write!(f, "thread {id}"),
            Self::Run(id) => write!(f, "run {id}"),
        }
    }
}

/// `{"thread": …}` or `{"run": …}`.
impl Codec for Scope {
    fn write(&self, out: &mut String) {
        let mut object = Object::open(out);
        match self {
            Self::Thread(id) => object.field("thread", id),
            Self::Run(id) => object.field("run", id),
        };
        object.close();
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        let mut fields = Fields::parse(raw)?;
        match fields.maybe("thread")? {
            Some(id) => Ok(Self::Thread(id)),
            None => fields.take("run").map(Self::Run),
        }
    }
}

serde_by_codec!(Scope);

/// Who may see an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum EventVisibility {
    /// Everybody who may see the scope.
    #[default]
    Public,
    /// The application itself.
    Internal,
    /// Who checks what was done.
    Audit,
    /// Nobody without a reason.
    Sensitive,
}

names!(EventVisibility as "event visibility" {
    Public = "public",
    Internal = "internal",
    Audit = "audit",
    Sensitive = "sensitive",
});

/// A fact, as it is stored. It never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// Unique in the tenant; given by the store.
    pub id: EventId,
    /// Given by the store.
    pub created_at: Timestamp,
    /// The thread that it belongs to, the run, or both.
    pub thread: Option<ThreadId>,
    /// The run that it belongs to.
    pub run: Option<RunId>,
    /// What happened.
    pub kind: EventKind,
    /// What there is to say about it.
    pub payload: Option<Json>,
    /// Who may see it.
    pub visibility: EventVisibility,
    /// Who wrote it.
    pub origin: Option<WriterId>,
    /// What it followed from.
    pub causation_id: Option<CausationId>,
    /// What it belongs to.
    pub correlation_id: Option<CorrelationId>,
    /// The version of the payload's schema, from 1.
    pub schema_version: u32,
    /// Where it stands in each of its scopes: reads go on behind it.
    pub cursors: EventCursors,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(Event {
    id: req,
    created_at: req,
    thread: opt,
    run: opt,
    kind: req,
    payload: opt,
    visibility: def,
    origin: opt,
    causation_id: opt,
    correlation_id: opt,
    schema_version: req,
    cursors: def,
});

impl Event {
    /// The scopes of the event.
    pub fn scopes(&self) -> impl Iterator<Item = Scope> + use<> {
        let thread = self.thread.clone().map(Scope::Thread);
        thread.into_iter().chain(self.run.clone().map(Scope::Run))
    }

    /// Where it stands in one of its scopes.
    #[must_use]
    pub fn cursor(&self, scope: &Scope) -> Option<&Cursor> {
        match scope {
            Scope::Thread(id) => self.cursors.thread.as_ref().filter(|_| self.thread.as_ref() == Some(id)),
            Scope::Run(id) => self.cursors.run.as_ref().filter(|_| self.run.as_ref() == Some(id)),
        }
    }
}

/// Where an event stands in each of its scopes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EventCursors {
    /// In its thread.
    pub thread: Option<Cursor>,
    /// In its run.
    pub run: Option<Cursor>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(EventCursors { thread: opt, run: opt });

impl Codec for Cursor {
    fn write(&self, out: &mut String) {
        self.as_str().to_owned().write(out);
    }

    fn read(raw: &str) -> Result<Self, DecodeError> {
        String::read(raw).map(Self::from_text)
    }
}

/// An event that a commit wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventRef {
    /// The event.
    pub id: EventId,
    /// Where it stands in each of its scopes; empty if it was trimmed from them since.
    pub cursors: EventCursors,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(EventRef { id: req, cursors: def });

impl From<&Event> for EventRef {
    fn from(event: &Event) -> Self {
        Self { id: event.id.clone(), cursors: event.cursors.clone(), extra: Extra::default() }
    }
}

impl EventRef {
    /// The same without cursors: those are sealed anew whenever it is read.
    pub(crate) fn unsealed(&self) -> Self {
        Self { cursors: EventCursors::default(), ..self.clone() }
    }
}

/// An event to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewEvent {
    /// A thread, a run, or one of each, in any order.
    pub scopes: Vec<Scope>,
    /// What happened.
    pub kind: EventKind,
    /// What there is to say about it.
    pub payload: Option<Json>,
    /// Who may see it.
    pub visibility: EventVisibility,
    /// Who wrote it.
    pub origin: Option<WriterId>,
    /// What it followed from.
    pub causation_id: Option<CausationId>,
    /// What it belongs to.
    pub correlation_id: Option<CorrelationId>,
    /// The version of the payload's schema, from 1.
    pub schema_version: u32,
}

impl NewEvent {
    /// Something of this kind happened, for everybody.
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

    /// The same with this payload.
    #[must_use]
    pub fn with_payload(mut self, payload: Json) -> Self {
        self.payload = Some(payload);
        self
    }

    /// The same for those who may see this.
    #[must_use]
    pub const fn with_visibility(mut self, visibility: EventVisibility) -> Self {
        self.visibility = visibility;
        self
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload.as_ref().map_or(0, |payload| length(payload.as_str().len()))
    }
}

/// Events to be appended: all or none, next to each other in each scope (EV-4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AppendEvents {
    /// Who appends; needed with a key.
    pub writer: Option<WriterId>,
    /// The idempotency key of the writer: the same drafts again give the first events (EV-5).
    pub key: Option<EventKey>,
    /// How many events were appended to a scope so far (EV-8): 0 for none.
    pub expect: Vec<(Scope, u64)>,
    /// The events, in order.
    pub drafts: Vec<NewEvent>,
    /// The claim under which they are written (CM-44).
    pub fence: Option<Fence>,
}

impl AppendEvents {
    /// These events.
    #[must_use]
    pub fn new(drafts: impl IntoIterator<Item = NewEvent>) -> Self {
        Self { drafts: drafts.into_iter().collect(), ..Self::default() }
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        self.drafts.iter().map(NewEvent::payload_bytes).sum()
    }

    /// The same under a key of this writer.
    #[must_use]
    pub fn with_key(mut self, writer: WriterId, key: EventKey) -> Self {
        self.writer = Some(writer);
        self.key = Some(key);
        self
    }

    /// The same, if so many events were appended to `scope` so far.
    #[must_use]
    pub fn expecting(mut self, scope: Scope, count: u64) -> Self {
        self.expect.push((scope, count));
        self
    }
}

/// What an append did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AppendedEvents {
    /// The events, in the order given.
    pub events: Vec<Event>,
    /// Whether they had been appended before under this key.
    pub deduplicated: bool,
}

impl AppendedEvents {
    /// For stores.
    #[must_use]
    pub const fn new(events: Vec<Event>, deduplicated: bool) -> Self {
        Self { events, deduplicated }
    }
}

/// What a store keeps of a scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ScopeState {
    /// How many events were ever appended to it: the sequence number of the last one.
    pub count: u64,
    /// The sequence number of the newest that was trimmed; 0 for none.
    pub floor: u64,
    /// Store time of the last append: later ones are not before it.
    pub last_time: Option<Timestamp>,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(ScopeState { count: def, floor: def, last_time: opt });

impl ScopeState {
    /// The same with everything up to `floor` trimmed.
    #[must_use]
    pub fn trimmed(self, floor: u64) -> Self {
        Self { floor: self.floor.max(floor), ..self }
    }
}

/// An event as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredEvent {
    /// The event, without its cursors.
    pub event: Event,
    /// Its sequence number in its thread.
    pub thread_seq: Option<u64>,
    /// Its sequence number in its run.
    pub run_seq: Option<u64>,
}

impl StoredEvent {
    /// For stores: this event at these places.
    #[must_use]
    pub const fn new(event: Event, thread_seq: Option<u64>, run_seq: Option<u64>) -> Self {
        Self { event, thread_seq, run_seq }
    }

    /// Its scopes with its sequence number in each.
    pub fn places(&self) -> impl Iterator<Item = (Scope, u64)> + use<> {
        let thread = self.event.thread.clone().map(Scope::Thread).zip(self.thread_seq);
        thread.into_iter().chain(self.event.run.clone().map(Scope::Run).zip(self.run_seq))
    }
}

/// What is remembered of an append with a key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventKeyRecord {
    /// The digest of the drafts.
    pub digest: String,
    /// The events.
    pub events: Vec<EventId>,
    /// When they were appended.
    pub created_at: Timestamp,
    /// Fields of a newer release.
    pub extra: Extra,
}

record!(EventKeyRecord { digest: req, events: req, created_at: req });

#[cfg(test)]
mod tests {
    use super::{EventCursors, EventRef, Scope};
    use crate::{Cursor, codec::Extra};

    #[test]
    fn what_is_kept_of_an_event_has_no_cursors() {
        let cursors = EventCursors { thread: Some(Cursor::from_text("c")), ..EventCursors::default() };
        let sealed = EventRef { id: "e".parse().unwrap(), cursors, extra: Extra::default() };
        assert_eq!(sealed.unsealed(), EventRef { cursors: EventCursors::default(), ..sealed });
    }

    #[test]
    fn a_scope_says_what_it_is() {
        let scopes = [Scope::Thread("a".parse().unwrap()), Scope::Run("b".parse().unwrap())];
        assert_eq!(scopes.map(|scope| scope.to_string()), ["thread a", "run b"]);
    }
}
