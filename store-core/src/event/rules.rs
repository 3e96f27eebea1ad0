//! What is decided about events: drafts, keys, expectations, cursors, trimming.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::{
    AppendEvents, AppendedEvents, Event, EventCursors, EventKeyRecord, NewEvent, Scope, ScopeState, Start, StoredEvent,
    TrimBefore,
};
use crate::{
    codec::{Codec, Extra, Object, sha256},
    commit::Setting,
    error::{Detail, Error, Result},
    id::{EventId, EventKey, RunId, TenantId, ThreadId, WriterId},
    limits::{Limits, check_limit, length},
    mailbox::{self, MailboxView},
    page::{Cursor, CursorKey, CursorScope, Position},
    thread::IdRecord,
    time::Timestamp,
    version::{Expect, Version},
};

/// How long the key of an append is remembered at least (EV-5).
const REMEMBERED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// What is stored, as the plan of an append asks for it.
pub trait EventView {
    /// A scope; the default for one that nobody knows.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn scope(&self, scope: &Scope) -> Result<ScopeState>;

    /// What is remembered of a key, and its events as far as they are still there.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn event_key(&self, writer: &WriterId, key: &EventKey) -> Result<Option<EventKeyRecord>>;

    /// An event.
    ///
    /// # Errors
    /// Whatever reading ends with.
    fn event(&self, id: &EventId) -> Result<Option<StoredEvent>>;

    /// What cursors are bound to, and sealed with.
    fn sealer(&self) -> (&TenantId, &CursorKey);
}

/// How events are appended.
#[derive(Default)]
pub struct Appending<'a> {
    /// The time of the events, if their commit says so (CM-41).
    pub at: Option<Timestamp>,
    /// What is remembered of the id whose claim the append names (CM-44); a commit judges its own.
    pub id: Option<&'a mut IdRecord>,
    /// The mailbox that the store keeps with its threads, if the append names a claim.
    pub claims: Option<&'a dyn MailboxView>,
}

impl fmt::Debug for Appending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Appending").field("at", &self.at).field("id", &self.id).finish_non_exhaustive()
    }
}

/// Everything that an append of events writes, all or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EventPlan {
    /// The events, in order.
    pub events: Vec<StoredEvent>,
    /// Their scopes afterwards.
    pub scopes: BTreeMap<Scope, ScopeState>,
    /// What is remembered of the key.
    pub key: Option<(WriterId, EventKey, EventKeyRecord)>,
}

/// What is to be done about an append, and what its caller gets once that is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventChange {
    /// What to write; none for a repeat.
    pub plan: Option<EventPlan>,
    /// The answer.
    pub answer: AppendedEvents,
}

/// Refuses what no store can accept (EV-2, EV-7, EV-8).
pub(crate) fn check_shape(request: &AppendEvents, limits: &Limits) -> Result<()> {
    if request.drafts.is_empty() {
        return Err(Error::invalid("events", "there is no event in it"));
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
            return Err(Error::invalid("expect", "it names a scope of no event"));
        }
    }
    fenced_thread(request).map(drop)
}

fn check_draft(draft: &NewEvent, limits: &Limits) -> Result<()> {
    let threads = draft.scopes.iter().filter(|scope| matches!(scope, Scope::Thread(_))).count();
    let runs = draft.scopes.len() - threads;
    if !matches!((threads, runs), (1, 0) | (0, 1) | (1, 1)) {
        return Err(Error::invalid("scopes", "it is a thread, a run, or one of each"));
    }
    if draft.schema_version == 0 {
        return Err(Error::invalid("schema_version", "it counts from 1"));
    }
    check_limit("record bytes", draft.payload_bytes(), limits.record_bytes)
}

/// Appends events, or says why not (EV-2 to EV-9).
///
/// # Errors
/// Those of [`EventWriter::append_events`](super::EventWriter::append_events).
pub fn append(
    view: &(impl EventView + ?Sized),
    request: &AppendEvents,
    setting: Setting<'_>,
    how: Appending<'_>,
) -> Result<EventChange> {
    check_shape(request, setting.limits)?;
    if let Some(answer) = repeated(view, request)? {
        return Ok(EventChange { plan: None, answer });
    }
    if let (Some(claims), Some(fence), Some(thread)) = (how.claims, &request.fence, fenced_thread(request)?) {
        mailbox::check_claim(claims, &thread, fence)?;
    }
    if let Some(id) = how.id {
        id.check_fence(request.fence.as_ref())?;
    }
    let mut scopes = BTreeMap::new();
    for scope in request.drafts.iter().flat_map(|draft| &draft.scopes) {
        if !scopes.contains_key(scope) {
            scopes.insert(scope.clone(), view.scope(scope)?);
        }
    }
    for (scope, expected) in &request.expect {
        let actual = scopes.get(scope).map_or(0, |state| state.count);
        check_count(*expected, actual)?;
    }
    // The time of a scope does not go back.
    let now = scopes.values().filter_map(|state| state.last_time).fold(setting.now, Ord::max);
    let at = how.at.unwrap_or(now);
    let mut plan = EventPlan::default();
    for draft in &request.drafts {
        let id = EventId::new(setting.ids.next_id())?;
        plan.events.push(stored(draft, id, at, &mut scopes));
    }
    for state in scopes.values_mut() {
        state.last_time = Some(now);
    }
    plan.scopes = scopes;
    let events: Vec<Event> = plan.events.iter().map(|stored| seal(stored, view.sealer())).collect();
    plan.key = request.writer.clone().zip(request.key.clone()).map(|(writer, key)| {
        let events = events.iter().map(|event| event.id.clone()).collect();
        let digest = digest(request);
        (writer, key, EventKeyRecord { digest, events, created_at: now, extra: Extra::default() })
    });
    Ok(EventChange { plan: Some(plan), answer: AppendedEvents::new(events, false) })
}

fn check_count(expected: u64, actual: u64) -> Result<()> {
    let version = |count| Version::new(count, 1, 0);
    let (expect, found) = match (expected, actual) {
        (0, _) => (Expect::Absent, (actual > 0).then(|| version(actual))),
        (expected, _) => (Expect::Version(version(expected)), Some(version(actual))),
    };
    expect.check("the scope's counter", found)
}

fn repeated(view: &(impl EventView + ?Sized), request: &AppendEvents) -> Result<Option<AppendedEvents>> {
    let (Some(writer), Some(key)) = (&request.writer, &request.key) else { return Ok(None) };
    let Some(record) = view.event_key(writer, key)? else { return Ok(None) };
    if record.digest != digest(request) {
        return Err(Error::new(Detail::IdempotencyMismatch { key: key.to_string() }));
    }
    let mut events = Vec::new();
    for id in &record.events {
        events.extend(view.event(id)?.map(|stored| seal(&stored, view.sealer())));
    }
    Ok(Some(AppendedEvents::new(events, true)))
}

/// Everything that a draft says; the order of its scopes does not count (EV-6).
pub(crate) fn digest(request: &AppendEvents) -> String {
    let mut text = String::new();
    for draft in &request.drafts {
        let (thread, run) = split(draft);
        let mut object = Object::open(&mut text);
        object
            .maybe("thread", thread.as_ref())
            .maybe("run", run.as_ref())
            .field("kind", &draft.kind)
            .maybe("payload", draft.payload.as_ref())
            .field("visibility", &draft.visibility)
            .maybe("origin", draft.origin.as_ref())
            .maybe("causation_id", draft.causation_id.as_ref())
            .maybe("correlation_id", draft.correlation_id.as_ref())
            .field("schema_version", &draft.schema_version);
        object.close();
    }
    format!("1:{}", sha256(&text))
}

fn split(draft: &NewEvent) -> (Option<ThreadId>, Option<RunId>) {
    let (mut thread, mut run) = (None, None);
    for scope in &draft.scopes {
        match scope {
            Scope::Thread(id) => thread = Some(id.clone()),
            Scope::Run(id) => run = Some(id.clone()),
        }
    }
    (thread, run)
}

/// The event of a draft, counted in its scopes.
fn stored(draft: &NewEvent, id: EventId, at: Timestamp, scopes: &mut BTreeMap<Scope, ScopeState>) -> StoredEvent {
    let (thread, run) = split(draft);
    let mut next = |scope: Option<Scope>| {
        let state = scopes.entry(scope?).or_default();
        state.count += 1;
        Some(state.count)
    };
    let thread_seq = next(thread.clone().map(Scope::Thread));
    let run_seq = next(run.clone().map(Scope::Run));
    let event = Event {
        id,
        created_at: at,
        thread,
        run,
        kind: draft.kind.clone(),
        payload: draft.payload.clone(),
        visibility: draft.visibility,
        origin: draft.origin.clone(),
        causation_id: draft.causation_id.clone(),
        correlation_id: draft.correlation_id.clone(),
        schema_version: draft.schema_version,
        cursors: EventCursors::default(),
        extra: Extra::default(),
    };
    StoredEvent::new(event, thread_seq, run_seq)
}

/// The event as callers see it, with its cursors.
#[must_use]
pub fn seal(stored: &StoredEvent, sealer: (&TenantId, &CursorKey)) -> Event {
    let mut event = stored.event.clone();
    for (scope, seq) in stored.places() {
        let sealed = Some(cursor(&scope, seq, sealer));
        match scope {
            Scope::Thread(_) => event.cursors.thread = sealed,
            Scope::Run(_) => event.cursors.run = sealed,
        }
    }
    event
}

/// What the cursors of a scope are bound to.
fn binding(scope: &Scope, tenant: &TenantId) -> CursorScope {
    CursorScope::new(tenant, "events", &scope.encode())
}

/// The cursor behind the event of this sequence number.
#[must_use]
pub fn cursor(scope: &Scope, seq: u64, sealer: (&TenantId, &CursorKey)) -> Cursor {
    let (tenant, cursors) = sealer;
    Position::new(seq, "").seal(cursors, &binding(scope, tenant))
}

/// The sequence number that a cursor of a scope stands behind; none for no cursor.
///
/// # Errors
/// `InvalidCursor` if it is of something else.
pub fn place(scope: &Scope, at: Option<&Cursor>, sealer: (&TenantId, &CursorKey)) -> Result<Option<u64>> {
    let (tenant, cursors) = sealer;
    Ok(Position::open(cursors, &binding(scope, tenant), at)?.map(|position| position.rank))
}

/// Refuses to go on below the floor of a scope (EV-24), and behind its last event: such a cursor is of another scope
/// that had the name, in a tenant that was removed.
///
/// # Errors
/// `CursorExpired`, `InvalidCursor`.
pub fn check_cursor(state: &ScopeState, after: u64) -> Result<()> {
    if after > state.count {
        return Err(Error::new(Detail::InvalidCursor { reason: "the scope has no such event" }));
    }
    if after < state.floor { Err(Error::new(Detail::CursorExpired { floor: state.floor })) } else { Ok(()) }
}

/// The sequence number that a subscription begins behind (EV-14, EV-15, EV-19).
///
/// # Errors
/// `InvalidCursor` and `CursorExpired` for a cursor that does not hold.
pub fn start(state: &ScopeState, scope: &Scope, start: &Start, sealer: (&TenantId, &CursorKey)) -> Result<u64> {
    match start {
        Start::First => Ok(state.floor),
        Start::Now => Ok(state.count),
        Start::After(cursor) => {
            let after = place(scope, Some(cursor), sealer)?.unwrap_or_default();
            check_cursor(state, after).map(|()| after)
        }
    }
}

/// Up to which sequence number a scope is trimmed (EV-23). `events` gives its events, the oldest first.
///
/// # Errors
/// `InvalidCursor` if the cursor is of something else; what `events` ends with.
pub fn trim_up_to(
    state: &ScopeState,
    scope: &Scope,
    before: &TrimBefore,
    sealer: (&TenantId, &CursorKey),
    events: impl IntoIterator<Item = Result<Event>>,
) -> Result<u64> {
    match before {
        TrimBefore::Cursor(at) => {
            let seq = place(scope, Some(at), sealer)?.unwrap_or_default().max(state.floor);
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

/// The thread whose claim an append names (CM-44); none without a claim.
///
/// # Errors
/// `Invalid` if its events are not all of one thread.
pub fn fenced_thread(request: &AppendEvents) -> Result<Option<ThreadId>> {
    if request.fence.is_none() {
        return Ok(None);
    }
    let mut threads = request.drafts.iter().map(|draft| split(draft).0);
    let first = threads.next().flatten();
    if first.is_none() || threads.any(|thread| thread != first) {
        return Err(Error::invalid("fence", "it is for events of one thread"));
    }
    Ok(first)
}

/// Whether a key is still remembered (EV-5): as long as one of its events is there, and for at least 30 days.
#[must_use]
pub fn is_remembered(record: &EventKeyRecord, has_event: bool, now: Timestamp) -> bool {
    has_event || record.created_at >= now.saturating_sub(REMEMBERED_FOR)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{REMEMBERED_FOR, is_remembered};
    use crate::{Timestamp, codec::Extra, event::EventKeyRecord};

    #[test]
    fn a_key_is_remembered_for_so_long_ev_5() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        assert_eq!(REMEMBERED_FOR, Duration::from_hours(30 * 24));
        let now = at(100).saturating_add(REMEMBERED_FOR);
        let remembered = |created_at, has_event| {
            let record =
                EventKeyRecord { digest: String::new(), events: Vec::new(), created_at, extra: Extra::default() };
            is_remembered(&record, has_event, now)
        };
        assert!(remembered(at(100), false) && !remembered(at(99), false) && remembered(at(99), true));
    }
}
