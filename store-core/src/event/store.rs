//! The contracts of events.

use std::{fmt, pin::Pin};

use async_trait::async_trait;
use futures_core::Stream;

use super::{
    AppendEvents, AppendedEvents, Event, EventFilter, EventQuery, RedactEvent, Scope, ScopeInfo, Subscribe,
    TrimRequest, Trimmed,
};
use crate::{
    error::Result,
    id::EventId,
    page::{Cursor, Page},
};

/// Appends events. Commits append events too, in their own atomic step.
#[async_trait]
pub trait EventWriter: Send + Sync {
    /// Appends all events or none. They are in the order given, with consecutive numbers in each scope (EV-3, EV-4).
    ///
    /// # Guarantees
    /// - An append that repeats the writer, key and drafts of an earlier append returns the events of the earlier
    ///   append and writes nothing (EV-5).
    /// - Of several appends that expect the same number of events in a scope, exactly one succeeds (EV-9).
    /// - No reader sees an event before one with a smaller sequence number in the same scope (EV-13).
    ///
    /// # Errors `Invalid` for a draft without a scope, with two threads, two runs or a topic twice, or with schema
    /// version 0 (EV-2), for a key without a writer (EV-7), and for an expectation about a scope that no draft has
    /// (EV-8); `IdempotencyMismatch` (EV-6); `Conflict` if the counter of a scope has another value (EV-8); `ClaimLost`
    /// and `StaleEpoch` under a fence (CM-44); `LimitExceeded`. After an `Unknown` outcome, repeat the append with its
    /// key.
    async fn append_events(&self, request: AppendEvents) -> Result<AppendedEvents>;
}

/// Reads events.
#[async_trait]
pub trait EventReader: Send + Sync {
    /// Loads an event. Returns none for an unknown id, and for an event that was trimmed from all its scopes (EV-1).
    ///
    /// # Errors
    /// Any error of reading the store, such as `Unavailable`, `Corrupt` or `Closed`.
    async fn load_event(&self, id: &EventId) -> Result<Option<Event>>;

    /// Lists the events of a scope strictly after the cursor (EV-10).
    ///
    /// Even with a filter, reading all pages returns every matching event exactly once (EV-11).
    ///
    /// # Errors
    /// `Invalid` for a limit out of range; `InvalidCursor` for a cursor of another scope; `CursorExpired` if events
    /// after the cursor were trimmed (EV-24).
    async fn list_events(&self, query: EventQuery) -> Result<Page<Event>>;

    /// Returns the number of events that are in the scope now and pass the filter (EV-12).
    ///
    /// Without a filter the cost does not depend on the number of events.
    ///
    /// # Errors
    /// Any error of reading the store, such as `Unavailable`, `Corrupt` or `Closed`.
    async fn count_events(&self, scope: &Scope, filter: &EventFilter) -> Result<u64>;

    /// Returns the counters of a scope (EV-12). For an unknown scope they are 0.
    ///
    /// # Errors
    /// Any error of reading the store, such as `Unavailable`, `Corrupt` or `Closed`.
    async fn load_scope(&self, scope: &Scope) -> Result<ScopeInfo>;
}

/// The events of a subscription: first those that are stored, then new ones. Each comes once, in order. The stream does
/// not end, except after an error.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Event>> + Send>>;

/// A subscription that has begun.
#[non_exhaustive]
pub struct Subscription {
    /// The position after which the subscription began; absent if the scope has no event before it.
    pub started_after: Option<Cursor>,
    /// The events.
    pub events: EventStream,
}

impl Subscription {
    /// Creates a subscription. Only implementations of a store need this.
    #[must_use]
    pub fn new(started_after: Option<Cursor>, events: EventStream) -> Self {
        Self { started_after, events }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("started_after", &self.started_after).finish_non_exhaustive()
    }
}

/// Subscribes to events.
#[async_trait]
pub trait EventSubscriber: Send + Sync {
    /// Subscribes to the events of a scope from a position on (EV-14).
    ///
    /// # Guarantees
    /// - No event is missed and none comes twice, however slow the subscriber is. The memory used is bounded (EV-17).
    /// - Dropping the stream releases everything that it holds (EV-20).
    ///
    /// # Errors
    /// `InvalidCursor` and `CursorExpired` for a start that is not valid (EV-19). An error inside the stream ends the
    /// stream; continue with a new subscription after the last event.
    async fn subscribe(&self, request: Subscribe) -> Result<Subscription>;
}

/// Removes old events.
#[async_trait]
pub trait EventRetention: Send + Sync {
    /// Removes the oldest events of a scope (EV-23).
    ///
    /// Sequence numbers are not used again. If a trimmed event has another scope, it stays in that scope (EV-25).
    ///
    /// # Errors
    /// `InvalidCursor` for a cursor of another scope. After an `Unknown` outcome, repeat the call.
    async fn trim_events(&self, request: TrimRequest) -> Result<Trimmed>;

    /// Removes the content of events for good, and returns how many events this changed (EV-28).
    ///
    /// An event keeps its place and its number in each scope, its kind and its times. The key of its append is
    /// forgotten, so a repeat of that append would append its drafts again. An event that does not exist is left out.
    /// The bytes are gone once the store has [reclaimed its space](crate::Store::reclaim_space).
    ///
    /// # Errors
    /// `LimitExceeded` for more than 1,000 in one call. After an `Unknown` outcome, repeat the call.
    async fn redact_events(&self, requests: Vec<RedactEvent>) -> Result<u64>;
}

/// All contracts of events.
pub trait EventStore: EventWriter + EventReader + EventSubscriber + EventRetention {}

impl<S: EventWriter + EventReader + EventSubscriber + EventRetention + ?Sized> EventStore for S {}
