//! Steps with events. Each runs on the store and on the model.

use std::{sync::Arc, time::Duration};

use store_core::{
    AppendEvents, Direction, Event, EventFilter, EventQuery, EventStore, EventVisibility, NewEvent, Page, PageRequest,
    Scope, Subscribe, SubscriptionStart, TrimBefore, TrimRequest,
};

use super::{
    numbered_values::{json_value, numbered_id},
    ops::{AppendEventsOp, EventFilterOp, EventOp, Op, ScopeOp},
    pair::{StepResult, StoreModelPair, expect_same},
    requests::{fence, millis_before, past_or_future},
};
use crate::{Failure, event::next_event, given::id};

/// How long a subscription may take to deliver a stored event.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes an append of events. `thread` is the thread of the events that belong to a thread but name none.
pub(super) fn new_append(ops: &[EventOp], thread: u8) -> AppendEvents {
    AppendEvents::new(ops.iter().map(|event| new_event(event, thread)))
}

fn new_event(op: &EventOp, thread: u8) -> NewEvent {
    let run = op.run.map(|run| Scope::Run(numbered_id("r", run)));
    let thread = Scope::Thread(numbered_id("t", op.thread.unwrap_or(thread)));
    let scopes = Some(thread).filter(|_| op.in_thread).into_iter().chain(run);
    let mut draft = NewEvent::new(numbered_id("kind", op.kind), scopes).with_visibility(visibility(op.kind));
    draft.payload = op.payload.map(json_value);
    draft.origin = op.payload.map(|number| numbered_id("origin", number));
    draft
}

fn visibility(number: u8) -> EventVisibility {
    EventVisibility::ALL.iter().cycle().nth(usize::from(number)).copied().unwrap_or_default()
}

pub(super) fn to_scope(op: ScopeOp) -> Scope {
    match op {
        ScopeOp::Thread(thread) => Scope::Thread(numbered_id("t", thread)),
        ScopeOp::Run(run) => Scope::Run(numbered_id("r", run)),
    }
}

pub(super) fn event_filter(op: &EventFilterOp, pair: &StoreModelPair) -> EventFilter {
    let mut filter = if op.public { EventFilter::public() } else { EventFilter::default() };
    filter.kinds = op.kind.map(|kind| vec![numbered_id("kind", kind)]);
    filter.created_before = op.before.map(|millis| millis_before(pair.now(), millis));
    filter.created_after = op.after.map(|millis| millis_before(pair.now(), millis));
    filter
}

impl StoreModelPair {
    /// Runs a step that is about events.
    pub(super) async fn run_event_step(&mut self, op: &Op) -> StepResult {
        let (store, model) = (Arc::clone(&self.store.events), Arc::clone(&self.model.events));
        match op {
            Op::AppendEvents(op) => {
                let request = self.append_request(op, &*model).await?;
                let appended = store.append_events(request.clone()).await;
                let first = appended.as_ref().ok().filter(|appended| !appended.deduplicated);
                self.set_model_time(first.and_then(|appended| appended.events.first()).map(|event| event.created_at));
                expect_same(&appended, &model.append_events(request).await)
            }
            Op::RepeatAppendEvents { which } => {
                let count = self.keyed_appends.len().max(1);
                let Some(request) = self.keyed_appends.get(usize::from(*which) % count).cloned() else { return Ok(()) };
                expect_same(&store.append_events(request.clone()).await, &model.append_events(request).await)
            }
            Op::Trim { scope: event_scope, index, older_millis, dry_run } => {
                let event_scope = to_scope(*event_scope);
                let (mut store_request, mut model_request) = match older_millis {
                    Some(millis) => {
                        let trim = TrimRequest::new(
                            event_scope,
                            TrimBefore::Time(past_or_future(self.now(), u16::from(*millis))),
                        );
                        (trim.clone(), trim)
                    }
                    None => {
                        let events = (
                            nth_newest_event(&*store, &event_scope, *index).await?,
                            nth_newest_event(&*model, &event_scope, *index).await?,
                        );
                        let (Some(store_event), Some(model_event)) = events else { return Ok(()) };
                        let cursor_of = |event: &Event| {
                            event.cursor(&event_scope).cloned().ok_or_else(|| Failure::new("an event has no cursor"))
                        };
                        let trim = |cursor| TrimRequest::new(event_scope.clone(), TrimBefore::Cursor(cursor));
                        (trim(cursor_of(&store_event)?), trim(cursor_of(&model_event)?))
                    }
                };
                store_request.dry_run = *dry_run;
                model_request.dry_run = *dry_run;
                expect_same(&store.trim_events(store_request).await, &model.trim_events(model_request).await)
            }
            Op::ReadScope { scope: event_scope, filter: op, index } => {
                let (event_scope, filter) = (to_scope(*event_scope), event_filter(op, self));
                expect_same(&store.load_scope(&event_scope).await, &model.load_scope(&event_scope).await)?;
                expect_same(
                    &store.count_events(&event_scope, &filter).await,
                    &model.count_events(&event_scope, &filter).await,
                )?;
                let events = (
                    nth_newest_event(&*store, &event_scope, *index).await?,
                    nth_newest_event(&*model, &event_scope, *index).await?,
                );
                let (Some(store_event), Some(model_event)) = events else { return Ok(()) };
                expect_same(&store.load_event(&store_event.id).await, &model.load_event(&model_event.id).await)
            }
            _ => Ok(()),
        }
    }

    async fn append_request(&mut self, op: &AppendEventsOp, model: &dyn EventStore) -> StepResult<AppendEvents> {
        let mut request = new_append(&op.events, 0);
        if let Some(key) = op.key {
            request = request.with_key(numbered_id("w", key / 2), numbered_id("k", key));
            self.keyed_appends.push(request.clone());
        }
        let expected = op.expect.zip(request.drafts.first().and_then(|draft| draft.scopes.first()).cloned());
        if let Some((behind, event_scope)) = expected {
            let count = model.load_scope(&event_scope).await?.appended;
            request = request.expecting(event_scope, count.saturating_sub(u64::from(behind)));
        }
        request.fence = op.fence.map(fence);
        Ok(request)
    }

    /// Checks that a subscription from the beginning of a scope delivers the same events as a list, in the same
    /// order.
    pub(super) async fn check_subscription(&self, event_scope: ScopeOp) -> StepResult {
        let (store, event_scope) = (&self.store.events, to_scope(event_scope));
        let info = store.load_scope(&event_scope).await?;
        let mut stream = store.subscribe(Subscribe::new(event_scope.clone(), SubscriptionStart::First)).await?.events;
        let mut delivered = Vec::new();
        for _ in 0..info.events {
            let event = tokio::time::timeout(DELIVERY_TIMEOUT, next_event(&mut stream)).await;
            let event = event.map_err(|_| Failure::new("a subscription delivered fewer events than the list"))?;
            delivered.push(event.ok_or_else(|| Failure::new("a subscription ended"))??);
        }
        let query = EventQuery::new(event_scope).with_page(PageRequest::first(1_000));
        let listed = store.list_events(query).await?;
        crate::check::expect_eq(delivered, listed.items).map_err(|why| why.about("a subscription and a list differ"))
    }
}

/// Returns one of the ten newest events of a scope. The newest event has the index 0.
async fn nth_newest_event(events: &dyn EventStore, event_scope: &Scope, index: u8) -> StepResult<Option<Event>> {
    let query = EventQuery::new(event_scope.clone()).with_direction(Direction::Backward);
    let page: Page<Event> = events.list_events(query.with_page(PageRequest::first(10))).await?;
    let index = usize::from(index) % page.items.len().max(1);
    Ok(page.items.into_iter().nth(index))
}

/// Returns an event without its id and its cursors, which differ between the store and the model.
pub(super) fn without_ids(event: &Event) -> Event {
    let mut event = event.clone();
    event.id = id("event");
    event.cursors = store_core::event::EventCursors::default();
    event
}
