//! Events (promises EV of the contract). Each scope has a list of its events. A trim only raises the floor of the
//! scope: the events up to the floor count as trimmed, and remain in the list.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use serde_json::json;
use store_core::{
    AppendEvents, AppendedEvents, CursorKey, Detail, Direction, Error, Event, EventFilter, EventId, EventKey,
    EventQuery, Limits, NewEvent, Page, RedactEvent, Result, Scope, ScopeInfo, Subscribe, SubscriptionStart, TenantId,
    Timestamp, TrimBefore, TrimRequest, Trimmed, Version, WriterId, check_limit,
    event::{cursor_after, fenced_thread, seq_of_cursor},
};

use super::{
    bug::Bug,
    commit::{Environment, check_fence},
    mailbox,
    model_data::{TenantData, record_from_json},
};

/// The minimum time for which the key of an append is remembered (EV-5).
const KEY_RETENTION: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The events of a tenant.
#[derive(Debug, Clone, Default)]
pub(super) struct EventLog {
    /// Every event that was ever appended. A read adds the cursors.
    events: BTreeMap<EventId, Arc<Event>>,
    /// The events of each scope in their order, including trimmed ones.
    scopes: BTreeMap<Scope, Vec<Arc<Event>>>,
    /// The number of trimmed events of each scope.
    floors: BTreeMap<Scope, u64>,
    /// The time of the last append to each scope.
    last_append_times: BTreeMap<Scope, Timestamp>,
    /// The appends that had a key.
    appends_by_key: BTreeMap<(WriterId, EventKey), RememberedAppend>,
    /// Events that are not listed yet. Only the planted bug `EventsVisibleLate` uses this.
    hidden_events: BTreeSet<EventId>,
}

/// What is remembered about a key: the drafts, the ids of their events, and the time of the append.
type RememberedAppend = (Vec<NewEvent>, Vec<EventId>, Timestamp);

impl EventLog {
    /// Returns the events of a scope, each with its sequence number.
    fn numbered_events(&self, scope: &Scope) -> impl Iterator<Item = (u64, &Event)> {
        let events = self.scopes.get(scope).into_iter().flatten();
        (1..).zip(events.map(|event| &**event))
    }

    /// Returns the sequence number of an event in a scope.
    fn seq_of(&self, scope: &Scope, id: &EventId) -> Option<u64> {
        self.numbered_events(scope).find(|(_, event)| event.id == *id).map(|(seq, _)| seq)
    }

    fn appended_count(&self, scope: &Scope) -> u64 {
        self.scopes.get(scope).map_or(0, |events| events.len() as u64)
    }

    fn push(&mut self, event: Event) {
        let event = Arc::new(event);
        for scope in event.scopes() {
            self.scopes.entry(scope).or_default().push(Arc::clone(&event));
        }
        self.events.insert(event.id.clone(), event);
    }

    /// Adds an event to the threads that have the names of its topics. Only the planted bug `TopicsAreThreads` does
    /// this.
    fn push_to_threads_of_topics(&mut self, event: &Event) -> Result<()> {
        for topic in &event.topics {
            let scope = Scope::Thread(store_core::ThreadId::new(topic.as_str())?);
            self.scopes.entry(scope).or_default().push(Arc::new(event.clone()));
        }
        Ok(())
    }

    fn floor(&self, scope: &Scope) -> u64 {
        self.floors.get(scope).copied().unwrap_or_default()
    }

    /// Forgets all events of topics. Only the planted bug `TopicsEndWithAThread` does this.
    pub(super) fn forget_topics(&mut self) {
        self.scopes.retain(|scope, _| !matches!(scope, Scope::Topic(_)));
    }

    /// Hides these events from lists. Only the planted bug `EventsVisibleLate` does this.
    pub(super) fn hide_from_lists(&mut self, events: &[Event]) {
        self.hidden_events.extend(events.iter().map(|event| event.id.clone()));
    }

    /// Shows hidden events again.
    pub(super) fn show_in_lists(&mut self, events: &[Event]) {
        self.hidden_events.retain(|id| events.iter().all(|event| event.id != *id));
    }

    /// Returns whether there are no events, or only events that were trimmed from all their scopes.
    pub(super) fn is_empty(&self) -> bool {
        !self.events.values().any(|event| self.is_untrimmed(event))
    }

    fn is_untrimmed(&self, event: &Event) -> bool {
        event.scopes().any(|scope| self.seq_of(&scope, &event.id).is_some_and(|seq| seq > self.floor(&scope)))
    }

    fn with_cursors(&self, event: &Event, tenant_and_cursor_key: (&TenantId, &CursorKey)) -> Event {
        let mut copy = event.clone();
        for scope in event.scopes() {
            let cursor = self.seq_of(&scope, &event.id).map(|seq| cursor_after(&scope, seq, tenant_and_cursor_key));
            match scope {
                Scope::Thread(_) => copy.cursors.thread = cursor,
                Scope::Run(_) => copy.cursors.run = cursor,
                Scope::Topic(topic) => copy.cursors.topics.extend(cursor.map(|cursor| (topic, cursor))),
            }
        }
        copy
    }

    pub(super) fn load(&self, id: &EventId, tenant_and_cursor_key: (&TenantId, &CursorKey)) -> Option<Event> {
        let found = self.events.get(id);
        found.filter(|event| self.is_untrimmed(event)).map(|event| self.with_cursors(event, tenant_and_cursor_key))
    }

    pub(super) fn list(
        &self,
        query: &EventQuery,
        tenant_and_cursor_key: (&TenantId, &CursorKey),
        bug: Option<Bug>,
    ) -> Result<Page<Event>> {
        let limit = query.page.checked_limit()?;
        let after = seq_of_cursor(&query.scope, query.page.cursor.as_ref(), tenant_and_cursor_key)?;
        let floor = self.floor(&query.scope);
        self.check_not_after_last(&query.scope, after)?;
        if after.is_some_and(|after| after < floor) && bug != Some(Bug::TrimmedCursorAccepted) {
            return Err(Error::new(Detail::CursorExpired { floor }));
        }
        let mut listed_events: Vec<_> = self.numbered_events(&query.scope).filter(|(seq, _)| *seq > floor).collect();
        listed_events.retain(|(_, event)| !self.hidden_events.contains(&event.id));
        match query.direction {
            Direction::Forward => listed_events.retain(|(seq, _)| after.is_none_or(|after| *seq > after)),
            Direction::Backward => {
                listed_events.retain(|(seq, _)| after.is_none_or(|after| *seq < after));
                listed_events.reverse();
            }
        }
        listed_events.retain(|(_, event)| query.filter.admits(event) || bug == Some(Bug::InternalEventsShown));
        let next = (listed_events.len() > limit).then(|| {
            listed_events.get(limit - 1).map(|(seq, _)| cursor_after(&query.scope, *seq, tenant_and_cursor_key))
        });
        listed_events.truncate(limit);
        Ok(Page {
            items: listed_events.iter().map(|(_, event)| self.with_cursors(event, tenant_and_cursor_key)).collect(),
            next: next.flatten(),
        })
    }

    /// Refuses a cursor that is after the last event of the scope (EV-10).
    fn check_not_after_last(&self, scope: &Scope, after: Option<u64>) -> Result<()> {
        let is_known = after.is_none_or(|after| after <= self.appended_count(scope));
        if is_known { Ok(()) } else { Err(Error::new(Detail::InvalidCursor { reason: "no such event" })) }
    }

    pub(super) fn count_matching(&self, scope: &Scope, filter: &EventFilter) -> u64 {
        let floor = self.floor(scope);
        self.numbered_events(scope).filter(|(seq, event)| *seq > floor && filter.admits(event)).count() as u64
    }

    pub(super) fn scope_info(&self, scope: &Scope, tenant_and_cursor_key: (&TenantId, &CursorKey)) -> ScopeInfo {
        let count = self.appended_count(scope);
        ScopeInfo::new(count, self.floor(scope), (count > 0).then(|| cursor_after(scope, count, tenant_and_cursor_key)))
    }

    /// Returns the sequence number after which a subscription begins.
    pub(super) fn start_position(
        &self,
        request: &Subscribe,
        tenant_and_cursor_key: (&TenantId, &CursorKey),
        bug: Option<Bug>,
    ) -> Result<u64> {
        let floor = self.floor(&request.scope);
        match &request.start {
            SubscriptionStart::First => Ok(floor),
            SubscriptionStart::Now if bug == Some(Bug::NowStartsAtLastEvent) => {
                Ok(self.appended_count(&request.scope).saturating_sub(1))
            }
            SubscriptionStart::Now => Ok(self.appended_count(&request.scope)),
            SubscriptionStart::After(at) => {
                let after = seq_of_cursor(&request.scope, Some(at), tenant_and_cursor_key)?.unwrap_or_default();
                self.check_not_after_last(&request.scope, Some(after))?;
                if after < floor { Err(Error::new(Detail::CursorExpired { floor })) } else { Ok(after) }
            }
        }
    }

    /// Returns the first event of a subscription after the sequence number `after`, with its own sequence number.
    pub(super) fn next_event(
        &self,
        request: &Subscribe,
        after: u64,
        tenant_and_cursor_key: (&TenantId, &CursorKey),
    ) -> Result<Option<(u64, Event)>> {
        let floor = self.floor(&request.scope);
        if after < floor {
            return Err(Error::new(Detail::CursorExpired { floor }));
        }
        let mut later_events =
            self.numbered_events(&request.scope).filter(|(seq, event)| *seq > after && request.filter.admits(event));
        Ok(later_events.next().map(|(seq, event)| (seq, self.with_cursors(event, tenant_and_cursor_key))))
    }

    /// Removes the content of events, and forgets the keys of their appends. Returns how many events changed.
    pub(super) fn redact(&mut self, requests: &[RedactEvent], bug: Option<Bug>) -> Result<u64> {
        check_limit("redactions of one call", requests.len() as u64, 1_000)?;
        let mut changed = 0;
        for request in requests {
            let Some(event) = self.events.get(&request.id).filter(|event| self.is_untrimmed(event)).cloned() else {
                continue;
            };
            if bug != Some(Bug::RedactionKeepsKeys) {
                self.appends_by_key.retain(|_, (_, ids, _)| !ids.contains(&request.id));
            }
            let mut redacted = (*event).clone();
            redacted.payload.clone_from(&request.payload);
            (redacted.origin, redacted.causation_id) = (None, None);
            if bug != Some(Bug::RedactionKeepsCorrelation) {
                redacted.correlation_id = None;
            }
            redacted.redacted = true;
            if redacted == *event {
                continue;
            }
            changed += 1;
            let redacted = Arc::new(redacted);
            for scope in redacted.scopes() {
                for kept in self.scopes.get_mut(&scope).into_iter().flatten().filter(|kept| kept.id == request.id) {
                    *kept = Arc::clone(&redacted);
                }
            }
            self.events.insert(request.id.clone(), redacted);
        }
        Ok(changed)
    }

    pub(super) fn trim(
        &mut self,
        request: &TrimRequest,
        tenant_and_cursor_key: (&TenantId, &CursorKey),
        now_and_bug: (Timestamp, Option<Bug>),
    ) -> Result<Trimmed> {
        let (now, bug) = now_and_bug;
        let old_floor = self.floor(&request.scope);
        let floor = match &request.before {
            TrimBefore::Cursor(at) => {
                let seq = seq_of_cursor(&request.scope, Some(at), tenant_and_cursor_key)?.unwrap_or_default();
                self.check_not_after_last(&request.scope, Some(seq))?;
                seq.max(old_floor)
            }
            TrimBefore::Time(time) => {
                let older = self.numbered_events(&request.scope).take_while(|(_, event)| event.created_at < *time);
                older.map(|(seq, _)| seq).last().unwrap_or_default().max(old_floor)
            }
        };
        if !request.dry_run {
            self.floors.insert(request.scope.clone(), floor);
            if bug == Some(Bug::TrimTakesBothScopes) {
                let trimmed_events: Vec<_> =
                    self.numbered_events(&request.scope).filter(|(seq, _)| *seq <= floor).collect();
                let scopes_of_trimmed: Vec<_> = trimmed_events.iter().flat_map(|(_, event)| event.scopes()).collect();
                for scope in scopes_of_trimmed {
                    let count = self.appended_count(&scope);
                    self.floors.insert(scope, count);
                }
            }
            let is_forgotten = |log: &Self, ids: &[EventId], at: Timestamp| {
                let mut events_of_key = ids.iter().filter_map(|id| log.events.get(id));
                !events_of_key.any(|event| log.is_untrimmed(event)) && at < now.saturating_sub(KEY_RETENTION)
            };
            let remembered = self.appends_by_key.iter().filter(|(_, (_, ids, at))| !is_forgotten(self, ids, *at));
            self.appends_by_key = remembered.map(|(key, value)| (key.clone(), value.clone())).collect();
        }
        Ok(Trimmed::new(floor - old_floor, floor))
    }
}

/// Appends events. If a commit states its time, the events get this time instead of the time of the append.
pub(super) fn append(
    tenant: &mut TenantData,
    request: &AppendEvents,
    env: &Environment<'_>,
    commit_time_and_cursor_key: (Option<Timestamp>, (&TenantId, &CursorKey)),
) -> Result<AppendedEvents> {
    let (commit_time, tenant_and_cursor_key) = commit_time_and_cursor_key;
    check_request(request, (env.limits, env.bug))?;
    if let (Some(writer), Some(key)) = (&request.writer, &request.key)
        && let Some((drafts, ids, _)) = tenant.events.appends_by_key.get(&(writer.clone(), key.clone()))
        && env.bug != Some(Bug::EventKeyIgnored)
    {
        if with_sorted_scopes(drafts, env.bug) != with_sorted_scopes(&request.drafts, env.bug) {
            return Err(Error::new(Detail::IdempotencyMismatch { key: key.to_string() }));
        }
        let events = ids.iter().filter_map(|id| tenant.events.load(id, tenant_and_cursor_key)).collect();
        return Ok(AppendedEvents::new(events, true));
    }
    // The check of a fence may raise the highest claim number of the thread id. So the check gets a copy of what the
    // model remembers about this id. The copy is stored only if the append is accepted.
    let mut id_history = None;
    if let Some(thread) = fenced_thread(request)? {
        let mut history_of_fenced_id = tenant.id_histories.get(&thread).cloned().unwrap_or_default();
        mailbox::check_fence(&tenant.mailbox, &thread, request.fence.as_ref(), env.bug)?;
        check_fence(&mut history_of_fenced_id, request.fence.as_ref(), env.bug)?;
        id_history = Some((thread, history_of_fenced_id));
    }
    for (scope, expected) in &request.expect {
        let found = tenant.events.appended_count(scope);
        if found != *expected && env.bug != Some(Bug::EventsUnguarded) {
            return Err(Error::conflict(
                "counter",
                Some(Version::new(*expected, 1, 0)),
                Some(Version::new(found, 1, 0)),
            ));
        }
    }
    let scopes: Vec<_> = request.drafts.iter().flat_map(|draft| &draft.scopes).collect();
    let append_time =
        scopes.iter().filter_map(|scope| tenant.events.last_append_times.get(scope)).copied().fold(env.now, Ord::max);
    let scopes: Vec<Scope> = scopes.into_iter().cloned().collect();
    let mut ids = Vec::new();
    for draft in &request.drafts {
        let event = new_event(draft, commit_time.unwrap_or(append_time), env)?;
        ids.push(event.id.clone());
        if env.bug == Some(Bug::TopicsAreThreads) {
            tenant.events.push_to_threads_of_topics(&event)?;
        }
        tenant.events.push(event);
    }
    if let (Some(writer), Some(key)) = (&request.writer, &request.key) {
        let remembered = (request.drafts.clone(), ids.clone(), append_time);
        tenant.events.appends_by_key.insert((writer.clone(), key.clone()), remembered);
    }
    tenant.events.last_append_times.extend(scopes.into_iter().map(|scope| (scope, append_time)));
    tenant.id_histories.extend(id_history);
    let events = ids.iter().filter_map(|id| tenant.events.load(id, tenant_and_cursor_key)).collect();
    Ok(AppendedEvents::new(events, false))
}

/// Returns the drafts with sorted scopes. Drafts that differ only in the order of their scopes count as equal (EV-6).
fn with_sorted_scopes(drafts: &[NewEvent], bug: Option<Bug>) -> Vec<NewEvent> {
    let mut drafts = drafts.to_vec();
    for draft in &mut drafts {
        draft.scopes.sort();
        if bug == Some(Bug::TopicsNotInTheContent) {
            draft.scopes.retain(|scope| !matches!(scope, Scope::Topic(_)));
        }
    }
    drafts
}

pub(super) fn check_request(request: &AppendEvents, limits_and_bug: (&Limits, Option<Bug>)) -> Result<()> {
    let (limits, bug) = limits_and_bug;
    if request.drafts.is_empty() || (request.key.is_some() && request.writer.is_none()) {
        return Err(Error::invalid("events", "there is no event, or a key without a writer"));
    }
    check_limit("events", request.drafts.len() as u64, limits.commit_events)?;
    for draft in &request.drafts {
        let threads = draft.scopes.iter().filter(|scope| matches!(scope, Scope::Thread(_))).count();
        let runs = draft.scopes.iter().filter(|scope| matches!(scope, Scope::Run(_))).count();
        let topics: Vec<_> = draft.scopes.iter().filter(|scope| matches!(scope, Scope::Topic(_))).collect();
        let different_topics: BTreeSet<_> = topics.iter().collect();
        let names_one_twice = different_topics.len() < topics.len() && bug != Some(Bug::TopicNamedTwice);
        if bug != Some(Bug::NinthTopicAccepted) {
            check_limit("topics of an event", topics.len() as u64, 8)?;
        }
        if threads > 1 || runs > 1 || names_one_twice || draft.scopes.is_empty() || draft.schema_version == 0 {
            return Err(Error::invalid("event", "its scopes or its schema version are not allowed"));
        }
        let bytes = draft.payload.as_ref().map_or(0, |payload| payload.as_str().len());
        check_limit("record bytes", bytes as u64, limits.record_bytes)?;
    }
    let has_event_in = |scope: &Scope| request.drafts.iter().any(|draft| draft.scopes.contains(scope));
    if request.expect.iter().all(|(scope, _)| has_event_in(scope)) {
        fenced_thread(request).map(drop)
    } else {
        Err(Error::invalid("expect", "it names a scope that no event has"))
    }
}

fn new_event(draft: &NewEvent, at: Timestamp, env: &Environment<'_>) -> Result<Event> {
    let mut event: Event = record_from_json(&json!({
        "id": EventId::new(env.id_source.next_id())?, "created_at": at, "kind": draft.kind,
        "schema_version": draft.schema_version,
    }))?;
    for scope in &draft.scopes {
        match scope {
            Scope::Thread(id) => event.thread = Some(id.clone()),
            Scope::Run(id) => event.run = Some(id.clone()),
            Scope::Topic(id) => event.topics.push(id.clone()),
        }
    }
    event.topics.sort();
    if env.bug == Some(Bug::SecondTopicForgotten) {
        event.topics.truncate(1);
    }
    event.payload.clone_from(&draft.payload);
    event.visibility = draft.visibility;
    event.origin.clone_from(&draft.origin);
    event.causation_id.clone_from(&draft.causation_id);
    event.correlation_id.clone_from(&draft.correlation_id);
    Ok(event)
}
