//! Steps with events. Each runs on the store and on the model.

use std::{sync::Arc, time::Duration};

use store_core::{
    AppendEvents, Direction, Event, EventFilter, EventQuery, EventStore, EventVisibility, NewEvent, Page, PageRequest,
    Scope, Start, Subscribe, TrimBefore, TrimRequest,
};

use super::{
    draft::{ago, earlier, fence},
    names::{numbered_id, value},
    ops::{AppendEventsOp, EventFilterOp, EventOp, Op, ScopeOp},
    pair::{Outcome, Pair, expect_same},
};
use crate::{Failure, event::next, given::id};

/// How long a subscription may take to deliver a stored event.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes an append of events. Events that name no thread belong to `thread`.
pub(super) fn of_commit(op: &[EventOp], thread: u8) -> AppendEvents {
    AppendEvents::new(op.iter().map(|event| draft(event, thread)))
}

fn draft(op: &EventOp, thread: u8) -> NewEvent {
    let run = op.run.map(|run| Scope::Run(numbered_id("r", run)));
    let thread = Scope::Thread(numbered_id("t", op.thread.unwrap_or(thread)));
    let scopes = Some(thread).filter(|_| op.in_thread).into_iter().chain(run);
    let mut draft = NewEvent::new(numbered_id("kind", op.kind), scopes).with_visibility(visibility(op.kind));
    draft.payload = op.payload.map(value);
    draft.origin = op.payload.map(|number| numbered_id("origin", number));
    draft
}

fn visibility(number: u8) -> EventVisibility {
    EventVisibility::ALL.iter().cycle().nth(usize::from(number)).copied().unwrap_or_default()
}

pub(super) fn scope(op: ScopeOp) -> Scope {
    match op {
        ScopeOp::Thread(thread) => Scope::Thread(numbered_id("t", thread)),
        ScopeOp::Run(run) => Scope::Run(numbered_id("r", run)),
    }
}

pub(super) fn filter(op: &EventFilterOp, pair: &Pair) -> EventFilter {
    let mut filter = if op.public { EventFilter::public() } else { EventFilter::default() };
    filter.kinds = op.kind.map(|kind| vec![numbered_id("kind", kind)]);
    filter.created_before = op.before.map(|millis| earlier(pair.now(), millis));
    filter.created_after = op.after.map(|millis| earlier(pair.now(), millis));
    filter
}

impl Pair {
    /// Runs a step that is about events.
    pub(super) async fn event(&mut self, op: &Op) -> Outcome {
        let (real, model) = (Arc::clone(&self.real.events), Arc::clone(&self.model.events));
        match op {
            Op::AppendEvents(op) => {
                let request = self.append_request(op, &*model).await?;
                let appended = real.append_events(request.clone()).await;
                let first = appended.as_ref().ok().filter(|appended| !appended.deduplicated);
                self.set_model_time(first.and_then(|appended| appended.events.first()).map(|event| event.created_at));
                expect_same(&appended, &model.append_events(request).await)
            }
            Op::RepeatAppendEvents { which } => {
                let count = self.keyed_appends.len().max(1);
                let Some(request) = self.keyed_appends.get(usize::from(*which) % count).cloned() else { return Ok(()) };
                expect_same(&real.append_events(request.clone()).await, &model.append_events(request).await)
            }
            Op::Trim { scope: of, index, older, dry_run } => {
                let of = scope(*of);
                let (mut ours, mut theirs) = match older {
                    Some(millis) => {
                        let trim = TrimRequest::new(of, TrimBefore::Time(ago(self.now(), u16::from(*millis))));
                        (trim.clone(), trim)
                    }
                    None => {
                        let cursors = (nth(&*real, &of, *index).await?, nth(&*model, &of, *index).await?);
                        let (Some(ours), Some(theirs)) = cursors else { return Ok(()) };
                        let at = |event: &Event| {
                            event.cursor(&of).cloned().ok_or_else(|| Failure::new("an event has no cursor"))
                        };
                        let trim = |at| TrimRequest::new(of.clone(), TrimBefore::Cursor(at));
                        (trim(at(&ours)?), trim(at(&theirs)?))
                    }
                };
                ours.dry_run = *dry_run;
                theirs.dry_run = *dry_run;
                expect_same(&real.trim_events(ours).await, &model.trim_events(theirs).await)
            }
            Op::ReadScope { scope: of, filter: op, index } => {
                let (of, filter) = (scope(*of), filter(op, self));
                expect_same(&real.load_scope(&of).await, &model.load_scope(&of).await)?;
                expect_same(&real.count_events(&of, &filter).await, &model.count_events(&of, &filter).await)?;
                let (ours, theirs) = (nth(&*real, &of, *index).await?, nth(&*model, &of, *index).await?);
                let (Some(ours), Some(theirs)) = (ours, theirs) else { return Ok(()) };
                expect_same(&real.load_event(&ours.id).await, &model.load_event(&theirs.id).await)
            }
            _ => Ok(()),
        }
    }

    async fn append_request(&mut self, op: &AppendEventsOp, model: &dyn EventStore) -> Outcome<AppendEvents> {
        let mut request = of_commit(&op.events, 0);
        if let Some(key) = op.key {
            request = request.with_key(numbered_id("w", key / 2), numbered_id("k", key));
            self.keyed_appends.push(request.clone());
        }
        let expected = op.expect.zip(request.drafts.first().and_then(|draft| draft.scopes.first()).cloned());
        if let Some((behind, of)) = expected {
            let count = model.load_scope(&of).await?.appended;
            request = request.expecting(of, count.saturating_sub(u64::from(behind)));
        }
        request.fence = op.fence.map(fence);
        Ok(request)
    }

    /// Checks that a subscription from the beginning of a scope delivers the same events as a list, in the same
    /// order.
    pub(super) async fn check_subscription(&self, of: ScopeOp) -> Outcome {
        let (real, of) = (&self.real.events, scope(of));
        let info = real.load_scope(&of).await?;
        let mut stream = real.subscribe(Subscribe::new(of.clone(), Start::First)).await?.events;
        let mut given = Vec::new();
        for _ in 0..info.events {
            let event = tokio::time::timeout(PATIENCE, next(&mut stream)).await;
            let event = event.map_err(|_| Failure::new("a subscription delivered fewer events than the list"))?;
            given.push(event.ok_or_else(|| Failure::new("a subscription ended"))??);
        }
        let query = EventQuery::new(of).with_page(PageRequest::first(1_000));
        let listed = real.list_events(query).await?;
        crate::check::expect_eq(given, listed.items).map_err(|why| why.about("a subscription and a list differ"))
    }
}

/// Returns one of the ten newest events of a scope. The newest event has the index 0.
async fn nth(events: &dyn EventStore, of: &Scope, index: u8) -> Outcome<Option<Event>> {
    let query = EventQuery::new(of.clone()).with_direction(Direction::Backward);
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
