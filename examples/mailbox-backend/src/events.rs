//! Events, which come with documents: the feeds of layers are topics.

use std::collections::{BTreeMap, VecDeque};

use async_trait::async_trait;
use store_core::{
    AppendEvents, AppendedEvents, CursorKey, Direction, Event, EventFilter, EventId, EventKey, EventQuery, EventReader,
    EventRetention, EventSubscriber, EventWriter, Page, PageBuilder, Position, RedactEvent, Result, Scope, ScopeInfo,
    Subscribe, Subscription, TenantId, TrimRequest, Trimmed, WriterId,
    document::DocumentWriteView,
    event::{
        self, AppendOptions, EventKeyRecord, EventPlan, EventSource, EventView, Followers, ScopeState, StoredEvent,
    },
    length,
};

use crate::{data::TenantData, mailbox::MapTenant};

/// The maximum number of events that a subscriber reads at once.
const BATCH_EVENTS: usize = 256;

/// The events of a tenant.
#[derive(Debug, Default)]
pub(crate) struct StoredEvents {
    pub(crate) by_id: BTreeMap<EventId, StoredEvent>,
    scopes: BTreeMap<Scope, ScopeState>,
    keys: BTreeMap<(WriterId, EventKey), EventKeyRecord>,
    followers: Followers,
}

impl StoredEvents {
    /// Returns the events that a scope has now, by their numbers in it.
    fn of_scope(&self, scope: &Scope) -> BTreeMap<u64, &StoredEvent> {
        let floor = self.scopes.get(scope).map_or(0, |state| state.floor);
        let number_of = |stored: &StoredEvent| stored.scope_numbers().find(|(other, _)| other == scope);
        let numbered = self.by_id.values().filter_map(|stored| Some((number_of(stored)?.1, stored)));
        numbered.filter(|(number, _)| *number > floor).collect()
    }

    /// Writes a plan, and tells the subscribers.
    pub(crate) fn write(&mut self, plan: EventPlan) {
        self.keys.extend(plan.key.map(|(writer, key, record)| ((writer, key), record)));
        self.by_id.extend(plan.events.into_iter().map(|stored| (stored.event.id.clone(), stored)));
        self.followers.notify(plan.scopes.keys());
        self.scopes.extend(plan.scopes);
    }

    /// Removes the events of a scope up to a number. An event stays while another scope has it.
    fn trim(&mut self, scope: Scope, floor: u64) {
        let state = self.scopes.entry(scope).or_default();
        *state = std::mem::take(state).after_trim(floor);
        let scopes = &self.scopes;
        let is_kept = |(scope, number): (Scope, u64)| scopes.get(&scope).is_none_or(|state| number > state.floor);
        self.by_id.retain(|_, stored| stored.scope_numbers().any(is_kept));
    }

    /// Removes the content of an event, and forgets the key of its append. Returns whether it had any content.
    fn redact(&mut self, request: &RedactEvent) -> bool {
        let Some(stored) = self.by_id.get_mut(&request.id) else { return false };
        self.keys.retain(|_, record| !record.events.contains(&request.id));
        event::redacted(stored, request.payload.as_ref()).map(|redacted| *stored = redacted).is_some()
    }
}

/// Ends the subscriptions when the tenant is deleted or the store is closed.
impl Drop for StoredEvents {
    fn drop(&mut self) {
        self.followers.end(|_| true);
    }
}

/// What the rule of an append reads.
impl EventView for TenantData {
    fn scope(&self, scope: &Scope) -> Result<ScopeState> {
        Ok(self.events.scopes.get(scope).cloned().unwrap_or_default())
    }

    fn event_key(&self, writer: &WriterId, key: &EventKey) -> Result<Option<EventKeyRecord>> {
        Ok(self.events.keys.get(&(writer.clone(), key.clone())).cloned())
    }

    fn event(&self, id: &EventId) -> Result<Option<StoredEvent>> {
        Ok(self.events.by_id.get(id).cloned())
    }

    fn tenant_and_cursor_key(&self) -> (&TenantId, &CursorKey) {
        (&self.name, &self.cursor_key)
    }
}

#[async_trait]
impl EventWriter for MapTenant {
    async fn append_events(&self, request: AppendEvents) -> Result<AppendedEvents> {
        self.with_data(|data, decision_context| {
            let thread = event::fenced_thread(&request)?;
            let mut id_record = thread.as_ref().map(|thread| data.id_record(thread)).transpose()?;
            let options =
                AppendOptions { id_record: id_record.as_mut(), claims: Some(&*data), ..AppendOptions::default() };
            let decision = event::append(data, &request, decision_context, options)?;
            decision.plan.into_iter().for_each(|plan| data.events.write(plan));
            data.documents.id_records.extend(thread.zip(id_record));
            Ok(decision.answer)
        })
    }
}

#[async_trait]
impl EventReader for MapTenant {
    async fn load_event(&self, id: &EventId) -> Result<Option<Event>> {
        self.with_data(|data, _| {
            let found = data.events.by_id.get(id);
            Ok(found.map(|stored| event::event_with_cursors(stored, data.tenant_and_cursor_key())))
        })
    }

    async fn list_events(&self, query: EventQuery) -> Result<Page<Event>> {
        self.with_data(|data, _| {
            let (scope, cursors) = (&query.scope, data.tenant_and_cursor_key());
            let mut page = PageBuilder::new(query.page.checked_limit()?);
            let after = event::seq_of_cursor(scope, query.page.cursor.as_ref(), cursors)?;
            after.map_or(Ok(()), |after| event::check_cursor(&data.scope(scope)?, after))?;
            let mut in_order: Vec<_> = data.events.of_scope(scope).into_iter().collect();
            match query.direction {
                Direction::Forward => in_order.retain(|(number, _)| after.is_none_or(|after| *number > after)),
                Direction::Backward => {
                    in_order.retain(|(number, _)| after.is_none_or(|after| *number < after));
                    in_order.reverse();
                }
            }
            let _is_last = in_order.into_iter().all(|(number, stored)| {
                let bytes = stored.event.payload.as_ref().map_or(0, |payload| length(payload.as_str().len()));
                let item = query.filter.admits(&stored.event).then(|| event::event_with_cursors(stored, cursors));
                page.offer(Position::new(number, ""), bytes, item)
            });
            Ok(page.finish(|position| event::cursor_after(scope, position.rank, cursors)))
        })
    }

    async fn count_events(&self, scope: &Scope, filter: &EventFilter) -> Result<u64> {
        self.with_data(|data, _| {
            let events = data.events.of_scope(scope).into_values();
            Ok(length(events.filter(|stored| filter.admits(&stored.event)).count()))
        })
    }

    async fn load_scope(&self, scope: &Scope) -> Result<ScopeInfo> {
        self.with_data(|data, _| {
            let ScopeState { count, floor, .. } = data.scope(scope)?;
            let last = (count > 0).then(|| event::cursor_after(scope, count, data.tenant_and_cursor_key()));
            Ok(ScopeInfo::new(count, floor, last))
        })
    }
}

#[async_trait]
impl EventSubscriber for MapTenant {
    async fn subscribe(&self, request: Subscribe) -> Result<Subscription> {
        self.with_data(|data, _| {
            let (scope, cursors) = (&request.scope, data.tenant_and_cursor_key());
            let after = event::start_seq(&data.scope(scope)?, scope, &request.start, cursors)?;
            let started_after = (after > 0).then(|| event::cursor_after(scope, after, cursors));
            let changes = data.events.followers.follow(scope);
            let source = Source { tenant: self.clone(), scope: request.scope, filter: request.filter };
            Ok(Subscription::new(started_after, event::event_stream(source, after, changes)))
        })
    }
}

/// What a subscription reads from.
struct Source {
    tenant: MapTenant,
    scope: Scope,
    filter: EventFilter,
}

#[async_trait]
impl EventSource for Source {
    async fn read_next(&mut self, after: u64) -> Result<(u64, VecDeque<Event>)> {
        self.tenant.with_data(|data, _| {
            event::check_cursor(&data.scope(&self.scope)?, after)?;
            let (mut last, mut admitted) = (after, VecDeque::new());
            for (number, stored) in data.events.of_scope(&self.scope).range(after + 1..).take(BATCH_EVENTS) {
                last = *number;
                if self.filter.admits(&stored.event) {
                    admitted.push_back(event::event_with_cursors(stored, data.tenant_and_cursor_key()));
                }
            }
            Ok((last, admitted))
        })
    }
}

#[async_trait]
impl EventRetention for MapTenant {
    async fn trim_events(&self, request: TrimRequest) -> Result<Trimmed> {
        let TrimRequest { scope, before, dry_run, .. } = request;
        self.with_data(|data, _| {
            let state = data.scope(&scope)?;
            let events = data.events.of_scope(&scope).into_values().map(|stored| Ok(stored.event.clone()));
            let floor = event::last_trimmed_seq(&state, &scope, &before, data.tenant_and_cursor_key(), events)?;
            if !dry_run {
                data.events.trim(scope, floor);
            }
            Ok(Trimmed::new(floor - state.floor, floor))
        })
    }

    async fn redact_events(&self, requests: Vec<RedactEvent>) -> Result<u64> {
        event::check_redactions(&requests)?;
        self.with_data(|data, _| Ok(requests.iter().map(|request| u64::from(data.events.redact(request))).sum()))
    }
}
