//! The events of a thread, ordered by sequence number. The store generates the ids of events. The id that a case gives
//! to a record is therefore stored as the kind of the event.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use store_core::{
    AppendEvents, Cursor, Direction, Error, EventFilter, EventKind, EventQuery, EventStore, EventStream, Json,
    NewEvent, Page, PageRequest, Result, Scope, Subscribe, SubscriptionStart, TenantStores,
};

use super::{BOTH_DIRECTIONS, ListedRecord, RecordList};
use crate::given::id;

/// The number of the next event. It becomes the payload of the event, so that the order of events can be checked: a
/// listed event does not contain its sequence number.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

fn events(stores: &TenantStores) -> Result<Arc<dyn EventStore>> {
    stores.events.clone().ok_or_else(|| Error::unavailable("the store has no events"))
}

fn scope() -> Scope {
    Scope::Thread(id("events"))
}

/// The events of the thread `events`.
pub(super) struct EventsOfThread;

#[async_trait]
impl RecordList for EventsOfThread {
    fn name(&self) -> &'static str {
        "events"
    }

    fn directions(&self) -> &'static [Direction] {
        BOTH_DIRECTIONS
    }

    fn is_cursor_bound_to_direction(&self) -> bool {
        false
    }

    async fn write(&self, stores: &TenantStores, id: &str) -> Result<()> {
        let number = Json::of(&NEXT_NUMBER.fetch_add(1, Ordering::SeqCst))?;
        let draft = NewEvent::new(EventKind::new(id)?, [scope()]).with_payload(number);
        events(stores)?.append_events(AppendEvents::new([draft])).await.map(drop)
    }

    async fn has(&self, stores: &TenantStores, id: &str) -> Result<bool> {
        let mut filter = EventFilter::default();
        filter.kinds = Some(vec![EventKind::new(id)?]);
        Ok(events(stores)?.count_events(&scope(), &filter).await? > 0)
    }

    async fn list(&self, stores: &TenantStores, direction: Direction, page: PageRequest) -> Result<Page<ListedRecord>> {
        let query = EventQuery::new(scope()).with_direction(direction).with_page(page);
        let page = events(stores)?.list_events(query).await?;
        let number = |payload: Option<Json>| payload.and_then(|payload| payload.as_str().parse().ok());
        Ok(page.map(|event| ListedRecord::new(number(event.payload).unwrap_or_default(), event.kind)))
    }

    async fn subscribe_after(&self, stores: &TenantStores, after: Cursor) -> Option<Result<EventStream>> {
        let request = Subscribe::new(scope(), SubscriptionStart::After(after));
        let subscription = async { events(stores)?.subscribe(request).await };
        Some(subscription.await.map(|subscription| subscription.events))
    }
}
