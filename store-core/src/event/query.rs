//! Queries, subscriptions and requests to remove events or their content.

use serde::Serialize;

use super::{Event, EventVisibility, Scope};
use crate::{
    id::{EventId, EventKind},
    json::Json,
    log::Direction,
    page::{Cursor, PageRequest},
    time::Timestamp,
};

/// A filter for events. An event must match every field that is set (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EventFilter {
    /// Events with one of these visibilities.
    pub visibility: Option<Vec<EventVisibility>>,
    /// Events of one of these kinds.
    pub kinds: Option<Vec<EventKind>>,
    /// Events created before this time.
    pub created_before: Option<Timestamp>,
    /// Events created at or after this time.
    pub created_after: Option<Timestamp>,
}

impl EventFilter {
    /// Returns the filter for public events and no others (EV-27).
    #[must_use]
    pub fn public() -> Self {
        Self { visibility: Some(vec![EventVisibility::Public]), ..Self::default() }
    }

    /// Returns whether `event` passes the filter.
    #[must_use]
    pub fn admits(&self, event: &Event) -> bool {
        self.visibility.as_ref().is_none_or(|wanted| wanted.contains(&event.visibility))
            && self.kinds.as_ref().is_none_or(|wanted| wanted.contains(&event.kind))
            && self.created_before.is_none_or(|time| event.created_at < time)
            && self.created_after.is_none_or(|time| event.created_at >= time)
    }
}

/// A query for the events of a scope, in the order of their numbers. The cursor of any event of the scope can continue
/// the list (EV-10).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventQuery {
    /// The scope.
    pub scope: Scope,
    /// Which events to list.
    pub filter: EventFilter,
    /// Oldest first or newest first.
    pub direction: Direction,
    /// Which page to return.
    pub page: PageRequest,
}

impl EventQuery {
    /// Makes a query for all events of `scope`, oldest first.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self { scope, filter: EventFilter::default(), direction: Direction::Forward, page: PageRequest::default() }
    }

    /// Sets the filter.
    #[must_use]
    pub fn with_filter(mut self, filter: EventFilter) -> Self {
        self.filter = filter;
        self
    }

    /// Sets the direction.
    #[must_use]
    pub const fn with_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// Sets the page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }
}

/// The counters of a scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScopeInfo {
    /// The number of events ever appended.
    pub appended: u64,
    /// The sequence number of the newest trimmed event; 0 if none was trimmed.
    pub floor: u64,
    /// The number of events that are in the scope now.
    pub events: u64,
    /// The position after the last event; absent if no event was ever appended.
    pub last: Option<Cursor>,
}

impl ScopeInfo {
    /// Creates the counters of a scope, and computes its number of events. Only implementations of a store need this.
    #[must_use]
    pub const fn new(appended: u64, floor: u64, last: Option<Cursor>) -> Self {
        Self { appended, floor, events: appended.saturating_sub(floor), last }
    }
}

/// The position at which a subscription begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubscriptionStart {
    /// With the first event that is stored.
    First,
    /// After the event that the cursor belongs to.
    After(Cursor),
    /// With the first event that is appended after the call has returned (EV-15).
    Now,
}

/// A request for a subscription to a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subscribe {
    /// The scope.
    pub scope: Scope,
    /// The position at which the subscription begins.
    pub start: SubscriptionStart,
    /// Which events to deliver.
    pub filter: EventFilter,
}

impl Subscribe {
    /// Requests all events of `scope` from `start` on.
    #[must_use]
    pub fn new(scope: Scope, start: SubscriptionStart) -> Self {
        Self { scope, start, filter: EventFilter::default() }
    }

    /// Sets the filter.
    #[must_use]
    pub fn with_filter(mut self, filter: EventFilter) -> Self {
        self.filter = filter;
        self
    }
}

/// Which events of a scope a trim removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrimBefore {
    /// Trims the event that the cursor belongs to, and all older events. The cursor stays valid.
    Cursor(Cursor),
    /// Trims from the oldest event on, and stops before the first event that is not older than this time.
    Time(Timestamp),
}

/// A request to remove the oldest events of a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrimRequest {
    /// The scope.
    pub scope: Scope,
    /// Which events are removed.
    pub before: TrimBefore,
    /// Whether to report the number of events without removing them.
    pub dry_run: bool,
}

impl TrimRequest {
    /// Requests the removal of the events that `before` selects.
    #[must_use]
    pub const fn new(scope: Scope, before: TrimBefore) -> Self {
        Self { scope, before, dry_run: false }
    }

    /// Makes the request a dry run, which changes nothing.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// A request to remove the content of an event for good.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedactEvent {
    /// The event.
    pub id: EventId,
    /// What is put in the place of its payload.
    pub payload: Option<Json>,
}

impl RedactEvent {
    /// Requests that nothing stays of the content of an event.
    #[must_use]
    pub const fn new(id: EventId) -> Self {
        Self { id, payload: None }
    }

    /// Sets what is put in the place of the payload.
    #[must_use]
    pub fn with_payload(mut self, payload: Json) -> Self {
        self.payload = Some(payload);
        self
    }
}

/// The result of a trim or of a dry run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Trimmed {
    /// The number of events that were removed from the scope, or would be.
    pub events: u64,
    /// The floor of the scope after the trim.
    pub floor: u64,
}

impl Trimmed {
    /// Creates the result of a trim. Only implementations of a store need this.
    #[must_use]
    pub const fn new(events: u64, floor: u64) -> Self {
        Self { events, floor }
    }
}
