//! What can be asked of events.

use serde::Serialize;

use super::{Event, EventVisibility, Scope};
use crate::{
    id::EventKind,
    log::Direction,
    page::{Cursor, PageRequest},
    time::Timestamp,
};

/// Which events are wanted. Everything that is set must hold (PG-9).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct EventFilter {
    /// Events that one of these may see.
    pub visibility: Option<Vec<EventVisibility>>,
    /// Events of one of these kinds.
    pub kinds: Option<Vec<EventKind>>,
    /// Appended before this time.
    pub created_before: Option<Timestamp>,
    /// Appended at or after this time.
    pub created_after: Option<Timestamp>,
}

impl EventFilter {
    /// What everybody may see, and nothing else (EV-27).
    #[must_use]
    pub fn public() -> Self {
        Self { visibility: Some(vec![EventVisibility::Public]), ..Self::default() }
    }

    /// Whether `event` passes.
    #[must_use]
    pub fn admits(&self, event: &Event) -> bool {
        self.visibility.as_ref().is_none_or(|wanted| wanted.contains(&event.visibility))
            && self.kinds.as_ref().is_none_or(|wanted| wanted.contains(&event.kind))
            && self.created_before.is_none_or(|time| event.created_at < time)
            && self.created_after.is_none_or(|time| event.created_at >= time)
    }
}

/// A list of the events of a scope, in its order. The cursor of any event of the scope continues it (EV-10).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventQuery {
    /// Whose.
    pub scope: Scope,
    /// Which ones.
    pub filter: EventFilter,
    /// The oldest first, or the newest.
    pub direction: Direction,
    /// Which page.
    pub page: PageRequest,
}

impl EventQuery {
    /// All events of `scope`, the oldest first.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self { scope, filter: EventFilter::default(), direction: Direction::Forward, page: PageRequest::default() }
    }

    /// The same for those that `filter` lets through.
    #[must_use]
    pub fn with_filter(mut self, filter: EventFilter) -> Self {
        self.filter = filter;
        self
    }

    /// The same in this direction.
    #[must_use]
    pub const fn with_direction(mut self, direction: Direction) -> Self {
        self.direction = direction;
        self
    }

    /// The same for this page.
    #[must_use]
    pub fn with_page(mut self, page: PageRequest) -> Self {
        self.page = page;
        self
    }
}

/// How a scope stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScopeInfo {
    /// How many events were ever appended.
    pub appended: u64,
    /// The sequence number of the newest event that was trimmed; 0 for none.
    pub floor: u64,
    /// How many events are there now.
    pub events: u64,
    /// Behind the last event; absent if none was ever appended.
    pub last: Option<Cursor>,
}

impl ScopeInfo {
    /// For stores.
    #[must_use]
    pub const fn new(appended: u64, floor: u64, last: Option<Cursor>) -> Self {
        Self { appended, floor, events: appended.saturating_sub(floor), last }
    }
}

/// Where a subscription begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With the first event that is there.
    First,
    /// Behind this event.
    After(Cursor),
    /// With the first event that is appended after the call returned (EV-15).
    Now,
}

/// A subscription to a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subscribe {
    /// To what.
    pub scope: Scope,
    /// From where.
    pub start: Start,
    /// To which events.
    pub filter: EventFilter,
}

impl Subscribe {
    /// To all events of `scope`.
    #[must_use]
    pub fn new(scope: Scope, start: Start) -> Self {
        Self { scope, start, filter: EventFilter::default() }
    }

    /// The same for those that `filter` lets through.
    #[must_use]
    pub fn with_filter(mut self, filter: EventFilter) -> Self {
        self.filter = filter;
        self
    }
}

/// Up to where a scope is trimmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrimBefore {
    /// What lies before this position: the event that the cursor is of, and all older ones. The cursor still works.
    Cursor(Cursor),
    /// The longest beginning whose events are all older.
    Time(Timestamp),
}

/// A removal of the oldest events of a scope.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrimRequest {
    /// Whose.
    pub scope: Scope,
    /// Up to where.
    pub before: TrimBefore,
    /// Say how many, and change nothing.
    pub dry_run: bool,
}

impl TrimRequest {
    /// Removes what lies before.
    #[must_use]
    pub const fn new(scope: Scope, before: TrimBefore) -> Self {
        Self { scope, before, dry_run: false }
    }

    /// The same without changing anything.
    #[must_use]
    pub const fn dry(mut self) -> Self {
        self.dry_run = true;
        self
    }
}

/// What a trim did, or would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Trimmed {
    /// How many events are gone from the scope, or would be.
    pub events: u64,
    /// The floor of the scope then.
    pub floor: u64,
}

impl Trimmed {
    /// For stores.
    #[must_use]
    pub const fn new(events: u64, floor: u64) -> Self {
        Self { events, floor }
    }
}
