//! Helpers that make, append, list and follow events.

use std::{sync::Arc, time::Duration};

use store_core::{
    AppendEvents, Cursor, Direction, Error, ErrorKind, Event, EventFilter, EventQuery, EventStore, EventStream,
    EventVisibility, NewEvent, PageRequest, Scope, Subscribe, SubscriptionStart,
};
use tokio::time::timeout;

use crate::{
    check::{Failure, Verdict, expect_eq, expect_kind},
    given::{Given, id, read_all_pages},
    log::writer::join,
};

/// The event store of the tenant `default`.
pub(super) fn events(given: &Given) -> Result<Arc<dyn EventStore>, Failure> {
    given.stores()?.events.ok_or_else(|| Failure::new("the store has no events"))
}

/// The scope of a thread.
pub(super) fn thread_scope(name: &str) -> Scope {
    Scope::Thread(id(name))
}

/// The scope of a run.
pub(super) fn run_scope(name: &str) -> Scope {
    Scope::Run(id(name))
}

/// An event of this kind in the thread `t`.
pub(super) fn thread_event(kind: &str) -> NewEvent {
    NewEvent::new(id(kind), [thread_scope("t")])
}

/// An event of this kind in the thread `t` and in the run `r`.
pub(super) fn thread_and_run_event(kind: &str) -> NewEvent {
    NewEvent::new(id(kind), [thread_scope("t"), run_scope("r")])
}

/// An event of this kind in the thread `t`, with a visibility.
pub(super) fn event_with_visibility(kind: &str, visibility: EventVisibility) -> NewEvent {
    thread_event(kind).with_visibility(visibility)
}

/// Appends an event of each kind to the thread `t`, each with its own call.
pub(super) async fn append_one_by_one(given: &Given, kinds: &[&str]) -> Result<Vec<Event>, Failure> {
    let mut appended = Vec::new();
    for kind in kinds {
        appended.extend(append_together(given, [thread_event(kind)]).await?);
    }
    Ok(appended)
}

/// Appends events in one call, and returns them as they were stored.
pub(super) async fn append_together(
    given: &Given,
    drafts: impl IntoIterator<Item = NewEvent>,
) -> Result<Vec<Event>, Failure> {
    let request = AppendEvents::new(drafts);
    Ok(events(given)?.append_events(request).await?.events)
}

/// Checks that an append is refused and adds no event to the thread `t` and the run `r`. Returns the error.
pub(super) async fn expect_append_refused(
    given: &Given,
    request: AppendEvents,
    kind: ErrorKind,
) -> Result<Error, Failure> {
    let events_before = (all_events(given, &thread_scope("t")).await?, all_events(given, &run_scope("r")).await?);
    let error = expect_kind(events(given)?.append_events(request).await, kind)?;
    expect_eq(
        (all_events(given, &thread_scope("t")).await?, all_events(given, &run_scope("r")).await?),
        events_before,
    )?;
    Ok(error)
}

/// Every event of a scope, read in small pages.
pub(super) async fn all_events(given: &Given, scope: &Scope) -> Result<Vec<Event>, Failure> {
    all_events_of_query(given, EventQuery::new(scope.clone())).await
}

/// Every event that a query finds, read in small pages.
pub(super) async fn all_events_of_query(given: &Given, query: EventQuery) -> Result<Vec<Event>, Failure> {
    let store = &events(given)?;
    read_all_pages(PageRequest::first(3), |page| store.list_events(query.clone().with_page(page))).await
}

/// Lists the events after a cursor, or, in the backward direction, those before it.
pub(super) async fn list_from_cursor(
    given: &Given,
    scope: &Scope,
    cursor: &Cursor,
    direction: Direction,
) -> store_core::Result<Vec<Event>> {
    let page = PageRequest::first(1_000).after(cursor.clone());
    let query = EventQuery::new(scope.clone()).with_direction(direction).with_page(page);
    let store = events(given).map_err(|failure| Error::unavailable(failure.to_string()))?;
    Ok(store.list_events(query).await?.items)
}

/// The kinds of events, separated by spaces.
pub(super) fn joined_kinds(events: &[Event]) -> String {
    join(events.iter().map(|event| event.kind.as_str()))
}

/// Checks that a scope holds events of these kinds, in this order.
pub(super) async fn expect_event_kinds(given: &Given, scope: &Scope, expected_kinds: &str) -> Verdict {
    expect_eq(joined_kinds(&all_events(given, scope).await?), expected_kinds)
}

/// Subscribes to a scope.
pub(super) async fn subscribe(given: &Given, scope: Scope, start: SubscriptionStart) -> Result<EventStream, Failure> {
    Ok(events(given)?.subscribe(Subscribe::new(scope, start)).await?.events)
}

/// The next `count` events of a subscription.
pub(super) async fn take_events(stream: &mut EventStream, count: usize) -> Result<Vec<Event>, Failure> {
    const MAX_WAIT: Duration = Duration::from_secs(20);
    let mut received = Vec::new();
    while received.len() < count {
        let next = timeout(MAX_WAIT, next_event(stream)).await;
        let timeout_failure = || Failure::new(format!("only {} of {count} events arrived", received.len()));
        match next.map_err(|_| timeout_failure())? {
            Some(event) => received.push(event?),
            None => return Err(Failure::new("the subscription ended")),
        }
    }
    Ok(received)
}

/// The next item of a stream.
pub(crate) async fn next_event(stream: &mut EventStream) -> Option<store_core::Result<Event>> {
    std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await
}

/// A filter for public events.
pub(super) fn public_events() -> EventFilter {
    EventFilter::public()
}
