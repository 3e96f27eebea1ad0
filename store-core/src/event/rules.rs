//! The rules for events: drafts, keys, expectations, cursors, trimming.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use super::{
    AppendEvents, AppendedEvents, Event, EventCursors, EventKeyRecord, MAX_EVENT_TOPICS, NewEvent, RedactEvent, Scope,
    ScopeState, StoredEvent, SubscriptionStart, TrimBefore,
};
use crate::{
    codec::{Codec, Extra, ObjectWriter, sha256_hex},
    commit::DecisionContext,
    error::{Detail, Error, Result},
    id::{EventId, EventKey, RunId, TenantId, ThreadId, TopicId, WriterId},
    json::Json,
    limits::{Limits, check_limit, length},
    mailbox::{self, MailboxView},
    page::{Cursor, CursorKey, CursorScope, MAX_PAGE, Position},
    thread::ThreadIdRecord,
    time::Timestamp,
    version::{Expect, Version},
};

/// The minimum time for which the key of an append is remembered (EV-5).
const EVENT_KEY_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The stored data from which an append of events is decided.
pub trait EventView {
    /// Returns the state of a scope, or the default for an unknown scope.
    ///
    /// # Errors
    /// Any error of reading.
    fn scope(&self, scope: &Scope) -> Result<ScopeState>;

    /// Returns the record of an earlier append with this key.
    ///
    /// # Errors
    /// Any error of reading.
    fn event_key(&self, writer: &WriterId, key: &EventKey) -> Result<Option<EventKeyRecord>>;

    /// Returns an event, or none if it does not exist.
    ///
    /// # Errors
    /// Any error of reading.
    fn event(&self, id: &EventId) -> Result<Option<StoredEvent>>;

    /// Returns the tenant that cursors belong to and the key that authenticates them.
    fn tenant_and_cursor_key(&self) -> (&TenantId, &CursorKey);
}

/// Options for an append of events.
#[derive(Default)]
pub struct AppendOptions<'a> {
    /// The time of the events, if the commit that appends them sets one (CM-41).
    pub at: Option<Timestamp>,
    /// For an append under a claim (CM-44): what the store keeps about the id of the claimed thread, such as the
    /// highest claim that wrote to it. Absent in a commit, which checks its own fence.
    pub id_record: Option<&'a mut ThreadIdRecord>,
    /// The mailbox in the same store, if the append names a claim.
    pub claims: Option<&'a dyn MailboxView>,
}

impl fmt::Debug for AppendOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppendOptions")
            .field("at", &self.at)
            .field("id_record", &self.id_record)
            .finish_non_exhaustive()
    }
}

/// Everything that an append of events writes. It is written as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EventPlan {
    /// The new events, in order.
    pub events: Vec<StoredEvent>,
    /// The state of their scopes after the append.
    pub scopes: BTreeMap<Scope, ScopeState>,
    /// The record of the key of the append.
    pub key: Option<(WriterId, EventKey, EventKeyRecord)>,
}

/// The decision about an append: what a store has to write, and the answer that the caller gets after that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDecision {
    /// What to write; none if the append repeats an earlier one.
    pub plan: Option<EventPlan>,
    /// The answer to the caller.
    pub answer: AppendedEvents,
}

/// Refuses a request that no store with these limits can accept (EV-2, EV-7, EV-8).
///
/// # Errors
/// `Invalid` and `LimitExceeded`.
pub fn check_request(request: &AppendEvents, limits: &Limits) -> Result<()> {
    if request.drafts.is_empty() {
        return Err(Error::invalid("events", "there are none in the call"));
    }
    if request.key.is_some() && request.writer.is_none() {
        return Err(Error::invalid("events", "a key needs a writer"));
    }
    check_limit("events of an append", length(request.drafts.len()), limits.commit_events)?;
    for (index, draft) in request.drafts.iter().enumerate() {
        check_draft(draft, limits).map_err(|e| e.in_part(format!("events[{index}]")))?;
    }
    check_limit("commit bytes", request.payload_bytes(), limits.commit_bytes)?;
    for (scope, _) in &request.expect {
        if !request.drafts.iter().any(|draft| draft.scopes.contains(scope)) {
            return Err(Error::invalid("expect", "it names a scope that no event of the call has"));
        }
    }
    // Refuses a fence if the events belong to several threads. Which thread it is does not matter here.
    fenced_thread(request).map(drop)
}

fn check_draft(draft: &NewEvent, limits: &Limits) -> Result<()> {
    let threads = draft.scopes.iter().filter(|scope| matches!(scope, Scope::Thread(_))).count();
    let runs = draft.scopes.iter().filter(|scope| matches!(scope, Scope::Run(_))).count();
    if draft.scopes.is_empty() || threads > 1 || runs > 1 {
        return Err(Error::invalid("scopes", "an event belongs to at most one thread and one run, and to some scope"));
    }
    let topics = draft.scopes.len() - threads - runs;
    check_limit("topics of an event", length(topics), length(MAX_EVENT_TOPICS))?;
    if DraftScopes::of(draft).topics.len() < topics {
        return Err(Error::invalid("scopes", "a topic is named twice"));
    }
    if draft.schema_version == 0 {
        return Err(Error::invalid("schema_version", "it must be 1 or more"));
    }
    check_limit("record bytes", draft.payload_bytes(), limits.record_bytes)
}

/// Decides an append of events: returns what to write, or the error with which the append is refused (EV-2 to EV-9).
///
/// # Errors
/// The errors of [`EventWriter::append_events`](super::EventWriter::append_events).
pub fn append(
    view: &(impl EventView + ?Sized),
    request: &AppendEvents,
    decision_context: DecisionContext<'_>,
    options: AppendOptions<'_>,
) -> Result<EventDecision> {
    check_request(request, decision_context.limits)?;
    if let Some(answer) = answer_of_earlier_append(view, request)? {
        return Ok(EventDecision { plan: None, answer });
    }
    if let (Some(claims), Some(fence), Some(thread)) = (options.claims, &request.fence, fenced_thread(request)?) {
        mailbox::check_claim(claims, &thread, fence)?;
    }
    if let Some(id_record) = options.id_record {
        id_record.check_and_record_claim(request.fence.as_ref())?;
    }
    let mut scopes = BTreeMap::new();
    for scope in request.drafts.iter().flat_map(|draft| &draft.scopes) {
        if !scopes.contains_key(scope) {
            scopes.insert(scope.clone(), view.scope(scope)?);
        }
    }
    for (scope, expected) in &request.expect {
        let actual = scopes.get(scope).map_or(0, |state| state.count);
        check_expected_count(*expected, actual)?;
    }
    // The time of a scope never goes back.
    let now = scopes.values().filter_map(|state| state.last_time).fold(decision_context.now, Ord::max);
    let at = options.at.unwrap_or(now);
    let mut plan = EventPlan::default();
    for draft in &request.drafts {
        let id = EventId::new(decision_context.ids.next_id())?;
        plan.events.push(number_event(draft, id, at, &mut scopes));
    }
    for state in scopes.values_mut() {
        state.last_time = Some(now);
    }
    plan.scopes = scopes;
    let events: Vec<Event> =
        plan.events.iter().map(|stored| event_with_cursors(stored, view.tenant_and_cursor_key())).collect();
    plan.key = request.writer.clone().zip(request.key.clone()).map(|(writer, key)| {
        let events = events.iter().map(|event| event.id.clone()).collect();
        let digest = drafts_digest(request);
        (writer, key, EventKeyRecord { digest, events, created_at: now, extra: Extra::default() })
    });
    Ok(EventDecision { plan: Some(plan), answer: AppendedEvents::new(events, false) })
}

/// Refuses a count other than the expected one. A `Conflict` names versions, so each count becomes the number of one.
fn check_expected_count(expected: u64, actual: u64) -> Result<()> {
    let version = |count| Version::new(count, 1, 0);
    let (expect, found) = match (expected, actual) {
        (0, _) => (Expect::Absent, (actual > 0).then(|| version(actual))),
        (expected, _) => (Expect::Version(version(expected)), Some(version(actual))),
    };
    expect.check("the scope's counter", found)
}

fn answer_of_earlier_append(
    view: &(impl EventView + ?Sized),
    request: &AppendEvents,
) -> Result<Option<AppendedEvents>> {
    let (Some(writer), Some(key)) = (&request.writer, &request.key) else { return Ok(None) };
    let Some(record) = view.event_key(writer, key)? else { return Ok(None) };
    if record.digest != drafts_digest(request) {
        return Err(Error::new(Detail::IdempotencyMismatch { key: key.to_string() }));
    }
    let mut events = Vec::new();
    for id in &record.events {
        events.extend(view.event(id)?.map(|stored| event_with_cursors(&stored, view.tenant_and_cursor_key())));
    }
    Ok(Some(AppendedEvents::new(events, true)))
}

/// Returns the digest of the drafts. It covers everything except the order of their scopes (EV-6).
pub(crate) fn drafts_digest(request: &AppendEvents) -> String {
    let mut text = String::new();
    for draft in &request.drafts {
        let DraftScopes { thread, run, topics } = DraftScopes::of(draft);
        let mut object = ObjectWriter::open(&mut text);
        object
            .maybe("thread", thread.as_ref())
            .maybe("run", run.as_ref())
            .field_unless_default("topics", &Vec::from_iter(topics))
            .field("kind", &draft.kind)
            .maybe("payload", draft.payload.as_ref())
            .field("visibility", &draft.visibility)
            .maybe("origin", draft.origin.as_ref())
            .maybe("causation_id", draft.causation_id.as_ref())
            .maybe("correlation_id", draft.correlation_id.as_ref())
            .field("schema_version", &draft.schema_version);
        object.close();
    }
    format!("1:{}", sha256_hex(&text))
}

/// The scopes of a draft by their type.
#[derive(Default)]
struct DraftScopes {
    thread: Option<ThreadId>,
    run: Option<RunId>,
    topics: BTreeSet<TopicId>,
}

impl DraftScopes {
    fn of(draft: &NewEvent) -> Self {
        let mut scopes = Self::default();
        for scope in &draft.scopes {
            match scope {
                Scope::Thread(id) => scopes.thread = Some(id.clone()),
                Scope::Run(id) => scopes.run = Some(id.clone()),
                Scope::Topic(id) => drop(scopes.topics.insert(id.clone())),
            }
        }
        scopes
    }
}

/// Makes the event of a draft, and gives it the next number in each of its scopes.
fn number_event(draft: &NewEvent, id: EventId, at: Timestamp, scopes: &mut BTreeMap<Scope, ScopeState>) -> StoredEvent {
    let DraftScopes { thread, run, topics } = DraftScopes::of(draft);
    let mut take_next_number = |scope: Scope| {
        let state = scopes.entry(scope).or_default();
        state.count += 1;
        state.count
    };
    let thread_seq = thread.clone().map(Scope::Thread).map(&mut take_next_number);
    let run_seq = run.clone().map(Scope::Run).map(&mut take_next_number);
    let topic_seqs = topics.iter().cloned().map(Scope::Topic).map(&mut take_next_number).collect();
    let event = Event {
        id,
        created_at: at,
        thread,
        run,
        topics: topics.into_iter().collect(),
        kind: draft.kind.clone(),
        payload: draft.payload.clone(),
        visibility: draft.visibility,
        origin: draft.origin.clone(),
        causation_id: draft.causation_id.clone(),
        correlation_id: draft.correlation_id.clone(),
        schema_version: draft.schema_version,
        redacted: false,
        cursors: EventCursors::default(),
        extra: Extra::default(),
    };
    StoredEvent::new(event, thread_seq, run_seq).with_topic_seqs(topic_seqs)
}

/// Refuses a call that redacts too many events.
///
/// # Errors
/// `LimitExceeded`.
pub fn check_redactions(requests: &[RedactEvent]) -> Result<()> {
    check_limit("redactions of one call", length(requests.len()), u64::from(MAX_PAGE))
}

/// Returns an event without its content, or none if that changes nothing (EV-28).
///
/// The id, the time, the scopes with their numbers, the kind, the visibility and the version of the schema stay.
#[must_use]
pub fn redacted(stored: &StoredEvent, payload: Option<&Json>) -> Option<StoredEvent> {
    let mut redacted = stored.clone();
    let event = &mut redacted.event;
    event.payload = payload.cloned();
    (event.origin, event.causation_id, event.correlation_id) = (None, None, None);
    event.extra = Extra::default();
    event.redacted = true;
    (redacted != *stored).then_some(redacted)
}

/// Returns an event with its cursors, as callers see it.
#[must_use]
pub fn event_with_cursors(stored: &StoredEvent, tenant_and_cursor_key: (&TenantId, &CursorKey)) -> Event {
    let mut event = stored.event.clone();
    for (scope, seq) in stored.scope_numbers() {
        let cursor = cursor_after(&scope, seq, tenant_and_cursor_key);
        match scope {
            Scope::Thread(_) => event.cursors.thread = Some(cursor),
            Scope::Run(_) => event.cursors.run = Some(cursor),
            Scope::Topic(id) => drop(event.cursors.topics.insert(id, cursor)),
        }
    }
    event
}

/// Returns the list to which the cursors of a scope's events belong.
fn cursor_scope(scope: &Scope, tenant: &TenantId) -> CursorScope {
    CursorScope::new(tenant, "events", &scope.encode())
}

/// Returns the cursor after the event with this sequence number.
#[must_use]
pub fn cursor_after(scope: &Scope, seq: u64, tenant_and_cursor_key: (&TenantId, &CursorKey)) -> Cursor {
    let (tenant, cursor_key) = tenant_and_cursor_key;
    Position::new(seq, "").to_cursor(cursor_key, &cursor_scope(scope, tenant))
}

/// Returns the sequence number of the event after which a cursor continues, or none if there is no cursor.
///
/// # Errors
/// `InvalidCursor` if the cursor belongs to another list.
pub fn seq_of_cursor(
    scope: &Scope,
    cursor: Option<&Cursor>,
    tenant_and_cursor_key: (&TenantId, &CursorKey),
) -> Result<Option<u64>> {
    let (tenant, cursor_key) = tenant_and_cursor_key;
    Ok(Position::from_cursor(cursor_key, &cursor_scope(scope, tenant), cursor)?.map(|position| position.rank))
}

/// Refuses a position if events after it were trimmed (EV-24), and a position after the last event of the scope.
///
/// A cursor after the last event can only come from a deleted tenant whose name is used again.
///
/// # Errors
/// `CursorExpired`, `InvalidCursor`.
pub fn check_cursor(state: &ScopeState, after: u64) -> Result<()> {
    if after > state.count {
        return Err(Error::new(Detail::InvalidCursor { reason: "the scope has no such event" }));
    }
    if after < state.floor { Err(Error::new(Detail::CursorExpired { floor: state.floor })) } else { Ok(()) }
}

/// Returns the sequence number after which a subscription begins (EV-14, EV-15, EV-19).
///
/// # Errors
/// `InvalidCursor` and `CursorExpired` for a cursor that is not valid.
pub fn start_seq(
    state: &ScopeState,
    scope: &Scope,
    start: &SubscriptionStart,
    tenant_and_cursor_key: (&TenantId, &CursorKey),
) -> Result<u64> {
    match start {
        SubscriptionStart::First => Ok(state.floor),
        SubscriptionStart::Now => Ok(state.count),
        SubscriptionStart::After(cursor) => {
            let after = seq_of_cursor(scope, Some(cursor), tenant_and_cursor_key)?.unwrap_or_default();
            check_cursor(state, after).map(|()| after)
        }
    }
}

/// Returns the sequence number of the last event that is trimmed (EV-23). `events` are the events of the scope, oldest
/// first.
///
/// # Errors
/// `InvalidCursor` if the cursor belongs to another list; any error of `events`.
pub fn last_trimmed_seq(
    state: &ScopeState,
    scope: &Scope,
    before: &TrimBefore,
    tenant_and_cursor_key: (&TenantId, &CursorKey),
    events: impl IntoIterator<Item = Result<Event>>,
) -> Result<u64> {
    match before {
        TrimBefore::Cursor(cursor) => {
            let seq = seq_of_cursor(scope, Some(cursor), tenant_and_cursor_key)?.unwrap_or_default().max(state.floor);
            check_cursor(state, seq).map(|()| seq)
        }
        TrimBefore::Time(time) => {
            let mut floor = state.floor;
            for event in events {
                if event?.created_at >= *time {
                    break;
                }
                floor += 1;
            }
            Ok(floor)
        }
    }
}

/// Refuses the scope of a topic. For stores that have no documents, and so no topics.
///
/// # Errors
/// `Unsupported`.
pub fn refuse_topic(scope: &Scope) -> Result<()> {
    match scope {
        Scope::Topic(_) => Err(Error::new(Detail::Unsupported { operation: "topics" })),
        Scope::Thread(_) | Scope::Run(_) => Ok(()),
    }
}

/// Returns the thread whose claim an append names (CM-44), or none if it names no claim.
///
/// # Errors
/// `Invalid` if the events do not all belong to one thread.
pub fn fenced_thread(request: &AppendEvents) -> Result<Option<ThreadId>> {
    if request.fence.is_none() {
        return Ok(None);
    }
    let mut threads = request.drafts.iter().map(|draft| DraftScopes::of(draft).thread);
    let first_thread = threads.next().flatten();
    if first_thread.is_none() || threads.any(|thread| thread != first_thread) {
        return Err(Error::invalid("fence", "all events of a call with a fence must belong to one thread"));
    }
    Ok(first_thread)
}

/// Returns whether the record of a key must still be kept: while one of its events exists, and for at least 30 days
/// (EV-5).
#[must_use]
pub fn must_keep_event_key(record: &EventKeyRecord, has_event: bool, now: Timestamp) -> bool {
    has_event || record.created_at >= now.saturating_sub(EVENT_KEY_RETENTION)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{EVENT_KEY_RETENTION, must_keep_event_key};
    use crate::{Timestamp, codec::Extra, event::EventKeyRecord};

    #[test]
    fn an_event_key_is_remembered_for_thirty_days_ev_5() {
        let timestamp = |millis| Timestamp::from_millis(millis).unwrap();
        assert_eq!(EVENT_KEY_RETENTION, Duration::from_hours(30 * 24));
        let now = timestamp(100).saturating_add(EVENT_KEY_RETENTION);
        let is_remembered = |created_at, has_event| {
            let record =
                EventKeyRecord { digest: String::new(), events: Vec::new(), created_at, extra: Extra::default() };
            must_keep_event_key(&record, has_event, now)
        };
        assert!(
            is_remembered(timestamp(100), false)
                && !is_remembered(timestamp(99), false)
                && is_remembered(timestamp(99), true)
        );
    }
}
