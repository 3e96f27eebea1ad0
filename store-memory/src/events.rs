//! Events: appending, reading, subscribing, trimming.

use std::{collections::VecDeque, fmt, sync::Arc};

use async_trait::async_trait;
use store_core::{
    AppendEvents, AppendedEvents, Direction, Event, EventFilter, EventId, EventQuery, EventReader, EventRetention,
    EventSubscriber, EventWriter, Page, PageBuilder, Position, RedactEvent, Result, Scope, ScopeInfo, Subscribe,
    Subscription, TrimRequest, Trimmed,
    event::{self, AppendOptions, EventSource, StoredEvent},
    length,
};

use crate::{
    tenant::{Index, Tenant},
    view::TenantEventsView,
};

/// The maximum number of events that a subscriber reads from the store at once.
const BATCH_EVENTS: usize = 256;
/// A read takes no more events once their payloads exceed this number of bytes.
const BATCH_BYTES: usize = 4 << 20;

/// The events of a tenant.
#[derive(Clone)]
pub(crate) struct MemoryEvents {
    tenant: Arc<Tenant>,
}

impl MemoryEvents {
    pub(crate) const fn new(tenant: Arc<Tenant>) -> Self {
        Self { tenant }
    }

    fn to_event(&self, stored: &StoredEvent) -> Event {
        event::event_with_cursors(stored, self.tenant.tenant_and_cursor_key())
    }
}

#[async_trait]
impl EventWriter for MemoryEvents {
    async fn append_events(&self, request: AppendEvents) -> Result<AppendedEvents> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let Some(thread) = event::fenced_thread(&request)? else {
            return append(tenant, &mut tenant.index.write(), &request, AppendOptions::default());
        };
        tenant.slots.write(&thread, |slot| {
            let mut id_record = slot.id_record.clone();
            let mailbox = tenant.mailbox.read();
            let mut index = tenant.index.write();
            let options =
                AppendOptions { id_record: Some(&mut id_record), claims: Some(&*mailbox), ..AppendOptions::default() };
            let answer = append(tenant, &mut index, &request, options)?;
            index.put_id_record(&thread, slot, id_record);
            Ok(answer)
        })
    }
}

fn append(
    tenant: &Tenant,
    index: &mut Index,
    request: &AppendEvents,
    options: AppendOptions<'_>,
) -> Result<AppendedEvents> {
    let view = TenantEventsView { events: &index.events, tenant };
    let change = event::append(&view, request, tenant.decision_context(), options)?;
    if let Some(plan) = change.plan {
        index.events.apply(plan);
    }
    Ok(change.answer)
}

#[async_trait]
impl EventReader for MemoryEvents {
    async fn load_event(&self, id: &EventId) -> Result<Option<Event>> {
        let index = self.tenant.check_open()?.index.read();
        Ok(index.events.get(id).map(|stored| self.to_event(stored)))
    }

    async fn list_events(&self, query: EventQuery) -> Result<Page<Event>> {
        let tenant = self.tenant.check_open()?;
        let mut page = PageBuilder::new(query.page.checked_limit()?);
        let after = event::seq_of_cursor(&query.scope, query.page.cursor.as_ref(), tenant.tenant_and_cursor_key())?;
        let index = tenant.index.read();
        after.map_or(Ok(()), |after| event::check_cursor(&index.events.scope_state(&query.scope), after))?;
        for (seq, stored) in index.events.walk(&query.scope, after, query.direction) {
            let bytes = stored.event.payload.as_ref().map_or(0, |payload| payload.as_str().len());
            let item = query.filter.admits(&stored.event).then(|| stored.clone());
            if !page.offer(Position::new(seq, ""), length(bytes), item) {
                break;
            }
        }
        drop(index);
        let page =
            page.finish(|position| event::cursor_after(&query.scope, position.rank, tenant.tenant_and_cursor_key()));
        Ok(page.map(|stored| self.to_event(&stored)))
    }

    async fn count_events(&self, scope: &Scope, filter: &EventFilter) -> Result<u64> {
        let index = self.tenant.check_open()?.index.read();
        if *filter == EventFilter::default() {
            let state = index.events.scope_state(scope);
            return Ok(state.count - state.floor);
        }
        let events = index.events.walk(scope, None, Direction::Forward);
        Ok(length(events.filter(|(_, stored)| filter.admits(&stored.event)).count()))
    }

    async fn load_scope(&self, scope: &Scope) -> Result<ScopeInfo> {
        let tenant = self.tenant.check_open()?;
        let state = tenant.index.read().events.scope_state(scope);
        let last = (state.count > 0).then(|| event::cursor_after(scope, state.count, tenant.tenant_and_cursor_key()));
        Ok(ScopeInfo::new(state.count, state.floor, last))
    }
}

#[async_trait]
impl EventSubscriber for MemoryEvents {
    async fn subscribe(&self, request: Subscribe) -> Result<Subscription> {
        let tenant = self.tenant.check_open()?;
        let Subscribe { scope, start, filter, .. } = request;
        let index = tenant.index.read();
        let state = index.events.scope_state(&scope);
        let after = event::start_seq(&state, &scope, &start, tenant.tenant_and_cursor_key())?;
        let changes = index.events.followers.follow(&scope);
        drop(index);
        let started_after = (after > 0).then(|| event::cursor_after(&scope, after, tenant.tenant_and_cursor_key()));
        let source = SubscriptionSource { tenant_events: self.clone(), scope, filter };
        Ok(Subscription::new(started_after, event::event_stream(source, after, changes)))
    }
}

/// The source that a subscription reads from.
struct SubscriptionSource {
    tenant_events: MemoryEvents,
    scope: Scope,
    filter: EventFilter,
}

#[async_trait]
impl EventSource for SubscriptionSource {
    async fn read_next(&mut self, after: u64) -> Result<(u64, VecDeque<Event>)> {
        let index = self.tenant_events.tenant.check_open()?.index.read();
        event::check_cursor(&index.events.scope_state(&self.scope), after)?;
        let (mut last_seq, mut bytes, mut events) = (after, 0, VecDeque::new());
        for (seq, stored) in index.events.walk(&self.scope, Some(after), Direction::Forward).take(BATCH_EVENTS) {
            last_seq = seq;
            if self.filter.admits(&stored.event) {
                bytes += stored.event.payload.as_ref().map_or(0, |payload| payload.as_str().len());
                events.push_back(self.tenant_events.to_event(stored));
            }
            if bytes > BATCH_BYTES {
                break;
            }
        }
        Ok((last_seq, events))
    }
}

#[async_trait]
impl EventRetention for MemoryEvents {
    async fn trim_events(&self, request: TrimRequest) -> Result<Trimmed> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        let TrimRequest { scope, before, dry_run, .. } = request;
        let mut index = tenant.index.write();
        let state = index.events.scope_state(&scope);
        let floor = event::last_trimmed_seq(
            &state,
            &scope,
            &before,
            tenant.tenant_and_cursor_key(),
            index.events.events_oldest_first(&scope),
        )?;
        if !dry_run {
            index.events.trim(&scope, floor, tenant.now());
        }
        Ok(Trimmed::new(floor - state.floor, floor))
    }

    async fn redact_events(&self, requests: Vec<RedactEvent>) -> Result<u64> {
        let (tenant, _ticket) = self.tenant.begin_write()?;
        event::check_redactions(&requests)?;
        let mut index = tenant.index.write();
        Ok(requests.iter().map(|request| u64::from(index.events.redact(request))).sum())
    }
}

impl fmt::Debug for MemoryEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryEvents").field("tenant", &self.tenant.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use store_core::{
        AppendEvents, EventFilter, EventKind, Json, NewEvent, Scope, Store, TenantId, ThreadId, event::EventSource,
    };

    use super::{BATCH_BYTES, MemoryEvents, SubscriptionSource};
    use crate::{MemoryConfig, MemoryStore};

    #[tokio::test]
    async fn a_subscriber_reads_a_bounded_number_of_bytes_at_once() {
        let store = MemoryStore::open(MemoryConfig::default()).unwrap();
        let events = store.tenant(&TenantId::default_tenant()).unwrap().events.unwrap();
        let scope = Scope::Thread(ThreadId::new("t").unwrap());
        // The first two events fill a batch exactly. With the third event the batch exceeds the limit.
        for bytes in [BATCH_BYTES / 2, BATCH_BYTES / 2, 3, 3] {
            let payload = Json::parse(&format!("\"{}\"", "x".repeat(bytes - 2))).unwrap();
            let event = NewEvent::new(EventKind::new("k").unwrap(), [scope.clone()]).with_payload(payload);
            let _ = events.append_events(AppendEvents::new([event])).await.unwrap();
        }
        let tenant_events = MemoryEvents::new(store.tenants().unwrap().remove(0));
        let mut source = SubscriptionSource { tenant_events, scope, filter: EventFilter::default() };
        let (last_seq, events_read) = source.read_next(0).await.unwrap();
        assert_eq!((last_seq, events_read.len()), (3, 3));
        let (last_seq, events_read) = source.read_next(last_seq).await.unwrap();
        assert_eq!((last_seq, events_read.len()), (4, 1));
    }
}
